"""Checks of an answer: ``verify`` and ``require`` send the loop on, a bounded number of times."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Hang
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    Counting,
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    question,
    run,
    thread,
)

from taograph import Cancellation, Context, Limits, create_react_graph, stream_steps
from taograph.graphs.loop.trajectory import Trajectory
from taograph.models import FlatPrice, ScriptedModel, call, set_price


def says(*found: Any) -> Any:
    """A check that finds these things, one after the other, and the last for ever."""
    asked: list[tuple[str, Trajectory]] = []

    def check(answer: str, trajectory: Trajectory) -> Any:
        asked.append((answer, trajectory))
        return found[min(len(asked), len(found)) - 1]

    check.asked = asked  # type: ignore[attr-defined]
    return check


# --- a function --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [None, True, "", "  \n"])
@both_ways
def test_an_answer_that_holds_is_given(found: Any, way: Way) -> None:
    check = says(found)
    model = ScriptedModel(replies=[asks("Ada"), "Page 3."])
    result = run(way, create_react_graph(model, [lookup], verify=check), question("Where is Ada?"))
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    assert result["stop"]["detail"] == "the model answered"
    ((answer, trajectory),) = check.asked
    assert answer == "Page 3."
    assert trajectory.question == "Where is Ada?"
    assert trajectory.steps[0].observations[0].text == "Ada is in the book on page 3."


@both_ways
def test_an_objection_sends_the_loop_on(way: Way) -> None:
    model = ScriptedModel(replies=["Page 9.", asks("Ada"), "Page 3."])
    graph = create_react_graph(model, [lookup], verify=says("nothing was looked up", None))
    result = run(way, graph, question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    told = model.requests[1].messages[-1]
    assert isinstance(told, HumanMessage)
    assert "nothing was looked up" in str(told.content)
    assert "objects" not in result["stop"]["detail"]


def test_false_is_an_objection_with_words_the_model_can_act_on() -> None:
    model = ScriptedModel(replies=["Page 9.", "Page 3."])
    result = create_react_graph(model, [lookup], verify=says(False, True)).invoke(question())
    assert_ended(result, "final", model)
    assert "does not hold against the observations" in str(model.requests[1].messages[-1].content)


def test_a_check_that_always_objects_is_bounded_and_the_result_says_so() -> None:
    check = says("page 3 is missing")
    model = ScriptedModel(replies=["Page 7.", "Page 8.", "Page 9."])
    result = create_react_graph(model, [lookup], verify=check).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 9.", "the last answer stands"
    assert "still objects: page 3 is missing" in result["stop"]["detail"]
    assert len(check.asked) == 3


def test_events_tell_an_objection() -> None:
    model = ScriptedModel(replies=["Page 9.", "Page 3."])
    events = list(stream_steps(create_react_graph(model, [lookup], verify=says("look it up", None)), question()))
    (retried,) = [e for e in events if e["type"] == "retry"]
    assert retried["reason"] == "verify"
    assert "look it up" in retried["detail"]
    assert [e["text"] for e in events if e["type"] == "answer"] == ["Page 3."]


def test_on_the_last_step_the_answer_stands_with_the_objection_told() -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 9."])
    graph = create_react_graph(model, [lookup], verify=says("wrong page"), limits=Limits(steps=2))
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 9."
    assert "wrong page" in result["stop"]["detail"]


class AsyncCheck:
    async def __call__(self, answer: str, trajectory: Trajectory) -> Any:
        await asyncio.sleep(0)
        return None if answer == "Page 3." else "look again"


async def async_check(answer: str, trajectory: Trajectory) -> Any:
    await asyncio.sleep(0)
    return None if answer == "Page 3." else "look again"


async def with_option(answer: str, trajectory: Trajectory, *, right: str) -> Any:
    return None if answer == right else "look again"


ASYNC = {
    "function": async_check,
    "object": AsyncCheck(),
    "partial": functools.partial(with_option, right="Page 3."),
    "lambda": lambda answer, _: with_option(answer, _, right="Page 3."),
}


@pytest.mark.parametrize("check", ASYNC.values(), ids=ASYNC.keys())
@both_ways
def test_an_async_check(check: Any, way: Way) -> None:
    model = ScriptedModel(replies=["Page 9.", "Page 3."])
    result = run(way, create_react_graph(model, [lookup], verify=check), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    assert len(model.requests) == 2
    assert "not verified" not in result["stop"]["detail"]


@both_ways
def test_a_check_that_raises_is_no_objection_but_is_told(way: Way) -> None:
    def check(answer: str, trajectory: Trajectory) -> Any:
        raise KeyError("sk-secret-0123456789")

    model = ScriptedModel(replies=["Page 3."])
    result = run(way, create_react_graph(model, [lookup], verify=check), question())
    assert_ended(result, "final", model)
    assert "not verified: KeyError" in result["stop"]["detail"]
    assert "sk-secret" not in str(result)


@pytest.mark.parametrize("found", [0, 1, 17, ["wrong"], {"ok": True}, object()], ids=lambda v: type(v).__name__)
def test_a_check_that_answers_something_else_is_told_and_not_guessed_at(found: Any) -> None:
    model = ScriptedModel(replies=["Page 3."])
    result = create_react_graph(model, [lookup], verify=says(found)).invoke(question())
    assert_ended(result, "final", model)
    assert f"not verified: verify returned a {type(found).__name__}" in result["stop"]["detail"]


@both_ways
def test_a_check_that_hangs_is_cut_at_the_deadline(way: Way) -> None:
    released = threading.Event()

    def check(answer: str, trajectory: Trajectory) -> Any:
        released.wait(30)

    model = ScriptedModel(replies=["Page 3."])
    graph = create_react_graph(model, [lookup], verify=check, limits=Limits(seconds=0.5))
    begun = time.monotonic()
    result = run(way, graph, question())
    took = time.monotonic() - begun
    released.set()
    assert took < 10
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    assert "not verified: no time was left" in result["stop"]["detail"]


@both_ways
def test_an_async_check_that_hangs_is_cut_at_the_deadline(way: Way) -> None:
    async def check(answer: str, trajectory: Trajectory) -> Any:
        await asyncio.sleep(30)

    model = ScriptedModel(replies=["Page 3."])
    graph = create_react_graph(model, [lookup], verify=check, limits=Limits(seconds=0.5))
    begun = time.monotonic()
    result = run(way, graph, question())
    assert time.monotonic() - begun < 10
    assert_ended(result, "final", model)
    assert "no time was left" in result["stop"]["detail"]


def test_a_check_during_which_the_run_is_cancelled() -> None:
    with Cancellation() as cancel:

        def check(answer: str, trajectory: Trajectory) -> Any:
            cancel.request("enough")
            time.sleep(1)

        model = ScriptedModel(replies=["Page 3."])
        result = create_react_graph(model, [lookup], verify=check).invoke(question())
    assert result["answer"] == "Page 3."
    assert "not verified: the run was cancelled" in result["stop"]["detail"]


def test_the_objections_of_a_run_do_not_count_for_the_next() -> None:
    check = says("again", "again", "again", "again", None)
    model = ScriptedModel(replies=["1", "2", "3", "4", "5"])
    graph = create_react_graph(model, [lookup], verify=check, checkpointer=InMemorySaver())
    first = graph.invoke(question(), thread())
    second = graph.invoke(question("And now?"), thread())
    assert (first["answer"], second["answer"]) == ("3", "5")


# --- a model as the judge ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["OK", "ok.", " OK! ", "OK\nAll of it is there.", "<think>Hm.</think>OK"])
@both_ways
def test_a_judge_that_agrees(verdict: str, way: Way) -> None:
    judge = ScriptedModel(replies=[verdict], usage=(70, 2))
    model = ScriptedModel(replies=[asks("Ada"), "Page 3."], usage=(100, 10))
    result = run(way, create_react_graph(model, [lookup], verify=judge), question("Where is Ada?"))
    assert_ended(result, "final")
    (asked,) = judge.requests
    for part in ("Where is Ada?", "Ada is in the book on page 3.", "Page 3."):
        assert part in str(asked.messages[0].content)
    assert result["spent"]["model_calls"] == 3, "the judge's call is paid, too"
    assert result["spent"]["input_tokens"] == 270
    assert result["spent"]["output_tokens"] == 22


def test_a_judge_that_objects_sends_the_loop_on() -> None:
    judge = ScriptedModel(replies=["OK is not what this is: page 9 was never seen.", "OK"])
    model = ScriptedModel(replies=[asks("Ada"), "Page 9.", "Page 3."])
    result = create_react_graph(model, [lookup], verify=judge).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "Page 3."
    assert "page 9 was never seen" in str(model.requests[2].messages[-1].content)


@pytest.mark.parametrize("reply", ["", RuntimeError("down"), AIMessage("", additional_kwargs={"refusal": "No."})])
def test_a_judge_that_gives_no_verdict_is_told(reply: Any) -> None:
    judge = ScriptedModel(replies=[reply])
    model = ScriptedModel(replies=["Page 3."])
    result = create_react_graph(model, [lookup], verify=judge).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "Page 3."
    assert "not verified" in result["stop"]["detail"]


def test_a_judge_that_never_answers_is_cut_at_the_deadline() -> None:
    with FakeOpenAI(default=Hang()) as server:
        graph = create_react_graph(
            ScriptedModel(replies=["Page 3."]), [lookup], verify=f"{server.url}#judge", limits=Limits(seconds=1)
        )
        begun = time.monotonic()
        result = graph.invoke(question())
    assert time.monotonic() - begun < 15
    assert_ended(result, "final")
    assert "not verified: no time was left" in result["stop"]["detail"]


def test_the_judges_words_are_not_streamed_as_thoughts() -> None:
    judge = ScriptedModel(replies=["The page is unsupported.", "OK"])
    model = ScriptedModel(replies=["Page 9.", "Page 3."])
    events = list(stream_steps(create_react_graph(model, [lookup], verify=judge), question()))
    assert "unsupported" not in "".join(e["text"] for e in events if e["type"] == "thought_delta")


def test_a_judge_without_a_price_is_refused_where_a_cost_limit_is_set() -> None:
    set_price("priced", FlatPrice(1, 1))
    model = ScriptedModel(replies=["Page 3."], model_name="priced")
    judge = ScriptedModel(replies=["OK"], model_name="a judge nobody knows the price of")
    with pytest.raises(ValueError, match="a judge nobody knows"):
        create_react_graph(model, [lookup], verify=judge, limits=Limits(cost=1.0))
    graph = create_react_graph(model, [lookup], verify=judge)
    with pytest.raises(ValueError, match="a judge nobody knows"):
        graph.invoke(question(), context=Context(cost=1.0))
    assert model.requests == []


def test_the_judge_is_paid_at_its_own_price() -> None:
    set_price("cheap", FlatPrice(1, 1))
    set_price("dear", FlatPrice(1000, 1000))
    model = ScriptedModel(replies=["Page 3."], usage=(1000, 0), model_name="cheap")
    judge = ScriptedModel(replies=["OK"], usage=(1000, 0), model_name="dear")
    result = create_react_graph(model, [lookup], verify=judge).invoke(question())
    assert result["spent"]["cost"] == pytest.approx(0.001 + 1.0)


# --- required tools ----------------------------------------------------------------------------------------


@both_ways
def test_an_answer_before_the_required_tool_goes_back_once(way: Way) -> None:
    model = ScriptedModel(replies=["From memory: page 9.", asks("Ada"), "Page 3."])
    result = run(way, create_react_graph(model, [lookup], require=("lookup",)), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    assert result["stop"]["detail"] == "the model answered"
    assert "lookup" in str(model.requests[1].messages[-1].content)


def test_a_required_tool_that_is_never_called_is_told() -> None:
    model = ScriptedModel(replies=["Page 9.", "Still page 9."])
    result = create_react_graph(model, [lookup], require="lookup").invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Still page 9."
    assert "lookup was required and was not called" in result["stop"]["detail"]


def test_several_required_tools_and_only_what_is_missing_is_asked_for() -> None:
    counting = Counting()
    model = ScriptedModel(replies=[asks("Ada"), "Page 9.", asks(call("count", {"what": "x"})), "Page 3."])
    graph = create_react_graph(model, [lookup, counting.tool], require=("lookup", "count"))
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    reminder = str(model.requests[2].messages[-1].content)
    assert "count" in reminder
    assert "lookup" not in reminder


def test_a_required_tool_called_in_vain_was_not_called() -> None:
    """A call with arguments that do not fit never ran: an answer after it is still from memory."""
    model = ScriptedModel(replies=[asks(call("lookup", {"nam": "Ada"})), "Page 9.", asks("Ada"), "Page 3."])
    result = create_react_graph(model, [lookup], require=("lookup",)).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."


def test_a_tool_required_has_to_be_called_in_each_run() -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 3.", "Page 2.", asks("Bo"), "Page 2."])
    graph = create_react_graph(model, [lookup], require=("lookup",), checkpointer=InMemorySaver())
    graph.invoke(question(), thread())
    result = graph.invoke(question("And Bo?"), thread())
    assert_ended(result, "final")
    assert len(model.requests) == 5


def test_a_required_tool_missing_on_the_last_step() -> None:
    model = ScriptedModel(replies=["Page 9."])
    result = create_react_graph(model, [lookup], require=("lookup",), limits=Limits(steps=1)).invoke(question())
    assert_ended(result, "final", model)
    assert "lookup was required" in result["stop"]["detail"]


def test_events_tell_the_reminder() -> None:
    model = ScriptedModel(replies=["Page 9.", asks("Ada"), "Page 3."])
    events = list(stream_steps(create_react_graph(model, [lookup], require=("lookup",)), question()))
    assert [e["reason"] for e in events if e["type"] == "retry"] == ["required_tool"]


@pytest.mark.parametrize("require", ["search", ("lookup", "search"), ["Lookup"]])
def test_a_required_tool_that_is_none_is_refused_when_the_graph_is_built(require: Any) -> None:
    with pytest.raises(ValueError, match="require") as caught:
        create_react_graph(ScriptedModel(), [lookup], require=require)
    assert "lookup" in str(caught.value), "it names the tools there are"


def test_verify_and_require_together() -> None:
    model = ScriptedModel(replies=["Page 9.", asks("Ada"), "Page 9.", "Page 3."])
    graph = create_react_graph(model, [lookup], require=("lookup",), verify=says("page 9 is wrong", None))
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    assert_acceptable(result["messages"])
