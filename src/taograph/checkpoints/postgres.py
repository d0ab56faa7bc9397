"""Checkpoints on a PostgreSQL server."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from tenacity import retry, retry_if_exception, stop_after_delay, wait_random

from taograph.checkpoints.encryption import encrypts, is_plain_text, make_serializer, seal, unseal
from taograph.checkpoints.saver import Checkpoints, Execute, Stored, Table
from taograph.postgres_urls import cause, check_url, hide
from taograph.trace.stores.sql import ALONE

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.rows import DictRow
    from psycopg_pool import ConnectionPool

log = logging.getLogger("taograph.checkpoints")

_CONNECTIONS = 10
_CONNECT_SECONDS = 10
_WAIT_SECONDS = 30.0
_SET_UP_SECONDS = 60.0


class PostgresCheckpoints(Checkpoints, PostgresSaver):
    """LangGraph's ``PostgresSaver`` on a pool: each operation has a connection of its own.

    Args:
        pool: An open pool.
        serde: How values are written.
    """

    tables: ClassVar = {
        "checkpoints": Table(
            ("checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"),
            large=("checkpoint", "metadata"),
        ),
        "checkpoint_blobs": Table(("checkpoint_ns", "channel", "version", "type", "blob"), large=("blob",)),
        "checkpoint_writes": Table(
            ("checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel", "type", "blob"),
            large=("blob",),
        ),
    }
    size: ClassVar = "pg_column_size"
    binary: ClassVar = "BYTEA"
    alone: ClassVar = ALONE

    def __init__(self, pool: ConnectionPool[Connection[DictRow]], serde: SerializerProtocol) -> None:
        super().__init__(pool, serde=serde)
        self._pool = pool
        self.workers = ThreadPoolExecutor(_CONNECTIONS, "taograph-checkpoints")
        self.made: set[str] = set()
        self.stored = Stored()

    @contextmanager
    def _cursor(self, *, pipeline: bool = False) -> Iterator[Cursor[DictRow]]:
        """A cursor on a connection of the pool. LangGraph's own lets one thread at a time have one."""
        from psycopg.rows import dict_row

        with self._pool.connection() as connection:
            together = connection.pipeline() if self.supports_pipeline else connection.transaction()
            if not pipeline:
                with connection.cursor(binary=True, row_factory=dict_row) as cursor:
                    yield cursor
            else:
                with together, connection.cursor(binary=True, row_factory=dict_row) as cursor:
                    yield cursor

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As LangGraph's, with the short values sealed that would stand in the column of JSON.

        All of them where there is a key; and texts that no such column takes.
        """
        values = {name: self._inline(value) for name, value in checkpoint["channel_values"].items()}
        return super().put(config, {**checkpoint, "channel_values": values}, metadata, new_versions)

    def _inline(self, value: Any) -> Any:
        short = isinstance(value, str | int | float)
        if short and (encrypts(self.serde) or (isinstance(value, str) and not is_plain_text(value))):
            return seal(self.serde, value)
        return value

    def _opened(self, found: CheckpointTuple) -> CheckpointTuple:
        found = super()._opened(found)
        values = {name: unseal(self.serde, value) for name, value in found.checkpoint["channel_values"].items()}
        return found._replace(checkpoint={**found.checkpoint, "channel_values": values})

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """A transaction."""
        from psycopg.rows import tuple_row

        with self._pool.connection() as connection, connection.transaction():
            cursor = connection.cursor(row_factory=tuple_row)

            def execute(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
                cursor.execute(sql.replace("?", "%s").encode(), parameters)
                return cursor.fetchall() if cursor.description else []

            yield execute

    def has_table(self, execute: Execute, name: str) -> bool:
        """Whether there is a table of this name."""
        return execute("SELECT to_regclass(?)", name) != [(None,)]

    def own_tables(self, execute: Execute) -> list[str]:
        """Names of taograph's own tables that have rows of threads, in the schema where they are made.

        Which run has a thread is no part of it.
        """
        found = execute(
            "SELECT table_name FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND starts_with(table_name, 'taograph_') AND column_name = 'thread_id' "
            "AND table_name <> 'taograph_writers'"
        )
        return [str(name) for (name,) in found]

    def drop_values(self, execute: Execute, thread: str) -> None:
        """Delete values that no checkpoint of a thread has any more."""
        execute(
            "DELETE FROM checkpoint_blobs b WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM checkpoints c "
            "WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns "
            "AND c.checkpoint -> 'channel_versions' ->> b.channel = b.version)",
            thread,
        )

    def give_back(self) -> None:
        """Let the server use the space of deleted rows again; its files do not become smaller by that."""
        from psycopg import Error, sql

        try:
            with self._pool.connection() as connection:
                for name in self.tables:
                    connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))
        except Error as error:  # it does so by itself, later
            log.info("the space of deleted rows is not free yet: %s", type(error).__name__)

    def close(self) -> None:
        """Finish what is being stored, and close the connections."""
        self.workers.shutdown()
        self._pool.close()


def open_postgres(url: str) -> PostgresCheckpoints:
    """Connect to a server, and make the tables where there are none.

    Raises:
        ValueError: The URL or the key is none.
        OSError: The server can't be reached, or does not let this user in or make tables.
    """
    from psycopg import Connection, Error, OperationalError
    from psycopg.rows import dict_row
    from psycopg_pool import ConnectionPool

    check_url(url)
    serde = make_serializer()
    options: dict[str, Any] = {
        "autocommit": True,
        "row_factory": dict_row,
        "prepare_threshold": None,  # a pooler between us may give each transaction another session
        "application_name": "taograph",
    }
    if "connect_timeout" not in url:
        options["connect_timeout"] = _CONNECT_SECONDS
    pool: ConnectionPool[Connection[DictRow]] = ConnectionPool(
        url,
        kwargs=options,
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=_WAIT_SECONDS,
        check=ConnectionPool.check_connection,
        name="taograph-checkpoints",
        open=False,
    )
    try:
        Connection.connect(url, **options).close()  # one try, and its error: a pool would go on trying
        pool.open(wait=True)
        saver = PostgresCheckpoints(pool, serde)
        _set_up(saver)
        return saver
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
    raise OSError(f"checkpoints: {problem}")


def _of_two_at_once(error: BaseException) -> bool:
    """Whether another process was making the tables at the same moment."""
    from psycopg import errors

    kinds = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject, errors.DuplicateColumn)
    return isinstance(error, (*kinds, errors.DeadlockDetected, errors.InternalError_))


@retry(
    retry=retry_if_exception(_of_two_at_once),
    wait=wait_random(0.05, 0.3),
    stop=stop_after_delay(_SET_UP_SECONDS),
    reraise=True,
)
def _set_up(saver: PostgresCheckpoints) -> None:
    with saver.transaction() as execute:
        if saver.has_table(execute, "checkpoint_migrations"):
            ((last,),) = execute("SELECT coalesce(max(v), -1) FROM checkpoint_migrations")
            if last >= len(saver.MIGRATIONS) - 1:
                return  # a user who may not make tables can work with those there are
    saver.setup()
