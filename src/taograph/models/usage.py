"""Tokens and dollars of a model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from taograph.models.prices import Price


@dataclass(frozen=True, slots=True)
class Usage:
    """What one model call took.

    Attributes:
        input_tokens: Sent, cached ones included.
        output_tokens: Received.
        cached_tokens: Of those sent, taken from the provider's cache.
        cost: US dollars; 0.0 where the price is unknown or nothing is charged.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float


def usage_of(request: Sequence[BaseMessage], reply: AIMessage, price: Price | None, tools: Sequence[Any] = ()) -> Usage:
    """The usage a reply reports; counted approximately (4 characters a token) where it reports none.

    A budget that sees nothing would never stop a run, so an estimate is better than a zero, which some servers
    report for every call.

    Args:
        request: The messages that were sent.
        reply: The reply.
        price: The price of the model.
        tools: The tools that were sent with it, whose schemas are tokens, too.
    """
    told = reply.usage_metadata
    if told is None or not told["input_tokens"] + told["output_tokens"]:
        sent, received, cached = _estimate(request, tools), _estimate([reply]), 0
    else:
        sent, received = told["input_tokens"], told["output_tokens"]
        # Some providers count what came from the cache beside what was sent.
        cached = min((told.get("input_token_details") or {}).get("cache_read") or 0, sent)
    cost = price.dollars(sent, received, cached) if price else 0.0
    return Usage(sent, received, cached, cost)


def _estimate(messages: Sequence[BaseMessage], tools: Sequence[Any] = ()) -> int:
    try:
        return count_tokens_approximately(messages, tools=list(tools))
    except RecursionError:  # arguments nested without end; they are refused later
        return sum(len(str(message.text)) for message in messages) // 4
