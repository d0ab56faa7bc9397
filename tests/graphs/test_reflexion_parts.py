"""Reflexion's pure parts: the log of a trial, and how much of it a model is shown."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from reflexion_support import REFLECTING, good, last_text, tries
from support import asks, assert_ended, question

from taograph import Context, tool
from taograph.graphs.loop.trajectory import read_trajectory
from taograph.graphs.parts.evaluating import agreement, exact_match
from taograph.graphs.parts.reflecting import LOG_CHARS, log_of, noted
from taograph.graphs.reflexion import create_reflexion_graph
from taograph.models import ScriptedModel, call


def trial(*observations: str) -> Any:
    messages: list[Any] = [HumanMessage("Where?")]
    for number, text in enumerate(observations):
        messages += [
            AIMessage("I look.", tool_calls=[call("look", {"x": number}, id=f"c{number}")]),
            ToolMessage(text, tool_call_id=f"c{number}", name="look"),
        ]
    return read_trajectory([*messages, AIMessage("There.")])


def test_a_short_log_is_whole() -> None:
    assert log_of(trial("one", "two"), "There.") == (
        'Thought: I look.\nAction: look({"x": 0})\nObservation: one\n'
        'Thought: I look.\nAction: look({"x": 1})\nObservation: two\nAnswer: There.'
    )


@pytest.mark.parametrize("most", [300, 1000, 5000])
def test_the_longest_observations_are_shortened_first(most: int) -> None:
    text = log_of(trial("short", "x" * 9000, "also short", "y" * 600), "There.", most)
    assert len(text) <= most + 24
    assert "Observation: short" in text
    if most > 300:
        assert "Observation: also short" in text
        assert text.count("x") > 100
        assert text.endswith("Answer: There.")
    if most == 5000:
        assert "y" * 600 in text


def test_a_log_of_many_calls_keeps_its_ends() -> None:
    text = log_of(trial(*["z" * 50] * 400), "", 2000)
    assert len(text) <= 2010
    assert text.startswith("Thought: I look.")
    assert text.endswith("No answer was given.")


def test_notes_are_numbered_by_their_trials() -> None:
    assert noted(["a", "b", "c"], 2) == "- Trial 2: b\n- Trial 3: c"
    assert noted([], 3) == ""


@pytest.mark.parametrize(
    ("answer", "right"), [("Paris", True), ("  the paris! ", True), ("Paris, France", False), ("", False)]
)
def test_the_right_answer_is_compared_as_the_papers_do(answer: str, right: bool) -> None:
    assert (exact_match(["Rome", "Paris"])("?", answer, trial()) is True) == right


def test_agreement_is_more_than_half_of_the_samples_that_answered() -> None:
    assert agreement("1,000", ["1000", "1000.0", "7"]).passed
    assert not agreement("a", ["a", "b"]).passed
    assert agreement("a", ["a", "", ""]).passed
    assert agreement("a", ["", ""]).note


# The window


def long_trials() -> ScriptedModel:
    return tries(lambda m: "bad" if m[-1].type == "tool" else asks(call("dump")), "good")


@tool(effects="none", max_chars=None)
def dump() -> str:
    """Return a lot."""
    return "lots " * 20_000


def log_size(model: ScriptedModel) -> list[int]:
    return [len(t) for r in model.requests if (t := last_text(r.messages)).startswith(REFLECTING)]


def test_a_log_is_bounded_and_kept_to_half_of_a_window_that_is_known() -> None:
    model = long_trials()
    create_reflexion_graph(model, [dump], evaluate=good).invoke(question())
    assert LOG_CHARS < log_size(model)[0] < LOG_CHARS + 2000
    model = long_trials()
    create_reflexion_graph(model, [dump], evaluate=good).invoke(question(), context=Context(window=2000))
    assert 3000 < log_size(model)[0] < 6000


def test_a_reflection_that_is_too_long_is_asked_for_with_less() -> None:
    inner = long_trials().replies[0]

    def reply(messages: list[Any]) -> Any:
        size = len(last_text(messages))
        if last_text(messages).startswith(REFLECTING) and size > 6000:
            raise ContextOverflowError("This model's maximum context length is 1500 tokens.")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    result = create_reflexion_graph(model, [dump], evaluate=good).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "good"
    sizes = log_size(model)
    assert sizes[0] > 16_000
    assert sizes[-1] < 6000
    assert result["reflections"] == ["Lesson 1."]
