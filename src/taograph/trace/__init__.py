"""The record of what a graph thought, did and saw: redacted, tamper-evident, with a date on which it is deleted.

    graph = trace.record(create_react_graph("openai:gpt-5-mini", tools), to="sqlite:///traces.db")

Any LangGraph graph can be recorded, also one that is not ours. Events are written as they happen: before a model is
asked or a tool is called, everything before it is on the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.runnables import Runnable

    from taograph.trace.chain import Draft, Entry, Record, Sealer
    from taograph.trace.recording import Recorder
    from taograph.trace.replaying import areplay, replay
    from taograph.trace.settings import Settings
    from taograph.trace.stores import Kept, Store, open_store
    from taograph.trace.writing import OnError, TraceError, Writer

__all__ = [
    "Draft",
    "Entry",
    "Kept",
    "Record",
    "Recorder",
    "Sealer",
    "Settings",
    "Store",
    "TraceError",
    "areplay",
    "handlers",
    "open_store",
    "record",
    "replay",
]

# Who reads a trace needs no LangChain, and who records no strategies, which replaying brings with it.
_HOMES = {
    "Draft": "chain",
    "Entry": "chain",
    "Kept": "stores",
    "Record": "chain",
    "Recorder": "recording",
    "Sealer": "chain",
    "Settings": "settings",
    "Store": "stores",
    "TraceError": "writing",
    "areplay": "replaying",
    "open_store": "stores",
    "replay": "replaying",
}

G = TypeVar("G", bound="Runnable[Any, Any]")

_writers: dict[tuple[str, bytes | None, OnError], Writer] = {}
_lock = threading.Lock()


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"taograph.trace.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def record(graph: G, to: str, *, settings: Settings | None = None, **options: Any) -> G:
    """Record every run of a graph.

    Args:
        graph: Any graph: one of ours, ``create_agent``'s, a plain ``StateGraph`` that is compiled, or a chain.
        to: Where: ``sqlite:///path``, ``postgresql://…`` or ``jsonl:folder``.
        settings: What is recorded, and how.
        **options: Fields of :class:`Settings`, in place of a value of it.

    Returns:
        The same graph with the recording in its config.

    Raises:
        ValueError: The URL is none, or an option is out of its range.
        TypeError: There is no such option.
    """
    made: G = graph.with_config({"callbacks": list(handlers(to, settings=settings, **options))})  # type: ignore[assignment]
    return made


def handlers(to: str, *, settings: Settings | None = None, **options: Any) -> Sequence[BaseCallbackHandler]:
    """What records a run, for ``config={"callbacks": […]}``; arguments as :func:`record`."""
    from taograph.trace.barrier import Barrier
    from taograph.trace.recording import Recorder
    from taograph.trace.settings import Settings

    if settings is not None and options:
        raise TypeError(f"trace: give settings= or {', '.join(options)}, not both")
    chosen = settings or Settings(**options)
    check_url(to)
    recorder = Recorder(chosen, _writer(to, chosen))
    return [recorder, Barrier(recorder)]


def check_url(to: str) -> None:
    """Refuse what is no URL of a place for traces; nothing is opened.

    Raises:
        ValueError: It is none; the message says how it is written.
    """
    from taograph.trace.stores import open_store

    if to.partition(":")[0] not in ("sqlite", "postgresql", "postgres", "jsonl"):
        open_store(to)


def _writer(to: str, settings: Settings) -> Writer:
    """One writer for each place: two would wait for each other's transactions."""
    from taograph.trace.chain import Sealer
    from taograph.trace.writing import Writer

    key = to, settings.key, settings.on_error
    with _lock:
        if key not in _writers:
            _writers[key] = Writer(to, Sealer(settings.key), settings.on_error)
        return _writers[key]
