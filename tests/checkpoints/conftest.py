"""A database of its own for each test: a file of SQLite, or one on a PostgreSQL server of the tests' own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "graphs"))

from checkpoint_support import Stored
from postgres_server import PostgresServer, Unavailable, running

_numbers = count(1)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg_pool", reason="needs taograph[postgres]")
    pytest.importorskip("langgraph.checkpoint.postgres", reason="needs taograph[postgres]")
    try:
        with running() as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


@pytest.fixture
def postgres_url(server: PostgresServer) -> str:
    """The URL of an empty database on the server."""
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(database=name)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is not there yet, or empty."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    made: str = request.getfixturevalue("postgres_url")
    return made


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> str:
    """How the saver is opened and the graph is run."""
    made: str = request.param
    return made


@pytest.fixture
def stored(url: str, tmp_path: Path) -> Stored:
    """All bytes that a database holds: every file of SQLite's, or every row of every table on the server."""

    def read() -> bytes:
        if url.startswith("sqlite"):
            return b"".join(path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file())
        import psycopg
        from psycopg import sql

        with psycopg.connect(url) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            found = b""
            for (table,) in tables:
                rows = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT binary)").format(sql.Identifier(table))
                with connection.cursor().copy(rows) as copy:
                    found += b"".join(bytes(part) for part in copy)
            return found

    return read
