"""What part of the history a request carries.

The stored messages are never rewritten. What stands before the conversation never changes within a run, so
that a provider's prompt cache holds: system prompt, worked examples, then the messages, append-only.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage

COMPOSED = "taograph_composed"
"""Marks an answer that the loop put together itself, with the reason there was no better one."""

_TIGHT_CHARS = 600
_KEPT_WHOLE = 2


def request(
    system: str | None, examples: Sequence[AnyMessage], messages: Sequence[AnyMessage], *, tight: bool = False
) -> list[AnyMessage]:
    """The messages of a request.

    Args:
        system: The system prompt.
        examples: Worked examples as real turns.
        messages: The conversation so far, acceptable to a provider.
        tight: Show only the head of every observation but the last two: the answer to a context overflow.
    """
    conversation = [_shown(message) for message in messages]
    head: list[AnyMessage] = []
    if conversation and isinstance(conversation[0], SystemMessage):
        # One system message: some templates refuse a second, and none may stand behind the examples.
        own = conversation.pop(0)
        system = f"{system}\n\n{own.text}" if system else str(own.text)
    if system:
        head.append(SystemMessage(system))
    return [*head, *examples, *(_tightened(conversation) if tight else conversation)]


def _shown(message: AnyMessage) -> AnyMessage:
    """A message as the model is shown it: small models copy an answer that was composed for them."""
    reason = message.additional_kwargs.get(COMPOSED)
    return AIMessage(f"(This was not answered: {reason}.)", id=message.id) if reason else message


def _tightened(messages: list[AnyMessage]) -> list[AnyMessage]:
    places = [i for i, m in enumerate(messages) if isinstance(m, ToolMessage)][:-_KEPT_WHOLE]
    for place in places:
        message = messages[place]
        text = str(message.text)
        if len(text) > _TIGHT_CHARS:
            shown = f"{text[:_TIGHT_CHARS]}\n[… {len(text) - _TIGHT_CHARS} characters left out to fit]"
            messages[place] = message.model_copy(update={"content": shown})
    return messages
