"""Threads as the command reads them: what they remember, how they stand, what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from taograph.cli.settings import DEFAULT_GRAPH, Settings
from taograph.cli.standing import Standing, standing_of

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import StateSnapshot

    from taograph.checkpoints import Checkpoints
    from taograph.writers import ThreadBusyError


class Reader:
    """Reads threads without running anything: no model, no tools.

    Args:
        saver: Where they are kept.
    """

    def __init__(self, saver: Checkpoints) -> None:
        self._saver = saver
        self._graphs: dict[str, CompiledStateGraph[Any, Any, Any, Any]] = {}

    def settings(self, thread: str) -> Settings:
        """What the thread remembers; nothing where it is new, or not the command's own."""
        found = self._saver.get_tuple(_config(thread))
        return Settings() if found is None else Settings.from_metadata(dict(found.metadata))

    def snapshot(self, thread: str) -> StateSnapshot:
        """Its last state."""
        return self._graph(thread).get_state(_config(thread))

    def standing(self, thread: str) -> Standing:
        """How it stands."""
        snapshot = self.snapshot(thread)
        standing = standing_of(snapshot)
        if [task.name for task in snapshot.tasks] != ["__start__"]:
            return standing
        # The question of a run that has not taken its first step is not among the messages yet.
        found = self._saver.get_tuple(_config(thread))
        given = found.checkpoint["channel_values"].get("__start__") if found else None
        question = _question(given.get("messages") if isinstance(given, dict) else None)
        return replace(standing, question=question or standing.question)

    def history(self, thread: str, *, limit: int | None = None) -> Iterator[StateSnapshot]:
        """Its states, the last one first."""
        return self._graph(thread).get_state_history(_config(thread), limit=limit)

    def busy(self, thread: str) -> ThreadBusyError | None:
        """Who has the thread just now."""
        from taograph.writers import ThreadBusyError, Wanted, hold

        try:
            with hold(Wanted(self._saver, thread)):
                return None
        except ThreadBusyError as error:
            return error

    def _graph(self, thread: str) -> CompiledStateGraph[Any, Any, Any, Any]:
        name = self.settings(thread).graph or DEFAULT_GRAPH
        if name not in self._graphs:
            from taograph.graphs import STRATEGIES

            factory = STRATEGIES[name if name in STRATEGIES else DEFAULT_GRAPH]
            self._graphs[name] = factory(None, (), checkpointer=self._saver)
        return self._graphs[name]


def _question(given: Any) -> str:
    from langchain_core.messages import convert_to_messages

    from taograph.graphs.loop.trajectory import user_turn

    messages = convert_to_messages(given if isinstance(given, list) else [given] if given else [])
    place = user_turn(messages)
    return "" if place is None else str(messages[place].text)


def _config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}
