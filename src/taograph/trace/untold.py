"""What a graph that is not ours does not tell of its steps, from the messages that it passes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from taograph.graphs.protocols.native import text_of, thought_of
from taograph.trace.events import EventType
from taograph.trace.places import Trace


def by_reply(trace: Trace, message: AIMessage) -> Iterator[tuple[EventType, dict[str, Any]]]:
    """Thought and actions, or the answer.

    Args:
        trace: The trace, which learns what calls are open.
        message: What a model replied.
    """
    thought = thought_of(message)
    if thought:
        yield "thought", {"text": thought}
    for call in message.tool_calls:
        trace.open_calls.add(str(call["id"]))
        yield "action", {"id": call["id"], "tool": call["name"], "args": call["args"]}
    if not message.tool_calls and text_of(message):
        yield "answer", {"text": text_of(message), "spent": dict(trace.totals)}


def by_results(trace: Trace, outputs: Any) -> Iterator[tuple[EventType, dict[str, Any]]]:
    """Results that no tool gave, such as that there is none of the name.

    Args:
        trace: The trace.
        outputs: What a node wrote.
    """
    given = outputs.get("messages") if isinstance(outputs, Mapping) else None
    for message in given if isinstance(given, list) else ():
        if isinstance(message, ToolMessage) and message.tool_call_id in trace.open_calls:
            trace.open_calls.discard(message.tool_call_id)
            text = str(message.text)
            told = {"id": message.tool_call_id, "tool": message.name or "", "text": text}
            yield "observation", {**told, "status": message.status, "seconds": 0.0, "size": len(text)}
