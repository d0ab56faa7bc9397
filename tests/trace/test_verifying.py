"""A record that somebody changed is found out, and where; one that nobody changed is not accused."""

from __future__ import annotations

import random
import sqlite3
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from tampering import WAYS, Tamperer
from trace_support import Raw, draft, events, whole, write

from taograph.trace import Sealer, Store, open_store
from taograph.trace.chain import GENESIS
from taograph.trace.verifying import Report, verify

KEY = b"sixteen bytes ok"
# 1,000 in all: on each store, signed and unsigned. A quarter of them every time, the rest in a test that is slow.
TAMPERINGS = {"sqlite": 250, "jsonl": 200, "postgres": 50}


def fill(store: Store, key: bytes | None = None) -> None:
    """Traces that ended, one that did not, one that was erased and one that was purged."""
    sealer = Sealer(key)
    deep = {"a": [1, 2.5, {"b": ["c", None]}], "d": True}
    for name, count in (("first", 7), ("second", 4), ("purged", 3), ("erased", 5), ("last", 9)):
        write(store, whole(name, count, deep=deep), sealer, delete_on="2026-10-28")
    write(store, whole("open", 6, ends=False, deep=deep), sealer, delete_on="2026-10-28")
    store.erase(["purged"], "purged", "2026-06-01T00:00:00+00:00", sealer)
    store.erase(["erased"], "erased", "2026-06-01T00:00:00+00:00", sealer)


def places(report: Report) -> set[tuple[str, str, int]]:
    return {(fault.where, fault.trace, fault.number) for fault in report.faults}


