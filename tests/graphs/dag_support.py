"""What the tests of LLMCompiler's graph share: a model that writes piece by piece, tools, and ways to look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk

from taograph import tool
from taograph.graphs.dag import create_dag_graph
from taograph.models import ScriptedModel

LONG = 30  # seconds after which a test that waits for an event has failed


class Writing(ScriptedModel):
    """Writes its first reply piece by piece; between two pieces it waits for what it is told to.

    Attributes:
        pieces: Texts, and functions that are called (in a thread) where they stand.
    """

    pieces: Sequence[Any] = ()

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        if self._next:
            yield from super()._stream(messages, *args, **kwargs)
            return
        self._reply(messages, kwargs)
        for piece in self.pieces:
            if callable(piece):
                piece()
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        if self._next:
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            return
        self._reply(messages, kwargs)
        for piece in self.pieces:
            if callable(piece):
                await asyncio.to_thread(piece)
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@tool(effects="none")
def search(query: str) -> str:
    """Search for something.

    Args:
        query: What to search for.
    """
    return f"found <{query}>"


@tool(effects="none")
def multiply(first: int, second: int = 2) -> str:
    """Multiply two numbers.

    Args:
        first: One.
        second: The other.
    """
    return str(first * second)


@tool(effects="none")
def fail(query: str) -> str:
    """Fail.

    Args:
        query: Anything.
    """
    raise RuntimeError(f"a secret about {query}")


def with_name(name: str) -> Any:
    return search.model_copy(update={"name": name})


def plan(*calls: str, first: int = 1) -> str:
    lines = [f"{number}. {one}" for number, one in enumerate(calls, first)]
    return "\n".join([*lines, f"{first + len(calls)}. join()<END_OF_PLAN>"])


def finish(answer: str) -> str:
    return f"Thought: that is all.\nAction: Finish({answer})"


def made(*calls: str, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=[plan(*calls), finish("Fine.")], usage=(100, 10))
    return model, create_dag_graph(model, [search, multiply, fail], **options)


def observed(result: dict[str, Any]) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


def args(result: dict[str, Any]) -> dict[str, Any]:
    return {c["id"]: c["args"] for m in result["messages"] if isinstance(m, AIMessage) for c in m.tool_calls}


def last_request(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1].content)
