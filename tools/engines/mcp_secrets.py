"""Keeping what an ``mcp.json`` holds of secrets out of observations, errors and logs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from taograph.redaction import HIDDEN, redact

# A shorter text is found in too many others.
_SHORTEST = 6
_DEEPEST = 64


class Secrets:
    """Texts that must not be seen.

    Args:
        values: The texts; those too short to be told from others are passed over.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The longest first: one may be a part of another.
        self.values = tuple(sorted({value for value in values if len(value) >= _SHORTEST}, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Secrets({len(self.values)})"

    def hide(self, text: str) -> str:
        """A text without them."""
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return text

    def hide_in(self, value: Any, depth: int = 0) -> Any:
        """A JSON value without them, as a checkpoint can hold it: no numbers beyond 64 bits, no endless nesting."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return str(value)
        if depth > _DEEPEST:
            return None
        if isinstance(value, dict):
            return {self.hide(str(key)): self.hide_in(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.hide_in(inner, depth + 1) for inner in value]
        return value


class _Discreet(logging.Filter):
    """Takes secrets out of what the libraries log, and the tracebacks of MCP's, whose texts hold addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record."""
        text = redact(record.getMessage())
        for value in _known:
            text = text.replace(value, HIDDEN)
        record.msg, record.args = text, ()
        if record.name.startswith("mcp."):
            record.exc_info = None
        return True


# A filter sees only what is logged by the very logger it is added to.
_LOGGERS = ("mcp.client.stdio", "mcp.client.streamable_http", "mcp.client.sse", "mcp.shared.session", "httpx")
# Replaced, never changed: threads log meanwhile.
_known: tuple[str, ...] = ()


def guard_logs(secrets: Secrets) -> None:
    """Keep secrets out of what the libraries log, from now on.

    Args:
        secrets: What must not be seen; it stays so as long as the process lives.
    """
    global _known  # noqa: PLW0603 - loggers are global, too
    _known = tuple(sorted({*_known, *secrets.values}, key=len, reverse=True))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _Discreet) for each in logger.filters):
            logger.addFilter(_Discreet())
