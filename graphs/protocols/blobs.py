"""Steps that a model writes as JSON or in a native call format instead of under labels.

The formats are those that servers leak as text when they do not read them: JSON objects bare, fenced or in
``<tool_call>`` tags (Qwen, Hermes), ``[TOOL_CALLS]`` (Mistral), ``<|python_tag|>`` (Llama), ``<function=name>`` (Qwen
Coder, Llama), and the call sections of Kimi and DeepSeek. Of several calls the first counts.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taograph.graphs.protocols.arguments import (
    Arguments,
    BadArgumentsError,
    loads,
    nothing_meant,
    read_arguments,
    value_at,
)

_NAME = ("action", "tool", "tool_name", "toolname", "name", "function", "function_name")
_ARGS = ("action_input", "arguments", "args", "parameters", "params", "tool_input", "input", "kwargs", "actioninput")
_ANSWER = ("final_answer", "finalanswer", "answer")
_THOUGHT = ("thought", "thoughts", "reasoning")
_BESIDE = ("id", "type", "index", "call_id")
_FINAL = frozenset({"final answer", "final_answer", "finalanswer", "final"})

# A JSON value counts at the start of a line, bare, or behind a fence or a tag.
_OPENING = re.compile(
    r"(?:(?P<tag><tool_calls?>|\[TOOL_CALLS\]|<[|｜]python_tag[|｜]>|<[|｜]tool[_▁]calls?(?:[_▁]begin)?[|｜]>|"
    r"<function_call>|functools)\s*+|^[^\S\n]*+)(?:(?:`{3,}+|~{3,}+)[\w+-]*+\s*+)?+(?=[{\[])",
    re.MULTILINE,
)
_INLINE = re.compile(r"(?P<tag>\s*+)(?:(?:`{3,}+|~{3,}+)[\w+-]*+\s*+)?+(?=[{\[])")
_WITHIN = re.compile(r"\{\s*+[\"'](?:name|action|tool|tool_name|function|type|id)[\"']\s*+:")
_SECTION = re.compile(  # Kimi: functions.NAME:0<|tool_call_argument_begin|>{…}
    r"(?:<\|tool_calls_section_begin\|>\s*+)?+<\|tool_call_begin\|>\s*+(?:functions\.)?+(?P<name>[^\s<:]++)(?::\d++)?+\s*+"
    r"<\|tool_call_argument_begin\|>\s*+"
)
_DEEPSEEK = re.compile(
    r"(?:<｜tool▁calls▁begin｜>\s*+)?+<｜tool▁call▁begin｜>\s*+(?:function\s*+<｜tool▁sep｜>\s*+)?+"
    r"(?P<name>[^\s<]++)\s*+(?:<｜tool▁sep｜>\s*+)?+(?:```(?:json)?+\s*+)?+"
)
_FUNCTION = re.compile(
    r"(?:<tool_call>\s*+)?+<(?:function=|invoke name=\"|function name=\")(?P<name>[^\s>\"]++)\"?+>\s*+"
)
_PARAMETER = re.compile(
    r"<(?:parameter=|parameter name=\")(?P<key>[^\s>\"]++)\"?+>\n?+"
    r"(?P<value>[^<]*+(?:<(?!/parameter>)[^<]*+)*+)</parameter>\s*+"
)
_AFTER = re.compile(
    r"\s*+(?:`{3,}+|~{3,}+)?+\s*+(?:</?[a-z_]++>\s*+)*+(?:<[|｜][^<>\n]{1,60}[|｜]>\s*+)*+", re.IGNORECASE
)
_CALL = re.compile(r"([^\W\d][\w.-]*+)\((.*)\)\Z", re.DOTALL)
_SPACED_OBJECT = re.compile(r"\A([^\W\d][\w.-]*+)[ \t]++\((?=\s*+\{)")
_BRACKETS = re.compile(r"([^\W\d][\w.-]*+)\[(.+)\]\Z")
_MOST_TRIED = 8


@dataclass(frozen=True, slots=True)
class Blob:
    """A step that is not under labels.

    Attributes:
        start: Where it begins in the reply; what stands before is the thought.
        end: Where it ends.
        tool: The tool; None where it gives an answer, or names no tool.
        args: The arguments.
        answer: The answer, where it gives one.
        thought: The thought it holds itself.
        keys: Its keys, where it looks like a call and names no tool.
        both: Whether it gives a call and an answer.
        more: Whether it holds further calls.
    """

    start: int
    end: int
    tool: str | None = None
    args: Any = None
    answer: str | None = None
    thought: str = ""
    keys: tuple[str, ...] = ()
    both: bool = False
    more: bool = False


def find_blob(text: str, start: int, end: int, *, inline: bool = False) -> Blob | None:
    """The first step in a part of a reply that is written as JSON or as a native call, or None.

    Args:
        text: The reply.
        start: Where the part begins.
        end: Where it ends.
        inline: Whether a value right at the start counts, too, though no line begins there.
    """
    native = _native(text, start, end)
    tried, at = 0, start
    while tried < _MOST_TRIED:
        opening = _INLINE.match(text, at, end) if inline and not tried else None
        opening = opening or _OPENING.search(text, at, end)
        if opening is None:
            break
        if native is not None and native.start <= opening.start():
            return native
        tried, at = tried + 1, opening.end() + 1
        decoded = value_at(text, opening.end())
        if decoded is None:
            continue
        value, at = decoded.value, decoded.end
        stop = _end(text, at)
        whole = not text[start : opening.start()].strip() and stop >= end
        found = _read(value, opening.start(), stop, whole=whole or bool(opening["tag"]))
        if found is not None:
            return found
    return native


def find_call(text: str, start: int, end: int) -> Blob | None:
    """The first object within prose that names a tool and has its arguments, or None: a guess."""
    at = start
    for _ in range(_MOST_TRIED):
        opening = _WITHIN.search(text, at, end)
        if opening is None:
            return None
        at = opening.end()
        decoded = value_at(text, opening.start())
        if decoded is not None:
            found = _read(decoded.value, opening.start(), decoded.end, whole=False)
            if found is not None and found.tool and not found.both and isinstance(found.args, dict) and found.args:
                return found
            at = decoded.end
    return None


def read_call(region: str) -> tuple[str, Arguments] | None:
    """``tool(key=value)``, ``tool("text")`` or ``Tool[text]``, as a name and arguments."""
    line = _SPACED_OBJECT.sub(r"\1(", region.strip().strip("`* \t"), count=1)
    if (brackets := _BRACKETS.match(line)) is not None:
        return brackets[1], Arguments(brackets[2].strip())
    call = _CALL.match(line)
    if call is None or len(line) > 10_000:
        return None
    inside = call[2].strip()
    if not inside:
        return call[1], Arguments({})
    if inside[:1] == "{":
        try:
            return call[1], read_arguments(inside, decoded=None, strict=True, cut=False)
        except BadArgumentsError:
            return None
    if "\\" in inside:
        return None
    try:
        tree = ast.parse(f"call({inside})", mode="eval").body
        if not isinstance(tree, ast.Call) or (tree.args and tree.keywords) or len(tree.args) > 1:
            return None
        if tree.args:
            value = ast.literal_eval(tree.args[0])
            return (call[1], Arguments(value)) if isinstance(value, str | dict | list) and _is_plain(value) else None
        found = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords if word.arg}
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return (call[1], Arguments(found)) if len(found) == len(tree.keywords) and _is_plain(found) else None


def _is_plain(value: Any) -> bool:
    """Whether a literal is what JSON knows."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_is_plain(inner) for inner in value)
    return value is None or isinstance(value, str | int | float)


