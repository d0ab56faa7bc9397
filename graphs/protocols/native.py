"""Native function calling: reading a reply, and putting it in a form that any provider accepts back.

A reply is read once, into a :class:`Reply`; nothing downstream looks at provider fields again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall, message_chunk_to_message

from taograph.graphs.protocols.recover import recover_tool_calls

Kind = Literal["action", "final", "empty", "malformed", "cut", "refusal"]

_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call", "tool_call_chunk", "invalid_tool_call"})
_CUT = ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens")
_REFUSED = ("content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT")
_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply of the model is.

    Attributes:
        kind: What the loop has to do with it. "malformed": only calls that cannot be read; "cut": the
            provider's length limit ended it.
        message: The reply as it is stored: every call has a unique id, a name and an object of arguments.
        text: Its text without reasoning: the answer of a final reply, the thought of an acting one.
        refused: Call id → why a call of it is not to be run, in words for the model.
        repairs: What was changed before storing, for the trace.
    """

    kind: Kind
    message: AIMessage
    text: str
    refused: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()


def read_reply(message: AIMessage, tools: Collection[str], taken: Collection[str] = ()) -> Reply:
    """Read a reply of the model.

    Args:
        message: As the model returned it.
        tools: Names of the tools it was offered; a call written as JSON text is recognized by them.
        taken: Call ids that the history uses already.
    """
    if isinstance(message, AIMessageChunk):
        whole = message_chunk_to_message(message)
        message = whole if isinstance(whole, AIMessage) else message
    text = text_of(message)
    ended = _ending(message)
    refusal = _refusal_of(message)
    if refusal or ended in _REFUSED:
        return Reply("refusal", _without_calls(message), refusal or text)
    cut = ended in _CUT
    if not message.tool_calls and not message.invalid_tool_calls:
        calls = None if cut or not text else recover_tool_calls(text, tools)
        if not calls:
            kind: Kind = "cut" if cut else "final" if text else "empty"
            return Reply(kind, message, text)
        stored, refused, repairs = _normalize(calls, (), taken)
        kept = AIMessage(
            "",
            tool_calls=stored,
            id=message.id,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
        )
        return Reply("action", kept, "", refused, ("call recovered from text", *repairs))
    stored, refused, repairs = _normalize(message.tool_calls, message.invalid_tool_calls, taken)
    if cut:
        # A stream that ends early can leave arguments that parse but are not the whole of what was meant.
        why = "The reply was cut off at the length limit, so this call was not run. Write a shorter one."
        refused = {call["id"] or "": why for call in stored}
    if repairs:
        message = _with_calls(message, stored)
    acts = len(refused) < len(stored)
    return Reply("action" if acts else "cut" if cut else "malformed", message, text, refused, repairs)


def text_of(message: AIMessage) -> str:
    """The text of a reply without its reasoning."""
    return _split_think(str(message.text))[1].strip()


def reasoning_of(message: AIMessage) -> str:
    """The reasoning a model gave apart from its text: blocks, ``reasoning_content``, or a ``<think>`` part."""
    parts: list[str] = []
    if isinstance(message.content, list):
        parts += [_reasoning_block(block) for block in message.content if isinstance(block, dict)]
    given = message.additional_kwargs.get("reasoning_content")
    if isinstance(given, str):
        parts.append(given)
    parts.append(_split_think(str(message.text))[0])
    return "\n".join(part.strip() for part in parts if part.strip())


def thought_of(message: AIMessage) -> str:
    """The thought of a step: its reasoning, and the text that came with its calls."""
    parts = [reasoning_of(message)]
    if message.tool_calls:
        parts.append(text_of(message))
    return "\n".join(part for part in parts if part)


def new_call_id() -> str:
    """An id for a call that came without a usable one."""
    return f"call_{uuid4().hex[:24]}"


