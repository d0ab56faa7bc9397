"""Running one tool call: every outcome but an interrupt is an observation.

A call runs alone; whatever happens to it leaves its siblings' results in place. What the model is told of a
failure says what to change; the text of an unexpected exception is not shown to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from pydantic import BaseModel, ValidationError

from taograph.calls import TOOL_THREADS, Call, Cancelled, Exited, Steps, TimedOut, contained
from taograph.redaction import redact
from taograph.tools.outcome import ToolRun, failed, succeeded
from taograph.tools.policy import policy_of
from taograph.tools.ready import ready
from taograph.tools.schemas import complaints, fault_of

log = logging.getLogger("taograph.tools")

StandIn = Callable[[ToolCall, RunnableConfig], ToolRun]
STAND_IN: ContextVar[StandIn | None] = ContextVar("taograph_stand_in", default=None)
"""What answers calls in the place of their tools: where a recorded run is replayed, no tool is called."""


def run_call(
    call: ToolCall,
    tools: Mapping[str, BaseTool],
    *,
    config: RunnableConfig,
    seconds: float | None,
    inject: Callable[[ToolCall], ToolCall] | None = None,
) -> Steps[ToolRun]:
    """Run one tool call.

    Args:
        call: The call, with an id.
        tools: The tools by name.
        config: The config of the node that runs it, for callbacks and interrupts.
        seconds: What is left of the run's time; None for no limit.
        inject: Adds the arguments that the graph supplies (state, store, runtime), where a tool has such.

    Raises:
        GraphBubbleUp: The tool waits for a person, or hands over to another graph.
    """
    stand_in = STAND_IN.get()
    if stand_in is not None:
        return stand_in(call, config)
    tool = tools.get(call["name"])
    if tool is None:
        known = ", ".join(sorted(tools)) or "none"
        return failed(call, f"There is no tool named {call['name']!r}. The tools are: {known}.")
    complaint = check_arguments(tool, call["args"])
    if complaint:
        return failed(call, complaint)
    policy = policy_of(tool)
    try:
        injected = inject(call) if inject else call
    except Exception as error:  # noqa: BLE001
        # Not the model's to mend, and LangGraph's words say how: "please compile your graph with a store".
        log.error("tool %s cannot be given what it asks of the graph: %s", call["name"], redact(str(error)))
        return failed(call, f"{call['name']} cannot be used here. Try another tool.", error=error)
    func, afunc = _ways(tool, injected, config)
    try:
        result = yield Call(func, afunc, seconds, TOOL_THREADS, once_begun=policy.timeout)
    except GraphBubbleUp:
        raise
    except TimedOut as error:
        if not error.begun:
            return failed(call, f"{call['name']} was not run: the run's time was over before it began.", error=error)
        # A thread cannot be killed and a request that was sent may have been served.
        own = policy.timeout is not None and (seconds is None or policy.timeout <= seconds)
        cause = f"no result within {policy.timeout:g} s" if own else "the run's time was over"
        return failed(
            call, f"{call['name']} was given up: {cause}. Whether it took effect is unknown.", ran=True, error=error
        )
    except Cancelled as error:
        if not error.begun:
            return failed(call, f"{call['name']} was not run: the run was cancelled before it began.", error=error)
        why = f"{call['name']} was given up: the run was cancelled. Whether it took effect is unknown."
        return failed(call, why, ran=True, error=error)
    except ToolException as error:
        said = redact(str(error)) or "The tool failed without saying why."
        return failed(call, said, ran=True, error=error, policy=policy)
    except Exception as error:
        if is_invalid_resume(error):  # the person's answer was not acceptable: ask again, not the model's affair
            raise
        cause_of = error.error if isinstance(error, Exited) else error
        name = type(cause_of).__name__
        log.warning("tool %s failed: %s", call["name"], name)
        text = f"{call['name']} failed ({name}). Try other arguments, or another tool."
        return failed(call, text, ran=True, error=cause_of)
    return succeeded(call, result, policy)


def check_arguments(tool: BaseTool, args: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a call, in words a model can act on; None if nothing is."""
    schema = tool.tool_call_schema
    problems: list[str] = []
    if isinstance(schema, dict):
        if fault_of(schema) is None:  # else nobody but the tool can tell
            problems += complaints(schema, dict(args))
    elif issubclass(schema, BaseModel):
        try:
            schema.model_validate(dict(args))
        except ValidationError as error:
            problems += [_problem(one["loc"], one["msg"]) for one in error.errors(include_url=False)]
        except Exception as error:  # noqa: BLE001 - a validator of the tool's own
            problems.append(f"a value was not accepted ({type(error).__name__})")
        unknown = sorted(set(args) - _accepted(schema))
        if unknown and schema.model_config.get("extra") not in ("allow", "forbid"):
            problems.append(f"{', '.join(unknown)}: no such argument")
    if not problems:
        return None
    described = ", ".join(f"{name} ({_kind(spec)})" for name, spec in tool.args.items()) or "no arguments"
    return (
        f"The arguments of {tool.name} are not valid, so it was not run: {redact('; '.join(problems[:5]))}. "
        f"It takes: {described}. Correct the arguments and call it again."
    )


@lru_cache(maxsize=256)
def _accepted(schema: type[BaseModel]) -> frozenset[str]:
    return frozenset(schema.model_fields).union(f.alias for f in schema.model_fields.values() if f.alias)


def _problem(loc: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in loc)
    return f"{where}: {message}" if where else message


def _kind(spec: Mapping[str, Any]) -> str:
    if "enum" in spec:
        return "one of " + ", ".join(map(str, spec["enum"]))
    kind = spec.get("type") or " or ".join(str(a.get("type", "value")) for a in spec.get("anyOf", [])) or "value"
    return f"{kind}, optional" if "default" in spec else str(kind)


def _ways(
    tool: BaseTool, call: ToolCall, config: RunnableConfig
) -> tuple[Callable[[], Any] | None, Callable[[], Any] | None]:
    """The blocking and the async way to run a tool, each None where it has only the other.

    LangChain runs a sync tool's async way in the loop's default executor, whose threads are joined when the
    loop closes; ours may hang without keeping the process.
    """
    sync, native = True, type(tool)._arun is not BaseTool._arun
    if isinstance(tool, StructuredTool) or isinstance(tool, Tool):  # noqa: SIM101 - mypy reads it
        sync, native = tool.func is not None, tool.coroutine is not None
        if isinstance(tool, StructuredTool):
            tool = ready(tool)
        elif tool.coroutine is not None:  # LangChain runs it in a task of its own
            tool = tool.model_copy(update={"coroutine": contained(tool.coroutine)})
    return (
        (lambda: tool.invoke(call, config)) if sync else None,
        (lambda: tool.ainvoke(call, config)) if native else None,
    )
