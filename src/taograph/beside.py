"""Cores that run beside the one that began them, and what that one waits for: the next event, whoever it comes from.

A core yields :class:`Start` to begin another and :class:`Receive` to wait; :mod:`taograph.calls` drives both, with
threads or on the event loop. Nothing is asked for over and over: whoever puts an event in wakes whoever waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from taograph.cancel import Cancellation, listen_to
from taograph.threads import ThreadPool

# Apart from the threads of tools and models, for which cores wait.
CORE_THREADS = ThreadPool(256, "taograph-core")


class Mailbox:
    """Events from any thread and any task, for one core that takes them in the order in which they came."""

    def __init__(self) -> None:
        self._events: deque[Any] = deque()
        self._wake: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def put(self, event: Any) -> None:
        """Put an event in, from anywhere; it never waits."""
        with self._lock:
            self._events.append(event)
            wake = self._wake
        if wake is not None:
            wake()

    def empty(self) -> bool:
        """Whether there is no event."""
        return not self._events

    def take(self) -> Any:
        """The next event.

        Raises:
            IndexError: There is none.
        """
        return self._events.popleft()

    def wait(self, seconds: float | None, cancel: Cancellation | None) -> None:
        """Wait in this thread until there is an event, the time is over, or the switch is thrown."""
        woken = threading.Event()
        unsubscribe = cancel.subscribe(woken.set) if cancel is not None else None
        try:
            if self._watched(woken.set):
                woken.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        finally:  # KeyboardInterrupt included
            self._wake = None
            if unsubscribe is not None:
                unsubscribe()

    async def await_event(self, seconds: float | None, cancel: Cancellation | None) -> None:
        """As :meth:`wait`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def from_any_thread() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(woken.set)

        unsubscribe = cancel.subscribe(from_any_thread) if cancel is not None else None
        try:
            if self._watched(from_any_thread):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), seconds)
        finally:
            self._wake = None
            if unsubscribe is not None:
                unsubscribe()

    def _watched(self, wake: Callable[[], None]) -> bool:
        """Be woken by the next event; False where there is one already."""
        with self._lock:
            self._wake = wake
            return not self._events


@dataclass(frozen=True, slots=True)
class Start:
    """Another core, begun beside this one; what becomes of it comes into the mailbox as an :class:`Outcome`.

    It ends with the core that began it, at the latest: what it waits for is given up then, as if it were cancelled.

    Attributes:
        steps: The core.
        mailbox: Where its outcome goes.
        key: What the outcome is known by.
    """

    steps: Generator[Any, Any, Any]
    mailbox: Mailbox
    key: Any


@dataclass(frozen=True, slots=True)
class Receive:
    """A wait for the next event in a mailbox.

    Attributes:
        mailbox: The mailbox.
        timeout: Seconds, or None for as long as it takes.
        certain: Wait also where the run is cancelled: what was begun ends soon then, and is looked at.
    """

    mailbox: Mailbox
    timeout: float | None = None
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a core that was begun beside another.

    Attributes:
        key: As it was begun.
        result: What it returned.
        error: What it raised; None where it returned.
    """

    key: Any
    result: Any = None
    error: BaseException | None = None


class Crew:
    """The cores that were begun beside one, and their end."""

    def __init__(self) -> None:
        self._switch: Cancellation | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._running: set[Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, wanted: Start, cancel: Cancellation | None, drive: Callable[[Any], Any]) -> None:
        """Begin a core in a thread of its own.

        Args:
            wanted: The core.
            cancel: What the core that begins it listens to.
            drive: Runs it.
        """

        def work() -> None:
            try:
                outcome = Outcome(wanted.key, drive(wanted.steps))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever began it
                outcome = Outcome(wanted.key, error=error)
            wanted.mailbox.put(outcome)

        future: Future[None] = CORE_THREADS.submit(work, self._context(cancel))
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    def astart(self, wanted: Start, cancel: Cancellation | None, adrive: Callable[[Any], Awaitable[Any]]) -> None:
        """As :meth:`start`, in a task of its own."""

        async def work() -> None:
            try:
                outcome = Outcome(wanted.key, await adrive(wanted.steps))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever began it
                outcome = Outcome(wanted.key, error=error)
            wanted.mailbox.put(outcome)

        task = asyncio.get_running_loop().create_task(work(), context=self._context(cancel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """Give up what is still running, and wait until it has noticed."""
        self._throw()
        if self._running:
            wait(set(self._running))

    async def aend(self) -> None:
        """As :meth:`end`."""
        self._throw()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def _throw(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._switch is not None:
            self._switch.request("what it was a part of has ended")

    def _context(self, cancel: Cancellation | None) -> contextvars.Context:
        """A context for a core, which listens to a switch of the crew's own."""
        if self._switch is None:
            switch = self._switch = Cancellation()
            if cancel is not None:
                self._unsubscribe = cancel.subscribe(lambda: switch.request(cancel.reason or "cancelled"))
        context = contextvars.copy_context()
        context.run(listen_to, self._switch)
        return context
