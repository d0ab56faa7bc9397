"""The database tools over PostgreSQL: a real server, attacks on what keeps it read-only, and lines that fall silent."""

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgres_server import PASSWORD, PostgresServer, Unavailable, running

from taograph.tools.catalog import available, load
from taograph.tools.policy import ToolError
from taograph.tools.sql import sql_tools

psycopg = pytest.importorskip("psycopg", reason="needs taograph[postgres]")
pytest.importorskip("sqlglot", reason="needs taograph[postgres]")

READER = "what-readers-say-7"
SETUP = f"""
    CREATE TYPE state AS ENUM ('new', 'paid');
    CREATE TABLE bicycles (id int PRIMARY KEY, name text NOT NULL UNIQUE);
    CREATE TABLE repairs (
        id serial PRIMARY KEY, bicycle_id int NOT NULL REFERENCES bicycles (id), day date NOT NULL,
        cost numeric(10, 2), state state DEFAULT 'new', photo bytea, times timestamptz[], notes jsonb, done bool);
    COMMENT ON TABLE bicycles IS 'what is lent';
    COMMENT ON COLUMN bicycles.name IS 'as on its frame';
    INSERT INTO bicycles VALUES (1, 'Tandem'), (2, 'DROP TABLE bicycles; --'), (3, E'a|b\\nc'), (4, '北京 🚲');
    INSERT INTO repairs (bicycle_id, day, cost, state, photo, notes, done) VALUES
        (1, '2024-02-29', 80, 'paid', '\\x00ff', '{{"a": 1}}', true), (1, 'infinity', NULL, NULL, NULL, NULL, false),
        (2, '0044-03-15 BC', 12345678.12, 'new', NULL, NULL, NULL);
    CREATE VIEW cheap AS SELECT id FROM repairs WHERE cost < 100;
    CREATE SCHEMA other;
    CREATE TABLE other."Odd Things" ("order" text);
    CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
    CREATE FUNCTION touch() RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION peek(bicycles) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN RETURN pg_read_file('/etc/hostname'); END $$;
    CREATE FUNCTION trap() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
    CREATE FUNCTION lies() RETURNS int LANGUAGE plpgsql STABLE AS
        $$ BEGIN EXECUTE 'DELETE FROM repairs'; RETURN 1; END $$;
    CREATE ROLE reader LOGIN PASSWORD '{READER}';
    GRANT SELECT ON bicycles TO reader;
    GRANT SELECT (id, day) ON repairs TO reader;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        with running() as started:
            with psycopg.connect(started.url(), autocommit=True) as connection:
                connection.execute(SETUP)
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


@pytest.fixture(scope="module")
def query(server: PostgresServer) -> BaseTool:
    return sql_tools(server.url(), seconds=3.0)[1]


@pytest.fixture(scope="module")
def watching(server: PostgresServer) -> Iterator[Any]:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture(autouse=True)
def unchanged(watching: Any) -> Iterator[None]:
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


def ask(tool: BaseTool, text: str) -> str:
    return tool.invoke({"query": text})  # type: ignore[no-any-return]


def test_all_tables_in_brief(server: PostgresServer) -> None:
    assert sql_tools(server.url())[0].invoke({}).splitlines() == [
        "PostgreSQL database, 4 tables (→ means: refers to):",
        "bicycles: id integer key, name text not null",
        "cheap (view): id integer",
        "repairs: id integer key, bicycle_id integer not null → bicycles.id, day date not null, cost numeric(10,2), "
        "state state, photo bytea, times timestamp with time zone[], notes jsonb, done boolean",
        'other."Odd Things": "order" text',
    ]


def test_one_table_in_full(server: PostgresServer) -> None:
    schema = sql_tools(server.url())[0]
    assert schema.invoke({"table": "bicycles"}).splitlines() == [
        "bicycles (table, 4 rows)",
        "- id integer, key",
        "- name text, not null, (as on its frame)",
        "Comment: what is lent",
        "UNIQUE INDEX btree (id)",
        "UNIQUE INDEX btree (name)",
    ]
    assert "- state state, one of 'new', 'paid', default 'new'::state" in schema.invoke({"table": "REPAIRS"})
    assert "Defined as: " in schema.invoke({"table": "cheap"})
    for name in ("odd things", 'other."Odd Things"', "other.odd*"):
        assert schema.invoke({"table": name}).startswith('other."Odd Things" (table, 0 rows)\n- "order" text')
    with pytest.raises(ToolError, match="Near to it: bicycles"):
        schema.invoke({"table": "bycicles"})


def test_a_role_is_told_what_it_may_read(server: PostgresServer) -> None:
    schema, query = sql_tools(server.url("reader", password=READER))
    assert schema.invoke({}).splitlines()[1:] == [
        "bicycles: id integer key, name text not null",
        "repairs: id integer key, day date not null",
    ]
    assert ask(query, "SELECT count(*) FROM repairs").endswith("3\n(1 row)")
    with pytest.raises(ToolError, match="permission denied for table repairs"):
        ask(query, "SELECT cost FROM repairs")


def test_estimates_of_rows(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE big AS SELECT generate_series(1, 12345) AS n; ANALYZE big")
    try:
        assert "big (about 12,345 rows): n integer" in sql_tools(server.url())[0].invoke({})
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("DROP TABLE big")


def test_every_kind_of_value(query: BaseTool) -> None:
    told = ask(query, "SELECT id, day, cost, state, photo, notes, done FROM repairs ORDER BY id")
    assert told.splitlines() == [
        "id | day | cost | state | photo | notes | done",
        '1 | 2024-02-29 | 80.00 | paid | \\x00ff | {"a": 1} | true',
        "2 | infinity | NULL | NULL | NULL | NULL | false",
        "3 | 0044-03-15 BC | 12345678.12 | new | NULL | NULL | NULL",
        "(3 rows)",
    ]
    assert ask(query, "SELECT name, '' AS e, ARRAY[1, NULL] FROM bicycles ORDER BY id").splitlines()[1:] == [
        "Tandem | '' | {1,NULL}",
        "DROP TABLE bicycles; -- | '' | {1,NULL}",
        "a\\|b\\nc | '' | {1,NULL}",
        "北京 🚲 | '' | {1,NULL}",
        "(4 rows)",
    ]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT 'DROP TABLE x; DELETE' AS t;;", "t\nDROP TABLE x; DELETE\n(1 row)"),
        ("VALUES (1), (2)", "column1\n1\n2\n(2 rows)"),
        ("TABLE bicycles LIMIT 1", "id | name\n1 | Tandem\n(1 row)"),
        ("(SELECT 1 AS a) UNION ALL (SELECT 2) ORDER BY a DESC", "a\n2\n1\n(2 rows)"),
        ("WITH a AS (SELECT 1 AS x) /* c /* d */ */ SELECT x FROM a -- end", "x\n1\n(1 row)"),
        ("SELECT 1 AS a, 2 AS a", "a | a\n1 | 2\n(1 row)"),
        ("SELECT double(4), public.double(5)", "double | double\n8 | 10\n(1 row)"),
        ("SELECT 'x' LIKE '%x%' AS l, 5 % 3 AS m, '$1 {} :a ?' AS s", "l | m | s\ntrue | 2 | $1 {} :a ?\n(1 row)"),
        ("SELECT E'it\\'s' AS a, 'b\\' AS b, b'101' AS c", "a | b | c\nit's | b\\ | 101\n(1 row)"),
        ("SELECT notes ->> 'a' AS a FROM repairs WHERE notes @> '{\"a\": 1}'", "a\n1\n(1 row)"),
        ("SELECT random() < 2 AS r, gen_random_uuid() IS NULL AS u", "r | u\ntrue | false\n(1 row)"),
        ("SELECT count(*) FROM bicycles TABLESAMPLE SYSTEM (100)", "count\n4\n(1 row)"),
        ("SELECT name FROM bicycles ORDER BY id DESC FETCH FIRST 1 ROW ONLY", "name\n北京 🚲\n(1 row)"),
        ("SELECT pg_total_relation_size('bicycles') > 0 AS big", "big\ntrue\n(1 row)"),
        ("SELECT count(*) FILTER (WHERE id > 1) OVER () AS n FROM bicycles LIMIT 1", "n\n3\n(1 row)"),
    ],
)
def test_queries(query: BaseTool, text: str, result: str) -> None:
    assert ask(query, text) == result


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("INSERT INTO bicycles VALUES (9, 'x')", "INSERT is refused"),
        ("WITH gone AS (DELETE FROM repairs RETURNING *) SELECT * FROM gone", "DELETE is refused"),
        (
            "SELECT * FROM (WITH gone AS (UPDATE repairs SET cost = 0 RETURNING *) SELECT * FROM gone) q",
            "UPDATE is refused",
        ),
        ("SELECT * INTO copy FROM bicycles", "SELECT INTO is refused"),
        ("SELECT * FROM bicycles FOR UPDATE", "FOR UPDATE and FOR SHARE are refused"),
        ("SELECT * FROM bicycles FOR NO KEY UPDATE SKIP LOCKED", "are refused"),
        ("MERGE INTO bicycles USING repairs ON true WHEN MATCHED THEN DELETE", "MERGE is refused"),
        ("DROP TABLE bicycles", "DROP is refused"),
        ("TRUNCATE bicycles", "TRUNCATE is refused"),
        ("COPY bicycles TO PROGRAM 'sh'", "COPY is refused"),
        ("EXPLAIN ANALYZE DELETE FROM bicycles", "EXPLAIN is refused"),
        ("SHOW ALL", "SHOW is refused"),
        ("DO 'BEGIN END'", "DO is refused"),
        ("CALL x()", "CALL is refused"),
        ("SET transaction_read_only = off", "SET is refused"),
        ("COMMIT", "COMMIT is refused"),
        ("SELECT 1; COMMIT; DROP TABLE bicycles", "more than one statement"),
        ("SELECT nextval('repairs_id_seq')", "nextval is refused"),
        ("SELECT setval('repairs_id_seq', 99)", "setval is refused"),
        ("SELECT pg_read_file('/etc/passwd')", "pg_read_file is refused"),
        ("SELECT pg_catalog . pg_read_file /* */ ('/etc/passwd')", "pg_read_file is refused"),
        ("SELECT \"pg_read_file\"('/etc/passwd')", "pg_read_file is refused"),
        ("SELECT PG_LS_DIR('/')", "pg_ls_dir is refused"),
        ("SELECT * FROM pg_ls_dir('/') AS f(name)", "pg_ls_dir is refused"),
        ("SELECT lo_import('/etc/passwd')", "lo_import is refused"),
        ("SELECT lo_export(1, '/tmp/x')", "lo_export is refused"),
        ("SELECT pg_sleep(60)", "pg_sleep is refused"),
        ("SELECT set_config('transaction_read_only', 'off', false)", "set_config is refused"),
        ("SELECT set_config('statement_timeout', '0', false)", "set_config is refused"),
        ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "pg_terminate_backend is refused"),
        ("SELECT pg_advisory_lock(1)", "pg_advisory_lock is refused"),
        ("SELECT pg_notify('a', 'b')", "pg_notify is refused"),
        ("SELECT query_to_xml('DELETE FROM repairs', true, true, '')", "query_to_xml is refused"),
        ("SELECT * FROM ts_stat('DELETE FROM repairs RETURNING to_tsvector(''a'')')", "ts_stat is refused"),
        ("SELECT touch()", "public.touch is refused"),
        ("SELECT public.touch()", "public.touch is refused"),
        ("SELECT b.peek FROM bicycles b", "public.peek is refused"),
        ("SELECT (b).peek FROM bicycles b", "public.peek is refused"),
        ("SELECT lies()", "DELETE is not allowed in a non-volatile function"),
        # What sqlglot takes for a text, and the server for code.
        ("SELECT a$b$, pg_sleep(60), x$b$ FROM (SELECT 1 AS a$b$, 2 AS x$b$) q", "pg_sleep is refused"),
        ("SELECT 1 -- x\r, pg_sleep(60)", "pg_sleep is refused"),
        ("SELECT E'a'\n'\\'' , pg_sleep(60), '...'", "side by side"),
        ("SELECT E'\\\\', pg_sleep(60) --'", "pg_sleep is refused"),
        ("SELECT 'a\\', pg_sleep(60) --'", "pg_sleep is refused"),
        ('SELECT U&"pg\\005fsleep"(60)', "U& is refused"),
        ("SELECT 1) AS a, (SELECT 2", "closing bracket too many"),
        ("SELECT 1) AS a; DROP TABLE bicycles; SELECT (1", "more than one statement"),
        ("SELECT (1", "not closed"),
        ("SELECT /* 1", "comment has no end"),
        ("SELECT 'a", "has no end"),
        ("SELECT $$a$$", "The sign $"),
        ("SELECT * FROM bicycles LIMIT $1", "The sign $"),
        ("SELECT 1\x00", "'\\x00' is refused"),
        ("SELECT\x0b1", "'\\x0b' is refused"),
        ("SELECT * FROM pg_authid", "pg_authid is refused: it holds passwords"),
        ('SELECT * FROM pg_catalog."pg_shadow"', "pg_shadow is refused"),
        ("", "is empty"),
        (" ; -- nothing", "is empty"),
        ("SELECT FROM bicycles", "no columns"),
        (f"SELECT {', '.join('1' * 101)}", "101 columns"),
        (f"SELECT {'(' * 90}1{')' * 90}", "nested too deeply"),
        (f"SELECT {'(' * 101}1{')' * 101}", "nested too deeply"),
        (f"SELECT '{'x' * 20_000}'", "at most 20,000"),
        ("SELECT nam FROM bicycles", 'Perhaps you meant to reference the column "bicycles.name". sql_schema tells'),
        ("SELECT * FROM bicycle", 'relation "bicycle" does not exist. sql_schema tells'),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT * FROM bicycles WHERE id = 'x'", "invalid input syntax"),
        ("SELECT FROM WHERE", "can't be read"),
    ],
)
def test_what_is_refused_is_told(query: BaseTool, text: str, says: str) -> None:
    with pytest.raises(ToolError) as told:
        ask(query, text)
    assert says in str(told.value)
    assert str(told.value).endswith(".")


def test_the_transaction_itself_is_read_only(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the reading of the text fails, the server still refuses."""
    from taograph.tools.engines import sql_postgres
    from taograph.tools.engines.sql_statement import Statement

    monkeypatch.setattr(sql_postgres, "read_statement", lambda sql: Statement(sql, frozenset(), frozenset()))
    query = sql_tools(server.url(), seconds=3.0)[1]
    for text, says in {
        "SELECT touch_all()": "read-only transaction",
        "SELECT nextval('repairs_id_seq')": "read-only transaction",
        "SELECT 1) q; DELETE FROM repairs; SELECT * FROM (SELECT 1": "multiple commands",
        "WITH a AS (DELETE FROM repairs RETURNING *) SELECT * FROM a": "must be at the top level",
        "DELETE FROM repairs": "syntax error",
        "SELECT * INTO copy FROM repairs": "INTO",
        "SELECT set_config('transaction_read_only', 'off', false)": "must be set before any query",
        "SELECT * FROM repairs FOR UPDATE": "read-only transaction",
    }.items():
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                "CREATE OR REPLACE FUNCTION touch_all() RETURNS int LANGUAGE plpgsql AS "
                "$$ BEGIN DELETE FROM repairs; RETURN 1; END $$"
            )
        with pytest.raises(ToolError) as told:
            ask(query, text)
        assert says in str(told.value)


