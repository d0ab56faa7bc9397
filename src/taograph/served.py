"""Graphs as servers load them."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from langchain_core.runnables import Runnable

G = TypeVar("G", bound=Runnable[Any, Any])


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
