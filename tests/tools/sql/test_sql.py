"""The database tools over SQLite: what they tell of tables and data."""

import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from workshop import ask, make, schema

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.catalog import available, load
from taograph.tools.engines.sql_base import RESULT_CHARS, Rows, table_text, wanted_tables
from taograph.tools.engines.visible import visible
from taograph.tools.policy import ToolError, policy_of
from taograph.tools.sql import sql_tools


def test_the_examples_are_what_the_tools_return(database: Path) -> None:
    for tool in sql_tools(f"sqlite:///{database}"):
        policy = policy_of(tool)
        assert (policy.effects, policy.trusted, policy.timeout) == ("none", False, 30.0)
        assert policy.examples
        for one in policy.examples:
            assert tool.invoke(dict(one.args)) == one.observation


def test_what_a_model_is_told_of_the_tools(database: Path) -> None:
    for tool in sql_tools(f"sqlite:///{database}", max_rows=7):
        assert "SQLite" in tool.description
        assert f"Example: {tool.name}(" in tool.description
        assert all(spec["description"] for spec in tool.args.values())
    assert "7 rows" in sql_tools(f"sqlite:///{database}", max_rows=7)[1].description


def test_all_tables_in_brief(odd: Path) -> None:
    assert schema(odd).splitlines() == [
        "SQLite database, 7 tables (→ means: refers to):",
        '"Odd Things" (4 rows): id integer key, "order" text, data blob, size real, made date',
        "bicycles (2 rows): id integer key, name text not null",
        "broken (view): can not be read",
        "cheap (view, 2 rows): id integer, bicycle_id integer, day text, cost numeric",
        "huge (1 row): value blob",
        "notes (1 row): title, body",
        "repairs (4 rows): id integer key, bicycle_id integer not null → bicycles.id, day text not null, cost numeric",
    ]


def test_one_table_in_full(odd: Path) -> None:
    for name in ('"Odd Things"', "odd things", "Odd Things"):
        assert schema(odd, name).splitlines()[:3] == [
            '"Odd Things" (table, 4 rows)',
            "- id integer, key",
            "- \"order\" text, default 'none'",
        ]
    assert "Defined as: CREATE VIEW cheap AS SELECT" in schema(odd, "cheap")
    assert "USING fts5 (title, body)" in schema(odd, "notes")
    assert schema(odd, "*s").count("(table, ") == 4
    with pytest.raises(ToolError, match=r"no table 'repair'. Near to it: repairs"):
        schema(odd, "repair")
    with pytest.raises(ToolError, match=r"no table 'xyz'. The tables are: Odd Things, bicycles"):
        schema(odd, "xyz")


def test_a_schema_is_bounded(tmp_path: Path) -> None:
    columns = ", ".join(f"column_{n} text" for n in range(90))
    some = make(tmp_path / "some.db", "BEGIN;", *(f"CREATE TABLE t{n} ({columns});" for n in range(40)), "COMMIT;")
    told = schema(some)
    assert len(told) < RESULT_CHARS + 300
    assert told.splitlines()[0] == 'SQLite database, 40 tables. For the columns of one: sql_schema(table="t0").'
    assert "t39 (0 rows)" in told
    assert "- column_89 text" in schema(some, "t7")
    assert len(schema(some, "t*")) < 2 * RESULT_CHARS + 3000
    many = make(tmp_path / "many.db", "BEGIN;", *(f"CREATE TABLE table_number_{n} (a);" for n in range(300)), "COMMIT;")
    assert len(schema(many)) < RESULT_CHARS + 300
    assert "more: sql_schema(table=" in schema(many)
    empty = make(tmp_path / "empty.db", "")
    assert schema(empty) == "This SQLite database has no tables that can be read."


def test_rows_are_counted_up_to_a_limit(tmp_path: Path) -> None:
    long = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 10001) INSERT INTO t SELECT x FROM n;"
    assert "t (more than 10,000 rows): x" in schema(make(tmp_path / "long.db", "CREATE TABLE t (x);", long))


def test_every_kind_of_value(odd: Path) -> None:
    assert ask(odd, 'SELECT * FROM "Odd Things"').splitlines() == [
        "id | order | data | size | made",
        "1 | DROP TABLE bicycles; -- | x'00FF10' | 0.3 | 2024-02-29",
        f"2 | NULL | x'{'00' * 32}' and so on, 5,000 bytes | 5.0 | ''",
        "3 | 'NULL' | NULL | 1e+300 | 北京 🚲",
        "4 | a\\|b\\nc | NULL | -0.5 | NULL",
        "(4 rows)",
    ]


