"""Cancelling a run from outside: the run ends cleanly, with what it has and the reason ``cancelled``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Self

# The switches of the blocks around the code at hand, the innermost last. Kept by context and not by the switch:
# several tasks and threads may be within blocks of the same one.
_listening: ContextVar[tuple[Cancellation, ...]] = ContextVar("taograph_cancellation", default=())


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
        self._listeners: dict[object, Callable[[], None]] = {}
        # Re-entrant: a signal handler may run while the same thread subscribes.
        self._lock = threading.RLock()

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
            listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` once when the switch is thrown (now, if it was).

        Returns:
            A function that ends the subscription.
        """
        with self._lock:
            if self.reason is None:
                key = object()
                self._listeners[key] = listener
                return lambda: self._drop(key)
        listener()
        return lambda: None

    def _drop(self, key: object) -> None:
        with self._lock:
            self._listeners.pop(key, None)

    def __enter__(self) -> Self:
        """Runs started in this block, in this context, listen to the switch."""
        listen_to(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        _listening.set(_listening.get()[:-1])


def listen_to(cancel: Cancellation) -> None:
    """Make a switch the one that the context at hand listens to; for contexts that are thrown away."""
    _listening.set((*_listening.get(), cancel))


def current_cancellation() -> Cancellation | None:
    """The switch that the code at hand runs under."""
    around = _listening.get()
    return around[-1] if around else None
