"""A run that waits for its thread, and one that ends the run before it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support import Way, asks, asks_for_ever, assert_acceptable, both_ways, lookup, pending, question, run
from writer_support import SECONDS, Held, begun, on

from taograph import Cancellation, Context, Limits, create_react_graph, stream_steps
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person
from taograph.writers import ThreadBusyError
from taograph.writers.turns import TURNS


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert TURNS._lines == {}


def waiting(number: int) -> None:
    """Until so many runs stand in line, the one that runs included."""
    until = time.monotonic() + SECONDS
    while [len(line) for line in TURNS._lines.values()] != [number]:
        assert time.monotonic() < until, TURNS._lines
        time.sleep(0.005)


@both_ways
def test_runs_come_in_the_order_in_which_they_asked(way: Way) -> None:
    held = Held(InMemorySaver())
    with held.holding(way):
        started = []
        for number in range(5):
            started.append(begun(lambda n=number: run(way, held.graph, question(f"q{n}"), on(strategy="enqueue"))))
            waiting(number + 2)
        with pytest.raises(ThreadBusyError):
            run(way, held.graph, question("never"), on())
        assert len(held.model.requests) == 1
    assert [future.result(SECONDS)["stop"]["reason"] for future in started] == ["final"] * 5
    assert [text for text in held.messages() if text.startswith("q")] == [f"q{n}" for n in range(5)]


@both_ways
def test_a_wait_is_as_long_as_the_run_may_be(way: Way) -> None:
    held = Held(InMemorySaver(), limits=Limits(seconds=30))
    short = Held(held.graph.checkpointer, limits=Limits(seconds=0.2))
    with held.holding(way):
        with pytest.raises(ThreadBusyError, match=r"has it still after a wait of 0\.2 seconds"):
            run(way, short.graph, question("never"), on(strategy="enqueue"))
        for context in ({"seconds": 0.1}, Context(seconds=0.1)):
            with pytest.raises(ThreadBusyError, match=r"a wait of 0\.1 seconds"):
                run(way, held.graph, question("never"), on(strategy="enqueue"), context=context)
        with pytest.raises(ValueError, match="seconds"):
            run(way, held.graph, question("never"), on(strategy="enqueue"), context={"seconds": -1})
        waiting(1)
    assert held.messages() == ["hold", "done"]


@both_ways
def test_a_cancellation_ends_the_wait(way: Way) -> None:
    held = Held(InMemorySaver())
    cancel = Cancellation()

    def wait() -> Any:
        with cancel:
            return run(way, held.graph, question("never"), on(strategy="enqueue"))

    with held.holding(way):
        second = begun(wait)
        waiting(2)
        cancel.request("changed my mind")
        with pytest.raises(ThreadBusyError, match="the wait for it was cancelled: changed my mind"):
            second.result(SECONDS)
        with pytest.raises(ThreadBusyError, match="changed my mind"):
            wait()
    assert not cancel._listeners
    assert held.messages() == ["hold", "done"]


async def test_the_end_of_its_task_ends_the_wait() -> None:
    held = Held(InMemorySaver())
    with held.holding("ainvoke"):
        second = asyncio.create_task(held.graph.ainvoke(question("never"), on(strategy="enqueue")))
        await asyncio.to_thread(waiting, 2)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        waiting(1)
    assert (await held.graph.ainvoke(question("q"), on()))["answer"] == "re: q"


def test_a_wait_on_a_loop_that_was_closed_holds_nobody_up() -> None:
    held = Held(InMemorySaver())
    with held.holding():
        loop = asyncio.new_event_loop()
        task = loop.create_task(held.graph.ainvoke(question("never"), on(strategy="enqueue")))
        while len(next(iter(TURNS._lines.values()))) < 2:
            loop.run_until_complete(asyncio.sleep(0.005))
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()
    assert held.graph.invoke(question("q"), on(strategy="enqueue"))["answer"] == "re: q"


# Ending the run before


@both_ways
def test_interrupt_ends_the_first_run_with_what_it_has(way: Way) -> None:
    held = Held(InMemorySaver())
    with held.holding(way) as first:
        second = run(way, held.graph, question("instead"), on(strategy="interrupt"))
        ended = first.result(SECONDS)
    assert ended["stop"]["reason"] == "cancelled"
    assert ended["stop"]["detail"].startswith("interrupted by run ")
    assert ended["answer"]
    assert second["stop"]["reason"] == "final"
    assert [m.text for m in second["messages"] if m.type == "human"] == ["hold", "instead"]
    assert_acceptable(second["messages"])
    assert held.messages() == ["hold", ended["answer"], "instead", "re: instead"]


@both_ways
def test_interrupt_cuts_a_model_call(way: Way) -> None:
    model = ScriptedModel(replies=["Never."], delay=SECONDS)
    graph = create_react_graph(model, [], checkpointer=InMemorySaver())
    first = begun(lambda: run(way, graph, question("first"), on()))
    while not model._next and not first.done():
        time.sleep(0.005)
        if TURNS._lines:
            break
    quick = create_react_graph(ScriptedModel(replies=["Yes."]), [], checkpointer=graph.checkpointer)
    assert run(way, quick, question("second"), on(strategy="interrupt"))["answer"] == "Yes."
    assert first.result(SECONDS)["stop"]["reason"] == "cancelled"


@both_ways
def test_rollback_goes_on_from_before_the_first_run(way: Way) -> None:
    held = Held(InMemorySaver())
    run(way, held.graph, question("earlier"), on())
    with held.holding(way) as first:
        second = run(way, held.graph, question("instead"), on(strategy="rollback"))
        ended = first.result(SECONDS)
    assert ended["stop"]["reason"] == "cancelled"
    assert "is rolled back" in ended["stop"]["detail"]
    assert [m.text for m in second["messages"]] == ["earlier", "re: earlier", "instead", "re: instead"]
    assert second["spent"]["model_calls"] == 1
    assert held.messages() == ["earlier", "re: earlier", "instead", "re: instead"]
    # What was rolled back is still in the history, and can be looked at.
    kept = [s for s in held.graph.get_state_history(on()) if "hold" in [m.text for m in s.values.get("messages", [])]]
    assert kept[0].values["answer"] == ended["answer"]
    assert run(way, held.graph, question("and on"), on())["answer"] == "re: and on"
    assert held.messages()[-4:] == ["instead", "re: instead", "and on", "re: and on"]


@both_ways
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_rollback_of_the_first_run_of_a_thread_begins_anew(way: Way, durability: Any) -> None:
    held = Held(InMemorySaver())
    with held.holding(way):
        run(way, held.graph, question("instead"), on(strategy="rollback"), durability=durability)
    assert held.messages() == ["instead", "re: instead"]
    assert run(way, held.graph, question("on"), on(), durability=durability)["answer"] == "re: on"
    assert held.messages() == ["instead", "re: instead", "on", "re: on"]


@both_ways
def test_rollback_takes_back_all_runs_that_it_ended(way: Way) -> None:
    held = Held(InMemorySaver())
    run(way, held.graph, question("earlier"), on())
    with held.holding(way):
        between = begun(lambda: run(way, held.graph, question("hold too"), on(strategy="enqueue")))
        waiting(2)
        run(way, held.graph, question("instead"), on(strategy="rollback"))
        assert between.result(SECONDS)["stop"]["reason"] == "cancelled"
    assert held.messages() == ["earlier", "re: earlier", "instead", "re: instead"]


@both_ways
def test_a_run_that_came_to_its_end_is_not_taken_back(way: Way) -> None:
    held = Held(InMemorySaver())
    release: list[str] = []

    def deaf(reason: str) -> None:
        """As a run is that has just looked at the switch for the last time."""
        release.append(reason)
        held.free.set()

    with held.holding(way) as first:
        (line,) = TURNS._lines.values()
        line[0].cancel.request = deaf  # type: ignore[method-assign, assignment]
        run(way, held.graph, question("instead"), on(strategy="rollback"))
        assert first.result(SECONDS)["stop"]["reason"] == "final"
    assert release
    assert held.messages() == ["hold", "done", "instead", "re: instead"]


@both_ways
def test_rollback_does_not_choose_where_the_caller_has(way: Way) -> None:
    held = Held(InMemorySaver())
    run(way, held.graph, question("one"), on())
    early = held.graph.get_state(on()).config["configurable"]["checkpoint_id"]
    run(way, held.graph, question("two"), on())
    with held.holding(way):
        config: Any = {"configurable": {**on(strategy="rollback")["configurable"], "checkpoint_id": early}}
        run(way, held.graph, question("instead"), config)
    assert held.messages() == ["one", "re: one", "instead", "re: instead"]


@both_ways
def test_rollback_of_an_answer_to_a_question_leaves_the_question_open(way: Way) -> None:
    replies = [asks(call("ask_person", {"question": "Which?"})), asks(call("gate")), "Never.", "Anew."]
    held = Held(InMemorySaver(), tools=[ask_person])
    held.model.replies = replies
    assert pending(run(way, held.graph, question("first"), on()))
    first = begun(lambda: run(way, held.graph, Command(resume="this one"), on()))
    assert held.entered.wait(SECONDS)
    held.model.replies = [*replies[:2], "Anew."]
    result = run(way, held.graph, question("instead"), on(strategy="rollback"))
    held.free.set()
    assert first.result(SECONDS)["stop"]["reason"] == "cancelled"
    assert result["answer"] == "Anew."
    assert [m.text for m in result["messages"] if m.type == "human"] == ["first", "instead"]
    assert "this one" not in [m.text for m in result["messages"]]
    assert_acceptable(result["messages"])


@both_ways
@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
def test_ending_the_run_before_where_there_is_none(way: Way, strategy: str) -> None:
    held = Held(InMemorySaver())
    for text in ("one", "two"):
        assert run(way, held.graph, question(text), on(strategy=strategy))["stop"]["reason"] == "final"
    assert held.messages() == ["one", "re: one", "two", "re: two"]


def test_a_run_under_the_callers_switch_can_be_interrupted_and_the_switch_stays() -> None:
    held = Held(InMemorySaver())
    cancel = Cancellation()

    def first() -> Any:
        with cancel:
            return held.graph.invoke(question("hold"), on())

    started = begun(first)
    assert held.entered.wait(SECONDS)
    held.graph.invoke(question("instead"), on(strategy="interrupt"))
    assert started.result(SECONDS)["stop"]["reason"] == "cancelled"
    assert not cancel.requested
    assert not cancel._listeners
    held.free.set()


def test_steps_of_a_run_that_waits_for_its_turn() -> None:
    held = Held(InMemorySaver())
    with held.holding():
        events: list[Any] = []
        second = begun(lambda: events.extend(stream_steps(held.graph, question("then"), on(strategy="enqueue"))))
        waiting(2)
        assert events == []
    second.result(SECONDS)
    assert events[0]["type"] == "run_started"
    assert events[-1]["text"] == "re: then"


def test_a_loop_is_interrupted_between_its_steps() -> None:
    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=None), checkpointer=InMemorySaver())
    config = {**on(), "recursion_limit": 100_000}
    first = begun(lambda: graph.invoke(question("first"), config))
    while not TURNS._lines:
        time.sleep(0.005)
    threading.Event().wait(0.1)
    second = begun(lambda: graph.invoke(question("second"), {**on(strategy="interrupt"), "recursion_limit": 7}))
    assert first.result(SECONDS)["stop"]["reason"] == "cancelled"
    assert second.result(SECONDS)["stop"]["reason"] == "step_limit"
