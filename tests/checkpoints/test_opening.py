"""Opening a database: what is made, who can read it, and what is said where it can't be opened."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from postgres_server import PASSWORD, PostgresServer

from taograph import checkpoints, create_react_graph
from taograph.models import ScriptedModel

WHERE: Any = {"configurable": {"thread_id": "t1"}}


def answers(saver: Any, text: str = "Hello.", config: Any = WHERE) -> str:
    graph = create_react_graph(ScriptedModel(replies=[text]), [], checkpointer=saver)
    return str(graph.invoke({"messages": [("user", "Hi")]}, config)["answer"])


def texts(saver: Any) -> list[str]:
    state = create_react_graph(ScriptedModel(replies=[]), [], checkpointer=saver).get_state(WHERE)
    return [message.text for message in state.values["messages"]]


def opens(url: str) -> None:
    with checkpoints.open(url):
        pass


# Files


def test_folders_and_a_file_of_the_owners_own_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "runs.db"
    old = os.umask(0)
    try:
        with checkpoints.open(f"sqlite:///{path}") as saver:
            answers(saver)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.rglob("*")}
    finally:
        os.umask(old)
    assert [modes.get(name) for name in ("runs.db", "runs.db-wal", "runs.db-shm")] == [0o600] * 3
    assert not any(mode & 0o077 for mode in modes.values()), "nor can anybody else read what stands beside it"
    assert not path.with_name("runs.db-wal").exists()
    with checkpoints.open(f"sqlite:///{path}") as saver:
        assert texts(saver) == ["Hi", "Hello."]


def test_the_mode_of_a_file_that_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch()
    path.chmod(0o640)
    opens(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_relative_paths_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opens("sqlite:///a%20b.db")
    opens("sqlite:///sub/c.db")
    assert (tmp_path / "a b.db").is_file()
    assert (tmp_path / "sub" / "c.db").is_file()
    opens("sqlite://")
    opens("sqlite:///:memory:")
    assert not (tmp_path / ":memory:").exists()


def test_how_a_file_is_set(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path}/a.db") as saver:
        told = {
            name: saver.conn.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "busy_timeout", "secure_delete", "auto_vacuum", "synchronous")
        }
    assert told == {
        "journal_mode": "wal",
        "busy_timeout": 30_000,
        "secure_delete": 1,
        "auto_vacuum": 2,
        "synchronous": 2,
    }


def test_a_file_of_langgraphs_own_saver_is_gone_on_with(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as theirs:
        answers(theirs)
    with checkpoints.open(f"sqlite:///{tmp_path}/a.db") as saver:
        assert texts(saver) == ["Hi", "Hello."]
        answers(saver, "Again.")
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as theirs:
        assert texts(theirs)[-1] == "Again.", "and back"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"no database at all" * 100), "no SQLite database"),
        (lambda path: path.mkdir(), "can't be opened"),
        (lambda path: (path.parent / "sub").write_text("a file") and None, "can't be made"),
    ],
)
def test_a_path_that_will_not_do_is_named(make: Callable[[Path], Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    make(path)
    target = tmp_path / "sub" / "runs.db" if (tmp_path / "sub").exists() else path
    with pytest.raises((OSError, ValueError), match=says) as told:
        opens(f"sqlite:///{target}")
    assert str(target) in str(told.value)


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite:runs.db", "sqlite:/runs.db", "runs.db", "mysql://db/runs", "", "://"),
        *("sqlite://host/runs.db", "sqlite:///runs.db?mode=ro", "sqlite:///runs.db#1"),
    ],
)
def test_urls_that_are_none(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="sqlite:///path"):
        opens(url)
    assert list(tmp_path.iterdir()) == []


# Servers


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:sec@ret-1@host/db",
        "postgresql://user:sec/ret-1@host/db",
        "postgres://user:%ret-1@host/db",
        "postgresql+psycopg://user:ret-1@[::1/db",
        "postgresql:user:ret-1@host/db",
        "oracle://user:ret-1@host/db",
    ],
)
def test_no_password_is_shown_of_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="postgresql://user:password@host:port/database") as told:
        opens(url)
    assert "ret-1" not in str(told.value)
    assert told.value.__context__ is None or "ret-1" not in repr(told.value.__context__)


def test_what_keeps_one_from_a_server_is_said_without_its_password(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    for url, says in {
        server.url(password="not-the-secret-1"): "password authentication failed",
        server.url(database="nothing"): 'database "nothing" does not exist',
        f"postgresql://u:not-the-secret-1@127.0.0.1:{free}/db": "nothing listens there",
        "postgresql://u:not-the-secret-1@no-such-host.invalid/db": "there is no such host",
    }.items():
        with pytest.raises(OSError, match=f"{says}.*see whether the URL is right and the server runs") as told:
            opens(url)
        shown = [str(told.value), repr(told.value.__context__), repr(told.value.__cause__), caplog.text]
        assert not any(secret in text for secret in ("not-the-secret-1", PASSWORD) for text in shown)


def test_a_user_who_may_not_make_tables(server: PostgresServer, postgres_url: str) -> None:
    import psycopg

    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"DROP ROLE IF EXISTS user_of_{name}".encode())
        owner.execute(f"CREATE ROLE user_of_{name} LOGIN PASSWORD 'pw-of-it'".encode())
        url = server.url(user=f"user_of_{name}", database=name, password="pw-of-it")
        with pytest.raises(OSError, match=r"permission denied.*GRANT CREATE"):
            opens(url)
        with checkpoints.open(postgres_url) as saver:  # once as one who may
            answers(saver)
        for rights in ("SELECT, INSERT, UPDATE, DELETE ON ALL TABLES", "USAGE ON ALL SEQUENCES"):
            owner.execute(f"GRANT {rights} IN SCHEMA public TO user_of_{name}".encode())
    with checkpoints.open(url) as saver:
        assert answers(saver, config={"configurable": {"thread_id": "t2"}}) == "Hello."
        assert [thread.id for thread in checkpoints.threads(saver)] == ["t2", "t1"]
        assert checkpoints.delete(saver, "t1")


def test_a_schema_of_its_own(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA threads")
        with checkpoints.open(f"{postgres_url}?options=-csearch_path%3Dthreads") as saver:
            answers(saver)
        assert owner.execute("SELECT count(*) FROM threads.checkpoints").fetchone() != (0,)


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool", "langgraph.checkpoint.postgres"])
def test_a_package_that_is_missing_is_named(missing: str) -> None:
    code = f"""
import sys
import threading
sys.modules[{missing!r}] = None
from taograph import checkpoints
try:
    with checkpoints.open("postgresql://u:ret-1@host/db"):
        pass
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert missing in said
    assert "pip install 'taograph[postgres]'" in said
    assert "ret-1" not in said


OPENER = """
import sys
import threading
from taograph import checkpoints
with checkpoints.open(sys.argv[1]) as saver:
    saver.put({"configurable": {"thread_id": sys.argv[2], "checkpoint_ns": ""}},
              {"v": 4, "id": sys.argv[2], "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}},
              {}, {})
"""


def test_processes_that_open_a_new_database_at_the_same_moment(url: str) -> None:
    started = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", OPENER, url, str(n)], stderr=subprocess.PIPE, text=True)
        for n in range(6)
    ]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0] * 6, said
    with checkpoints.open(url) as saver:
        assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == set("012345")


def test_a_file_that_another_process_is_writing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    opens(f"sqlite:///{path}")
    holder = sqlite3.connect(path, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    threading.Timer(0.5, holder.rollback).start()
    with checkpoints.open(f"sqlite:///{path}") as saver:
        assert answers(saver) == "Hello."
    holder.close()
