"""Reflexion that goes on: after a limit, on a thread, after a question to a person, after a crash."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from reflexion_support import good, kinds_of, tries, verdicts
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

from taograph import Context, Limits, checkpoints, tool
from taograph.graphs.loop import session
from taograph.graphs.reflexion import create_reflexion_graph
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person

# Going on


@both_ways
@pytest.mark.parametrize("steps", range(1, 8))
def test_a_run_that_a_limit_ended_goes_on_from_where_it_was(way: Way, steps: int, tmp_path: Path) -> None:
    counting = Counting()

    def looks(said: str) -> Any:
        return lambda messages: said if messages[-1].type == "tool" else asks(call("count", {"what": said}))

    model = tries(looks("bad"), looks("worse"), looks("good"))
    opened = checkpoints.open if way == "invoke" else checkpoints.aopen

    def graph(saver: Any) -> Any:
        return create_reflexion_graph(
            model, [counting.tool], evaluate=good, limits=Limits(steps=steps), checkpointer=saver
        )

    async def both() -> list[Any]:
        async with opened(f"sqlite:///{tmp_path}/runs.db") as saver:
            made = graph(saver)
            return [
                await made.ainvoke(question(), thread()),
                await made.ainvoke({"messages": []}, thread(), context=Context(steps=20)),
            ]

    if way == "ainvoke":
        cut, result = asyncio.run(both())
    else:
        with opened(f"sqlite:///{tmp_path}/runs.db") as saver:
            cut = graph(saver).invoke(question(), thread())
            result = graph(saver).invoke({"messages": []}, thread(), context=Context(steps=20))
    assert_ended(cut, "step_limit")
    assert_ended(result, "final")
    assert result["answer"] == "good"
    assert verdicts(result) == ["failed", "failed", "passed"]
    assert counting.calls == ["bad", "worse", "good"], "what a trial did before it was cut is not done again"
    assert result["reflections"] == ["Lesson 1.", "Lesson 2."]
    assert kinds_of(model).count("reflect") == 2
    assert result["stop"]["step"] == 8
    told = [m.text for m in result["messages"]]
    assert not any("The run ends here" in text or text == "So far: …" or "None of the trials" in text for text in told)
    assert [text for text in told if text in ("bad", "worse", "good")] == ["bad", "worse", "good"]
    for request in model.requests:
        assert_acceptable(request.messages)


@pytest.mark.parametrize("failing", range(1, 9))
def test_a_run_whose_model_was_down_goes_on(failing: int, saver: Any) -> None:
    inner, calls = tries("bad", "worse", "good").replies[0], itertools.count(1)

    def reply(messages: list[Any]) -> Any:
        if next(calls) == failing:
            raise ValueError("down")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_reflexion_graph(model, [lookup], evaluate=good, checkpointer=saver)
    assert_ended(graph.invoke(question(), thread()), "model_error")
    result = graph.invoke({"messages": []}, thread())
    assert_ended(result, "final", model)
    assert len(model.requests) == 9, "eight calls, and the one that failed"
    assert verdicts(result) == ["failed", "failed", "passed"]
    assert result["answer"] == "good"


def test_going_on_with_the_same_limit_is_refused(saver: Any) -> None:
    model = tries("bad", "good")
    graph = create_reflexion_graph(model, [lookup], evaluate=good, limits=Limits(steps=2), checkpointer=saver)
    graph.invoke(question(), thread())
    with pytest.raises(ValueError, match="the limit is the same"):
        graph.invoke({"messages": []}, thread())
    assert len(model.requests) == 2


@pytest.mark.parametrize("tokens", [240, 310])
def test_an_answer_that_a_limit_left_without_its_judge_is_judged_when_the_run_goes_on(tokens: int, saver: Any) -> None:
    model = tries("good", sample=lambda: "good", usage=(40, 10))
    graph = create_reflexion_graph(
        model, [lookup], evaluate="agreement", limits=Limits(tokens=tokens), checkpointer=saver
    )
    cut = graph.invoke(question(), thread())
    if tokens == 240:
        assert_ended(cut, "token_limit")
        assert cut["answer"] == "good"
        cut = graph.invoke({"messages": []}, thread(), context=Context(tokens=5000))
    assert_ended(cut, "final", model)
    assert verdicts(cut) == ["passed"]
    assert kinds_of(model) == ["trial 1"] * 2 + ["sample"] * 3


def test_a_judge_that_could_not_be_asked_is_asked_when_the_run_goes_on(saver: Any) -> None:
    judge = ScriptedModel(replies=["OK"])
    model = tries("answer")
    graph = create_reflexion_graph(model, [lookup], evaluate=judge, limits=Limits(steps=2), checkpointer=saver)
    assert_ended(graph.invoke(question(), thread()), "step_limit")
    result = graph.invoke({"messages": []}, thread(), context=Context(steps=9))
    assert_ended(result, "final")
    assert verdicts(result) == ["passed"]
    assert (len(model.requests), len(judge.requests)) == (2, 1)


def test_a_second_question_on_the_thread_begins_anew(saver: Any) -> None:
    model = tries("bad", "good")
    graph = create_reflexion_graph(model, [lookup], evaluate=good, checkpointer=saver)
    first = graph.invoke(question(), thread())
    asked = len(model.requests)
    second = graph.invoke(question("And now?"), thread())
    assert_ended(second, "final")
    assert verdicts(second) == ["failed", "passed"]
    assert second["reflections"] == ["Lesson 2."]
    assert len(second["children"]) == 2
    assert second["stop"]["step"] == 5
    assert second["spent"]["model_calls"] == 5
    request = model.requests[asked].messages
    assert_acceptable(request)
    assert request[-1].text == "And now?"
    assert [m.text for m in request[:-1]] == [m.text for m in first["messages"]]


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
def nothing_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    SENT.clear()
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.0)


def sends() -> ScriptedModel:
    def writes(answer: str) -> Any:
        return lambda messages: answer if messages[-1].type == "tool" else asks(call("send", {"to": answer}))

    return tries(writes("bad"), writes("good"))


def test_a_persons_word_is_asked_for_in_a_trial(saver: Any) -> None:
    model = sends()

    def graph() -> Any:
        return create_reflexion_graph(model, [send], evaluate=good, approve=["send"], checkpointer=saver)

    for answer in ("bad", "good"):
        result = graph().invoke(question() if answer == "bad" else Command(resume="approve"), thread())
        (asked,) = pending(result)
        assert asked.value["args"] == {"to": answer}
        assert answer not in SENT
    result = graph().invoke(Command(resume="approve"), thread())
    assert_ended(result, "final", model)
    assert SENT == ["bad", "good"]
    assert result["spent"]["tool_calls"] == 2
    assert kinds_of(model) == ["trial 1", "trial 1", "reflect", "trial 2", "trial 2"]


def test_a_rejection_that_stops_ends_the_run(saver: Any) -> None:
    graph = create_reflexion_graph(sends(), [send], evaluate=good, approve=["send"], checkpointer=saver)
    graph.invoke(question(), thread())
    result = graph.invoke(Command(resume={"decision": "reject", "reason": "no", "stop": True}), thread())
    assert_ended(result, "rejected")
    assert SENT == []


def test_approval_needs_a_checkpointer() -> None:
    model = sends()
    with pytest.raises(ValueError, match="there is no checkpointer"):
        create_reflexion_graph(model, [send], approve=["send"]).invoke(question())
    assert not model.requests


@both_ways
def test_a_question_to_a_person_surfaces_and_resumes(way: Way, tmp_path: Path) -> None:
    def asking(messages: list[Any]) -> Any:
        return (
            "good: " + messages[-1].text if messages[-1].type == "tool" else asks(call("ask_person", {"question": "?"}))
        )

    async def later() -> Any:
        async with checkpoints.aopen(f"sqlite:///{tmp_path}/a.db") as saver:
            graph = create_reflexion_graph(tries(asking), [ask_person], evaluate=good, checkpointer=saver)
            first = await graph.ainvoke(question(), thread())
            return first, await graph.ainvoke(Command(resume="blue"), thread())

    if way == "ainvoke":
        first, result = asyncio.run(later())
    else:
        with checkpoints.open(f"sqlite:///{tmp_path}/a.db") as saver:
            graph = create_reflexion_graph(tries(asking), [ask_person], evaluate=good, checkpointer=saver)
            first = graph.invoke(question(), thread())
            result = graph.invoke(Command(resume="blue"), thread())
    assert len(pending(first)) == 1
    assert_ended(result, "final")
    assert "blue" in result["answer"]


class Crash(BaseException):
    """What ends a process at once."""


@pytest.mark.parametrize("number", range(2, 9))
def test_what_was_paid_before_a_crash_is_not_paid_again(number: int, saver: Any) -> None:
    inner = sends().replies[0]
    calls = itertools.count(1)

    def reply(messages: list[Any]) -> Any:
        if next(calls) == number:
            raise Crash
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_reflexion_graph(
        model, [send], evaluate=lambda q, a, t: "no" if len(SENT) < 3 else None, checkpointer=saver
    )
    with pytest.raises(Crash):
        graph.invoke(question(), thread())
    result = graph.invoke(None, thread())
    assert_ended(result, "final")
    assert len(model.requests) == 9, "eight calls, and the one that the crash took"
    assert result["spent"]["model_calls"] in (8, 9)
    assert SENT == ["bad", "good", "good"]
    assert verdicts(result) == ["failed", "failed", "passed"]


def test_what_is_stored_is_read_back_where_only_plain_values_are() -> None:
    done = python_process(
        """
        import sys
        from taograph import checkpoints, Limits, Context
        from taograph.graphs.reflexion import create_reflexion_graph, Verdict
        from reflexion_support import tries
        from support import lookup
        def judge(question, answer, trajectory):
            return Verdict("good" in answer, "not good", 0.5)
        with checkpoints.open("sqlite://") as saver:
            graph = create_reflexion_graph(
                tries("bad", "worse", "good"), [lookup], evaluate=judge, limits=Limits(steps=5), checkpointer=saver
            )
            config = {"configurable": {"thread_id": "t"}}
            graph.invoke({"messages": [("user", "Where?")]}, config)
            result = graph.invoke({"messages": []}, config, context=Context(steps=20))
            print(result["answer"], [t["score"] for t in result["trials"]], result["stop"]["reason"])
        """,
        LANGGRAPH_STRICT_MSGPACK="true",
        PYTHONPATH=str(Path(__file__).parent),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "good [0.5, 0.5, 0.5] final"
