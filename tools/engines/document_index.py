"""An index over documents: kept up to date with its source, searched and read.

``DocumentIndex.open(folder)`` is one over a folder of somebody's files; any other :class:`Source` will do.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

from taograph.tools.engines.document_search import Hit, find
from taograph.tools.engines.document_store import DamagedIndex, Store, indexes_folder

_T = TypeVar("_T")

_LONGEST_PAUSE = 2.0
"""Seconds for which a change in the folder may go unseen."""

OnFile = Callable[[str, int, int], None]
"""Called for each file that has to be read, before it is read: its name, which one it is, and of how many."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What bringing an index up to date found.

    Attributes:
        added: Documents that are new.
        updated: Documents whose content had changed.
        removed: Documents that are no longer there.
        unchanged: Documents that were left as they were.
        failed: Name and reason for each file that no text could be had from.
    """

    added: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    failed: tuple[tuple[str, str], ...] = ()


class Source(Protocol):
    """Where documents come from."""

    def update(self, store: Store, on_file: OnFile | None, *, retry: bool) -> IndexReport:
        """Bring a store in line with the source, and say what changed.

        Args:
            store: The index.
            on_file: Told of each document before it is read.
            retry: Whether to try once more what could not be read for want of a library or a permission.
        """
        ...


class IndexUnavailable(RuntimeError):  # noqa: N818 - reads as what it says
    """Raised when the index or the folder can't be used at all; the message says the fix."""


