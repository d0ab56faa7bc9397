"""What came of a tool call, as the observation that the model is shown.

A tool may return anything: a text, a value, content blocks, a message of its own, commands to the graph, or
nothing. Whatever it is, the observation is a text (with the images beside it) that providers accept: not empty,
not longer than the tool's policy allows, framed as data where the tool is not trusted.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import BaseMessage, RemoveMessage, ToolCall, ToolMessage, convert_to_messages
from langgraph.types import Command

from taograph.tools.policy import ToolPolicy
from taograph.tools.results import condense, frame, keep_whole

log = logging.getLogger("taograph.tools")

NOTHING = "(The tool returned nothing.)"
"""What stands for an empty observation, which providers refuse."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What came of a tool call.

    Attributes:
        message: The observation, as the model is shown it.
        ran: Whether the tool itself was called.
        size: Characters of the whole observation.
        handle: What ``read_result`` takes, where the model was shown only a part.
        commands: What the tool asks of the graph beside, where it returned a ``Command``.
        told: Whether the commands bring the observation themselves, so that ``message`` must not be added.
        error: The exception behind a failure, for the trace; never shown to the model.
    """

    message: ToolMessage
    ran: bool
    size: int
    handle: str | None = None
    commands: tuple[Command[Any], ...] = ()
    told: bool = False
    error: BaseException | None = field(default=None, repr=False)


def succeeded(call: ToolCall, result: Any, policy: ToolPolicy) -> ToolRun:
    """The outcome of a tool that returned.

    Args:
        call: The call.
        result: What the tool's ``invoke`` returned.
        policy: The tool's policy.
    """
    given = list(result) if isinstance(result, list | tuple) else [result]
    commands = tuple(one for one in given if isinstance(one, Command))
    messages = [one for one in given if isinstance(one, ToolMessage)]
    if not commands and not messages:
        return shown(_message(call, str(result)), policy)
    own = [message for message in messages if message.tool_call_id == call["id"]] or messages
    if not commands:
        return shown(_named(own[0], call), policy)
    return _commanded(call, commands, own, policy)


def failed(
    call: ToolCall,
    text: str,
    *,
    ran: bool = False,
    error: BaseException | None = None,
    policy: ToolPolicy | None = None,
) -> ToolRun:
    """The outcome of a call that failed.

    Args:
        call: The call.
        text: What the model is told.
        ran: Whether the tool itself was called.
        error: The exception behind it.
        policy: The tool's policy, where the text is the tool's own; None where it is ours.
    """
    message = _message(call, text, "error")
    if policy is None:
        return ToolRun(message, ran=ran, size=len(text), error=error)
    return replace(shown(message, policy), ran=ran, error=error)


def shown(message: ToolMessage, policy: ToolPolicy) -> ToolRun:
    """A result in the form that the model is shown."""
    text, beside = _parts(message.content)
    text = _encodable(text)
    if policy.redact is not None:
        try:
            text = str(policy.redact(text))
        except Exception as error:  # noqa: BLE001 - the caller's own function: what it could not look at is not shown
            log.warning("the result of %s is withheld: its redaction failed: %s", message.name, type(error).__name__)
            message = message.model_copy(update={"status": "error", "artifact": None})
            text, beside = f"The result of {message.name} is withheld: it could not be redacted.", []
    if not text.strip() and not beside:
        text = NOTHING
    size, handle = len(text), None
    if policy.max_chars is not None and size > policy.max_chars:
        handle = message.tool_call_id
        message = keep_whole(message, text)
        text = condense(text, policy.max_chars, handle)
    if not policy.trusted:
        text = frame(text, message.name or "")
    content: str | list[Any] = [{"type": "text", "text": text}, *beside] if beside else text
    if content != message.content:
        message = message.model_copy(update={"content": content})
    return ToolRun(message, ran=True, size=size, handle=handle)


def _commanded(
    call: ToolCall, commands: tuple[Command[Any], ...], messages: list[ToolMessage], policy: ToolPolicy
) -> ToolRun:
    """Take the observation out of the commands, or give the call one where they bring none."""
    left: list[Command[Any]] = []
    for command in commands:
        update = command.update
        if command.graph is not None or not isinstance(update, dict) or "messages" not in update:
            left.append(command)
            continue
        theirs: list[BaseMessage] = convert_to_messages(update["messages"])
        if any(isinstance(message, RemoveMessage) for message in theirs):
            # It rewrites the history; what stands in it afterwards is the tool's affair.
            done = shown(_message(call, f"{call['name']} is done."), policy)
            return replace(done, commands=commands, told=True)
        mine = [m for m in theirs if isinstance(m, ToolMessage) and m.tool_call_id == call["id"]]
        messages = [*messages, *mine]
        others = [m for m in theirs if not isinstance(m, ToolMessage)]
        left.append(replace(command, update={**update, "messages": others}))
    message = messages[-1] if messages else _message(call, f"{call['name']} is done.")
    return replace(shown(_named(message, call), policy), commands=tuple(left))


def _parts(content: str | list[str | dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a content, and the blocks that are none."""
    if isinstance(content, str):
        return content, []
    if all(isinstance(block, str) for block in content):  # a list that the tool returned as a value
        return json.dumps(content, ensure_ascii=False), []
    texts: list[str] = []
    beside: list[dict[str, Any]] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") == "text":
            texts.append(str(block.get("text") or ""))
        else:
            beside.append(block)
    return "\n".join(texts), beside


def _encodable(text: str) -> str:
    """A text without lone surrogates, which no request and no database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _named(message: ToolMessage, call: ToolCall) -> ToolMessage:
    if message.tool_call_id == call["id"] and message.name == call["name"]:
        return message
    return message.model_copy(update={"tool_call_id": call["id"], "name": call["name"]})


def _message(call: ToolCall, text: str, status: str = "success") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status=status)
