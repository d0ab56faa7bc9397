"""Redaction of values: whatever JSON holds, keys and numbers too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from taograph.redaction import HIDDEN

# Where such a key stands, the whole value is a secret, however it looks.
_SECRET_KEY = re.compile(
    r"(?:api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key|(?:access|auth|refresh|bearer)[-_]?token"
    r"|client[-_]?secret|password|passwd|authorization)\Z",
    re.IGNORECASE,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-\r\n]+={0,2}\s*")
_LEAST = 100_000  # no number below it is anybody's
_MOST = 10**40
_CONTEXT = 60

Text = Callable[[str, str], str]


def redacted(value: Any, text: Text) -> Any:
    """A value of the same shape with every text, key and number redacted.

    Not by recursion: a value may be nested deeper than Python's stack.

    Args:
        value: What JSON can hold. A tuple or set becomes a list; anything else is taken as its text.
        text: Redacts a text, given what is said before it.
    """
    result: list[Any] = [None]
    todo: list[tuple[Any, str, Any, Any]] = [(value, "", result, 0)]
    while todo:
        one, context, into, at = todo.pop()
        if isinstance(one, dict):
            new: dict[Any, Any] = {}
            into[at] = new
            for key, inner in one.items():
                name = _free(_key(key, text), new)
                new[name] = None
                todo.append((inner, f"{context} {key}".strip()[-_CONTEXT:], new, name))
        elif isinstance(one, list | tuple | set | frozenset):
            into[at] = items = [None] * len(one)
            todo.extend((inner, context, items, index) for index, inner in enumerate(one))
        else:
            into[at] = _leaf(one, context, text)
    return result[0]


def _key(key: Any, text: Text) -> Any:
    return text(key, "") if isinstance(key, str) else _leaf(key, "", text)


def _free(key: Any, taken: dict[Any, Any]) -> Any:
    """A key that is not there yet: two addresses as keys are two entries still."""
    name, number = key, 2
    while name in taken:
        name, number = f"{key} ({number})", number + 1
    return name


def _leaf(value: Any, context: str, text: Text) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if _SECRET_KEY.search(context) and value != "":
        return HIDDEN
    if isinstance(value, int | float):
        if not _LEAST <= abs(value) < _MOST or value != value // 1:
            return value
        digits = f"{int(value)}"
        told = text(digits, context)
        return value if told == digits else told
    if isinstance(value, str) and _is_file(value):
        return value
    return text(str(value), context)


def _is_file(text: str) -> bool:
    """An image or another file in base64: megabytes in which no sentence stands."""
    if text.startswith("data:") and ";base64," in text[:200]:
        return _BASE64.fullmatch(text, text.index(";base64,") + 8) is not None
    return len(text) >= 1024 and _BASE64.fullmatch(text) is not None and not text.isdigit()
