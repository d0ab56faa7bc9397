"""The few things the loop needs that LangGraph and langchain-core keep private, in one place.

- ``RunnableCallable``: a node with a sync and an async form. The public way, ``RunnableLambda``, adds a traced
  run of its own to every node; a plain function would run in an executor thread under ``ainvoke``.
- ``ToolNode._inject_tool_args``: the arguments that LangGraph supplies to a tool (``InjectedState``,
  ``InjectedStore``, ``ToolRuntime``); writing it again would drift from what tools expect.
- A compiled graph made anew as a subclass, the way ``Pregel.copy`` does it, and the config that a run will have.
- The keys under which a node finds its runtime and its state.
- ``_StreamingCallbackHandler``: what makes a chat model stream where it is invoked and someone listens.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT
from langchain_core.tools import BaseTool
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.utils.uuid import uuid7
from langgraph._internal._config import ensure_config
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINTER, CONFIG_KEY_READ, CONFIG_KEY_RUNTIME
from langgraph._internal._runnable import RunnableCallable
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import _get_all_injected_args
from langgraph.runtime import RunControl, Runtime

from taograph import writers
from taograph.calls import Steps, adrive, drive
from taograph.graphs.loop.channels import check_input
from taograph.graphs.loop.context import read_context, with_context
from taograph.graphs.loop.limits import Limits
from taograph.tools.results import without_artifact

log = logging.getLogger("taograph.graphs")

# LangGraph's server writes this into the metadata of its runs; it lets the runs of a thread follow one another.
_SERVER = "langgraph_api_version"


class Listener(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Hears a reply as it is written.

    Args:
        begin: Is called when a model begins to reply, also where it is asked once more.
        hear: Is called with each piece of its text.
    """

    run_inline = True  # else each token of an async stream would go through a thread

    def __init__(self, begin: Callable[[], None], hear: Callable[[str], None]) -> None:
        self._begin, self._hear = begin, hear

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        """A reply begins."""
        self._begin()

    def on_llm_start(self, *args: Any, **kwargs: Any) -> None:
        """A reply begins."""
        self._begin()

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """A piece of it; reasoning is none of its text."""
        message = getattr(chunk, "message", None)
        text = str(message.text) if isinstance(message, BaseMessage) else token if isinstance(token, str) else ""
        if text:
            self._hear(text)

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Outputs pass as they are."""
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Outputs pass as they are."""
        return output


def node(name: str, core: Callable[[Any, RunnableConfig], Steps[Any]], child: Any = None) -> Runnable[Any, Any]:
    """A node from a core: driven by threads under ``invoke``, by the event loop under ``ainvoke``.

    Args:
        name: Its name.
        core: What it does.
        child: The graph that it runs, if any: LangGraph looks for it among what the function holds, to draw it and
            to find its state.
    """

    def sync(state: Any, config: RunnableConfig) -> Any:
        _ = child  # held, to be found
        return drive(core(state, config))

    async def asynchronous(state: Any, config: RunnableConfig) -> Any:
        return await adrive(core(state, config))

    return RunnableCallable(sync, asynchronous, name=name, trace=False)


def router(name: str, route: Callable[[Any], Any]) -> Runnable[Any, Any]:
    """A conditional edge that costs no thread under ``ainvoke``."""

    async def asynchronous(state: Any) -> Any:
        return route(state)

    return RunnableCallable(route, asynchronous, name=name, trace=False)


