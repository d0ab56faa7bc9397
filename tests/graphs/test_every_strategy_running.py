"""Every strategy as it runs: what it tells, what it stores, and how it is cancelled, cut, killed and gone on with."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from every_support import ANSWER, ASKED, NAMES, WITH_TOOLS, Actor, made
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from stream_support import Streams, of
from support import CLOSING, Way, assert_acceptable, assert_ended, both_ways, lookup, pending, question, run, thread

from taograph import Context, Limits, checkpoints, tool
from taograph.cancel import Cancellation
from taograph.graphs import STRATEGIES

every = pytest.mark.parametrize("name", STRATEGIES)
with_tools = pytest.mark.parametrize("name", WITH_TOOLS)
SECONDS = 20.0
SIDE_BY_SIDE = ("self_consistency", "plan_execute")
HEADER = {"type", "step", "thread", "run", "time", "path"}


def closings(model: Actor) -> int:
    return sum(CLOSING in str(request.messages[-1].content) for request in model.requests)


# What it tells


@every
def test_events(steps: Streams, name: str) -> None:
    graph = made(name, Actor(), [lookup], checkpointer=InMemorySaver())
    events = steps(graph, question(ASKED), thread())
    json.dumps(events)
    told = [event["type"] for event in events]
    assert told[0] == "run_started"
    assert told[-2:] == ["stop", "answer"]
    assert [told.count(kind) for kind in ("run_started", "stop", "answer")] == [1, 1, 1]
    assert all(set(event) >= HEADER and event["thread"] == "t1" for event in events)
    assert len({event["run"] for event in events if event["type"] != "child"}) == 1
    result = graph.get_state(thread()).values
    assert events[-2]["reason"] == result["stop"]["reason"] == "final"
    assert events[-1]["text"] == ANSWER
    assert {**events[-1]["spent"], "seconds": 0} == {**result["spent"], "seconds": 0}
    nested = of(events, "child")
    assert bool(nested) == bool(result.get("children"))
    for event in nested:
        assert event["path"]
        assert event["event"]["path"] == event["path"]
    inner = [event["event"]["type"] for event in nested]
    assert inner.count("run_started") == inner.count("answer") == len(result.get("children") or [])
    acted = [event.get("event", event) for event in events]
    calls = [event["id"] for event in acted if event["type"] == "action"]
    assert len(calls) == len(set(calls)) == (2 if name in WITH_TOOLS else 0)
    assert sorted(calls) == sorted(event["id"] for event in acted if event["type"] == "observation")


# What it stores


def strange(value: Any, where: str = "") -> list[str]:
    """What is neither plain, nor a message, nor LangGraph's own."""
    if value is None or type(value) in (str, int, float, bool, bytes):
        return []
    if type(value) is dict:
        return [found for key, one in value.items() for found in strange(one, f"{where}.{key}")]
    if type(value) in (list, tuple):
        return [found for one in value for found in strange(one, f"{where}[]")]
    if isinstance(value, BaseMessage):
        return strange([value.content, value.additional_kwargs, value.response_metadata], where)
    if type(value).__module__.startswith("langgraph."):
        return [f for name in ("arg", "value", "update") for f in strange(getattr(value, name, None), where)]
    return [f"{where}: {type(value)}"]


@both_ways
@every
def test_checkpoints_hold_plain_values_and_messages_only(way: Way, name: str) -> None:
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    result = run(way, made(name, Actor(), [lookup], checkpointer=saver), question(ASKED), thread())
    assert_ended(result, "final")
    spaces = list(saver.storage["t1"])
    assert len(spaces) == 1 + len(result.get("children") or [])
    for space in spaces:
        for stored in saver.list({"configurable": {"thread_id": "t1", "checkpoint_ns": space}}):
            values = dict(stored.checkpoint["channel_values"])
            assert strange(values) == []
            assert strange([write[2] for write in stored.pending_writes or ()]) == []


# A thread


