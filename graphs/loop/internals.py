"""The few things the loop needs that LangGraph keeps private, in one place.

- ``RunnableCallable``: a node with a sync and an async form. The public way, ``RunnableLambda``, adds a traced
  run of its own to every node; a plain function would run in an executor thread under ``ainvoke``.
- ``ToolNode._inject_tool_args``: the arguments that LangGraph supplies to a tool (``InjectedState``,
  ``InjectedStore``, ``ToolRuntime``); writing it again would drift from what tools expect.
- A compiled graph made anew as a subclass, the way ``Pregel.copy`` does it.
- The keys under which a node finds its runtime and its state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT
from langchain_core.tools import BaseTool
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINTER, CONFIG_KEY_READ, CONFIG_KEY_RUNTIME
from langgraph._internal._runnable import RunnableCallable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import _get_all_injected_args
from langgraph.runtime import Runtime

from taograph.calls import Steps, adrive, drive
from taograph.graphs.loop.channels import check_input
from taograph.tools.results import without_artifact

log = logging.getLogger("taograph.graphs")


def node(name: str, core: Callable[[Any, RunnableConfig], Steps[Any]]) -> Runnable[Any, Any]:
    """A node from a core: driven by threads under ``invoke``, by the event loop under ``ainvoke``."""

    def sync(state: Any, config: RunnableConfig) -> Any:
        return drive(core(state, config))

    async def asynchronous(state: Any, config: RunnableConfig) -> Any:
        return await adrive(core(state, config))

    return RunnableCallable(sync, asynchronous, name=name, trace=False)


def router(name: str, route: Callable[[Any], Any]) -> Runnable[Any, Any]:
    """A conditional edge that costs no thread under ``ainvoke``."""

    async def asynchronous(state: Any) -> Any:
        return route(state)

    return RunnableCallable(route, asynchronous, name=name, trace=False)


class OwnLimitGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose own ``recursion_limit`` holds where the caller set none.

    ``batch``, ``abatch`` and LCEL write langchain-core's default of 25 into every config they pass on, which
    would override the graph's own. So 25 counts as not set in a config that langchain-core has filled in.
    Input that is no message is refused with an error that says how one is written.
    """

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; ``invoke`` and ``batch`` come here too."""
        check_input(input)
        return super().stream(input, _without_default_limit(config), **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; ``ainvoke`` and ``abatch`` come here too."""
        check_input(input)
        return super().astream(input, _without_default_limit(config), **options)


def with_own_limit(graph: CompiledStateGraph[Any, Any, Any, Any], recursion_limit: int) -> OwnLimitGraph:
    """A graph with a ``recursion_limit`` of its own."""
    parts = {name: value for name, value in vars(graph).items() if name != "__orig_class__"}  # as Pregel.copy does
    return OwnLimitGraph(**parts).with_config({"recursion_limit": recursion_limit})


def _without_default_limit(config: RunnableConfig | None) -> RunnableConfig | None:
    filled_in = config is not None and config.keys() >= {"tags", "metadata", "callbacks", "configurable"}
    if not config or not filled_in or config.get("recursion_limit") != DEFAULT_RECURSION_LIMIT:
        return config
    kept = config.copy()
    del kept["recursion_limit"]
    return kept


def runtime_of(config: RunnableConfig) -> Runtime[Any]:
    """The runtime of the node that runs under a config; an empty one outside a graph."""
    found = (config.get("configurable") or {}).get(CONFIG_KEY_RUNTIME)
    return found if isinstance(found, Runtime) else Runtime()


def invocation_of(config: RunnableConfig) -> object:
    """What is the same in all nodes of one ``invoke`` or ``stream``, nested graphs included, and in no other."""
    return runtime_of(config).control


def _asks(tool: BaseTool) -> bool:
    """Whether a tool asks the graph for state, store or runtime."""
    try:
        asked = _get_all_injected_args(tool)
    except (TypeError, NameError):  # no function whose hints can be read, such as a partial: nothing is asked there
        return False
    return bool(asked.state or asked.store or asked.runtime)


class Injector:
    """Supplies the arguments of tools that ask the graph for state, store or runtime.

    Args:
        tools: All tools of the graph.
    """

    def __init__(self, tools: list[BaseTool]) -> None:
        asking = [tool for tool in tools if _asks(tool)]
        self._asking = {tool.name for tool in asking}
        self._node = ToolNode(asking) if asking else None

    def needed_by(self, name: str) -> bool:
        """Whether a tool asks for anything."""
        return name in self._asking

    def inject(self, call: ToolCall, state: Any, config: RunnableConfig) -> ToolCall:
        """A call with the graph's arguments added; what the model wrote in their place is dropped."""
        if self._node is None or call["name"] not in self._asking:
            return call
        runtime = runtime_of(config)
        given = ToolRuntime(
            state=state,
            context=runtime.context,
            config=config,
            stream_writer=runtime.stream_writer,
            tool_call_id=call["id"],
            store=runtime.store,
        )
        return self._node._inject_tool_args(call, given)


def storable(message: ToolMessage, config: RunnableConfig) -> ToolMessage:
    """A tool's message as the checkpointer can store it: what came beside its text may be anything.

    Where there is no checkpointer, everything is kept.
    """
    saver = saver_of(config)
    if saver is None or not (message.artifact or message.additional_kwargs):
        return message
    try:
        saver.serde.dumps_typed(message)
    except Exception as error:  # noqa: BLE001 - whatever a serializer may raise
        log.warning("the artifact of tool %s cannot be stored and is dropped: %s", message.name, type(error).__name__)
        return without_artifact(message)
    return message


def saver_of(config: RunnableConfig) -> BaseCheckpointSaver[Any] | None:
    """The checkpointer of the run, the parent's in a nested graph."""
    saver = (config.get("configurable") or {}).get(CONFIG_KEY_CHECKPOINTER)
    return saver if isinstance(saver, BaseCheckpointSaver) else None


def place_of(config: RunnableConfig) -> tuple[str, str] | None:
    """The thread of a node's graph and the graph's namespace in it; None where nothing is stored."""
    configurable = config.get("configurable") or {}
    thread = configurable.get("thread_id")
    if thread is None or saver_of(config) is None:
        return None
    return str(thread), str(configurable.get("checkpoint_ns") or "").rpartition("|")[0]


def read_messages(config: RunnableConfig) -> list[Any]:
    """The messages of the state, for a node that was sent a payload of its own."""
    read = (config.get("configurable") or {}).get(CONFIG_KEY_READ)
    return list(read("messages") or []) if read is not None else []
