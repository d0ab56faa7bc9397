"""The tools, one file each, and the layer that runs them.

To add one, write a function with ``@tool`` in a file of its own, and name it in ``catalog.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taograph.tools.idempotency import idempotency_key
    from taograph.tools.policy import ToolError, ToolExample, ToolPolicy, tool, with_policy, with_redaction

__all__ = ["ToolError", "ToolExample", "ToolPolicy", "idempotency_key", "tool", "with_policy", "with_redaction"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562): the catalog is read without LangChain."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "idempotency" if name == "idempotency_key" else "policy"
    value = getattr(import_module(f"taograph.tools.{home}"), name)
    globals()[name] = value
    return value
