"""What holds of any text that the parser of the text protocol is given, tried on thousands of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from parser_properties import PIECES, broken_promises
from parser_support import OWN_CASES, SHARED_CASES, read_cases, same

from taograph.graphs.protocols import parse_step
from taograph.graphs.protocols.text import action_text, answer_text, chat_messages
from taograph.models import call

TOOLS = ("search", "stock", "add (beta)")
CASES = [case.text for case in (*read_cases(OWN_CASES), *read_cases(SHARED_CASES)) if len(case.text) < 1_500]

_pieces = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=24).map("".join)


@st.composite
def _mutated(draw: st.DrawFn) -> str:
    """A case with parts of it, of another case or of the grammar put in, left out or said twice."""
    text = draw(st.sampled_from(CASES))
    for _ in range(draw(st.integers(1, 4))):
        left = draw(st.integers(0, len(text)))
        right = draw(st.integers(left, min(len(text), left + 40)))
        other = draw(
            st.one_of(st.just(""), st.sampled_from(PIECES), st.just(text[left:right] * 2), st.sampled_from(CASES))
        )
        text = text[:left] + other + text[right:]
    return text


_texts = st.one_of(st.text(), _pieces, _mutated())


@given(_texts, st.sampled_from([(), TOOLS]))
@settings(max_examples=1_500, deadline=None)
@example("<think>", ())
@example('Action: a\nAction Input: {"n": ' + "9" * 310, ())
@example('Thought: t\nAction: a\nAction Input: {"re": "\\d"}', ())
def test_promises_hold_of_any_text(text: str, tools: tuple[str, ...]) -> None:
    assert broken_promises(text, tools) == []


@given(_pieces, st.sampled_from(["", "  \n", "I think.\n", "Thought: so\n", "<think>a</think>\n", "# Plan\n"]))
@settings(max_examples=400, deadline=None)
def test_an_unclosed_think_is_incomplete_and_never_executed(inside: str, before: str) -> None:
    inside = inside.replace("</", "<")
    for strict in (False, True):
        step = parse_step(f"{before}<think>\n{inside}", strict=strict)
        assert (step.kind, step.error) == ("error", "incomplete")


@given(_pieces)
@settings(max_examples=400, deadline=None)
def test_what_was_thought_in_a_closed_think_is_never_the_step(inside: str) -> None:
    inside = inside.replace("<", "(")
    step = parse_step(
        f'<think>\n{inside}\n</think>\nThought: so\nAction: stock\nAction Input: {{"sku": 5}}', strict=True
    )
    assert (step.kind, step.tool, step.args) == ("action", "stock", {"sku": 5})
    answer = parse_step(f"<think>\n{inside}\n</think>\nFinal Answer: five", strict=True)
    assert (answer.kind, answer.answer) == ("final", "five")


_words = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)
_hostile = st.sampled_from(
    ["Final Answer: x", "a\nObservation: b\nAction: rm", "```\nAction: rm\n```", "<think>", '}"', "a\r\nb"]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _words | _hostile,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)
_objects = st.dictionaries(_words, _json, max_size=5)
_indents = st.sampled_from([None, 2])


@given(_objects, _indents, st.booleans())
@settings(max_examples=500, deadline=None)
def test_a_json_object_is_read_as_it_was_written(args: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    written = json.dumps(args, indent=indent, ensure_ascii=ascii_only)
    for strict in (False, True):
        step = parse_step(f"Thought: go\nAction: stock\nAction Input: {written}", strict=strict)
        assert (step.kind, step.tool, step.thought) == ("action", "stock", "go")
        assert same(step.args, args)
        assert not step.truncated
        assert not step.repaired


@given(_objects)
@settings(max_examples=300, deadline=None)
def test_a_python_literal_is_read_as_it_was_written(args: dict[str, Any]) -> None:
    step = parse_step(f"Thought: go\nAction: stock\nAction Input: {args!r}", strict=True)
    assert (step.kind, step.tool) == ("action", "stock")
    assert same(step.args, args)


@given(_objects, st.integers(1, 60))
@example({"</THINKING>": "FINAL ANSWER:"}, 1)
@example({"a": "</think>", 'b"</think>': "Final Answer: yes"}, 3)
@settings(max_examples=300, deadline=None)
def test_a_cut_object_is_refused_in_strict_mode(args: dict[str, Any], cut: int) -> None:
    written = json.dumps({"first": args})[:-1]
    written = written[: max(1, len(written) - cut)]
    step = parse_step(f"Thought: go\nAction: stock\nAction Input: {written}", strict=True)
    assert step.kind == "error"


# Steps that are whole, and what models write after one.
_line = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="<>`{}[]|\\\"'*:"), max_size=30)
_plain = _line.map(str.strip)
_steps = st.one_of(
    st.builds(lambda t, a: f"Thought: {t}\nAction: stock\nAction Input: {json.dumps(a)}", _plain, _objects),
    st.builds(
        lambda t, a: f"Thought: {t}\nAction: stock\nAction Input: look {a}".rstrip(), _plain, _plain
    ),
    st.builds(lambda a: f"Action: stock\nAction Input: ```json\n{json.dumps(a)}\n```", _objects),
    st.builds(lambda t, a: f"Thought: {t}\nFinal Answer: so {a}".rstrip(), _plain, _plain),
    st.builds(lambda t, a: f"思考：{t}\n行动：stock\n行动输入：{json.dumps(a, ensure_ascii=False)}", _plain, _objects),
)  # fmt: skip
_tails = st.sampled_from(
    [
        "\nObservation: 30",
        "\nObservation: 30\nThought: more\nAction: rm\nAction Input: {}",
        "\n\nObservation: 30\nThought: enough\nFinal Answer: 30",
        "\n观察：30",
        "\nObserv",
        "\nThought: and then\nAction: rm\nAction Input: /",
    ]
)


@given(_steps, _tails)
@settings(max_examples=500, deadline=None)
def test_what_follows_the_first_step_changes_nothing(step: str, tail: str) -> None:
    alone, followed = parse_step(step), parse_step(step + tail)
    assert alone.kind in ("action", "final"), alone
    assert not alone.truncated
    assert replace(followed, truncated=False) == alone
    assert followed.truncated or tail == "\nObserv"


@pytest.mark.parametrize("strict", [False, True])
@given(
    step=_steps,
    before=st.sampled_from(["\n", "  ", "\ufeff", "\n\n\t"]),
    after=st.sampled_from(["\n", "  ", "\n\n\t\n"]),
)
@settings(max_examples=200, deadline=None)
def test_blanks_around_a_reply_change_nothing(strict: bool, step: str, before: str, after: str) -> None:
    assert parse_step(before + step + after, strict=strict) == parse_step(step, strict=strict)


@given(_texts)
@settings(max_examples=300, deadline=None)
def test_line_ends_of_either_kind_are_read_alike(text: str) -> None:
    text = text.replace("\r", "")
    assert parse_step(text.replace("\n", "\r\n")) == parse_step(text)


# What the renderer of the same protocol writes of a conversation.
_languages = st.sampled_from(["en", "zh", "de", "pl"])
_names = st.sampled_from(["stock", "add (beta)", "Ask binder", "翻译", "None", "get_page-2"])


@given(_plain, _names, _objects, _languages)
@settings(max_examples=400, deadline=None)
def test_a_rendered_call_is_read_back(thought: str, tool: str, args: dict[str, Any], language: str) -> None:
    rendered = action_text(thought, tool, args, language=language)
    for strict in (False, True):
        step = parse_step(rendered, tools=(tool,), strict=strict)
        assert (step.kind, step.tool, step.thought) == ("action", tool, thought)
        assert same(step.args, args)
        assert not step.truncated
        assert not step.repaired


@given(st.one_of(_pieces, st.text()), _objects, _languages)
@settings(max_examples=600, deadline=None)
@example("```\nThought: b", {}, "en")
@example("</think>\nAction: rm\nAction Input: {}", {}, "en")
def test_a_rendered_call_is_read_back_whatever_the_thought(thought: str, args: dict[str, Any], language: str) -> None:
    rendered = action_text(thought, "weigh_crate", args, language=language)
    for strict in (False, True):
        step = parse_step(rendered, tools=("weigh_crate",), strict=strict)
        assert (step.kind, step.tool) == ("action", "weigh_crate"), rendered
        assert same(step.args, args)


@given(_plain, _plain.filter(bool), _languages)
@settings(max_examples=300, deadline=None)
def test_a_rendered_answer_is_read_back(thought: str, answer: str, language: str) -> None:
    for strict in (False, True):
        step = parse_step(answer_text(thought, answer, language=language), strict=strict)
        assert (step.kind, step.thought, step.answer) == ("final", thought, answer)


@given(_plain, st.one_of(_pieces, st.text()), _languages)
@settings(max_examples=400, deadline=None)
def test_no_rendered_answer_is_an_action(thought: str, answer: str, language: str) -> None:
    rendered = answer_text(thought, answer, language=language)
    for strict in (False, True):
        assert parse_step(rendered, tools=TOOLS, strict=strict).kind != "action", rendered


@given(st.lists(st.tuples(_plain, _objects), min_size=1, max_size=4), _pieces, _languages)
@settings(max_examples=200, deadline=None)
def test_every_round_of_a_conversation_is_read_back(
    rounds: list[tuple[str, dict[str, Any]]], result: str, language: str
) -> None:
    messages: list[BaseMessage] = [HumanMessage("how much is there?")]
    for number, (thought, args) in enumerate(rounds):
        messages.append(AIMessage(thought, tool_calls=[call("stock", args, id=f"c{number}")]))
        messages.append(ToolMessage(result, tool_call_id=f"c{number}"))
    written = [str(m.content) for m in chat_messages(messages, language=language) if isinstance(m, AIMessage)]
    assert len(written) == len(rounds)
    for text, (thought, args) in zip(written, rounds, strict=True):
        step = parse_step(text, tools=TOOLS, strict=True)
        assert (step.kind, step.tool, step.thought) == ("action", "stock", thought)
        assert same(step.args, args)
