"""What a failed model call means: whether it can pass, whether the prompt was too long, what to tell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelError, ModelRefusalError, OutputParserException
from langchain_core.language_models import BaseLanguageModel
from pydantic import SecretStr

from taograph.redaction import redact

_TOO_LONG = (
    "exceeds the available context size",
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "prompt is too long",
    "prompt too long",  # Ollama
    "input tokens exceed",  # OpenAI's Responses
    "longer than the maximum model length",  # vLLM
    "exceed context limit",  # Anthropic, with what the reply may take
    "exceeds the maximum number of tokens allowed",  # Google
    "total number of tokens in the prompt cannot exceed",  # Cohere
    "`inputs` tokens + `max_new_tokens` must be",  # text-generation-inference
    "reduce the length of the messages",  # Groq
)
_BROKEN = (
    "output that does not match the expected",  # llama.cpp, status 500
    "failed to parse tool call",
    "tool_use_failed",  # Groq, status 400
    "malformed_function_call",
)
_NO_TOOLS_STATUS = (400, 404, 405, 415, 422, 500, 501)
_TOOLS = (
    r"(?:\btools?\b|\btool[ _-]?(?:us(?:e|age)|call(?:s|ing)?|choice)\b|\bfunction[ _-]?call(?:s|ing)?\b|\bfunctions\b)"
)
_NOT = r"(?:not|n't|un|isn.t)\s?(?:\w+\s){0,2}?(?:support|enabled|available|allowed|permitted)"
_NO_TOOLS = re.compile(
    rf"(?:not|n't|no)\s[^.\n]{{0,60}}?support[^.\n]{{0,60}}?{_TOOLS}"
    rf"|{_TOOLS}[^.\n]{{0,60}}?(?:{_NOT}|requires? --)"
    rf"|enable-auto-tool-choice|(?:unrecognized|unknown|unexpected|unsupported)[^.\n]{{0,60}}?\b(?:tools|tool_choice|functions)\b"
    r"|Additional properties[^\n]{0,40}'(?:tools|tool_choice|functions)' (?:was|were) unexpected"
    r"|不支持[^\n]{0,10}?(?:工具|函数)调用"
    r"|\['body', 'tools'\][^}]{0,200}(?:forbidden|not permitted)|body[^\n]{0,20}\btools\b[^\n]{0,80}not permitted",
    re.IGNORECASE,
)
# A complaint about one tool, or about how it is described: another tool, or none, might be taken.
_OF_ONE_TOOL = re.compile(r"schema|tools?\[|tools?\.\d", re.IGNORECASE)
_RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
_SECRET_HEADER = re.compile(r"key|token|auth|secret|cookie|password", re.IGNORECASE)
# A placeholder such as "x" or "none" is no secret, and taking it out would spoil every word it is in.
_SHORTEST = 6
# What an error in the midst of a stream says, which has no status of its own.
_RETRYABLE_CODES = frozenset(
    {"server_error", "overloaded_error", "rate_limit_exceeded", "rate_limit_error", "service_unavailable"}
)


def is_retryable(error: BaseException) -> bool:
    """Whether the same call may succeed in a moment: rate limits, overload, lost connections, time-outs."""
    if is_malformed(error) or is_overflow(error) or refuses_tools(error):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    status = status_of(error)
    if status is not None:
        return status in _RETRYABLE_STATUS or status >= 500
    if {getattr(error, "code", None), getattr(error, "type", None)} & _RETRYABLE_CODES:
        return True
    return isinstance(error, TimeoutError | ConnectionError) or _is_transport_error(error)


def is_overflow(error: BaseException) -> bool:
    """Whether the prompt was longer than the model's window."""
    if isinstance(error, ContextOverflowError):
        return True
    return status_of(error) in (400, 413, None) and any(sign in words_of(error).lower() for sign in _TOO_LONG)


def is_malformed(error: BaseException) -> bool:
    """Whether a server or a client could not read what the model wrote: a broken reply, whatever the status."""
    if isinstance(error, OutputParserException | RecursionError):
        return True
    said = f"{words_of(error)} {getattr(error, 'code', '')}".lower()
    return any(sign in said for sign in _BROKEN)


