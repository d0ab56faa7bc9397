"""Threads on a PostgreSQL server: an advisory lock for each that has a run, and a row that says which.

All locks of this process on a database are held by one connection, apart from the saver's own. The server lets go
of them when that connection ends: with the process, or with the network (within about 30 seconds). So a run whose
connection was lost may have lost its thread. It is noticed a few times a second, and looked at before each write:
then the run ends with ``ThreadLostError``.

The table ``taograph_writers`` has a row for each run that has a thread or waits for one, in the first schema of the
search path, as the checkpoints. It is not logged: after a crash of the server there are no runs.

A pooler in between has to be in session mode; one in transaction mode holds no lock, which is noticed, and refused.
"""

from __future__ import annotations

import atexit
import inspect
import os
import selectors
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from taograph.background import run_async
from taograph.postgres_urls import cause, hide
from taograph.writers.holders import UNKNOWN, Ask, Holder
from taograph.writers.places import ThreadLock

if TYPE_CHECKING:
    from psycopg import Connection

_CONFIRMED_SECONDS = 2.0
_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 12_000,
    "application_name": "taograph-writers",
}

# What tells one database, as one user sees it, from another.
_NAMES = ("host", "hostaddr", "port", "dbname", "user", "options", "service")

_MAKE = (
    "CREATE UNLOGGED TABLE IF NOT EXISTS taograph_writers ("
    "run text PRIMARY KEY, thread_id text NOT NULL, pid integer NOT NULL, host text NOT NULL, "
    "since double precision NOT NULL, number bigserial, holds boolean NOT NULL, "
    "seen timestamptz NOT NULL DEFAULT clock_timestamp(), asked text, asked_by text)",
    "CREATE INDEX IF NOT EXISTS taograph_writers_thread_id ON taograph_writers (thread_id)",
)
# Rows come and go: scans of another kind would go through those that are gone until the next vacuum.
_SET_UP = ("SET enable_seqscan = off", "SET enable_bitmapscan = off")
# The lock is tried only where nobody has waited longer; rows of holders that have died go when it is taken.
_TAKE = """
WITH got AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (
        SELECT 1 FROM taograph_writers w WHERE w.thread_id = %(thread)s AND NOT w.holds AND w.run <> %(run)s
        AND w.seen > clock_timestamp() - interval '2 seconds'
        AND (%(number)s::bigint IS NULL OR w.number < %(number)s::bigint)
    ) THEN false ELSE pg_try_advisory_lock(%(key)s) END AS ok
), dead AS (
    DELETE FROM taograph_writers WHERE thread_id = %(thread)s AND run <> %(run)s AND (SELECT ok FROM got)
    AND (holds OR seen < clock_timestamp() - interval '1 minute')
), mine AS (
    INSERT INTO taograph_writers (run, thread_id, pid, host, since, holds)
    SELECT %(run)s, %(thread)s, %(pid)s, %(host)s, %(since)s, true FROM got WHERE ok
    ON CONFLICT (run) DO UPDATE SET holds = true
)
SELECT pg_backend_pid(), ok FROM got
"""
_WAIT = """
INSERT INTO taograph_writers (run, thread_id, pid, host, since, holds)
VALUES (%(run)s, %(thread)s, %(pid)s, %(host)s, %(since)s, false)
ON CONFLICT (run) DO UPDATE SET seen = clock_timestamp() RETURNING number
"""
_OTHER = """
SELECT run, pid, host, since FROM taograph_writers WHERE thread_id = %(thread)s AND run <> %(run)s
AND (holds OR seen > clock_timestamp() - interval '2 seconds') ORDER BY holds DESC, number LIMIT 1
"""
_ASK = """
UPDATE taograph_writers SET asked = %(how)s, asked_by = %(by)s WHERE run = %(other)s AND asked IS NULL
"""
_LOOK = "SELECT run, asked, asked_by FROM taograph_writers WHERE run = ANY(%(runs)s) AND holds AND asked IS NOT NULL"
_RELEASE = """
WITH gone AS (DELETE FROM taograph_writers WHERE run = %(run)s)
SELECT CASE WHEN %(held)s THEN pg_advisory_unlock(%(key)s) END
"""


