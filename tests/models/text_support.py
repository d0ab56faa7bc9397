"""What the tests of ``TextReAct`` share: tools, replies, a completion model, and the ways of calling a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import GenerationChunk
from langchain_core.runnables import Runnable
from pydantic import Field, PrivateAttr

from taograph import tool
from taograph.models import ScriptedModel, TextReAct

ACTION = 'Thought: I need Ada.\nAction: lookup\nAction Input: {"name": "Ada"}'
ANSWER = "Thought: The book says it.\nFinal Answer: Ada is\non page 3."
RAMBLING = f"{ACTION}\nObservation: Ada is nowhere.\nThought: So be it.\nFinal Answer: Nowhere."
WAYS = ("invoke", "ainvoke", "stream", "astream", "batch", "abatch")
every_way = pytest.mark.parametrize("way", WAYS)


@tool(effects="none")
def lookup(name: str) -> str:
    """Look a name up.

    Args:
        name: What to look up.
    """
    return f"{name} is on page 3."


@tool(effects="once")
def send(to: str, text: str = "") -> str:
    """Send a letter.

    Args:
        to: Who gets it.
        text: What it says.
    """
    return "sent"


def chat(*replies: Any, **options: Any) -> tuple[TextReAct, ScriptedModel]:
    """A model in the text protocol, and the scripted one behind it."""
    inner = ScriptedModel(replies=replies, repeat=True, usage=(30, 4))
    return TextReAct(inner, **options), inner


class Completions(LLM):
    """A completion model that plays replies, streams them word by word, and records its prompts."""

    replies: Sequence[str]
    prompts: list[str] = Field(default_factory=list)
    stops: list[Any] = Field(default_factory=list)
    read: list[str] = Field(default_factory=list)
    _next: int = PrivateAttr(default=0)

    @property
    def _llm_type(self) -> str:
        return "completions"

    def _reply(self, prompt: str, stop: list[str] | None) -> str:
        self.prompts.append(prompt)
        self.stops.append(stop)
        self._next += 1
        return self.replies[min(self._next, len(self.replies)) - 1]

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        return self._reply(prompt, stop)

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        for word in self._reply(prompt, stop).split(" "):
            self.read.append(word)
            yield GenerationChunk(text=f"{word} ")

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        for chunk in self._stream(prompt, stop):
            yield chunk


def summed(chunks: Sequence[Any]) -> AIMessageChunk:
    """The message that a stream is."""
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert isinstance(total, AIMessageChunk)
    return total


def said_by(way: str, model: Runnable[Any, Any], given: Any = "Where is Ada?", **options: Any) -> AIMessage:
    """What a model says, asked in one of the ways."""
    match way:
        case "invoke":
            return model.invoke(given, **options)
        case "ainvoke":
            return asyncio.run(model.ainvoke(given, **options))
        case "batch":
            return model.batch([given], **options)[0]
        case "abatch":
            return asyncio.run(model.abatch([given], **options))[0]
        case "stream":
            return summed(list(model.stream(given, **options)))
        case _:

            async def read() -> list[Any]:
                return [chunk async for chunk in model.astream(given, **options)]

            return summed(asyncio.run(read()))


def essence(message: AIMessage) -> dict[str, Any]:
    """What a message says, without ids, and without the thought that a stream gives in a field of its own."""
    reasoning = message.additional_kwargs.get("reasoning_content", "")
    if message.tool_calls:
        reasoning = reasoning.removesuffix(str(message.content)).removesuffix("\n")
    return {
        "content": message.content,
        "calls": [(call["name"], call["args"]) for call in message.tool_calls],
        "invalid": message.invalid_tool_calls,
        "reasoning": reasoning,
        "metadata": {key: value for key, value in message.response_metadata.items() if key != "usage_estimated"},
    }
