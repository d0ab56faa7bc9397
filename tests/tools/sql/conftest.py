"""The workshop's database: as a file of SQLite, and on a PostgreSQL server of the tests' own."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from workshop import ODDITIES, ON_POSTGRES, WORKSHOP, make

sys.path.insert(0, str(Path(__file__).parents[2]))

from postgres_server import PostgresServer, Unavailable, running

from taograph.tools.sql import sql_tools


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return make(tmp_path / "shop.db", WORKSHOP)


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Path]:
    path = make(tmp_path / "odd.db", WORKSHOP, ODDITIES)
    before = path.read_bytes(), sorted(os.listdir(tmp_path))
    yield path
    assert (path.read_bytes(), sorted(os.listdir(tmp_path))) == before, "something was written"


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    psycopg = pytest.importorskip("psycopg", reason="needs taograph[postgres]")
    pytest.importorskip("sqlglot", reason="needs taograph[postgres]")
    try:
        with running() as started:
            with psycopg.connect(started.url(), autocommit=True) as connection:
                connection.execute(ON_POSTGRES)
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


@pytest.fixture(scope="session")
def watching(server: PostgresServer) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def unchanged(watching: Any) -> Iterator[None]:
    """What is on the server stays as it is, and no session stays at all."""
    yield
    found = watching.execute(
        "SELECT (SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'other')),"
        " (SELECT count(*) FROM bicycles), (SELECT count(*) FROM repairs), (SELECT last_value FROM repairs_id_seq)"
    ).fetchone()
    assert found == (3, 4, 3, 3), "something was changed"
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'taograph'"
    for _ in range(100):  # the session of a line that was cut takes its time to go
        if watching.execute(asked).fetchone() == (0,):
            return
        time.sleep(0.1)
    raise AssertionError("a session was left")


@pytest.fixture(scope="session")
def query(server: PostgresServer) -> BaseTool:
    return sql_tools(server.url(), seconds=3.0)[1]
