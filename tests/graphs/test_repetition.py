"""Doing the same again and again: one nudge, then the end."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    Counting,
    Way,
    asks,
    assert_ended,
    both_ways,
    closes_or,
    lookup,
    nudges,
    question,
    run,
    second_turn,
    texts,
    thread,
)

from taograph import Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call


def round_robin(period: int, tool_name: str = "lookup", key: str = "name") -> ScriptedModel:
    turn = 0

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        turn += 1
        return asks(call(tool_name, {key: f"round-{turn % period}"}))

    return ScriptedModel(replies=[closes_or(reply)], repeat=True)


@both_ways
@pytest.mark.parametrize("period", [1, 2, 3])
def test_repeated_action(way: Way, period: int) -> None:
    model = round_robin(period)
    graph = create_react_graph(model, [lookup], limits=Limits(steps=40), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "repeated_action", model)
    assert result["stop"]["step"] == 3 * period
    assert result["spent"]["model_calls"] == 3 * period + 1
    told = nudges(model)
    assert len(told) == 1
    number, text = told[0]
    assert number == 2 * period, "the nudge comes before the last round"
    assert "round-" not in text
    assert "lookup" not in text
    assert "3 times" in result["stop"]["detail"]
    second_turn(way, graph, model)


@both_ways
@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_repeats_is_a_limit_of_the_user(way: Way, repeats: int) -> None:
    model = round_robin(1)
    graph = create_react_graph(model, [lookup], limits=Limits(steps=40, repeats=repeats))
    result = run(way, graph, question())
    assert_ended(result, "repeated_action", model)
    # With 2, the nudge comes after the second time, and one more turn shows whether it helped.
    assert result["stop"]["step"] == max(repeats, 3)
    assert len(nudges(model)) == 1


@both_ways
def test_the_same_call_with_keys_in_another_order_is_the_same(way: Way) -> None:
    @tool(effects="none")
    def pair(left: str, right: str) -> str:
        """Pair two words.

        Args:
            left: One.
            right: The other.
        """
        return left + right

    one, other = {"left": "a", "right": "b"}, {"right": "b", "left": "a"}
    model = ScriptedModel(replies=[asks(call("pair", one)), asks(call("pair", other)), asks(call("pair", one)), "So."])
    result = run(way, create_react_graph(model, [pair]), question())
    assert_ended(result, "repeated_action", model)


@both_ways
def test_parallel_calls_in_another_order_are_the_same_round(way: Way) -> None:
    model = ScriptedModel(replies=[asks("a", "b"), asks("b", "a"), asks("a", "b"), "So."])
    result = run(way, create_react_graph(model, [lookup]), question())
    assert_ended(result, "repeated_action", model)
    assert result["stop"]["step"] == 3


@both_ways
def test_polling_something_that_changes_is_no_repetition(way: Way) -> None:
    counting = Counting()
    model = ScriptedModel(replies=[*[asks(call("count", {"what": "same"}))] * 12, "Twelve."])
    result = run(way, create_react_graph(model, [counting.tool]), question())
    assert_ended(result, "final", model)
    assert len(counting.calls) == 12
    assert nudges(model) == []


@both_ways
def test_the_same_long_result_is_a_repetition(way: Way) -> None:
    @tool(effects="none", max_chars=200)
    def page(name: str) -> str:
        """Read a page.

        Args:
            name: Of the page.
        """
        return f"{name} " + "word " * 500

    model = round_robin(1, "page")
    result = run(way, create_react_graph(model, [page], limits=Limits(steps=10)), question())
    assert_ended(result, "repeated_action", model)
    assert result["stop"]["step"] == 3


@both_ways
def test_long_results_that_differ_in_the_hidden_part_are_no_repetition(way: Way) -> None:
    count = 0

    @tool(effects="none", max_chars=200)
    def page(name: str) -> str:
        """Read a page.

        Args:
            name: Of the page.
        """
        nonlocal count
        count += 1
        return "word " * 200 + f"{count:05d}" + "word " * 200

    model = ScriptedModel(replies=[*[asks(call("page", {"name": "x"}))] * 5, "Done."])
    result = run(way, create_react_graph(model, [page]), question())
    assert_ended(result, "final", model)


@both_ways
def test_a_nudge_that_helps(way: Way) -> None:
    model = ScriptedModel(replies=[asks("a"), asks("a"), asks("b"), "Page 1."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 1."
    assert len(nudges(model)) == 1
    second_turn(way, graph, model)


@both_ways
def test_repetition_is_forgotten_with_the_next_question(way: Way) -> None:
    model = ScriptedModel(replies=[asks("a"), asks("a"), "First.", asks("a"), "Second."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    assert_ended(run(way, graph, question(), thread()), "final")
    assert_ended(run(way, graph, question("Again?"), thread()), "final", None)
    assert len(nudges(model)) == 2 - 1 + 1  # the second question, and the nudge of the first; no more
    assert not any("repeating" in t for t in texts(model.requests[-1].messages[-3:]))
