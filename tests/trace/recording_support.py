"""Graphs to be recorded, and what a trace of theirs looks like."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from trace_support import events

from taograph import tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace import Entry, Store, open_store
from taograph.trace.verifying import verify

THREAD: dict[str, Any] = {"configurable": {"thread_id": "t"}, "metadata": {"user_id": "u"}}
QUESTION: dict[str, Any] = {"messages": [("user", "What is in a and b?")]}


@tool(effects="none")
def look(name: str) -> str:
    """Look at something.

    Args:
        name: What at.
    """
    return f"saw {name}"


@tool(effects="none")
def broken(name: str) -> str:
    """Fail.

    Args:
        name: Anything.
    """
    raise RuntimeError("internal trouble")


@tool(effects="once")
def pay(name: str) -> str:
    """Pay somebody.

    Args:
        name: Whom.
    """
    return f"paid {name}"


@tool(effects="none")
def slow(name: str) -> str:
    """Take longer than the run may.

    Args:
        name: Anything.
    """
    time.sleep(0.5)
    return "late"


def asks(*names: str, text: str = "", tool: str = "look") -> AIMessage:
    """A reply that calls a tool for each name."""
    return AIMessage(text, tool_calls=[call(tool, {"name": name}, id=name) for name in names])


def says(*replies: Any) -> ScriptedModel:
    return ScriptedModel(replies=list(replies), usage=(10, 2))


class Recorded:
    """A store that graphs are recorded to.

    Args:
        url: Where it is.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def of(self, graph: Any, **options: Any) -> Any:
        """A graph that is recorded there."""
        return trace.record(graph, to=self.url, **options)

    def store(self) -> Store:
        """The store, with all that was told until now."""
        for writer in trace._writers.values():
            writer.flush()
        return open_store(self.url, read_only=True)

    def all(self) -> list[list[Entry]]:
        """The events of all traces, which are whole."""
        store = self.store()
        report = verify(store)
        assert report.ok, report.faults
        assert not report.notices, "each has its end"
        found = [events(store, kept.trace) for kept in store.traces()]
        store.close()
        return found

    def one(self) -> list[Entry]:
        """The events of the only one."""
        (found,) = self.all()
        return found


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(f"sqlite:///{tmp_path}/traces.db")


def content(entry: Entry) -> dict[str, Any]:
    assert entry.content is not None
    return dict(entry.content)


def told(entries: list[Entry]) -> list[str]:
    """The sequence of a trace: step, type and what it was about, with the path where there is one."""
    lines = []
    for entry in entries:
        what = content(entry)
        about = {"stop": "reason", "run_ended": "status"}.get(entry.type, "tool")
        path = "".join(f" in {name}" for name in what["path"])
        lines.append(" ".join(filter(None, (str(what["step"]), entry.type, str(what.get(about, ""))))) + path)
    return lines


def side_by_side(lines: list[str]) -> list[str]:
    """A sequence in which calls that are made side by side have begun before the first of them has ended.

    Which of them ends before another begins is chance; that none ends before it begins itself is asserted.
    """
    made: list[str] = []
    begun = 0
    for line in lines:
        begun += " action " in line
        if " observation " in line:
            begun -= 1
            assert begun >= 0, lines
        at = len(made)
        while " action " in line and made[:at] and " observation " in made[at - 1]:
            at -= 1
        made.insert(at, line)
    return made


def of_type(entries: list[Entry], kind: str) -> list[dict[str, Any]]:
    """The contents of the events of a type."""
    return [content(entry) for entry in entries if entry.type == kind]


def run(way: str, graph: Any, given: Any = QUESTION, config: Any = None) -> Any:
    """Run a graph, in one of the ways."""
    match way:
        case "invoke":
            return graph.invoke(given, config)
        case "ainvoke":
            return asyncio.run(graph.ainvoke(given, config))
        case "stream":
            return list(graph.stream(given, config))
        case _:

            async def collect() -> list[Any]:
                return [part async for part in graph.astream(given, config, stream_mode=["messages", "updates"])]

            return asyncio.run(collect())