_PIECES = [
    "'",
    "''",
    "\\",
    "E'",
    "e'",
    "N'",
    "B'",
    "U&'",
    '"',
    'U&"',
    "$$",
    "$a$",
    "a$a$",
    "b$",
    "--",
    "/*",
    "*/",
    "/*+",
    "\n",
    "\r",
]
_PIECES += [
    " ",
    ", ",
    "x",
    "1",
    "1e",
    "0x",
    "||",
    " AS ",
    "(",
    ")",
    ";",
    "{#",
    "#}",
    "{{",
    "}}",
    "*",
    "#",
    "?",
    "@",
    ":",
    "é",
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(_PIECES), max_size=7), st.lists(st.sampled_from(_PIECES), max_size=7))
@example(["a$a$", ", "], [", ", "b$a$"])
@example(["1", "--", "\r", ", "], [])
@example(["E'", "\n", "'", "\\", "''", ", "], [", ", "'"])
def test_no_text_hides_a_call(query: BaseTool, before: list[str], after: list[str]) -> None:
    """Whatever stands around it, a function with effects is either refused or, to the server too, no call."""
    try:
        ask(query, f"SELECT {''.join(before)}trap(){''.join(after)}")
    except ToolError as told:
        assert "trapped" not in str(told)  # noqa: PT017 - both ways are right


