"""Watching a replay: it is recorded as any run, into memory, and its recorder knows where it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage

from taograph.models.replay import NotRecordedError
from taograph.trace.chain import Draft, plain
from taograph.trace.messages import RequestHasher
from taograph.trace.recording import Recorder
from taograph.trace.replays.recorded import Happened, Task
from taograph.trace.settings import Settings, hide_secrets
from taograph.trace.underway import replayed


class Memory:
    """Keeps the events of a replay; what a :class:`~taograph.trace.writing.Writer` is to a recording."""

    def __init__(self) -> None:
        self.events: list[Happened] = []
        self.told = replayed
        self._lock = threading.Lock()
        self._done: Future[None] = Future()
        self._done.set_result(None)

    def write(self, draft: Draft, *, delete_on: str | None = None) -> Future[None]:
        """Keep an event."""
        with self._lock:
            self.events.append(Happened(draft.type, plain(draft.told), len(self.events)))
        return self._done

    def wait(self, done: Future[None]) -> None:
        """It is done."""

    def flush(self) -> None:
        """Nothing is left to do."""


class AsItIs(Settings):
    """What is replayed was redacted when it was recorded."""

    def redact(self, value: Any) -> Any:
        """The value itself."""
        return value


class Watch(Recorder):
    """Records a replay, and tells where it is.

    Args:
        memory: Where to.
        enters: Is told which nodes of ours begin their work.
    """

    def __init__(self, memory: Any, enters: Callable[[Task], None]) -> None:
        super().__init__(AsItIs(), memory)
        self.raise_error = True
        self._enters = enters
        self._hash_without_secrets = RequestHasher(hide_secrets)
        self._hidden: dict[UUID, str] = {}

    def _asked(
        self, run_id: UUID, parent_run_id: UUID | None, request: Sequence[BaseMessage], model: str, tools: list[str]
    ) -> None:
        # What the loop puts together of parts that were redacted may hold what no part held by itself.
        self._hidden[run_id] = self._hash_without_secrets(request, tools)
        super()._asked(run_id, parent_run_id, request, model, tools)

    def hidden(self, run_id: UUID) -> str:
        """The hash of a request as it is without secrets."""
        return self._hidden.pop(run_id, "")

    def task_of(self, run_id: UUID | None) -> Task:
        """The nodes that a run of LangChain's is in."""
        place = self._places.get(run_id) if run_id else None
        return () if place is None else place.task

    def on_run_node(self, parent_run_id: UUID | None, run: str, step: int) -> None:
        """As the recorder's; it is told on."""
        super().on_run_node(parent_run_id, run, step)
        self._enters(self.task_of(parent_run_id))

    def on_llm_start(self, *args: Any, **kwargs: Any) -> None:
        """A completion model is asked by itself.

        Raises:
            NotRecordedError: Always: it could not be kept from being asked.
        """
        raise NotRecordedError("a completion model is not replayed", "")
