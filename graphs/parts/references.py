"""References to results that are not there yet, in the arguments of planned calls: ``#E1`` and ``$1``.

A reference is read as a whole, so ``#E1`` is not found in ``#E12``, and every value is filled in once: what stands in a
result is never taken for a reference (defects of the published codes of ReWOO and LLMCompiler).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Sign:
    """How a strategy writes a reference.

    Attributes:
        pattern: Finds one; its last group that matched is the number.
        shown: How one is written, for ``str.format`` with the number.
    """

    pattern: re.Pattern[str]
    shown: str

    def of(self, number: int) -> str:
        """A reference as it is written."""
        return self.shown.format(number)

    def number(self, found: re.Match[str]) -> int:
        """The number of a reference that was found."""
        return int(found[found.lastindex or 0])


# Longer numbers than these are none that a plan counts to.
EVIDENCE = Sign(re.compile(r"#[Ee](\d{1,6})(?!\d)"), "#E{}")
"""ReWOO's: ``#E1``."""
TASK = Sign(re.compile(r"\$(?:(\d{1,6})(?!\d)|\{(\d{1,6})\})"), "${}")
"""LLMCompiler's: ``$1`` or ``${1}``."""


def references(value: Any, sign: Sign) -> list[int]:
    """The numbers that a value refers to, each once, in the order in which they stand there.

    Args:
        value: A text, or lists and objects with texts in them.
        sign: How a reference is written.

    Raises:
        ValueError: It is nested too deeply.
    """
    found: dict[int, None] = {}

    def look(text: str) -> str:
        found.update((sign.number(one), None) for one in sign.pattern.finditer(text))
        return text

    _mapped(value, look)
    return list(found)


def filled_in(value: Any, sign: Sign, results: Mapping[int, str]) -> Any:
    """A value with results in the place of the references; a reference to none of them stays as it is.

    Args:
        value: As :func:`references`.
        sign: How a reference is written.
        results: By number.
    """

    def fill(text: str) -> str:
        return sign.pattern.sub(lambda one: results.get(sign.number(one), one[0]), text)

    return _mapped(value, fill)


def is_reference(value: Any, sign: Sign) -> bool:
    """Whether a value is a reference and nothing else."""
    return isinstance(value, str) and sign.pattern.fullmatch(value.strip()) is not None


def _mapped(value: Any, change: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return change(value)
    if depth > _DEEPEST:
        raise ValueError("the arguments are nested too deeply")
    if isinstance(value, list | tuple):
        return [_mapped(one, change, depth + 1) for one in value]
    if isinstance(value, Mapping):
        return {key: _mapped(one, change, depth + 1) for key, one in value.items()}
    return value
