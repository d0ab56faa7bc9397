"""A stream always ends: by failure, by a switch, abandoned, with nobody listening."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Hang, Reply
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from stream_support import Streams, of
from support import asks, asks_for_ever, assert_acceptable, lookup, question, thread

from taograph import Cancellation, Limits, astream_steps, create_react_graph, stream_steps, tool
from taograph.cancel import current_cancellation
from taograph.models import ScriptedModel, call


def test_a_failing_run_raises_and_ends(steps: Streams) -> None:
    graph = create_react_graph(ScriptedModel(replies=["Never."]), [lookup])
    with pytest.raises(ValueError, match="messages: "):
        steps(graph, {"messages": []})
    with pytest.raises(ValueError, match="recursion_limit"):
        steps(graph, question(), {"recursion_limit": 1})


def test_a_switch_of_the_callers_ends_the_run(steps: Streams) -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Never."])
    cancel = Cancellation()

    def slow(messages: list[Any]) -> AIMessage:
        model.delay = 30
        threading.Timer(0.2, cancel.request, ["enough"]).start()
        return asks("Ada")

    model.replies = [slow, "Never."]
    began = time.monotonic()
    events = steps(create_react_graph(model, [lookup]), question(), cancel=cancel)
    assert time.monotonic() - began < 10
    assert of(events, "stop")[0]["reason"] == "cancelled"
    assert of(events, "stop")[0]["detail"] == "enough"
    assert "Ada is in the book on page 3." in of(events, "answer")[0]["text"]


def test_a_switch_around_the_stream_ends_the_run(steps: Streams) -> None:
    model = ScriptedModel(replies=["Never."], delay=30)
    with Cancellation() as cancel:
        threading.Timer(0.2, cancel.request, ["enough"]).start()
        events = steps(create_react_graph(model, [lookup]), question())
        assert of(events, "stop")[0]["reason"] == "cancelled"
        assert not cancel._listeners
    with Cancellation() as cancel:
        steps(create_react_graph(ScriptedModel(replies=["Yes."]), [lookup]), question())
        assert not cancel._listeners, "a stream that is over listens no more"


def test_the_switch_does_not_leak_into_the_caller() -> None:
    graph = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Yes."], repeat=True), [lookup])
    for event in stream_steps(graph, question(), cancel=Cancellation()):
        assert current_cancellation() is None, event["type"]
    assert current_cancellation() is None

    async def look() -> None:
        async for event in astream_steps(graph, question(), cancel=Cancellation()):
            assert current_cancellation() is None, event["type"]
        assert current_cancellation() is None

    asyncio.run(look())


def test_a_switch_thrown_for_one_stream_leaves_another_alone() -> None:
    first = stream_steps(create_react_graph(asks_for_ever(), [lookup]), question())
    second = stream_steps(create_react_graph(ScriptedModel(replies=[asks("Ada"), "Yes."]), [lookup]), question())
    got: list[Any] = []
    next(first)
    got.append(next(second))
    first.close()  # type: ignore[attr-defined]
    got += list(second)
    assert got[-1]["text"] == "Yes."


def hanging(server: FakeOpenAI) -> Any:
    return create_react_graph(f"{server.url}#fake", [lookup], checkpointer=InMemorySaver())


def until_hanging(events: Iterator[Any], server: FakeOpenAI) -> None:
    """Read on until the model has begun to say what it never ends."""
    for event in events:
        if event["type"] == "thought_delta" and "think" in event["text"]:
            assert server.hanging.wait(5)
            return


@pytest.mark.parametrize("how", ["close", "break", "error"])
def test_an_abandoned_stream_ends_at_once(how: str) -> None:
    with FakeOpenAI([Reply(calls=[("lookup", {"name": "Ada"})]), Hang("I think so"), "Else."]) as server:
        graph = hanging(server)
        began = time.monotonic()
        events = stream_steps(graph, question(), thread())
        if how == "close":
            until_hanging(events, server)
            events.close()  # type: ignore[attr-defined]
        elif how == "break":
            until_hanging(events, server)
            del events
            gc.collect()
        else:
            with contextlib.suppress(ZeroDivisionError):
                for event in stream_steps(graph, question(), thread("other")):
                    if event["type"] == "thought_delta":
                        raise ZeroDivisionError
            gc.collect()
        assert time.monotonic() - began < 10
        if how == "close":
            state = graph.get_state(thread()).values
            assert state["stop"]["reason"] == "cancelled"
            assert state["stop"]["detail"] == "the stream was abandoned"
            assert_acceptable(state["messages"])
            again = graph.invoke(question("Something else?"), thread())
            assert again["answer"] == "Else."


@pytest.mark.parametrize("how", ["aclose", "break", "cancel", "error"])
async def test_an_abandoned_async_stream_ends_at_once(how: str) -> None:
    with FakeOpenAI([Reply(calls=[("lookup", {"name": "Ada"})]), Hang("I think so"), "Else."]) as server:
        graph = hanging(server)
        before = asyncio.all_tasks()
        began = time.monotonic()
        reached = asyncio.Event()

        async def read(stop: bool = True) -> None:
            events = astream_steps(graph, question(), thread())
            async for event in events:
                if event["type"] == "thought_delta" and "think" in event["text"]:
                    await asyncio.to_thread(server.hanging.wait, 5)
                    reached.set()
                    if how == "error":
                        raise ZeroDivisionError
                    if how == "break":
                        break
                    if how == "aclose":
                        await events.aclose()  # type: ignore[attr-defined]
                        break

        task = asyncio.create_task(read())
        await asyncio.wait_for(reached.wait(), 20)
        if how == "cancel":
            await asyncio.sleep(0.1)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ZeroDivisionError):
            await task
        del task
        gc.collect()
        for _ in range(100):
            left = asyncio.all_tasks() - before
            if not left:
                break
            await asyncio.sleep(0.05)
        assert left == set(), "no task is left behind"
        assert time.monotonic() - began < 15
        assert await asyncio.to_thread(server.left.wait, 5), "the call of the model in flight is given up"
        state = (await graph.aget_state(thread())).values
        if state.get("stop"):
            assert state["stop"]["reason"] == "cancelled"
        again = await graph.ainvoke(question("Something else?"), thread())
        assert again["answer"] == "Else."
        assert_acceptable(again["messages"])


def test_no_threads_are_left_behind() -> None:
    def count() -> int:
        return sum("taograph" not in t.name for t in threading.enumerate())

    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=5))
    for _ in stream_steps(graph, question()):
        pass
    before, ours = count(), threading.active_count()
    for number in range(20):
        for event in stream_steps(graph, question()):
            if number % 2 and event["type"] == "observation":
                break
    gc.collect()
    time.sleep(0.1)
    assert count() <= before + 1
    assert threading.active_count() <= ours + 4, "the pools' threads are used again"


def test_a_stream_that_nobody_reads_runs_nothing() -> None:
    model = ScriptedModel(replies=["Never."])
    events = stream_steps(create_react_graph(model, [lookup]), question())
    del events
    gc.collect()
    assert model.requests == []


def test_a_tool_in_flight_is_given_up_with_the_stream() -> None:
    began_tool, model = threading.Event(), ScriptedModel(replies=[asks(call("slow", {"name": "x"}), "Ada"), "Else."])

    @tool(effects="once", timeout=None)
    def slow(name: str) -> str:
        """Take long.

        Args:
            name: Anything.
        """
        began_tool.set()
        time.sleep(20)
        return name

    graph = create_react_graph(model, [slow, lookup], checkpointer=InMemorySaver())
    began = time.monotonic()
    events = stream_steps(graph, question(), thread())
    for event in events:
        if event["type"] == "observation":
            break
    assert began_tool.wait(5)
    events.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 10
    stored = graph.get_state(thread())
    assert not stored.next, "the run came to its end"
    state = stored.values
    assert state["stop"]["reason"] == "cancelled"
    assert_acceptable(state["messages"])
    result = graph.invoke(question("Else?"), thread())
    assert result["answer"] == "Else."
    assert_acceptable(model.requests[-1].messages)
