"""Calls written as text: what is one, what is not, and that finding out takes linear time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taograph.graphs.protocols.recover import may_become_call, recover_tool_calls, split_tool_calls

TOOLS = {"calculator", "search"}
CALL = '{"name": "calculator", "arguments": {"expression": "2 * 3"}}'
ARGS = {"expression": "2 * 3"}

ONE_CALL = {
    "bare": CALL,
    "space around": f"\n\n  {CALL}  \n",
    "fence": f"```\n{CALL}\n```",
    "json fence": f"```json\n{CALL}\n```",
    "fence left open": f"```json\n{CALL}",
    "tags": f"<tool_call>\n{CALL}\n</tool_call>",
    "tag left open": f"<tool_call>{CALL}",
    "list": f"[{CALL}]",
    "parameters": '{"name": "calculator", "parameters": {"expression": "2 * 3"}}',
    "arguments as text": json.dumps({"name": "calculator", "arguments": json.dumps(ARGS)}),
    "wire form": json.dumps({"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": ARGS}}),
    "wire form, text": json.dumps({"function": {"name": "calculator", "arguments": json.dumps(ARGS)}}),
    "function as name": json.dumps({"function": "calculator", "arguments": ARGS}),
    "other order": '{"arguments": {"expression": "2 * 3"}, "name": "calculator"}',
    "raw line break in a string": '{"name": "calculator", "arguments": {"expression":\n "2 * 3"}}',
}

NOT_CALLS = {
    "empty": "",
    "prose": "The answer is 6.",
    "prose around": f"I would call {CALL} now.",
    "prose before": f"Let me see. {CALL}",
    "prose after": f"{CALL} That is all.",
    "prose after a fence": f"```json\n{CALL}\n```\nThis is how a call looks.",
    "prose after tags": f"<tool_call>{CALL}</tool_call> is how a call looks.",
    "unknown tool": '{"name": "rm", "arguments": {}}',
    "nearly right name": '{"name": "Calculator", "arguments": {}}',
    "one of two unknown": f'{CALL} {{"name": "rm", "arguments": {{}}}}',
    "no arguments": '{"name": "calculator"}',
    "arguments no object": '{"name": "calculator", "arguments": [1]}',
    "arguments as broken text": '{"name": "calculator", "arguments": "{"}',
    "name no text": '{"name": 1, "arguments": {}}',
    "other data": '{"name": "calculator", "arguments": {}, "price": 3}',
    "an answer in JSON": '{"answer": "6"}',
    "truncated": CALL[:-1],
    "quote missing": '{"name": "calculator", "arguments": {"expression": "2 * 3}}',
    "single quotes": "{'name': 'calculator', 'arguments': {}}",
    "empty list": "[]",
    "nested too deep": "[" * 200_000,
    "number too long": '{"name": "calculator", "arguments": {"n": ' + "9" * 5000 + "}}",
}


@pytest.mark.parametrize("text", ONE_CALL.values(), ids=ONE_CALL)
def test_a_reply_that_is_a_call(text: str) -> None:
    found = recover_tool_calls(text, TOOLS)
    assert found is not None
    (call,) = found
    assert (call["name"], call["args"], call["type"]) == ("calculator", ARGS, "tool_call")
    assert call["id"]


@pytest.mark.parametrize("text", NOT_CALLS.values(), ids=NOT_CALLS)
def test_a_reply_that_is_something_else(text: str) -> None:
    assert recover_tool_calls(text, TOOLS) is None


def test_several_calls_keep_their_order() -> None:
    other = '{"name": "search", "arguments": {"query": "Peru"}}'
    for text in (
        f"{CALL}\n{other}",
        f"[{CALL}, {other}]",
        f"{CALL}, {other}",
        f"<tool_call>{CALL}</tool_call>\n<tool_call>{other}</tool_call>",
        f"```json\n{CALL}\n```\n```json\n{other}\n```",
    ):
        found = recover_tool_calls(text, TOOLS)
        assert found is not None
        assert [call["name"] for call in found] == ["calculator", "search"]
        assert found[0]["id"] != found[1]["id"]


def test_words_before_tags_are_the_thought() -> None:
    found = split_tool_calls(f"I need the product.\n<tool_call>{CALL}</tool_call>", TOOLS)
    assert found is not None
    assert found[0] == "I need the product."
    assert found[1][0]["args"] == ARGS
    bare = split_tool_calls(CALL, TOOLS)
    assert bare is not None
    assert bare[0] == ""


def test_arguments_may_hold_anything() -> None:
    nested = {"expression": '}} </tool_call> ``` {"name": "rm"}', "deep": {"list": [1, {"a": None}], "é": "✓"}}
    for text in (json.dumps({"name": "search", "arguments": nested}),):
        for form in (text, f"```json\n{text}\n```", f"<tool_call>{text}</tool_call>"):
            found = recover_tool_calls(form, TOOLS)
            assert found is not None
            assert found[0]["args"] == nested


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    recover_tool_calls(text, TOOLS)
    recover_tool_calls("<tool_call>" + text, TOOLS)
    may_become_call(text)


@given(st.integers(0, len(CALL)))
def test_every_beginning_of_a_call_may_become_one(length: int) -> None:
    assert may_become_call(CALL[:length])
    assert may_become_call("  \n" + f"<tool_call>{CALL}"[:length])
    assert may_become_call(f"```json\n{CALL}"[:length])


@pytest.mark.parametrize("text", ["The", "<b>", "`x`", "6", "-", "<tool>"])
def test_text_is_decided_early(text: str) -> None:
    assert not may_become_call(text)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "[{" * 50_000,
        "<tool_call>" * 20_000,
        "```" * 50_000,
        CALL * 5_000,
        f"{CALL}\n" * 5_000 + "x",
        '{"name": "' * 20_000,
        "<tool_call" * 20_000,
        " " * 200_000,
        ", " * 100_000,
        "{" + '"a":' * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    started = time.process_time()
    recover_tool_calls(text, TOOLS)
    # Milliseconds; a quadratic reading of these would take minutes.
    assert time.process_time() - started < 5
