"""Tools of every kind for the tests of the tool layer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    asks,
    lookup,
)

from taograph import create_react_graph, tool
from taograph.models import ScriptedModel, call


def one_tool(made: BaseTool | Callable[..., Any], *calls: Any, more: Any = ()) -> tuple[Any, ScriptedModel]:
    """A graph with one tool that is called once, beside ``lookup``."""
    name = made.name if isinstance(made, BaseTool) else made.__name__
    model = ScriptedModel(replies=[asks(*(calls or (call(name),)), "Ada"), "Done."])
    return create_react_graph(model, [made, lookup, *more], checkpointer=InMemorySaver()), model


def observed(result: dict[str, Any]) -> list[ToolMessage]:
    return [m for m in result["messages"] if isinstance(m, ToolMessage)]


def kind_of(value: Any) -> str:
    """A name for a case that is the same in every process."""
    return type(value).__name__


def as_kind(function: Callable[[], Any], kind: str, **policy: Any) -> BaseTool:
    """The function as a tool: sync in a thread, sync without a timeout, or async."""

    def sync() -> Any:
        """Do it."""
        return function()

    async def asynchronous() -> Any:
        """Do it."""
        await asyncio.sleep(0)
        return function()

    policy = {"effects": "none", "timeout": None if kind == "unbounded" else 20, **policy}
    return tool(name="doing", **policy)(asynchronous if kind == "async" else sync)


kinds = pytest.mark.parametrize("kind", ["sync", "async", "unbounded"])
