"""Active time: what counts against ``Limits.seconds``, and until when a call may run."""

from __future__ import annotations

import time
from collections import OrderedDict

from typing_extensions import TypedDict


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
    """Until when the calls of a turn may run, in this process.

    A call that waits for its place (``max_concurrency``) must not get the time anew when its turn comes, but
    one that is resumed after a person took days must. So the moment is kept here rather than in what the
    task was sent, forgotten when a call waits for a person, and not there in another process.
    """

    def __init__(self, size: int = 4096) -> None:
        self._moments: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._size = size

    def set(self, run: str, step: int, seconds: float | None) -> None:
        """The calls of a turn have so many seconds from now."""
        if seconds is None:
            return
        self._moments[run, step] = time.monotonic() + seconds
        if len(self._moments) > self._size:
            self._moments.popitem(last=False)

    def left(self, run: str, step: int, seconds: float | None) -> float | None:
        """Seconds left; ``seconds`` where the moment is not known here."""
        moment = self._moments.get((run, step))
        return seconds if moment is None or seconds is None else moment - time.monotonic()

    def forget(self, run: str, step: int) -> None:
        """The turn waits for a person, or is over."""
        self._moments.pop((run, step), None)


DEADLINES = Deadlines()
