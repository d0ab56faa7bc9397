"""What the database tools refuse over SQLite, and that nothing is ever written."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool
from workshop import WORKSHOP, ask, make

from taograph.tools.policy import ToolError
from taograph.tools.sql import sql_tools

READ_ONLY = "the database can only be read"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("INSERT INTO bicycles VALUES (9, 'x')", f"INSERT is refused: {READ_ONLY}"),
        ("INSERT INTO bicycles VALUES (9, 'x') RETURNING id", "INSERT is refused"),
        ("REPLACE INTO bicycles VALUES (1, 'x')", "INSERT is refused"),
        ("WITH a AS (SELECT 1) DELETE FROM bicycles", "DELETE is refused"),
        ("UPDATE bicycles SET name = 'x'", "UPDATE is refused"),
        ("UPDATE sqlite_master SET sql = ''", "may not be modified"),
        ("DROP TABLE bicycles", READ_ONLY),
        ("CREATE TABLE x (y)", READ_ONLY),
        ("CREATE TEMP TABLE x (y)", READ_ONLY),
        ("CREATE TABLE x AS SELECT * FROM bicycles", READ_ONLY),
        ("ALTER TABLE bicycles RENAME TO x", "ALTER TABLE is refused"),
        ("ATTACH 'other.db' AS other", "ATTACH is refused"),
        ("DETACH main", "DETACH is refused"),
        ("PRAGMA query_only = OFF", "PRAGMA is refused"),
        ("PRAGMA writable_schema = ON", "PRAGMA is refused"),
        ("PRAGMA table_info(bicycles)", "That is no query"),
        ("SELECT * FROM pragma_journal_mode", "PRAGMA is refused"),
        ("VACUUM", "That is no query"),
        ("VACUUM INTO 'copy.db'", "That is no query"),
        ("BEGIN", READ_ONLY),
        ("COMMIT", READ_ONLY),
        ("SAVEPOINT a", READ_ONLY),
        ("ANALYZE", READ_ONLY),
        ("REINDEX", "REINDEX is refused"),
        ("SELECT load_extension('x')", "load_extension is refused"),
        ("SELECT writefile('x', 'y')", "no such function"),
        ("INSERT INTO notes (notes) VALUES ('rebuild')", "INSERT is refused"),
        ("EXPLAIN SELECT 1", "syntax error"),
        ("QUERY PLAN DELETE FROM bicycles", READ_ONLY),
        ("SELECT 1; DROP TABLE bicycles", "more than one statement"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "empty"),
        ("-- nothing", "empty"),
        ("SELECT * FROM bicycle", "no such table: bicycle. sql_schema lists the tables"),
        ("SELECT nam FROM bicycles", "no such column: nam. sql_schema tells the columns"),
        ("SELECT 'a\x00b'", "NUL"),
        ("SELECT value FROM huge", "more than 1,000,000 bytes"),
        ("SELECT randomblob(9000000)", "more than 1,000,000 bytes"),
        ("SELECT * FROM broken", "no such table"),
        (f"SELECT {', '.join('1' * 101)}", "101 columns"),
        (f"SELECT {'(' * 500}1{')' * 500}", "Correct the query"),
        (f"SELECT '{'x' * 30_000}'", "30,009 characters; at most 20,000"),
        (f"SELECT 'x' LIKE '{'%a' * 400}'", "pattern too complex"),
    ],
)
def test_what_is_refused_is_told(odd: Path, query: str, says: str) -> None:
    with pytest.raises(ToolError) as told:
        ask(odd, query)
    assert says in str(told.value)
    assert str(told.value).endswith(".")


def test_a_query_ends_in_time(odd: Path) -> None:
    begun = time.monotonic()
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(ToolError, match=r"longer than 0\.3 s and was ended"):
        ask(odd, endless, seconds=0.3)
    assert time.monotonic() - begun < 10


_WORDS = ["SELECT", "FROM", "bicycles", "DELETE", "INSERT", "INTO", "VALUES", "(1)", ";", "--", "/*", "*/", "'", "WITH"]


_WORDS += [
    "a AS",
    "(",
    ")",
    "DROP TABLE",
    "PRAGMA",
    "VACUUM",
    "ATTACH",
    "*",
    ",",
    "UPDATE",
    "SET name=1",
    "\n",
    "EXPLAIN",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(_WORDS), max_size=8).map(" ".join) | st.text(max_size=60))
@example("EXPLAIN QUERY PLAN DELETE FROM bicycles")
@example(";;SELECT 1;;")
@example("\ufeffSELECT 1")
def test_whatever_is_asked_nothing_changes(fuzzed: tuple[BaseTool, Path, bytes], query: str) -> None:
    tool, path, before = fuzzed
    try:
        assert tool.invoke({"query": query})
    except ToolError as told:
        assert str(told).endswith((".", ")"))  # noqa: PT017 - either way is right
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> tuple[BaseTool, Path, bytes]:
    path = make(tmp_path_factory.mktemp("fuzzed") / "shop.db", WORKSHOP)
    return sql_tools(f"sqlite:///{path}", seconds=1)[1], path, path.read_bytes()


def test_a_database_that_others_write_to(tmp_path: Path) -> None:
    path = make(tmp_path / "shop.db", "PRAGMA journal_mode = WAL;", WORKSHOP)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("INSERT INTO bicycles VALUES (3, 'Unicycle')")
        assert "(2 rows)" in ask(path, "SELECT * FROM bicycles")
        writer.commit()
        assert "(3 rows)" in ask(path, "SELECT * FROM bicycles")


def test_a_locked_database_is_said(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.engines.sql_sqlite._BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ToolError, match="Another program is writing"):
            ask(database, "SELECT * FROM bicycles")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("Not a database, but long enough to be looked at. " * 10, encoding="utf-8")
    with pytest.raises(ToolError, match="no SQLite database"):
        ask(tmp_path / "text.db", "SELECT 1 FROM x")
    whole = make(
        tmp_path / "shop.db", WORKSHOP, "".join(f"INSERT INTO bicycles VALUES ({n}, 'x');" for n in range(3, 900))
    )
    torn = tmp_path / "torn.db"
    torn.write_bytes(whole.read_bytes()[:4096] + b"\xff" * 8192)
    with pytest.raises(ToolError, match="damaged"):
        ask(torn, "SELECT * FROM bicycles")
    path = make(tmp_path / "gone.db", WORKSHOP)
    query = sql_tools(f"sqlite:///{path}")[1]
    path.unlink()
    with pytest.raises(ToolError, match="can't be opened now"):
        query.invoke({"query": "SELECT 1"})
    assert not path.exists()


def test_names_that_are_hard_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "a folder % with #?&"
    folder.mkdir()
    path = make(folder / "data 1.db", WORKSHOP)
    url = "sqlite:///" + str(path).replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    assert "(2 rows)" in sql_tools(url)[1].invoke({"query": "SELECT * FROM bicycles"})


def test_paths_are_from_here_or_from_the_root(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(database.parent)
    assert "(2 rows)" in sql_tools("sqlite:///shop.db")[1].invoke({"query": "SELECT * FROM bicycles"})
    monkeypatch.setenv("HOME", str(database.parent))
    assert "(2 rows)" in sql_tools("sqlite:///~/shop.db")[1].invoke({"query": "SELECT * FROM bicycles"})


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///nothing/here.db", "there is no database file nothing/here.db"),
        ("sqlite://", "can't be read"),
        ("sqlite:///:memory:", "there is no database file"),
        ("sqlite://user:secret-1@host/x", "can't be read"),
        ("sqlite:///x.db?mode=rwc", "can't be read"),
        ("mysql://user:secret-1@host/db", "can't be read"),
        ("user:secret-1@host/db", "can't be read"),
        ("", "can't be read"),
    ],
)
def test_urls_that_are_none(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as told:
        sql_tools(url)
    assert "secret-1" not in str(told.value)
    assert "sqlite:///" in str(told.value)


def test_limits_are_checked(database: Path) -> None:
    for options in ({"max_rows": 0}, {"seconds": 0}, {"seconds": float("nan")}):
        with pytest.raises(ValueError, match="above 0"):
            sql_tools(f"sqlite:///{database}", **options)  # type: ignore[arg-type]


def test_nothing_of_a_database_is_kept_open(database: Path) -> None:
    query = sql_tools(f"sqlite:///{database}")[1]
    query.invoke({"query": "SELECT * FROM bicycles"})
    with pytest.raises(ToolError):
        query.invoke({"query": "SELECT nothing"})
    if os.path.isdir("/proc/self/fd"):
        held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        assert str(database) not in held