def test_functions_one_allows(server: PostgresServer) -> None:
    query = sql_tools(server.url(), allow_functions=["public.touch"])[1]
    assert ask(query, "SELECT touch()") == "touch\n1\n(1 row)"
    with pytest.raises(ToolError, match="pg_sleep is refused"):
        ask(query, "SELECT touch(), pg_sleep(60)")


def test_a_query_ends_in_time(server: PostgresServer) -> None:
    query = sql_tools(server.url(), seconds=0.5)[1]
    begun = time.monotonic()
    with pytest.raises(ToolError, match=r"longer than 0\.5 s and was ended"):
        ask(query, "SELECT count(*) FROM generate_series(1, 100000000000)")
    assert time.monotonic() - begun < 20


def test_a_huge_value_is_cut_by_the_server(query: BaseTool) -> None:
    told = ask(query, "SELECT repeat('x', 5000000) AS big, n FROM generate_series(1, 3) AS n")
    assert told.splitlines()[1] == "x" * 300 + "… | 1"
    assert "(3 rows) (… ends a value that was cut" in told


def test_rows_are_cut_and_that_is_said(server: PostgresServer) -> None:
    query = sql_tools(server.url(), max_rows=5)[1]
    assert ask(query, "SELECT n FROM generate_series(1, 5) AS n").endswith("\n5\n(5 rows)")
    assert "\n5\n(5 rows shown, there are more." in ask(query, "SELECT n FROM generate_series(1, 10000000) AS n")


