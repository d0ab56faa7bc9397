"""Deleting traces on time, and what was recorded of a person or of a thread on request.

Two things are done, and each leaves a tombstone: a record in the log with the number of the events and the hash of
the last one, by which the chain still verifies, and which says nothing of the content.

- **Purging**, when the date of a trace has come: all of it goes, its row and its events. What is left is the record.
- **Erasing**, on request or with its thread: content, salts, thread, user, run, graph and date go. The headers stay:
  when something happened, of what type, and that it is the whole sequence. What is still written to a trace that
  was erased while it ran has no content.

In SQLite, what is deleted is overwritten, freed pages are cut off the file, and the ``-wal`` beside it is emptied.
Where a reader keeps it from being emptied, that is said. In JSON lines, the file is written anew. PostgreSQL gives
the space to new rows (``VACUUM``); its files, its own logs and backups may hold what was deleted until then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

from taograph.trace.chain import Sealer, now
from taograph.trace.stores import Kept, Store, open_store
from taograph.trace.stores.sql import TRACES, Execute, erase_rows

# A trace that has no end and was written to in this time may still run.
_MAY_RUN = timedelta(days=1)


def purge(store: Store, *, today: date | None = None, dry_run: bool = True, key: bytes | None = None) -> list[Kept]:
    """Delete the traces whose date has come. One that still runs is left to the next time.

    Args:
        store: The store.
        today: The day to count from, in UTC; today if None.
        dry_run: Only say which; nothing is deleted.
        key: What the record is signed with.

    Returns:
        What was known of them.

    Raises:
        ValueError: The record is signed, and no key is given.
    """
    day = (today or datetime.now(UTC).date()).isoformat()
    due = [kept for kept in store.traces() if kept.delete_on is not None and kept.delete_on <= day and not _runs(kept)]
    if not dry_run:
        store.erase([kept.trace for kept in due], "purged", now(), Sealer(key))
    return due


def erase(
    store: Store,
    *,
    thread: str | None = None,
    user: str | None = None,
    run: str | None = None,
    dry_run: bool = True,
    key: bytes | None = None,
) -> list[Kept]:
    """Erase what was recorded of a thread, of a user or of a run; where several are given, of all of them together.

    It goes by what the traces are found by. What the texts of other traces say of a person is not found.

    Args:
        store: The store.
        thread: A thread.
        user: Who the runs were for.
        run: A run, with all calls that went on with it.
        dry_run: Only say which; nothing is erased.
        key: What the record is signed with.

    Returns:
        What was known of them.

    Raises:
        ValueError: None of the three is given; or the record is signed, and no key is.
    """
    if thread is None and user is None and run is None:
        raise ValueError("erase: say whose traces: thread=, user= or run=")
    found = store.traces(thread=thread, user=user, run=run)
    if not dry_run:
        store.erase([kept.trace for kept in found], "erased", now(), Sealer(key))
    return found


@contextmanager
def along() -> Iterator[Callable[[str], None]]:
    """What erases a thread's traces in the store that ``TAOGRAPH_TRACE`` names; nothing where it names none.

    The store is opened at the beginning: where it can't be, nothing has been deleted yet.

    Raises:
        ValueError: A variable can't be read.
        OSError: The store can't be used.
    """
    from taograph.trace.configured import WHERE, configuration

    named = configuration() if os.environ.get(WHERE) else None
    if named is None or not _is_there(named.url):
        yield lambda thread: None
        return
    store, key = open_store(named.url), named.settings.key

    def erase_of(thread: str) -> None:
        erase(store, thread=thread, dry_run=False, key=key)

    try:
        yield erase_of
    finally:
        store.close()


def erase_beside(execute: Execute, thread: str) -> None:
    """Erase a thread's traces in the database that it is in itself, in the transaction in which that is deleted.

    Args:
        execute: Runs a statement within the transaction; no other writer of traces is let in.
        thread: The thread.

    Raises:
        ValueError: The key that the record is signed with can't be read.
    """
    from taograph.trace.configured import key

    sealer = Sealer(key())
    for (trace,) in execute(f"SELECT trace FROM {TRACES} WHERE thread = ?", thread):  # noqa: S608 - a constant
        erase_rows(execute, trace, "erased", now(), sealer)


def _is_there(url: str) -> bool:
    try:
        open_store(url, read_only=True).close()
    except FileNotFoundError:
        return False
    return True


def _runs(kept: Kept) -> bool:
    return kept.is_open and kept.last > (datetime.now(UTC) - _MAY_RUN).isoformat()
