"""Recording runs and replaying them, with nothing that a replay could really call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from taograph import create_react_graph, tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace import Store, open_store
from taograph.trace.replaying import Replay, areplay, replay

QUESTION = {"messages": [("user", "What is there?")]}


class World:
    """Counts every call of its tools: what a replay must not add to."""

    def __init__(self) -> None:
        self.calls: list[str] = []

        @tool(effects="none")
        def look(x: int) -> str:
            """Look.

            Args:
                x: Where.
            """
            self.calls.append(f"look {x}")
            return f"saw {x}"

        @tool(effects="none")
        def broken(x: int) -> str:
            """Break.

            Args:
                x: What.
            """
            self.calls.append(f"broken {x}")
            raise RuntimeError("the disk said no")

        @tool(effects="once", approve=True)
        def send(to: str) -> str:
            """Send a letter.

            Args:
                to: To whom.
            """
            self.calls.append(f"send {to}")
            return f"sent to {to}"

        @tool(effects="none", trusted=False, max_chars=300)
        def page(n: int) -> str:
            """A long page.

            Args:
                n: Which.
            """
            self.calls.append(f"page {n}")
            return f"Page {n}. " + "More of it. " * 100

        @tool(effects="none", max_chars=3000)
        def chapter(n: int) -> str:
            """A chapter.

            Args:
                n: Which.
            """
            self.calls.append(f"chapter {n}")
            return f"Chapter {n}. " + "So it went. " * 1000

        self.look, self.broken, self.send, self.page, self.chapter = look, broken, send, page, chapter


class Records:
    """Records runs to a file, and replays them.

    Args:
        folder: Where the file is.
        world: What is called.
    """

    def __init__(self, folder: Path, world: World) -> None:
        self.url = f"sqlite:///{folder}/replays.db"
        self.world = world

    def of(self, graph: Any, **options: Any) -> Any:
        """A graph whose runs are recorded."""
        return trace.record(graph, to=self.url, **options)

    def loop(self, *replies: Any, tools: Sequence[Any] = (), checkpointer: Any = None, **options: Any) -> Any:
        """The loop with a scripted model, recorded."""
        chosen = tools or [self.world.look, self.world.broken]
        return self.of(create_react_graph(says(*replies), chosen, checkpointer=checkpointer, **options))

    @contextmanager
    def store(self) -> Iterator[Store]:
        for writer in trace._writers.values():
            writer.flush()
        opened = open_store(self.url)
        yield opened
        opened.close()

    def replay(self, run: str = "last", *, graph: Any = None, changes: Sequence[str] = ()) -> Replay:
        """Replay a run both ways, which has to come to the same; nothing may be called."""
        before = list(self.world.calls)
        with self.store() as store, no_way_out():
            found = replay(store, run, graph=graph, changes=changes)
            again = asyncio.run(areplay(store, run, graph=graph, changes=changes))
        assert self.world.calls == before, "no tool is called"
        assert (found.outcome, found.used, found.answer) == (again.outcome, again.used, again.answer)
        assert found.difference == again.difference
        return found

    def same(self, run: str = "last", **options: Any) -> Replay:
        """Replay a run that has to come to the same."""
        found = self.replay(run, **options)
        assert found.same, (found.difference, found.uncovered, found.notes)
        assert found.used == found.recorded
        return found


@contextmanager
def no_way_out() -> Iterator[None]:
    """No socket connects."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a replay connects to nothing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield


def says(*replies: Any, **options: Any) -> ScriptedModel:
    """A model that says this, and reports its tokens."""
    return ScriptedModel(replies=list(replies), usage=(30, 4), **options)


def asks(*calls: Any, text: str = "I look.") -> AIMessage:
    """A reply that calls tools; a number is a place to look at."""
    made = [call("look", {"x": one}) if isinstance(one, int) else one for one in calls]
    return AIMessage(text, tool_calls=made)


def on_thread(name: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def in_memory() -> InMemorySaver:
    return InMemorySaver()
