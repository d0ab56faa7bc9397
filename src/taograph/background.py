"""One event loop in a thread of its own, for what is async only and is called from synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """One event loop for async-only tools and models that are called from synchronous code."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # a child that was forked does not have its thread
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; the first who asks for it starts it."""
        with self._lock:  # one for all: what meets on a loop, as a connection, would not on two
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name="taograph-loop", daemon=True).start()
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        while True:  # it is everybody's: what one call raises in a task of its own must not end it
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()


BACKGROUND = Background()


def run_async(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code, on the shared background loop."""
    return asyncio.run_coroutine_threadsafe(coroutine, BACKGROUND.loop()).result()
