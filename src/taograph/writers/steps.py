"""Waiting for a thread, sync and async from one core: a generator that yields what is to be done, or waited for.

Not the calls of :mod:`taograph.calls`, though taken in the same way: what takes a lock must not be given up
half-way, and who waits in line is woken by those before, not by a clock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from taograph.calls import atake, take
from taograph.cancel import Cancellation
from taograph.threads import ThreadPool
from taograph.writers.turns import Turn

T = TypeVar("T")

LOCK_THREADS = ThreadPool(32, "taograph-lock")


@dataclass(frozen=True, slots=True)
class Do:
    """Something that blocks.

    Attributes:
        func: The blocking way.
        afunc: The async way, where there is one; else the blocking one is done in a thread.
    """

    func: Callable[[], Any]
    afunc: Callable[[], Awaitable[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the turn is notified, the run is cancelled, or so many seconds are over."""

    turn: Turn
    seconds: float | None


Steps = Generator[Do | Wait, Any, T]


def drive(steps: Steps[T], cancel: Cancellation | None) -> T:
    """Take the steps from synchronous code."""
    return take(steps, lambda wanted: _wait(wanted, cancel) if isinstance(wanted, Wait) else wanted.func())


async def adrive(steps: Steps[T], cancel: Cancellation | None) -> T:
    """Take the steps on the event loop, without blocking it."""

    def make(wanted: Do | Wait) -> Awaitable[Any]:
        if isinstance(wanted, Wait):
            return _await(wanted, cancel)
        return wanted.afunc() if wanted.afunc else away(wanted.func)

    return await atake(steps, make)


async def away(func: Callable[[], T]) -> T:
    """Do something in a thread; if the caller is cancelled, it is done all the same."""
    return await asyncio.shield(asyncio.wrap_future(LOCK_THREADS.submit(func)))


def _wait(wanted: Wait, cancel: Cancellation | None) -> Any:
    if wanted.seconds is not None and wanted.seconds <= 0:
        return None
    event = threading.Event()
    unsubscribe = cancel.subscribe(event.set) if cancel else None
    wanted.turn.listen(event.set)
    try:
        event.wait(wanted.seconds)
    finally:
        wanted.turn.listen(None)
        if unsubscribe:
            unsubscribe()
    return None


async def _await(wanted: Wait, cancel: Cancellation | None) -> Any:
    if wanted.seconds is not None and wanted.seconds <= 0:
        await asyncio.sleep(0)
        return None
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def from_any_thread() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(wake)

    unsubscribe = cancel.subscribe(from_any_thread) if cancel else None
    wanted.turn.listen(from_any_thread)
    try:
        await asyncio.wait({woken}, timeout=wanted.seconds)
    finally:
        wanted.turn.listen(None)
        if unsubscribe:
            unsubscribe()
    return None
