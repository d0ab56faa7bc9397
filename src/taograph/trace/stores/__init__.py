"""Where traces are kept: SQLite, PostgreSQL, or files of JSON lines.

To add a store, write one module here with a class that has the methods of :class:`Store`, and name its scheme in
:func:`open_store`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
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
        run: The run that its first event belongs to.
        graph: The graph's name.
        started: Time of its first event: ISO 8601, UTC.
        last: Time of its last one.
        delete_on: Date from which on it is to be deleted, as 2026-12-31; None for never.
        count: Its events.
        head: Hash of the last one.
        is_open: Whether no end of it was recorded.
        is_erased: Whether its content was erased: no thread, user, run, graph and date are known of it then.
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
    is_erased: bool = False


class Store(Protocol):
    """Where traces are kept. Methods block; what writes is one transaction, whatever becomes of the process."""

    def append(self, drafts: Sequence[Draft], sealer: Sealer, *, delete_on: str | None = None) -> None:
        """Write events behind the last ones of their traces.

        A trace that is new is opened in the log; one that has its ``run_ended`` is closed there. What comes after
        the content of a trace was erased is written without content.

        Args:
            drafts: The events, in their order.
            sealer: Makes the chain.
            delete_on: Date from which on a new trace is to be deleted: a part of what its first event says.

        Raises:
            ValueError: The log is signed, and the sealer has no key.
        """

    def traces(self, *, thread: str | None = None, user: str | None = None, run: str | None = None) -> list[Kept]:
        """The traces, the oldest first."""

    def ids(self) -> list[str]:
        """Ids of all traces that have events, known to the store or not."""

    def entries(self, trace: str) -> Iterator[Entry]:
        """The events of a trace, in the order in which they are stored.

        Content that is no JSON any more comes as ``{"unreadable": text}``.
        """

    def records(self) -> Iterator[Record]:
        """The log, in the order in which it is stored."""

    def snapshot(self) -> AbstractContextManager[Store]:
        """The store as it is at this moment, to be read while others write."""

    def erase(self, traces: Sequence[str], kind: LogKind, time: str, sealer: Sealer) -> None:
        """Erase traces, and give their space back; the log says so.

        Args:
            traces: Their ids.
            kind: "erased": content, salt, thread, user and whatever else tells something go, the headers stay;
                "purged": all of it goes, and the record in the log is what is left.
            time: When.
            sealer: Makes the chain of the log.

        Raises:
            ValueError: As :meth:`append`.
        """

    def close(self) -> None:
        """Finish, and let go of what is held."""


def open_store(url: str, *, read_only: bool = False) -> Store:
    """Open a store, or make it.

    Args:
        url: ``sqlite:///path``, ``postgresql://…`` or ``jsonl:folder``.
        read_only: Only to read: nothing is made, and a writer is not held up.

    Raises:
        ValueError: The URL is none of these, or a package is missing.
        OSError: It cannot be opened; with ``read_only``, there is none (:class:`FileNotFoundError`).
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from taograph.trace.stores.sqlite import open_sqlite

        return open_sqlite(url, read_only=read_only)
    if scheme in ("postgresql", "postgres"):
        try:
            from taograph.trace.stores.postgres import open_postgres
        except ImportError as error:
            raise ValueError(
                f"trace: what PostgreSQL needs is not installed ({error}): pip install 'taograph[postgres]'"
            ) from error
        return open_postgres(url, read_only=read_only)
    if scheme == "jsonl":
        from taograph.trace.stores.jsonl import open_jsonl

        return open_jsonl(url, read_only=read_only)
    raise ValueError(
        "trace: where it is kept is written sqlite:///path, postgresql://user:password@host:port/database or "
        "jsonl:folder"
    )
