"""Checkpoints in a SQLite file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote, urlsplit

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.sqlite import SqliteSaver
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from taograph.checkpoints.encryption import make_serializer
from taograph.checkpoints.grouping import Grouping
from taograph.checkpoints.saver import Checkpoints, Execute, Stored, Table

T = TypeVar("T")

_FORM = "write sqlite:///path, with four slashes for an absolute path"
_BUSY_SECONDS = 30.0
_ROLLED_BACK = "the transaction was rolled back"


class SqliteCheckpoints(Checkpoints, SqliteSaver):
    """LangGraph's ``SqliteSaver`` on a file that other processes may use too.

    Args:
        connection: An open connection, free to be used from any thread.
        serde: How values are written.
    """

    tables: ClassVar = {
        "checkpoints": Table(
            ("checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"),
            large=("checkpoint", "metadata"),
        ),
        "writes": Table(
            ("checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel", "type", "value"),
            large=("value",),
        ),
    }
    size: ClassVar = "LENGTH"
    binary: ClassVar = "BLOB"
    alone: ClassVar = "SELECT 1"  # the transaction itself does

    workers: Grouping

    def __init__(self, connection: sqlite3.Connection, serde: SerializerProtocol) -> None:
        super().__init__(connection, serde=serde)
        self.made: set[str] = set()
        self.stored = Stored()
        self.workers = Grouping("taograph-checkpoints", self._group)

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """A transaction that keeps other writers out from its beginning; within one around several, a part of it."""

        def execute(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
            return self.conn.execute(sql, parameters).fetchall()

        with self._whole() if self.commits else self._part():
            yield execute

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """As LangGraph's; within a transaction around several writes, it is left to that to commit."""
        if self.commits:
            with super().cursor(transaction) as cursor:
                yield cursor
        else:
            with closing(self.conn.cursor()) as cursor:
                yield cursor

    @property
    def commits(self) -> bool:
        """As :class:`Checkpoints` has it."""
        return self.workers.together_in != get_ident()

    async def store(self, do: Callable[[], T]) -> T:
        """As :meth:`away`, for something that writes: perhaps with others in one transaction."""
        return await asyncio.shield(asyncio.wrap_future(self.workers.write(do)))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        with self.lock:
            self.setup()
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.conn.commit()
            except BaseException:
                self.conn.rollback()
                raise

    @contextmanager
    def _part(self) -> Iterator[None]:
        self.conn.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            self.conn.execute("ROLLBACK TO part")
            raise
        finally:
            self.conn.execute("RELEASE part")

    @contextmanager
    def _group(self) -> Iterator[Callable[[Callable[[], T]], T]]:
        lost = False  # SQLite itself rolls a transaction back where the disk is full, say

        def one(do: Callable[[], T]) -> T:
            nonlocal lost
            if lost:
                raise sqlite3.OperationalError(_ROLLED_BACK)
            self.conn.execute("SAVEPOINT one")
            try:
                return do()
            except BaseException:
                lost = not self._can("ROLLBACK TO one")
                raise
            finally:
                lost = not self._can("RELEASE one") or lost

        with self._whole():
            self.workers.together_in = get_ident()
            try:
                yield one
            finally:
                self.workers.together_in = None
            if lost:
                raise sqlite3.OperationalError(_ROLLED_BACK)

    def _can(self, sql: str) -> bool:
        try:
            self.conn.execute(sql)
        except sqlite3.OperationalError:
            return False
        return True

    def has_table(self, execute: Execute, name: str) -> bool:
        """Whether there is a table of this name."""
        return bool(execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name))

    def own_tables(self, execute: Execute) -> list[str]:
        """Names of taograph's own tables that have rows of threads."""
        found = execute(
            "SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c ON c.name = 'thread_id' "
            "WHERE t.type = 'table' AND t.name GLOB 'taograph_*'"
        )
        return [str(name) for (name,) in found]

    def give_back(self) -> None:
        """Cut free pages off the file, and empty the log beside it.

        A file that was not made here has to be written anew once for that; where another process is using it
        just then, it is left for the next time.
        """
        with self.lock, suppress(sqlite3.OperationalError):
            if self.conn.execute("PRAGMA auto_vacuum").fetchone() == (0,):
                self.conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
                self.conn.execute("VACUUM")
            self.conn.executescript("PRAGMA incremental_vacuum")  # execute would free one page of them
            self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Finish what is being stored, and close the connection."""
        self.workers.shutdown()
        with self.lock:
            self.conn.close()


def open_sqlite(url: str) -> SqliteCheckpoints:
    """Open a file, or make it.

    Raises:
        ValueError: The URL is none, the file is no database, or the key is none.
        OSError: The file can't be opened.
    """
    path = _path(url)
    serde = make_serializer()
    if path is not None:
        _make(path)
    try:
        connection = sqlite3.connect(path or ":memory:", timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            # Before the first table, or it would need the file to be written anew.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            connection.execute("PRAGMA synchronous = FULL")
            saver = SqliteCheckpoints(connection, serde)
            _set_up(saver)
        except BaseException:
            connection.close()
            raise
    except sqlite3.OperationalError as error:
        raise OSError(f"checkpoints: {path} can't be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"checkpoints: {path} is no SQLite database ({error}); name another file") from error
    return saver


def _locked(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


@retry(retry=retry_if_exception(_locked), wait=wait_fixed(0.1), stop=stop_after_delay(_BUSY_SECONDS), reraise=True)
def _set_up(saver: SqliteCheckpoints) -> None:
    """Make the tables. SQLite does not wait for another process that turns its log on at the same moment."""
    saver.setup()


def _path(url: str) -> Path | None:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"checkpoints: {url!r}: {_FORM}, and nothing behind it")
    path = unquote(parts.path)[1:]
    return None if path in ("", ":memory:") else Path(path)


def _make(path: Path) -> None:
    """Make a file that only its owner can read; SQLite gives those that it puts beside it the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise OSError(f"checkpoints: {path} can't be made: {error.strerror or error}") from error
