"""The arguments of a call as models write it: values as Python or JSON write them, by place or by name."""

from __future__ import annotations

import re
from typing import Any

from taograph.graphs.parts.references import EVIDENCE, TASK
from taograph.graphs.protocols.arguments import value_at

_SHOWN_CHARS = 200
_NAMED = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*=(?!=)")
_BARE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|(?P<bare>\$\{?\d{1,6}\}?|\#[Ee]\d{1,6})")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_WORDS = {"true": True, "false": False, "none": None, "null": None}


class ArgumentsError(ValueError):
    """Arguments that cannot be read; the text says what is wrong, in words for the model."""


def read_call(inside: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, by place and by name.

    Args:
        inside: What stands in its brackets.

    Raises:
        ArgumentsError: One cannot be read.
    """
    placed: list[Any] = []
    by_name: dict[str, Any] = {}
    parts = _parts(inside)
    for number, part in enumerate(parts, 1):
        name = _NAMED.match(part)
        written = part[name.end() if name else 0 :].strip()
        try:
            value = _value(written)
        except ArgumentsError:
            # A text without quotes is clear where there is nothing else.
            if len(parts) > 1 or name or not written or set(written) & set("\"'[]{}()"):
                raise ArgumentsError(f"argument {number} is {short(written)!r}. Write a text in quotes.") from None
            value = written
        if name is None:
            if by_name:
                raise ArgumentsError("an argument by place stands behind one by name.")
            placed.append(value)
        elif name["name"] in by_name:
            raise ArgumentsError(f"{name['name']} is given twice.")
        else:
            by_name[name["name"]] = value
    return placed, by_name


def _parts(inside: str) -> list[str]:
    """What stands between the commas that are not within anything."""
    parts: list[str] = []
    begin, depth, quote, escaped = 0, 0, "", False
    for place, character in enumerate(inside):
        if escaped:
            escaped = False
        elif quote:
            escaped = character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(inside[begin:place])
            begin = place + 1
    rest = inside[begin:]
    return [*parts, rest] if rest.strip() else parts


def _value(written: str) -> Any:
    """A value as Python or JSON write it.

    Raises:
        ArgumentsError: It is none.
    """
    if written.lower() in _WORDS:
        return _WORDS[written.lower()]
    if TASK.pattern.fullmatch(written) or EVIDENCE.pattern.fullmatch(written):
        return written
    if _NUMBER.fullmatch(written) and len(written) < 300:
        plain = written.replace("_", "").lstrip("+")
        return int(plain) if re.fullmatch(r"-?\d+", plain) else float(plain)
    if written[:1] == "(" and written[-1:] == ")":
        written = f"[{written[1:-1].rstrip().removesuffix(',')}]"
    if written[:1] and written[0] in "\"'[{":
        quoted = _BARE.sub(lambda one: f'"{one[0]}"' if one["bare"] else one[0], written)
        inner = quoted if written[0] in "[{" else f"[{quoted}]"
        found = value_at(inner, 0)
        if found is not None and found.end == len(inner):
            if written[0] in "[{":
                return found.value
            if isinstance(found.value, list) and len(found.value) == 1 and isinstance(found.value[0], str):
                return found.value[0]
    raise ArgumentsError("it is no value.")


def short(text: str) -> str:
    """A text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_CHARS else f"{flat[:_SHOWN_CHARS]}…"
