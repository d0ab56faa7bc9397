"""What the tests of the trace share: stores as their files or tables have them, and events to be written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from taograph.trace import Draft, Entry, Sealer, Store
from taograph.trace.stores.sql import EVENTS, LOG, TRACES

NOON = "2026-05-01T12:00:00.000000+00:00"
Row = dict[str, Any]
Tables = dict[str, list[Row]]
"""All rows of a store: events, traces and log."""


def draft(trace: str, type: str = "thought", *, minute: int = 0, **more: Any) -> Draft:
    """An event."""
    names = ("thread", "user", "run", "step")
    about = {name: more.pop(name) for name in names if name in more}
    return Draft(trace, type, f"2026-05-01T12:{minute:02}:00.000000+00:00", more, **about)


def whole(trace: str, events: int = 5, *, ends: bool = True, **about: Any) -> list[Draft]:
    """A trace with a beginning, some thoughts and an end."""
    kinds = ["run_started", *["thought"] * (events - 2), "run_ended" if ends else "thought"]
    about = {"thread": f"thread of {trace}", "user": f"user of {trace}", "run": f"run of {trace}", **about}
    return [
        draft(
            trace,
            kind,
            minute=number,
            **({"graph": "react"} if number == 0 else {"text": f"thought {number} of {trace}"}) | about,
            step=number,
        )
        for number, kind in enumerate(kinds)
    ]


def write(store: Store, drafts: Sequence[Draft], sealer: Sealer | None = None, **more: Any) -> None:
    """Write events, one at a time, as most come."""
    for each in drafts:
        store.append([each], sealer or Sealer(), **more)


def types(entries: Sequence[Entry]) -> list[str]:
    return [entry.type for entry in entries]


def events(store: Store, trace: str | None = None) -> list[Entry]:
    """The events of a trace; of the only one if none is named."""
    if trace is None:
        (kept,) = store.traces()
        trace = kept.trace
    return list(store.entries(trace))


class Raw:
    """A store as its files or tables have it, to be tampered with.

    Args:
        url: The store's.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.kind = url.partition(":")[0]

    @property
    def path(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///").removeprefix("jsonl:"))

    def load(self) -> Tables:
        """All rows."""
        if self.kind == "jsonl":
            found: Tables = {"log": [], "events": [], "traces": []}
            for path in sorted(self.path.glob("*.jsonl")):
                rows = [json.loads(line) for line in path.read_text().splitlines()]
                found["log" if path.name == "log.jsonl" else "events"] += rows
            return found
        return {name: self._rows(f"SELECT * FROM {table} ORDER BY {order}") for name, table, order in _TABLES}

    def save(self, tables: Tables) -> None:
        """Put rows in the place of all that are there."""
        if self.kind == "jsonl":
            for path in self.path.glob("*.jsonl"):
                path.unlink()
            files: dict[str, list[Row]] = {"log.jsonl": tables["log"]}
            for row in tables["events"]:
                files.setdefault(f"trace-{row['trace']}.jsonl", []).append(row)
            for name, rows in files.items():
                (self.path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
            return
        for name, table, _ in _TABLES:
            self._do(f"DELETE FROM {table}")
            for row in tables[name]:
                columns = ", ".join(f'"{column}"' for column in row)
                marks = ", ".join("?" * len(row))
                self._do(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *row.values())
        self._end()

    def bytes(self) -> bytes:
        """All that is in the files, or in the rows on the server."""
        if self.kind == "jsonl":
            return b"".join(path.read_bytes() for path in sorted(self.path.iterdir()))
        if self.kind == "sqlite":
            return b"".join(p.read_bytes() for p in self.path.parent.glob(f"{self.path.name}*") if p.is_file())
        return json.dumps(self.load()).encode()

    def content(self, row: Row) -> Any:
        """The content in a row of an event."""
        return row["content"] if self.kind == "jsonl" or row["content"] is None else json.loads(row["content"])

    def with_content(self, row: Row, content: Any) -> Row:
        """A row with another content."""
        return {**row, "content": content if self.kind == "jsonl" or content is None else json.dumps(content)}

    def _rows(self, sql: str) -> list[Row]:
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.path)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(sql)]
        from psycopg.rows import dict_row

        return self._server.cursor(row_factory=dict_row).execute(sql.encode()).fetchall()

    def _do(self, sql: str, *given: Any) -> None:
        if self.kind == "sqlite":
            self._file.execute(sql, given)
        else:
            self._server.execute(sql.replace("?", "%s").encode(), given or None)

    def _end(self) -> None:
        if self.kind == "sqlite":
            self._file.commit()
        else:
            self._server.commit()

    _opened: Any = None

    @property
    def _file(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(self.path)
            self._opened.execute("PRAGMA synchronous = OFF")
        made: sqlite3.Connection = self._opened
        return made

    @property
    def _server(self) -> Any:
        import psycopg

        if self._opened is None:
            self._opened = psycopg.connect(self.url)
        return self._opened

    def close(self) -> None:
        """Let go of it."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


_TABLES = (("events", EVENTS, "trace, seq"), ("traces", TRACES, "trace"), ("log", LOG, "n"))
Open = Callable[[], Store]
