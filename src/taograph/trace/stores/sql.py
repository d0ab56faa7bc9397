"""Traces in a SQL database: what SQLite and PostgreSQL have in common."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from taograph.trace.chain import GENESIS, Draft, Entry, LogKind, Record, Sealer
from taograph.trace.stores import Kept

EVENTS, TRACES, LOG = "taograph_trace_events", "taograph_traces", "taograph_trace_log"

# `open` says whether the end of a trace is recorded; content, thread and user are NULL where they were erased.
SCHEMA = (
    f"""CREATE TABLE IF NOT EXISTS {TRACES} (
        trace TEXT PRIMARY KEY, thread TEXT, "user" TEXT, run TEXT NOT NULL, graph TEXT NOT NULL,
        started TEXT NOT NULL, last TEXT NOT NULL, delete_on TEXT, count INTEGER NOT NULL, head TEXT NOT NULL,
        open INTEGER NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS {EVENTS} (
        trace TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL, time TEXT NOT NULL, content TEXT, salt TEXT,
        content_hash TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT,
        PRIMARY KEY (trace, seq))""",
    f"""CREATE TABLE IF NOT EXISTS {LOG} (
        n INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, trace TEXT NOT NULL, count INTEGER NOT NULL,
        head TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT)""",
    f"CREATE INDEX IF NOT EXISTS {TRACES}_thread ON {TRACES} (thread)",
    f'CREATE INDEX IF NOT EXISTS {TRACES}_user ON {TRACES} ("user")',
    f"CREATE INDEX IF NOT EXISTS {TRACES}_delete_on ON {TRACES} (delete_on)",
)
_ENTRY = "trace, seq, type, time, content, salt, content_hash, prev, hash, signature"
_RECORD = "n, kind, time, trace, count, head, prev, hash, signature"
_KEPT = 'trace, thread, "user", run, graph, started, last, delete_on, count, head, open'
_PAGE = 500


class Execute(Protocol):
    """Runs a statement within a transaction; its parameters are written ``?``."""

    def __call__(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows, where there are any."""
        ...


class SqlStore:
    """A store on a database; each method is one transaction."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction that keeps other writers out from its beginning: two of them would fork the chain."""

    def append(self, drafts: Sequence[Draft], sealer: Sealer, *, delete_on: str | None = None) -> None:
        """As :meth:`Store.append`."""
        with self.transaction() as execute:
            heads: dict[str, tuple[int, str]] = {}
            for draft in drafts:
                if draft.trace not in heads:
                    heads[draft.trace] = self._head(execute, draft, sealer, delete_on)
                count, head = heads[draft.trace]
                made = sealer.entry(draft, count + 1, head)
                execute(
                    f"INSERT INTO {EVENTS} ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
                    made.trace,
                    made.seq,
                    made.type,
                    made.time,
                    json.dumps(made.content, ensure_ascii=True),
                    made.salt,
                    made.content_hash,
                    made.prev,
                    made.hash,
                    made.signature,
                )
                heads[draft.trace] = made.seq, made.hash
            last = {draft.trace: draft for draft in drafts}
            for trace, (count, head) in heads.items():
                run = next((d.run for d in drafts if d.trace == trace and d.run), None)
                execute(
                    f"UPDATE {TRACES} SET count = ?, head = ?, last = ?, open = 1, run = COALESCE(?, run) "  # noqa: S608
                    "WHERE trace = ?",
                    count,
                    head,
                    last[trace].time,
                    run,
                    trace,
                )

    def _head(self, execute: Execute, draft: Draft, sealer: Sealer, delete_on: str | None) -> tuple[int, str]:
        """Number and hash of the last event of a trace, which is made if there is none."""
        found = execute(f"SELECT count, head FROM {TRACES} WHERE trace = ?", draft.trace)  # noqa: S608
        if found:
            return int(found[0][0]), str(found[0][1])
        execute(
            f"INSERT INTO {TRACES} ({_KEPT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 1)",  # noqa: S608
            draft.trace,
            draft.thread,
            draft.user,
            draft.run,
            str(draft.content.get("graph") or ""),
            draft.time,
            draft.time,
            delete_on,
            GENESIS,
        )
        self._log(execute, sealer, "opened", trace=draft.trace, time=draft.time, at=(0, GENESIS))
        return 0, GENESIS

    def _log(
        self, execute: Execute, sealer: Sealer, kind: LogKind, *, trace: str, time: str, at: tuple[int, str]
    ) -> None:
        found = execute(f"SELECT n, hash FROM {LOG} ORDER BY n DESC LIMIT 1")  # noqa: S608
        made = sealer.record(kind, trace, time, at, (int(found[0][0]), str(found[0][1])) if found else (0, GENESIS))
        execute(
            f"INSERT INTO {LOG} ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            made.n,
            made.kind,
            made.time,
            made.trace,
            made.count,
            made.head,
            made.prev,
            made.hash,
            made.signature,
        )

    def log(self, kind: LogKind, trace: str, time: str, sealer: Sealer) -> None:
        """As :meth:`Store.log`."""
        with self.transaction() as execute:
            found = execute(f"SELECT count, head FROM {TRACES} WHERE trace = ?", trace)  # noqa: S608
            if not found:
                return
            self._log(execute, sealer, kind, trace=trace, time=time, at=(int(found[0][0]), str(found[0][1])))
            if kind == "closed":
                execute(f"UPDATE {TRACES} SET open = 0 WHERE trace = ?", trace)  # noqa: S608

    def traces(self, *, thread: str | None = None, user: str | None = None, run: str | None = None) -> list[Kept]:
        """As :meth:`Store.traces`."""
        wanted = {"thread": thread, '"user"': user, "run": run}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "1 = 1"
        with self.transaction() as execute:
            rows = execute(
                f"SELECT {_KEPT} FROM {TRACES} WHERE {where} ORDER BY started, trace",  # noqa: S608
                *given.values(),
            )
        return [Kept(*row) for row in rows]

    def entries(self, trace: str) -> Iterator[Entry]:
        """As :meth:`Store.entries`."""
        for row in self._pages(_ENTRY, EVENTS, "seq", "trace = ?", trace):
            trace_id, seq, kind, time, content, *rest = row
            yield Entry(trace_id, seq, kind, time, None if content is None else json.loads(content), *rest)

    def records(self) -> Iterator[Record]:
        """As :meth:`Store.records`."""
        for row in self._pages(_RECORD, LOG, "n", "1 = 1"):
            yield Record(*row)

    def _pages(self, columns: str, table: str, order: str, where: str, *given: Any) -> Iterator[tuple[Any, ...]]:
        """Rows, a page at a time, so that a long trace is not held in memory."""
        place, after = columns.split(", ").index(order), -(2**31)
        while True:
            with self.transaction() as execute:
                rows = execute(
                    f"SELECT {columns} FROM {table} WHERE {where} AND {order} > ? ORDER BY {order} LIMIT {_PAGE}",  # noqa: S608
                    *given,
                    after,
                )
            yield from rows
            if len(rows) < _PAGE:
                return
            after = rows[-1][place]

    def erase(self, traces: Sequence[str], kind: LogKind, time: str, sealer: Sealer) -> None:
        """As :meth:`Store.erase`."""
        for trace in traces:
            with self.transaction() as execute:
                found = execute(f"SELECT count, head FROM {TRACES} WHERE trace = ?", trace)  # noqa: S608
                if not found:
                    continue
                execute(f"UPDATE {EVENTS} SET content = NULL, salt = NULL WHERE trace = ?", trace)  # noqa: S608
                execute(
                    f"UPDATE {TRACES} SET thread = NULL, \"user\" = NULL, graph = '', run = '', delete_on = NULL "  # noqa: S608
                    "WHERE trace = ?",
                    trace,
                )
                self._log(execute, sealer, kind, trace=trace, time=time, at=(int(found[0][0]), str(found[0][1])))
