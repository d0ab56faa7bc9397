"""Where traces are kept: SQLite, PostgreSQL, or files of JSON lines.

To add a store, write one module here with a class that has the methods of :class:`Store`, and name its scheme in
:func:`open_store`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from taograph.trace.chain import Draft, Entry, LogKind, Record, Sealer


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store knows of a trace without reading it.

    Attributes:
        trace: Its id.
        thread: Its thread.
        user: Who it was for.
        run: The run that it belongs to.
        graph: The graph's name.
        started: Time of its first event: ISO 8601, UTC.
        last: Time of its last one.
        delete_on: Date from which on it is to be deleted, as 2026-12-31; None for never.
        count: Its events.
        head: Hash of the last one.
        is_open: Whether no end of it was recorded.
    """

    trace: str
    thread: str | None
    user: str | None
    run: str
    graph: str
    started: str
    last: str
    delete_on: str | None
    count: int
    head: str
    is_open: bool


class Store(Protocol):
    """Where traces are kept. Methods block; each is one transaction."""

    def append(self, drafts: Sequence[Draft], sealer: Sealer, *, delete_on: str | None = None) -> None:
        """Write events behind the last ones of their traces; a trace that is new is opened in the log.

        Args:
            drafts: The events, in their order.
            sealer: Makes the chain.
            delete_on: Date from which on a new trace is to be deleted.
        """

    def log(self, kind: LogKind, trace: str, time: str, sealer: Sealer) -> None:
        """Write down in the log what became of a trace."""

    def traces(self, *, thread: str | None = None, user: str | None = None, run: str | None = None) -> list[Kept]:
        """The traces, the oldest first."""

    def entries(self, trace: str) -> Iterator[Entry]:
        """The events of a trace, in the order in which they are stored."""

    def records(self) -> Iterator[Record]:
        """The log, in the order in which it is stored."""

    def erase(self, traces: Sequence[str], kind: LogKind, time: str, sealer: Sealer) -> None:
        """Erase the content of traces, with thread, user and salt; the headers stay, and the log says so.

        Args:
            traces: Their ids.
            kind: "erased" or "purged".
            time: When.
            sealer: Makes the chain of the log.
        """

    def close(self) -> None:
        """Finish, and let go of what is held."""


def open_store(url: str) -> Store:
    """Open a store, or make it.

    Args:
        url: ``sqlite:///path``, ``postgresql://…`` or ``jsonl:folder``.

    Raises:
        ValueError: The URL is none of these.
        OSError: It cannot be opened.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from taograph.trace.stores.sqlite import open_sqlite

        return open_sqlite(url)
    if scheme in ("postgresql", "postgres"):
        from taograph.trace.stores.postgres import open_postgres

        return open_postgres(url)
    if scheme == "jsonl":
        from taograph.trace.stores.jsonl import open_jsonl

        return open_jsonl(url)
    raise ValueError(
        "trace: where it is kept is written sqlite:///path, postgresql://user:password@host:port/database or "
        "jsonl:folder"
    )
