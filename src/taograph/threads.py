"""Threads for work that may never come back.

``concurrent.futures`` joins its threads when the interpreter exits, so one tool that hangs keeps the
process alive, and holds a place in the pool for good. Here threads are daemons, and a call that was given
up gives its place back.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, ContextVar, copy_context
from time import monotonic
from typing import Any

_IDLE_SECONDS = 30.0

# How many calls, of whichever pools, the code at hand runs within. Threads that a call starts in its turn
# are given its context by LangGraph, by LangChain and by asyncio; a thread-local would be lost on the way.
_DEPTH: ContextVar[int] = ContextVar("taograph_depth", default=0)


class ThreadPool:
    """A bounded pool of daemon threads, which are reused, the last that became idle first.

    Work that is submitted from within a call of any pool stands a level above it, and each level has its own
    places: what is below waits for what is above and never the reverse, so tools that run graphs that call
    tools cannot take all places and then wait for one.

    Args:
        size: Calls that run at once, on each level; more wait their turn.
        name: Prefix of the threads' names.

    Attributes:
        size: As given.
    """

    def __init__(self, size: int, name: str) -> None:
        if size < 1:
            raise ValueError(f"size={size!r}: a pool needs at least one thread")
        self.size = size
        self._name = name
        self._start()
        if hasattr(os, "register_at_fork"):
            # A child that was forked has none of the threads, and maybe a lock that nobody will release.
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._levels: defaultdict[int, _Level] = defaultdict(_Level)
        self._ready: deque[Job] = deque()  # they have a place, and no thread yet
        self._idle: list[threading.Lock] = []
        self._threads = 0
        self._started = 0
        # One thread at a time is on its way to take what is ready, and sends the next one. Short calls are so
        # done by the same few threads, one after another, and long ones have all the threads that they need.
        self._coming = False

    def submit(self, function: Callable[[], Any], context: Context | None = None) -> Job:
        """Run ``function`` in a thread.

        Args:
            function: It.
            context: What it runs in, if not in a copy of the context at hand.

        Returns:
            A future that has its result or its exception.
        """
        within = copy_context() if context is None else context
        depth = within.get(_DEPTH, 0)
        with self._lock:
            level = self._levels[depth]
            job = Job(function, within, depth, level)
            if level.running >= self.size:
                level.waiting.append(job)
                return job
            level.running += 1
            self._ready.append(job)
            try:
                self._call_for_a_thread()
            except RuntimeError:  # no more can be started; those that run will come
                if not self._threads:
                    self._ready.remove(job)
                    level.running -= 1
                    raise
        return job

    def abandon(self, future: Future[Any]) -> bool:
        """Give up on a call: drop it if it has not begun, else give its place to others until it ends.

        Returns:
            Whether it had begun.
        """
        assert isinstance(future, Job)  # noqa: S101
        if future.cancel():
            future.forget()
            return False
        with self._lock:
            if future.holds:
                self._leave(future)
                if self._ready and not self._coming:
                    self._try_for_a_thread()
        return True

    def _leave(self, job: Job) -> None:
        """A call has its place no longer; the next one of its level has it."""
        job.holds = False
        level = job.level
        if level.waiting:
            self._ready.append(level.waiting.popleft())
            return
        level.running -= 1

    def _call_for_a_thread(self) -> None:
        if self._coming:
            return
        self._coming = True
        if self._idle:
            self._idle.pop().release()
            return
        self._threads += 1
        self._started += 1
        try:
            threading.Thread(target=self._run, name=f"{self._name}-{self._started}", daemon=True).start()
        except RuntimeError:
            self._coming = False
            self._threads -= 1
            raise

    def _try_for_a_thread(self) -> None:
        try:
            self._call_for_a_thread()
        except RuntimeError:  # no more can be started; the next that has done its work comes
            return

    def _run(self) -> None:
        called = threading.Lock()  # held, but for the moment in which this thread is called
        called.acquire()
        job: Job | None = None
        came = True
        while True:
            with self._lock:
                if came:
                    self._coming = came = False
                if job is not None and job.holds:
                    self._leave(job)
                job = self._ready.popleft() if self._ready else None
                if self._ready:
                    self._try_for_a_thread()
                if job is None:
                    self._idle.append(called)
            if job is not None:
                job.run()
                continue
            came = called.acquire(timeout=_IDLE_SECONDS)
            if not came:
                with self._lock:
                    if called in self._idle:
                        self._idle.remove(called)
                        self._threads -= 1
                        return
                came = called.acquire()  # it was called in the same moment


class _Level:
    """The places of one level of a pool."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[Job] = deque()


class Job(Future[Any]):
    """A call, from when it was submitted until it has ended.

    Attributes:
        level: Whose place it takes.
        holds: Whether its place is its own still.
    """

    def __init__(self, function: Callable[[], Any], context: Context, depth: int, level: _Level) -> None:
        super().__init__()
        self._function: Callable[[], Any] | None = function
        self._context: Context | None = context
        self._depth = depth
        self.level = level
        self.holds = True
        self._begun: float | None = None
        self._wake: Callable[[], None] | None = None

    def seconds_left(self, seconds: float, wake: Callable[[], None]) -> float | None:
        """What is left of the time that it may take, which begins when it has its thread.

        Args:
            seconds: That time.
            wake: Called when it begins, where it has not.

        Returns:
            Seconds, 0 or less where they are over; None where it has not begun.
        """
        self._wake = wake  # before what follows is read, as it is read after that is written
        return None if self._begun is None else self._begun + seconds - monotonic()

    def run(self) -> None:
        """Do it, unless it was cancelled."""
        function, context = self._function, self._context
        self.forget()
        if function is None or context is None or not self.set_running_or_notify_cancel():
            return
        self._begun = monotonic()
        if self._wake is not None:
            self._wake()
        try:
            result = context.run(_one_deeper, self._depth, function)
        except StopIteration as error:  # no future and no generator can carry one
            self.set_exception(RuntimeError(f"StopIteration({error.value!r}) left the call"))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
            self.set_exception(error)
        else:
            self.set_result(result)

    def forget(self) -> None:
        """Let go of what it holds on to: a result that somebody keeps should not keep a whole run."""
        self._function = self._context = None


def _one_deeper(depth: int, function: Callable[[], Any]) -> Any:
    token = _DEPTH.set(depth + 1)
    try:
        return function()
    finally:
        _DEPTH.reset(token)
