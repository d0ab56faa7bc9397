"""Telling what happens in a run, as it happens; see ``events.py`` for the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from taograph.graphs.loop.context import read_context
from taograph.graphs.loop.events import utc_now
from taograph.graphs.loop.internals import runtime_of


class Teller:
    """Tells what happens in a run, through LangGraph's custom stream.

    Args:
        config: The config of the node.
        run: The run's id.
        step: The turn at hand.
    """

    def __init__(self, config: RunnableConfig, run: str, step: int) -> None:
        self._write = runtime_of(config).stream_writer
        thread = (config.get("configurable") or {}).get("thread_id")
        self.thread = None if thread is None else str(thread)
        self.run = run
        self.step = step
        callbacks: Any = config.get("callbacks")
        self._node = getattr(callbacks, "parent_run_id", None)
        told = getattr(callbacks, "handlers", callbacks) or ()
        # Handlers that want to know what callbacks do not tell: LangChain's own custom events have to be awaited.
        self._listeners = [handler for handler in told if hasattr(handler, "on_step_event")]
        listening = [handler for handler in self._listeners if hasattr(handler, "on_context")]
        context = read_context(runtime_of(config).context) if listening else {}
        for handler in listening if context else ():
            handler.on_context(context, self._node)
        self._tell_place()

    def turn(self, step: int) -> None:
        """A turn begins: what the model streams from now on belongs to it."""
        self.step = step
        self._tell_place()
        self._write({"taograph_turn": {"step": step, "thread": self.thread, "run": self.run}})

    def tell(self, kind: str, **what: Any) -> None:
        """Emit an event; see ``events.py`` for the kinds and their fields."""
        event = {
            "type": kind,
            "step": self.step,
            "thread": self.thread,
            "run": self.run,
            "time": utc_now(),
            "path": [],
            **what,
        }
        self._write({"taograph": event})
        for listener in self._listeners:
            listener.on_step_event(event, self._node)

    def set_up(self, setup: Callable[[], Mapping[str, Any]]) -> None:
        """Say what the run is made of to those who record it; before its beginning is told."""
        listeners = [listener for listener in self._listeners if hasattr(listener, "on_setup")]
        made = setup() if listeners else {}
        for listener in listeners:
            listener.on_setup(made, self._node)

    def _tell_place(self) -> None:
        for listener in self._listeners:
            listener.on_run_node(self._node, self.run, self.step)
