"""What is under way of the runs that are recorded, and that nothing is remembered of those that have ended."""

from __future__ import annotations

from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from langgraph.callbacks import GraphCallbackHandler

from taograph.models.streamed import StreamedCalls
from taograph.trace.places import Place, Trace, on_a_loop
from taograph.trace.writing import Writer

# Who tells of which run of LangChain's in a replay: a graph within it that is recorded is not recorded then.
replayed: WeakValueDictionary[UUID, object] = WeakValueDictionary()


class UnderWay(GraphCallbackHandler):
    """Knows where each run of LangChain's that is under way stands.

    Args:
        writer: Knows who tells of which run.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._places: dict[UUID, Place] = {}
        self._ours: set[UUID] = set()
        self._alone: set[UUID] = set()  # models outside of any graph, of which nothing has come yet
        self._streamed: dict[UUID, StreamedCalls] = {}

    def trace_of(self, run_id: UUID) -> str | None:
        """The trace that a run of LangChain's belongs to, while it lasts."""
        place = self._places.get(run_id)
        return None if place is None else place.trace.id

    def forget(self, run_id: UUID) -> None:
        """A run of LangChain's that was to begin does not."""
        place = self._leave(run_id)
        if place is not None and place.parent is None:
            self._give_up(place.trace)

    def _close(self, trace: Trace, status: str, **more: Any) -> None:
        """Record the end of a trace."""
        raise NotImplementedError

    def _is_told(self, run_id: UUID, parent_run_id: UUID | None) -> bool:
        """Whether another recorder tells of it at the same place: a graph that is recorded in one that is."""
        told = self.writer.told
        if parent_run_id is not None and told.get(parent_run_id) is self:  # of a thread that was given up
            told[run_id] = self
            return True
        runs = (run_id, parent_run_id)
        return any(run in known for known in (told, replayed) for run in runs if run is not None)

    def _enter(self, run_id: UUID, place: Place) -> None:
        self._places[run_id] = place
        self.writer.told[run_id] = self
        place.trace.open_runs[run_id] = on_a_loop()
        if place.trace.is_closed:  # meanwhile, in another thread
            self._give_up(place.trace)

    def _leave(self, run_id: UUID) -> Place | None:
        self._ours.discard(run_id)
        self._alone.discard(run_id)
        if self.writer.told.get(run_id) is self:
            del self.writer.told[run_id]
        place = self._places.pop(run_id, None)
        if place is not None:
            place.trace.open_runs.pop(run_id, None)
        return place

    def _abandon(self, run_id: UUID) -> None:
        """A model that is called alone does not say that its task was cancelled; one that streams does."""
        place = self._leave(run_id) if run_id in self._alone else None
        if place is not None:
            self._close(place.trace, "cancelled", error="CancelledError")

    def _give_up(self, trace: Trace) -> None:
        """Forget what is still under way of a trace that has ended: of a task that is cancelled nothing is heard.

        A thread goes on, and says when it ends; until then what it begins is no trace of its own.
        """
        trace.is_closed = True
        if trace.unwatch is not None:
            trace.unwatch()
            trace.unwatch = None
        for run_id, on_loop in list(trace.open_runs.items()):
            trace.open_runs.pop(run_id, None)
            self._streamed.pop(run_id, None)
            self._leave(run_id)
            if not on_loop:
                self.writer.told[run_id] = self