class Control(RunControl):
    """LangGraph's control of one ``invoke`` or ``stream``, with what its nodes keep for each other while it lasts.

    Args:
        outer: The control that was given for it: what asks that one to drain, asks this one.

    Attributes:
        kept: What is kept, by run.
    """

    def __init__(self, outer: RunControl | None = None) -> None:
        super().__init__()
        self.kept: dict[str | None, object] = {}
        self._outer = outer

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to end after the step at hand, and what it was started for, which waits for it."""
        super().request_drain(reason)
        if self._outer is not None:
            self._outer.request_drain(reason)

    @property
    def drain_requested(self) -> bool:
        """Whether the run is asked to end after the step at hand."""
        return self.drain_reason is not None

    @property
    def drain_reason(self) -> str | None:
        """Why."""
        return super().drain_reason or (self._outer.drain_reason if self._outer is not None else None)


class OwnLimitGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that has its thread to itself while it runs, and whose own ``recursion_limit`` holds.

    ``batch``, ``abatch`` and LCEL write langchain-core's default of 25 into every config they pass on, which
    would override the graph's own. So 25 counts as not set in a config that langchain-core has filled in, unless
    the graph has no limit of steps: then 25 is better than none.
    Input that is no message is refused with an error that says how one is written.
    """

    def __init__(self, *, limits: Limits, **parts: Any) -> None:
        super().__init__(**parts)
        self.limits = limits

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; ``invoke`` and ``batch`` come here too."""
        check_input(input)
        config = _with_a_thread_for_the_stream(ensure_config(self.config, config), config, options)
        start, wanted = self._run(super().stream, input, config, options)
        return writers.stream(start, wanted) if wanted else start(None)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; ``ainvoke`` and ``abatch`` come here too."""
        check_input(input)
        start, wanted = self._run(super().astream, input, config, options)
        return writers.astream(start, wanted) if wanted else start(None)

    def bulk_update_state(self, config: RunnableConfig, *given: Any) -> RunnableConfig:
        """As LangGraph's, unless a run has the thread, which would go on without the update."""
        wanted = self._wanted(config)
        with writers.hold(wanted) if wanted else nullcontext():
            return super().bulk_update_state(config, *given)

    async def abulk_update_state(self, config: RunnableConfig, *given: Any) -> RunnableConfig:
        """As LangGraph's, unless a run has the thread, which would go on without the update."""
        wanted = self._wanted(config)
        async with writers.ahold(wanted) if wanted else nullcontext():
            return await super().abulk_update_state(config, *given)

    def _run(
        self, start: Callable[..., Any], input: Any, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[Callable[[writers.Ready | None], Any], writers.Wanted | None]:
        """How a run is started, and what it needs before."""
        if self.limits.steps is not None:
            config = _without_default_limit(config)
        wanted = self._wanted(config, options.get("context"))
        outer = options.get("control") or runtime_of(ensure_config(self.config, config)).control
        if not isinstance(outer, Control):
            options = {**options, "control": Control(outer)}
        if wanted is not None and options.get("durability") is None:
            # LangGraph's default, "async", may lose the last step in a crash: paid for, and its effects done.
            options = {**options, "durability": "sync"}
        return (lambda ready: start(input, _of_run(config, wanted, ready), **options)), wanted

    def _wanted(self, config: RunnableConfig | None, context: Any = None) -> writers.Wanted | None:
        """What makes a run the only one on its thread; None where there is no thread, or somebody else sees to it.

        Raises:
            ValueError: There is no such ``multitask_strategy``.
        """
        whole = ensure_config(self.config, config)
        given = whole["configurable"]
        strategy = writers.read_strategy(given.get(writers.STRATEGY))
        saver, thread = self.checkpointer, given.get("thread_id")
        if not isinstance(saver, BaseCheckpointSaver) or thread is None:
            return None
        if CONFIG_KEY_CHECKPOINTER in given or _SERVER in whole["metadata"]:  # a parent has the thread; or a server
            return None
        seconds = with_context(self.limits, read_context(context)).seconds
        rewinds = not given.get("checkpoint_id")
        return writers.Wanted(saver, str(thread), strategy, seconds, whole.get("run_id") or uuid7(), rewinds)


def with_own_limit(graph: CompiledStateGraph[Any, Any, Any, Any], limits: Limits) -> OwnLimitGraph:
    """A graph with the ``recursion_limit`` that its limits need."""
    parts = {name: value for name, value in vars(graph).items() if name != "__orig_class__"}  # as Pregel.copy does
    return OwnLimitGraph(**parts, limits=limits).with_config({"recursion_limit": limits.recursion_limit})


def _of_run(
    config: RunnableConfig | None, wanted: writers.Wanted | None, ready: writers.Ready | None
) -> RunnableConfig | None:
    """A config that says which run it is of, and where that begins."""
    if wanted is None or ready is None:
        return config
    made: RunnableConfig = {**config} if config else {}
    made["run_id"] = wanted.run
    made["metadata"] = {**(made.get("metadata") or {}), writers.RUN: str(wanted.run)}
    # What LangGraph finds here goes into the metadata of every checkpoint.
    given = {name: value for name, value in (made.get("configurable") or {}).items() if name != writers.STRATEGY}
    if ready.saver is not None:
        given[CONFIG_KEY_CHECKPOINTER] = ready.saver
    if ready.checkpoint is not None:
        given |= {"thread_id": wanted.thread, "checkpoint_id": ready.checkpoint}
    return {**made, "configurable": given}


def _with_a_thread_for_the_stream(
    whole: RunnableConfig, config: RunnableConfig | None, options: dict[str, Any]
) -> RunnableConfig | None:
    """A config under which something runs: LangGraph waits for what is streamed in one of the threads for tasks.

    Where there is only one, ``max_concurrency=1``, no task would ever begin. With two, a second task may run while
    nothing waits.
    """
    given = options.get("stream_mode") or ()
    modes = {given} if isinstance(given, str) else set(given)
    if whole.get("max_concurrency") != 1 or not (options.get("subgraphs") or modes & {"custom", "messages"}):
        return config
    return {**(config or {}), "max_concurrency": 2}


def _without_default_limit(config: RunnableConfig | None) -> RunnableConfig | None:
    filled_in = config is not None and config.keys() >= {"tags", "metadata", "callbacks", "configurable"}
    if not config or not filled_in or config.get("recursion_limit") != DEFAULT_RECURSION_LIMIT:
        return config
    kept = config.copy()
    del kept["recursion_limit"]
    return kept


def runtime_of(config: RunnableConfig | None) -> Runtime[Any]:
    """The runtime of the node that runs under a config; an empty one outside a graph."""
    found = ((config or {}).get("configurable") or {}).get(CONFIG_KEY_RUNTIME)
    return found if isinstance(found, Runtime) else _OUTSIDE


_OUTSIDE: Runtime[Any] = Runtime()


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
    return list(read_channels(config, ("messages",)).get("messages") or [])


def read_channels(config: RunnableConfig, names: Sequence[str]) -> Any:
    """Channels of the state by their names, without those that are empty."""
    read = (config.get("configurable") or {}).get(CONFIG_KEY_READ)
    return {} if read is None else read(list(names))
