"""Tools of plain functions as they are called: what LangChain reads of a function at every call is read once.

For each call, LangChain's ``StructuredTool`` evaluates the annotations of its own methods and of the function, to see
whether they want a config or callbacks. Most functions want neither. Theirs are run by a subclass whose methods say so
at a glance; all else (validation, callbacks, what becomes of the result) is LangChain's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import is_
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, PrivateAttr

from taograph.calls import contained

_SUPPLIED = ("run_manager", "callbacks")
# What LangChain's own methods take out of the arguments, or cannot be given.
_TAKEN = {*_SUPPLIED, "config", "self"}


class PlainTool(StructuredTool):
    """A tool whose function takes its arguments and nothing else."""

    _hidden: frozenset[str] = PrivateAttr(default=frozenset(_SUPPLIED))

    def _run(self, **kwargs: Any) -> Any:  # type: ignore[override]  # no config is wanted
        if self.func is None:
            raise NotImplementedError("StructuredTool does not support sync invocation.")
        return self.func(**kwargs)

    async def _arun(self, **kwargs: Any) -> Any:  # type: ignore[override]  # no config is wanted
        if self.coroutine is None:
            raise NotImplementedError("the tool has no async function")
        return await self.coroutine(**kwargs)

    def _filter_injected_args(self, tool_input: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in tool_input.items() if name not in self._hidden}


# LangChain evaluates them to find what to add to the arguments: there is nothing.
PlainTool._run.__annotations__ = PlainTool._arun.__annotations__ = {}


_READY = "_taograph_ready"


class _Ready:
    """A tool as it is called, which the tool itself keeps: both go together, also where its function holds the tool.

    It is no part of what is pickled or copied in depth.

    Args:
        made: The tool as it is called.
        of: What it was made of.
    """

    def __init__(self, made: StructuredTool, of: dict[str, Any]) -> None:
        self.made, self.of = made, of

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def ready(tool: StructuredTool) -> StructuredTool:
    """A tool as it is called, the same one for the same tool.

    Its coroutine is contained, since LangChain runs that in a task of its own.

    Args:
        tool: The tool; where it is changed later, it is made ready anew.
    """
    if type(tool) is not StructuredTool:  # it may keep more than its fields
        return _contained(tool)
    kept = vars(tool).get(_READY)
    if not isinstance(kept, _Ready) or not _is_same(kept.of, _parts(tool)):
        made = _made(tool)
        vars(made).pop(_READY, None)
        kept = vars(tool)[_READY] = _Ready(made, _parts(tool))
    return kept.made


def _parts(tool: StructuredTool) -> dict[str, Any]:
    parts = vars(tool).copy()
    parts.pop(_READY, None)
    return parts


def _is_same(before: dict[str, Any], now: dict[str, Any]) -> bool:
    return before.keys() == now.keys() and all(map(is_, before.values(), map(now.__getitem__, before)))


def _contained(tool: StructuredTool) -> StructuredTool:
    return tool.model_copy(update=_changes(tool)) if tool.coroutine is not None else tool


def _changes(tool: StructuredTool) -> dict[str, Any]:
    return {} if tool.coroutine is None else {"coroutine": contained(tool.coroutine)}


def _made(tool: StructuredTool) -> StructuredTool:
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)) or schema.model_config.get("extra") == "allow":
        return _contained(tool)
    fields = dict.fromkeys(schema.model_fields)
    if fields.keys() & _TAKEN or tool._filter_injected_args(fields) != fields or tool._injected_args_keys:
        return _contained(tool)
    if not all(map(_is_plain, filter(None, (tool.func, tool.coroutine)))):
        return _contained(tool)
    changed = _changes(tool)
    made = PlainTool(**{**{name: getattr(tool, name) for name in StructuredTool.model_fields}, **changed})
    # The very same tags and metadata, which may be changed in place.
    vars(made).update({**vars(tool), **changed})
    return made


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a function wants neither callbacks nor a config; where that cannot be told, it may."""
    try:
        names, hints = inspect.signature(function).parameters, get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are any code
        return False
    wants = [
        hint for hint in hints.values() if hint is RunnableConfig or RunnableConfig in getattr(hint, "__args__", ())
    ]
    return not wants and not names.keys() & _TAKEN
