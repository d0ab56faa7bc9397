"""Traces on a PostgreSQL server.

What is erased is gone from the tables at once. The pages of the server's files, and its own logs and backups, may
hold it until it uses them again: ``VACUUM FULL`` writes the files anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, Error, OperationalError, errors, sql
from psycopg.rows import tuple_row
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

from taograph.postgres_urls import cause, check_url, hide
from taograph.trace.stores.sql import ALONE, EVENTS, LOG, SCHEMA, TRACES, Execute, SqlStore

log = logging.getLogger("taograph.trace")

_CONNECT_SECONDS = 10
_SET_UP_SECONDS = 60.0
_BUSY_SECONDS = 20

Opened = Connection[tuple[Any, ...]]


class PostgresStore(SqlStore):
    """A store on a server, over one connection that is made anew where it was lost.

    Args:
        connect: Makes a connection.
        connection: One that is open.
        url: Where to: what it keeps secret is taken out of errors.
    """

    def __init__(self, connect: Callable[[], Opened], connection: Opened, url: str) -> None:
        self._connect, self._connection, self._url = connect, connection, url
        self._lock = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """As :meth:`SqlStore.transaction`."""
        with self._lock, self._told(), self._begun(f"SET LOCAL lock_timeout = '{_BUSY_SECONDS}s'") as execute:
            execute(ALONE)
            yield execute

    @contextmanager
    def reading(self, *, whole: bool = False) -> Iterator[Execute]:
        """As :meth:`SqlStore.reading`."""
        if whole:  # it may take its time: a connection of its own
            with self._told(), self._connect() as connection, connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield _executing(connection)
            return
        with self._lock, self._told(), self._begun("SET TRANSACTION READ ONLY") as execute:
            yield execute

    @contextmanager
    def _begun(self, first: str) -> Iterator[Execute]:
        """A transaction that begins with a statement, on a connection that is looked at before."""
        try:
            self._connection.execute("SELECT 1")
        except OperationalError:  # the server may have been started anew since
            self._connection.close()
            self._connection = self._connect()
        with self._connection.transaction():
            execute = _executing(self._connection)
            execute(first)
            yield execute

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What goes wrong is told without the URL."""
        try:
            yield
            return
        except OperationalError as error:
            said = error.diag.message_primary
            problem = hide(self._url, said) if said else cause(hide(self._url, str(error)))
        except Error as error:
            problem = hide(self._url, error.diag.message_primary or type(error).__name__)
        # Beyond the handlers, so that the driver's own error, which may show the URL, is not carried along.
        raise OSError(f"trace: the database failed: {problem}") from None

    def give_back(self) -> None:
        """Let the server use the space of deleted rows again."""
        try:
            with self._lock:
                for name in (EVENTS, TRACES):
                    self._connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))
        except Error as error:  # it does so by itself, later
            log.info("the space of deleted rows is not free yet: %s", type(error).__name__)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def open_postgres(url: str, *, read_only: bool = False) -> PostgresStore:
    """Connect to a server, and make the tables where there are none.

    Raises:
        ValueError: The URL is none.
        OSError: The server can't be reached, or does not let this user in or make tables.
    """
    check_url(url)
    options: dict[str, Any] = {
        "autocommit": True,
        "row_factory": tuple_row,
        "prepare_threshold": None,  # a pooler between us may give each transaction another session
        "application_name": "taograph-trace",
    }
    if "connect_timeout" not in url:
        options["connect_timeout"] = _CONNECT_SECONDS
    if "tcp_user_timeout" not in url:  # or a network that swallows everything would hold it up for minutes
        options["tcp_user_timeout"] = 1000 * _BUSY_SECONDS

    def connect() -> Opened:
        return Connection.connect(url, **options)

    kind = OSError
    try:
        connection = connect()
        try:
            found = _found(connection)
            if not found and not read_only:
                _set_up(connection)
        except BaseException:
            connection.close()
            raise
        if found or not read_only:
            return PostgresStore(connect, connection, url)
        connection.close()
        kind, problem = FileNotFoundError, "the database holds no traces"
    except OperationalError as error:
        why = cause(hide(url, str(error)))
        problem = f"the database can't be reached ({why}): see whether the URL is right and the server runs"
    except Error as error:
        why = hide(url, error.diag.message_primary or type(error).__name__)
        problem = f"the tables can't be made ({why}): GRANT CREATE on the schema, or let one who may run once"
    # Beyond the handlers, so that the driver's own error, which may show the URL, is not carried along.
    raise kind(f"trace: {problem}")


def _executing(connection: Connection[Any]) -> Execute:
    cursor = connection.cursor(row_factory=tuple_row)

    def execute(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        cursor.execute(statement.replace("?", "%s").encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    return execute


def _found(connection: Connection[Any]) -> bool:
    """Whether the tables are there: a user who may not make any can work with them."""
    return connection.execute("SELECT to_regclass(%s), to_regclass(%s)", (TRACES, LOG)).fetchone() != (None, None)


def _of_two_at_once(error: BaseException) -> bool:
    """Whether another process was making the tables at the same moment."""
    kinds = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)
    return isinstance(error, (*kinds, errors.DeadlockDetected, errors.InternalError_))


@retry(
    retry=retry_if_exception(_of_two_at_once),
    wait=wait_random(0.05, 0.3),
    stop=stop_after_delay(_SET_UP_SECONDS),
    reraise=True,
)
def _set_up(connection: Connection[Any]) -> None:
    with connection.transaction():
        connection.execute(ALONE)
        for statement in SCHEMA:
            connection.execute(statement.encode())