def _end(text: str, at: int) -> int:
    after = _AFTER.match(text, at)
    return after.end() if after else at


def _native(text: str, start: int, end: int) -> Blob | None:
    places = [(m.start(), m, form) for form in (_SECTION, _DEEPSEEK, _FUNCTION) if (m := form.search(text, start, end))]
    if not places:
        return None
    at, opening, form = min(places, key=lambda place: place[0])
    stop = opening.end()
    if form is _FUNCTION and (first := _PARAMETER.match(text, stop)):
        args: dict[str, Any] = {}
        while first is not None:
            args[first["key"]] = first["value"].removesuffix("\n")
            stop = first.end()
            first = _PARAMETER.match(text, stop)
        return Blob(at, _closed(text, stop), tool=opening["name"], args=args)
    if text.startswith("{", stop):
        decoded = value_at(text, stop)
        if decoded is None:
            return None
        return Blob(at, _closed(text, decoded.end), tool=opening["name"], args=decoded.value)
    closing = re.compile(r"<(?:/function|/invoke|\|tool_call_end\||｜tool▁call▁end｜)>").match(text, stop)
    return Blob(at, _closed(text, stop), tool=opening["name"], args={}) if closing else None


def _closed(text: str, at: int) -> int:
    closing = re.compile(r"\s*+(?:</(?:function|invoke)>\s*+)?+").match(text, at)
    return _end(text, closing.end() if closing else at)


