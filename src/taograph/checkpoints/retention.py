"""Which threads are kept, and how those that are not are deleted: ``tao threads list|prune|delete``.

A state of a thread is put together from several rows (:mod:`taograph.graphs.loop.channels`), so to keep its last
state means to keep those rows too: LangGraph's savers refuse it for such threads. Here they are found by walking
back from the last checkpoint to the ones that hold whole values.

Space: a SQLite file that was made here gives back the pages of deleted rows at once, and what they held is
overwritten. One that was made elsewhere is written anew (``VACUUM``) at the first prune. PostgreSQL uses the
space again; ``VACUUM FULL`` makes its files smaller, and locks the tables meanwhile.

A LangGraph server has a retention of its own: ``"checkpointer": {"ttl": {"strategy": "delete", "default_ttl": 43200,
"sweep_interval_minutes": 60}}`` in ``langgraph.json`` (minutes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from taograph.checkpoints.encryption import Unreadable
from taograph.checkpoints.saver import Checkpoints, Execute

State = Literal["done", "waiting", "failed", "unfinished", "encrypted"]

_BEFORE_1970 = 0x01B21DD213814000  # 100 ns since 1582, as UUIDs count
_ALONG: list[str] = []


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread, as ``threads`` lists it.

    Attributes:
        id: Its id.
        created: When its first checkpoint was made.
        updated: When its last one was.
        steps: Steps that its graph took in it, all runs together.
        size: Bytes that its rows take.
        state: How its last run stands: ``done``; ``waiting`` for a person's answer; ``failed`` with an
            exception; ``unfinished``: running, or cut off; ``encrypted`` with a key that is not at hand.
    """

    id: str
    created: datetime
    updated: datetime
    steps: int
    size: int
    state: State


@dataclass(frozen=True, slots=True)
class Pruned:
    """What ``prune`` did.

    Attributes:
        deleted: Ids of threads that are gone.
        shortened: Ids of threads of which the last state is left.
        freed: Bytes that their rows took.
        busy: Ids of threads that are as old, and were left because a run has them.
    """

    deleted: tuple[str, ...]
    shortened: tuple[str, ...]
    freed: int
    busy: tuple[str, ...] = ()


def goes_along(table: str) -> None:
    """Let the rows of a table in the same database be deleted with their thread; it has a column ``thread_id``.

    Those of tables whose names begin with ``taograph_`` are, whoever made them and when.
    """
    if table not in _ALONG:
        _ALONG.append(table)


def threads(saver: BaseCheckpointSaver[Any]) -> list[Thread]:
    """All threads, the last one that was used first.

    Args:
        saver: As ``open`` or ``aopen`` hands it out.
    """
    return sorted(_threads(_ours(saver)), key=lambda thread: thread.updated, reverse=True)


def delete(saver: BaseCheckpointSaver[Any], thread: str) -> bool:
    """Delete a thread, and what is kept along with it: its traces, too (:mod:`taograph.trace.retention`).

    Returns:
        Whether there was one.

    Raises:
        ThreadBusyError: A run has it; nothing was deleted.
        OSError: The store of traces that ``TAOGRAPH_TRACE`` names can't be used; nothing was deleted.
    """
    from taograph.trace.retention import along

    ours = _ours(saver)
    with along() as erase_trace, _alone(ours, thread):
        with ours.transaction() as execute:
            there_was = delete_rows(ours, execute, thread)
        erase_trace(thread)
    if there_was:
        ours.give_back()
    return there_was


def prune(
    saver: BaseCheckpointSaver[Any],
    older_than: timedelta | datetime,
    *,
    keep_latest: bool = False,
    now: datetime | None = None,
) -> Pruned:
    """Delete threads that were not used for some time. One that a run has is left as it is, whatever that waits for.

    Args:
        saver: As ``open`` or ``aopen`` hands it out.
        older_than: For how long, or since when.
        keep_latest: Leave their last state, so that they can be gone on with; the steps before are deleted.
        now: The time to count from; now if None.

    Raises:
        ValueError: The time has no zone, or is negative.
    """
    from taograph.trace.retention import along
    from taograph.writers import ThreadBusyError

    ours = _ours(saver)
    before = _moment(older_than, now)
    deleted, shortened, busy, freed = [], [], [], 0
    with along() as erase_trace:
        for thread in threads(ours):
            if thread.updated >= before:
                continue
            try:
                with _alone(ours, thread.id):
                    if keep_latest:
                        if shorten(ours, thread.id):
                            shortened.append(thread.id)
                            freed += thread.size - _sizes(ours, thread.id).get(thread.id, 0)
                    elif _delete_unused(ours, thread, before):
                        deleted.append(thread.id)
                        freed += thread.size
                        erase_trace(thread.id)
            except ThreadBusyError:
                busy.append(thread.id)
    if deleted or shortened:
        ours.give_back()
    return Pruned(tuple(deleted), tuple(shortened), freed, tuple(busy))


