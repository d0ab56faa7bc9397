"""What is measured of LangGraph's agents and ours: the same tool, the same scripted model, the same kinds of store.

Runs in the environment of the framework that is measured; taograph is imported only where it is the one.
"""

from __future__ import annotations

import inspect
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

ALONE = "langgraph_alone"
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

        limits = Limits(steps=None, seconds=3600.0, tool_calls=None)  # each call has a deadline, as by default
        return create_react_graph(model, tools, limits=limits, checkpointer=saver)
    if name == "create_agent":
        from langchain.agents import create_agent

        return create_agent(model, tools, checkpointer=saver)
    if name == "create_react_agent":
        from langgraph.prebuilt import create_react_agent

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return create_react_agent(model, tools, checkpointer=saver)
    if name == ALONE:
        return alone(model, tools[0])
    raise ValueError(f"{name} is not one of LangGraph's agents")


def alone(model: Any, tool: Any) -> Any:
    """Two nodes that do nothing but call LangChain's model and tool: what no loop on LangGraph can be below."""
    from langchain_core.tools import StructuredTool
    from langgraph._internal._runnable import RunnableCallable  # one node for both ways, without a traced run
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import Send

    is_async = inspect.iscoroutinefunction(tool)
    made = StructuredTool.from_function(None if is_async else tool, tool if is_async else None)

    async def athink(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def think(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def aact(call: Any) -> Any:
        return {"messages": [await made.ainvoke(call)]}

    def act(call: Any) -> Any:
        return {"messages": [made.invoke(call)]}

    def route(state: Any) -> Any:
        last: Any = state["messages"][-1]
        return [Send("act", call) for call in last.tool_calls] or END

    graph = StateGraph(MessagesState)
    graph.add_node("think", RunnableCallable(think, athink, name="think", trace=False))
    graph.add_node("act", RunnableCallable(act, aact, name="act", trace=False))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", route, ["act", END])
    graph.add_edge("act", "think")
    return graph.compile()


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
    """Where something is kept: a step is stored before the next one begins, else what was paid for may be lost."""
    return {"durability": "sync"} if saver is not None else {}


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