@pytest.mark.parametrize("part", ["quarter", pytest.param("rest", marks=pytest.mark.slow)])
@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
def test_a_thousand_tamperings(store: Store, raw: Raw, key: bytes | None, part: str) -> None:
    fill(store, key)
    untouched = raw.load()
    assert verify(store, key).ok
    seen = set()
    count = TAMPERINGS["postgres" if raw.kind == "postgresql" else raw.kind]
    for number in range(count // 4) if part == "quarter" else range(count // 4, count):
        tamperer = Tamperer(raw, untouched, random.Random(f"{raw.kind} {key is None} {number}"), key)
        done = tamperer.tamper()
        report = verify(open_again(store, raw), key)
        found = places(report)
        assert found, f"{number}: {done.what} was not found"
        if done.places:
            assert found & done.places, f"{number}: {done.what}: {[str(f) for f in report.faults]}"
        assert all(str(fault) and fault.detail for fault in report.faults)
        seen.add(done.what.split()[0])
    raw.save(untouched)
    assert verify(open_again(store, raw), key).ok
    assert len(seen) > 5
    assert len(WAYS) > 25


def open_again(store: Store, raw: Raw) -> Store:
    """The same store: nothing that it remembers is in the way."""
    return open_store(raw.url) if raw.kind == "jsonl" else store


@pytest.mark.parametrize("key", [None, KEY], ids=["unsigned", "signed"])
def test_a_record_that_nobody_changed(store: Store, key: bytes | None) -> None:
    fill(store, key)
    report = verify(store, key)
    assert report.ok
    assert (report.traces, report.events, report.records) == (5, 31, 13)
    assert [str(notice) for notice in report.notices] == [
        "open: no end of it is recorded: it runs, or its process was killed",
        "traces: 1 purged, 1 erased; the log says when",
    ]
    assert report.head == list(store.records())[-1].hash


def test_an_empty_store(store: Store) -> None:
    report = verify(store)
    assert report.ok
    assert (report.traces, report.events, report.head) == (0, 0, GENESIS)
    assert verify(store, head=GENESIS).ok


def test_signatures_that_are_not_looked_at_are_told(store: Store) -> None:
    fill(store, KEY)
    assert "it is signed, and the signatures were not looked at: no key was given" in map(str, verify(store).notices)


@pytest.mark.parametrize(("written", "read"), [(KEY, b"another key, long"), (None, KEY)])
def test_another_key(store: Store, written: bytes | None, read: bytes) -> None:
    fill(store, written)
    report = verify(store, read)
    assert {f.what for f in report.faults} == {"unsigned"}
    assert {f.trace for f in report.faults} == {"", "first", "second", "erased", "last", "open"}
    said = "its signature is not made with this key" if written else "it is not signed"
    assert {f.detail for f in report.faults} == {said}


def test_the_hash_that_was_noted_finds_what_nothing_else_does(store: Store, raw: Raw) -> None:
    fill(store)
    earlier = raw.load()
    write(store, whole("later"))
    head = verify(store).head
    raw.save(earlier)
    again = open_again(store, raw)
    assert verify(again).ok, "a copy of an earlier time"
    report = verify(again, head=head)
    assert [str(f) for f in report.faults] == [
        "the log, record 14: truncated: the hash that was noted is not in it: it was cut off, or made anew"
    ]
    for record in again.records():
        assert verify(again, head=record.hash).ok, "noted earlier, and more was written since"


def test_all_made_anew_is_found_with_a_key_or_a_noted_hash(url: str, tmp_path: Path) -> None:
    true = open_store(url)
    write(true, whole("a"), Sealer(KEY))
    head = verify(true, KEY).head
    true.close()
    forged = open_store(f"sqlite:///{tmp_path}/forged.db")
    write(forged, [replace(d, content={**d.content, "text": "invented"}) for d in whole("a")])
    assert verify(forged).ok, "nobody can tell without either"
    assert {f.what for f in verify(forged, KEY).faults} == {"unsigned"}
    assert [f.what for f in verify(forged, head=head).faults] == ["truncated"]
    forged.close()


def test_a_record_is_looked_at_while_it_is_written(store: Store, url: str) -> None:
    write(store, whole("a", ends=False))
    reader = open_store(url, read_only=True)
    with reader.snapshot() as view:
        write(store, [draft("a", minute=8), draft("a", "run_ended", minute=9)])
        assert verify(_Fixed(view)).ok  # type: ignore[arg-type]
    report = verify(reader)
    assert report.ok
    assert report.events == 7
    reader.close()


class _Fixed:
    """A snapshot whose snapshot is itself."""

    def __init__(self, view: Store) -> None:
        self._view = view

    def snapshot(self) -> _Fixed:
        return self

    def __enter__(self) -> Store:
        return self._view

    def __exit__(self, *given: object) -> None:
        return None


def test_memory_does_not_grow_with_a_trace(tmp_path: Path) -> None:
    taken = []
    for count in (2_000, 10_000):
        store = open_store(f"sqlite:///{tmp_path}/{count}.db")
        drafts = whole("long", count, text="x" * 500)
        for at in range(0, count, 1000):
            store.append(drafts[at : at + 1000], Sealer())
        del drafts
        tracemalloc.start()
        assert verify(store).events == count
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        store.close()
    assert taken[1] < taken[0] * 1.5


def test_what_is_said_of_each_fault(store: Store, raw: Raw) -> None:
    write(store, whole("a"))
    tables = raw.load()
    tables["events"][2]["type"] = "answer"
    raw.save(tables)
    assert [str(f) for f in verify(open_again(store, raw)).faults] == [
        "trace a, event 3: changed: its hash does not fit it"
    ]
    assert events(open_again(store, raw), "a")[2].type == "answer"


def test_values_of_any_kind(store: Store, raw: Raw) -> None:
    """What a column may hold that should not be there ends in a fault, not in an exception."""
    fill(store, KEY)
    untouched = raw.load()
    odd: list[object] = ["text", -1, 0, 2**40, ""]
    if raw.kind == "sqlite":
        odd += [b"bytes", b"\xff", 1.5, 2**62]
    if raw.kind == "jsonl":
        odd += [True, None, [1], {"a": {"b": 1}}, 1.5, "\u2028"]
    if raw.kind == "postgresql":
        odd = ["text", ""]
    tried = 0
    for table in ("events", "traces", "log"):
        for name in untouched[table][2] if untouched[table] else ():
            for value in odd:
                if raw.kind == "postgresql" and not isinstance(untouched[table][2][name], str):
                    continue
                tables = {each: [dict(row) for row in rows] for each, rows in untouched.items()}
                if tables[table][2][name] == value or (name in ("open", "erased") and not value):
                    continue
                tables[table][2][name] = value
                try:
                    raw.save(tables)
                except sqlite3.Error:  # no column takes it
                    raw.close()
                    continue
                tried += 1
                assert verify(open_again(store, raw), KEY).faults, f"{table} {name} {value!r}"
                if table == "events":
                    list(open_again(store, raw).entries("first"))
                open_again(store, raw).traces()
    assert tried > 20


def test_a_file_in_the_place_of_another(tmp_path: Path) -> None:
    url = f"jsonl:{tmp_path}"
    store = open_store(url)
    write(store, whole("a", ends=False))
    write(store, whole("b", ends=False))
    (tmp_path / "trace-a.jsonl").write_bytes((tmp_path / "trace-b.jsonl").read_bytes())
    (fault,) = verify(open_store(url)).faults
    assert str(fault) == "trace a, event 1: changed: it is an event of trace b"


def test_a_trace_that_begins_anew_after_it_was_purged(store: Store) -> None:
    write(store, whole("a"))
    store.erase(["a"], "purged", "2026-06-01T00:00:00+00:00", Sealer())
    write(store, [draft("a", minute=9)])
    report = verify(store)
    assert report.ok, report.faults
    assert report.events == 1