@pytest.mark.parametrize(
    ("query", "result"),
    [
        ("SELECT 'DROP TABLE x; INSERT INTO y'  AS text;", "text\nDROP TABLE x; INSERT INTO y\n(1 row)"),
        ("VALUES (1), (2)", "column1\n1\n2\n(2 rows)"),
        ("/* a */ WITH a(x) AS (VALUES (1)) -- b\nSELECT * FROM a -- c", "x\n1\n(1 row)"),
        ("SELECT id FROM bicycles WHERE id > 9", "id\n(0 rows)"),
        ("SELECT title FROM notes WHERE notes MATCH 'oil'", "title\nChains\n(1 row)"),
        ("SELECT length(value) AS n FROM huge", "n\n1500000\n(1 row)"),
        ("SELECT value FROM json_each('[7]')", "value\n7\n(1 row)"),
        ("SELECT name FROM pragma_table_info('bicycles')", "name\nid\nname\n(2 rows)"),
        ("SELECT CAST(x'ff41' AS text) AS t", "t\n\ufffdA\n(1 row)"),
        ("SELECT name AS update_time FROM bicycles LIMIT 1", "update_time\nTandem\n(1 row)"),
    ],
)
def test_queries(odd: Path, query: str, result: str) -> None:
    assert ask(odd, query) == result


def test_rows_and_cells_are_cut_and_that_is_said(odd: Path) -> None:
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {}) SELECT x FROM n"
    assert ask(odd, numbers.format(5), max_rows=5).endswith("\n5\n(5 rows)")
    assert "\n5\n(5 rows shown, there are more." in ask(odd, numbers.format(6), max_rows=5)
    wide = ask(odd, "SELECT printf('%.*c', 9000, 'x') AS a, 1 AS b UNION ALL SELECT 'y', 2 ORDER BY b")
    assert wide.splitlines()[1] == "x" * 300 + "… | 1"
    assert "ends a value that was cut" in wide
    wider = ask(odd, "SELECT " + ", ".join(["printf('%.*c', 9000, 'x')"] * 90))
    assert wider.splitlines()[-1].startswith("(1 row)")
    assert len(wider) < 3 * RESULT_CHARS
    long = ask(odd, numbers.format(50).replace("SELECT x FROM", "SELECT printf('%.*c', 250, 'x') FROM"))
    assert len(long) < RESULT_CHARS + 300
    assert "(15 rows shown, there are more." in long


@given(st.lists(st.lists(st.none() | st.text(max_size=400), min_size=3, max_size=3), max_size=12))
def test_a_table_has_one_line_for_each_row(rows: list[list[str | None]]) -> None:
    lines = table_text(Rows(["a", "b", "c"], rows, more=False)).split("\n")
    shown = lines[1:-1]
    assert len(shown) <= len(rows)
    assert all(line.replace("\\|", "").count(" | ") == 2 for line in shown)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", "".join(shown))


@given(st.text())
def test_what_can_be_seen_stays(text: str) -> None:
    if text.isprintable():
        assert visible(text) == text
    assert "|" not in visible(text, escape="|").replace("\\|", "")
    assert "\n" not in visible(text)
    assert "\u202e" not in visible(text)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=5))
def test_names_of_tables_are_found(wanted: str, names: list[str]) -> None:
    found = wanted_tables(wanted, names)
    assert set(found) <= set(names)
    if wanted in names and wanted == wanted.replace('"', "").strip():
        assert wanted in found


def test_calls_at_once(database: Path) -> None:
    query = sql_tools(f"sqlite:///{database}")[1]
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(query.invoke({"query": f"SELECT {n} AS n"})))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(f"n\n{n}\n(1 row)" for n in range(12))


def test_by_name(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAOGRAPH_DATABASE", raising=False)
    assert not available()["sql"].ready
    with pytest.raises(ValueError, match=r"^TAOGRAPH_DATABASE is not set: give sqlite:///"):
        load("sql")
    monkeypatch.setenv("TAOGRAPH_DATABASE", f"sqlite:///{database}")
    assert available()["sql"].ready
    schema_tool, query = load("sql")
    assert (schema_tool.name, query.name) == ("sql_schema", "sql_query")
    assert "(2 rows)" in query.invoke({"query": "SELECT * FROM bicycles"})
    monkeypatch.setenv("TAOGRAPH_DATABASE", "mysql://user:secret-1@host/db")
    assert not available()["sql"].ready
    with pytest.raises(ValueError, match=r"^TAOGRAPH_DATABASE: ") as told:
        load("sql")
    assert "secret-1" not in str(told.value)


def test_a_run_over_a_database(database: Path) -> None:
    model = ScriptedModel(
        replies=[
            AIMessage("", tool_calls=[call("sql_schema")]),
            AIMessage("", tool_calls=[call("sql_query", {"query": "DELETE FROM repairs"})]),
            AIMessage("", tool_calls=[call("sql_query", {"query": "SELECT sum(cost) AS total FROM repairs"})]),
            "All repairs cost 165.",
        ]
    )
    result = create_react_graph(model, sql_tools(f"sqlite:///{database}")).invoke({"messages": [("user", "What…?")]})
    told = [str(message.content) for message in result["messages"] if message.type == "tool"]
    assert "bicycles (2 rows)" in told[0]
    assert "DELETE is refused" in told[1]
    assert told[2].endswith("total\n165\n(1 row)")
    assert told[2].startswith("[Data from the tool sql_query")
    assert (result["answer"], result["stop"]["reason"]) == ("All repairs cost 165.", "final")