class PostgresPlace:
    """The threads in a database of a PostgreSQL server.

    Args:
        key: What this process knows it by.
        conninfo: How to connect to it.
        options: The same, by name.
    """

    def __init__(self, key: tuple[Any, ...], conninfo: str, options: dict[str, Any]) -> None:
        self.key = key
        self._conninfo = conninfo
        self._options = options
        self.mutex = threading.RLock()
        self.held: set[PostgresThreadLock] = set()
        self._connection: Connection[tuple[Any, ...]] | None = None
        self._backend = 0
        self._schema = ""
        self._confirmed = 0.0
        _PLACES.add(self)

    def lock(self, thread: str, holder: Holder) -> PostgresThreadLock:
        """A run's hold on a thread, not taken yet."""
        return PostgresThreadLock(self, thread, holder)

    def look(self, locks: Sequence[ThreadLock]) -> dict[ThreadLock, Ask]:
        """What other runs ask of those that have these locks; also finds out whether the connection is still there."""
        by_run = {lock.holder.run: lock for lock in locks if lock.lost() is None}
        if not by_run:
            return {}
        try:
            with self.mutex:
                if self._connection is None:
                    return {}
                rows = self.execute(_LOOK, {"runs": [*by_run]})
        except OSError:  # then they are lost, which the locks say
            return {}
        return {by_run[run]: Ask(how, by) for run, how, by in rows if run in by_run}

    def rest(self) -> None:
        """Close the connection if it holds nothing."""
        with self.mutex:
            if not self.held:
                self._drop("it was closed")

    def key_of(self, thread: str) -> int:
        """What the server knows a thread's lock by."""
        with self.mutex:
            self._connect()
            digest = sha256(f"taograph\0{self._schema}\0{thread}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], signed=True)

    def execute(self, sql: str, values: dict[str, Any], *, again: bool = False) -> list[tuple[Any, ...]]:
        """Do something on the connection that holds the locks.

        Args:
            sql: What.
            values: With what.
            again: Try again on a new connection, since the old one may have ended while nothing was done on it.

        Raises:
            OSError: It is lost, or there can be none.
            ValueError: It leads through a pooler that can hold no lock.
        """
        from psycopg import Error, OperationalError, errors

        with self.mutex:
            self._connect()
            connection = self._connection
            assert connection is not None  # noqa: S101
            try:
                cursor = connection.execute(sql.encode(), values)
                rows = cursor.fetchall() if cursor.description else []
            except (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement):
                raise self.no_session() from None
            except OperationalError as error:
                why = f"the connection that held its lock ended ({cause(str(error))})"
            except Error as error:
                if not connection.closed and not connection.broken:
                    raise OSError(f"the thread can't be locked: {type(error).__name__}: {error}") from None
                why = "the connection that held its lock ended"
            else:
                self._confirmed = time.monotonic()
                return rows
            self._drop(why)
            if again:
                return self.execute(sql, values)
        raise OSError(f"the thread can't be locked: {why}")

    def confirmed(self) -> bool:
        """Whether nothing speaks against the connection still being there. Does not block."""
        connection = self._connection
        if connection is None or time.monotonic() - self._confirmed > _CONFIRMED_SECONDS:
            return False
        try:
            # Idle as it is, there is something to be read only where the server says good-bye.
            with selectors.DefaultSelector() as selector:
                selector.register(connection.fileno(), selectors.EVENT_READ)
                return not selector.select(0)
        except Exception:  # noqa: BLE001 - closed in this very moment, in one way or another
            return False

    def confirm(self) -> None:
        """Find out whether the connection is still there; if not, what it held is lost."""
        with self.mutex, suppress(OSError):
            if self._connection is not None:
                self.execute("SELECT 1", {})

    def is_same_session(self, backend: int) -> bool:
        """Whether the server knows this place's connection as it did when it was made."""
        return backend == self._backend

    def no_session(self) -> ValueError:
        """Give up a connection through a pooler that gives each transaction another session."""
        self._drop("the sessions of the database change")
        return ValueError(
            "the database is reached through a pooler in transaction mode, which can't hold a lock on a thread: "
            "name the server itself in the URL, or a pooler in session mode"
        )

    def fenced(self, saver: Any) -> Any:
        """A saver that writes only as long as the run that writes has its thread."""
        from taograph.writers.fence import fenced

        return fenced(saver, self)

    def _connect(self) -> None:
        if self._connection is not None:
            if not self._connection.closed:
                return
            self._drop("the connection that held its lock ended")
        from psycopg import Connection, Error, errors
        from psycopg.rows import tuple_row

        try:
            connection = Connection.connect(
                self._conninfo, autocommit=True, prepare_threshold=0, row_factory=tuple_row, **self._options
            )
        except Error as error:
            why = cause(hide(self._conninfo, str(error)))
            raise OSError(f"the thread can't be locked: the database can't be reached ({why})") from None
        try:
            for statement in _SET_UP:
                connection.execute(statement)
            found = connection.execute(
                "SELECT current_schema(), to_regclass('taograph_writers') IS NOT NULL, pg_backend_pid()"
            ).fetchone()
            assert found is not None  # noqa: S101
            if not found[1]:
                # Two processes that make it at the same moment: one is told that it is there.
                with suppress(errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject):
                    for statement in _MAKE:
                        connection.execute(statement)
        except Error as error:
            connection.close()
            raise OSError(
                "the thread can't be locked: the table taograph_writers can't be made "
                f"({error.diag.message_primary or type(error).__name__}): GRANT CREATE on the schema, or let one "
                "who may make it run once"
            ) from None
        self._connection, self._schema, self._backend = connection, str(found[0]), int(found[2])
        self._confirmed = time.monotonic()

    def _drop(self, why: str) -> None:
        """Close the connection: what it held is lost."""
        connection, self._connection = self._connection, None
        for lock in self.held:
            lock.lose(why)
        self.held.clear()
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def close(self) -> None:
        """At the end of the process."""
        with self.mutex:
            self._drop("the process ends")

    def forget(self) -> None:
        """In a process that was forked: the connection is the parent's, and must not be ended here.

        Only this process's share in it is closed, without a word to the server, or that would not notice when the
        parent dies.
        """
        if self._connection is not None:
            with suppress(Exception):
                os.close(self._connection.fileno())
            _KEPT.append(self._connection)
        self._connection = None
        self.mutex = threading.RLock()
        self.held = set()


class PostgresThreadLock:
    """A run's hold on a thread, as an advisory lock.

    Args:
        place: Where the thread is.
        thread: Its id.
        holder: The run.
    """

    def __init__(self, place: PostgresPlace, thread: str, holder: Holder) -> None:
        self.holder = holder
        self.held = False
        self.place = place
        self._thread = thread.replace("\0", "").encode("utf-8", "replace").decode()
        self._number: int | None = None
        self._lost: str | None = None
        self._over = False
        self._unsure = False
        self._mutex = threading.Lock()

    def take(self, *, wait: bool, ask: Ask | None) -> Holder | None:
        """Take the thread, if it is free and nobody has waited for it longer.

        Raises:
            OSError: The server can't be reached, or lets this user make no table.
            ValueError: A pooler is in between that can hold no lock.
        """
        with self._mutex:
            if self._over:
                return self.holder
            values = self._values()
            if self._try(values):
                return None
            if wait:
                ((self._number,),) = self.place.execute(_WAIT, values, again=True)
            found = self.place.execute(_OTHER, values, again=True)
            other = Holder(*found[0]) if found else UNKNOWN
            if ask is not None and other is not UNKNOWN:
                self.place.execute(_ASK, {"how": ask.how, "by": ask.by, "other": other.run}, again=True)
            return other

    def _try(self, values: dict[str, Any]) -> bool:
        with self.place.mutex:
            self._unsure = True  # until the server has answered
            ((backend, held),) = self.place.execute(_TAKE, values, again=True)
            if not self.place.is_same_session(backend):
                raise self.place.no_session()
            self._unsure, self.held = False, held
            if held:
                self.place.held.add(self)
        return self.held

    def release(self) -> None:
        """Give up the thread, or the place in the line."""
        with self._mutex:
            if self._over:
                return
            self._over = True
            held = (self.held and self._lost is None) or self._unsure
            if held or self._number is not None:
                with suppress(OSError), self.place.mutex:  # OSError: the server lets go of it by itself
                    self.place.held.discard(self)
                    self.place.execute(_RELEASE, {**self._values(), "held": held})
            self.held = False

    def lost(self) -> str | None:
        """Why the thread is not held any more; None while it is."""
        return self._lost

    def lose(self, why: str) -> None:
        """The connection that held it is gone."""
        self._lost = self._lost or why

    def _values(self) -> dict[str, Any]:
        return {
            **self.holder.to_dict(),
            "thread": self._thread,
            "number": self._number,
            "key": self.place.key_of(self._thread),
        }


_PLACES: WeakSet[PostgresPlace] = WeakSet()
_BY_KEY: dict[tuple[Any, ...], PostgresPlace] = {}
_KEPT: list[Any] = []


def place_of(source: Any) -> PostgresPlace:
    """The place that a saver's connection or pool leads to.

    Args:
        source: A connection or a pool of psycopg, sync or async.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    if hasattr(source, "conninfo"):  # a pool
        conninfo = source.conninfo() if callable(source.conninfo) else source.conninfo
        if inspect.isawaitable(conninfo):
            conninfo = run_async(cast("Any", conninfo))
        given = dict(source.kwargs or {})
    else:
        conninfo, given = make_conninfo(source.info.dsn, password=source.info.password or None), {}
    own = ("autocommit", "row_factory", "prepare_threshold", "cursor_factory", "context", *_OPTIONS)
    options = {name: value for name, value in given.items() if name not in own}
    named = conninfo_to_dict(conninfo or "", **options)
    key = ("postgres", *(str(named.get(name)) for name in _NAMES))
    place = _BY_KEY.get(key)
    if place is None:
        place = _BY_KEY.setdefault(key, PostgresPlace(key, conninfo or "", {**_OPTIONS, **options}))
    return place


def _forget_all() -> None:
    for place in list(_PLACES):
        place.forget()


@atexit.register
def _close_all() -> None:
    for place in list(_PLACES):
        place.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
