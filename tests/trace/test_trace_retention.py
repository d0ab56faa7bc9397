"""Traces are deleted on time and on request; what is left says nothing of them, and verifies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer
from trace_support import Raw, draft, whole, write

from taograph import checkpoints, create_react_graph, trace
from taograph.models import ScriptedModel
from taograph.trace import Sealer, Store, open_store
from taograph.trace.retention import erase, purge
from taograph.trace.verifying import verify

KEY = b"sixteen bytes ok"
SEALER = Sealer(KEY)


def names(found: list[Any]) -> list[str]:
    return [kept.trace for kept in found]


def fill(store: Store) -> None:
    for number, day in enumerate(("2026-05-31", "2026-06-01", "2026-06-02", None), 1):
        write(
            store,
            whole(str(number), text=f"planted-{number}", thread="t", user=f"u{number % 2}"),
            SEALER,
            delete_on=day,
        )


def test_what_is_due_is_purged(store: Store, raw: Raw) -> None:
    fill(store)
    due = purge(store, today=date(2026, 6, 1), key=KEY)
    assert names(due) == ["1", "2"]
    assert due[0].thread == "t"
    assert len(store.traces()) == 4, "nothing is deleted by asking"
    assert names(purge(store, today=date(2026, 6, 1), dry_run=False, key=KEY)) == ["1", "2"]
    assert names(store.traces()) == ["3", "4"]
    assert sorted(store.ids()) == ["3", "4"]
    held = raw.bytes()
    assert [mark in held for mark in (b"planted-1", b"planted-2", b"planted-3", b"planted-4")] == [
        False,
        False,
        True,
        True,
    ]
    assert [(r.kind, r.trace, r.count) for r in store.records()][-2:] == [("purged", "1", 5), ("purged", "2", 5)]
    report = verify(store, KEY)
    assert report.ok, report.faults
    assert purge(store, today=date(2026, 6, 1), dry_run=False, key=KEY) == []
    assert names(purge(store, today=date(2099, 1, 1))) == ["3"], "never is never"


def test_a_run_that_may_still_go_on_is_not_purged(store: Store) -> None:
    at = datetime.now(UTC).isoformat()
    store.append([trace.Draft("now", "run_started", at, {})], SEALER, delete_on="2026-05-01")
    write(store, [draft("killed long ago", "run_started")], SEALER, delete_on="2026-05-01")
    assert names(purge(store, dry_run=False, key=KEY)) == ["killed long ago"]


def test_by_the_clock(store: Store) -> None:
    write(store, whole("past"), SEALER, delete_on="2020-01-01")
    write(store, whole("future"), SEALER, delete_on="2999-01-01")
    write(store, whole("today"), SEALER, delete_on=datetime.now(UTC).date().isoformat())
    assert sorted(names(purge(store))) == ["past", "today"]


@pytest.mark.parametrize(
    ("whose", "gone"),
    [({"user": "u1"}, ["1", "3"]), ({"thread": "t"}, ["1", "2", "3", "4"]), ({"run": "run of 2"}, ["2"]),
     ({"thread": "t", "user": "u0"}, ["2", "4"]), ({"user": "nobody"}, [])],
)  # fmt: skip
def test_erasure_on_request(store: Store, raw: Raw, whose: dict[str, str], gone: list[str]) -> None:
    fill(store)
    assert names(erase(store, **whose)) == gone
    assert b"planted-1" in raw.bytes(), "nothing is erased by asking"
    assert names(erase(store, **whose, dry_run=False, key=KEY)) == gone
    held = raw.bytes()
    for number in "1234":
        assert (f"planted-{number}".encode() in held) is (number not in gone)
        assert (f"run of {number}".encode() in held) is (number not in gone)
        entries = list(store.entries(number))
        assert [e.content is None for e in entries] == [number in gone] * 5
        assert [e.seq for e in entries] == [1, 2, 3, 4, 5]
    report = verify(store, KEY)
    assert report.ok, report.faults
    assert erase(store, **whose, dry_run=False, key=KEY) == []


def test_whose_has_to_be_said(store: Store) -> None:
    with pytest.raises(ValueError, match="thread=, user= or run="):
        erase(store)


def test_space_is_given_back(tmp_path: Path) -> None:
    file = tmp_path / "t.db"
    store = open_store(f"sqlite:///{file}")
    write(store, whole("small"))
    store.append(whole("large", 300, text="x" * 5000), Sealer(), delete_on="2026-05-01")
    before = file.stat().st_size + file.with_name("t.db-wal").stat().st_size
    purge(store, dry_run=False)
    assert file.stat().st_size + file.with_name("t.db-wal").stat().st_size < before / 10
    store.close()


def test_what_a_reader_keeps_from_being_overwritten_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taograph.trace.stores import sqlite

    monkeypatch.setattr(sqlite, "_OPTIONS", {**sqlite._OPTIONS, "timeout": 0.1})
    url = f"sqlite:///{tmp_path}/t.db"
    store, reader = open_store(url), open_store(url, read_only=True)
    write(store, whole("a", text="planted"))
    with reader.snapshot() as view:
        assert len(view.traces()) == 1
        erase(store, user="user of a", dry_run=False)
        assert [e.content is not None for e in view.entries("a")] == [True] * 5, "it sees what was when it began"
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "t.db is being read: what was erased stays in t.db-wal until" in caplog.text
    write(store, whole("b"))
    erase(store, user="user of b", dry_run=False)
    assert b"planted" not in Raw(url).bytes()
    reader.close()
    store.close()


# A thread takes its traces along


def record(url: str, saver: Any, thread: str, **options: Any) -> None:
    model = ScriptedModel(replies=[f"The answer is planted-{thread}."], usage=(1, 1))
    graph = trace.record(create_react_graph(model, [], checkpointer=saver), to=url, **options)
    graph.invoke({"messages": [("user", f"planted-{thread}?")]}, {"configurable": {"thread_id": thread}})
    for writer in trace._writers.values():
        writer.flush()


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database for threads and traces."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/both.db"
    made: str = request.getfixturevalue("postgres_url")
    return made


@pytest.mark.parametrize("how", ["delete", "prune", "delete_thread"])
def test_a_thread_takes_its_traces_along(both: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_TRACE_KEY", KEY.decode())
    with checkpoints.open(both) as saver, closing(open_store(both)) as store:
        for thread in ("one", "two"):
            record(both, saver, thread, key=KEY)
        if how == "delete":
            assert checkpoints.delete(saver, "one")
        elif how == "prune":
            after_one = next(t.updated for t in checkpoints.threads(saver) if t.id == "two")
            checkpoints.prune(saver, after_one)
        else:
            saver.delete_thread("one")
        assert [t.id for t in checkpoints.threads(saver)] == ["two"]
        assert [(k.thread, k.is_erased) for k in store.traces()] == [(None, True), ("two", False)]
        report = verify(store, KEY)
        assert report.ok, report.faults
        with closing(Raw(both)) as raw:
            held = raw.bytes()
        assert b"planted-two" in held
        if how != "delete_thread":  # LangGraph's own way leaves it to the database when it writes over what is free
            assert b"planted-one" not in held


def test_also_where_the_variable_says_that_they_are(
    url: str, raw: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOGRAPH_TRACE", url)
    with checkpoints.open(f"sqlite:///{tmp_path}/threads.db") as saver:
        for thread in ("one", "two", "three"):
            record(url, saver, thread)
        assert checkpoints.delete(saver, "one")
        checkpoints.prune(saver, next(t.updated for t in checkpoints.threads(saver) if t.id == "three"))
    with closing(open_store(url)) as store:
        assert [(k.thread, k.is_erased) for k in store.traces()] == [(None, True), (None, True), ("three", False)]
        assert verify(store).ok
    assert b"planted-one" not in raw.bytes()
    assert b"planted-two" not in raw.bytes()


@pytest.mark.parametrize("how", ["delete", "prune", "delete_thread"])
def test_a_store_that_cannot_be_used_keeps_the_thread(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path}/threads.db") as saver:
        record(f"sqlite:///{tmp_path}/traces.db", saver, "one")
        (tmp_path / "text").write_text("no database" * 500)
        monkeypatch.setenv("TAOGRAPH_TRACE", f"sqlite:///{tmp_path}/text")
        ways: dict[str, Callable[[], object]] = {
            "delete": lambda: checkpoints.delete(saver, "one"),
            "prune": lambda: checkpoints.prune(saver, datetime.now(UTC)),
            "delete_thread": lambda: saver.delete_thread("one"),
        }
        with pytest.raises(ValueError, match="text is no SQLite database"):
            ways[how]()
        assert [t.id for t in checkpoints.threads(saver)] == ["one"]
        monkeypatch.setenv("TAOGRAPH_TRACE", f"sqlite:///{tmp_path}/none.db")
        assert checkpoints.delete(saver, "one")
        assert not (tmp_path / "none.db").exists(), "to delete makes no store"


def test_two_schemas_of_one_server(server: PostgresServer, postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other")
    mine, other = open_store(postgres_url), open_store(f"{postgres_url}?options=-csearch_path%3Dother")
    write(mine, whole("a"))
    write(other, whole("b"))
    assert [names(s.traces()) for s in (mine, other)] == [["a"], ["b"]]
    assert verify(mine).ok
    assert verify(other).ok
    mine.close()
    other.close()
