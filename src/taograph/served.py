"""Graphs as servers load them."""

from __future__ import annotations

import os
import sys
from typing import Any, TypeVar

from langchain_core.runnables import Runnable

G = TypeVar("G", bound=Runnable[Any, Any])

# What asks for spans, or for labels of the runs that LangSmith is sent; see taograph.trace.telemetry.
_ASKS = ("TAOGRAPH_OTEL", "LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")


def served(graph: G) -> G:
    """A graph that a server loads by its name in a module.

    Its runs are recorded where ``TAOGRAPH_TRACE`` says where; in a LangGraph server also where nothing says it, in the
    user's own file, unless ``TAOGRAPH_TRACE`` is "none". No graph knows of the trace, which is loaded only if it is
    wanted; nothing is opened before the first run.

    Args:
        graph: The graph.
    """
    is_server = "langgraph_api" in sys.modules
    if not is_server and not os.environ.get("TAOGRAPH_TRACE", "").strip():
        return graph
    from taograph.trace.configured import own_url, recorded

    return recorded(graph, default=own_url() if is_server else None)


def observe() -> None:
    """Have runs observed where the environment asks for it: by OpenTelemetry, by LangSmith. Else nothing is loaded."""
    if any(os.environ.get(name, "").strip().lower() not in ("", "0", "false") for name in _ASKS):
        from taograph.trace.telemetry import enable_as_configured

        enable_as_configured()
