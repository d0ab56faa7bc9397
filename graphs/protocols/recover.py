"""Tool calls that a model wrote into its text instead of calling: found only where nothing else is meant.

Small models, and endpoints that do not read their model's format, return a call as a JSON object in the
content. It is taken for a call only when the whole reply consists of such objects, bare, in a code fence or
in ``<tool_call>`` tags, each naming a tool at hand with an object of arguments. Words may come before tags,
which leave no doubt, and are then the thought.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolCall
from langchain_core.messages.tool import tool_call

# Models put raw line breaks into strings; strict=False reads them.
_DECODER = json.JSONDecoder(strict=False)
_OPEN, _CLOSE, _FENCE = "<tool_call>", "</tool_call>", "```"
_STARTS = ("{", "[", _FENCE, _OPEN)
_KEYS = {"name", "arguments", "parameters", "id", "type", "function"}


def recover_tool_calls(text: str, tool_names: Collection[str]) -> list[ToolCall] | None:
    """The calls that a reply consists of, or None where it is not just that.

    Args:
        text: The content of the reply.
        tool_names: The names that count; any other makes the reply text.

    Returns:
        At least one call, each with a new id; None for everything else.
    """
    found = split_tool_calls(text, tool_names)
    return found[1] if found else None


def split_tool_calls(text: str, tool_names: Collection[str]) -> tuple[str, list[ToolCall]] | None:
    """As :func:`recover_tool_calls`, with the words before ``<tool_call>`` tags (empty for other forms)."""
    thought, body = "", text.strip()
    if not body.startswith(_STARTS):
        at = body.find(_OPEN)
        if at < 0:
            return None
        thought, body = body[:at].rstrip(), body[at:]
    try:
        objects = _read(body)
    except (ValueError, RecursionError):
        return None
    calls = [_call(value, tool_names) for value in objects]
    found = [call for call in calls if call is not None]
    return (thought, found) if found and len(found) == len(calls) else None


def may_become_call(text: str) -> bool:
    """Whether a reply that has come this far may still turn out to be nothing but calls.

    Used to hold back streamed text until it is decided.
    """
    body = text.lstrip()
    return body.startswith(_STARTS) or any(start.startswith(body) for start in _STARTS)


def _read(body: str) -> list[Any]:
    """The JSON values of a body that holds nothing else; ValueError otherwise. One pass."""
    values: list[Any] = []
    at, end = 0, len(body)
    closing = ""
    while at < end:
        if body[at].isspace() or body[at] in ",;":
            at += 1
        elif closing and body.startswith(closing, at):
            at, closing = at + len(closing), ""
        elif not closing and body.startswith(_OPEN, at):
            at, closing = at + len(_OPEN), _CLOSE
        elif not closing and body.startswith(_FENCE, at):
            at, closing = _after_fence(body, at), _FENCE
        elif body[at] in "{[":
            value, at = _DECODER.raw_decode(body, at)
            values.extend(value if isinstance(value, list) else [value])
        else:
            raise ValueError(at)
    return values


def _after_fence(body: str, at: int) -> int:
    """The index behind a fence and its language."""
    at += len(_FENCE)
    while at < len(body) and (body[at].isalnum() or body[at] in "_-"):
        at += 1
    return at


def _call(value: Any, tool_names: Collection[str]) -> ToolCall | None:
    """The call that a JSON value stands for, or None."""
    if not isinstance(value, dict) or not value.keys() <= _KEYS:
        return None
    function = value.get("function")
    if isinstance(function, dict):
        value = function
    elif isinstance(function, str) and "name" not in value:
        value = {**value, "name": function}
    name = value.get("name")
    args = value.get("arguments", value.get("parameters"))
    if isinstance(args, str):
        try:
            args = _DECODER.decode(args) if args.strip() else {}
        except (ValueError, RecursionError):
            return None
    if not isinstance(name, str) or name not in tool_names or not isinstance(args, dict):
        return None
    return tool_call(name=name, args=args, id=f"call_{uuid4().hex[:16]}")
