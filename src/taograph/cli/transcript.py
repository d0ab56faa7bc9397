"""A thread as a person reads it afterwards: its messages, told in the words of a run's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage


def told(messages: Sequence[AnyMessage]) -> Iterator[dict[str, Any]]:
    """What the messages of a thread say, in order.

    Args:
        messages: The messages.

    Yields:
        ``question``, ``instructions``, ``thought``, ``action``, ``observation``, ``retry`` and ``answer``, with the
        fields that a run's events of these names have, as far as messages hold them.
    """
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from taograph.graphs.loop.trajectory import feedback_kind, is_feedback
    from taograph.graphs.protocols.native import text_of, thought_of
    from taograph.tools.results import whole_text

    step = 0  # of the run; each question begins one
    for place, message in enumerate(messages):
        after = messages[place + 1] if place + 1 < len(messages) else None
        match message:
            case HumanMessage() if not is_feedback(message):
                step = 0
                yield {"type": "question", "step": step, "text": str(message.text)}
            case HumanMessage() if feedback_kind(message) == "step":  # of a plan: nothing is tried again
                yield {"type": "instructions", "step": step, "text": str(message.text)}
            case HumanMessage():
                yield {"type": "retry", "step": step, "reason": feedback_kind(message), "detail": str(message.text)}
            case AIMessage():
                step += 1
                if thought := thought_of(message):
                    yield {"type": "thought", "step": step, "text": thought}
                for call in message.tool_calls:
                    yield {"type": "action", "step": step, "id": call["id"], "tool": call["name"], "args": call["args"]}
                if not message.tool_calls and (text := text_of(message)):
                    # A reply that was sent back is none.
                    kind = "thought" if after is not None and is_feedback(after) else "answer"
                    yield {"type": kind, "step": step, "text": text}
            case ToolMessage():
                text = str(message.text)
                whole = whole_text(message) or text
                yield {
                    "type": "observation",
                    "step": step,
                    "id": message.tool_call_id,
                    "tool": message.name or "",
                    "text": text,
                    "status": message.status,
                    "size": len(whole),
                    "handle": None if whole == text else message.tool_call_id,
                    "seconds": 0.0,  # is not stored
                }
            case _:
                yield {"type": "instructions", "step": step, "text": str(message.text)}


def in_a_line(event: dict[str, Any]) -> str:
    """An event in a few words."""
    from taograph.cli.words import call_line

    match event["type"]:
        case "action":
            return f"Action: {call_line(event['tool'], event['args'])}"
        case "retry":
            return f"Again: {event['reason'].replace('_', ' ')}"
        case kind:
            return f"{kind.capitalize()}: {event['text']}"
