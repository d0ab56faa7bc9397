"""Sub-runs: what a run has left is shared by its parts, side by side and nested, and never exceeded."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from stream_support import Streams, of
from subrun_support import MANY, Make, one_level, part_of, parts_of, turns, two_levels
from support import (
    Counting,
    Way,
    asks,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    both_ways,
    closes_or,
    lookup,
    pending,
    question,
    run,
    thread,
)

from taograph import Context, Limits, checkpoints, tool
from taograph.cancel import Cancellation
from taograph.graphs.loop.state import Input, Output
from taograph.models import FlatPrice, ScriptedModel, call, set_price
from taograph.tools.person import ask_person

levels = pytest.mark.parametrize("make", [one_level, two_levels])


# Limits


@both_ways
@levels
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13])
def test_steps_are_shared_exactly(way: Way, make: Make, steps: int) -> None:
    model = asks_for_ever()
    result = run(way, make(model, [lookup], limits=Limits(steps=steps)), question())
    assert_ended(result, "step_limit", model)
    assert turns(model) == result["stop"]["step"] == steps
    assert all(child["shared"] for child in result["children"])
    assert sum(child["stop"]["step"] for child in result["children"]) == steps


@both_ways
@levels
@pytest.mark.parametrize("calls", [0, 1, 4, 7, 12])
def test_tool_calls_are_shared_exactly(way: Way, make: Make, calls: int) -> None:
    counted = Counting()
    model = asks_for_ever("count", "what", parallel=3)
    result = run(way, make(model, [counted.tool], limits=Limits(steps=100, tool_calls=calls)), question())
    assert_ended(result, "tool_call_limit", model)
    assert len(counted.calls) == result["spent"]["tool_calls"] == calls


@both_ways
@levels
@pytest.mark.parametrize("tokens", [15, 60, 100, 200])
def test_tokens_are_shared_up_to_the_turns_in_flight(way: Way, make: Make, tokens: int) -> None:
    """A turn takes 15, and four parts may each be in one when the last is gone; nobody takes another."""
    model = asks_for_ever()
    model.usage = (10, 5)
    result = run(way, make(model, [lookup], limits=Limits(steps=100, tokens=tokens)), question())
    assert_ended(result, "token_limit", model)
    assert result["spent"]["input_tokens"] + result["spent"]["output_tokens"] <= tokens + 3 * 15
    assert turns(model) <= tokens / 15 + 3


@levels
def test_money_is_shared_up_to_the_turns_in_flight(make: Make) -> None:
    set_price("subrun-priced", FlatPrice(input=1_000_000.0, output=0.0))
    model = asks_for_ever()
    model.model_name, model.usage = "subrun-priced", (1, 0)
    result = run("invoke", make(model, [lookup], limits=Limits(steps=100, cost=10.0)), question())
    assert_ended(result, "cost_limit", model)
    assert result["spent"]["cost"] == len(model.requests) <= 10 + 3


@both_ways
@levels
def test_time_is_shared(way: Way, make: Make) -> None:
    """Each part would take a hundred turns; all are cut when the time of the whole is over."""
    model = asks_for_ever()
    model.delay = 0.05
    result = run(way, make(model, [lookup], limits=Limits(steps=None, seconds=0.5), own=Limits(steps=100)), question())
    assert_ended(result, "deadline")
    assert {child["stop"]["reason"] for child in result["children"]} == {"deadline"}
    assert all(child["shared"] for child in result["children"])


@levels
def test_nothing_left_is_nothing_asked(make: Make) -> None:
    """A run whose tokens are gone before its parts begin does not begin them."""
    model = asks_for_ever()
    model.usage = (10, 5)
    graph = make(model, [lookup], limits=Limits(steps=100, tokens=15), checkpointer=InMemorySaver())
    before = graph.invoke(question(), thread())["spent"]
    spent = before["input_tokens"] + before["output_tokens"]  # by how much parts side by side overshoot differs
    assert spent <= 15 + 3 * 15
    asked = len(model.requests)
    result = graph.invoke({"messages": []}, thread(), context=Context(tokens=31 + spent))
    assert_ended(result, "token_limit")
    assert len(model.requests) - asked <= 5  # one for each part, and the closing answer


@both_ways
@levels
def test_a_part_that_ends_by_a_limit_of_its_own_does_not_end_the_whole(way: Way, make: Make) -> None:
    model = asks_for_ever()
    result = run(way, make(model, [lookup], own=Limits(steps=2, closing=False)), question())
    assert_ended(result, "final", model)
    assert turns(model) == result["stop"]["step"] == 8
    assert not any(child["shared"] for child in result["children"])


@both_ways
@levels
@pytest.mark.parametrize("recursion", range(2, 16))
def test_no_recursion_limit_raises(way: Way, make: Make, recursion: int) -> None:
    model = asks_for_ever()
    result = run(way, make(model, [lookup], own=Limits(steps=3)), question(), {"recursion_limit": recursion})
    assert result["stop"]["reason"] in ("final", "step_limit")
    assert_ended(result, result["stop"]["reason"], model)


# Going on, with more; a limit that the context sets


@both_ways
@levels
@pytest.mark.parametrize(("steps", "more"), [(1, 2), (3, 9), (6, 10)])
def test_a_raised_limit_is_used_up_and_no_more(way: Way, make: Make, steps: int, more: int) -> None:
    model = asks_for_ever()
    graph = make(model, [lookup], limits=Limits(steps=steps), checkpointer=InMemorySaver())
    run(way, graph, question(), thread())
    result = run(way, graph, {"messages": []}, thread(), context=Context(steps=more))
    assert_ended(result, "step_limit")
    assert turns(model) == result["stop"]["step"] == more
    assert result["spent"]["model_calls"] == len(model.requests)


@levels
def test_what_the_context_says_holds_for_the_whole(make: Make) -> None:
    model = asks_for_ever()
    result = make(model, [lookup]).invoke(question(), context=Context(steps=7))
    assert_ended(result, "step_limit", model)
    assert turns(model) == 7


@both_ways
@levels
def test_another_turn_has_the_limits_anew(way: Way, make: Make) -> None:
    model = asks_for_ever()
    graph = make(model, [lookup], limits=Limits(steps=5), checkpointer=InMemorySaver())
    first = run(way, graph, question(), thread())
    result = run(way, graph, question("And?"), thread())
    assert_ended(result, "step_limit")
    assert result["stop"]["step"] == 5
    assert turns(model) == 10
    assert len(result["children"]) == len(first["children"])


# What a parent knows of its parts


@both_ways
def test_the_record_of_a_part(way: Way) -> None:
    model = ScriptedModel(replies=[closes_or(lambda m: "yes" if m[-1].type == "tool" else asks("Ada"))], repeat=True)
    model.usage = (10, 5)
    result = run(way, one_level(model, [lookup]), question("it"))
    assert_ended(result, "final", model)
    assert sorted(child["about"] for child in result["children"]) == [f"part {n}" for n in range(1, 5)]
    for child in result["children"]:
        assert child["name"] == "react"
        assert child["called"] == ["lookup"]
        assert child["stop"] == {"reason": "final", "detail": "the model answered", "step": 2}
        assert {**child["spent"], "seconds": 0} == {
            "model_calls": 2,
            "tool_calls": 1,
            "input_tokens": 20,
            "output_tokens": 10,
            "cached_tokens": 0,
            "cost": 0.0,
            "seconds": 0,
        }
    assert result["spent"]["model_calls"] == 8
    assert result["spent"]["input_tokens"] == 80


@levels
def test_a_tool_that_a_part_has_called_is_called(make: Make) -> None:
    model = ScriptedModel(replies=[lambda m: "yes" if m[-1].type == "tool" else asks("Ada")], repeat=True)
    assert make(model, [lookup], require=["lookup"]).invoke(question())["stop"]["detail"] == "put together"
    result = make(ScriptedModel(replies=["no"], repeat=True), [lookup], require=["lookup"]).invoke(question())
    assert "lookup" in result["stop"]["detail"] or result["stop"]["reason"] != "final"


@both_ways
def test_a_part_that_raises_is_a_record_and_its_siblings_stay(way: Way) -> None:
    def fails(state: Any) -> dict[str, Any]:
        if part_of(state["messages"]) == "part 2":
            raise RuntimeError("a bug, with api_key=sk-1234567890abcdefghij")
        return {"messages": [("ai", "fine")], "answer": "fine", "stop": {"reason": "final", "detail": "ok", "step": 0}}

    child = StateGraph(Output, input_schema=Input).add_node("work", fails).add_edge(START, "work").compile(name="other")
    child.limits = MANY  # type: ignore[attr-defined]
    result = run(way, parts_of(ScriptedModel(), child, parts=3), question())
    assert_ended(result, "final")
    assert result["answer"] == "part 1: final; part 2: model_error; part 3: final"
    (failed,) = [child["stop"] for child in result["children"] if child["about"] == "part 2"]
    assert "a bug" in failed["detail"]
    assert "sk-1234567890" not in str(result)


@both_ways
@levels
def test_a_cancellation_reaches_every_part(way: Way, make: Make) -> None:
    """One part asks for it while the others wait for what never comes."""
    cancel, waiting, for_ever = Cancellation(), threading.Barrier(4, timeout=20), threading.Event()

    @tool(effects="none", timeout=60)
    def wait() -> str:
        """Wait."""
        if waiting.wait() == 0:
            cancel.request("enough")
        for_ever.wait(60)
        return "never"

    model = ScriptedModel(replies=[asks(call("wait"))], repeat=True)
    try:
        with cancel:
            result = run(way, make(model, [wait]), question())
    finally:
        for_ever.set()
    assert_ended(result, "cancelled")
    assert {child["stop"]["reason"] for child in result["children"]} == {"cancelled"}
    assert len(model.requests) == 4


def test_events_of_parts_have_their_place(steps: Streams) -> None:
    model = ScriptedModel(replies=["yes"], repeat=True)
    events = steps(two_levels(model, []), question())
    answers = [tuple(event["path"]) for event in of(events, "child") if event["event"]["type"] == "answer"]
    assert sorted(answers) == [("part",)] * 2 + [("part", "part")] * 4
    assert [event["text"] for event in of(events, "answer")] == ["part 1: final; part 2: final"]


# A person within a part


class Asks:
    """Each part asks a person once, and answers with what they said."""

    def __call__(self, messages: list[BaseMessage]) -> Any:
        if messages[-1].type == "tool":
            return f"they said {messages[-1].text}"
        return asks(call("ask_person", {"question": str(messages[0].text)}))

    def model(self) -> ScriptedModel:
        return ScriptedModel(replies=[self], repeat=True, usage=(10, 5))


@both_ways
@levels
def test_each_question_goes_up_and_its_answer_comes_back(way: Way, make: Make, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        model = Asks().model()
        graph = make(model, [ask_person], checkpointer=saver)
        result = run(way, graph, question("it"), thread())
        asked = pending(result)
        assert len({one.value["question"] for one in asked}) == 4
        for one in reversed(asked):  # the last one first, each from a graph made anew
            again = make(model, [ask_person], checkpointer=saver)
            result = run(way, again, Command(resume={one.id: one.value["question"]}), thread())
        assert_ended(result, "final", model)
        said = [m.text for m in result["messages"] if m.type == "tool"]
        assert sorted(said) == sorted(one.value["question"] for one in asked)
        assert len(model.requests) == 8
        assert result["spent"]["model_calls"] == 8
        assert result["spent"]["tool_calls"] == 4


@levels
def test_waiting_for_a_person_is_not_charged(make: Make, tmp_path: Path) -> None:
    """The four waits are longer than the time that the run has."""
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        graph = make(Asks().model(), [ask_person], limits=Limits(steps=100, seconds=1.6), checkpointer=saver)
        result = graph.invoke(question("it"), thread())
        while asked := pending(result):
            time.sleep(0.5)
            result = graph.invoke(Command(resume={asked[0].id: "yes"}), thread())
    assert_ended(result, "final")
    assert result["spent"]["seconds"] < 1.6


@levels
@pytest.mark.parametrize("steps", range(4, 10))
def test_steps_are_shared_exactly_over_questions(make: Make, steps: int, tmp_path: Path) -> None:
    """Four turns ask, and four answer; what is left of the steps is for those who are answered first."""
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        model = Asks().model()
        graph = make(model, [ask_person], limits=Limits(steps=steps), checkpointer=saver)
        result = graph.invoke(question("it"), thread())
        while asked := pending(result):
            result = graph.invoke(Command(resume={asked[0].id: "yes"}), thread())
        assert_ended(result, "final" if steps == 9 else "step_limit")
        assert turns(model) == result["stop"]["step"] == min(steps, 8)
        assert_acceptable(result["messages"])


@both_ways
@levels
@pytest.mark.parametrize("calls", [4, 6, 8])
def test_tool_calls_are_shared_exactly_over_questions(way: Way, make: Make, calls: int) -> None:
    """Each part asks, and looks something up when it is answered; the questions have taken four calls."""
    counted = Counting()

    def reply(messages: list[BaseMessage]) -> Any:
        seen = sum(message.type == "tool" for message in messages)
        if seen == 0:
            return asks(call("ask_person", {"question": str(messages[0].text)}))
        return asks(call("count", {"what": str(messages[0].text)})) if seen == 1 else "done"

    model = ScriptedModel(replies=[closes_or(reply)], repeat=True)
    limits = Limits(steps=100, tool_calls=calls)
    graph = make(model, [ask_person, counted.tool], limits=limits, checkpointer=InMemorySaver())
    result = run(way, graph, question("it"), thread())
    while asked := pending(result):
        result = run(way, graph, Command(resume={asked[-1].id: "yes"}), thread())
    assert_ended(result, "final" if calls == 8 else "tool_call_limit", model)
    assert result["spent"]["tool_calls"] == calls
    assert len(counted.calls) == calls - 4