@both_ways
@every
def test_a_second_question(way: Way, name: str) -> None:
    model = Actor()
    graph = made(name, model, [lookup], checkpointer=InMemorySaver())
    first = run(way, graph, question(ASKED), thread())
    asked = len(model.requests)
    second = run(way, graph, question(ASKED), thread())
    assert_ended(second, "final")
    assert second["stop"] == first["stop"]
    assert second["spent"]["model_calls"] == len(model.requests) - asked == asked
    assert second["spent"]["tool_calls"] == first["spent"]["tool_calls"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert len(second.get("children") or []) == len(first.get("children") or [])
    for request in model.requests:
        assert_acceptable(request.messages)


@both_ways
@every
@pytest.mark.parametrize("limit", ["steps", "tokens", "tool_calls"])
def test_a_run_that_a_limit_ended_goes_on(way: Way, name: str, limit: str) -> None:
    few, more = {"steps": (1, 40), "tokens": (16, 9000), "tool_calls": (0, 9)}[limit]
    model = Actor()
    graph = made(name, model, [lookup], limits=Limits(**{limit: few}), checkpointer=InMemorySaver())
    first = run(way, graph, question(ASKED), thread())
    asked = len(model.requests)
    if first["stop"]["reason"] == "final":  # it needs no more
        assert name in ("direct", "self_consistency", "router")
        return
    assert first["stop"]["reason"] == f"{limit.removesuffix('s')}_limit"
    with pytest.raises(ValueError, match="the limit is the same: raise it"):
        run(way, graph, {"messages": []}, thread())
    assert len(model.requests) == asked
    result = run(way, graph, {"messages": []}, thread(), context=Context(**{limit: more}))
    assert_ended(result, "final", model)
    assert result["answer"] == ANSWER
    assert [m.text for m in result["messages"]].count(ASKED) == 1
    assert first["answer"] == ANSWER or first["answer"] not in [m.text for m in result["messages"]]
    undisturbed = Actor()
    made(name, undisturbed, [lookup]).invoke(question(ASKED))
    # A step of a plan that was cut is begun anew, with what it had found; the router decides anew.
    more_turns = {"plan_execute": 2, "router": 1}.get(name, 0)
    assert len(model.requests) - closings(model) <= len(undisturbed.requests) + more_turns


@both_ways
@with_tools
def test_a_person_is_asked_within_a_graph_of_others(way: Way, name: str) -> None:
    model = Actor()
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", made(name, model, [lookup], approve=["lookup"]))
        .add_node("after", lambda state: {"messages": [("user", "Thanks.")]})
        .add_edge(START, "agent")
        .add_edge("agent", "after")
        .add_edge("after", END)
        .compile(checkpointer=InMemorySaver())
    )
    result = run(way, outer, question(ASKED), thread())
    for answer in ("approve", {"decision": "edit", "args": {"name": "Cy"}}):
        waiting = pending(result)
        assert {one.value["tool"] for one in waiting} == {"lookup"}
        result = run(way, outer, Command(resume={waiting[0].id: answer}), thread())
    assert not pending(result)
    assert_acceptable(result["messages"])
    assert [m.text for m in result["messages"]][-2:] == [ANSWER, "Thanks."]
    observed = [m.text for m in result["messages"] if m.type == "tool"]
    assert sum("Cy is in the book" in text for text in observed) == 1
    assert len(observed) == 2


@both_ways
@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "router"])
def test_each_is_run_by_the_router(way: Way, name: str) -> None:
    model = Actor()
    result = run(way, STRATEGIES["router"](model, [lookup], strategies=[name]), question(ASKED))
    assert_ended(result, "final", model)
    assert (result["answer"], result["stop"]["detail"]) == (ANSWER, f"{name} answered")
    (child,) = result["children"]
    assert {**child["spent"], "seconds": 0} == {**result["spent"], "seconds": 0}
    assert child["stop"]["step"] == result["stop"]["step"]


# Cut short


