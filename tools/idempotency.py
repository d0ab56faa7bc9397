"""The key by which a service recognizes that it is asked for the same thing again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_CURRENT: ContextVar[str | None] = ContextVar("taograph_idempotency_key", default=None)


def idempotency_key() -> str | None:
    """The key of the tool call at hand: send it along to whatever the call changes.

    It is the same whenever this very call is run again, after a crash or by a person's word, and no other call has
    it. None outside a tool call, and in a run without a checkpointer, which cannot be resumed::

        @tool(effects="idempotent")
        def pay(invoice: str) -> str:
            \"\"\"Pay an invoice.\"\"\"
            return bank.pay(invoice, idempotency_key=idempotency_key())
    """
    return _CURRENT.get()


@contextlib.contextmanager
def under_key(key: str | None) -> Iterator[None]:
    """What is called within has this key."""
    token = _CURRENT.set(key)
    try:
        yield
    finally:
        # A core that is closed by the garbage collector is in a context of its own.
        with contextlib.suppress(ValueError):
            _CURRENT.reset(token)
