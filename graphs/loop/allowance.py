"""What a run's sub-runs may use: no more than it has left, also where several run at once.

A strategy that runs another graph as a part of itself gives it an allowance with the config. Each turn of the sub-run
asks it anew what is left, and says what it has used, so sub-runs that run side by side draw on one purse.
"""

from __future__ import annotations

import operator
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig

from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.stopping import StopReason

# LangGraph keeps keys that begin so out of the metadata of checkpoints.
_KEY = "__taograph_allowance"

Countable = Literal["steps", "tool_calls"]

SHARED: Mapping[StopReason, str] = {
    "step_limit": "steps",
    "tool_call_limit": "tool_calls",
    "deadline": "seconds",
    "token_limit": "tokens",
    "cost_limit": "cost",
}
"""The stop reasons that a limit shared with the parent can bring about, and that limit."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a sub-run has used of the limits it shares."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    @classmethod
    def of(cls, spent: Spent, steps: int) -> Used:
        """What was spent in so many steps."""
        return cls(steps, spent["tool_calls"], spent["input_tokens"] + spent["output_tokens"], spent["cost"])

    def __add__(self, other: Used) -> Used:
        return Used(*map(operator.add, astuple(self), astuple(other)))

    def __or__(self, other: Used) -> Used:
        return Used(*map(max, astuple(self), astuple(other)))


class Allowance:
    """What is left of a run for the sub-runs that were begun together.

    Args:
        left: The run's limits less what it had used; a limit of None is none.
        above: What the run itself was given, where it is a sub-run.
        used: What the run itself has used, for what is above it.
    """

    def __init__(self, left: Mapping[str, float | None], above: Grant | None, used: Used) -> None:
        self._left = dict(left)
        self._above, self._used = above, used
        self._children: dict[str, Used] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def report(self, name: str, used: Used) -> None:
        """A sub-run says what it has used up to now, its own sub-runs included; what it has claimed stands."""
        with self._lock:
            self._children[name] = used | self._children.get(name, Used())
            total = sum(self._children.values(), self._used)
        if self._above is not None:
            self._above.report(total)

    def used_by(self, name: str) -> Used:
        """What a sub-run has used up to now, and claimed."""
        with self._lock:
            return self._children.get(name, Used())

    def claim(self, name: str, what: Countable, total: int) -> int:
        """A sub-run is about to take a step, or to call tools.

        Args:
            name: What it is called.
            what: "steps" or "tool_calls".
            total: How many it would have had then, in all.

        Returns:
            How many it may have in all: no more than the total, and fewer where those beside it were faster.
        """
        with self._lock:
            others = sum((getattr(used, what) for one, used in self._children.items() if one != name), 0)
            most = self._left[what]
            granted = total if most is None else min(total, int(most) - others)
            if self._above is not None:
                own = others + getattr(self._used, what)
                granted = min(granted, self._above.claim(what, own + granted) - own)
            known = self._children.get(name, Used())
            self._children[name] = replace(known, **{what: max(getattr(known, what), granted)})
        return granted

    def left_for(self, name: str, elapsed: float) -> dict[str, float | None]:
        """What a sub-run may use in all, what it has used already included.

        Args:
            name: What it is called.
            elapsed: Its active seconds up to now.
        """
        with self._lock:
            others = sum((used for one, used in self._children.items() if one != name), Used())
        # Those beside the run that it is a part of may have used some of what that was given.
        above = {} if self._above is None else self._above.allowance.left_for(self._above.name, 0.0)
        left: dict[str, float | None] = {}
        for what, most in self._left.items():
            if most is None:
                left[what] = None
            elif what == "seconds":
                # What it took before it waited for a person is in its own time only.
                left[what] = min(most, elapsed + most - (time.monotonic() - self._began))
            else:
                all_told = above.get(what)
                whole = most if all_told is None else min(most, all_told - getattr(self._used, what))
                left[what] = whole - getattr(others, what)
        return left

    def narrow(self, limits: Limits, name: str, elapsed: float) -> tuple[Limits, frozenset[str]]:
        """A sub-run's own limits within what is left; also the names of those that are narrower than its own.

        Args:
            limits: Its own.
            name: Its name.
            elapsed: Its active seconds up to now.
        """
        changes: dict[str, Any] = {}
        for what, left in self.left_for(name, elapsed).items():
            own = getattr(limits, what)
            if left is not None and (own is None or left < own):
                changes[what] = _at_least(what, left)
        return (replace(limits, **changes), frozenset(changes)) if changes else (limits, frozenset())


class Allowances:
    """The allowances of this process, so that sub-runs that were begun in one superstep find the same one."""

    def __init__(self, size: int = 4096) -> None:
        self._known: OrderedDict[tuple[str, object], tuple[object, Allowance]] = OrderedDict()
        self._size = size
        self._lock = threading.Lock()

    def shared(self, allowance: Allowance, run: str, moment: object, *, within: object) -> Allowance:
        """The allowance of a run's superstep: the one given, unless a task beside this one has given one before.

        Args:
            allowance: A new one.
            run: The run's id.
            moment: What is the same in all tasks of the superstep.
            within: The invocation at hand; what one before it left is of no use.
        """
        with self._lock:
            known = self._known.get((run, moment))
            if known is not None and known[0] is within:
                return known[1]
            self._known[run, moment] = (within, allowance)
            if len(self._known) > self._size:
                self._known.popitem(last=False)
            return allowance


ALLOWANCES = Allowances()


@dataclass(frozen=True, slots=True)
class Grant:
    """What one sub-run is given.

    Attributes:
        allowance: What it shares with those beside it.
        name: What it is called there.
    """

    allowance: Allowance
    name: str

    def narrow(self, limits: Limits, elapsed: float) -> tuple[Limits, frozenset[str]]:
        """As :meth:`Allowance.narrow`."""
        return self.allowance.narrow(limits, self.name, elapsed)

    @property
    def used(self) -> Used:
        """What it has used up to now, and claimed."""
        return self.allowance.used_by(self.name)

    def report(self, used: Used) -> None:
        """As :meth:`Allowance.report`."""
        self.allowance.report(self.name, used)

    def claim(self, what: Countable, total: int) -> int:
        """As :meth:`Allowance.claim`."""
        return self.allowance.claim(self.name, what, total)

    def within(self, config: RunnableConfig) -> RunnableConfig:
        """A config that gives it to a sub-run."""
        return {**config, "configurable": {**(config.get("configurable") or {}), _KEY: self}}


def grant_of(config: RunnableConfig) -> Grant | None:
    """What a run was given; None where it is nobody's sub-run."""
    found = (config.get("configurable") or {}).get(_KEY)
    return found if isinstance(found, Grant) else None


LEAST: Mapping[str, float] = {"steps": 1, "tokens": 1, "tool_calls": 0, "cost": 1e-9, "seconds": 1e-9}
"""The least that :class:`Limits` takes of each: what a sub-run has where nothing is left."""


def _at_least(what: str, left: float) -> float:
    """A limit as :class:`Limits` takes it."""
    least = LEAST[what]
    return max(least, int(left) if isinstance(least, int) else left)
