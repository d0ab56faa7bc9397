"""Lines to a PostgreSQL server that break, fall silent or never come about; and that no password is shown."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from postgres_server import PASSWORD, PostgresServer
from workshop import ask_tool as ask

from taograph.tools.policy import ToolError
from taograph.tools.sql import sql_tools

psycopg = pytest.importorskip("psycopg", reason="needs taograph[postgres]")
pytest.importorskip("sqlglot", reason="needs taograph[postgres]")
pytestmark = pytest.mark.usefixtures("unchanged")


def test_nothing_of_the_url_is_shown(
    server: PostgresServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = sql_tools(server.url(password="not-the-secret-1"))
    with pytest.raises(ToolError, match="password authentication failed") as told:
        ask(wrong[1], "SELECT 1")
    right = sql_tools(server.url())
    for text in (f"SELECT '{PASSWORD}'::int", "SELECT nothing"):
        with pytest.raises(ToolError) as error:
            ask(right[1], text)
        assert PASSWORD not in str(error.value)
    shown = [repr(told.value), repr(told.value.__context__), repr(told.value.__cause__), caplog.text]
    shown += [repr(tool) + tool.description for tool in (*wrong, *right)]
    for secret in ("not-the-secret-1", PASSWORD):
        assert not any(secret in text for text in shown)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:sec@ret-1@host/db",
        "postgresql://user:sec/ret-1@host/db",
        "postgresql://user:sec?ret-1@host/db",
        "postgresql://user:%ret-1@host/db",
        "postgresql://user:ret-1@[::1/db",
        "postgresql://user:ret-1@host/db?no_such_setting=1",
    ],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="can't be read: write postgresql://") as told:
        sql_tools(url)
    assert "ret-1" not in str(told.value)
    assert told.value.__context__ is None or "ret-1" not in repr(told.value.__context__)


def test_what_keeps_one_from_a_database(server: PostgresServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    for url, says in {
        server.url(database="nothing"): 'database "nothing" does not exist',
        f"postgresql://u:p@127.0.0.1:{free}/db": "nothing listens there",
        f"postgresql+psycopg://u:p@127.0.0.1:{free}/db": "nothing listens there",
        "postgres://u:p@no-such-host.invalid/db": "there is no such host",
        "postgresql:///db?host=/nothing/here": "nothing listens there",
    }.items():
        with pytest.raises(ToolError, match="can't be reached now") as told:
            ask(sql_tools(url)[1], "SELECT 1")
        assert says in str(told.value)


@contextmanager
def line_to(server: PostgresServer) -> Iterator[tuple[int, threading.Event, Callable[[], None]]]:
    """A port that leads to the server, with what makes the line silent and what cuts it."""
    silent = threading.Event()
    ends: list[socket.socket] = []

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not silent.is_set():
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", server.port))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

    def cut() -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listening.getsockname()[1], silent, cut
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            cut()
            for end in ends:
                end.close()


def test_a_line_that_falls_silent_is_cut(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.engines.sql_postgres._GRACE_SECONDS", 0.3)
    with line_to(server) as (port, silent, _):
        tool = sql_tools(server.url().replace(str(server.port), str(port)), seconds=1.0)[1]
        assert ask(tool, "SELECT 1 AS a") == "a\n1\n(1 row)"
        threading.Timer(0.4, silent.set).start()
        begun = time.monotonic()
        with pytest.raises(ToolError, match="was ended"):
            ask(tool, "SELECT count(*) FROM generate_series(1, 100000000000)")
        assert time.monotonic() - begun < 20


def test_a_line_that_breaks_is_said(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    with line_to(server) as (port, _, cut):
        tool = sql_tools(server.url().replace(str(server.port), str(port)), seconds=3.0)[1]
        threading.Timer(0.5, cut).start()
        with pytest.raises(ToolError, match="was lost"):
            ask(tool, "SELECT count(*) FROM generate_series(1, 100000000000)")
    assert PASSWORD not in caplog.text


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.engines.sql_postgres._CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tool = sql_tools(f"postgresql://u:p@127.0.0.1:{silent.getsockname()[1]}/db")[1]
        with pytest.raises(ToolError, match="does not answer"):
            ask(tool, "SELECT 1")


def test_the_library_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.sql.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install taograph\[postgres\]"):
        sql_tools("postgresql://user@host/db")
    assert os.environ.get("PGPASSWORD") is None
