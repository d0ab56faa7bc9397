"""The database tools over a real PostgreSQL server: what they tell of tables and data."""

import threading
import time

import pytest
from langchain_core.tools import BaseTool
from postgres_server import PostgresServer
from workshop import READER
from workshop import ask_tool as ask

from taograph.tools.catalog import available, load
from taograph.tools.policy import ToolError
from taograph.tools.sql import sql_tools

psycopg = pytest.importorskip("psycopg", reason="needs taograph[postgres]")
pytest.importorskip("sqlglot", reason="needs taograph[postgres]")
pytestmark = pytest.mark.usefixtures("unchanged")


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
