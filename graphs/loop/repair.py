"""Histories that a provider would refuse, made acceptable.

A call without a result (a crash, a cancelled run, a message edited by hand), a result without its call, ids
that are missing or used twice, calls whose arguments cannot be read, empty replies: any of them makes
providers refuse every further request on a thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolCall, ToolMessage

from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.protocols.acceptable import filled, has_sound_calls, is_blank, with_sound_calls

NO_RESULT = "No result was recorded for this call. It may or may not have taken effect."


class Soundness:
    """Whether messages are acceptable, told one after the other.

    Args:
        tools: Names of the tools there are; others have to be of plain characters.

    Attributes:
        used: The ids of the calls so far.
    """

    def __init__(self, tools: Collection[str] = ()) -> None:
        self.used: set[str] = set()
        self._tools = tools
        self._open: set[str] = set()
        self._begun = self._faulty = False

    @property
    def holds(self) -> bool:
        """Whether each call has its result right behind it, each result its call, and each message says something."""
        return not self._faulty and not self._open

    def add(self, message: AnyMessage) -> None:
        """The next message."""
        begun, self._begun = self._begun, True
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in self._open or is_blank(message.content):
                self._faulty = True
            self._open.discard(message.tool_call_id)
            return
        if self._open or (begun and isinstance(message, SystemMessage)):
            self._faulty = True
        calls: list[ToolCall] = []
        if isinstance(message, AIMessage):
            calls = message.tool_calls
            if not has_sound_calls(message, self._tools, self.used):
                self._faulty = True
        if not calls and is_blank(message.content):
            self._faulty = True
        self._open = {call["id"] or "" for call in calls}
        self.used |= self._open


def is_sound(messages: Sequence[AnyMessage], tools: Collection[str] = ()) -> bool:
    """Whether messages are acceptable, as :class:`Soundness` has it.

    Args:
        messages: The messages of a thread.
        tools: Names of the tools there are.
    """
    soundness = Soundness(tools)
    for message in messages:
        soundness.add(message)
    return soundness.holds


def repair(
    messages: Sequence[AnyMessage],
    tools: Collection[str] = (),
    known: Mapping[str, ToolMessage] = MappingProxyType({}),
) -> list[AnyMessage]:
    """An acceptable history with everything in it that the given one says.

    Args:
        messages: The messages of a thread.
        tools: Names of the tools there are.
        known: What is known of calls of its last reply that have no result, by their ids.

    Returns:
        The same messages, in the same order where possible: results moved behind their calls, what is known or a
        neutral error in place of a result that is missing, a result whose call is gone as text of the user's side, all
        instructions in one system message at the head.
    """
    out: list[AnyMessage] = []
    used: set[str] = set()
    results = _Results(messages)
    last = max((place for place, message in enumerate(messages) if isinstance(message, AIMessage)), default=None)
    for place, message in enumerate(messages):
        if place in results.taken or isinstance(message, SystemMessage):
            continue
        if isinstance(message, ToolMessage):
            text = f"[Result of an earlier call of {message.name or 'a tool'}] {message.text}"
            out.append(feedback(text, "repair").model_copy(update={"id": message.id}))
        elif isinstance(message, AIMessage):
            known_here = known if place == last else {}
            out += _with_results(place, message, results, tools=tools, used=used, known=known_here)
        else:
            out.append(filled(message) if is_blank(message.content) else message)
    return [*_instructions(messages), *out]


def close_calls(calls: Sequence[ToolCall], why: str) -> list[ToolMessage]:
    """Results for calls that are not going to be run."""
    return [ToolMessage(why, tool_call_id=c["id"] or "", name=c["name"], status="error") for c in calls]


def _instructions(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The system messages as one; a text that is given again says nothing new."""
    given = [m for m in messages if isinstance(m, SystemMessage) and not is_blank(m.content)]
    if len(given) < 2:
        return list(given)
    texts = dict.fromkeys(str(m.text).strip() for m in given)
    return [given[0] if len(texts) == 1 else given[0].model_copy(update={"content": "\n\n".join(texts)})]


def _with_results(
    place: int,
    message: AIMessage,
    results: _Results,
    *,
    tools: Collection[str],
    used: set[str],
    known: Mapping[str, ToolMessage],
) -> list[AnyMessage]:
    wanted = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    reply, refused, _ = with_sound_calls(message, tools, used)
    if not wanted:
        return [filled(reply) if is_blank(reply.content) else reply]
    used.update(call["id"] or "" for call in reply.tool_calls)
    made: list[AnyMessage] = [reply]
    for call, id_before in zip(reply.tool_calls, wanted, strict=True):
        found = results.take(place, id_before or "")
        if found is None:
            found = known.get(id_before or "")
        if found is None:
            made += close_calls([call], refused.get(call["id"] or "", NO_RESULT))
        else:
            found = filled(found) if is_blank(found.content) else found
            made.append(found.model_copy(update={"tool_call_id": call["id"]}))
    return made


class _Results:
    """The results of a history, to be moved behind their calls.

    Attributes:
        taken: Places of those that were.
    """

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self.taken: set[int] = set()
        self._messages = messages
        self._results: dict[str, list[int]] = {}
        self._calls: dict[str, list[int]] = {}
        for place, message in enumerate(messages):
            if isinstance(message, ToolMessage):
                self._results.setdefault(message.tool_call_id, []).append(place)
            elif isinstance(message, AIMessage):
                for call in (*message.tool_calls, *message.invalid_tool_calls):
                    self._calls.setdefault(call["id"] or "", []).append(place)

    def take(self, place: int, call_id: str) -> ToolMessage | None:
        """The next result of a call that stands at a place; from where its id is used again, it is another's."""
        waiting, calls = self._results.get(call_id, []), self._calls[call_id]
        again = bisect_right(calls, place)
        end = calls[again] if again < len(calls) else len(self._messages)
        at = bisect_right(waiting, place)
        if at == len(waiting) or waiting[at] > end:
            return None
        found = waiting.pop(at)
        self.taken.add(found)
        return cast(ToolMessage, self._messages[found])


def open_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of the last reply that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.type == "tool":
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        else:
            break
    return []
