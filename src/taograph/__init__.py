"""taograph: ReAct agents as LangGraph graphs that always end and always say why.

The public names are loaded when they are first used: ``import taograph`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taograph.cancel import Cancellation
    from taograph.graphs.loop.context import Context
    from taograph.graphs.loop.events import Event
    from taograph.graphs.loop.limits import Limits
    from taograph.graphs.loop.stopping import Stop, StopReason
    from taograph.graphs.loop.streaming import astream_steps, stream_steps
    from taograph.graphs.react import create_react_graph
    from taograph.tools.policy import ToolError, ToolPolicy, tool
    from taograph.writers.holders import ThreadBusyError, ThreadLostError

__version__ = "0.1.0"

_HOMES = {
    "Cancellation": "taograph.cancel",
    "Context": "taograph.graphs.loop.context",
    "Event": "taograph.graphs.loop.events",
    "Limits": "taograph.graphs.loop.limits",
    "Stop": "taograph.graphs.loop.stopping",
    "StopReason": "taograph.graphs.loop.stopping",
    "ThreadBusyError": "taograph.writers.holders",
    "ThreadLostError": "taograph.writers.holders",
    "ToolError": "taograph.tools.policy",
    "ToolPolicy": "taograph.tools.policy",
    "astream_steps": "taograph.graphs.loop.streaming",
    "create_react_graph": "taograph.graphs.react",
    "stream_steps": "taograph.graphs.loop.streaming",
    "tool": "taograph.tools.policy",
}

__all__ = [
    "Cancellation",
    "Context",
    "Event",
    "Limits",
    "Stop",
    "StopReason",
    "ThreadBusyError",
    "ThreadLostError",
    "ToolError",
    "ToolPolicy",
    "__version__",
    "astream_steps",
    "create_react_graph",
    "stream_steps",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'taograph' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
