"""The limits of a run, as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. None means no limit, and is only ever written by the user.

    Attributes:
        steps: Reasoning turns of one run (10 to 25 is the useful range). Turns spent on a broken reply count.
        tool_calls: Tool calls of one run that are carried out.
        seconds: Active time of one run; waiting for a person does not count. A model or tool call in
            flight is cut when it is over.
        tokens: Tokens of one run, sent and received together, the closing answer included.
        cost: US dollars of one run by the price table, the closing answer included. The price of the
            model must be known.
        repeats: Times the same round of calls may end the same way before the run is stopped; there is
            one nudge before.
        errors: Turns in a row in which every call failed.
        malformed: Retries, in a row, of a reply that cannot be used: broken, cut off or empty.
        model_retries: Retries of one model call that failed for a reason that may pass (429, 5xx, time-out).
        reserve_seconds: Time kept for the closing answer, on top of ``seconds``.
        closing: Whether the model is asked once more, without tools, when a limit stops the run. Without that the
            answer is composed from the last observations.
    """

    steps: int | None = 15
    tool_calls: int | None = None
    seconds: float | None = 300.0
    tokens: int | None = None
    cost: float | None = None
    repeats: int = 3
    errors: int = 3
    malformed: int = 2
    model_retries: int = 2
    reserve_seconds: float = 20.0
    closing: bool = True

    def __post_init__(self) -> None:
        for name in ("steps", "tool_calls", "tokens"):
            _whole(name, getattr(self, name), least=0 if name == "tool_calls" else 1, optional=True)
        for name in ("seconds", "cost"):
            _number(name, getattr(self, name), positive=True, optional=True)
        _whole("repeats", self.repeats, least=2)
        _whole("errors", self.errors, least=1)
        _whole("malformed", self.malformed, least=0)
        _whole("model_retries", self.model_retries, least=0)
        _number("reserve_seconds", self.reserve_seconds)
        if not isinstance(self.closing, bool):
            raise ValueError(f"limits.closing={self.closing!r}: give True or False")

    def to_dict(self) -> dict[str, Any]:
        """The limits as plain values, for events and traces."""
        return {name: getattr(self, name) for name in LIMIT_NAMES}

    @property
    def recursion_limit(self) -> int:
        """LangGraph's bound for a run of so many steps.

        A step is two supersteps, reason and act; one more to see that the last observation was the last,
        one to finish, and one because LangGraph raises at N for a run of exactly N. There is room for 100
        steps at least, so that ``Context.steps`` can raise the limit at run time.
        """
        return 1_000_000 if self.steps is None else 2 * max(self.steps, 100) + 3


LIMIT_NAMES = tuple(f.name for f in fields(Limits))


def _whole(name: str, value: Any, *, least: int, optional: bool = False) -> None:
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        none = ", or None for no limit" if optional else ""
        raise ValueError(f"limits.{name}={value!r}: give a whole number, {least} or more{none}")


def _number(name: str, value: Any, *, positive: bool = False, optional: bool = False) -> None:
    if optional and value is None:
        return
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < 0 or (positive and value == 0):
        none = ", or None for no limit" if optional else ""
        raise ValueError(f"limits.{name}={value!r}: give a number {'above' if positive else 'not below'} 0{none}")