async def athreads(saver: BaseCheckpointSaver[Any]) -> list[Thread]:
    """The async twin of :func:`threads`."""
    ours = _ours(saver)
    return await ours.away(threads, ours)


async def adelete(saver: BaseCheckpointSaver[Any], thread: str) -> bool:
    """The async twin of :func:`delete`."""
    ours = _ours(saver)
    return await ours.away(delete, ours, thread)


async def aprune(
    saver: BaseCheckpointSaver[Any],
    older_than: timedelta | datetime,
    *,
    keep_latest: bool = False,
    now: datetime | None = None,
) -> Pruned:
    """The async twin of :func:`prune`."""
    ours = _ours(saver)
    return await ours.away(lambda: prune(ours, older_than, keep_latest=keep_latest, now=now))


def delete_rows(saver: Checkpoints, execute: Execute, thread: str) -> bool:
    """Delete all rows of a thread, and erase its traces in the same database; returns whether there was one."""
    from taograph.trace.retention import erase_beside
    from taograph.trace.stores.sql import TRACES

    there_was = bool(execute("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", thread))
    along = {*saver.own_tables(execute), *(name for name in _ALONG if saver.has_table(execute, name))}
    for name in [*saver.tables, *sorted(along)]:
        execute(f'DELETE FROM "{name}" WHERE thread_id = ?', thread)  # noqa: S608 - names of tables that there are
    if saver.has_table(execute, TRACES):
        execute(saver.alone)
        erase_beside(execute, thread)
    return there_was


def shorten(saver: Checkpoints, thread: str) -> bool:
    """Delete all of a thread but its last state; returns whether there was something to delete.

    That state may reach back to the beginning of a short thread, or to where the messages were last stored as a
    list: rows are left or deleted, never written anew, which would need the types of the graph that wrote them.
    Nothing is deleted where the thread gets a new checkpoint meanwhile.
    """
    with saver.transaction() as execute:
        heads = _heads(execute, thread)
        before = execute("SELECT count(*) FROM checkpoints WHERE thread_id = ?", thread)
    kept = _kept(saver, thread, heads)
    with saver.transaction() as execute:
        if _heads(execute, thread) != heads:
            return False
        for ns, head in heads.items():
            ids = kept.get(ns, [])
            marks = ", ".join("?" * len(ids)) or "''"
            for name, table in saver.tables.items():
                where, given = "thread_id = ? AND checkpoint_ns = ?", [thread, ns]
                if "checkpoint_id" in table.columns:  # a task may have stored what it wrote before its checkpoint is
                    where += f" AND checkpoint_id <= ? AND checkpoint_id NOT IN ({marks})"
                    given += [head, *ids]
                elif ids:
                    continue  # values of several checkpoints, see below
                execute(f"DELETE FROM {name} WHERE {where}", *given)  # noqa: S608 - the same
            if ids:
                execute(
                    "UPDATE checkpoints SET parent_checkpoint_id = NULL "
                    "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
                    *(thread, ns, ids[-1]),
                )
        saver.drop_values(execute, thread)
        return execute("SELECT count(*) FROM checkpoints WHERE thread_id = ?", thread) != before


def _alone(saver: Checkpoints, thread: str) -> AbstractContextManager[None]:
    """Have a thread to oneself: a run of one of our graphs that has it would go on with what is not there."""
    from taograph.writers import Wanted, hold

    return hold(Wanted(saver, thread))


def _heads(execute: Execute, thread: str) -> dict[str, str]:
    """Ids of the last checkpoints, by namespace."""
    sql = "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY checkpoint_ns"
    return {str(ns): str(id) for ns, id in execute(sql, thread)}


def _kept(saver: Checkpoints, thread: str, heads: dict[str, str]) -> dict[str, list[str]]:
    """Ids of the checkpoints that the last state of each namespace is put together from, the last one first."""
    kept: dict[str, list[str]] = {}
    for ns, id in heads.items():
        head = saver.get_tuple(_config(thread, ns, id))
        if head is None:
            continue
        # A subgraph's call belongs to the step of the graph above that made it, and goes with that. One that
        # keeps its state between calls has no task in its namespace.
        root = (head.metadata.get("parents") or {}).get("")
        if ":" in ns and root is not None and root < heads.get("", ""):
            continue
        kept[ns] = [id, *_beneath(saver, head)]
    return kept


