"""Where a graph comes from: its strategy and the options it was made with, so that a record of a run tells it.

A recorded run is replayed by a graph that is made again (:mod:`taograph.trace.replaying`). What a record cannot hold,
such as a function, is named, so that nobody takes the graph that is made without it for the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from langchain_core.language_models import BaseLanguageModel
from langchain_core.tools import BaseTool
from pydantic import TypeAdapter

from taograph.graphs.loop.limits import Limits
from taograph.models.prices import model_name
from taograph.models.windows import reply_tokens, window_of
from taograph.served import observe
from taograph.tools.policy import policy_of

if TYPE_CHECKING:
    from taograph.graphs.loop.agent import Agent, Bound

P = ParamSpec("P")
R = TypeVar("R")

_POLICY = ("effects", "timeout", "max_chars", "approve", "trusted", "on_unknown")


@dataclass(frozen=True, slots=True)
class Origin:
    """The call of a factory.

    Attributes:
        strategy: The strategy's name.
        options: Its own options, beside those that every strategy has; as they were given.
    """

    strategy: str
    options: Mapping[str, Any]


_making: ContextVar[Origin | None] = ContextVar("taograph_origin", default=None)


def a_strategy(factory: Callable[P, R]) -> Callable[P, R]:
    """The factory of a strategy, so that what it makes knows where it comes from."""
    name = factory.__name__.removeprefix("create_").removesuffix("_graph")
    signature = inspect.signature(factory)
    shared = {"model", "tools", "options", *_SHARED}
    own = {p.name: p.default for p in signature.parameters.values() if p.name not in shared}

    @wraps(factory)
    def make(*args: P.args, **kwargs: P.kwargs) -> R:
        observe()
        given = {key: value for key, value in kwargs.items() if key in own and value is not own[key]}
        token = _making.set(Origin(name, given))
        try:
            return factory(*args, **kwargs)
        finally:
            _making.reset(token)

    return make


def origin() -> Origin | None:
    """The call of a factory that is at work."""
    return _making.get()


def setup_of(agent: Agent, bound: Bound) -> dict[str, Any]:
    """What a graph like this one is made of, as values that can be recorded.

    Args:
        agent: Its parts.
        bound: The model of the run.

    Returns:
        The parts. ``missing`` has the names of those that are no values: functions, graphs, models of other parts.
    """
    made = agent.origin
    options = {} if made is None else {key: _value(value) for key, value in made.options.items()}
    missing = [key for key, value in options.items() if value is _NONE]
    checks: dict[str, Any] = {}
    if isinstance(agent.verify, BaseLanguageModel):
        checks["verify"] = model_name(agent.verify) or type(agent.verify).__name__
    elif agent.verify is not None:
        missing.append("verify")
    if agent.approvals.predicate is not None:
        missing.append("approve")
    structure = agent.structure
    return {
        "strategy": None if made is None else made.strategy,
        "options": {key: value for key, value in options.items() if value is not _NONE},
        "missing": missing,
        "limits": agent.limits.to_dict(),
        "system_prompt": agent.system_prompt,
        "protocol": "text" if bound.protocol == "text" else agent.protocol,
        "examples": list(agent.examples),
        "require": list(agent.require),
        "approve": sorted(agent.approvals.names),
        **({"response_format": {"name": structure.name, "schema": dict(structure.schema)}} if structure else {}),
        **checks,
        "model": {
            "name": bound.name,
            "window": window_of(bound.model),
            "reply_tokens": reply_tokens(bound.model),
            "worked_examples": bool(getattr(bound.model, "worked_examples", False)),
            "free_of_charge": bool(getattr(bound.model, "free_of_charge", False)),
        },
        "tools": [_tool(tool) for tool in agent.tools],
    }


def _tool(tool: BaseTool) -> dict[str, Any]:
    schema = tool.tool_call_schema
    policy = policy_of(tool)
    return {
        "name": tool.name,
        "description": tool.description,
        "args": schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema(),
        "policy": {name: getattr(policy, name) for name in _POLICY},
        # Small models and the text protocol are shown them.
        "examples": [asdict(example) for example in policy.examples],
        "return_direct": tool.return_direct,
    }


_NONE = object()


def _value(value: Any) -> Any:
    """An option as a plain value; ``_NONE`` where it is none."""
    if isinstance(value, Limits):
        return {"limits": value.to_dict()}
    if isinstance(value, BaseLanguageModel):
        return {"model": model_name(value) or type(value).__name__}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        made: Any = {str(key): _value(item) for key, item in value.items()}
        return _NONE if _NONE in made.values() else made
    if isinstance(value, list | tuple):
        made = [_value(item) for item in value]
        return _NONE if _NONE in made else made
    return _NONE


# fmt: off
_SHARED = frozenset((
    "system_prompt", "protocol", "examples", "limits", "response_format", "require", "approve", "verify",
    "checkpointer", "store", "context_schema", "name",
))
# fmt: on
