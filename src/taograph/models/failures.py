"""What a failed model call means: whether it can pass, whether the prompt was too long, what to tell."""

from __future__ import annotations

import math

import httpx
from langchain_core.exceptions import ContextOverflowError, ModelError, ModelRefusalError, OutputParserException

from taograph.redaction import redact

_TOO_LONG = (
    "exceeds the available context size",
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "prompt is too long",
)
_BROKEN = (
    "output that does not match the expected",  # llama.cpp, status 500
    "failed to parse tool call",
    "tool_use_failed",  # Groq, status 400
    "malformed_function_call",
)
_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})


def is_retryable(error: BaseException) -> bool:
    """Whether the same call may succeed in a moment: rate limits, overload, lost connections, time-outs."""
    if is_malformed(error) or is_overflow(error):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    status = status_of(error)
    if status is not None:
        return status in _RETRYABLE_STATUS or status >= 500
    return isinstance(error, TimeoutError | ConnectionError | httpx.TransportError)


def is_overflow(error: BaseException) -> bool:
    """Whether the prompt was longer than the model's window."""
    if isinstance(error, ContextOverflowError):
        return True
    return status_of(error) in (400, 413, None) and any(sign in str(error).lower() for sign in _TOO_LONG)


def is_malformed(error: BaseException) -> bool:
    """Whether a server or a client could not read what the model wrote: a broken reply, whatever the status."""
    if isinstance(error, OutputParserException | RecursionError):
        return True
    said = f"{error} {getattr(error, 'code', '')}".lower()
    return any(sign in said for sign in _BROKEN)


def refusal_text(error: BaseException) -> str | None:
    """The model's words where the error is a refusal, else None."""
    if not isinstance(error, ModelRefusalError):
        return None
    return str(error) or "The model refused."


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries."""
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int):
            return status
    return None


def retry_after(error: BaseException) -> float | None:
    """Seconds the provider asks to wait (``Retry-After``), or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        seconds = float(headers["retry-after"]) if headers else math.nan
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def describe(error: BaseException) -> str:
    """An error in one line, without secrets."""
    text = " ".join(redact(str(error)).split())
    name = type(error).__name__
    return f"{name}: {text[:300]}{'…' if len(text) > 300 else ''}" if text else name
