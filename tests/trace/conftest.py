"""A store of its own for each test, on each of the three kinds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from postgres_server import PostgresServer, Unavailable, running
from trace_support import Raw

from taograph import trace
from taograph.trace import Store, open_store

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="needs taograph[postgres]")
    try:
        with running() as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


@pytest.fixture
def postgres_url(server: PostgresServer) -> str:
    """The URL of an empty database on the server."""
    import psycopg

    name = f"trace_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(database=name)


@pytest.fixture(params=["sqlite", "jsonl", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that is not there yet."""
    if request.param == "postgres":
        made: str = request.getfixturevalue("postgres_url")
        return made
    return f"sqlite:///{tmp_path}/traces.db" if request.param == "sqlite" else f"jsonl:{tmp_path}/traces"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def raw(url: str) -> Iterator[Raw]:
    made = Raw(url)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAOGRAPH_TRACE", "TAOGRAPH_TRACE_KEY", "TAOGRAPH_TRACE_ON_ERROR", "TAOGRAPH_TRACE_CONTENT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def writers() -> Iterator[None]:
    """No writer outlives its test, nor one of another folder's into it."""
    _close_writers()
    yield
    _close_writers()


def _close_writers() -> None:
    for writer in trace._writers.values():
        writer.close()
    trace._writers.clear()
