"""Active time: what counts against ``Limits.seconds``, and until when a call may run."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from typing_extensions import TypedDict

ELAPSED: ContextVar[Callable[[Any], float] | None] = ContextVar("taograph_elapsed", default=None)
"""What tells the active seconds of a session where no clock is to: a replay takes no time, whatever its run took."""


class Clock(TypedDict):
    """Active time as the union of the spans in which a node ran, so that parallel calls count once.

    Waiting for a person falls between two spans, and so do not count the days it may take.

    Attributes:
        seconds: Time of all spans but the last.
        start: Start of the last span, seconds since the epoch.
        end: Its end.
    """

    seconds: float
    start: float
    end: float


def new_clock(start: float, end: float) -> Clock:
    """A clock with one span that, merged into another, starts it anew."""
    return Clock(seconds=-1.0, start=start, end=end)


def merge_clock(left: Clock | None, right: Clock) -> Clock:
    """Add a span to the clock; what overlaps with the last span counts once."""
    if not left or right["seconds"] < 0:
        return Clock(seconds=0.0, start=right["start"], end=right["end"])
    if right["start"] > left["end"]:
        done = left["seconds"] + left["end"] - left["start"]
        return Clock(seconds=done, start=right["start"], end=right["end"])
    if right["end"] < left["start"]:
        return Clock(seconds=left["seconds"] + right["end"] - right["start"], start=left["start"], end=left["end"])
    return Clock(
        seconds=left["seconds"],
        start=min(left["start"], right["start"]),
        end=max(left["end"], right["end"]),
    )


def active_seconds(clock: Clock | None) -> float:
    """The active time a clock shows."""
    return clock["seconds"] + clock["end"] - clock["start"] if clock else 0.0


class Deadlines:
    """When the calls of each turn were sent, in this process, and so until when they may run.

    A call that waits for its place (``max_concurrency``) must not get the time anew when its turn comes, but
    one that runs after a person took days (``interrupt_before``, an approval) must. So the moment is kept here
    rather than in what the task was sent, and holds within one invocation of the graph only.
    """

    def __init__(self, size: int = 16_384) -> None:
        # One turn of a run at a time; what is left is of runs that were cut off, the oldest of which go first.
        self._turns: OrderedDict[str, tuple[int, object, float]] = OrderedDict()
        self._size = size

    def __len__(self) -> int:
        return len(self._turns)

    def set(self, run: str, step: int, *, within: object) -> None:
        """The calls of a turn are sent now; those of the turn before have been answered.

        Args:
            run: The run's id.
            step: The turn.
            within: The invocation at hand; another one knows nothing of the moment.
        """
        self._turns.pop(run, None)
        self._turns[run] = (step, within, time.monotonic())
        if len(self._turns) > self._size:
            self._turns.popitem(last=False)

    def waited(self, run: str, step: int, *, within: object) -> float:
        """Seconds since the turn's calls were sent; 0.0 where that is not known here."""
        known = self._turns.get(run)
        return time.monotonic() - known[2] if known and known[0] == step and known[1] is within else 0.0

    def left(self, run: str, step: int, seconds: float | None, *, within: object) -> float | None:
        """What is left of the seconds that there were when the calls were sent."""
        return None if seconds is None else seconds - self.waited(run, step, within=within)

    def forget(self, run: str) -> None:
        """The turn waits for a person, or the run is over."""
        self._turns.pop(run, None)


DEADLINES = Deadlines()
