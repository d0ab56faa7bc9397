"""Signals: Ctrl-C ends the run with what it has, SIGTERM stops it where it can be gone on with; a second one quits."""

from __future__ import annotations

import _thread
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from taograph.cancel import Cancellation
    from taograph.cli.render import Renderer

_SAID = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Terminated(KeyboardInterrupt):
    """SIGTERM came while a person was being asked something."""


class Interrupts:
    """Turns SIGINT and SIGTERM into a request to end the run, as long as it is entered.

    Args:
        cancel: What ends the run with what it has.
        renderer: Says that the run is ending.
        drains: Whether SIGTERM stops the run where it is, to be gone on with: it is kept.

    Attributes:
        draining: Whether the run was told to stop where it is.
    """

    def __init__(self, cancel: Cancellation, renderer: Renderer, *, drains: bool = False) -> None:
        self._cancel = cancel
        self._renderer = renderer
        self._drains = drains
        self._asked = False
        self._drain: Callable[[str], None] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self.draining = False

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

    def runs(self, drain: Callable[[str], None]) -> None:
        """A run begins.

        Args:
            drain: Stops it after the step at hand.
        """
        self._drain = drain
        if self.draining:
            drain(_SAID[signal.SIGTERM])

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt instead, as long as a person is asked something: it ends the waiting."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, _terminated)
        try:
            yield
        finally:
            for number in _SAID:
                signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            _quit(128 + number)
        self._asked = True
        said = _SAID[signal.Signals(number)]
        if number == signal.SIGTERM and self._drains:
            self._renderer.stopping("stopping after this step; SIGTERM again quits at once")
            self.draining = True
            if self._drain is not None:
                self._drain(said)  # sets an attribute, no more
            return
        self._renderer.stopping(f"ending the run; {said} again quits at once")
        # In a thread of its own: this code may have interrupted the holder of a lock that it would wait for.
        _thread.start_new_thread(self._cancel.request, (said,))


def _terminated(_: int, __: FrameType | None) -> None:
    raise Terminated


def _quit(code: int) -> None:
    """Leave without unwinding: a call that hangs must not hold the process. Checkpoints are written already."""
    if sys.__stdout__ is not None and sys.__stdout__.isatty():
        os.write(sys.__stdout__.fileno(), b"\x1b[?25h\r\n")  # the live view had hidden the cursor
    os._exit(code)
