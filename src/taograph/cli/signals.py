"""Ctrl-C: the first one ends the run cleanly, the second one quits at once."""

from __future__ import annotations

import _thread
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from taograph.cancel import Cancellation
    from taograph.cli.render import Renderer

_SAID = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupts:
    """Turns SIGINT and SIGTERM into a request to end the run, as long as it is entered.

    Args:
        cancel: What ends the run.
        renderer: Says that the run is ending.
    """

    def __init__(self, cancel: Cancellation, renderer: Renderer) -> None:
        self._cancel = cancel
        self._renderer = renderer
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Listen."""
        for number in _SAID:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the earlier handlers back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt instead, as long as a person is asked something: it ends the waiting."""
        for number in _SAID:
            signal.signal(number, signal.default_int_handler)
        try:
            yield
        finally:
            for number in _SAID:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            _quit(128 + number)
        self._asked = True
        self._renderer.stopping("ending the run; Ctrl-C again quits at once")
        # In a thread of its own: this code may have interrupted the holder of a lock that it would wait for.
        _thread.start_new_thread(self._cancel.request, (_SAID[signal.Signals(number)],))


def _quit(code: int) -> None:
    """Leave without unwinding: a call that hangs must not hold the process. Checkpoints are written already."""
    if sys.__stdout__ is not None and sys.__stdout__.isatty():
        os.write(sys.__stdout__.fileno(), b"\x1b[?25h\r\n")  # the live view had hidden the cursor
    os._exit(code)
