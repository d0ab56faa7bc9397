"""Chat models: resolving a name to one, endpoints, the local model, prices, scripted models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taograph.models.prices import FlatPrice, set_price
    from taograph.models.resolving import NoModel, default_model, resolve
    from taograph.models.scripted import ScriptedModel, call
    from taograph.models.text_exchange import MalformedStepError
    from taograph.models.text_react import TextReAct

_HOMES = {
    "FlatPrice": "prices",
    "MalformedStepError": "text_exchange",
    "NoModel": "resolving",
    "ScriptedModel": "scripted",
    "TextReAct": "text_react",
    "call": "scripted",
    "default_model": "resolving",
    "resolve": "resolving",
    "set_price": "prices",
}

__all__ = [
    "FlatPrice",
    "MalformedStepError",
    "NoModel",
    "ScriptedModel",
    "TextReAct",
    "call",
    "default_model",
    "resolve",
    "set_price",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562); `tao model list` needs no LangChain."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"taograph.models.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
