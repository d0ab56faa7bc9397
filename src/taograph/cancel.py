"""Cancelling a run from outside: the run ends cleanly, with what it has and the reason ``cancelled``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

_current: ContextVar[Cancellation | None] = ContextVar("taograph_cancellation", default=None)


class Cancellation:
    """A switch that ends the runs started under it.

    Model and tool calls in flight are cut, and the run goes straight to its answer without another call
    of the model. It may be thrown from any thread and from a signal handler::

        with Cancellation() as cancel:
            signal.signal(signal.SIGINT, lambda *_: cancel.request("Ctrl-C"))
            result = graph.invoke(...)      # result["stop"]["reason"] == "cancelled"

    Attributes:
        reason: What :meth:`request` was told; None until then.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._listeners: list[Callable[[], None]] = []
        # Re-entrant: a signal handler may run while the same thread subscribes.
        self._lock = threading.RLock()
        self._tokens: list[Token[Cancellation | None]] = []

    @property
    def requested(self) -> bool:
        """Whether the switch was thrown."""
        return self.reason is not None

    def request(self, reason: str = "cancelled by the caller") -> None:
        """Throw the switch; later calls change nothing."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` once when the switch is thrown (now, if it was).

        Returns:
            A function that ends the subscription.
        """
        with self._lock:
            if self.reason is None:
                self._listeners.append(listener)
                return lambda: self._drop(listener)
        listener()
        return lambda: None

    def _drop(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def __enter__(self) -> Self:
        """Runs started in this block, in this context, listen to the switch."""
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        _current.reset(self._tokens.pop())


def listen_to(cancel: Cancellation) -> None:
    """Make a switch the one that the context at hand listens to; for contexts that are thrown away."""
    _current.set(cancel)


def current_cancellation() -> Cancellation | None:
    """The switch that the code at hand runs under."""
    return _current.get()
