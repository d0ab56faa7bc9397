"""The tool layer through the loop: concurrency, arguments, and what is refused when a graph is built."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from support import (
    Way,
    asks,
    assert_ended,
    both_ways,
    broken,
    lookup,
    question,
    run,
    texts,
    thread,
)
from tool_support import kinds, observed, one_tool

from taograph import Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call


class Thing:
    """Something that no checkpoint can hold."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Point(BaseModel):
    """A point."""

    x: int


@both_ways
@kinds
def test_max_concurrency_bounds_what_runs_at_once(way: Way, kind: str) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def enter() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)

    def leave() -> None:
        nonlocal now
        with lock:
            now -= 1

    def sync(n: int) -> str:
        """Work.

        Args:
            n: A number.
        """
        enter()
        time.sleep(0.03)
        leave()
        return str(n)

    async def asynchronous(n: int) -> str:
        """Work.

        Args:
            n: A number.
        """
        enter()
        await asyncio.sleep(0.03)
        leave()
        return str(n)

    work = tool(name="work", timeout=None if kind == "unbounded" else 30)(asynchronous if kind == "async" else sync)
    model = ScriptedModel(replies=[asks(*(call("work", {"n": n}) for n in range(9))), "Done."])
    result = run(way, create_react_graph(model, [work]), question(), {"max_concurrency": 3})
    assert_ended(result, "final", model)
    assert most <= 3
    assert texts(observed(result)) == [str(n) for n in range(9)]


@both_ways
def test_twenty_parallel_calls(way: Way) -> None:
    @tool(effects="none")
    def even(n: int) -> str:
        """Take even numbers.

        Args:
            n: A number.
        """
        if n % 5 == 0:
            raise RuntimeError("no")
        return f"n={n}"

    model = ScriptedModel(replies=[asks(*(call("even", {"n": n}) for n in range(20))), "Done."])
    graph = create_react_graph(model, [even], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert result["spent"]["tool_calls"] == 20
    assert [m.text if m.status == "success" else "x" for m in observed(result)] == [
        f"n={n}" if n % 5 else "x" for n in range(20)
    ]
    assert [c["id"] for c in result["messages"][1].tool_calls] == [m.tool_call_id for m in observed(result)]


def test_two_hundred_parallel_calls_that_each_run_a_graph() -> None:
    """Threads that wait for threads: more calls at once than the pools hold do not lock each other out."""
    inner = create_react_graph(ScriptedModel(replies=["Inner."], repeat=True), [lookup])

    @tool(effects="none")
    def ask(n: int) -> str:
        """Ask another graph.

        Args:
            n: A number.
        """
        return str(inner.invoke(question())["answer"])

    model = ScriptedModel(replies=[asks(*(call("ask", {"n": n}) for n in range(200))), "Done."])
    result = create_react_graph(model, [ask], limits=Limits(seconds=60)).invoke(question())
    assert_ended(result, "final", model)
    assert {m.text for m in observed(result)} == {"Inner."}


class Nested(BaseModel):
    """Nested arguments."""

    place: Point = Field(description="Where.")
    tags: list[str] = Field(default_factory=list)


@both_ways
@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "place"),
        ({"place": {"x": "one"}}, "place.x"),
        ({"place": {"x": 1}, "tags": "a"}, "tags"),
        ({"place": {"x": 1}, "colour": "red"}, "colour"),
        ({"place": None}, "place"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(way: Way, args: dict[str, Any], said: str) -> None:
    ran: list[Any] = []
    nested = StructuredTool.from_function(
        lambda place, tags=(): ran.append(place), name="nested", description="Take a place.", args_schema=Nested
    )
    graph, model = one_tool(nested, call("nested", args))
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    first = observed(result)[0]
    assert first.status == "error"
    assert said in first.text
    assert "was not run" in first.text
    assert ran == []
    assert result["spent"]["tool_calls"] == 1


@both_ways
def test_good_nested_arguments_arrive_as_their_types(way: Way) -> None:
    nested = StructuredTool.from_function(
        lambda place, tags=(): f"{place.x + 1} {tags}", name="nested", description="Take a place.", args_schema=Nested
    )
    graph, model = one_tool(nested, call("nested", {"place": {"x": 1}, "tags": ["a"]}))
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert observed(result)[0].text == "2 ['a']"


@both_ways
def test_an_unknown_tool_is_answered_with_the_names_there_are(way: Way) -> None:
    graph, model = one_tool(broken, call("nonesuch"), call("LOOKUP", {"name": "x"}), call("look up", {"name": "x"}))
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    for message in observed(result)[:3]:
        assert message.status == "error"
        assert "lookup" in message.text
        assert "broken" in message.text


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'lookup'") as refused:
        create_react_graph(ScriptedModel(), [lookup, lookup])
    assert "rename" in str(refused.value)


def test_a_tool_without_a_description_is_refused() -> None:
    def bare(x: str) -> str:
        return x

    with pytest.raises(ValueError, match="'bare' has no description") as refused:
        create_react_graph(ScriptedModel(), [bare])
    assert "docstring" in str(refused.value)
    made = langchain_tool(description="x")(bare)
    made.description = "  "
    with pytest.raises(ValueError, match="has no description"):
        create_react_graph(ScriptedModel(), [made])


@pytest.mark.parametrize("thing", [3, "lookup", None, {"type": "function"}])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="is not a tool"):
        create_react_graph(ScriptedModel(), [thing])


def test_a_function_whose_arguments_make_no_schema_is_refused() -> None:
    def odd(thing: Thing) -> str:
        """Take a thing.

        Args:
            thing: A thing.
        """
        return ""

    with pytest.raises(ValueError, match="'odd'"):
        create_react_graph(ScriptedModel(), [odd])


@pytest.mark.parametrize(
    ("given", "named"),
    [({"tools": lookup}, "tools="), ({"system_prompt": 3}, "system_prompt=3"), ({"verify": 3}, "verify=3")],
    ids=["one tool", "prompt", "verify"],
)
def test_arguments_of_another_kind_are_refused_when_the_graph_is_built(given: dict[str, Any], named: str) -> None:
    with pytest.raises(TypeError, match=named):
        create_react_graph(ScriptedModel(replies=["x"]), **{"tools": [], **given})