def _beneath(saver: Checkpoints, head: CheckpointTuple) -> Iterator[str]:
    """Ids of the checkpoints before one that its state is put together from."""
    values = head.checkpoint["channel_values"]
    # A channel that was never written has no version: there is nothing of it to be put together.
    counted = head.metadata.get("counters_since_delta_snapshot") or ()
    wanted = {name for name in counted if name not in values and name in head.checkpoint["channel_versions"]}
    config = head.parent_config
    while wanted and config is not None:
        found = saver.get_tuple(config)
        if found is None:
            return
        yield found.checkpoint["id"]
        wanted -= found.checkpoint["channel_values"].keys()
        config = found.parent_config


def _delete_unused(saver: Checkpoints, thread: Thread, before: datetime) -> bool:
    """Delete a thread, if it was not used since it was listed."""
    last = _last(saver, thread.id)
    if last is not None and _updated(last) >= before:
        return False
    with saver.transaction() as execute:
        if last is not None and _heads(execute, thread.id).get("") != last.checkpoint["id"]:
            return False
        return delete_rows(saver, execute, thread.id)


def _threads(saver: Checkpoints) -> Iterator[Thread]:
    with saver.transaction() as execute:
        found = execute("SELECT thread_id, min(checkpoint_id), max(checkpoint_id) FROM checkpoints GROUP BY thread_id")
    sizes = _sizes(saver)
    for thread, oldest, newest in found:
        state: State = "encrypted"
        steps, updated = 0, _made(newest)
        try:
            last = _last(saver, thread)
        except Unreadable:
            last = None
        else:
            state = "done"
        if last is not None:
            state, updated = _state(last), _updated(last)
            steps = max(0, int(last.metadata.get("step", 0)))
        yield Thread(thread, min(_made(oldest), updated), updated, steps, sizes.get(thread, 0), state)


def _last(saver: Checkpoints, thread: str) -> CheckpointTuple | None:
    return saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})


def _sizes(saver: Checkpoints, thread: str | None = None) -> dict[str, int]:
    """Bytes by thread."""
    sizes: dict[str, int] = {}
    with saver.transaction() as execute:
        for name, table in saver.tables.items():
            size = " + ".join(f"coalesce({saver.size}({column}), 0)" for column in table.large)
            where, given = ("", ()) if thread is None else ("WHERE thread_id = ? ", (thread,))
            sql = f"SELECT thread_id, sum({size}) FROM {name} {where}GROUP BY thread_id"  # noqa: S608 - names of ours
            for id, taken in execute(sql, *given):
                sizes[id] = sizes.get(id, 0) + int(taken)
    return sizes


def _state(last: CheckpointTuple) -> State:
    """How a run stands, as far as it can be seen without its graph."""
    written = {channel for _, channel, _ in last.pending_writes or ()}
    if "__interrupt__" in written:
        return "waiting"
    if "__error__" in written:
        return "failed"
    return "unfinished" if any(_starts_a_step(*item) for item in last.checkpoint["channel_values"].items()) else "done"


def _starts_a_step(channel: str, value: Any) -> bool:
    """Whether a value of a channel of LangGraph's own makes a node run next."""
    if channel.startswith("join:"):  # join:one+another:node, with those that have come
        return set(value) == set(channel.split(":")[1].split("+"))
    return channel == "__start__" or channel.startswith("branch:to:") or (channel == "__pregel_tasks" and bool(value))


def _updated(last: CheckpointTuple) -> datetime:
    return datetime.fromisoformat(last.checkpoint["ts"])


def _made(checkpoint_id: str) -> datetime:
    """When a checkpoint was made: its id says so."""
    try:
        id = UUID(checkpoint_id)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    if id.version != 6:
        return datetime.fromtimestamp(0, UTC)
    ticks = (id.time_low << 28) | (id.time_mid << 12) | (id.time_hi_version & 0x0FFF)
    return datetime.fromtimestamp((ticks - _BEFORE_1970) / 1e7, UTC)


def _moment(older_than: timedelta | datetime, now: datetime | None) -> datetime:
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise ValueError("older_than: the time has no zone; write datetime(…, tzinfo=UTC)")
        return older_than
    if older_than < timedelta(0):
        raise ValueError(f"older_than={older_than!r}: it can't be negative")
    return (now or datetime.now(UTC)) - older_than


def _config(thread: str, ns: str, id: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def _ours(saver: BaseCheckpointSaver[Any]) -> Checkpoints:
    if isinstance(saver, Checkpoints):
        return saver
    raise TypeError(f"{type(saver).__name__} can't be looked through; open it with taograph.checkpoints.open(url)")
