"""A reply while it comes: nothing is shown that the parser would take back, nothing read that is not the model's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taograph.graphs.protocols import parse_step
from taograph.models.text_stream import StepStream

TESTS = Path(__file__).parents[1]
# Ours, and those of the project's own set where it lies beside the repository.
FILES = (TESTS / "graphs" / "parser_cases.json", TESTS.parents[1] / "shared" / "cases" / "parser_cases.json")
CASES: list[dict[str, Any]] = [case for file in FILES if file.exists() for case in json.loads(file.read_text("utf-8"))]
STEP = "Thought: a\nAction: b\nAction Input: c\n"
PIECES = (
    "Thought: ", "Action: ", "Action Input: ", "Observation: ", "Final Answer: ",
    "Answer: ", "**Thought:** ", "**Final Answer: ", "Thought 1: ", "思考：", "行动：", "行动输入：",
    "观察：", "最终答案：", "\n", "\n\n", " ", "\t", "\r\n", "\r", "lookup", '{"name": "Ada"}',
    '{"a": "x\nObservation: y"}', "{", "}", "[", '"', "\\", "```", "```py\n", "~~~",
    "<think>", "</think>", "<|im_end|>", "</s>", "<", "final answer: 4", "fin", "None",
    "a few words ", "- ", "1. ", "Obs", "Observation", "<tool_call>",
    '{"name": "lookup", "arguments": {}}', "[TOOL_CALLS]", "functools", "a: b", "\u2028",
    "\ufeff", "> ",
)  # fmt: skip


def read(text: str, size: int, **options: Any) -> tuple[StepStream, list[tuple[str, str]]]:
    """Feed a text in pieces of a size."""
    stream = StepStream(**options)
    deltas = [d for at in range(0, len(text), size) for d in stream.feed(text[at : at + size])]
    deltas += stream.end()
    return stream, [(delta.kind, delta.text) for delta in deltas]


def wrong_with(text: str, sizes: tuple[int, ...], tools: tuple[str, ...] = ("lookup",)) -> list[str]:
    """What is wrong with how a reply is streamed."""
    whole, _ = read(text, max(1, len(text)))
    step = parse_step(whole.text, tools=tools)
    wrong = []
    for size in sizes:
        stream, _ = read(text, size)
        thought, answer = stream.shown("thought"), stream.shown("answer")
        if stream.text != whole.text:
            wrong.append(f"pieces of {size}: read {stream.text!r} and not {whole.text!r}")
        if step.kind == "error" or "think" in text.lower():
            continue  # what comes to nothing may have been shown; a closing tag makes a thought of what it closes
        if not step.thought.startswith(thought):
            wrong.append(f"pieces of {size}: the thought {thought!r} was shown, and it is {step.thought!r}")
        if not (stream.goes_on or (step.answer or "").startswith(answer)):
            wrong.append(f"pieces of {size}: the answer {answer!r} was shown, and it is {step.answer!r}")
    return wrong


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_what_is_shown_of_the_cases_is_what_they_say(case: dict[str, Any]) -> None:
    text = case["input"]
    sizes = (1, 2, 3, 7) if len(text) < 5000 else (997,)
    assert not wrong_with(text, sizes, tuple(case.get("tools") or ()))


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_is_shown_of_any_text_is_what_it_says(text: str) -> None:
    assert not wrong_with(text, (1, 3))


@given(st.text(max_size=60))
def test_a_reply_of_no_protocol_comes_as_it_is(text: str) -> None:
    stream, deltas = read(text, 4, plain=True)
    if stream.is_plain:
        assert "".join(piece for _, piece in deltas) == stream.text
        assert stream.text == text.replace("\r\n", "\n").replace("\r", "\n")


def shown(text: str, **options: Any) -> list[tuple[str, str]]:
    """What is shown of a text that comes word by word."""
    stream = StepStream(**options)
    words = [word for part in text.split(" ") for word in (part, " ")][:-1]
    deltas = [delta for word in words for delta in stream.feed(word)] + stream.end()
    return [(delta.kind, delta.text) for delta in deltas]


def test_a_thought_and_an_answer_come_word_by_word() -> None:
    assert shown("Thought: I know this.\nFinal Answer: It is on page three.") == [
        ("thought", "I"),
        ("thought", " know"),
        ("thought", " this."),
        ("answer", "It"),
        ("answer", " is"),
        ("answer", " on"),
        ("answer", " page"),
        ("answer", " three."),
    ]


@pytest.mark.parametrize(
    "form", ["**Thought:** {}\n**Final Answer:** {}", "### Thought: {}\n### Answer: {}", "思考：{}\n最终答案：{}"]
)
def test_labels_may_be_decorated(form: str) -> None:
    deltas = shown(form.format("one two three", "four five six"))
    assert [kind for kind, _ in deltas] == ["thought"] * 3 + ["answer"] * 3


def test_an_action_is_not_shown() -> None:
    deltas = shown('Thought: I look.\nAction: lookup\nAction Input: {"name": "Ada"}')
    assert "".join(piece for _, piece in deltas) == "I look."


def test_an_answer_that_is_not_wanted_is_not_shown() -> None:
    assert shown("Thought: I know.\nFinal Answer: It is on page three.", answers=False) == [
        ("thought", "I"),
        ("thought", " know."),
    ]


def test_prose_is_not_shown_before_it_is_known_what_it_is() -> None:
    assert shown("It may be a thought, or the answer.") == []


def test_a_primed_reply_begins_as_a_thought() -> None:
    deltas = shown("I will look it up.\nAction: lookup", primed=True)
    assert deltas == [("thought", "I will look"), ("thought", " it"), ("thought", " up.")]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"{STEP}Observation: d\nThought: e", STEP),
        (f"{STEP}Thought: d\nAction: e", STEP),
        ("Thought: a\nObservation: b\nFinal Answer: c", "Thought: a\n"),
        ("Thought: a\nFinal Answer: b\n\nAction: c", "Thought: a\nFinal Answer: b\n\n"),
        ("Final Answer: b\nFinal Answer: c\nObservation: d", "Final Answer: b\nFinal Answer: c\n"),
        (" Look.\nAction: b\nAction Input: c\n观察：d", " Look.\nAction: b\nAction Input: c\n"),
    ],
)  # fmt: skip
def test_it_is_cut_where_something_else_begins(text: str, kept: str) -> None:
    stream, _ = read(text, 1, primed=text.startswith(" "))
    assert stream.cut
    assert stream.text == kept.lstrip()


@pytest.mark.parametrize(
    "text",
    [
        'Thought: a\nAction: b\nAction Input: {"text": "one\nObservation: two"}',
        "Thought: a\nAction: b\nAction Input:\n```\nObservation: data\n```",
        "Thought: a\nAction: None\nAction Input: None\nThought: b\nFinal Answer: c",
        "Action: b\nAction Input: c\nFinal Answer: d",
        "Answer: 12\nThought: Wait, one is missing.\nFinal Answer: 13",
        "<think>Thought: x\nAction: y\nAction Input: z\nObservation: w</think>\nThought: a\nFinal Answer: b",
        # Its thinking was opened in the prompt, and it rehearses.
        "So I could write\nAction: y\nAction Input: z\nObservation: w\n</think>\nThought: a\nFinal Answer: b",
    ],
)
def test_it_is_not_cut_within_what_is_data_or_thinking(text: str) -> None:
    stream, _ = read(text, 1)
    assert not stream.cut
    assert stream.text == text


def test_thinking_at_the_beginning_is_passed_over() -> None:
    deltas = shown("<think>Hm, let me see.</think>\nThought: I know this.\nFinal Answer: four")
    assert "".join(piece for kind, piece in deltas if kind == "thought") == "I know this."
    stream, _ = read("<think>x</think>\nThought: a\nAction: b\nAction Input: c\nObservation: d", 1)
    assert stream.cut


def test_texts_that_end_a_reply() -> None:
    stream, deltas = read("Final Answer: one STOP two", 1, stops=("STOP", "\nQ:"))
    assert stream.cut
    assert stream.stopped == "STOP"
    assert stream.text == "Final Answer: one "
    assert "".join(piece for _, piece in deltas) == "one"
    kept, _ = read("Final Answer: one STO", 1, stops=("STOP",))
    assert kept.text == "Final Answer: one STO"


def test_nothing_is_shown_or_cut_of_what_is_not_to_be_read_here() -> None:
    stream, deltas = read("Thought: a\nObservation: b\nThought: c", 1, live=False)
    assert deltas == []
    assert stream.text == "Thought: a\nObservation: b\nThought: c"
