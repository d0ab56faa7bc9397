"""A chat model that says what it is told to and records what it was asked. For tests and demonstrations."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import ToolCall, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Scripted = str | AIMessage | Exception | Callable[[list[BaseMessage]], "str | AIMessage"]


def call(name: str, args: dict[str, Any] | None = None, *, id: str | None = None) -> ToolCall:
    """A tool call for a scripted reply; without ``id``, one made from the name and the arguments."""
    return ToolCall(name=name, args=args or {}, id=id, type="tool_call")


class Request:
    """One request the model was sent.

    Attributes:
        messages: The messages.
        tools: The names of the tools that were bound.
        options: Every keyword of the call, the tools' schemas included.
    """

    def __init__(self, messages: list[BaseMessage], options: dict[str, Any]) -> None:
        self.messages = messages
        self.options = options
        self.tools = [tool["function"]["name"] for tool in options.get("tools") or []]


class ScriptedModel(BaseChatModel):
    """Plays a list of replies, one a call.

    A reply is a text, an ``AIMessage`` (calls without an id get one), an exception to raise, or a function
    of the messages. Texts stream word by word.

    Attributes:
        replies: What it says, in order.
        repeat: Say the last reply again when the list is used up; otherwise that is an error.
        delay: Seconds before each reply.
        usage: (input, output) tokens reported with each reply that reports none; None reports nothing.
        requests: What it was asked, in order.
    """

    replies: Sequence[Any] = ()
    repeat: bool = False
    delay: float = 0.0
    usage: tuple[int, int] | None = None
    model_name: str = "scripted"
    requests: list[Any] = Field(default_factory=list, exclude=True)
    _next: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools, so that requests show them."""
        schemas = [convert_to_openai_tool(t) if not isinstance(t, BaseTool) else _schema(t) for t in tools]
        chosen = {"tool_choice": tool_choice} if tool_choice is not None else {}
        return self.bind(tools=schemas, **chosen, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        time.sleep(self.delay)
        return _result(self._reply(messages, kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await asyncio.sleep(self.delay)
        return _result(self._reply(messages, kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        time.sleep(self.delay)
        for chunk in _chunks(self._reply(messages, kwargs)):
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        await asyncio.sleep(self.delay)
        for chunk in _chunks(self._reply(messages, kwargs)):
            if run_manager:
                await run_manager.on_llm_new_token(str(chunk.text), chunk=chunk)
            yield chunk

    def _reply(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        number = self._next
        self._next += 1
        self.requests.append(Request(list(messages), options))
        if number >= len(self.replies):
            if not (self.repeat and self.replies):
                raise IndexError(f"the script has {len(self.replies)} replies and was asked for one more")
            number = len(self.replies) - 1
        said = self.replies[number]
        if callable(said):
            said = said(list(messages))
        if isinstance(said, Exception):
            raise said
        message = AIMessage(said) if isinstance(said, str) else said.model_copy(update={"id": None})
        calls = [
            {**c, "id": f"call_{self._next}_{i}" if c["id"] is None else c["id"]}
            for i, c in enumerate(message.tool_calls)
        ]
        usage = message.usage_metadata
        if usage is None and self.usage is not None:
            sent, received = self.usage
            usage = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
        return message.model_copy(update={"tool_calls": calls, "usage_metadata": usage})


def _schema(tool: BaseTool) -> dict[str, Any]:
    return convert_to_openai_tool(tool)


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    import json

    if isinstance(message.content, str):
        words = message.content.split(" ")
        for index, word in enumerate(words if message.content else []):
            text = word if index == len(words) - 1 else f"{word} "
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
    calls = [
        tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=i)
        for i, c in enumerate(message.tool_calls)
    ]
    calls += [
        tool_call_chunk(name=c["name"], args=c["args"], id=c["id"], index=len(calls) + i)
        for i, c in enumerate(message.invalid_tool_calls)
    ]
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content if not isinstance(message.content, str) else "",
            tool_call_chunks=calls,
            additional_kwargs=message.additional_kwargs,
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
            chunk_position="last",
        )
    )
