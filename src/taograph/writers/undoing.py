"""Going on from before a run: what ``multitask_strategy="rollback"`` does."""

from __future__ import annotations

import uuid
from collections.abc import Set
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from taograph.writers.places import Saver
from taograph.writers.steps import Do, Steps

RUN = "taograph_run"
"""The key under which the metadata of a checkpoint say which run made it."""


def checkpoint_before(saver: Saver, thread: str, runs: Set[str]) -> Steps[str | None]:
    """The checkpoint that the last runs of a thread began from.

    Args:
        saver: Where the thread is kept.
        thread: The thread.
        runs: The runs that are to be undone. One that came to its own end stays, with all before it.

    Returns:
        Its id, or one that no checkpoint has where they began from nothing; None where there is nothing to undo.
    """
    last = yield from _read(saver, {"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    found: CheckpointTuple | None = last
    while found is not None and _run_of(found) in runs and not _has_ended(found):
        run = _run_of(found)
        while found is not None and _run_of(found) == run:
            found = None if found.parent_config is None else (yield from _read(saver, found.parent_config))
    if found is last:
        return None
    return str(uuid.UUID(int=0)) if found is None else str(found.checkpoint["id"])


def _read(saver: Saver, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
    return (yield Do(partial(saver.get_tuple, config), partial(saver.aget_tuple, config)))  # type: ignore[no-any-return]


def _run_of(found: CheckpointTuple) -> Any:
    return (found.metadata or {}).get(RUN)


def _has_ended(found: CheckpointTuple) -> bool:
    """Whether a run's last checkpoint is its end, for a reason of its own."""
    values = found.checkpoint["channel_values"]
    stop, run = values.get("stop"), values.get("run")
    done = isinstance(run, dict) and bool(run.get("done"))
    return done and isinstance(stop, dict) and stop.get("reason") != "cancelled"