@both_ways
@every
def test_cancelled_at_each_call_of_the_model(way: Way, name: str) -> None:
    calls = 9
    for at in range(calls):
        model, cancel, waits = Actor(), Cancellation(), threading.Event()

        def before(number: int, at: int = at, cancel: Any = cancel, waits: Any = waits) -> None:
            if number == at:
                cancel.request("enough")
            if number >= at:
                waits.wait(0 if way == "ainvoke" else SECONDS)  # it does not come back

        model.before = before
        if at == 0:
            cancel.request("enough")
        with cancel:
            result = run(way, made(name, model, [lookup]), question(ASKED))
        waits.set()
        asked = model._begun
        if asked < at:
            assert_ended(result, "final")
            return
        if result["stop"]["reason"] == "final":
            # Nothing waits the async way, so the last reply may come; and the votes there are may settle the answer.
            assert way == "ainvoke" or name == "self_consistency"
            continue
        assert_ended(result, "cancelled")
        assert "enough" in result["stop"]["detail"]
        assert asked <= at + (name in SIDE_BY_SIDE and at > 0)
        assert closings(model) == 0
    raise AssertionError("it asks more often than that")


@both_ways
@every
def test_the_time_is_over_while_the_model_is_asked(way: Way, name: str) -> None:
    model = Actor(delay=SECONDS)
    limits = Limits(seconds=0.15, reserve_seconds=0.0)
    result = run(way, made(name, model, [lookup], limits=limits), question(ASKED))
    assert_ended(result, "deadline")
    assert "Nothing was found out yet" in result["answer"]


@both_ways
@with_tools
def test_the_time_is_over_while_a_tool_runs(way: Way, name: str) -> None:
    waits = threading.Event()

    @tool(name="lookup", effects="none")
    def hangs(name: str) -> str:
        """Look a name up.

        Args:
            name: What to look up.
        """
        waits.wait(SECONDS)
        return name

    model = Actor()
    result = run(way, made(name, model, [hangs], limits=Limits(seconds=0.4)), question(ASKED))
    waits.set()
    assert_ended(result, "deadline", model)
    assert closings(model) == 1
    assert result["spent"]["tool_calls"] >= 1


# Killed


class Killed(Exception):  # noqa: N818 - what happens
    """The process dies."""

    taograph_fatal = True


class KilledOutright(BaseException):
    """The process dies, as by a signal."""


def on_file(way: Way, name: str, model: Actor, file: Path, given: Any) -> dict[str, Any]:
    """Run on a database, as a process of its own would."""
    url = f"sqlite:///{file}"
    if way == "invoke":
        with checkpoints.open(url) as saver:
            return made(name, model, [lookup], checkpointer=saver).invoke(given, thread())

    async def runs() -> dict[str, Any]:
        async with checkpoints.aopen(url) as saver:
            return await made(name, model, [lookup], checkpointer=saver).ainvoke(given, thread())

    return asyncio.run(runs())


@both_ways
@every
def test_killed_at_each_call_of_the_model(way: Way, name: str, tmp_path: Path) -> None:
    undisturbed = Actor()
    wanted = made(name, undisturbed, [lookup]).invoke(question(ASKED))
    # LangChain takes what is no Exception for a reply, the async way.
    dies: type[BaseException] = KilledOutright if way == "invoke" else Killed
    for at in range(1, len(undisturbed.requests) + 1):
        model, file = Actor(), tmp_path / f"{at}.db"

        def before(number: int, at: int = at) -> None:
            if number == at:
                raise dies

        model.before = before
        with pytest.raises(dies):
            on_file(way, name, model, file, question(ASKED))
        result = on_file(way, name, model, file, None)
        assert_ended(result, "final", model)
        for key in ("answer", "stop"):
            assert result[key] == wanted[key]
        assert {**result["spent"], "seconds": 0} == {**wanted["spent"], "seconds": 0}
        assert [(m.type, m.text) for m in result["messages"]] == [(m.type, m.text) for m in wanted["messages"]]
        if name != "self_consistency":  # whose samples are all asked the same
            asked = Counter(told(request) for request in model.requests)
            assert set(asked.values()) == {1}, f"killed at {at}"


def told(request: Any) -> str:
    """What a request was, without the ids that are new each time."""
    said = [
        (m.type, m.text, [(c["name"], c["args"]) for c in m.tool_calls] if isinstance(m, AIMessage) else [])
        for m in request.messages
    ]
    return json.dumps([said, request.tools])


def test_the_names_of_the_task() -> None:
    """What this file and the one beside it rest on: the model does what the question asks."""
    model = Actor()
    made("react", model, [lookup]).invoke(question(ASKED))
    assert [m.text.split()[0] for m in model.requests[-1].messages if m.type == "tool"] == list(NAMES)
