"""Time travel: a thread as it was at one of its checkpoints, as a new thread.

LangGraph goes on from a checkpoint in the middle of a thread within that thread: the branch that comes of it becomes
the thread's state, and what was there is found in the history only. A copy leaves the thread as it is, and can be
listed, resumed and deleted like any other.

The ledger (:mod:`taograph.checkpoints.ledger`) is copied for the calls that the state holds. So a call that has
finished in the thread is not run again in the copy where it stands open, and one that must not be repeated and was
cut off is asked about there, too. What the copy's model calls anew has ids of its own, and is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver

from taograph.checkpoints.ledger import copy_calls
from taograph.checkpoints.saver import Checkpoints, Execute

# Databases bound the number of a statement's parameters.
_AT_ONCE = 500


def fork(saver: BaseCheckpointSaver[Any], source: str, target: str, *, at: str | None = None) -> None:
    """Copy a thread, as it was at a checkpoint, to a new one.

    At an earlier checkpoint than the last, what was done from there on is left out, answers of a person included:
    who resumes the copy does that step again.

    Args:
        saver: As ``open`` or ``aopen`` hands it out.
        source: The thread.
        target: The id of the copy.
        at: The checkpoint's id; the last one if None.

    Raises:
        ValueError: There is no such thread or checkpoint, or there is a thread with the id of the copy.
        TypeError: The saver is none of ours.
    """
    if not isinstance(saver, Checkpoints):
        raise TypeError(f"{type(saver).__name__} can't be copied in; open it with taograph.checkpoints.open(url)")
    with saver.transaction() as execute:
        parents = _parents(execute, source)
        if execute("SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1", target):
            raise ValueError(f"there is a thread {target!r}; copy to a new one")
    if not parents:
        raise ValueError(f"there is no thread {source!r}")
    head = max(parents)
    if at is not None and at not in parents:
        raise ValueError(f"thread {source!r} has no checkpoint {at!r}")
    if at in (None, head):
        with saver.transaction() as execute:
            for name, table in saver.tables.items():
                _copy(execute, name, table.columns, source, target)
            copy_calls(saver, execute, source, target)
        return
    chain = [*_chain(parents, at)]
    calls = _calls_of(saver, source, chain)
    with saver.transaction() as execute:
        for name, table in saver.tables.items():
            if "checkpoint_id" not in table.columns:  # values of several checkpoints; those of none are dropped below
                _copy(execute, name, table.columns, source, target, where=" AND checkpoint_ns = ''")
                continue
            # What was written from the checkpoint itself is what comes after it.
            ids = chain if name == "checkpoints" else chain[1:]
            for some in _some(ids):
                marks = ", ".join("?" * len(some))
                where = f" AND checkpoint_ns = '' AND checkpoint_id IN ({marks})"
                _copy(execute, name, table.columns, source, target, where=where, given=some)
        saver.drop_values(execute, target)
        copy_calls(saver, execute, source, target, calls)


async def afork(saver: BaseCheckpointSaver[Any], source: str, target: str, *, at: str | None = None) -> None:
    """The async twin of :func:`fork`."""
    if not isinstance(saver, Checkpoints):
        fork(saver, source, target, at=at)  # says what is wrong
    else:
        await saver.away(lambda: fork(saver, source, target, at=at))


def checkpoint_at(saver: BaseCheckpointSaver[Any], thread: str, step: int) -> str:
    """The id of the checkpoint after a step of the graph, on the way to the thread's last state.

    Args:
        saver: As ``open`` or ``aopen`` hands it out.
        thread: The thread.
        step: The step, as ``graph.get_state_history`` has it in the metadata; -1 is before the first.

    Raises:
        ValueError: There is no such thread, or no such step in it.
    """
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    steps: dict[int, str] = {}
    wanted: str | None = None
    for found in saver.list(config):  # the last one first
        id = found.checkpoint["id"]
        if wanted is None or id == wanted:
            steps[int(found.metadata.get("step", -1))] = id
            wanted = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
    if not steps:
        raise ValueError(f"there is no thread {thread!r}")
    if step not in steps:
        raise ValueError(f"thread {thread!r} has no step {step}; it has {min(steps)} to {max(steps)}")
    return steps[step]


def _parents(execute: Execute, thread: str) -> dict[str, str | None]:
    sql = "SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''"
    return {str(id): parent for id, parent in execute(sql, thread)}


def _chain(parents: dict[str, str | None], at: str | None) -> Iterator[str]:
    """A checkpoint and those before it."""
    while at is not None and at in parents:
        yield at
        at = parents[at]


def _calls_of(saver: Checkpoints, thread: str, chain: Sequence[str]) -> set[str]:
    """Ids of the tool calls in what the first of some checkpoints is put together from."""
    calls: set[str] = set()
    for place, id in enumerate(chain):
        config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id}}
        found = saver.get_tuple(config)
        if found is not None:
            written = [value for _, _, value in found.pending_writes or ()] if place > 0 else []
            calls.update(_calls_in([written, found.checkpoint["channel_values"]]))
    return calls


def _calls_in(value: Any) -> Iterator[str]:
    if isinstance(value, AIMessage):
        yield from (call["id"] or "" for call in value.tool_calls)
    elif isinstance(value, dict):
        yield from _calls_in([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _calls_in(each)
    elif hasattr(value, "value"):  # a channel's whole value, where it is stored apart from what was written since
        yield from _calls_in(value.value)


def _copy(
    execute: Execute,
    name: str,
    columns: Sequence[str],
    source: str,
    target: str,
    *,
    where: str = "",
    given: Sequence[str] = (),
) -> None:
    listed = ", ".join(columns)
    sql = f"INSERT INTO {name} (thread_id, {listed}) SELECT ?, {listed} FROM {name} WHERE thread_id = ?{where}"  # noqa: S608
    execute(sql, target, source, *given)


def _some(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
