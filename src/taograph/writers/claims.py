"""A run's claim on its thread: how it is made, what it waits for, and how it is given up."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from uuid import UUID

from langchain_core.utils.uuid import uuid7

from taograph.cancel import current_cancellation
from taograph.writers.holders import Ask, Holder, Strategy, ThreadBusyError
from taograph.writers.places import Kept, Place, Saver, ThreadLock, afind, find, known
from taograph.writers.steps import LOCK_THREADS, Do, Steps, Wait, away
from taograph.writers.turns import TURNS, Turn
from taograph.writers.watching import WATCH

_STANDING: ContextVar[tuple[Standing, ...]] = ContextVar("taograph_writers", default=())

# How long a run that is already closing may take until the next one is refused all the same.
_CLOSING_SECONDS = 5.0
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.2


@dataclass(frozen=True, slots=True)
class Standing:
    """What the code of a run knows of its claim; it may outlive the run, in a thread that was given up.

    Attributes:
        thread: The thread's id.
        turn: The run's place in the line.
        place: Where the thread is kept, if other processes use it too.
        lock: The hold on it there.
    """

    thread: str
    turn: Turn
    place: Place | None
    lock: ThreadLock | None


def standing() -> tuple[Standing, ...]:
    """What the code at hand runs under, the outermost first."""
    return _STANDING.get()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that is to be the only one on its thread.

    Attributes:
        saver: The checkpointer.
        thread: The thread's id.
        strategy: What it does where another run has the thread.
        seconds: How long it waits at most; None for as long as it takes.
        run: Its id.
        rewinds: Whether it may be put before the run that it takes the place of: not where the caller names a
            checkpoint to go on from.
    """

    saver: Saver
    thread: str
    strategy: Strategy = "reject"
    seconds: float | None = None
    run: UUID = field(default_factory=uuid7)
    rewinds: bool = True