def test_a_locked_table_is_said(server: PostgresServer) -> None:
    query = sql_tools(server.url(), seconds=0.3)[1]
    with psycopg.connect(server.url()) as other:
        other.execute("LOCK TABLE bicycles IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ToolError, match=r"is locked by somebody|longer than"):
            ask(query, "SELECT * FROM bicycles")
        other.rollback()


def test_a_database_without_an_encoding(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE old ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with psycopg.connect(server.url(database="old"), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT convert_from('\\xc3a9', 'SQL_ASCII') AS good,"
            " convert_from('\\xff', 'SQL_ASCII') AS bad"
        )
    query = sql_tools(server.url(database="old"))[1]
    assert ask(query, "SELECT good FROM t") == "good\né\n(1 row)"
    with pytest.raises(ToolError, match="invalid byte sequence"):
        ask(query, "SELECT * FROM t")


def test_texts_are_read_by_the_standard(server: PostgresServer) -> None:
    """A database may be set to read backslashes otherwise; then a text would end elsewhere than this package thinks."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE odd")
        connection.execute("ALTER DATABASE odd SET standard_conforming_strings = off")
        connection.execute("ALTER DATABASE odd SET default_transaction_read_only = off")
    assert ask(sql_tools(server.url(database="odd"))[1], "SELECT 'a\\' AS t") == "t\na\\\n(1 row)"


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


def test_calls_at_once(query: BaseTool) -> None:
    results: list[str] = []
    threads = [threading.Thread(target=lambda n=n: results.append(ask(query, f"SELECT {n} AS n"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(f"n\n{n}\n(1 row)" for n in range(8))


def test_by_name(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_DATABASE", server.url())
    assert available()["sql"].ready
    schema, _ = load("sql")
    assert "bicycles" in schema.invoke({})


def test_names_as_the_server_reads_them() -> None:
    from taograph.tools.engines.sql_statement import read_statement

    long = "f" * 70
    read = read_statement(f'SELECT A.b(1), "C""d" (2), {long}(3), é.F(4), t.g FROM t WHERE x IN (1)')
    assert read.calls == {("a", "b"), (None, 'C"d'), (None, "f" * 63), ("é", "f"), (None, "in")}
    assert read.attributes == {"b", "f", "g"}


def test_the_library_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.sql.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install taograph\[postgres\]"):
        sql_tools("postgresql://user@host/db")
    assert os.environ.get("PGPASSWORD") is None
