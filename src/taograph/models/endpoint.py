"""OpenAI-compatible endpoints, with what ``ChatOpenAI`` leaves behind: reasoning, and refusals in streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self, TypeVar

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai.chat_models.base import ChatOpenAI
from pydantic import PrivateAttr, model_validator

from taograph.models.completions import ready_clients
from taograph.models.encoding import EncodesOnce
from taograph.models.wire import WireForms

_Endpoint = TypeVar("_Endpoint", bound=EncodesOnce)


class NoStreamError(ConnectionError):
    """A request for a stream was answered with something else; the next one asks for the whole reply."""

    def __init__(self) -> None:
        super().__init__("the server sent nothing as a stream; asking for the whole reply")


_FIELDS = ("reasoning_content", "reasoning")


class ChatEndpoint(EncodesOnce, ChatOpenAI):
    """``ChatOpenAI`` that keeps ``reasoning_content``, and ``refusal`` in streams, too.

    Many servers (vLLM, llama.cpp, DeepSeek and others) put a model's reasoning in a field of the message
    that is not OpenAI's own, and ``ChatOpenAI`` drops it. Here it stands in
    ``additional_kwargs["reasoning_content"]``, as the DeepSeek integration of LangChain has it.

    A server that answers a request for a stream with the whole reply, as plain JSON, is asked without a stream from
    then on: the client finds nothing in such a stream. The next call is the loop's to make, which counts it.
    """

    _wire: WireForms = PrivateAttr(default_factory=WireForms)
    _streams: bool = PrivateAttr(default=True)

    @model_validator(mode="after")
    def _take_ready_clients(self) -> Self:
        return with_ready_clients(self)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not: LangChain would look for the class among its own."""
        return False

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if self._streams:
            found = False
            for chunk in super()._stream(messages, stop, run_manager, **kwargs):
                found = True
                yield chunk
            if found:
                return
            self._streams = False
            raise NoStreamError
        try:
            whole = _whole(self._generate(messages, stop, None, **_unstreamed(kwargs)))
        except BaseException:
            self._streams = True  # that was not the reason
            raise
        if run_manager:
            run_manager.on_llm_new_token(whole.text, chunk=whole)
        yield whole

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self._streams:
            found = False
            async for chunk in super()._astream(messages, stop, run_manager, **kwargs):
                found = True
                yield chunk
            if found:
                return
            self._streams = False
            raise NoStreamError
        try:
            whole = _whole(await self._agenerate(messages, stop, None, **_unstreamed(kwargs)))
        except BaseException:
            self._streams = True  # that was not the reason
            raise
        if run_manager:
            await run_manager.on_llm_new_token(whole.text, chunk=whole)
        yield whole

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        choices: Any = response["choices"] if isinstance(response, dict) else getattr(response, "choices", ())
        for choice, generation in zip(choices, result.generations, strict=False):
            message = choice["message"] if isinstance(choice, dict) else choice.message
            reasoning = _reasoning(message if isinstance(message, dict) else message.model_extra)
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


def with_ready_clients(model: _Endpoint) -> _Endpoint:
    """A model with clients that send what is ready, see :mod:`taograph.models.completions`."""
    for field, client in ready_clients(model, dicts=True).items():
        setattr(model, field, client)
    return model


def _reasoning(message: dict[str, Any] | None) -> str:
    for field in _FIELDS:
        value = (message or {}).get(field)
        if isinstance(value, str) and value:
            return value
    return ""


def _unstreamed(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in ("stream", "stream_usage", "stream_options")}


def _whole(result: ChatResult) -> ChatGenerationChunk:
    """A whole reply as the only piece of a stream."""
    made = result.generations[0]
    message = made.message
    if not isinstance(message, AIMessage):
        raise TypeError(f"a chat model gave a {type(message).__name__}")
    said = [(c["name"], json.dumps(c["args"]), c["id"]) for c in message.tool_calls]
    said += [(c["name"] or "", c["args"] or "", c["id"]) for c in message.invalid_tool_calls]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content,
            id=message.id,
            tool_call_chunks=[
                tool_call_chunk(name=name, args=args, id=id, index=index) for index, (name, args, id) in enumerate(said)
            ],
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        ),
        generation_info=made.generation_info,
    )
