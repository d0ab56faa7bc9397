"""Graphs as servers load them."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from langchain_core.runnables import Runnable

G = TypeVar("G", bound=Runnable[Any, Any])

# What asks for spans, or for labels of the runs that LangSmith is sent; see taograph.trace.telemetry.
_ASKS = ("TAOGRAPH_OTEL", "LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")


def served(graph: G) -> G:
    """A graph that a server loads by its name in a module: its runs are recorded where ``TAOGRAPH_TRACE`` says where.

    No graph knows of the trace, which is loaded only if it is wanted; nothing is opened before the first run.

    Args:
        graph: The graph.
    """
    if not os.environ.get("TAOGRAPH_TRACE", "").strip():
        return graph
    from taograph.trace.configured import recorded

    return recorded(graph)


def observe() -> None:
    """Have runs observed where the environment asks for it: by OpenTelemetry, by LangSmith. Else nothing is loaded."""
    if any(os.environ.get(name, "").strip().lower() not in ("", "0", "false") for name in _ASKS):
        from taograph.trace.telemetry import enable_as_configured

        enable_as_configured()
