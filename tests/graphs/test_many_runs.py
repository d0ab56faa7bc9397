"""Many runs at once in one process: none is lost, tools run beside each other, and what was cut off leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from support import Way, asks, assert_acceptable, both_ways, lookup, question, run, thread

from taograph import Cancellation, Limits, astream_steps, create_react_graph, stream_steps, tool
from taograph.graphs.loop.clock import DEADLINES
from taograph.graphs.loop.session import Session
from taograph.models import ScriptedModel, call
from taograph.writers.claims import Claim
from taograph.writers.turns import TURNS

SECONDS = 30.0
MANY = 100


def of_its_own(messages: list[BaseMessage]) -> AIMessage:
    """Two steps, then the last observation as the answer: what another run was told would be seen."""
    asked = next(m.text for m in messages if m.type == "human")
    made = sum(isinstance(m, AIMessage) for m in messages)
    return asks(f"{asked} {made}") if made < 2 else AIMessage(messages[-1].text)


def expected(number: int) -> str:
    return f"Run {number} 1 is in the book on page {len(f'Run {number} 1')}."


def ask(number: int) -> dict[str, Any]:
    return {"messages": [("user", f"Run {number}")]}


def test_none_of_many_runs_is_lost_in_tasks() -> None:
    graph = create_react_graph(ScriptedModel(replies=[of_its_own], repeat=True), [lookup], checkpointer=InMemorySaver())

    async def at_once() -> list[Any]:
        return await asyncio.gather(*[graph.ainvoke(ask(n), thread(f"t{n}")) for n in range(MANY)])

    results = asyncio.run(at_once())
    assert [result["answer"] for result in results] == [expected(n) for n in range(MANY)]
    assert not TURNS._lines


def test_none_of_many_runs_is_lost_in_threads() -> None:
    graph = create_react_graph(ScriptedModel(replies=[of_its_own], repeat=True), [lookup], checkpointer=InMemorySaver())
    all_of_them, answers = threading.Barrier(MANY), dict[int, str]()

    def work(n: int) -> None:
        all_of_them.wait(SECONDS)
        answers[n] = graph.invoke(ask(n), thread(f"t{n}"))["answer"]

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(MANY)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(2 * SECONDS)
    assert answers == {n: expected(n) for n in range(MANY)}
    assert not TURNS._lines


@both_ways
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_calls_of_a_turn_run_at_once(way: Way, kind: str) -> None:
    all_of_them, inside, met = threading.Barrier(5), 0, asyncio.Event()

    @tool
    def wait(number: int) -> str:
        """Wait for the others."""
        all_of_them.wait(SECONDS)
        return f"{number} met"

    @tool(name="wait")
    async def await_(number: int) -> str:
        """Wait for the others."""
        nonlocal inside
        inside += 1
        if inside == 5:
            met.set()
        await asyncio.wait_for(met.wait(), SECONDS)
        return f"{number} met"

    calls = [call("wait", {"number": number}) for number in range(5)]
    model = ScriptedModel(replies=[asks(*calls), "All met."])
    result = run(way, create_react_graph(model, [wait if kind == "def" else await_]), question())
    assert [m.text for m in result["messages"] if m.type == "tool"] == [f"{number} met" for number in range(5)]


def test_blocking_tools_of_many_runs_run_at_once() -> None:
    all_of_them = threading.Barrier(40)

    @tool
    def wait() -> str:
        """Wait for the others."""
        all_of_them.wait(SECONDS)
        return "met"

    def reply(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(messages[-1].text) if messages[-1].type == "tool" else asks(call("wait"))

    graph = create_react_graph(ScriptedModel(replies=[reply], repeat=True), [wait])

    async def at_once() -> list[Any]:
        return await asyncio.gather(*[graph.ainvoke(question()) for _ in range(40)])

    assert [result["answer"] for result in asyncio.run(at_once())] == ["met"] * 40


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """What tools hang on; they end with the test."""
    event = threading.Event()
    yield event
    event.set()


_others: list[Any] = []


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """What runs of other tests have left in this process, such as one whose tool hangs in its thread to the end."""
    _others[:] = left_of_runs()  # held, so that no other object is taken for one of them
    yield
    _others.clear()


def left_of_runs() -> list[Any]:
    """What belongs to a run of this test that is under way."""
    gc.collect()
    known = set(map(id, _others))
    return [found for found in gc.get_objects() if isinstance(found, Session | Claim) and id(found) not in known]


@pytest.mark.parametrize("how", ["task", "switch", "deadline", "stream", "end"])
async def test_runs_that_were_cut_off_leave_nothing(how: str, let_go: threading.Event) -> None:
    begun = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()

    @tool(effects="none")
    def hang() -> str:
        """Hang in a thread."""
        loop.call_soon_threadsafe(begun.release)
        if how != "end":
            let_go.wait(SECONDS)
        return "ended"

    @tool(effects="none")
    async def ahang() -> str:
        """Hang on the event loop."""
        begun.release()
        if how != "end":
            await asyncio.sleep(SECONDS)
        return "ended"

    def reply(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage("Both ended.") if messages[-1].type == "tool" else asks(call("hang"), call("ahang"))

    limits = Limits(seconds=0.5 if how == "deadline" else 60.0)
    graph = create_react_graph(
        ScriptedModel(replies=[reply], repeat=True), [hang, ahang], limits=limits, checkpointer=InMemorySaver()
    )
    shared = Cancellation()  # never thrown: what listens to it goes away by itself
    tasks_before, number = asyncio.all_tasks(), 3 if how == "deadline" else 10
    open_before = len(DEADLINES)

    async def one(n: int) -> None:
        with Cancellation() if how == "switch" else shared as cancel:
            config = thread(f"{how} {n}")
            if how == "stream":
                events = astream_steps(graph, question(), config)
                seen = 0
                async for event in events:
                    seen += event["type"] == "action"
                    if seen == 2:
                        break
                await events.aclose()  # type: ignore[attr-defined]
                return
            running = asyncio.create_task(graph.ainvoke(question(), config))
            for _ in range(2):
                await asyncio.wait_for(begun.acquire(), SECONDS)
            if how == "task":
                running.cancel()
            elif how == "switch":
                cancel.request("enough")
            with contextlib.suppress(asyncio.CancelledError):
                await running

    for n in range(number):
        await one(n)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks_before
    assert not shared._listeners
    assert not TURNS._lines
    assert left_of_runs() == []
    # Only where the end of the task kept the run from ending by itself does it not say that it is over.
    assert len(DEADLINES) - open_before <= (number if how == "task" else 0)
    for n in range(number):
        state = (await graph.aget_state(thread(f"{how} {n}"))).values
        if how != "task":
            assert_acceptable(state["messages"])


def test_one_switch_ends_runs_of_several_tasks_and_threads() -> None:
    begun, shared = threading.Semaphore(0), Cancellation()

    @tool(effects="none")
    def hang() -> str:
        """Hang until the run is given up."""
        begun.release()
        threading.Event().wait(5)
        return "ended"

    graph = create_react_graph(ScriptedModel(replies=[asks(call("hang"))], repeat=True), [hang])
    reasons: list[str] = []

    async def one() -> None:
        with shared:
            reasons.append((await graph.ainvoke(question()))["stop"]["reason"])
        assert_free()

    def in_a_thread() -> None:
        with shared:
            reasons.append(graph.invoke(question())["stop"]["reason"])
        assert_free()

    def assert_free() -> None:
        with Cancellation() as own:
            assert not own.requested

    async def at_once() -> None:
        threads = [threading.Thread(target=in_a_thread, daemon=True) for _ in range(3)]
        for one_thread in threads:
            one_thread.start()
        tasks = [asyncio.create_task(one()) for _ in range(3)]
        for _ in range(6):
            assert await asyncio.to_thread(begun.acquire, timeout=SECONDS)
        shared.request("enough")
        await asyncio.gather(*tasks)
        for one_thread in threads:
            await asyncio.to_thread(one_thread.join, SECONDS)

    asyncio.run(at_once())
    assert reasons == ["cancelled"] * 6


def test_a_stream_that_is_closed_leaves_nothing(let_go: threading.Event) -> None:
    @tool(effects="none")
    def hang() -> str:
        """Hang."""
        let_go.wait(SECONDS)
        return "ended"

    graph = create_react_graph(ScriptedModel(replies=[asks(call("hang"))], repeat=True), [hang])
    for _ in range(10):
        for event in stream_steps(graph, question()):
            if event["type"] == "action":
                break
    assert left_of_runs() == []
