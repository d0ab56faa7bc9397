"""What the parser of the text protocol promises of any text, as one function that says which promise is broken.

Used by the property tests and by ``bench/fuzz_parser.py``; needs neither pytest nor Hypothesis.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Collection, Iterator
from typing import Any

from taograph.graphs.protocols import ParsedStep, parse_step

LONGEST_DETAIL = 2_000
"""A detail is quoted to the model: it may not be as long as the reply."""

PIECES = (
    "Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "Answer:", "thought：", "思考：",
    "行动：", "行动输入：", "观察：", "最终答案：", "Action 1:", "**Action:**", "**Action**:", "### Action:",
    "- Action:", "1. Action:", "\n", "\n\n", "\r\n", "\r", " ", "\t", "\u00a0", "\ufeff", "\u2028", "```",
    "```json\n", "~~~", "`", "**", "*", "#", "<think>", "</think>", "<Think>", "<tool_call>", "</tool_call>",
    "<|im_end|>", "<|tool_call_begin|>functions.a:0", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "[TOOL_CALLS]", "</s>", "Obs", "Observation", "{", "}", "[", "]", "(", ")", "\"", "'", "\\", "\\n",
    "\\u00e9", "\\ud83d", ":", "：", ",", "//", "/*", "*/", "None", "null", "N/A", "True", "NaN", "1e999",
    "9" * 30, "9" * 310, "-4.50", "0x10",
    "{}", "[]", "{\"a\": 1}", "{'a': 'b'}", "{\"a\": \"x", "{\"name\": \"search\"",
    "\"arguments\": {\"q\": 1}}", "{\"action\": \"search\", \"action_input\": \"q\"}", "search", "stock",
    "add (beta)", "tea houses", "search(q='tea')", "İ", "ß", "\ud800", "\x00", "é",
)  # fmt: skip
"""What replies are made of, whole and broken: texts are put together from these."""

_THINK = re.compile(r"\s*<think(?:ing)?>", re.IGNORECASE)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Not compared: what separates and quotes, and what no encoding can hold.
_UNSAID = re.compile("[\\s\"'`\\\\“”„‘’«»\ud800-\udfff\ufffd]+")
_NUMBER = re.compile(r"0[xob][\da-f_]+|[\d.][\d_.]*(?:e[+-]?\d+)?", re.IGNORECASE)


def broken_promises(text: str, tools: Collection[str] = (), spent: list[float] | None = None) -> list[str]:
    """The promises that the parser breaks on a text, in words; empty where it keeps them all.

    Args:
        text: Any text.
        tools: Names of the tools there are.
        spent: Gets the CPU seconds that the parser took in both modes together.
    """
    steps: dict[str, ParsedStep] = {}
    started = time.process_time()
    for mode, strict in (("lenient", False), ("strict", True)):
        try:
            steps[mode] = parse_step(text, tools=tools, strict=strict)
        except Exception as error:  # that it never raises is the first promise
            return [f"{mode}: raised {type(error).__name__}: {error}"]
    if spent is not None:
        spent.append(time.process_time() - started)
    said = Said(text)
    broken = [f"{mode}: {what}" for mode, step in steps.items() for what in _wrong_with(step, said)]
    return broken + list(_more_permissive(steps["lenient"], steps["strict"]))


def _wrong_with(step: ParsedStep, said: Said) -> Iterator[str]:
    if (step.tool is not None, step.answer is not None, step.error is not None) != (
        step.kind == "action",
        step.kind == "final",
        step.kind == "error",
    ):
        yield f"the fields do not fit the kind: {step}"
    if said.only_thinking and (step.kind, step.error) != ("error", "incomplete"):
        yield f"an unclosed <think> was read as {step.kind} ({step.error})"
    if step.kind == "action":
        yield from _wrong_with_call(step, said)
    elif step.kind == "final":
        if not step.answer or step.answer != step.answer.strip():
            yield f"the answer is empty or not trimmed: {step.answer!r}"
        elif step.answer[0] not in "{[" and not said.says_words(step.answer):
            yield f"the answer {step.answer!r} does not stand in the reply"
    elif not step.detail or len(step.detail) > LONGEST_DETAIL:
        yield f"the detail has {len(step.detail)} characters"


def _wrong_with_call(step: ParsedStep, said: Said) -> Iterator[str]:
    if not step.tool or step.tool != step.tool.strip() or "\n" in step.tool:
        yield f"the tool's name is {step.tool!r}"
    elif not said.says_words(step.tool):
        yield f"the tool {step.tool!r} does not stand in the reply"
    if step.args is None:
        yield "an action without arguments is {}, not None"
    try:
        json.dumps(step.args, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        yield f"the arguments are no JSON: {error}"
        return
    for leaf in leaves(step.args):
        if not said.says(leaf):
            yield f"the argument {leaf!r} does not stand in the reply"


def _more_permissive(lenient: ParsedStep, strict: ParsedStep) -> Iterator[str]:
    """Strict may refuse more; what it reads it reads as lenient does."""
    if strict.kind == "action" and (lenient.kind, lenient.tool, _json(lenient.args)) != (
        "action",
        strict.tool,
        _json(strict.args),
    ):
        yield f"strict runs {strict.tool}({strict.args!r}), lenient reads {lenient}"
    if strict.kind == "final" and (lenient.kind, lenient.answer) != ("final", strict.answer):
        yield f"strict answers {strict.answer!r}, lenient reads {lenient}"


def leaves(value: Any) -> Iterator[Any]:
    """Every text, number, truth value and None in a JSON value, keys included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


class Said:
    """A reply, to ask whether something stands in it: as it is, or with its escapes undone, up to three deep."""

    def __init__(self, text: str) -> None:
        self.only_thinking = bool(_THINK.match(text)) and "</think" not in text.lower()
        # Thinking is taken out of what it stands in.
        variants = [text, _THOUGHT.sub("", text)]
        for _ in range(3):
            variants += [_ESCAPE.sub(_unescaped, variant) for variant in variants[-2:]]
        # Half a pair of surrogates each: put together by a round through UTF-16.
        variants += [v.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for v in variants]
        self.plain = {_said(variant) for variant in variants}
        self.lower = text.lower()
        self.numbers = [match[0].replace("_", "") for match in _NUMBER.finditer(text)]

    def says(self, leaf: Any) -> bool:
        """Whether a leaf of the arguments stands here, but for blanks, quotes and escapes."""
        if leaf is None:
            return "null" in self.lower or "none" in self.lower
        if isinstance(leaf, bool):
            return str(leaf).lower() in self.lower
        if isinstance(leaf, int | float):
            return any(_equal(number, leaf) for number in self.numbers) or str(abs(leaf)) in self.lower
        return any(_said(leaf) in variant for variant in self.plain)

    def says_words(self, text: str) -> bool:
        """Whether every word of a text stands here: for texts that something was taken out of."""
        return all(any(_said(word) in variant for variant in self.plain) for word in text.split())


def _unescaped(match: re.Match[str]) -> str:
    code, byte, long, letter = match.groups()
    if letter:
        return _LETTERS.get(letter, letter)
    number = int(code or byte or long, 16)
    return chr(number) if number <= sys.maxunicode else match[0]


def _said(text: str) -> str:
    return _UNSAID.sub("", text)


def _equal(number: str, value: float) -> bool:
    try:
        return abs(value) == (
            int(number, 0) if number.isdigit() or number[:2].lower() in ("0x", "0o", "0b") else float(number)
        )
    except ValueError:
        return False


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
