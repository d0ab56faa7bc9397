"""Traces in a SQL database: what SQLite and PostgreSQL have in common."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from taograph.trace.chain import GENESIS, Draft, Entry, LogKind, Record, Sealer
from taograph.trace.stores import Kept, Store
from taograph.trace.stores.batch import End, Mark, Tail, chained, content_of, seal, told

EVENTS, TRACES, LOG = "taograph_trace_events", "taograph_traces", "taograph_trace_log"

ALONE = "SELECT pg_advisory_xact_lock(hashtext('taograph_trace_log'))"
"""What keeps other writers out of PostgreSQL, until the transaction ends. Readers do not ask for it."""

# `open` says whether the end of a trace is recorded; content, thread and user are NULL where they were erased.
SCHEMA = (
    f"""CREATE TABLE IF NOT EXISTS {TRACES} (
        trace TEXT PRIMARY KEY, thread TEXT, "user" TEXT, run TEXT NOT NULL, graph TEXT NOT NULL,
        started TEXT NOT NULL, last TEXT NOT NULL, delete_on TEXT, count INTEGER NOT NULL, head TEXT NOT NULL,
        open INTEGER NOT NULL, erased INTEGER NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {EVENTS} (
        trace TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL, time TEXT NOT NULL, content TEXT, salt TEXT,
        content_hash TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT,
        PRIMARY KEY (trace, seq))""",
    f"""CREATE TABLE IF NOT EXISTS {LOG} (
        n INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, trace TEXT NOT NULL, count INTEGER NOT NULL,
        head TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT)""",
    f"CREATE INDEX IF NOT EXISTS {TRACES}_thread ON {TRACES} (thread)",
    f'CREATE INDEX IF NOT EXISTS {TRACES}_user ON {TRACES} ("user")',
    f"CREATE INDEX IF NOT EXISTS {TRACES}_run ON {TRACES} (run)",
)
_ENTRY = "trace, seq, type, time, content, salt, content_hash, prev, hash, signature"
_RECORD = "n, kind, time, trace, count, head, prev, hash, signature"
_KEPT = 'trace, thread, "user", run, graph, started, last, delete_on, count, head, open, erased'
_PAGE = 500


class Execute(Protocol):
    """Runs a statement within a transaction; its parameters are written ``?``."""

    def __call__(self, sql: str, /, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows, where there are any."""
        ...


class SqlStore:
    """A store on a database; each method is one transaction."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction that keeps other writers out from its beginning: two of them would fork the chain."""

    @abstractmethod
    def reading(self, *, whole: bool = False) -> AbstractContextManager[Execute]:
        """A transaction that only reads, and holds no writer up.

        Args:
            whole: All its statements see the database as it was at the first.
        """

    def give_back(self) -> None:
        """Give the space of deleted rows back."""

    @abstractmethod
    def close(self) -> None:
        """As :meth:`Store.close`."""

    def append(self, drafts: Sequence[Draft], sealer: Sealer, *, delete_on: str | None = None) -> None:
        """As :meth:`Store.append`."""
        with self.transaction() as execute:
            batch = seal(drafts, sealer, lambda trace: _tail(execute, trace), delete_on)
            for entry in batch.new:
                _open(execute, entry)
            for entry in batch.entries:
                execute(
                    f"INSERT INTO {EVENTS} ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
                    entry.trace,
                    entry.seq,
                    entry.type,
                    entry.time,
                    None if entry.content is None else json.dumps(entry.content, ensure_ascii=True),
                    entry.salt,
                    entry.content_hash,
                    entry.prev,
                    entry.hash,
                    entry.signature,
                )
            for trace, tail in batch.tails.items():
                execute(
                    f"UPDATE {TRACES} SET count = ?, head = ?, last = ?, open = ? WHERE trace = ?",  # noqa: S608
                    *(tail.count, tail.head, tail.time, int(not tail.is_ended), trace),
                )
            _log(execute, batch.marks, sealer)

    def traces(self, *, thread: str | None = None, user: str | None = None, run: str | None = None) -> list[Kept]:
        """As :meth:`Store.traces`."""
        wanted = {"thread": thread, '"user"': user, "run": run}
        given = {name: _text(value) for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "1 = 1"
        with self.reading() as execute:
            rows = execute(
                f"SELECT {_KEPT} FROM {TRACES} WHERE {where} ORDER BY started, trace",  # noqa: S608
                *given.values(),
            )
        found = [Kept(*row) for row in rows]
        return [replace(kept, is_open=bool(kept.is_open), is_erased=bool(kept.is_erased)) for kept in found]

    def ids(self) -> list[str]:
        """As :meth:`Store.ids`."""
        with self.reading() as execute:
            return [row[0] for row in execute(f"SELECT DISTINCT trace FROM {EVENTS}")]  # noqa: S608

    def entries(self, trace: str) -> Iterator[Entry]:
        """As :meth:`Store.entries`."""
        for row in self._pages(_ENTRY, EVENTS, "seq", "trace = ?", trace):
            trace_id, seq, kind, time, content, *rest = row
            yield Entry(trace_id, seq, kind, time, None if content is None else content_of(content), *rest)

    def records(self) -> Iterator[Record]:
        """As :meth:`Store.records`."""
        for row in self._pages(_RECORD, LOG, "n", "1 = 1"):
            yield Record(*row)

    def _pages(self, columns: str, table: str, order: str, where: str, *given: Any) -> Iterator[tuple[Any, ...]]:
        """Rows, a page at a time, so that a long trace is not held in memory."""
        place, after = columns.split(", ").index(order), -(2**31)
        while True:
            with self.reading() as execute:
                rows = execute(
                    f"SELECT {columns} FROM {table} WHERE {where} AND {order} > ? ORDER BY {order} LIMIT {_PAGE}",  # noqa: S608
                    *given,
                    after,
                )
            yield from rows
            if len(rows) < _PAGE:
                return
            after = rows[-1][place]

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """As :meth:`Store.snapshot`."""
        with self.reading(whole=True) as execute:
            yield _Within(execute)

    def erase(self, traces: Sequence[str], kind: LogKind, time: str, sealer: Sealer) -> None:
        """As :meth:`Store.erase`."""
        for trace in traces:
            with self.transaction() as execute:
                erase_rows(execute, trace, kind, time, sealer)
        if traces:
            self.give_back()


class _Within(SqlStore):
    """A store within a transaction that somebody else began."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """As :meth:`SqlStore.transaction`."""
        yield self._execute

    @contextmanager
    def reading(self, *, whole: bool = False) -> Iterator[Execute]:
        """As :meth:`SqlStore.reading`."""
        yield self._execute

    def close(self) -> None:
        """It is the other's."""


def erase_rows(execute: Execute, trace: str, kind: LogKind, time: str, sealer: Sealer) -> None:
    """Erase a trace within a transaction, see :meth:`Store.erase`."""
    tail = _tail(execute, trace)
    if tail is None or (kind == "erased" and tail.is_erased):
        return
    if kind == "purged":
        execute(f"DELETE FROM {EVENTS} WHERE trace = ?", trace)  # noqa: S608
        execute(f"DELETE FROM {TRACES} WHERE trace = ?", trace)  # noqa: S608
    else:
        execute(f"UPDATE {EVENTS} SET content = NULL, salt = NULL WHERE trace = ?", trace)  # noqa: S608
        execute(
            f"UPDATE {TRACES} SET thread = NULL, \"user\" = NULL, graph = '', run = '', delete_on = NULL, "  # noqa: S608
            "erased = 1 WHERE trace = ?",
            trace,
        )
    _log(execute, [Mark(kind, trace, time, (tail.count, tail.head))], sealer)


def _tail(execute: Execute, trace: str) -> Tail | None:
    found = execute(f"SELECT count, head, last, open, erased FROM {TRACES} WHERE trace = ?", trace)  # noqa: S608
    if not found:
        return None
    count, head, last, is_open, is_erased = found[0]
    return Tail(int(count), str(head), str(last), not is_open, bool(is_erased))


def _open(execute: Execute, first: Entry) -> None:
    thread, user, run, graph, delete_on = (
        None if value is None else _text(value)
        for value in (told(first, name) for name in ("thread", "user", "run", "graph", "delete_on"))
    )
    execute(
        f"INSERT INTO {TRACES} ({_KEPT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 1, 0)",  # noqa: S608
        *(first.trace, thread, user, run or "", graph or "", first.time, first.time, delete_on, GENESIS),
    )


def _log(execute: Execute, marks: Sequence[Mark], sealer: Sealer) -> None:
    if not marks:
        return
    found = execute(f"SELECT n, hash, signature FROM {LOG} ORDER BY n DESC LIMIT 1")  # noqa: S608
    last = End(int(found[0][0]), str(found[0][1]), found[0][2] is not None) if found else End()
    for made in chained(marks, sealer, last):
        execute(
            f"INSERT INTO {LOG} ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            *(made.n, made.kind, made.time, made.trace, made.count, made.head, made.prev, made.hash, made.signature),
        )


def _text(value: str) -> str:
    """A text that a column takes: PostgreSQL's take no NUL, and none takes half a character."""
    return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
