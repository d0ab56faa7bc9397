"""Messages as a trace has them: plain values, and hashes of whole requests that cost the same at every step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from taograph.trace.chain import canonical, plain

# Of what a provider says about its reply, what a reply is read by.
_META = ("finish_reason", "stop_reason", "done_reason", "model_name", "protocol", "truncated", "repaired", "error")
_EXTRA = ("reasoning_content", "refusal", "reasoning")


def message_dict(message: BaseMessage) -> dict[str, Any]:
    """A message as plain values: what the graph acts on, and no more."""
    made: dict[str, Any] = {"type": message.type, "content": plain(message.content)}
    extra = {name: plain(message.additional_kwargs[name]) for name in _EXTRA if message.additional_kwargs.get(name)}
    if extra:
        made["extra"] = extra
    if isinstance(message, AIMessage):
        if message.tool_calls:
            made["tool_calls"] = [
                {"id": call["id"], "name": call["name"], "args": plain(call["args"])} for call in message.tool_calls
            ]
        if message.invalid_tool_calls:
            made["invalid_tool_calls"] = plain([dict(call) for call in message.invalid_tool_calls])
        meta = {name: plain(message.response_metadata[name]) for name in _META if message.response_metadata.get(name)}
        if meta:
            made["meta"] = meta
    if isinstance(message, ToolMessage):
        made |= {"tool_call_id": message.tool_call_id, "status": message.status}
    return made


def message_of(made: dict[str, Any]) -> AIMessage:
    """The reply of a model, from what :func:`message_dict` made of it."""
    return AIMessage(
        made["content"],
        tool_calls=[{"type": "tool_call", **call} for call in made.get("tool_calls") or ()],
        invalid_tool_calls=[{"type": "invalid_tool_call", **call} for call in made.get("invalid_tool_calls") or ()],
        additional_kwargs=made.get("extra") or {},
        response_metadata=made.get("meta") or {},
    )


def text_size(message: BaseMessage) -> int:
    """Characters of a message's text."""
    content = message.content
    return len(content) if isinstance(content, str) else sum(len(str(part)) for part in content)


# What is kept of a message: itself, its content as it was, its hash, the characters of its text, and whether it is
# the system's or the user's.
_Known = tuple[weakref.ref[BaseMessage], Any, bytes, int, bool]


class RequestHasher:
    """Hashes requests; a message that was hashed before is not read again.

    Args:
        redact: What a message goes through first: a hash must not tell what was taken out.
    """

    def __init__(self, redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        # By identity: messages never change. None is held on to: what is known of it goes when it does.
        self._known: dict[int, _Known] = {}

    def __call__(self, request: Sequence[BaseMessage], tools: Sequence[str]) -> str:
        """SHA-256 of a request and the names of the tools that were offered, in hex."""
        return self.read(request, tools)[0]

    def read(self, request: Sequence[BaseMessage], tools: Sequence[str]) -> tuple[str, int, list[BaseMessage]]:
        """SHA-256 as :meth:`__call__`, the characters of all texts, and the messages of the system and of the user."""
        parts, size, given = ["\0".join(tools).encode()], 0, []
        for message in request:
            found = self._known.get(id(message))
            if found is None or found[0]() is not message or found[1] is not message.content:
                found = self._look(message)
            parts.append(found[2])
            size += found[3]
            if found[4]:
                given.append(message)
        return sha256(b"".join(parts)).hexdigest(), size, given

    def _look(self, message: BaseMessage) -> _Known:
        number, known = id(message), self._known
        digest = sha256(canonical(plain(self._redact(message_dict(message))))).digest()
        alive = weakref.ref(message, lambda gone: known.pop(number, None))
        made = alive, message.content, digest, text_size(message), isinstance(message, SystemMessage | HumanMessage)
        known[number] = made
        return made