def safe_name(name: str) -> str:
    """A tool name that providers accept in a history, from whatever a model wrote."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _normalize(
    calls: Iterable[ToolCall], invalid: Iterable[Mapping[str, Any]], taken: Collection[str]
) -> tuple[list[ToolCall], dict[str, str], tuple[str, ...]]:
    seen = set(taken)
    stored: list[ToolCall] = []
    refused: dict[str, str] = {}
    repairs: list[str] = []

    def keep(name: str | None, args: dict[str, Any], given: str | None) -> str:
        call_id = given or ""
        if not call_id or call_id in seen:
            repairs.append("call id repeated" if call_id else "call id missing")
            call_id = new_call_id()
        seen.add(call_id)
        safe = safe_name(name or "")
        if safe != name:
            repairs.append("tool name not acceptable")
        stored.append(ToolCall(name=safe, args=args, id=call_id, type="tool_call"))
        return call_id

    for call in calls:
        call_id = keep(call["name"], call["args"], call["id"])
        if not call["name"]:
            refused[call_id] = "The call names no tool, so it was not run. Name one of the tools you have."
    for broken in invalid:
        call_id = keep(broken.get("name"), {}, broken.get("id"))
        repairs.append("arguments not readable")
        raw = str(broken.get("args") or "")
        shown = raw if len(raw) <= _QUOTED else f"{raw[:_QUOTED]}… ({len(raw)} characters)"
        refused[call_id] = (
            f"The arguments are not a JSON object, so the call was not run. You wrote: {shown}\n"
            "Call the tool again with valid JSON."
        )
    return stored, refused, tuple(repairs)


def _with_calls(message: AIMessage, calls: list[ToolCall]) -> AIMessage:
    extra = {k: v for k, v in message.additional_kwargs.items() if k not in ("tool_calls", "function_call")}
    return message.model_copy(
        update={
            "tool_calls": calls,
            "invalid_tool_calls": [],
            "content": _without_call_blocks(message.content),
            "additional_kwargs": extra,
        }
    )


def _without_calls(message: AIMessage) -> AIMessage:
    has_calls = message.tool_calls or message.invalid_tool_calls
    return _with_calls(message, []) if has_calls else message


def without_calls(message: AIMessage, text: str) -> AIMessage:
    """A reply as plain text, for where calls are not wanted."""
    extra = {k: v for k, v in message.additional_kwargs.items() if k not in ("tool_calls", "function_call")}
    return AIMessage(
        text,
        id=message.id,
        additional_kwargs=extra,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )


def _without_call_blocks(content: str | list[str | dict[str, Any]]) -> str | list[str | dict[str, Any]]:
    # The calls stand in `tool_calls`; a block that says otherwise would contradict them on the next request.
    if isinstance(content, str):
        return content
    return [b for b in content if not (isinstance(b, dict) and b.get("type") in _CALL_BLOCKS)]


def _ending(message: AIMessage) -> str:
    meta = message.response_metadata
    details = meta.get("incomplete_details")
    for found in (
        details.get("reason") if isinstance(details, Mapping) else None,
        meta.get("finish_reason"),
        meta.get("stop_reason"),
        meta.get("done_reason"),
    ):
        if isinstance(found, str) and found:
            return found
    return ""


def _refusal_of(message: AIMessage) -> str:
    given = message.additional_kwargs.get("refusal")
    if isinstance(given, str) and given:
        return given
    if isinstance(message.content, list):
        for block in message.content:
            if isinstance(block, dict) and block.get("type") == "refusal":
                return str(block.get("refusal") or "The model refused.")
    return ""


def _reasoning_block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "reasoning":
            summary = block.get("summary")
            parts = [str(s.get("text", "")) for s in summary] if isinstance(summary, list) else []
            return "\n".join([str(block.get("reasoning") or ""), *parts])
        case "thinking":
            return str(block.get("thinking") or "")
        case _:
            return ""


def _split_think(text: str) -> tuple[str, str]:
    """Split a ``<think>`` part at the start of a text from what follows; one left open is all thinking."""
    start = text.lstrip()
    if start.startswith("<think>"):
        inside, closed, rest = start[len("<think>") :].partition("</think>")
        return (inside, rest) if closed else (inside, "")
    if "</think>" in text and "<think>" not in text:  # some templates open it in the prompt
        inside, _, rest = text.partition("</think>")
        return inside, rest
    return "", text
