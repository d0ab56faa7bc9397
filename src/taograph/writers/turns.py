"""The lines of runs that want a thread, within this process: first come, first served."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable
from itertools import takewhile

from taograph.cancel import Cancellation
from taograph.writers.holders import Ask, Holder


class Turn:
    """A run's place in the line for its thread; who stands first has it.

    Attributes:
        key: The thread, in the place where it is kept.
        holder: What others are told of the run.
        cancel: The switch that ends the run once it runs.
        asks: What it asks of those before it; None where it lets them be.
        asked: What it was asked itself.
        running: Whether it runs; until then, what it was asked waits.
        ending: Whether it is on its way out.
        blocked_by: Who has the thread in another process, where it is first in this one.
        undoes: The runs that it asked to be rolled back.
    """

    __slots__ = (
        "_wake",
        "_woken",
        "asked",
        "asks",
        "blocked_by",
        "cancel",
        "ending",
        "holder",
        "key",
        "running",
        "successors",
        "undoes",
    )

    def __init__(self, key: Hashable, holder: Holder, asks: Ask | None) -> None:
        self.key = key
        self.holder = holder
        self.cancel = Cancellation()
        self.asks = asks
        self.asked: Ask | None = None
        self.running = False
        self.ending = False
        self.blocked_by: Holder | None = None
        self.undoes: set[str] = set()
        self.successors: list[Turn] = []
        self._wake: Callable[[], None] | None = None
        self._woken = False

    @property
    def leaves(self) -> bool:
        """Whether the run is about to end: it is closing, or was cancelled."""
        return self.ending or self.cancel.requested

    def ask(self, ask: Ask) -> None:
        """Ask the run to end; one that has not begun yet does when it has."""
        if self.asked is None or ask.how == "rollback":
            self.asked = ask
        if self.running:
            self.cancel.request(ask.reason)
        else:
            self.notify()

    def ask_of(self, first: Turn) -> None:
        """Ask the one that has the thread what this one asks of those before it."""
        if self.asks is None or self in first.successors:
            return
        first.successors.append(self)
        if self.asks.how == "rollback":
            self.undoes.add(first.holder.run)
        first.ask(self.asks)

    def passes_on(self, other: Holder) -> Ask | None:
        """What is to be asked of a run in another process, by this one or by those that wait for it."""
        for turn in (self, *self.successors):
            if turn.asks is not None and turn.asks.how == "rollback":
                turn.undoes.add(other.run)
        return self.asks or self.asked

    def begin(self) -> None:
        """The run begins."""
        self.running = True
        if self.asked is not None:
            self.cancel.request(self.asked.reason)

    def notify(self) -> None:
        """Something has changed that a waiting run must look at."""
        self._woken = True
        if (wake := self._wake) is not None:
            wake()

    def listen(self, wake: Callable[[], None] | None) -> None:
        """Have ``wake`` called at the next :meth:`notify`, or now if there was one since the last wait."""
        self._wake = wake
        if wake is None:
            self._woken = False
        elif self._woken:
            wake()


class Turns:
    """All lines of this process. Nothing here waits: a run waits for what :meth:`Turn.notify` tells it."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # the runs go on in the parent
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lines: dict[Hashable, deque[Turn]] = {}
        self._gone: deque[Turn] = deque()
        self._mutex = threading.Lock()

    def enter(self, turn: Turn, *, wait: bool) -> Turn | None:
        """Take the thread, or a place in its line.

        Args:
            turn: The run.
            wait: Whether it takes a place where it is not the first.

        Returns:
            Who has the thread; None where it is the run itself.
        """
        with self._mutex:
            self._remove()
            line = self._lines.setdefault(turn.key, deque())
            if not line or wait:
                line.append(turn)
            first = line[0]
        self._settle()
        return None if first is turn else first

    def first(self, turn: Turn) -> Turn | None:
        """Who has the thread; None where it is the run itself, or nobody."""
        with self._mutex:
            self._remove()
            line = self._lines.get(turn.key)
            first = line[0] if line else turn
        self._settle()
        return None if first is turn else first

    def leave_soon(self, turn: Turn) -> bool:
        """Whether all that stand before a run, or would if it stood in line, are about to end."""
        with self._mutex:
            self._remove()
            line = self._lines.get(turn.key, ())
            soon = all(before.leaves for before in takewhile(lambda other: other is not turn, line))
        self._settle()
        return soon

    def leave(self, turn: Turn) -> None:
        """Give the thread to the next in line, or the place in the line up.

        Never waits, and may be called while this very thread is within another method, as by the garbage
        collector: then that method does it before it returns.
        """
        turn.ending = True
        self._gone.append(turn)
        self._settle()

    def _settle(self) -> None:
        while self._gone and self._mutex.acquire(blocking=False):
            try:
                self._remove()
            finally:
                self._mutex.release()

    def _remove(self) -> None:
        while self._gone:
            turn = self._gone.popleft()
            line = self._lines.get(turn.key)
            if line is None or turn not in line:
                continue
            was_first = line[0] is turn
            line.remove(turn)
            if not line:
                del self._lines[turn.key]
            elif was_first:
                for place, waiting in enumerate(line):
                    if place == 0 or waiting.asks is not None:
                        waiting.notify()


TURNS = Turns()
