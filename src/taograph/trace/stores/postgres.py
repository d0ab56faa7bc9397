"""Traces on a PostgreSQL server.

What is erased is gone from the tables at once. The pages of the server's files, and its own logs and backups, may
hold it until it uses them again: ``VACUUM FULL`` writes the files anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import Connection, Error, IsolationLevel, OperationalError, errors, sql
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

from taograph.postgres_urls import cause, check_url, hide
from taograph.trace.stores.sql import ALONE, EVENTS, LOG, SCHEMA, TRACES, Execute, SqlStore

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

log = logging.getLogger("taograph.trace")

_CONNECTIONS = 4
_CONNECT_SECONDS = 10
_WAIT_SECONDS = 5.0
_SET_UP_SECONDS = 60.0


class PostgresStore(SqlStore):
    """A store on a pool of connections.

    Args:
        pool: An open pool.
        url: Where to: what it keeps secret is taken out of errors.
    """

    def __init__(self, pool: ConnectionPool[Connection[TupleRow]], url: str) -> None:
        self._pool, self._url = pool, url

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """As :meth:`SqlStore.transaction`."""
        with self._connection() as connection, connection.transaction():
            execute = _executing(connection)
            execute(ALONE)
            yield execute

    @contextmanager
    def reading(self, *, whole: bool = False) -> Iterator[Execute]:
        """As :meth:`SqlStore.reading`."""
        with self._connection() as connection, connection.transaction():
            level = IsolationLevel.REPEATABLE_READ if whole else IsolationLevel.READ_COMMITTED
            connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level.name.replace('_', ' ')} READ ONLY".encode())
            yield _executing(connection)

    @contextmanager
    def _connection(self) -> Iterator[Connection[TupleRow]]:
        """A connection, checked; what goes wrong is told without the URL."""
        try:
            with self._pool.connection() as connection:
                yield connection
                return
        except Error as error:
            problem = error.diag.message_primary or str(error).split("\n", 1)[0] or type(error).__name__
        # Beyond the handler, so that the driver's own error, which may show the URL, is not carried along.
        raise OSError(f"trace: the database failed: {hide(self._url, problem)}") from None

    def give_back(self) -> None:
        """Let the server use the space of deleted rows again."""
        try:
            with self._pool.connection() as connection:
                for name in (EVENTS, TRACES):
                    connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))
        except Error as error:  # it does so by itself, later
            log.info("the space of deleted rows is not free yet: %s", type(error).__name__)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


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
    pool: ConnectionPool[Connection[TupleRow]] = ConnectionPool(
        url,
        kwargs=options,
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=_WAIT_SECONDS,
        check=ConnectionPool.check_connection,
        name="taograph-trace",
        open=False,
    )
    problem = "it holds no traces"
    try:
        with Connection.connect(url, **options) as connection:  # one try, and its error: a pool would go on trying
            found = _found(connection)
            if not found and not read_only:
                _set_up(connection)
        if found or not read_only:
            pool.open(wait=True)
            return PostgresStore(pool, url)
    except OperationalError as error:
        why = cause(hide(url, str(error)))
        problem = f"the database can't be reached ({why}): see whether the URL is right and the server runs"
    except Error as error:
        why = hide(url, error.diag.message_primary or type(error).__name__)
        problem = f"the tables can't be made ({why}): GRANT CREATE on the schema, or let one who may run once"
    except BaseException:
        pool.close()
        raise
    pool.close()
    # Beyond the handlers, so that the driver's own error, which may show the URL, is not carried along.
    kind = FileNotFoundError if problem == "it holds no traces" else OSError
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
