"""What is measured of LangGraph's agents and ours: the same tool, the same scripted model, the same kinds of store.

Runs in the environment of the framework that is measured; taograph is imported only where it is the one.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

RECURSION = 100_000
SAID = "Thought {}: I need the next record."
ENDED = "done"


def lookup(key: str) -> str:
    """Look a record up by key.

    Args:
        key: the key of the record.
    """
    return f"record {key}: " + "x" * 200


class Scripted(BaseChatModel):
    """Calls ``lookup`` for so many turns, then answers. A reply costs the same however long the history is.

    Attributes:
        steps: Turns with calls.
        width: Calls in each.
    """

    steps: int
    width: int = 1

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools)  # as they are: what a provider's model makes of them is not the loop's

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        # The turn is in the id of the last result: nothing is counted that grows.
        last = messages[-1]
        turn = int(str(getattr(last, "tool_call_id", "")).split("_")[1]) + 1 if last.type == "tool" else 0
        if turn >= self.steps:
            return result(AIMessage(ENDED))
        calls: Any = [
            {"name": "lookup", "args": {"key": f"k{turn}_{n}"}, "id": f"call_{turn}_{n}", "type": "tool_call"}
            for n in range(self.width)
        ]
        return result(AIMessage(SAID.format(turn), tool_calls=calls))

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


def result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def made(name: str, model: Any, tools: list[Any], saver: Any = None) -> Any:
    """An agent of a framework, without bounds that a benchmark would meet."""
    if name == "taograph":
        from taograph import Limits, create_react_graph

        limits = Limits(steps=None, seconds=None, tool_calls=None)
        return create_react_graph(model, tools, limits=limits, checkpointer=saver)
    if name == "create_agent":
        from langchain.agents import create_agent

        return create_agent(model, tools, checkpointer=saver)
    if name == "create_react_agent":
        from langgraph.prebuilt import create_react_agent

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_react_agent(model, tools, checkpointer=saver)
    raise ValueError(f"{name} is not one of LangGraph's agents")


def over_http(name: str, url: str) -> Any:
    """What a framework is given to ask the endpoint."""
    if name == "taograph":
        return f"{url}#fake"
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="fake", base_url=url, api_key="x")  # type: ignore[arg-type]


def config() -> Any:
    """Of a run: a thread of its own."""
    return {"recursion_limit": RECURSION, "configurable": {"thread_id": uuid4().hex}}


def asked(steps: int) -> Any:
    """The question; the endpoint reads the number of steps in it."""
    return {"messages": [("user", f"steps={steps} Look the records up one after another.")]}


def options(saver: Any) -> dict[str, Any]:
    """LangGraph's default durability, where something is kept."""
    return {"durability": "async"} if saver is not None else {}


def checked(out: Any, steps: int) -> Any:
    """A result that is whole."""
    if out["messages"][-1].content != ENDED or sum(m.type == "tool" for m in out["messages"]) != steps:
        raise RuntimeError(f"not the answer, or not {steps} results: {out['messages'][-1]!r}")
    return out


@contextmanager
def opened(name: str, store: str, url: str) -> Iterator[Any]:
    """A checkpointer for ``invoke``: of no kind, an SQLite file, PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.db"
        if store == "none":
            yield None
        elif name == "taograph":
            from taograph import checkpoints

            with checkpoints.open(f"sqlite:///{file}" if store == "sqlite" else url) as ours:
                yield ours
        elif store == "sqlite":
            from langgraph.checkpoint.sqlite import SqliteSaver

            with SqliteSaver.from_conn_string(str(file)) as saver:
                saver.setup()
                yield saver
        else:
            from langgraph.checkpoint.postgres import PostgresSaver

            with PostgresSaver.from_conn_string(url) as kept:
                kept.setup()
                yield kept


@asynccontextmanager
async def aopened(name: str, store: str, url: str) -> AsyncIterator[Any]:
    """As :func:`opened`, for ``ainvoke``."""
    if store == "none" or name == "taograph":  # one checkpointer of ours is for both
        with opened(name, store, url) as saver:
            yield saver
        return
    if store == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        with tempfile.TemporaryDirectory() as folder:
            async with AsyncSqliteSaver.from_conn_string(f"{folder}/a.db") as saver:
                await saver.setup()
                yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    async with AsyncPostgresSaver.from_conn_string(url) as kept:
        await kept.setup()
        yield kept


def slow(kind: str, seconds: float) -> Callable[..., Any]:
    """The tool, as it takes its time: an ``async def``, or a ``def`` that blocks its thread."""

    async def alookup(key: str) -> str:
        """Look a record up by key.

        Args:
            key: the key of the record.
        """
        import asyncio

        await asyncio.sleep(seconds)
        return key

    def blocking(key: str) -> str:
        """Look a record up by key.

        Args:
            key: the key of the record.
        """
        time.sleep(seconds)
        return key

    chosen: Callable[..., Any] = alookup if kind == "async" else blocking
    chosen.__name__ = "lookup"
    return chosen
