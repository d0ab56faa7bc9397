"""`tao trace verify`, `purge` and `erase`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI
from trace_runs import LOOKS, Runs

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def runs(tao: Any, tmp_path: Path) -> Runs:
    """Where runs are recorded that the command finds."""
    return Runs(tmp_path)


def change(home: Path, statement: str) -> None:
    """Change the store behind the command's back."""
    with closing(sqlite3.connect(home / "data" / "traces.sqlite")) as connection, connection:
        connection.execute(statement)


def head_of(tao: Any) -> str:
    found: str = json.loads(tao("trace", "verify", "--json").out)["head"]
    return found


# verify


def test_a_record_that_nobody_touched(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    runs.record("Yes.")
    done = tao("trace", "verify")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "17 events of 2 traces, 4 records of the log."
    assert lines[1] == "Nothing was changed."
    assert lines[2] == f"Head: {head_of(tao)}"
    assert "Note the head elsewhere" in done.err
    assert tao("trace", "verify", "--head", head_of(tao)).code == 0


@pytest.mark.parametrize(
    ("statement", "number", "what"),
    [
        ("UPDATE taograph_trace_events SET content = replace(content, 'It is 1', 'It is 2')", 0, "changed"),
        ("DELETE FROM taograph_trace_events WHERE seq = 3", 3, "removed"),
        ("DELETE FROM taograph_trace_events WHERE seq > 5", 6, "truncated"),
    ],
)
def test_what_was_changed_is_named(
    tao: Any, runs: Runs, tmp_path: Path, statement: str, number: int, what: str
) -> None:
    runs.record(LOOKS, "It is 1.")
    change(tmp_path, statement)
    done = tao("trace", "verify", "--json")
    assert done.code == 3
    found = json.loads(done.out)
    assert not found["ok"]
    (fault,) = found["faults"]
    assert fault["what"] == what
    assert not number or fault["number"] == number
    told = tao("trace", "verify")
    assert told.code == 3
    assert f"  ✗ trace {fault['trace']}, event {fault['number']}: {fault['what']}: " in told.out
    assert "The record is not as it was written." in told.out


def test_a_record_that_was_changed_is_shown_all_the_same(tao: Any, runs: Runs, tmp_path: Path) -> None:
    runs.record(LOOKS, "It is 1.")
    many = """replace(content, '"steps": 15', '"steps": "many"')"""
    change(tmp_path, f"UPDATE taograph_trace_events SET content = {many}")
    change(tmp_path, "UPDATE taograph_trace_events SET content = '{' WHERE type = 'thought'")
    shown = tao("trace", "show")
    assert shown.code == 0, shown.err
    assert "Thought: (can't be read any more)" in shown.out
    assert tao("trace", "export", "--format", "markdown").code == 0
    assert tao("trace", "export").code == 0
    assert tao("trace", "verify").code == 3


def test_a_head_that_was_noted_finds_that_the_end_is_gone(tao: Any, runs: Runs, tmp_path: Path) -> None:
    runs.record("One.")
    runs.record("Two.")
    noted = head_of(tao)
    change(tmp_path, "DELETE FROM taograph_trace_log WHERE n > 2")
    for table in ("taograph_trace_events", "taograph_traces"):
        change(tmp_path, f"DELETE FROM {table} WHERE trace NOT IN (SELECT trace FROM taograph_trace_log)")
    assert tao("trace", "verify").code == 0, "nothing in the store can tell"
    done = tao("trace", "verify", "--head", noted)
    assert done.code == 3
    assert "✗" in done.out


def test_signatures_are_looked_at_with_the_key(tao: Any, runs: Runs) -> None:
    runs.record("One.", key=KEY.encode())
    done = tao("trace", "verify")
    assert done.code == 0
    assert "no key was given" in done.out
    done = tao("trace", "verify", env={"TAOGRAPH_TRACE_KEY": KEY})
    assert done.code == 0
    assert "signatures too" in done.out
    done = tao("trace", "verify", env={"TAOGRAPH_TRACE_KEY": KEY[::-1]})
    assert done.code == 3
    assert "unsigned" in done.out
    assert KEY[::-1] not in done.out
    done = tao("trace", "verify", env={"TAOGRAPH_TRACE_KEY": "short"})
    assert done.code == 2


def test_what_is_no_head_is_wrong_usage(tao: Any, runs: Runs) -> None:
    runs.record("One.")
    done = tao("trace", "verify", "--head", "5e7c")
    assert done.code == 2
    assert "--head" in done.err


# purge


def test_traces_whose_date_has_come_are_purged_after_a_look(tao: Any, runs: Runs) -> None:
    runs.record("Old.", keep_days=0)
    runs.record("New.")
    done = tao("trace", "purge")
    assert done.code == 0
    assert done.out.endswith("1 trace would be deleted; --yes does it.\n")
    assert len(tao("trace", "list").out.splitlines()) == 3, "nothing was done yet"
    noted = head_of(tao)
    assert tao("trace", "purge", "--yes").out == "1 trace purged.\n"
    assert "New." in tao("trace", "show").out
    assert len(tao("trace", "list").out.splitlines()) == 2
    assert tao("trace", "verify", "--head", noted).code == 0, "the record still verifies"
    assert tao("trace", "purge").out == "There is none.\n"


def test_nothing_to_purge_is_no_error(tao: Any, tmp_path: Path) -> None:
    done = tao("trace", "purge", "--yes")
    assert done.code == 0
    assert "No run has been recorded yet" in done.err
    assert not (tmp_path / "data").exists()


# erase


@pytest.mark.parametrize("whose", [("--thread", "ada"), ("--user", "u1"), ()])
def test_what_was_recorded_is_erased_after_a_look(tao: Any, runs: Runs, tmp_path: Path, whose: tuple[str, ...]) -> None:
    runs.record("A secret of Ada.", thread="ada", user="u1")
    runs.record("Of Bob.", thread="bob", user="u2")
    ids = [json.loads(line)["run"] for line in tao("trace", "list", "--json").out.splitlines()]
    given = whose or (ids[1],)
    done = tao("trace", "erase", *given)
    assert done.out.endswith("1 trace would be erased; --yes does it.\n")
    assert "secret of Ada" in tao("trace", "show", "--thread", "ada").out
    assert tao("trace", "erase", *given, "--yes").out == "1 trace erased.\n"
    listed = tao("trace", "list").out.splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["there?", "erased"]
    assert tao("trace", "verify").code == 0
    for file in (tmp_path / "data").iterdir():
        assert b"secret of Ada" not in file.read_bytes(), file


def test_an_erased_run_shows_that_it_was(tao: Any, runs: Runs) -> None:
    runs.record("Yes.", thread="ada")
    tao("trace", "erase", "--thread", "ada", "--yes")
    (line,) = tao("trace", "list", "--json").out.splitlines()
    found = json.loads(line)
    assert (found["state"], found["thread"], found["question"]) == ("erased", None, "")
    shown = tao("trace", "show").out
    assert "· erased ·" in shown
    assert "Erased: what 6 events said" in shown
    done = tao("trace", "erase", found["run"], "--yes")
    assert done.code == 2
    assert "is erased already" in done.err
    event = json.loads(tao("trace", "export").out.splitlines()[0])
    assert (event["content"], event["salt"]) == (None, None)


def test_nobody_is_erased_by_leaving_out_whom(tao: Any, runs: Runs) -> None:
    runs.record("Yes.")
    done = tao("trace", "erase", "--yes")
    assert done.code == 2
    assert "say whose" in done.err


@pytest.mark.parametrize("command", [("delete", "ada", "--yes"), ("prune", "--older-than", "0s")])
def test_what_was_recorded_of_a_thread_is_erased_with_it(tao: Any, command: tuple[str, ...]) -> None:
    with FakeOpenAI(default="Yes.") as server:
        tao("run", "Of Ada?", "-m", f"{server.url}#fake", "--thread", "ada")
        tao("run", "Of nobody?", "-m", f"{server.url}#fake")
    done = tao("threads", *command)
    assert done.code == 0, done.err
    listed = [json.loads(line) for line in tao("trace", "list", "--json").out.splitlines()]
    assert [each["state"] for each in listed] == ["answered", "erased"]
    assert tao("trace", "verify").code == 0


def test_a_thread_is_deleted_where_nothing_was_recorded(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI(default="Yes.") as server:
        tao("run", "Of Ada?", "-m", f"{server.url}#fake", "--thread", "ada", "--trace", "none")
    assert tao("threads", "delete", "ada", "--yes").code == 0
    assert not (tmp_path / "data" / "traces.sqlite").exists()
