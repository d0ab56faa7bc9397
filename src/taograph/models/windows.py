"""How much a model takes in one request: what it says of itself, and what a refused request tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
_NUMBER = r"(\d[\d,_]*)"
# In the words of OpenAI, vLLM, llama.cpp, Anthropic, Google, Mistral, Cohere and text-generation-inference.
_WINDOW = (
    rf"maximum context length (?:is|of) {_NUMBER}",
    rf"{_NUMBER} maximum context length",
    rf"available context size \({_NUMBER}",
    rf"> {_NUMBER} maximum",
    rf"exceed context limit: [^>]*> {_NUMBER}",
    rf"configured limit of {_NUMBER}",
    rf"maximum number of tokens allowed \({_NUMBER}",
    rf"maximum model length of {_NUMBER}",
    rf"cannot exceed {_NUMBER}",
    rf"must be <= {_NUMBER}",
    rf"context (?:window|length|size|limit)[^.\d]{{0,40}}?{_NUMBER} tokens",
)
_SENT = (
    rf"\({_NUMBER} in the messages",
    rf"messages resulted in {_NUMBER}",
    rf"your request has {_NUMBER} input",
    rf"you requested {_NUMBER} tokens in the messages",
    rf"request \({_NUMBER} tokens\)",
    rf"prompt is too long: {_NUMBER}",
    rf"exceed context limit: {_NUMBER}",
    rf"input token count \({_NUMBER}",
    rf"prompt contains {_NUMBER}",
    rf"prompt \(length {_NUMBER}\)",
    rf"received {_NUMBER}",
    rf"given: {_NUMBER} .?inputs",
    rf"you requested {_NUMBER} tokens",
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """What an error says of a request that was too long.

    Attributes:
        window: Tokens of the model's window; None where it is not said.
        sent: Tokens that the request had; None where it is not said.
    """

    window: int | None = None
    sent: int | None = None


def window_of(model: Any) -> int | None:
    """Tokens that a model takes at most, by its profile; None where nobody knows.

    The local model's profile has the context of its server.
    """
    profile = getattr(model, "profile", None)
    given = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return given if _is_count(given) else None


def reply_tokens(model: Any) -> int | None:
    """Tokens that a model is asked to reply with at most; None where it is left to it."""
    for holder in (model, getattr(model, "model", None)):  # TextReAct, and what it wraps
        for name in _MAX_TOKENS:
            given = getattr(holder, name, None)
            if _is_count(given):
                return given
    return None


def overflow_of(error: BaseException) -> Overflow:
    """Read the sizes out of an error for which :func:`~taograph.models.failures.is_overflow` holds."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    fields = body if isinstance(body, Mapping) else {}
    window, sent = fields.get("n_ctx"), fields.get("n_prompt_tokens")  # llama.cpp's
    text = str(error)
    return Overflow(
        window if _is_count(window) else _first(_WINDOW, text),
        sent if _is_count(sent) else _first(_SENT, text),
    )


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        found = re.search(pattern, text, re.IGNORECASE)
        if found is not None:
            return int(re.sub(r"[,_]", "", found[1])) or None
    return None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
