"""OpenAI-compatible endpoints, with what ``ChatOpenAI`` leaves behind: reasoning, and refusals in streams."""

from __future__ import annotations

from typing import Any

import openai
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI

_FIELDS = ("reasoning_content", "reasoning")


class ChatEndpoint(ChatOpenAI):
    """``ChatOpenAI`` that keeps ``reasoning_content``, and ``refusal`` in streams, too.

    Many servers (vLLM, llama.cpp, DeepSeek and others) put a model's reasoning in a field of the message
    that is not OpenAI's own, and ``ChatOpenAI`` drops it. Here it stands in
    ``additional_kwargs["reasoning_content"]``, as the DeepSeek integration of LangChain has it.
    """

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not: LangChain would look for the class among its own."""
        return False

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        given = response if isinstance(response, dict) else response.model_dump()
        for choice, generation in zip(given.get("choices") or [], result.generations, strict=False):
            reasoning = _reasoning(choice.get("message"))
            if reasoning and isinstance(generation.message, AIMessage):
                generation.message.additional_kwargs["reasoning_content"] = reasoning
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        made = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        choices = chunk.get("choices")
        if made is not None and choices and isinstance(made.message, AIMessageChunk):
            delta = choices[0].get("delta") or {}
            if reasoning := _reasoning(delta):
                made.message.additional_kwargs["reasoning_content"] = reasoning
            if isinstance(refusal := delta.get("refusal"), str) and refusal:
                made.message.additional_kwargs["refusal"] = refusal
        return made


def _reasoning(message: dict[str, Any] | None) -> str:
    for field in _FIELDS:
        value = (message or {}).get(field)
        if isinstance(value, str) and value:
            return value
    return ""
