"""What part of the history a request carries.

The stored messages are never rewritten. A request is: system prompt, worked examples, then the messages,
append-only. Where they outgrow the model's window, a :class:`Plan` says what is shown instead of the older ones: a
summary in place of whole rounds, the first lines of old observations. A plan stands until the window is full again,
so that what stands before the newest messages does not change from request to request, and a provider's prompt cache
holds. Who makes plans is in ``planning.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolCall, ToolMessage
from typing_extensions import TypedDict

from taograph.graphs.loop.condensing import condensed, cut_down
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.protocols import prompts

COMPOSED = "taograph_composed"
"""Marks an answer that the loop put together itself, with the reason there was no better one."""


class Plan(TypedDict, total=False):
    """What requests show in place of the older messages of a thread; empty where they show everything.

    Places count the messages of the thread from its beginning.

    Attributes:
        through: Messages before this place are told by the summary.
        question: From where to where the user's question stood, if it is among them: it is shown whole.
        summary: The summary.
        by: Whether the model wrote it, or it was put together from the calls and their results.
        condensed: Of observations before this place, the first lines are shown.
        cut: Before this place, no part of a message is longer than ``cut_chars``, thoughts and arguments included.
        cut_chars: Characters.
        last: Id of the last message that the plan speaks of.
        digest: Of the content of the messages that it speaks of, to see whether they are still there.
    """

    through: int
    question: list[int] | None
    summary: str
    by: Literal["model", "digest"]
    condensed: int
    cut: int
    cut_chars: int
    last: str | None
    digest: str


def request(
    system: str | None,
    examples: Sequence[AnyMessage],
    messages: Sequence[AnyMessage],
    plan: Plan | None = None,
    *,
    read_on: bool = True,
    composed: bool = True,
) -> list[AnyMessage]:
    """The messages of a request.

    Args:
        system: The system prompt.
        examples: Worked examples as real turns.
        messages: The conversation so far, acceptable to a provider.
        plan: What is shown in place of the older ones.
        read_on: Whether the model has ``read_result``.
        composed: Whether an answer among them may have been put together by the loop.
    """
    told = instructions(system, messages)
    head: list[AnyMessage] = [SystemMessage(told)] if told else []
    if not composed and not plan:
        return [*head, *examples, *messages[first_place(messages) :]]
    return [*head, *examples, *body(messages, plan or Plan(), read_on=read_on)]


def instructions(system: str | None, messages: Sequence[AnyMessage]) -> str | None:
    """The system prompt, with the conversation's own behind it.

    One system message: some templates refuse a second, and none may stand behind the examples.
    """
    if not messages or not isinstance(messages[0], SystemMessage):
        return system
    own = str(messages[0].text)
    return f"{system}\n\n{own}" if system else own


def body(messages: Sequence[AnyMessage], plan: Plan, *, read_on: bool = True) -> list[AnyMessage]:
    """What a request shows of a conversation, instructions left out."""
    begin = first_place(messages)
    made: list[AnyMessage] = []
    through = plan.get("through", 0)
    if through > begin:
        start, end = plan.get("question") or (0, 0)
        made = [*messages[start:end], summary_message(plan["summary"])]
        begin = through
    return [*made, *shown(messages, plan, begin, len(messages), read_on=read_on)]


def shown(
    messages: Sequence[AnyMessage], plan: Plan, start: int, end: int, *, read_on: bool = True
) -> Iterator[AnyMessage]:
    """Messages from a place on, one for one, as a plan has them; the place is where a round begins."""
    short, cut = plan.get("condensed", 0), plan.get("cut", 0)
    calls: dict[str, ToolCall] = {}
    for place in range(start, end):
        message = messages[place]
        if place >= short and place >= cut:
            yield _told(message)
            continue
        if isinstance(message, AIMessage):
            calls = {call["id"] or "": call for call in message.tool_calls}
        if isinstance(message, ToolMessage) and place < short:
            message = condensed(message, calls.get(message.tool_call_id), read_on=read_on)
        elif place < cut:
            call = calls.get(message.tool_call_id) if isinstance(message, ToolMessage) else None
            message = cut_down(message, plan["cut_chars"], call, read_on=read_on)
        yield _told(message)


def summary_message(summary: str) -> AnyMessage:
    """A summary as the model is told it."""
    return feedback(prompts.SUMMARY.format(summary=summary), "summary")


def first_place(messages: Sequence[AnyMessage]) -> int:
    """The place of the first message that is no instruction."""
    return int(bool(messages) and isinstance(messages[0], SystemMessage))


def reach(plan: Plan) -> int:
    """The place up to which a plan speaks of messages."""
    return max(plan.get("through", 0), plan.get("condensed", 0), plan.get("cut", 0))


def digest_of(messages: Sequence[AnyMessage], start: int = 0, before: str = "") -> str:
    """A digest of what messages say: the same for the same, in any process.

    Args:
        messages: The messages.
        start: From which on they are new.
        before: The digest of those before; with it, the cost is that of the new ones.
    """
    found = int(before or "0", 16)
    for place in range(start, len(messages)):
        message = messages[place]
        said: list[Any] = [place, message.type, message.content]
        if isinstance(message, AIMessage):
            said += [[call["name"], call["id"], call["args"]] for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            said += [message.tool_call_id, message.status]
        try:
            text = json.dumps(said, sort_keys=True, default=str)
        except (RecursionError, TypeError, ValueError):  # nested without end, or keys of several kinds
            text = repr(said)
        one = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = (found + int.from_bytes(one)) % (1 << 128)
    return f"{found:x}"


def _told(message: AnyMessage) -> AnyMessage:
    """A message as the model is shown it: small models copy an answer that was composed for them."""
    reason = message.additional_kwargs.get(COMPOSED)
    return AIMessage(f"(This was not answered: {reason}.)", id=message.id) if reason else message
