"""What the tests of writing share: a model that looks around, a disk that can be full, and what was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from taograph import tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace import Store, open_store, writing
from taograph.trace.stores import sqlite

LONG = "x" * 20_000
QUESTION = {"messages": [("user", "Look around.")]}


@tool(effects="none")
def look(name: str) -> str:
    """Look.

    Args:
        name: What at.
    """
    return f"saw {name}"


def looks(*, before: Callable[[int], None] = lambda turn: None, turns: int = 2) -> ScriptedModel:
    """A model that looks around for some turns."""

    def reply(messages: list[Any]) -> AIMessage:
        turn = sum(m.type == "ai" for m in messages) + 1
        before(turn)
        calls = [call("look", {"name": str(turn)}, id=f"c{turn}")] if turn <= turns else []
        return AIMessage(f"Turn {turn}.", tool_calls=calls)

    return ScriptedModel(replies=[reply], repeat=True, usage=(1, 1))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again at once."""
    monkeypatch.setattr(writing, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(writing, "_MOST_SECONDS", 0.0)


class Disk:
    """Files of SQLite that may grow so far and no further."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opened: list[sqlite.SqliteStore] = []
        self._is_full = False

        def opened(url: str, **given: Any) -> Store:
            made = open_store(url, **given)
            assert isinstance(made, sqlite.SqliteStore)
            self._opened.append(made)
            if self._is_full:
                _fill(made)
            return made

        monkeypatch.setattr(writing, "open_store", opened)

    def is_full(self) -> None:
        """From now on, nothing more is written."""
        self._is_full = True
        _fill(self._opened[-1])

    def has_room(self) -> None:
        """And from now on it is again."""
        self._is_full = False
        with suppress(sqlite3.ProgrammingError), self._opened[-1]._lock:  # it was closed
            self._opened[-1]._connection.execute("PRAGMA max_page_count = 1000000").fetchall()


def _fill(store: sqlite.SqliteStore) -> None:
    with store._lock:
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/t.db"


def flush() -> None:
    for writer in trace._writers.values():
        writer.flush()


def read(url: str) -> Store:
    return open_store(url, read_only=True)
