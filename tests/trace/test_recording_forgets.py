"""Of a run that has ended nothing is remembered, however it ended; what comes late of it is not recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from recording_support import (
    QUESTION,
    THREAD,
    Recorded,
    asks,
    broken,
    look,
    of_type,
    pay,
    recorded,
    says,
    told,
)

from taograph import Limits, create_react_graph, tool, trace

__all__ = ["recorded"]

EACH = 100


class Hangs(BaseChatModel):
    """A model that does not answer."""

    asked: Any = None

    @property
    def _llm_type(self) -> str:
        return "hangs"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Never."))])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        if self.asked is not None:
            self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def graph(*replies: Any, **options: Any) -> Any:
    return create_react_graph(says(*replies), [look, broken, pay], checkpointer=InMemorySaver(), **options)


async def cancelled(make: Callable[[asyncio.Event], Coroutine[Any, Any, Any]]) -> None:
    """Cancel what waits, as soon as it does."""
    waits = asyncio.Event()
    task = asyncio.create_task(make(waits))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ends(config: Any) -> None:
    await graph(asks("a", "b"), asks("c", tool="broken"), "Well.").ainvoke(QUESTION, config)


async def fails(config: Any) -> None:
    await graph(RuntimeError("no model")).ainvoke(QUESTION, config)


async def asks_a_person(config: Any) -> None:
    waiting = graph(asks("a", tool="pay"), "Well.", approve=["pay"])
    await waiting.ainvoke(QUESTION, config)
    await waiting.ainvoke(Command(resume="approve"), config)


async def is_left(config: Any) -> None:
    stream = graph(asks("a"), "Well.").astream(QUESTION, config)
    await anext(stream)
    await stream.aclose()


async def is_cancelled_in_a_model(config: Any) -> None:
    await cancelled(lambda waits: create_react_graph(Hangs(asked=waits), [look]).ainvoke(QUESTION, config))


async def is_cancelled_in_a_tool(config: Any) -> None:
    def make(waits: asyncio.Event) -> Any:
        @tool(effects="none")
        async def hangs(name: str) -> str:
            """Hang.

            Args:
                name: Anything.
            """
            waits.set()
            await asyncio.Event().wait()
            return ""

        return create_react_graph(says(asks("a", tool="hangs")), [hangs]).ainvoke(QUESTION, config)

    await cancelled(make)


async def is_cancelled_in_a_graph_of_another(config: Any) -> None:
    def make(waits: asyncio.Event) -> Any:
        inner = create_react_graph(Hangs(asked=waits), [look])
        outer = StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").compile()
        return outer.ainvoke(QUESTION, config)

    await cancelled(make)


async def is_cut_by_a_deadline(config: Any) -> None:
    await create_react_graph(Hangs(), [look], limits=Limits(seconds=0.01, reserve_seconds=0.01)).ainvoke(
        QUESTION, config
    )


async def is_a_model_alone(config: Any) -> None:
    await cancelled(lambda waits: Hangs(asked=waits).ainvoke("Well?", config))


KINDS = [
    ends,
    fails,
    asks_a_person,
    is_left,
    is_cancelled_in_a_model,
    is_cancelled_in_a_tool,
    is_cancelled_in_a_graph_of_another,
    is_cut_by_a_deadline,
    is_a_model_alone,
]


def kept(recorder: trace.Recorder) -> list[int]:
    """How much is remembered, in each of the registries."""
    writer = recorder.writer
    registries: list[Any] = [recorder._places, recorder._ours, recorder._alone, recorder._streamed, recorder.ended]
    return [*map(len, registries), len(writer.told), len(writer._gaps), len(writer._broken), writer._jobs.qsize()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_nothing_is_remembered(recorded: Recorded, kind: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    recorder, barrier = trace.handlers(recorded.url)
    assert isinstance(recorder, trace.Recorder)

    async def many() -> None:
        for number in range(EACH):
            await kind({"callbacks": [recorder, barrier], "configurable": {"thread_id": str(number)}})

    asyncio.run(many())
    recorder.writer.flush()
    assert kept(recorder) == [0] * 9
    traces = recorded.all()
    assert len(traces) == EACH * (2 if kind is asks_a_person else 1)
    ended = {of_type(found, "run_ended")[0]["status"] for found in traces}
    assert ended <= {"ended", "waiting"} or ended == {"cancelled"}


def test_a_thread_that_was_given_up(recorded: Recorded) -> None:
    """What it does after the end of its run is neither a part of the trace nor a trace of its own."""
    inside, go_on, done = threading.Event(), threading.Event(), threading.Event()
    late = says("Late.")

    @tool(effects="none")
    def asks_another(name: str) -> str:
        """Ask another model, too late.

        Args:
            name: Anything.
        """
        inside.set()
        go_on.wait(10)
        with suppress(Exception):
            late.invoke("Well?")
        done.set()
        raise RuntimeError("too late")

    recorder, barrier = trace.handlers(recorded.url)
    assert isinstance(recorder, trace.Recorder)
    made = create_react_graph(
        says(asks("a", tool="asks_another"), "Well."), [asks_another], limits=Limits(seconds=0.05)
    )
    config: Any = {"callbacks": [recorder, barrier], **THREAD}
    made.invoke(QUESTION, config)
    assert inside.is_set()
    before = told(recorded.one())
    go_on.set()
    assert done.wait(10)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name != "taograph-trace":
            thread.join(0.5)
    assert len(late.requests) == 1
    recorder.writer.flush()
    assert told(recorded.one()) == before
    assert kept(recorder) == [0] * 9


def test_a_model_alone_that_is_heard_in_another_task(recorded: Recorded) -> None:
    """A stream outlives the task in which it began."""

    async def go() -> None:
        stream = recorded_model.astream("Well?")
        parts = [await asyncio.create_task(take(stream))]
        parts += [part async for part in stream]
        assert len(parts) > 1

    async def take(stream: Any) -> Any:
        return await anext(stream)

    recorded_model = recorded.of(says("One two three."))
    asyncio.run(go())
    assert told(recorded.one()) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 answer",
        "0 run_ended ended",
    ]


def test_a_store_that_fails(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is held back for good does not end, since it never began."""
    recorder, barrier = trace.handlers("jsonl:/dev/null/nowhere", on_error="stop")
    assert isinstance(recorder, trace.Recorder)
    config: Any = {"callbacks": [recorder, barrier]}
    for _ in range(3):
        with suppress(trace.TraceError):
            create_react_graph(says("Well."), [look]).invoke(QUESTION, config)
        with pytest.raises(trace.TraceError):
            says("Well.").invoke("Well?", config)
    assert kept(recorder)[:4] == [0] * 4
    assert len(recorder.writer.told) == 0
