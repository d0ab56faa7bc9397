"""Reading a PostgreSQL database, and nothing else.

What keeps it so: each query runs in a transaction that the server holds to be read-only, and that is rolled
back; it is sent as a part of a ``SELECT … FROM (query)``, where the server's grammar takes a query and nothing
that changes data; and it may call only functions that the server itself lists as free of effects
(``pg_proc.provolatile``), so not ``pg_read_file``, ``lo_export``, ``nextval``, ``set_config`` or ``dblink``.
A role that may only read is still the better part: what it cannot see, no query can.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import RawCursor

from taograph.postgres_urls import cause, hide
from taograph.tools.engines.sql_base import CELL_CHARS, MAX_COLUMNS, NARROWER, Rows, SqlError, Table
from taograph.tools.engines.sql_postgres_schema import read_tables
from taograph.tools.engines.sql_statement import Statement, read_statement

log = logging.getLogger("taograph.tools")

_CONNECT_SECONDS = 5
_LOCK_SECONDS = 3.0
_GRACE_SECONDS = 3.0
"""How much longer than its own limits a server may be silent before the line is cut."""

# Listed as having effects, because their result is another one each time. "system" and "bernoulli" are samples.
_HARMLESS = (
    *("random", "random_normal", "gen_random_uuid", "uuidv4", "uuidv7", "clock_timestamp", "timeofday"),
    *("array_sample", "array_shuffle", "system", "bernoulli", "current_query", "pg_is_in_recovery"),
    *("pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_database_size"),
    *("pg_partition_tree", "pg_partition_ancestors"),
)
_WITH_EFFECTS = """
    SELECT DISTINCT quote_ident(n.nspname) || '.' || quote_ident(p.proname), n.nspname = 'pg_catalog', p.proname
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE p.provolatile = 'v' AND (
        EXISTS (SELECT 1 FROM unnest($1::text[], $2::text[]) AS called(schema, name) WHERE called.name = p.proname
            AND CASE WHEN called.schema = '' THEN pg_function_is_visible(p.oid) ELSE called.schema = n.nspname END)
        OR p.proname = ANY($3::text[]) AND p.pronargs = 1 AND EXISTS (
            SELECT 1 FROM pg_catalog.pg_type t WHERE t.oid = p.proargtypes[0] AND t.typtype IN ('c', 'd', 'p')))
