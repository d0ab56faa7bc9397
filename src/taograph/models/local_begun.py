"""The text protocol with a base model: its replies are begun for it.

A base model goes on with whatever stands last, which after a tool's result is the result. So the prompt ends with the
label of a thought, and the reply gets it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from taograph.graphs.protocols.text_labels import LABELS

# What a request is held to begins by itself.
_HELD = ("grammar", "response_format")


def begun_for(stop: Sequence[str] | None, options: Mapping[str, Any]) -> str:
    """What a reply is begun with; empty where the request is not one of the text protocol, or is held to a form.

    Args:
        stop: The stop texts: those of the protocol name the label of an observation.
        options: The further keywords of the call.
    """
    body = options.get("extra_body") or {}
    if any(field in options or field in body for field in _HELD):
        return ""
    for label in LABELS.values():
        if f"\n{label.observation}{label.colon.rstrip()}" in (stop or ()):
            return f"{label.thought}{label.colon.rstrip()}"
    return ""


def with_beginning(result: ChatResult, begun: str) -> ChatResult:
    """A result whose replies have what they were begun with."""
    if not begun:
        return result
    made = []
    for generation in result.generations:
        message = generation.message.model_copy(update={"content": f"{begun}{generation.message.text}"})
        made.append(ChatGeneration(message=message, generation_info=generation.generation_info))
    return ChatResult(generations=made, llm_output=result.llm_output)


def chunk_with_beginning(chunk: ChatGenerationChunk, begun: str) -> ChatGenerationChunk:
    """The first chunk of a reply, likewise."""
    if not begun:
        return chunk
    message = chunk.message.model_copy(update={"content": f"{begun}{chunk.message.text}"})
    return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)
