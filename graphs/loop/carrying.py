"""What the parts of a superstep have used, for the invocation that goes on with it.

A run that waits for a person goes on in another invocation, perhaps in another process. Of the parts that wait, and of
those beside them that have ended, nothing is in the channels yet; but what they used is gone, and must not be given to
those that go on. So a part that waits writes it down with the checkpoint that it runs from, and of one that has ended
the record is there among what its task wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from taograph.calls import TOOL_THREADS, Call, Steps
from taograph.graphs.loop.allowance import Used
from taograph.graphs.loop.internals import place_of, runtime_of, saver_of
from taograph.graphs.loop.interrupts import begun_from, is_resumed, sent_from, task_of

# No channel of a graph; LangGraph passes over what a task that is none has written.
_USED = "__taograph_used"


def keep_used(config: RunnableConfig, name: str, used: Used) -> Steps[None]:
    """Write down what a part that waits has used.

    Args:
        config: Of the node that runs it.
        name: What it is called in its allowance.
        used: What it has used.
    """
    at, saver = _checkpoint(config), saver_of(config)
    if at is None or saver is None:
        return
    writes, task = [(_USED, [name, *astuple(used)])], str(uuid5(NAMESPACE_OID, f"{task_of(config)} used"))
    yield Call(
        lambda: saver.put_writes(at, writes, task),
        lambda: saver.aput_writes(at, writes, task),
        None,
        TOOL_THREADS,
        certain=True,
    )


def used_before(config: RunnableConfig) -> Steps[list[tuple[str, Used]]]:
    """What the parts of the superstep at hand had used, by their names; none where it is not gone on with.

    Args:
        config: Of a node in it.
    """
    at, saver = _checkpoint(config), saver_of(config)
    if at is None or saver is None or not is_resumed(config):
        return []
    found = yield Call(lambda: saver.get_tuple(at), lambda: saver.aget_tuple(at), None, TOOL_THREADS, certain=True)
    if found is None:
        return []
    written = list(_written(found))
    if sent_from(found) > len({name.partition(":")[0] for name, _ in written}):  # a crash has ended the others
        written += yield from _stored(saver, at["configurable"]["thread_id"], begun_from(config))
    return written


def _written(found: CheckpointTuple) -> Iterator[tuple[str, Used]]:
    """What was written down of parts, with the checkpoint that they run from."""
    for task, channel, value in found.pending_writes or ():
        if channel == _USED:
            yield value[0], Used(*value[1:])
        elif channel == "children" and isinstance(value, list):
            for number, child in enumerate(value):
                yield f"{task}:{number}", Used.of(child["spent"], child["stop"]["step"])


def _stored(saver: BaseCheckpointSaver[Any], thread: str, above: Mapping[str, str]) -> Steps[list[tuple[str, Used]]]:
    """What parts have used as far as they are stored themselves.

    Args:
        saver: The checkpointer.
        thread: The thread.
        above: The checkpoints that they were begun from, by their namespaces.
    """
    at: RunnableConfig = {"configurable": {"thread_id": thread}}
    about = {"parents": dict(above)}

    async def later() -> list[CheckpointTuple]:
        return [found async for found in saver.alist(at, filter=about)]

    latest: dict[str, CheckpointTuple] = {}
    for found in (yield Call(lambda: list(saver.list(at, filter=about)), later, None, TOOL_THREADS, certain=True)):
        if found.metadata.get("parents") == about["parents"]:  # a database may take more for the same
            latest.setdefault(found.config["configurable"]["checkpoint_ns"], found)
    known: list[tuple[str, Used]] = []
    for ns, found in latest.items():
        parts = dict(_written(found))
        parts |= dict((yield from _stored(saver, thread, {**above, ns: found.checkpoint["id"]})))
        known.append((_name(ns), sum(parts.values(), _own(found))))
    return known


def _own(found: CheckpointTuple) -> Used:
    """What a part itself has used, and those of its parts that are in its channels."""
    values = found.checkpoint["channel_values"]
    run, spent = values.get("run"), values.get("spent")
    if not run or not spent:
        return Used()
    uncounted = (values.get("children") or [])[run.get("children", 0) :]
    return Used.of(spent, run["steps"] + sum(child["stop"]["step"] for child in uncounted))


def _name(ns: str) -> str:
    """What a part is called, by the namespace of its graph: task, and which of its runs."""
    outer, _, last = ns.rpartition("|")
    task = (outer if last.isdigit() else ns).rpartition(":")[2]
    return f"{task}:{last if last.isdigit() else 0}"


def _checkpoint(config: RunnableConfig) -> RunnableConfig | None:
    place, info = place_of(config), runtime_of(config).execution_info
    if place is None or info is None:
        return None
    return {"configurable": {"thread_id": place[0], "checkpoint_ns": place[1], "checkpoint_id": info.checkpoint_id}}
