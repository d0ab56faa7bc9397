"""A short text that a regular expression matches; the same one each time."""

from __future__ import annotations

import string
from collections.abc import Sequence
from importlib import import_module
from typing import Any

# The reading of a pattern is private in Python, but has kept its form since long before 3.11; hand-written
# readers of regular expressions, and packages that wrap this one, are the alternatives.
_reading: Any = import_module("re._parser")
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits[1:] + "0",
    "CATEGORY_WORD": string.ascii_lowercase + string.digits + "_",
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": string.ascii_lowercase,
    "CATEGORY_NOT_WORD": "-. ",
    "CATEGORY_NOT_SPACE": string.ascii_lowercase + string.digits,
}
_LIKELY = string.ascii_letters + string.digits + "-_. /:@#"
_LONGEST = 200


class _TooHardError(Exception):
    """The pattern uses what is not read here, or wants a long text."""


def matching(pattern: str) -> str | None:
    """A text that ``re.search`` would find the pattern in; None where none is easily made."""
    try:
        return _sequence(_reading.parse(pattern), {})
    except FutureWarning:  # where warnings are errors
        return None
    except (_TooHardError, ValueError, OverflowError, RecursionError, _reading.error):
        return None


def _sequence(parts: Sequence[Any], groups: dict[int, str]) -> str:
    made = ""
    for operation, value in parts:
        made += _one(str(operation), value, groups)
        if len(made) > _LONGEST:
            raise _TooHardError
    return made


def _one(operation: str, value: Any, groups: dict[int, str]) -> str:
    match operation:
        case "LITERAL":
            return chr(value)
        case "ANY" | "NOT_LITERAL" | "IN":
            return _character(operation, value)
        case "AT" | "ASSERT" | "ASSERT_NOT":  # whoever asked checks whether the text fits them
            return ""
        case "BRANCH":
            return _sequence(value[1][0], groups)
        case "SUBPATTERN":
            number, _, _, parts = value
            text = _sequence(parts, groups)
            if number is not None:
                groups[number] = text
            return text
        case "GROUPREF":
            return groups.get(value, "")
        case "ATOMIC_GROUP":
            return _sequence(value, groups)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, parts = value
            if least > _LONGEST:
                raise _TooHardError
            return "".join(_sequence(parts, groups) for _ in range(least))
    raise _TooHardError


def _character(operation: str, value: Any) -> str:
    if operation == "ANY":
        return "a"
    if operation == "NOT_LITERAL":
        return next(character for character in _LIKELY if character != chr(value))
    allowed: list[str] = []
    negated = False
    for kind, item in value:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                allowed.append(chr(item))
            case "RANGE":
                allowed.extend(map(chr, range(item[0], min(item[1], item[0] + 127) + 1)))
            case "CATEGORY":
                allowed.extend(_CATEGORIES[str(item)])
    if not negated:
        return allowed[0]
    for character in _LIKELY:
        if character not in allowed:
            return character
    raise _TooHardError
