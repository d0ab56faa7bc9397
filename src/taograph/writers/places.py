"""Where the threads of a checkpointer are kept, and so how far a run's hold on one has to reach.

- A file of SQLite (LangGraph's savers, or ``taograph.checkpoints``): :mod:`taograph.writers.files`.
- A PostgreSQL server (the same): :mod:`taograph.writers.postgres`.
- Memory, SQLite in memory, and savers that are not known here: within this process. For a saver of another kind of
  database that several processes share, that is less than the whole; there, say who may write by other means.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from langgraph.checkpoint.base import BaseCheckpointSaver

from taograph.writers.holders import Ask, Holder
from taograph.writers.steps import away

Saver = BaseCheckpointSaver[Any]


class ThreadLock(Protocol):
    """A run's hold on a thread that reaches beyond the process. Its methods block, and may be called from any thread.

    Attributes:
        holder: The run.
    """

    holder: Holder

    def take(self, *, wait: bool, ask: Ask | None) -> Holder | None:
        """Take the thread, if it is free and nobody has waited for it longer.

        Args:
            wait: Keep a place for the run that is not dropped as long as this is called every second.
            ask: What is asked of the run that has the thread.

        Returns:
            Who has it, or is to have it next; None where the run has it now.
        """
        ...

    def release(self) -> None:
        """Give up the thread, or the place in the line; also while it is being taken, and more than once."""
        ...

    def lost(self) -> str | None:
        """Why the thread is not held any more; None while it is."""
        ...


class Place(Protocol):
    """Where threads are kept that other processes use too.

    Attributes:
        key: The same for all savers of this process that keep their threads there.
    """

    key: tuple[Any, ...]

    def lock(self, thread: str, holder: Holder) -> ThreadLock:
        """A run's hold on a thread, not taken yet."""
        ...

    def look(self, locks: Sequence[ThreadLock]) -> dict[ThreadLock, Ask]:
        """What runs of other processes ask of those that have these locks; loses those that are not held any more."""
        ...

    def rest(self) -> None:
        """Nothing is held here any more: give up what is needed for that only."""
        ...


@dataclass(frozen=True)
class Kept:
    """What is known of a saver.

    Attributes:
        key: The same for all savers that keep their threads in the same place.
        place: The place, if other processes use it too.
        saver: What a run is to write with, if not with the saver itself.
    """

    key: tuple[Any, ...]
    place: Place | None = None
    saver: Saver | None = None


_KEPT: WeakKeyDictionary[Saver, Kept] = WeakKeyDictionary()
_SQLITE = ("langgraph.checkpoint.sqlite", "SqliteSaver")
_ASYNC_SQLITE = ("langgraph.checkpoint.sqlite.aio", "AsyncSqliteSaver")
_POSTGRES = (
    ("langgraph.checkpoint.postgres", "PostgresSaver"),
    ("langgraph.checkpoint.postgres.aio", "AsyncPostgresSaver"),
)


def known(saver: Saver) -> Kept | None:
    """Where the threads of a saver are kept, if that takes no work to find out."""
    found = _KEPT.get(saver)
    if found is None and not any(_is_a(saver, *kind) for kind in (_SQLITE, _ASYNC_SQLITE, *_POSTGRES)):
        found = _KEPT[saver] = _in_memory(saver)
    return found


def find(saver: Saver) -> Kept:
    """Where the threads of a saver are kept; not to be called on its event loop.

    Raises:
        OSError: The database can't be reached.
    """
    given: Any = saver
    if _is_a(saver, *_ASYNC_SQLITE):
        return asyncio.run_coroutine_threadsafe(afind(saver), given.loop).result()
    if _is_a(saver, *_SQLITE):
        with given.lock:
            rows = given.conn.execute("PRAGMA database_list").fetchall()
        found = _in_file(saver, rows)
    else:
        from taograph.writers.postgres import place_of

        place = place_of(given.conn)
        found = Kept(place.key, place, place.fenced(saver))
    return _KEPT.setdefault(saver, found)


async def afind(saver: Saver) -> Kept:
    """The twin of :func:`find` for the event loop."""
    given: Any = saver
    if not _is_a(saver, *_ASYNC_SQLITE):
        return await away(partial(find, saver))
    await given.setup()
    async with given.lock, given.conn.execute("PRAGMA database_list") as cursor:
        rows = await cursor.fetchall()
    return _KEPT.setdefault(saver, await away(partial(_in_file, saver, rows)))


def _in_memory(saver: Saver) -> Kept:
    # Savers are copied to be given another serializer; the storage of one in memory stays the same.
    return Kept(("memory", id(getattr(saver, "storage", saver))))


def _in_file(saver: Saver, databases: Sequence[tuple[Any, ...]]) -> Kept:
    from taograph.writers.files import FilesPlace

    path = next((row[2] for row in databases if row[1] == "main"), None)
    if not path:
        return _in_memory(saver)
    place = FilesPlace(Path(path).resolve())
    return Kept(place.key, place)


def _is_a(saver: Saver, module: str, name: str) -> bool:
    """Whether a saver is of a class that may not be installed; then nothing is imported to find it out."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(saver, kind)
