"""The index as a file: one SQLite database for each folder, with its full-text index.

Invariants: a connection lives for one call; every change is one ``BEGIN IMMEDIATE`` transaction, so two
processes may write at once and readers never see half a document; a database that is damaged or of another
version is put aside and begun anew, under a lock, because everything in it can be read from the files again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from taograph.folders import cache_folder
from taograph.tools.engines.passages import Passage

_APPLICATION = 0x7A0D0C5  # marks a file as ours, so that a foreign database is never emptied
_SCHEMA = 2
_WAIT_SECONDS = 30.0
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, title TEXT NOT NULL, pages INTEGER NOT NULL,
    size INTEGER NOT NULL, modified INTEGER NOT NULL, checked INTEGER NOT NULL, digest TEXT NOT NULL,
    problem TEXT NOT NULL, passing INTEGER NOT NULL
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES documents(id),
    page INTEGER NOT NULL, part INTEGER NOT NULL,
    title TEXT NOT NULL, heading TEXT NOT NULL, keywords TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX passages_by_document ON passages (document, page);
CREATE VIRTUAL TABLE words USING fts5(
    title, heading, keywords, text, content = 'passages', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER passage_added AFTER INSERT ON passages BEGIN
    INSERT INTO words (rowid, title, heading, keywords, text)
    VALUES (new.id, new.title, new.heading, new.keywords, new.text);
END;
CREATE TRIGGER passage_gone AFTER DELETE ON passages BEGIN
    INSERT INTO words (words, rowid, title, heading, keywords, text)
    VALUES ('delete', old.id, old.title, old.heading, old.keywords, old.text);
END;
"""


class DamagedIndex(Exception):  # noqa: N818 - reads as what it says
    """Raised when a call met a damaged database; it has been put aside, so index again and repeat the call."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what a document is known to be unchanged.

    Attributes:
        size: Bytes.
        modified: Time of the last change, in nanoseconds.
        checked: When that was looked at, in nanoseconds.
        digest: Hash of the content.
    """

    size: int
    modified: int
    checked: int
    digest: str


@dataclass(frozen=True, slots=True)
class Known:
    """A document of the index: its stamp and, where it could not be read, why."""

    stamp: Stamp
    problem: str
    passing: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A document to be put into the index. ``problem`` says why there are no passages."""

    name: str
    title: str
    stamp: Stamp
    passages: list[Passage]
    problem: str = ""
    passing: bool = False


def indexes_folder() -> Path:
    """The folder for indexes, below the user's cache folder."""
    return cache_folder() / "documents"


class Store:
    """A database of documents. Safe to use from any thread and any number of processes."""

    def __init__(self, path: Path) -> None:
        """Name the file; it is opened, and made where it is missing, when it is first used.

        Args:
            path: Where the database is.
        """
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the index throughout.

        Raises:
            DamagedIndex: The database is damaged.
        """
        with self._connected() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")

    def known(self) -> dict[str, Known]:
        """Every document of the index by its name."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT name, size, modified, checked, digest, problem, passing FROM documents"
            ).fetchall()
        return {row[0]: Known(Stamp(*row[1:5]), row[5], bool(row[6])) for row in rows}

    def about(self) -> str:
        """What :meth:`write` last noted of the whole index."""
        with self.reading() as connection:
            row = connection.execute("SELECT value FROM about WHERE key = 'about'").fetchone()
        return str(row[0]) if row else ""

    def write(
        self,
        entries: Iterable[Entry] = (),
        *,
        stamps: Mapping[str, Stamp] | None = None,
        gone: Iterable[str] = (),
        about: str | None = None,
    ) -> None:
        """Change the index, in one transaction.

        Args:
            entries: Documents that are new or have changed.
            stamps: New stamps of documents whose content is the same.
            gone: Names of documents that are no more.
            about: A note on the whole index.

        Raises:
            DamagedIndex: The database is damaged.
        """
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for name in gone:
                _empty(connection, name)
                connection.execute("DELETE FROM documents WHERE name = ?", (name,))
            for entry in entries:
                _put(connection, entry)
            for name, stamp in (stamps or {}).items():
                connection.execute(
                    "UPDATE documents SET size = ?, modified = ?, checked = ? WHERE name = ? AND digest = ?",
                    (stamp.size, stamp.modified, stamp.checked, name, stamp.digest),
                )
            if about is not None:
                connection.execute("INSERT OR REPLACE INTO about VALUES ('about', ?)", (about,))
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds what the files hold
            with closing(self._connect()) as connection:
                current = _version(connection) == (_APPLICATION, _SCHEMA)
                if current:
                    yield connection
            if not current:
                self._begin_anew()
                with closing(self._connect()) as connection:
                    yield connection
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise
            self._begin_anew()
            raise DamagedIndex(str(self.path)) from error

    def _connect(self) -> sqlite3.Connection:
        return _connect(self.path)

    def _begin_anew(self) -> None:
        """Make the database, or make it again; one process at a time, and only if it still has to be done."""
        with closing(_connect(self._beside(".lock"))) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            state = self._state()
            if state == "good":
                return
            if state != "new":
                for suffix in ("-wal", "-shm"):
                    self._beside(suffix).unlink(missing_ok=True)
            if state == "old":
                self.path.unlink()
            elif state == "damaged":  # kept under another name: a path given by hand may be some other file
                self.path.replace(self._beside(".damaged"))
            with closing(self._connect()) as connection:
                _create(connection)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _state(self) -> Literal["new", "good", "old", "damaged"]:
        try:
            with closing(self._connect()) as connection:
                application, schema = _version(connection)
                if application != _APPLICATION:
                    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                        raise ValueError(f"{self.path} is a database of something else: give another path")
                    return "new"
                if schema != _SCHEMA:
                    return "old"
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
                return "good" if verdict == "ok" else "damaged"
        except sqlite3.DatabaseError as error:
            if not _damaged(error):
                raise
            return "damaged"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last batch, never the file
    except sqlite3.Error:  # the file is read for it, and may be anything
        connection.close()
        raise
    return connection


def _damaged(error: sqlite3.DatabaseError) -> bool:
    # "malformed" and "not a database" are of this very class; what a retry or a person can mend is of others.
    return type(error) is sqlite3.DatabaseError


def _version(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    return application, schema


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(
        f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_SCHEMA}; COMMIT;"
    )


def _empty(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("DELETE FROM passages WHERE document = (SELECT id FROM documents WHERE name = ?)", (name,))


def _put(connection: sqlite3.Connection, entry: Entry) -> None:
    _empty(connection, entry.name)
    stamp = entry.stamp
    pages = entry.passages[-1].page if entry.passages else 0
    (document,) = connection.execute(
        "INSERT INTO documents (name, title, pages, size, modified, checked, digest, problem, passing) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET title = excluded.title, "
        "pages = excluded.pages, size = excluded.size, modified = excluded.modified, "
        "checked = excluded.checked, digest = excluded.digest, problem = excluded.problem, "
        "passing = excluded.passing RETURNING id",
        (entry.name, entry.title, pages, stamp.size, stamp.modified, stamp.checked, stamp.digest,
         entry.problem, entry.passing),
    ).fetchone()  # fmt: skip
    connection.executemany(
        "INSERT INTO passages (document, page, part, title, heading, keywords, text) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (document, piece.page, piece.part, entry.title, piece.heading, piece.keywords, piece.text)
            for piece in entry.passages
        ],
    )