class UnknownDocument(LookupError):  # noqa: N818 - reads as what it says
    """Raised for a name that no document has.

    Attributes:
        closest: Names of documents that come near, the nearest first.
    """

    def __init__(self, name: str, closest: list[str]) -> None:
        """Say it."""
        super().__init__(f"no document {name!r}")
        self.closest = closest


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a document.

    Attributes:
        document: The name of the document.
        title: Its title.
        number: Which page it is, from 1.
        pages: How many there are.
        text: What stands on it, headings included.
    """

    document: str
    title: str
    number: int
    pages: int
    text: str


class DocumentIndex:
    """Documents that can be searched and read. Safe to share between threads and processes."""

    def __init__(self, store: Store, source: Source) -> None:
        """Join a store and a source.

        Args:
            store: Where the index is kept.
            source: Where the documents come from.
        """
        self.store = store
        self.source = source
        self._updating = threading.Lock()
        self._next_look = 0.0

    @classmethod
    def open(cls, folder: str | Path, database: str | Path | None = None) -> DocumentIndex:
        """An index over a folder. Nothing is read or written before it is used.

        Args:
            folder: The folder of documents.
            database: The file to keep the index in; one in the user's cache when absent.
        """
        from taograph.tools.engines.document_folder import FolderSource, database_name

        root = Path(folder).expanduser().resolve()
        path = Path(database).expanduser() if database else indexes_folder() / database_name(root)
        return cls(Store(path), FolderSource(root))

    def update(self, *, on_file: OnFile | None = None) -> IndexReport:
        """Bring the index up to date now.

        Args:
            on_file: Told of each file before it is read.

        Raises:
            IndexUnavailable: The folder is gone, or the index can't be written.
        """
        with self._updating:
            return self._update(on_file, retry=True)

    def _update(self, on_file: OnFile | None, *, retry: bool) -> IndexReport:
        with _explained(self.store):
            began = monotonic()
            try:
                report = self.source.update(self.store, on_file, retry=retry)
            except DamagedIndex:
                report = self.source.update(self.store, on_file, retry=retry)
            # Looking for changes costs a twentieth of the time at most; what takes long was mostly reading.
            self._next_look = monotonic() + min(20 * (monotonic() - began), _LONGEST_PAUSE)
        return report

    def refresh(self) -> None:
        """Bring the index up to date, unless that was done a moment ago."""
        if monotonic() < self._next_look:
            return
        with self._updating:
            if monotonic() >= self._next_look:  # or another thread has just done it
                self._update(None, retry=self._next_look == 0.0)

    def search(self, query: str, limit: int = 3) -> list[Hit]:
        """The best passages for a query, best first.

        Args:
            query: Any text.
            limit: Passages at most.
        """
        return self._call(lambda connection: find(connection, query, limit))

    def find(self, document: str, words: str, limit: int = 5) -> list[Hit]:
        """The best passages within one document.

        Args:
            document: Its name.
            words: What to look for.
            limit: Passages at most.

        Raises:
            UnknownDocument: No document has that name.
        """

        def look(connection: sqlite3.Connection) -> list[Hit]:
            name, _, _ = _named(connection, document)
            return find(connection, words, limit, document=name)

        return self._call(look)

    def page(self, document: str, number: int) -> Page:
        """A page of a document.

        Args:
            document: Its name; its title will do where only one document has it.
            number: The page, from 1. One that isn't there comes back without text.

        Raises:
            UnknownDocument: No document has that name.
        """

        def read(connection: sqlite3.Connection) -> Page:
            name, title, pages = _named(connection, document)
            rows = connection.execute(
                "SELECT p.heading, p.text FROM passages p JOIN documents d ON d.id = p.document "
                "WHERE d.name = ? AND p.page = ? ORDER BY p.id",
                (name, number),
            )
            parts: list[str] = []
            shown = ""
            for heading, text in rows:
                parts.append(f"## {heading}\n{text}" if heading and heading != shown else text)
                shown = heading
            return Page(name, title, number, pages, "\n\n".join(parts))

        return self._call(read)

    def empty(self) -> bool:
        """Whether no document has any text."""
        return self._call(lambda connection: connection.execute("SELECT 1 FROM passages LIMIT 1").fetchone() is None)

    def _call(self, read: Callable[[sqlite3.Connection], _T]) -> _T:
        self.refresh()
        with _explained(self.store):
            try:
                with self.store.reading() as connection:
                    return read(connection)
            except DamagedIndex:
                self.update()
                with self.store.reading() as connection:
                    return read(connection)


def index_folder(
    folder: str | Path, *, on_file: OnFile | None = None, database: str | Path | None = None
) -> IndexReport:
    """Bring the index of a folder up to date.

    Args:
        folder: The folder of documents.
        on_file: Called before each file that has to be read, with its name, its number and how many there are.
        database: The file to keep the index in; one in the user's cache when absent.

    Raises:
        IndexUnavailable: The folder isn't there, or the index can't be written.
    """
    return DocumentIndex.open(folder, database).update(on_file=on_file)


def _named(connection: sqlite3.Connection, document: str) -> tuple[str, str, int]:
    """Name, title and number of pages of a document.

    An exact name comes first; a name or title in other letters will do if it is the only one.
    """
    asked = document.strip()
    columns = "SELECT name, title, pages FROM documents WHERE pages > 0"
    exact = connection.execute(f"{columns} AND name = ?", (asked,)).fetchone()
    if exact:
        return exact[0], exact[1], exact[2]
    same = connection.execute(
        f"{columns} AND (lower(name) = lower(?1) OR lower(title) = lower(?1)) ORDER BY name LIMIT 3", (asked,)
    ).fetchall()
    if len(same) == 1:
        return same[0][0], same[0][1], same[0][2]
    near = [row[0] for row in same] or [hit.document for hit in find(connection, asked, 12)]
    raise UnknownDocument(document, list(dict.fromkeys(near))[:3])


@contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Say what to do about an index that can't be opened or written."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise IndexUnavailable(
            f"the index {store.path} can't be used ({error}): free some space there, or set TAOGRAPH_CACHE to a "
            "folder that can be written"
        ) from error
    except OSError as error:
        raise IndexUnavailable(
            f"the index {store.path} can't be written ({error.strerror or error}): set TAOGRAPH_CACHE to a folder "
            "that can be written"
        ) from error