def _read(value: Any, start: int, end: int, *, whole: bool) -> Blob | None:
    """The step that a JSON value stands for; None where it is data like any other."""
    more = isinstance(value, list) and len(value) > 1
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    wrapped = next((value[key] for key in ("tool_calls", "tool_call", "function_call") if value.get(key)), None)
    if isinstance(wrapped, list | dict):  # the whole message of an API
        return _read(wrapped, start, end, whole=whole)
    fields = {str(key).strip().lower().replace(" ", "_").replace("-", "_"): inner for key, inner in value.items()}
    thought = _text(_first(fields, _THOUGHT))
    name, args = _call(fields)
    answer = _first(fields, _ANSWER)
    if isinstance(name, str) and name.strip().lower() in _FINAL:
        return Blob(start, end, answer=_text(args), thought=thought, more=more)
    called = isinstance(name, str) and not nothing_meant(name)
    if answer is not None and (thought or "action" in fields or len(fields) == 1):
        if not called:
            return Blob(start, end, answer=_text(answer), thought=thought, more=more)
        if "action" in fields:
            return Blob(start, end, tool=name, args=_arguments(args), answer=_text(answer), thought=thought, both=True)
    has_args = any(key in fields for key in _ARGS)
    if isinstance(name, str) and (has_args or "action" in fields or fields.keys() <= {*_NAME, *_THOUGHT, *_BESIDE}):
        return Blob(start, end, tool=name, args=_arguments(args), thought=thought, more=more)
    if has_args and whole:
        return Blob(start, end, thought=thought, keys=tuple(str(key) for key in value))
    return None


def _call(fields: Mapping[str, Any]) -> tuple[Any, Any]:
    """The name and the arguments among the fields of an object, which may hold them one level down."""
    name, args = _first(fields, _NAME), _first(fields, _ARGS)
    for key in ("function", "action", "tool", "tool_call", "function_call"):
        inner = fields.get(key)
        if isinstance(inner, Mapping):
            deep = {str(k).strip().lower().replace(" ", "_"): v for k, v in inner.items()}
            found = _first(deep, _NAME)
            return (found, _first(deep, _ARGS)) if isinstance(found, str) else (name, args)
    if isinstance(fields.get("function"), str) and not any(k in fields for k in _NAME if k != "function"):
        name = fields["function"]
    return name, args


def _first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _arguments(value: Any) -> Any:
    """Arguments as they are; an object that was encoded as text is decoded."""
    if value is None:
        return {}
    if isinstance(value, str):
        if nothing_meant(value):
            return {}
        if value.lstrip()[:1] in ("{", "["):
            try:
                return loads(value)
            except ValueError:
                return value
    return value


def _text(value: Any) -> str:
    """An answer or a thought as text."""
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
