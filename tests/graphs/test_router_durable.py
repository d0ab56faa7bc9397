"""The router that goes on: after a limit, on a thread, after a question to a person, after a crash."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from plan_support import Script
from router_support import HARD, LOOP, UNSURE, kinds_of, path, routed
from support import (
    Counting,
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    pending,
    python_process,
    question,
    thread,
)

from taograph import Cancellation, Context, Limits, checkpoints, tool
from taograph.graphs.router import create_router_graph
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person

pytestmark = pytest.mark.usefixtures("no_pauses")


# Going on


@both_ways
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_run_that_a_limit_ended_goes_on_from_where_it_was(way: Way, steps: int, tmp_path: Path) -> None:
    counting = Counting()

    def loop(messages: list[Any]) -> Any:
        return "found" if messages[-1].type == "tool" else asks(call("count", {"what": "x"}))

    model = routed(at_once=UNSURE, loop=loop)

    def graph(saver: Any) -> Any:
        return create_router_graph(
            model, [counting.tool], strategies=LOOP, limits=Limits(steps=steps), checkpointer=saver
        )

    async def both() -> Any:
        async with checkpoints.aopen(f"sqlite:///{tmp_path}/runs.db") as saver:
            cut = await graph(saver).ainvoke(question(HARD), thread())
            return cut, await graph(saver).ainvoke({"messages": []}, thread(), context=Context(steps=20))

    if way == "ainvoke":
        cut, result = asyncio.run(both())
    else:
        with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
            cut = graph(saver).invoke(question(HARD), thread())
            result = graph(saver).invoke({"messages": []}, thread(), context=Context(steps=20))
    assert_ended(cut, "step_limit")
    assert_ended(result, "final")
    assert result["answer"] == "found"
    assert counting.calls == ["x"], "what was done before is not done again"
    assert kinds_of(model).count("direct") == 1
    assert path(result) == (["direct", "react", "react"] if steps == 3 else ["direct", "react"])
    assert "the run goes on" in result["hops"][-1]["why"]
    told = [m.text for m in result["messages"]]
    assert not any("The run ends here" in text or text == "So far: …" for text in told)


def test_a_strategy_that_plans_is_begun_again_with_what_it_left(saver: Any) -> None:
    def plan() -> Script:
        return Script([("find it",), ("find it",)], ["planned"], {"find it": [asks("Ada"), asks("Bo"), "it is there"]})

    model = routed(plan=plan())
    graph = create_router_graph(
        model, [lookup], strategies=("plan_execute",), limits=Limits(steps=3), checkpointer=saver
    )
    assert_ended(graph.invoke(question(HARD), thread()), "step_limit")
    model.replies = routed(plan=plan()).replies
    result = graph.invoke({"messages": []}, thread(), context=Context(steps=30))
    assert_ended(result, "final")
    assert result["answer"] == "planned"
    assert path(result) == ["plan_execute", "plan_execute"]
    first = next(r for r in reversed(model.requests) if kinds_of(model)[model.requests.index(r)] == "plan")
    assert_acceptable(first.messages)


@pytest.mark.parametrize("failing", range(1, 5))
def test_a_run_whose_model_was_down_goes_on(failing: int, saver: Any) -> None:
    inner, calls = routed(at_once=UNSURE).replies[0], itertools.count(1)

    def reply(messages: list[Any]) -> Any:
        if next(calls) == failing:
            raise ValueError("down")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_router_graph(model, [lookup], checkpointer=saver)
    assert_ended(graph.invoke(question(HARD), thread()), "model_error")
    result = graph.invoke({"messages": []}, thread())
    assert_ended(result, "final", model)
    assert len(model.requests) == 5, "four calls, and the one that failed"
    assert result["answer"] == "found"
    assert result["spent"]["tool_calls"] == 1


def test_going_on_with_the_same_limit_is_refused(saver: Any) -> None:
    model = routed(at_once=UNSURE)
    graph = create_router_graph(model, [lookup], limits=Limits(steps=2), checkpointer=saver)
    graph.invoke(question(HARD), thread())
    with pytest.raises(ValueError, match="the limit is the same"):
        graph.invoke({"messages": []}, thread())
    assert len(model.requests) == 2


def test_a_second_question_begins_anew(saver: Any) -> None:
    model = routed(at_once=UNSURE)
    graph = create_router_graph(model, [lookup], checkpointer=saver)
    first = graph.invoke(question(HARD), thread())
    asked = len(model.requests)
    result = graph.invoke(question("lookup Bo"), thread())
    assert_ended(result, "final")
    assert path(result) == ["react"]
    assert result["spent"]["model_calls"] == 2
    request = model.requests[asked].messages
    assert_acceptable(request)
    assert [m.text for m in request[:-1]] == [m.text for m in first["messages"]]


def test_a_run_that_is_cancelled_before_it_begins_tells_nothing_of_the_one_before(saver: Any) -> None:
    graph = create_router_graph(routed(), [lookup], checkpointer=saver)
    graph.invoke(question(HARD), thread())
    with Cancellation() as cancel:
        cancel.request("no")
        result = graph.invoke(question("And now?"), thread())
    assert_ended(result, "cancelled")
    assert (result["hops"], result["children"]) == ([], [])


# A person, a crash


SENT: list[str] = []


@tool(effects="once")
def send(to: str) -> str:
    """Send a letter.

    Args:
        to: To whom.
    """
    SENT.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def sends(**more: Any) -> ScriptedModel:
    return routed(
        at_once=UNSURE,
        loop=lambda m: "It is sent." if m[-1].type == "tool" else asks(call("send", {"to": "Ann"})),
        **more,
    )


def test_a_persons_word_is_asked_for_in_a_strategy(saver: Any) -> None:
    model = sends()

    def graph() -> Any:
        return create_router_graph(model, [send], approve=["send"], checkpointer=saver)

    (asked,) = pending(graph().invoke(question(HARD), thread()))
    assert asked.value["tool"] == "send"
    assert SENT == []
    result = graph().invoke(Command(resume="approve"), thread())
    assert_ended(result, "final", model)
    assert SENT == ["Ann"]
    assert path(result) == ["direct", "react"]
    assert kinds_of(model) == ["classify", "direct", "react", "react"]


def test_a_rejection_that_stops_ends_the_run(saver: Any) -> None:
    graph = create_router_graph(sends(), [send], approve=["send"], checkpointer=saver)
    graph.invoke(question(HARD), thread())
    result = graph.invoke(Command(resume={"decision": "reject", "reason": "no", "stop": True}), thread())
    assert_ended(result, "rejected")
    assert path(result) == ["direct", "react"]


@both_ways
def test_a_question_to_a_person_in_a_nested_nested_graph_surfaces_and_resumes(way: Way, tmp_path: Path) -> None:
    def asking(messages: list[Any]) -> Any:
        return (
            "It is " + messages[-1].text if messages[-1].type == "tool" else asks(call("ask_person", {"question": "?"}))
        )

    model = routed(trials=asking, loop=asking)

    def graph(saver: Any) -> Any:
        return create_router_graph(model, [ask_person], strategies=("reflexion",), checkpointer=saver)

    async def later() -> Any:
        async with checkpoints.aopen(f"sqlite:///{tmp_path}/a.db") as saver:
            first = await graph(saver).ainvoke(question(HARD), thread())
            return first, await graph(saver).ainvoke(Command(resume="blue"), thread())

    if way == "ainvoke":
        first, result = asyncio.run(later())
    else:
        with checkpoints.open(f"sqlite:///{tmp_path}/a.db") as saver:
            first = graph(saver).invoke(question(HARD), thread())
            result = graph(saver).invoke(Command(resume="blue"), thread())
    assert len(pending(first)) == 1
    assert_ended(result, "final", model)
    assert "blue" in result["answer"]
    assert len(model.requests) == 2


class Crash(BaseException):
    """What ends a process at once."""


@pytest.mark.parametrize("number", range(1, 5))
def test_what_was_paid_before_a_crash_is_not_paid_again(number: int, saver: Any) -> None:
    inner, calls = sends().replies[0], itertools.count(1)

    def reply(messages: list[Any]) -> Any:
        if next(calls) == number:
            raise Crash
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_router_graph(model, [send], checkpointer=saver)
    with pytest.raises(Crash):
        graph.invoke(question(HARD), thread())
    result = graph.invoke(None, thread())
    assert_ended(result, "final")
    assert len(model.requests) == 5, "four calls, and the one that the crash took"
    assert SENT == ["Ann"]
    assert path(result) == ["direct", "react"]


def test_what_is_stored_is_read_back_where_only_plain_values_are() -> None:
    done = python_process(
        """
        from taograph import checkpoints, Limits, Context
        from taograph.graphs.router import create_router_graph
        from router_support import UNSURE, routed
        from support import lookup
        with checkpoints.open("sqlite://") as saver:
            graph = create_router_graph(routed(at_once=UNSURE), [lookup], limits=Limits(steps=2), checkpointer=saver)
            config = {"configurable": {"thread_id": "t"}}
            graph.invoke({"messages": [("user", "Who built it?")]}, config)
            result = graph.invoke({"messages": []}, config, context=Context(steps=20))
            print(result["answer"], [h["strategy"] for h in result["hops"]], result["stop"]["reason"])
        """,
        LANGGRAPH_STRICT_MSGPACK="true",
        PYTHONPATH=str(Path(__file__).parent),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "found ['direct', 'react'] final"
