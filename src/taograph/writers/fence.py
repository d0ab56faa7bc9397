"""A saver that does not write for a run that has lost its thread."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata

from taograph.writers.claims import standing
from taograph.writers.steps import away
from taograph.writers.watching import check

if TYPE_CHECKING:
    from taograph.writers.postgres import PostgresPlace


class _Fence(BaseCheckpointSaver[Any]):
    """Stands before a saver's own class. A writer is known by the context that LangGraph copies for each write."""

    _place: PostgresPlace

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        _check(self._place)
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        _check(self._place)
        super().put_writes(config, writes, task_id, task_path)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await _acheck(self._place)
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await _acheck(self._place)
        await super().aput_writes(config, writes, task_id, task_path)


def fenced(saver: Any, place: PostgresPlace) -> Any:
    """A copy of a saver, on the same connections, that looks before it writes."""
    kind = type(saver)
    copied = copy.copy(saver)
    copied.__class__ = type(kind.__name__, (_Fence, kind), {"_place": place, "__module__": kind.__module__})
    return copied


def _check(place: PostgresPlace) -> None:
    if not (mine := [one for one in standing() if one.place is place]):
        return
    if not place.confirmed():
        place.confirm()
    for one in mine:
        check(one.lock, one.thread)


async def _acheck(place: PostgresPlace) -> None:
    if not (mine := [one for one in standing() if one.place is place]):
        return
    if not place.confirmed():
        await away(place.confirm)
    for one in mine:
        check(one.lock, one.thread)
