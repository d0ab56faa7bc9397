"""Tools of plain functions as they are called: what LangChain reads of a function at every call is read once.

For each call, LangChain's ``StructuredTool`` evaluates the annotations of its own methods and of the function, to see
whether they want a config or callbacks. Most functions want neither. Theirs are run by a subclass whose methods say so
at a glance; all else (validation, callbacks, what becomes of the result) is LangChain's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints
from weakref import ref

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, PrivateAttr

from taograph.calls import contained

_SUPPLIED = ("run_manager", "callbacks")


class PlainTool(StructuredTool):
    """A tool whose function takes its arguments and nothing else."""

    _hidden: frozenset[str] = PrivateAttr(default=frozenset(_SUPPLIED))

    def _run(self, **kwargs: Any) -> Any:  # type: ignore[override]  # no config is wanted
        if self.func is None:
            raise NotImplementedError("the tool has no sync function")
        return self.func(**kwargs)

    async def _arun(self, **kwargs: Any) -> Any:  # type: ignore[override]  # no config is wanted
        if self.coroutine is None:
            raise NotImplementedError("the tool has no async function")
        return await self.coroutine(**kwargs)

    def _filter_injected_args(self, tool_input: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in tool_input.items() if name not in self._hidden}


# LangChain evaluates them to find what to add to the arguments: there is nothing.
PlainTool._run.__annotations__ = PlainTool._arun.__annotations__ = {}


def ready(tool: StructuredTool) -> StructuredTool:
    """A tool as it is called, the same one for the same tool.

    Its coroutine is contained, since LangChain runs that in a task of its own.

    Args:
        tool: The tool; where it is changed later, it is made ready anew.
    """
    known = _READY.get(id(tool))
    if known is not None and known[0]() is tool and known[1] == vars(tool):
        return known[2]
    made = _made(tool)
    _READY[id(tool)] = (ref(tool, partial(_forget, id(tool))), {**vars(tool)}, made)
    return made


_Known = tuple["ref[StructuredTool]", dict[str, Any], StructuredTool]
_READY: dict[int, _Known] = {}


def _forget(key: int, gone: ref[StructuredTool]) -> None:
    known = _READY.get(key)
    if known is not None and known[0] is gone:  # not another that lives at its address by now
        _READY.pop(key, None)


def _made(tool: StructuredTool) -> StructuredTool:
    changed = {"coroutine": contained(tool.coroutine)} if tool.coroutine is not None else {}
    if type(tool) is not StructuredTool or not all(map(_is_plain, filter(None, (tool.func, tool.coroutine)))):
        return tool.model_copy(update=changed)
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return tool.model_copy(update=changed)
    fields = dict.fromkeys(schema.model_fields)
    if tool._filter_injected_args(fields) != fields or tool._injected_args_keys:
        return tool.model_copy(update=changed)
    return PlainTool(**{**{name: getattr(tool, name) for name in StructuredTool.model_fields}, **changed})


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether a function wants neither callbacks nor a config; where that cannot be told, it may."""
    try:
        names, hints = inspect.signature(function).parameters, get_type_hints(function)
    except Exception:  # noqa: BLE001 - annotations are any code
        return False
    wants = [
        hint for hint in hints.values() if hint is RunnableConfig or RunnableConfig in getattr(hint, "__args__", ())
    ]
    return not wants and not set(names) & {*_SUPPLIED, "config"}
