"""What the savers of both databases have in common."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeVar, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.base import id as checkpoint_ids

from taograph.checkpoints.encryption import as_given, as_stored, fits, split_filter

T = TypeVar("T")


class Execute(Protocol):
    """Runs a statement within a transaction; its parameters are written ``?``."""

    def __call__(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows, where there are any."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """A table with rows of threads.

    Attributes:
        columns: All but ``thread_id``.
        large: Those whose size counts.
    """

    columns: tuple[str, ...]
    large: tuple[str, ...]


class Stored:
    """The checkpoints that a saver has stored last, for those that wait until one of them is.

    Args:
        most: How many are remembered.
    """

    def __init__(self, most: int = 512) -> None:
        self._places: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._most = most

    def add(self, config: RunnableConfig) -> None:
        """A checkpoint is stored, and will be found by any process."""
        given = config["configurable"]
        self._places[str(given["thread_id"]), given.get("checkpoint_ns", ""), given["checkpoint_id"]] = None
        if len(self._places) > self._most:
            with suppress(KeyError):  # another thread was quicker
                self._places.popitem(last=False)

    def has(self, thread: str, places: Mapping[str, str]) -> bool:
        """Whether checkpoints of a thread, by namespace, are among them."""
        return all((thread, *place) in self._places for place in places.items())


class Checkpoints(BaseCheckpointSaver[str]):
    """A saver as ``open`` hands it out, for ``invoke`` and ``ainvoke`` alike.

    Put before LangGraph's saver for a database. Async methods are the sync ones in threads of the saver's own:
    one way through the code, on every event loop, and what is being stored when a task is cancelled still is.

    Attributes:
        tables: Where rows of threads are; ``checkpoints`` is one of them.
        size: The function that tells the size of a column in bytes.
        binary: The type of a column of bytes.
        alone: A statement that keeps writers of traces out of the database until the transaction ends.
        workers: The threads.
        made: Tables of ours that are known to be there, the same in every copy of the saver.
        stored: What was stored last; likewise.
    """

    tables: ClassVar[Mapping[str, Table]]
    size: ClassVar[str]
    binary: ClassVar[str]
    alone: ClassVar[str]
    workers: Executor
    made: set[str]
    stored: Stored

    def transaction(self) -> AbstractContextManager[Execute]:
        """A transaction: all of it or, after an exception, none."""
        raise NotImplementedError

    def has_table(self, execute: Execute, name: str) -> bool:
        """Whether there is a table of this name."""
        raise NotImplementedError

    def own_tables(self, execute: Execute) -> list[str]:
        """Names of taograph's own tables that have rows of threads."""
        raise NotImplementedError

    def drop_values(self, execute: Execute, thread: str) -> None:
        """Delete values that no checkpoint of a thread has any more, where they are stored apart."""

    def give_back(self) -> None:
        """Give back the space of rows that were deleted, as far as the database can while it is in use."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    async def away(self, do: Callable[..., T], *args: Any) -> T:
        """Do something in a thread; if the caller is cancelled, it is done all the same."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self.workers, do, *args))

    @property
    def commits(self) -> bool:
        """Whether what this thread writes now is stored when it is written, not at the end of a group."""
        return True

    async def store(self, do: Callable[[], T]) -> T:
        """As :meth:`away`, for something that writes."""
        return await self.away(do)

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As LangGraph's."""
        found = super().get_tuple(_at(config))
        if found is None:
            return None
        if not get_checkpoint_id(config):
            _follow(found.checkpoint["id"])
        return self._opened(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """As LangGraph's; what is found is read at once, so that no connection is held between two of them."""
        shown, sealed = split_filter(self.serde, filter)
        rows = super().list(
            None if config is None else _at(config), filter=shown, before=before, limit=None if sealed else limit
        )
        with closing(cast("Any", rows)):
            opened = (self._opened(row) for row in rows)
            found = [*islice((row for row in opened if fits(row.metadata, sealed)), limit)]
        yield from found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As LangGraph's."""
        return super().get_delta_channel_history(config=_at(config), channels=channels)

    def _opened(self, found: CheckpointTuple) -> CheckpointTuple:
        metadata = as_given(self.serde, cast("Mapping[str, Any]", found.metadata))
        return found._replace(metadata=cast(CheckpointMetadata, metadata))

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As LangGraph's; metadata with its secrets hidden, and sealed where there is a key."""
        all_of_it = {**get_checkpoint_metadata(config, metadata)}
        all_of_it.pop("writes", None)
        stored = cast(CheckpointMetadata, as_stored(self.serde, all_of_it))
        given = config["configurable"]
        place = {
            "thread_id": given["thread_id"],
            "checkpoint_ns": given.get("checkpoint_ns", ""),
            "checkpoint_id": get_checkpoint_id(config),
        }
        found = super().put(_at({"configurable": place}), checkpoint, stored, new_versions)
        if self.commits:
            self.stored.add(found)
        return found

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As LangGraph's."""
        super().put_writes(_at(config), writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete all there is of a thread, in one transaction."""
        from taograph.checkpoints.retention import delete_rows
        from taograph.trace.retention import along

        with along() as erase_trace:
            with self.transaction() as execute:
                delete_rows(self, execute, str(thread_id))
            erase_trace(str(thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete threads, or all of them but their last state.

        Args:
            thread_ids: Which.
            strategy: ``"delete"`` or ``"keep_latest"``.

        Raises:
            ValueError: Another strategy.
        """
        from taograph.checkpoints.retention import shorten

        if strategy not in ("delete", "keep_latest"):
            raise ValueError(f'strategy={strategy!r}: write "delete" or "keep_latest"')
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                shorten(self, str(thread_id))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, with all its past.

        Raises:
            ValueError: There is a thread with the id of the copy.
        """
        with self.transaction() as execute:
            if execute("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", target_thread_id):
                raise ValueError(f"there is a thread {target_thread_id!r}; copy to a new one")
            for name, table in self.tables.items():
                columns = ", ".join(table.columns)
                rows = f"SELECT ?, {columns} FROM {name} WHERE thread_id = ?"  # noqa: S608 - names are ours
                execute(f"INSERT INTO {name} (thread_id, {columns}) {rows}", target_thread_id, source_thread_id)

    # The async twins

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As :meth:`get_tuple`."""
        return await self.away(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As :meth:`list`."""
        for found in await self.away(lambda: [*self.list(config, filter=filter, before=before, limit=limit)]):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As :meth:`put`."""
        found = await self.store(lambda: self.put(config, checkpoint, metadata, new_versions))
        self.stored.add(found)
        return found

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As :meth:`put_writes`."""
        await self.store(lambda: self.put_writes(config, writes, task_id, task_path))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As :meth:`get_delta_channel_history`."""
        return await self.away(lambda: self.get_delta_channel_history(config=config, channels=channels))

    async def adelete_thread(self, thread_id: str) -> None:
        """As :meth:`delete_thread`."""
        await self.away(self.delete_thread, thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As :meth:`prune`."""
        await self.away(lambda: self.prune(thread_ids, strategy=strategy))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As :meth:`copy_thread`."""
        await self.away(self.copy_thread, source_thread_id, target_thread_id)


def _at(config: RunnableConfig) -> RunnableConfig:
    """A config with its thread's id as text; a caller may have a number or a UUID."""
    place = config["configurable"]
    return {**config, "configurable": {**place, "thread_id": str(place["thread_id"])}}


def _follow(checkpoint_id: str) -> None:
    """Let this process's next checkpoint ids come after one that another process may have made.

    The last checkpoint of a thread is the one with the greatest id, and ids are ordered by time; but they are so
    within one process only. On another machine, with its clock a little behind, the next steps of a run would
    stand before those that it went on from, and be lost.
    """
    try:
        time = UUID(checkpoint_id)
    except ValueError:
        return
    if time.version != 6:
        return
    made = (time.time_low << 28) | (time.time_mid << 12) | (time.time_hi_version & 0x0FFF)
    checkpoint_ids._last_v6_timestamp = max(checkpoint_ids._last_v6_timestamp or 0, made)  # type: ignore[assignment]
