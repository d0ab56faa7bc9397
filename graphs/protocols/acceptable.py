"""What providers accept of a message in a history, and making a message so without losing what it says.

Written from the rules of OpenAI and Anthropic, which the others follow: call ids and tool names of plain
characters, arguments that are an object, no call told in two ways, no message that says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolCall

from taograph.graphs.protocols.text import THOUGHT

M = TypeVar("M", bound=BaseMessage)
Content = str | list[str | dict[str, Any]]

_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call", "tool_call_chunk", "invalid_tool_call"})
_THOUGHT_BLOCKS = frozenset({"reasoning", "thinking", "redacted_thinking", "reasoning_content"})
_THOUGHT_FIELDS = frozenset({"reasoning_content", "reasoning"})
_BLANK = "(no text)"
_QUOTED = 300
_DEEPEST = 64


def with_sound_calls(
    message: AIMessage, tools: Collection[str], taken: Collection[str]
) -> tuple[AIMessage, dict[str, str], tuple[str, ...]]:
    """A reply whose calls can stand in a history, those that cannot be read included.

    Args:
        message: The reply.
        tools: Names of the tools there are; they are kept as they are.
        taken: Call ids that are used already.

    Returns:
        The reply, its calls in the order of ``tool_calls`` and then ``invalid_tool_calls``; call id → why a call
        is not to be run, in words for the model; what was changed.
    """
    wanted = _Calls(tools, taken)
    for call in message.tool_calls:
        wanted.add(call)
    for broken in message.invalid_tool_calls:
        wanted.add_broken(broken)
    if not wanted.repairs and has_sound_calls(message, tools, taken):
        return message, wanted.refused, ()
    return with_calls(message, wanted.stored), wanted.refused, tuple(wanted.repairs)


def has_sound_calls(message: AIMessage, tools: Collection[str], taken: Collection[str]) -> bool:
    """Whether the calls of a reply can stand in a history, and nothing in it speaks of other calls."""
    ids = [call["id"] or "" for call in message.tool_calls]
    if message.invalid_tool_calls or len(set(ids)) < len(ids) or not set(ids).isdisjoint(taken):
        return False
    if not all(_PLAIN.fullmatch(call_id) for call_id in ids):
        return False
    if not all(_PLAIN.fullmatch(call["name"]) or call["name"] in tools for call in message.tool_calls):
        return False
    return set(_told_elsewhere(message)) <= set(ids)


def with_calls(message: AIMessage, calls: list[ToolCall]) -> AIMessage:
    """A reply with these calls in place of its own; whatever else spoke of its own is dropped."""
    content = message.content
    if not isinstance(content, str):
        content = [b for b in content if not (isinstance(b, dict) and b.get("type") in _CALL_BLOCKS)]
    return message.model_copy(
        update={
            "tool_calls": calls,
            "invalid_tool_calls": [],
            "content": content,
            "additional_kwargs": _extra(message),
        }
    )


def without_calls(message: AIMessage, text: str) -> AIMessage:
    """A reply as plain text, for where calls are not wanted."""
    return AIMessage(
        text,
        id=message.id,
        additional_kwargs=_extra(message),
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )


def without_thoughts(message: AIMessage) -> AIMessage:
    """A reply without what was thought: the text beside its calls, its reasoning in whatever form."""
    content = message.content
    if isinstance(content, list):
        gone = {*_THOUGHT_BLOCKS, *(("text", "output_text") if message.tool_calls else ())}
        content = [b for b in content if (b.get("type") if isinstance(b, dict) else "text") not in gone]
    elif message.tool_calls:
        content = ""
    extra = {k: v for k, v in message.additional_kwargs.items() if k not in _THOUGHT_FIELDS}
    about = {k: v for k, v in message.response_metadata.items() if k != THOUGHT}
    return message.model_copy(update={"content": content, "additional_kwargs": extra, "response_metadata": about})


def is_blank(content: Content) -> bool:
    """Whether the content of a message says nothing; thoughts alone do not count, since few providers take them."""
    if isinstance(content, str):
        return not content.strip()
    return all(_is_blank_block(block) for block in content)


def filled(message: M, text: str = _BLANK) -> M:
    """A message that says nothing, with words in place of the silence that providers refuse."""
    content: Content = text
    if isinstance(message.content, list):
        thoughts = [b for b in message.content if isinstance(b, dict) and b.get("type") in _THOUGHT_BLOCKS]
        content = [*thoughts, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})


def new_call_id() -> str:
    """An id for a call that came without a usable one."""
    return f"call_{uuid4().hex[:24]}"


def safe_name(name: str) -> str:
    """A tool name that providers accept in a history, from whatever a model wrote."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


