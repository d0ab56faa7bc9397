"""Threads for work that may never come back.

``concurrent.futures`` joins its threads when the interpreter exits, so one tool that hangs keeps the
process alive, and holds a place in the pool for good. Here threads are daemons, and a call that was given
up gives its place back.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_IDLE_SECONDS = 30.0


class ThreadPool:
    """A bounded pool of daemon threads.

    Args:
        size: Calls that run at once; more wait their turn. Work submitted from one of the pool's own
            threads does not wait, since it could wait for itself.
        name: Prefix of the threads' names.
    """

    def __init__(self, size: int, name: str) -> None:
        if size < 1:
            raise ValueError(f"size={size!r}: a pool needs at least one thread")
        self._name = name
        self._start(size)
        if hasattr(os, "register_at_fork"):
            # A child that was forked has none of the threads, and maybe a lock that nobody will release.
            os.register_at_fork(after_in_child=lambda: self._start(size))

    def _start(self, size: int) -> None:
        self._size = size
        self._work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._ready = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._mine = threading.local()

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Run ``function`` in a thread; the future has its result or its exception."""
        future: Future[Any] = Future()
        with self._ready:
            self._work.append((future, function))
            if self._idle >= len(self._work):
                self._ready.notify()
            elif self._threads < self._size or getattr(self._mine, "inside", False):
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Give up on a call: drop it if it has not begun, else give its place to others until it ends."""
        if future.cancel() or future.done():
            return
        with self._ready:
            self._size += 1
            if self._work and not self._idle:
                self._threads += 1
                threading.Thread(target=self._run, name=f"{self._name}-{self._threads}", daemon=True).start()
        future.add_done_callback(self._shrink)

    def _shrink(self, _: Future[Any]) -> None:
        with self._ready:
            self._size -= 1

    def _run(self) -> None:
        self._mine.inside = True
        while True:
            with self._ready:
                self._idle += 1
                came = self._ready.wait_for(lambda: bool(self._work), _IDLE_SECONDS)
                self._idle -= 1
                if not came or (self._threads > self._size and not self._work):
                    self._threads -= 1
                    return
                future, function = self._work.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except StopIteration as error:  # no future and no generator can carry one
                future.set_exception(RuntimeError(f"StopIteration({error.value!r}) left the call"))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, function