class Claim:
    """A claim on a thread, from the wait for it until it is given up.

    Attributes:
        thread: The thread's id.
        place: Where it is kept, if other processes use it too.
        lock: The hold on it there.
        saver: What the run writes with, where not with its own checkpointer.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.thread = wanted.thread
        self.place: Place | None = None
        self.lock: ThreadLock | None = None
        self.saver: Saver | None = None
        self._turn: Turn | None = None
        self.outer = current_cancellation()
        self._began = time.monotonic()
        self._over = False
        self._leave_outer: Callable[[], None] | None = None
        self._tokens: list[Token[tuple[Standing, ...]]] = []

    @property
    def undoes(self) -> set[str]:
        """The runs that this one takes the place of."""
        return self._turn.undoes if self._turn else set()

    # Taking it

    def take(self) -> Steps[None]:
        """Become the only run on the thread.

        Raises:
            ThreadBusyError: Another one has it, and this one does not wait, or has waited in vain.
            OSError: The place can't be reached.
        """
        try:
            yield from self._take()
        except BaseException:  # also where nobody takes the steps any more
            self.abandon()
            raise

    def _take(self) -> Steps[None]:
        wanted = self.wanted
        kept = known(wanted.saver)
        if kept is None:
            kept = yield Do(partial(find, wanted.saver), partial(afind, wanted.saver))
        holder = Holder(str(wanted.run))
        how = wanted.strategy
        asks = Ask(how, holder.run) if how in ("interrupt", "rollback") else None
        turn = Turn((*kept.key, self.thread), holder, asks)
        for around in standing():
            if around.turn.key == turn.key and not around.turn.ending:
                raise ThreadBusyError(self.thread, around.turn.holder, "within")
        self._turn = turn
        yield from self._in_line(turn)
        if kept.place is not None:
            yield from self._beyond(turn, kept)
        if self.outer is not None:
            outer = self.outer
            self._leave_outer = outer.subscribe(lambda: turn.cancel.request(outer.reason or "cancelled"))
        turn.begin()

    def _in_line(self, turn: Turn) -> Steps[None]:
        """Stand in line within this process."""
        waits = self.wanted.strategy != "reject"
        seconds = self.wanted.seconds
        first = TURNS.enter(turn, wait=waits)
        if first is not None and not waits:
            rounds = 4  # of a stream that was just dropped, the event loop hears in its next rounds
            while first is not None and rounds and not TURNS.leave_soon(turn):
                yield Wait(turn, 0)
                first = TURNS.enter(turn, wait=False)
                rounds -= 1
            if first is not None and TURNS.leave_soon(turn):
                seconds = _CLOSING_SECONDS
                first = TURNS.enter(turn, wait=True)
        while first is not None:
            if not waits and not TURNS.leave_soon(turn):
                raise ThreadBusyError(self.thread, first.blocked_by or first.holder)
            turn.ask_of(first)
            yield from self._wait(turn, first.blocked_by or first.holder, seconds)
            first = TURNS.first(turn)

    def _beyond(self, turn: Turn, kept: Kept) -> Steps[None]:
        """Take the thread where other processes see it, too."""
        place = self.place = kept.place
        assert place is not None  # noqa: S101
        self.saver = kept.saver
        lock = self.lock = place.lock(self.thread, turn.holder)
        waits = self.wanted.strategy != "reject"
        pause, ask = _FIRST_LOOK, None
        WATCH.visit(place)
        while (other := (yield Do(partial(lock.take, wait=waits, ask=ask)))) is not None:
            turn.blocked_by = other
            if not waits:
                raise ThreadBusyError(self.thread, other)
            if (ask := turn.passes_on(other)) is None or pause > _FIRST_LOOK:
                yield from self._wait(turn, other, self.wanted.seconds, pause)
            pause = min(pause * 1.5, _LONGEST_LOOK)
        turn.blocked_by = None
        WATCH.add(place, lock, turn)

    def _wait(self, turn: Turn, other: Holder, seconds: float | None, pause: float | None = None) -> Steps[None]:
        """Wait for another run.

        Raises:
            ThreadBusyError: The time is over, or the run was cancelled.
        """
        left = None if seconds is None else seconds - (time.monotonic() - self._began)
        if left is not None and left <= 0:
            raise ThreadBusyError(self.thread, other, "waited", f"{seconds:g} seconds")
        if self.outer is None or self.outer.reason is None:
            yield Wait(turn, min((each for each in (left, pause) if each is not None), default=None))
        if self.outer is not None and self.outer.reason is not None:
            raise ThreadBusyError(self.thread, other, "cancelled", self.outer.reason)

    # Running

    def __enter__(self) -> None:
        """What runs in this block, in this context, is the run."""
        assert self._turn is not None  # noqa: S101
        self._turn.cancel.__enter__()
        own = Standing(self.thread, self._turn, self.place, self.lock)
        self._tokens.append(_STANDING.set((*standing(), own)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Back to what ran before."""
        assert self._turn is not None  # noqa: S101
        _STANDING.reset(self._tokens.pop())
        self._turn.cancel.__exit__(kind, error, trace)

    # Giving it up

    def closes(self) -> None:
        """The run is about to end: who comes now may wait for that."""
        if self._turn is not None:
            self._turn.ending = True

    def release(self) -> None:
        """Let the next one have the thread; blocks where the place is beyond the process."""
        self._over = True
        if self._leave_outer is not None:
            self._leave_outer()
        try:
            if self.lock is not None:
                WATCH.remove(self.lock)
                self.lock.release()
        finally:
            if self._turn is not None:
                TURNS.leave(self._turn)

    async def arelease(self) -> None:
        """The twin of :meth:`release` for the event loop; done also if the caller is cancelled."""
        self._over = True
        if self.lock is None:
            self.release()
        else:
            await away(self.release)

    def abandon(self) -> None:
        """As :meth:`release`, for when nobody waits for it to be done."""
        self._over = True
        self.closes()
        if self.lock is None:
            self.release()
        else:
            LOCK_THREADS.submit(self.release)

    def __del__(self) -> None:
        # A stream that was dropped on an event loop that is closed by now is not even told to close.
        if not self._over:
            with suppress(Exception):  # the interpreter may be on its way out
                self.abandon()