class _Calls:
    """Calls on their way into a history."""

    def __init__(self, tools: Collection[str], taken: Collection[str]) -> None:
        self.stored: list[ToolCall] = []
        self.refused: dict[str, str] = {}
        self.repairs: list[str] = []
        self._tools = tools
        self._seen = set(taken)

    def add(self, call: ToolCall) -> None:
        """A call with arguments."""
        try:
            args = storable(call["args"])
        except RecursionError:
            self.repairs.append("arguments nested too deeply")
            self._keep(call["name"], {}, call["id"], "The arguments are nested too deeply, so the call was not run.")
            return
        if args is not call["args"]:
            self.repairs.append("a number beyond 64 bits is kept as text")
        self._keep(call["name"], args, call["id"])

    def add_broken(self, call: Mapping[str, Any]) -> None:
        """A call whose arguments cannot be read."""
        self.repairs.append("arguments not readable")
        raw = str(call.get("args") or "")
        shown = raw if len(raw) <= _QUOTED else f"{raw[:_QUOTED]}… ({len(raw)} characters)"
        why = (
            f"The arguments are not a JSON object, so the call was not run. You wrote: {shown}\n"
            "Call the tool again with valid JSON."
        )
        self._keep(call.get("name"), {}, call.get("id"), why)

    def _keep(self, name: str | None, args: dict[str, Any], given: str | None, refused: str = "") -> None:
        call_id = given or ""
        if not _PLAIN.fullmatch(call_id) or call_id in self._seen:
            self.repairs.append("call id repeated" if call_id in self._seen else "call id missing or not acceptable")
            call_id = new_call_id()
        self._seen.add(call_id)
        safe = name if name and name in self._tools else safe_name(name or "")
        if safe != name:
            self.repairs.append("tool name not acceptable")
            if not name:
                refused = refused or "The call names no tool, so it was not run. Name one of the tools you have."
            elif safe in self._tools:  # cleaning a name must not make it the name of another tool
                known = ", ".join(sorted(self._tools))
                refused = (
                    refused or f"There is no tool named {name!r}, so the call was not run. The tools are: {known}."
                )
        self.stored.append(ToolCall(name=safe, args=args, id=call_id, type="tool_call"))
        if refused:
            self.refused[call_id] = refused


def storable(value: Any, depth: int = 0) -> Any:
    """A JSON value that a checkpoint can hold: whole numbers beyond 64 bits, which it cannot, become text.

    A value that needs no change is returned as it is.

    Raises:
        RecursionError: It is nested more deeply than anything meant as an argument.
    """
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, dict):
        made = {key: storable(inner, depth + 1) for key, inner in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    if isinstance(value, list):
        items = [storable(inner, depth + 1) for inner in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _told_elsewhere(message: AIMessage) -> list[str]:
    """Ids of calls that content blocks or provider fields speak of."""
    told = [str(raw.get("id")) for raw in message.additional_kwargs.get("tool_calls") or ()]
    if "function_call" in message.additional_kwargs:
        told.append("")
    if isinstance(message.content, list):
        blocks = [b for b in message.content if isinstance(b, dict) and b.get("type") in _CALL_BLOCKS]
        told += [str(block.get("call_id") or block.get("id")) for block in blocks]
    return told


def _extra(message: AIMessage) -> dict[str, Any]:
    return {k: v for k, v in message.additional_kwargs.items() if k not in ("tool_calls", "function_call")}


def _is_blank_block(block: str | dict[str, Any]) -> bool:
    if isinstance(block, str):
        return not block.strip()
    match block.get("type"):
        case "text" | "output_text":
            return not str(block.get("text") or "").strip()
        case kind:
            return kind in _THOUGHT_BLOCKS
