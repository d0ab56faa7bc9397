"""Traces in a SQLite file."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from taograph.trace.stores.files import identity
from taograph.trace.stores.sql import SCHEMA, TRACES, Execute, SqlStore

log = logging.getLogger("taograph.trace")

_FORM = "write sqlite:///path, with four slashes for an absolute path"
_BUSY_SECONDS = 30.0


class SqliteStore(SqlStore):
    """A store on a file that other processes may use, too.

    Args:
        path: The file.
        connection: An open connection to it, free to be used from any thread.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection, self._file = path, connection, identity(path)
        self._lock = threading.RLock()
        # A text that was tampered with may be none; it is to be named, not to end the reading.
        connection.text_factory = _decode

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """As :meth:`SqlStore.transaction`."""
        with self._lock:
            if identity(self._path) != self._file:  # SQLite would go on writing to what nobody finds any more
                raise OSError(f"trace: {self._path} was moved or deleted")
            with _within(self._connection, "BEGIN IMMEDIATE") as execute:
                yield execute

    @contextmanager
    def reading(self, *, whole: bool = False) -> Iterator[Execute]:
        """As :meth:`SqlStore.reading`."""
        if whole:  # it may take its time: a connection of its own
            with closing(_read(self._path)) as connection, _within(connection, "BEGIN") as execute:
                connection.text_factory = _decode
                yield execute
            return
        with self._lock, _within(self._connection, "BEGIN") as execute:
            yield execute

    def give_back(self) -> None:
        """Cut free pages off the file, and empty the log beside it, where what was erased would still be read."""
        with self._lock:
            try:
                self._connection.executescript("PRAGMA incremental_vacuum")  # execute would free one page of them
                is_busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError:
                is_busy = True
        if is_busy:
            log.warning(
                "%s is being read: what was erased stays in %s-wal until the next erasure or the end of its last user",
                self._path,
                self._path.name,
            )

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def open_sqlite(url: str, *, read_only: bool = False) -> SqliteStore:
    """Open a file, or make it, for its owner only.

    Raises:
        ValueError: The URL is none, or the file is no database.
        OSError: The file can't be opened.
    """
    path = _path(url)
    if not read_only:
        _make(path)
    elif not path.is_file():
        raise FileNotFoundError(f"trace: there is no {path}")
    try:
        connection = _read(path) if read_only else sqlite3.connect(path, **_OPTIONS)
        try:
            if not read_only:
                _set_up(connection)
            elif not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TRACES,)).fetchone():
                raise FileNotFoundError(f"trace: {path} holds no traces")
            return SqliteStore(path, connection)
        except BaseException:
            connection.close()
            raise
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise ValueError(f"trace: {path} is no SQLite database; name another file") from None
        raise OSError(f"trace: {path} can't be used: {error}") from error


_OPTIONS: dict[str, Any] = {"timeout": _BUSY_SECONDS, "check_same_thread": False, "isolation_level": None}


def _read(path: Path) -> sqlite3.Connection:
    """A connection that only reads."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    connection: sqlite3.Connection = sqlite3.connect(uri, uri=True, **_OPTIONS)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        connection.close()
        # Where nothing can be written beside it, as in an archive, SQLite can't share the file. Nobody changes it
        # there; but what a log beside it holds would not be seen.
        if os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists():
            raise
        connection = sqlite3.connect(f"{uri}&immutable=1", uri=True, **_OPTIONS)
    return connection


@contextmanager
def _within(connection: sqlite3.Connection, begin: str) -> Iterator[Execute]:
    def execute(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return connection.execute(sql, parameters).fetchall()

    connection.execute(begin)
    try:
        yield execute
        connection.commit()
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk may have ended it
            connection.rollback()
        raise


def _locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


@retry(retry=retry_if_exception(_locked), wait=wait_fixed(0.1), stop=stop_after_delay(_BUSY_SECONDS), reraise=True)
def _set_up(connection: sqlite3.Connection) -> None:
    """Make the tables. SQLite does not wait for another process that turns its log on at the same moment."""
    # Before the first table, or it would need the file to be written anew. What is erased is overwritten.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    with _within(connection, "BEGIN IMMEDIATE") as execute:
        for statement in SCHEMA:
            execute(statement)


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if (
        parts.netloc
        or not parts.path.strip("/")
        or parts.query
        or parts.fragment
        or url.startswith("sqlite:/") is False
    ):
        raise ValueError(f"trace: this is no URL of a file: {_FORM}")
    return Path(unquote(parts.path[1:])).expanduser()


def _make(path: Path) -> None:
    """Make a file that only its owner can read; SQLite gives those that it puts beside it the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise OSError(f"trace: {path} can't be made: {error.strerror or error}") from error


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")
