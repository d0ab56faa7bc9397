"""Calls in the replies of a local model, which come as text: found in whole replies and in streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from taograph.graphs.protocols.recover import may_become_call, split_tool_calls


def offered(kwargs: dict[str, Any]) -> frozenset[str]:
    """The names of the tools that a request offers."""
    if kwargs.get("tool_choice") == "none":
        return frozenset()
    found = (tool.get("function", {}).get("name") for tool in kwargs.get("tools") or () if isinstance(tool, dict))
    return frozenset(name for name in found if name)


def with_calls(result: ChatResult, names: frozenset[str]) -> ChatResult:
    """A result whose replies have the calls that they consist of as ``tool_calls``."""
    for generation in result.generations:
        message = generation.message
        if not names or not isinstance(message, AIMessage) or message.tool_calls:
            continue
        if isinstance(message.content, str) and (found := split_tool_calls(message.content, names)):
            message.content, message.tool_calls = found
            message.response_metadata["finish_reason"] = "tool_calls"
    return result


class Held:
    """The part of a streamed reply that may still become a call."""

    def __init__(self, names: frozenset[str]) -> None:
        """Hold nothing yet.

        Args:
            names: The tools that were offered; without any, nothing is held.
        """
        self._names = names
        self._holding = bool(names)
        self._text = ""
        self._id: str | None = None

    def take(self, chunk: ChatGenerationChunk) -> Iterator[ChatGenerationChunk]:
        """What can be passed on now that a chunk has come."""
        message = chunk.message
        if not self._holding or not isinstance(message, AIMessageChunk) or not isinstance(message.content, str):
            yield chunk
            return
        if message.tool_call_chunks:  # the server reads the calls itself
            self._holding = False
            yield from self._as_text()
            yield chunk
            return
        self._id = self._id or message.id
        self._text += message.content
        if self._text and not may_become_call(self._text):
            self._holding = False
            message.content, self._text = self._text, ""
            yield ChatGenerationChunk(message=message, generation_info=chunk.generation_info)
            return
        ended = bool((chunk.generation_info or {}).get("finish_reason"))
        if ended:
            yield from self.rest()
        # Usage, metadata and the end of the reply are not text: they pass without it.
        message.content = ""
        yield ChatGenerationChunk(message=message, generation_info=chunk.generation_info)

    def rest(self) -> Iterator[ChatGenerationChunk]:
        """The calls that the held text is, or the text."""
        if not self._holding:
            return
        self._holding = False
        found = split_tool_calls(self._text, self._names)
        if not found:
            yield from self._as_text()
            return
        self._text = ""
        yield _calls_chunk(found[0], found[1], self._id)

    def _as_text(self) -> Iterator[ChatGenerationChunk]:
        text, self._text = self._text, ""
        if text:
            yield ChatGenerationChunk(message=AIMessageChunk(content=text, id=self._id))


def _calls_chunk(thought: str, calls: list[Any], id_: str | None) -> ChatGenerationChunk:
    pieces = [
        ToolCallChunk(
            name=call["name"],
            args=json.dumps(call["args"], ensure_ascii=False),
            id=call["id"],
            index=index,
            type="tool_call_chunk",
        )
        for index, call in enumerate(calls)
    ]
    return ChatGenerationChunk(message=AIMessageChunk(content=thought, tool_call_chunks=pieces, id=id_))
