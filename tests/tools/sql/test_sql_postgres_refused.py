"""What the database tools refuse over PostgreSQL, and what else keeps it from changes."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool
from postgres_server import PostgresServer
from workshop import ask_tool as ask

from taograph.tools.policy import ToolError
from taograph.tools.sql import sql_tools

psycopg = pytest.importorskip("psycopg", reason="needs taograph[postgres]")
pytest.importorskip("sqlglot", reason="needs taograph[postgres]")
pytestmark = pytest.mark.usefixtures("unchanged")


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


def test_names_as_the_server_reads_them() -> None:
    from taograph.tools.engines.sql_statement import read_statement

    long = "f" * 70
    read = read_statement(f'SELECT A.b(1), "C""d" (2), {long}(3), é.F(4), t.g FROM t WHERE x IN (1)')
    assert read.calls == {("a", "b"), (None, 'C"d'), (None, "f" * 63), ("é", "f"), (None, "in")}
    assert read.attributes == {"b", "f", "g"}
