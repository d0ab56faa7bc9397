"""Writes that come faster than transactions end are done together, and each is told what became of it alone."""

from __future__ import annotations

import asyncio
import copy
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from taograph import checkpoints
from taograph.checkpoints.ledger import CallKey, Ledger
from taograph.checkpoints.sqlite import SqliteCheckpoints

SECONDS = 30.0


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteCheckpoints]:
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as opened:
        saver = cast("SqliteCheckpoints", opened)
        with saver.transaction() as execute:
            execute("CREATE TABLE seen (number INTEGER PRIMARY KEY)")
        yield saver


def wrote(saver: SqliteCheckpoints, number: int) -> Callable[[], int]:
    def write() -> int:
        with saver.transaction() as execute:
            execute("INSERT INTO seen VALUES (?)", number)
        return number

    return write


def rows(saver: SqliteCheckpoints) -> list[int]:
    with sqlite3.connect(str(saver.conn.execute("PRAGMA database_list").fetchone()[2])) as other:
        return [number for (number,) in other.execute("SELECT number FROM seen ORDER BY rowid")]


def while_busy(saver: SqliteCheckpoints, *writes: Callable[[], Any]) -> tuple[list[Future[Any]], list[str]]:
    """Writes that wait together, and the statements about transactions that they took."""
    free, said = threading.Event(), []
    first = saver.workers.submit(free.wait, SECONDS)
    given = [saver.workers.write(write) for write in writes]
    saver.conn.set_trace_callback(said.append)
    free.set()
    first.result(SECONDS)
    for future in given:
        future.exception(SECONDS)
    saver.workers.submit(saver.conn.set_trace_callback, None).result(SECONDS)
    return given, [one for one in said if one.startswith(("BEGIN", "COMMIT", "ROLLBACK"))]


def test_what_waits_is_written_in_one_transaction_in_the_order_in_which_it_came(saver: SqliteCheckpoints) -> None:
    given, said = while_busy(saver, *(wrote(saver, number) for number in (3, 1, 2)))
    assert [future.result() for future in given] == [3, 1, 2]
    assert said == ["BEGIN IMMEDIATE", "COMMIT"]
    assert sorted(rows(saver)) == [1, 2, 3]


def test_one_that_fails_leaves_nothing_and_takes_none_with_it(saver: SqliteCheckpoints) -> None:
    def fails() -> None:
        wrote(saver, 7)()
        raise ValueError("after it had written")

    given, said = while_busy(saver, wrote(saver, 1), fails, wrote(saver, 1), wrote(saver, 2))
    assert [type(future.exception()) for future in given] == [
        type(None),
        ValueError,
        sqlite3.IntegrityError,
        type(None),
    ]
    assert rows(saver) == [1, 2]
    assert said.count("COMMIT") == 1


def test_where_the_transaction_fails_each_is_done_alone(saver: SqliteCheckpoints) -> None:
    """Nobody is told that something is done that was rolled back."""
    told: list[int] = []

    def rolls_back() -> None:
        told.append(len(rows(saver)))
        if len(told) == 1:
            saver.conn.rollback()  # as a full disk does

    given, said = while_busy(saver, wrote(saver, 1), rolls_back, wrote(saver, 2))
    assert [future.exception() for future in given] == [None, None, None]
    assert told == [0, 1], "together it saw nothing committed; alone, what had come before it"
    assert rows(saver) == [1, 2]
    assert said.count("COMMIT") >= 2


def test_a_table_that_was_rolled_back_is_made_again(saver: SqliteCheckpoints) -> None:
    """The first entry of a ledger makes its table; where it fails, among others, the table is gone with it."""
    ledger = Ledger(saver)
    bad, good = (CallKey("t", "", "r", call, "h") for call in ("\ud800", "c"))
    given, _ = while_busy(saver, lambda: ledger.begin(bad, "x"), lambda: ledger.begin(good, "x"))
    assert [type(future.exception()) for future in given] == [UnicodeEncodeError, type(None)]
    found = ledger.find(good)
    assert found is not None
    assert found.state == "begun"


@pytest.mark.timeout(60)
def test_copies_of_a_saver_write_together(saver: SqliteCheckpoints) -> None:
    """LangGraph copies one to have it read more types, as with LANGGRAPH_STRICT_MSGPACK."""
    other = copy.copy(saver)
    given, said = while_busy(saver, wrote(saver, 1), wrote(other, 2), wrote(other, 3))
    assert [future.result() for future in given] == [1, 2, 3]
    assert said == ["BEGIN IMMEDIATE", "COMMIT"]
    assert other.commits
    assert rows(other) == [1, 2, 3]


def test_what_was_taken_along_when_it_closed_is_told(saver: SqliteCheckpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """It closes between a write being given and its thread being told: another's round may have done it already."""
    grouping = saver.workers

    def closes(work: Callable[[], None]) -> None:
        work()  # as the round of another does, which finds it
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(grouping._threads, "submit", closes)
    assert grouping.write(lambda: 7).result(SECONDS) == 7

    def refuses(_work: Callable[[], None]) -> None:
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr(grouping._threads, "submit", refuses)
    with pytest.raises(RuntimeError, match="shutdown"):
        grouping.write(lambda: 8)
    assert not grouping._jobs


def test_a_look_between_writes_sees_what_came_before_it(saver: SqliteCheckpoints) -> None:
    free = threading.Event()
    saver.workers.submit(free.wait, SECONDS)
    first = saver.workers.write(wrote(saver, 1))
    look = saver.workers.submit(rows, saver)
    last = saver.workers.write(wrote(saver, 2))
    free.set()
    assert (first.result(SECONDS), look.result(SECONDS), last.result(SECONDS)) == (1, [1], 2)


async def test_what_is_being_written_is_written_though_the_task_is_cancelled(saver: SqliteCheckpoints) -> None:
    free = threading.Event()
    saver.workers.submit(free.wait, SECONDS)
    tasks = [asyncio.create_task(saver.store(wrote(saver, number))) for number in range(3)]
    await asyncio.sleep(0)
    for task in tasks[:2]:
        task.cancel()
    free.set()
    assert await tasks[2] == 2
    assert rows(saver) == [0, 1, 2]


def test_what_was_given_is_written_before_it_closes(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as opened:
        saver = cast("SqliteCheckpoints", opened)
        with saver.transaction() as execute:
            execute("CREATE TABLE seen (number INTEGER PRIMARY KEY)")
        given = [saver.workers.write(wrote(saver, number)) for number in range(200)]
    assert [future.result(0) for future in given] == list(range(200))
    with pytest.raises(RuntimeError):
        saver.workers.write(wrote(saver, 201))
    with sqlite3.connect(tmp_path / "runs.db") as other:
        assert other.execute("SELECT count(*) FROM seen").fetchone() == (200,)
