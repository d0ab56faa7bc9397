"""Traces in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from taograph.trace.stores.sql import SCHEMA, Execute, SqlStore

_FORM = "write sqlite:///path, with four slashes for an absolute path"
_BUSY_SECONDS = 30.0


class SqliteStore(SqlStore):
    """A store on a file that other processes may use, too.

    Args:
        connection: An open connection, free to be used from any thread.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        with self.transaction() as execute:
            for statement in SCHEMA:
                execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """As :meth:`SqlStore.transaction`."""

        def execute(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
            return self._connection.execute(sql, parameters).fetchall()

        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield execute
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()

    def close(self) -> None:
        """Close the connection; pages that were freed are given back."""
        with self._lock:
            try:
                self._connection.executescript("PRAGMA incremental_vacuum")
            finally:
                self._connection.close()


def open_sqlite(url: str) -> SqliteStore:
    """Open a file, or make it, for its owner only.

    Raises:
        ValueError: The URL is none, or the file is no database.
        OSError: The file can't be opened.
    """
    parts = urlsplit(url)
    if parts.netloc or not parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"trace: this is no URL of a file: {_FORM}")
    path = Path(unquote(parts.path[1:])).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
    try:
        # Before the first table, or it would need the file to be written anew. What is erased is overwritten.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        return SqliteStore(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if "not a database" in str(error):
            raise ValueError(f"trace: {path} is no SQLite database") from None
        raise OSError(f"trace: {path} can't be used: {error}") from error
