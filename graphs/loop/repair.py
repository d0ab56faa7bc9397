"""Histories that a provider would refuse, made acceptable.

A call without a result (a crash, a cancelled run, a message edited by hand), a result without its call, ids
that are missing or used twice, calls whose arguments cannot be read, empty replies: any of them makes
providers refuse every further request on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage

from taograph.graphs.protocols.native import read_reply

NO_RESULT = "No result was recorded for this call. It may or may not have taken effect."


def is_sound(messages: Sequence[AnyMessage]) -> bool:
    """Whether every call has its result right behind it, every result its call, and no reply is empty."""
    open_calls: set[str] = set()
    used: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_calls:
                return False
            open_calls.discard(message.tool_call_id)
            continue
        if open_calls:
            return False
        if isinstance(message, AIMessage):
            if message.invalid_tool_calls or not (message.tool_calls or message.content):
                return False
            for call in message.tool_calls:
                if not call["id"] or call["id"] in used:
                    return False
                used.add(call["id"])
            open_calls = {call["id"] or "" for call in message.tool_calls}
    return not open_calls


def repair(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """An acceptable history with everything in it that the given one says.

    Args:
        messages: The messages of a thread.

    Returns:
        The same messages, in the same order where possible: results moved behind their calls, a neutral error
        in place of a result that is missing, a result whose call is gone as text of the user's side.
    """
    out: list[AnyMessage] = []
    used: set[str] = set()
    taken: set[int] = set()  # places of results that were moved to their calls
    for place, message in enumerate(messages):
        if place in taken:
            continue
        if isinstance(message, ToolMessage):
            out.append(HumanMessage(f"[Result of an earlier call of {message.name or 'a tool'}] {message.text}"))
        elif isinstance(message, AIMessage):
            reply, results = _with_results(place, message, messages, used, taken)
            out += [reply, *results]
        else:
            out.append(message)
    return out


def close_calls(calls: Sequence[ToolCall], why: str) -> list[ToolMessage]:
    """Results for calls that are not going to be run."""
    return [ToolMessage(why, tool_call_id=c["id"] or "", name=c["name"], status="error") for c in calls]


def _with_results(
    place: int, message: AIMessage, messages: Sequence[AnyMessage], used: set[str], taken: set[int]
) -> tuple[AIMessage, list[ToolMessage]]:
    wanted = [call["id"] for call in message.tool_calls] + [call["id"] for call in message.invalid_tool_calls]
    if not wanted:
        return (message if message.content else message.model_copy(update={"content": "(no text)"})), []
    read = read_reply(message.model_copy(update={"response_metadata": {}}), (), used)
    reply = read.message.model_copy(update={"response_metadata": message.response_metadata})
    used.update(call["id"] or "" for call in reply.tool_calls)
    results: list[ToolMessage] = []
    for call, id_before in zip(reply.tool_calls, wanted, strict=True):
        found = _result(place, id_before, messages, taken)
        if found is None:
            why = read.refused.get(call["id"] or "", NO_RESULT)
            results += close_calls([call], why)
        else:
            results.append(found.model_copy(update={"tool_call_id": call["id"]}))
    return reply, results


def _result(place: int, call_id: str | None, messages: Sequence[AnyMessage], taken: set[int]) -> ToolMessage | None:
    for later in range(place + 1, len(messages)):
        message = messages[later]
        if later not in taken and isinstance(message, ToolMessage) and message.tool_call_id == (call_id or ""):
            taken.add(later)
            return message
    return None
