"""What a caller can set at run time: ``graph.invoke(…, context=…)``, Studio's assistant form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from taograph.graphs.loop.limits import Limits


@dataclass(kw_only=True)
class Context:
    """Settings of one run; what is None comes from the graph.

    Attributes:
        model: The model, as text: "openai:NAME", "local", "http://host:port/v1#name".
        system_prompt: Instructions that stand before the conversation.
        steps: Reasoning turns.
        tool_calls: Tool calls.
        seconds: Active seconds.
        tokens: Tokens, sent and received together.
        cost: US dollars.
        window: The model's context window in tokens, where its profile does not say it or says too much. Requests are
            kept within it: older observations are condensed, older rounds summarized.
    """

    model: str | None = field(
        default=None,
        metadata={"description": 'The model: "openai:NAME", "local", or "http://host:port/v1#name".'},
    )
    system_prompt: str | None = field(
        default=None, metadata={"description": "Instructions that stand before the conversation."}
    )
    steps: int | None = field(default=None, metadata={"description": "Reasoning turns a run may take."})
    tool_calls: int | None = field(default=None, metadata={"description": "Tool calls a run may make."})
    seconds: float | None = field(default=None, metadata={"description": "Active seconds a run may take."})
    tokens: int | None = field(default=None, metadata={"description": "Tokens a run may use, both ways."})
    cost: float | None = field(default=None, metadata={"description": "US dollars a run may cost."})
    window: int | None = field(
        default=None, metadata={"description": "The model's context window in tokens; requests are kept within it."}
    )


_LIMITS = ("steps", "tool_calls", "seconds", "tokens", "cost")
_NAMES = tuple(f.name for f in fields(Context))


def read_context(context: Any) -> dict[str, Any]:
    """What a run's context sets, whatever its type: ours, the caller's own schema, a mapping, or None."""
    if context is None:
        return {}
    given = context if isinstance(context, Mapping) else {name: getattr(context, name, None) for name in _NAMES}
    return {name: given[name] for name in _NAMES if given.get(name) is not None}


def with_context(limits: Limits, settings: Mapping[str, Any]) -> Limits:
    """The limits of a graph with those that a run's context sets.

    Raises:
        ValueError: A value out of its range; the message names the field.
    """
    changes = limits_in(settings)
    return replace(limits, **changes) if changes else limits


def kept_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a run keeps when it goes on: its limits, and the window."""
    return {name: settings[name] for name in (*_LIMITS, "window") if name in settings}


def limits_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The limits among the settings of a run."""
    return {name: settings[name] for name in _LIMITS if name in settings}
