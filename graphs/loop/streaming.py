"""Any of our graphs' streams as one vocabulary of typed events; see ``events.py``."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Durability

from taograph.cancel import Cancellation, current_cancellation, listen_to
from taograph.graphs.loop.events import Event, utc_now
from taograph.graphs.loop.internals import OwnLimitGraph
from taograph.graphs.protocols.native import reasoning_fields

MODES: tuple[Literal["custom"], Literal["messages"], Literal["updates"]] = ("custom", "messages", "updates")
"""The stream modes that :class:`StepReader` reads."""

_END = object()
_GRACE_SECONDS = 5.0


class StepReader:
    """Reads events from the parts of a LangGraph stream, whoever runs it.

    Feed it every part of ``graph.stream(…, stream_mode=[*MODES], subgraphs=True)``::

        reader = StepReader()
        for ns, mode, data in graph.stream(…):
            for event in reader.read(ns, mode, data): …
    """

    def __init__(self) -> None:
        self._turns: dict[tuple[str, ...], dict[str, Any]] = {}
        self._asked: set[str] = set()
        self._reasoned: dict[tuple[str, ...], list[str]] = {}

    def read(self, ns: Sequence[str], mode: str, data: Any) -> Sequence[Event]:
        """The events of one part.

        Args:
            ns: The part's namespace: empty for the graph itself.
            mode: The part's stream mode.
            data: The part.
        """
        where = ns if isinstance(ns, tuple) else tuple(ns)
        match mode:
            case "messages":
                chunk, metadata = data
                # What a tool's own model says, or a closing answer, is no thought.
                if (
                    isinstance(chunk, AIMessageChunk)
                    and where in self._turns
                    and metadata.get("langgraph_node") not in ("act", "finish")
                ):
                    return self._deltas(where, chunk)
            case "custom" if isinstance(data, Mapping):
                if "taograph_turn" in data:
                    self._turns[where] = dict(data["taograph_turn"])
                    self._reasoned.pop(where, None)
                elif "taograph" in data:
                    event = dict(data["taograph"])
                    # After a resume it is the only thing that tells the turn.
                    self._turns[where] = {key: event[key] for key in ("step", "thread", "run")}
                    return [_placed(where, event)]
            case "updates" if isinstance(data, Mapping) and "__interrupt__" in data:
                return [*self._questions(where, data["__interrupt__"])]
        return []

    def _questions(self, where: tuple[str, ...], interrupts: Sequence[Any]) -> Iterator[Event]:
        for interrupt in interrupts:
            if interrupt.id not in self._asked:  # a nested graph's comes once more on its way up
                self._asked.add(interrupt.id)
                yield self._event(where, "approval", id=interrupt.id, value=interrupt.value)

    def _deltas(self, where: tuple[str, ...], chunk: AIMessageChunk) -> list[Event]:
        content = chunk.content
        if isinstance(content, str) and not chunk.additional_kwargs and not chunk.tool_call_chunks:
            return [self._event(where, "thought_delta", text=content, kind="text")] if content else []  # as most are
        events: list[Event] = []
        for reasoning in reasoning_fields(chunk):
            self._reasoned.setdefault(where, []).append(reasoning)
            events.append(self._event(where, "thought_delta", text=reasoning, kind="reasoning"))
        # In the text protocol the thought of an action comes a second time, whole, with the call.
        text = str(chunk.text)
        again = bool(text and chunk.tool_call_chunks) and "".join(self._reasoned.get(where, ())).endswith(text)
        if text and not again:
            events.append(self._event(where, "thought_delta", text=text, kind="text"))
        return events

    def _event(self, where: tuple[str, ...], name: str, **what: Any) -> Event:
        turn = self._turns.get(where) or next(iter(self._turns.values()), {"step": 0, "thread": None, "run": ""})
        return _placed(where, {"type": name, **turn, "time": utc_now(), "path": [], **what})


def stream_steps(
    graph: Pregel[Any, Any, Any, Any],
    input: Any,
    config: RunnableConfig | None = None,
    *,
    context: Any = None,
    cancel: Cancellation | None = None,
    control: RunControl | None = None,
    durability: Durability | None = None,
) -> Iterator[Event]:
    """Run a graph and yield what happens, as it happens.

    Args:
        graph: One of our graphs, or a graph with one of ours in it.
        input: What the graph takes: ``{"messages": […]}``, or ``Command(resume=…)``.
        config: As the graph's ``stream``.
        context: As the graph's ``stream``.
        cancel: A switch that ends the run cleanly. A stream that is abandoned throws it.
        control: Drains the run; as the graph's ``stream``. One for each run.
        durability: When steps are stored; as the graph's ``stream``.

    Yields:
        Events; the last of a run are ``stop`` and ``answer``, or ``approval`` where it waits for a person.

    Raises:
        GraphDrained: It was drained: what it did is stored, and ``None`` as the input goes on with it.
    """
    switch = cancel or Cancellation()
    # The switch must not leak into the caller's context, which a generator shares.
    within = contextvars.copy_context()
    leave = within.run(_enter, switch)
    reader = StepReader()
    options: Any = {"context": context, "control": control, "durability": durability}
    parts = within.run(lambda: graph.stream(input, config, stream_mode=list(MODES), subgraphs=True, **options))
    try:
        asked: list[Event] = []
        while (part := within.run(next, parts, _END)) is not _END:
            for event in reader.read(*cast(tuple[Any, str, Any], part)):
                if not _is_approval(event, asked):
                    yield event
        yield from asked
    except GeneratorExit:
        switch.request("the stream was abandoned")
        if isinstance(graph, OwnLimitGraph):  # nodes of others may not listen to the switch
            # A stream that is closed at once loses what a task returns just then, and a call that was run
            # stands there without its result. What is cancelled ends soon, and is stored as what it is.
            with contextlib.suppress(Exception):
                while within.run(next, parts, _END) is not _END:
                    pass
        raise
    finally:
        leave()
        within.run(parts.close)  # type: ignore[attr-defined]


async def astream_steps(
    graph: Pregel[Any, Any, Any, Any],
    input: Any,
    config: RunnableConfig | None = None,
    *,
    context: Any = None,
    cancel: Cancellation | None = None,
    control: RunControl | None = None,
    durability: Durability | None = None,
) -> AsyncIterator[Event]:
    """The async twin of :func:`stream_steps`."""
    switch = cancel or Cancellation()
    within = contextvars.copy_context()
    leave = within.run(_enter, switch)
    queue = _Queue()

    async def produce() -> None:
        reader, asked = StepReader(), list[Event]()
        options: Any = {"context": context, "control": control, "durability": durability}
        try:
            async for part in graph.astream(input, config, stream_mode=list(MODES), subgraphs=True, **options):
                for event in reader.read(*cast(tuple[Any, str, Any], part)):
                    if not _is_approval(event, asked):
                        queue.put(event)
            for event in asked:
                queue.put(event)
        finally:
            queue.put(_END)

    # A task of its own: it has the context, and it can be given a moment to end when nobody listens any more.
    producer = asyncio.get_running_loop().create_task(produce(), context=within)
    try:
        while (event := await queue.get()) is not _END:
            yield event
        await producer
    except (GeneratorExit, asyncio.CancelledError):
        switch.request("the stream was abandoned")
        await asyncio.wait({producer}, timeout=_GRACE_SECONDS)
        raise
    finally:
        leave()
        if not producer.done():
            producer.cancel()


class _Queue:
    """Events for one who waits for them, in the same event loop: an ``asyncio.Queue`` costs more than an event does."""

    def __init__(self) -> None:
        self._events: deque[Any] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, event: Any) -> None:
        self._events.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def get(self) -> Any:
        while not self._events:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._events.popleft()


def _is_approval(event: Event, asked: list[Event]) -> bool:
    """Keep a question to a person for the end: it can be answered only when the calls beside it are over."""
    inner: Any = event["event"] if event["type"] == "child" else event
    if inner["type"] != "approval":
        return False
    asked.append(event)
    return True


def _enter(switch: Cancellation) -> Callable[[], None]:
    """Listen to a switch that an outer one throws, too; returns what ends that."""
    outer = current_cancellation()
    listen_to(switch)
    if outer is None or outer is switch:
        return lambda: None
    return outer.subscribe(lambda: switch.request(outer.reason or "cancelled"))


def _placed(where: tuple[str, ...], event: dict[str, Any]) -> Event:
    """An event in its place: one of a nested graph comes wrapped, with the path of nodes down to it."""
    if not where:
        return cast(Event, event)
    path = [name.partition(":")[0] for name in where]
    header = {key: event[key] for key in ("step", "thread", "run", "time")}
    return cast(Event, {"type": "child", **header, "path": path, "event": {**event, "path": path}})
