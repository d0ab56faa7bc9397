"""No run blocks the event loop it is on: every blocking call of the standard library is an error here.

Stricter than the development server, which lets a program read files and look for them on its event loop.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from dev_server import ROOT
from fake_openai_server import Fail, FakeOpenAI, Reply, Scripted

from taograph import Event, astream_steps, create_react_graph
from taograph.graphs.react import graph
from taograph.models import local
from taograph.models.local_spec import ServerSpec
from taograph.tools.catalog import default_tools

T = TypeVar("T")
QUESTION: dict[str, Any] = {"messages": [("user", "What is 17 times 3?")]}


def strictly(work: Coroutine[Any, Any, T]) -> T:
    """Run on an event loop that must not be blocked."""
    with blockbuster_ctx():
        return asyncio.run(work)


def test_blocking_is_found() -> None:
    async def block() -> None:
        time.sleep(0.001)  # noqa: ASYNC251 - on purpose

    with pytest.raises(BlockingError):
        strictly(block())


def test_a_run_on_an_endpoint() -> None:
    async def collect(context: dict[str, Any]) -> list[Event]:
        return [event async for event in astream_steps(graph, QUESTION, context=context)]

    replies: list[Scripted] = [
        Reply("Well.", calls=[("calculator", {"expression": "17*3"}), ("current_time", {})]),
        Fail(503),
        "51.",
    ]
    with FakeOpenAI(replies) as fake:
        events = strictly(collect({"model": f"{fake.url}#fake"}))
    assert [e["text"] for e in events if e["type"] == "answer"] == ["51."]
    assert [e["status"] for e in events if e["type"] == "observation"] == ["success", "success"]
    assert "retry" in [e["type"] for e in events]


def test_a_run_over_documents(tmp_path: Path) -> None:
    (tmp_path / "rent.md").write_text("# Rent\n\nThe rent is due on the fifth.\n", "utf-8")
    own = create_react_graph(None, default_tools(str(tmp_path)))
    replies = [
        Reply(calls=[("search_documents", {"query": "rent"}), ("open_document", {"document": "rent.md"})]),
        "OK.",
    ]
    with FakeOpenAI(replies) as fake:
        result = strictly(own.ainvoke(QUESTION, context={"model": f"{fake.url}#fake"}))
    assert result["answer"] == "OK."
    assert [m.status for m in result["messages"] if m.type == "tool"] == ["success", "success"]
    assert "fifth" in result["messages"][2].content


def test_a_run_on_the_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = (sys.executable, str(ROOT / "tests" / "models" / "fake_local_server.py"))
    monkeypatch.setattr(local, "ServerSpec", partial(ServerSpec, command=command))
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    monkeypatch.setenv("TAOGRAPH_LOCAL_LINGER", "0")
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    result = strictly(graph.ainvoke(QUESTION, context={"model": str(file)}))
    assert result["answer"] == "What is 17 times 3?"  # it says back what it is told


def test_a_run_that_names_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAOGRAPH_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="no model: name one"):
        strictly(graph.ainvoke(QUESTION))
