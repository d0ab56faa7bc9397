"""Where a run of LangChain's stands within a trace, and what is read from what a callback is told of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langgraph.types import Command

from taograph.models.prices import Price
from taograph.trace.messages import message_dict

_PACKAGES = ("taograph", "langgraph", "langchain-core")
# Where a run's metadata or configurable says who it is for.
_USERS = ("user_id", "user", "langgraph_auth_user_id")


@dataclass
class Trace:
    """One call of a graph.

    Attributes:
        id: Of its outermost run.
        start: What run_started says, until it is written.
        seen: Hashes of the messages of the system and of the user that are recorded.
        steps: Turns by the graph they belong to, where it does not tell them.
        totals: What was spent.
        asked: Ids of the questions to a person that are recorded.
        open_calls: Calls without a result, of graphs that do not tell them.
        waits: Whether it waits for a person.
        depth: Nodes around it, where the graph is part of one that is not recorded here.
        open_runs: What is under way of it, and whether an event loop began it.
        is_closed: Whether its end is recorded: what comes late is not.
        told: Done when the last event that nobody has waited for is stored, or lost.
        unwatch: Stop waiting for the end of the task that it is a part of.
    """

    id: str
    thread: str | None
    user: str | None
    run: str
    start: dict[str, Any] | None
    began: float = field(default_factory=time.monotonic)
    seen: set[str] = field(default_factory=set)
    steps: dict[UUID, int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    open_calls: set[str] = field(default_factory=set)
    waits: bool = False
    depth: int = 0
    open_runs: dict[UUID, bool] = field(default_factory=dict)
    is_closed: bool = False
    told: Future[None] | None = None
    unwatch: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A run of LangChain's within a trace: a graph, a node, a model's or a tool's call."""

    trace: Trace
    parent: UUID | None
    path: tuple[str, ...]
    step: int = 0
    run: str = ""
    began: float = 0.0
    about: Mapping[str, Any] = field(default_factory=dict)
    task: tuple[str, ...] = ()


def user_of(metadata: Mapping[str, Any]) -> str | None:
    """Who a run is for, where its metadata says so."""
    return next((str(metadata[name]) for name in _USERS if metadata.get(name)), None)


@cache
def versions() -> dict[str, str]:
    """The versions that a run is made with."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def model_of(told: Mapping[str, Any]) -> str:
    """The name of a model, from what a callback is told of its call."""
    options = told.get("invocation_params") or {}
    return str((told.get("metadata") or {}).get("ls_model_name") or options.get("model") or "")


def usage_of(message: AIMessage, price: Price | None) -> dict[str, Any]:
    """Tokens and dollars of a reply; zeros where the provider reports nothing."""
    told = message.usage_metadata
    sent = told["input_tokens"] if told else 0
    received = told["output_tokens"] if told else 0
    details = told.get("input_token_details") if told else None
    cached = min((details or {}).get("cache_read") or 0, sent)
    cost = price.dollars(sent, received, cached) if price else 0.0
    return {"input_tokens": sent, "output_tokens": received, "cached_tokens": cached, "cost": cost}


def on_a_loop() -> bool:
    """Whether it is an event loop that works here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def at_end_of_task(do: Callable[[], object]) -> Callable[[], object] | None:
    """Have something done when the task that runs here has ended; returns what takes that back, None without a task."""
    if not on_a_loop() or (task := asyncio.current_task()) is None:
        return None

    def ended(gone: asyncio.Task[Any]) -> None:
        do()

    task.add_done_callback(ended)
    return lambda: task.remove_done_callback(ended)


def is_new(seen: set[str], message: BaseMessage) -> bool:
    """Whether a message was not seen before; from now on it was."""
    key = f"{message.type}:{message.id or ''}:{sha256(str(message.content).encode()).hexdigest()}"
    if key in seen:
        return False
    seen.add(key)
    return True


def tool_name(tool: Any) -> str:
    """The name of a tool, as it is offered to a model."""
    if not isinstance(tool, Mapping):
        return str(getattr(tool, "name", ""))
    function = tool.get("function")
    return str((function if isinstance(function, Mapping) else tool).get("name") or "")


def depth_in(metadata: Mapping[str, Any]) -> int:
    """How many nodes a run of LangChain's is in."""
    ns = metadata.get("langgraph_checkpoint_ns")
    return str(ns).count("|") + 1 if ns else 0


def path_in(parent: Place, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the nodes down to the graph that a run of LangChain's is in, from the outermost that is recorded."""
    ns = metadata.get("langgraph_checkpoint_ns")
    if not ns:
        return parent.path
    return tuple(part.partition(":")[0] for part in str(ns).split("|")[parent.trace.depth : -1])


def task_in(parent: Place, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The nodes that a run of LangChain's is in, from the outermost graph down: ``sample[2]`` is the third of those
    that were sent. Unlike LangGraph's ids they are the same when the graph runs once more.
    """
    ns, name = metadata.get("langgraph_checkpoint_ns"), metadata.get("langgraph_node")
    if not ns or not name:
        return parent.task
    path = tuple(metadata.get("langgraph_path") or ())
    own = f"{name}[{path[1]}]" if path and "push" in str(path[0]) else str(name)
    return (*parent.task[: max(0, depth_in(metadata) - 1 - parent.trace.depth)], own)


def given_in(inputs: Any) -> dict[str, Any]:
    """What a call of a graph was given: its input, or the answers that it goes on with."""
    if isinstance(inputs, Command):
        return {"resume": plain_input(inputs.resume)}
    if not isinstance(inputs, Mapping):
        return {} if inputs is None else {"given": plain_input(inputs)}
    made = dict(inputs)
    try:
        messages = made.get("messages")
        if messages is not None:
            made["messages"] = convert_to_messages(messages if isinstance(messages, list | tuple) else [messages])
    except (ValueError, NotImplementedError):  # the graph will say what is wrong with it
        pass
    return {"given": plain_input(made)}


def plain_input(inputs: Any) -> Any:
    """The input of a graph as plain values."""
    if isinstance(inputs, BaseMessage):
        return message_dict(inputs)
    if isinstance(inputs, Mapping):
        return {str(key): plain_input(value) for key, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return [plain_input(item) for item in inputs]
    return inputs if isinstance(inputs, str | int | float | bool) or inputs is None else str(type(inputs).__name__)