"""


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """A database of a server.

    Attributes:
        url: Where it is and who asks; it may hold a password, so it is never shown.
        max_rows: Rows of a result at most.
        seconds: Seconds a query may take.
        allowed: Functions that may be called though the server lists them as having effects, with their schema.
    """

    url: str = field(repr=False)
    max_rows: int
    seconds: float
    allowed: Collection[str] = ()

    @property
    def kind(self) -> str:
        """The name of the dialect."""
        return "PostgreSQL"

    def query(self, sql: str) -> Rows:
        """Run one query.

        Raises:
            SqlError: It was refused or failed.
        """
        statement = read_statement(sql)
        with self._opened() as cursor:
            self._check_functions(cursor, statement)
            inner = f"({statement.sql}\n) AS q"  # the line ends a comment that the query may end in
            # The parameter has the server take the text as one statement, in its extended protocol.
            cursor.execute(f"SELECT * FROM {inner} LIMIT $1", [0])  # noqa: S608 - running queries is its purpose
            columns = [column.name for column in cursor.description or ()]
            if len(columns) > MAX_COLUMNS:
                raise SqlError(f"The result has {len(columns)} columns: name the ones you need, {MAX_COLUMNS} at most.")
            if not columns:
                raise SqlError("The query has no columns. Name at least one.")
            names = [f"c{number}" for number in range(len(columns))]
            # Cut by the server, so that a huge value is neither sent nor held here.
            cells = ", ".join(f"left({name}::text, {CELL_CHARS + 1})" for name in names)
            wrapped = f"SELECT {cells} FROM {inner}({', '.join(names)}) LIMIT $1"  # noqa: S608 - likewise
            rows = cursor.execute(wrapped, [self.max_rows + 1]).fetchall()
        return Rows(columns, rows[: self.max_rows], more=len(rows) > self.max_rows)

    def tables(self, wanted: str = "") -> list[Table]:
        """All tables and views in brief, or those that a name or a pattern with ``*`` means in full.

        Raises:
            SqlError: The database can't be read.
        """
        with self._opened() as cursor:
            return read_tables(cursor, wanted)

    def _check_functions(self, cursor: RawCursor[Any], statement: Statement) -> None:
        if not statement.calls and not statement.attributes:
            return
        calls = sorted((schema or "", name) for schema, name in statement.calls)
        found = cursor.execute(
            _WITH_EFFECTS, [[s for s, _ in calls], [name for _, name in calls], sorted(statement.attributes)]
        ).fetchall()
        for written, built_in, name in found:
            if not (built_in and name in _HARMLESS) and written not in self.allowed:
                shown = name if built_in else written
                raise SqlError(
                    f"The function {shown} is refused, since it may have effects. Write the query without it."
                )

    @contextmanager
    def _opened(self) -> Iterator[RawCursor[Any]]:
        """A cursor in a transaction that can only read, and is always rolled back."""
        connection = self._connect()
        try:
            with _hung_up(connection, 2 * self.seconds + _GRACE_SECONDS) as hung_up:
                try:
                    cursor = RawCursor(connection)
                    _set(cursor, self.seconds)
                    yield cursor
                except psycopg.Error as error:
                    problem = self._told(error, cut=hung_up.is_set())
                else:
                    problem = ""
                finally:
                    with suppress(psycopg.Error):
                        connection.rollback()
        finally:
            connection.close()
        if problem:
            raise SqlError(problem)

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(
                self.url,
                connect_timeout=_CONNECT_SECONDS,
                application_name="taograph",
                client_encoding="utf8",
                prepare_threshold=None,  # a pooler between us may give each transaction another session
            )
            connection.read_only = True
            return connection
        except psycopg.Error as error:
            problem = hide(self.url, str(error))
        # Beyond the handler, so that the driver's own error is not carried along.
        log.warning("the database can't be reached: %s", problem)
        raise SqlError(f"The database can't be reached now ({cause(problem)}). Go on without it.")

    def _told(self, error: psycopg.Error, *, cut: bool) -> str:
        """An error of the server, in words for the model."""
        if cut or isinstance(error, psycopg.errors.QueryCanceled):
            return f"The query took longer than {self.seconds:g} s and was ended. {NARROWER}"
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return "A table is locked by somebody who is changing it. Try again in a moment."
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            return f"{error.diag.message_primary}: the database can only be read. Write one query: SELECT."
        said = [error.diag.message_primary, error.diag.message_detail, error.diag.message_hint]
        told = ". ".join(part.rstrip(".") for part in said if part)
        if not told:
            log.warning("a query failed: %s", hide(self.url, str(error)))
            return "The connection to the database was lost. Try again, or go on without it."
        if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
            told += ". sql_schema tells tables and columns"
        return f"{hide(self.url, told)}."


def _set(cursor: RawCursor[Any], seconds: float) -> None:
    settings = {
        "transaction_read_only": "on",  # it is so already; where a pooler lost it, this says it again
        "statement_timeout": str(max(1, round(seconds * 1000))),
        "lock_timeout": str(round(min(_LOCK_SECONDS, seconds) * 1000)),
        "idle_in_transaction_session_timeout": str(round((2 * seconds + 2 * _GRACE_SECONDS) * 1000)),
        "standard_conforming_strings": "on",  # texts are read as this package reads them
        "datestyle": "ISO",
        "intervalstyle": "postgres",
        "bytea_output": "hex",
    }
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    cursor.execute(f"SELECT {calls}")


@contextmanager
def _hung_up(connection: psycopg.Connection[Any], seconds: float) -> Iterator[threading.Event]:
    """Cut the line to a server that is silent for longer than all its time limits: then a read of it fails."""
    cut = threading.Event()

    def hang_up() -> None:
        cut.set()
        with suppress(OSError, psycopg.Error):
            line = socket.socket(fileno=connection.fileno())
            try:
                line.shutdown(socket.SHUT_RDWR)
            finally:
                line.detach()  # it is the connection's to close

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield cut
    finally:
        timer.cancel()
        timer.join()  # so that it never cuts the line of another connection with the same number
