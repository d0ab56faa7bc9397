"""Who has a thread, and the errors of those who do not."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, Self, get_args

Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What a run does where another one has its thread; LangGraph's names for double texting."""

STRATEGY = "multitask_strategy"
"""Where in ``configurable`` it is said."""

STRATEGIES: tuple[str, ...] = get_args(Strategy)

Why = Literal["busy", "waited", "cancelled", "within"]

_OPTIONS = (
    "Wait for it to end, or say what this run is to do: config={'configurable': {'thread_id': …, "
    "'multitask_strategy': 'enqueue'}} waits its turn, 'interrupt' ends the other run with what it has, "
    "'rollback' ends it and goes on from before it"
)


@cache
def this_host() -> str:
    """The name of this machine."""
    return socket.gethostname()


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that has a thread, or is about to.

    Attributes:
        run: Its id: that of its outermost trace, ``run_id`` in its config.
        pid: Its process.
        host: The machine that it runs on.
        since: Since when, in seconds since the epoch.
    """

    run: str
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=this_host)
    since: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def read(cls, values: Any) -> Self | None:
        """From plain values; None if they are none."""
        try:
            return cls(str(values["run"]), int(values["pid"]), str(values["host"]), float(values["since"]))
        except (KeyError, TypeError, ValueError):
            return None

    def __str__(self) -> str:
        since = f"{datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
        if (self.pid, self.host) == (os.getpid(), this_host()):
            return f"run {self.run} of this process, since {since}"
        return f"run {self.run} of process {self.pid} on {self.host}, since {since}"


UNKNOWN = Holder("", 0, "", 0.0)
"""A run that has not said yet who it is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A run's request that the one before it ends.

    Attributes:
        how: Whether what that one did is to be kept.
        by: The run that asks.
    """

    how: Literal["interrupt", "rollback"]
    by: str

    @property
    def reason(self) -> str:
        """What the run that ends is told."""
        if self.how == "rollback":
            return f"run {self.by} on the same thread takes the place of this one, which is rolled back"
        return f"interrupted by run {self.by} on the same thread"


class ThreadBusyError(RuntimeError):
    """Raised where another run has the thread; nothing was stored of this one, and no model was asked.

    The caller can try again later, or choose a ``multitask_strategy``; the message says how.

    Attributes:
        thread: The thread's id.
        run: The id of the run that has it; None where that could not be found out.
        pid: Its process.
        host: The machine that it runs on.
        since: Since when it runs (or waits, where it is the first of several that wait).
    """

    def __init__(self, thread: str, holder: Holder, why: Why = "busy", detail: str = "") -> None:
        """Say it.

        Args:
            thread: The thread's id.
            holder: Who has it.
            why: "busy"; "waited" in vain; the wait was "cancelled"; the run that asks is "within" the holder.
            detail: How long it waited, or who cancelled.
        """
        known = None if holder is UNKNOWN else holder
        self.thread = thread
        self.run = known.run if known else None
        self.pid = known.pid if known else None
        self.host = known.host if known else None
        self.since = datetime.fromtimestamp(known.since, UTC) if known else None
        who = str(known or "another run")
        match why:
            case "busy":
                text = f"has it, and a thread has one run at a time. {_OPTIONS}"
            case "waited":
                text = f"has it still after a wait of {detail}. Try again later, or allow the run more seconds"
            case "cancelled":
                text = f"has it, and the wait for it was cancelled: {detail}"
            case "within":
                text = "has it, and is what this run was started by. Give the inner run a thread_id of its own"
        super().__init__(f"thread {thread!r} is busy: {who}, {text}")


class ThreadLostError(RuntimeError):
    """Raised in a run that has lost its thread, so that it does not write beside another that may have it by now.

    What it had stored until then is kept, and the run can be gone on with: ``graph.invoke(None, config)``.

    Attributes:
        thread: The thread's id.
    """

    def __init__(self, thread: str, why: str) -> None:
        """Say it."""
        self.thread = thread
        super().__init__(
            f"thread {thread!r} was lost: {why}. The run ended without storing more; "
            "graph.invoke(None, config) goes on with it from what is stored"
        )


def read_strategy(given: Any) -> Strategy:
    """What a config says a run does on a busy thread.

    Raises:
        ValueError: There is no such strategy.
    """
    if given is None:
        return "reject"
    if given not in STRATEGIES:
        raise ValueError(f"multitask_strategy={given!r}: use one of {', '.join(map(repr, STRATEGIES))}")
    return given  # type: ignore[no-any-return]