def refuses_tools(error: BaseException) -> bool:
    """Whether an endpoint says that it takes no tools: then the text protocol is left.

    Read from what servers answer: Ollama ("does not support tools"), vLLM ("requires --enable-auto-tool-choice"),
    llama.cpp ("tools param requires --jinja flag"), OpenRouter ("No endpoints found that support tool use"), old
    OpenAI-compatible servers ("Unrecognized request argument supplied: tools"), FastAPI's 422. A complaint about the
    schema of a tool is none. Some clients hand on the words without the status: of Bedrock and Gemini, and of an error
    within an answer that is not one.
    """
    if isinstance(error, NotImplementedError):
        return True
    if status_of(error) not in (*_NO_TOOLS_STATUS, None):
        return False
    said = words_of(error)
    found = _NO_TOOLS.search(said)
    return found is not None and not _OF_ONE_TOOL.search(said, found.start(), found.end() + 20)


def refuses_temperature(error: BaseException) -> bool:
    """Whether a model says that its temperature cannot be set, as models that reason do."""
    if is_retryable(error) or status_of(error) not in (400, 422, None):
        return False
    return getattr(error, "param", None) == "temperature" or "temperature" in words_of(error).lower()


def refusal_text(error: BaseException) -> str | None:
    """The model's words where the error is a refusal, else None."""
    if not isinstance(error, ModelRefusalError):
        return None
    return str(error) or "The model refused."


def kinds_of(error: BaseException) -> list[str]:
    """What a failure means to the loop, as names: what a record has to tell of it to be replayed."""
    tests = {
        "malformed": is_malformed,
        "overflow": is_overflow,
        "refuses_tools": refuses_tools,
        "refusal": lambda error: refusal_text(error) is not None,
        "temperature": refuses_temperature,
        "retryable": is_retryable,
    }
    return [name for name, holds in tests.items() if holds(error)]


def words_of(error: BaseException) -> str:
    """What an error says, with what OpenAI's client leaves out of it: the ``detail`` of a server made with FastAPI."""
    said, body = str(error), getattr(error, "body", None)
    detail = body.get("detail") if isinstance(body, Mapping) else None
    return f"{said} - {detail}" if detail and str(detail) not in said else said


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries; some providers put it in the code of an error within a stream."""
    holders = ((error, "status_code"), (getattr(error, "response", None), "status_code"), (error, "code"))
    for holder, field in holders:
        status = getattr(holder, field, None)
        if isinstance(status, int) or (isinstance(status, str) and status.isdecimal()):
            return int(status)
    return None


def retry_after(error: BaseException) -> float | None:
    """Seconds the provider asks to wait (``Retry-After``), or None."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    try:
        seconds = float(headers["retry-after"]) if headers else math.nan
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def describe(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """An error in one line, without secrets; a connection that failed with its address.

    Args:
        error: The error.
        secrets: What must not be shown besides what :func:`~taograph.redaction.redact` finds by itself.
    """
    text = " ".join(redact(f"{words_of(error)}{_place(error)}", secrets).split())
    name = type(error).__name__
    return f"{name}: {text[:300]}{'…' if len(text) > 300 else ''}" if text else name


def secrets_of(model: Any) -> set[str]:
    """The keys that a model was given in code: its secret fields, and headers of such names; of one behind it, too."""
    found: set[str] = set()
    for value in vars(model).values() if hasattr(model, "__dict__") else ():
        if isinstance(value, SecretStr):
            found.add(value.get_secret_value())
        elif isinstance(value, Mapping):
            found |= {v for k, v in value.items() if isinstance(v, str) and _SECRET_HEADER.search(str(k))}
        elif isinstance(value, BaseLanguageModel):
            found |= secrets_of(value)
    return {secret.removeprefix("Bearer ") for secret in found if len(secret) >= _SHORTEST}


def _place(error: BaseException) -> str:
    """Where a connection failed, and the first cause of it; nothing for an error that was answered."""
    if getattr(error, "response", None) is not None:
        return ""
    try:
        url = str(getattr(getattr(error, "request", None), "url", ""))
    except RuntimeError:  # httpx: the request was never set
        return ""
    if not url:
        return ""
    first: BaseException = error
    while first.__cause__ is not None:
        first = first.__cause__
    return f" ({url.partition('?')[0]}{f': {first}' if first is not error else ''})"


def _is_transport_error(error: BaseException) -> bool:
    """Of httpx or of httpx2, whichever a client library uses."""
    return any(c.__name__ == "TransportError" and c.__module__.startswith("httpx") for c in type(error).__mro__)
