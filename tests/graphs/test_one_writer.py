"""One run at a time on a thread: the second is refused, and whatever way the first one ends, the thread is free."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command
from support import Way, asks, both_ways, pending, python_process, question, run
from writer_support import SECONDS, Held, begun, on, runs_of

from taograph import Cancellation, Limits, astream_steps, create_react_graph, tool
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person
from taograph.writers import ThreadBusyError
from taograph.writers.turns import TURNS


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    yield
    assert TURNS._lines == {}


@both_ways
@pytest.mark.parametrize("steps", [15, None])
def test_a_second_run_is_refused_before_anything_is_paid_or_stored(way: Way, steps: int | None) -> None:
    held = Held(InMemorySaver(), limits=Limits(steps=steps))
    with held.holding(way) as first:
        before = held.graph.get_state(on())
        with pytest.raises(ThreadBusyError) as refused:
            run(way, held.graph, question("and this?"), on())
        assert len(held.model.requests) == 1
        assert held.graph.get_state(on()) == before
        run(way, held.graph, question("elsewhere"), on("t2"))
    error = refused.value
    assert (error.thread, error.pid, error.host) == ("t1", os.getpid(), socket.gethostname())
    assert error.since is not None
    assert 0 <= (datetime.now(UTC) - error.since).total_seconds() < SECONDS
    assert str(error).startswith(f"thread 't1' is busy: run {error.run} of this process, since ")
    for option in ("'enqueue'", "'interrupt'", "'rollback'", "multitask_strategy"):
        assert option in str(error)
    assert first.result()["stop"]["reason"] == "final"
    # The run is the one that a trace shows.
    assert held.graph.get_state(on()).metadata["taograph_run"] == error.run
    assert run(way, held.graph, question("now?"), on())["answer"] == "re: now?"
    assert held.messages() == ["hold", "done", "now?", "re: now?"]


@both_ways
def test_the_id_of_the_run_is_the_callers(way: Way) -> None:
    held, given = Held(InMemorySaver()), "0191f3c2-9c3f-7000-8000-000000000001"
    with held.holding(way, on(run_id=UUID(given))), pytest.raises(ThreadBusyError, match=f"run {given} of"):
        run(way, held.graph, question(), on())


@both_ways
@pytest.mark.parametrize("given", ["queue", "", 1, ["reject"]])
def test_an_unknown_strategy_is_an_error_that_names_the_known(way: Way, given: Any) -> None:
    model = ScriptedModel(replies=["Never."])
    for saver in (InMemorySaver(), None):
        graph = create_react_graph(model, [], checkpointer=saver)
        with pytest.raises(ValueError, match=r"multitask_strategy=.*use one of 'reject', 'enqueue', 'interru"):
            run(way, graph, question(), on(strategy=given))
    assert model.requests == []


@both_ways
def test_the_strategy_does_not_get_into_the_history(way: Way) -> None:
    held = Held(InMemorySaver())
    run(way, held.graph, question("Hi"), on(strategy="enqueue", metadata={"mine": "kept"}))
    for state in held.graph.get_state_history(on()):
        assert "multitask_strategy" not in (state.metadata or {})
        assert (state.metadata or {})["mine"] == "kept"


@both_ways
def test_a_thread_is_free_after_an_error(way: Way) -> None:
    held = Held(InMemorySaver(), limits=Limits(seconds=None))

    @tool(effects="none")
    def leaves() -> str:
        """Leave."""
        raise KeyboardInterrupt

    model = ScriptedModel(replies=[asks(call("leaves")), "Well."], repeat=True)
    graph = create_react_graph(model, [leaves], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        run(way, graph, question(), on())
    with pytest.raises(ValueError, match="messages"):
        run(way, held.graph, {"messages": []}, on())
    assert TURNS._lines == {}
    assert run(way, graph, question(), on())["answer"] == "Well."


@both_ways
def test_a_run_that_waits_for_a_person_does_not_have_the_thread(way: Way) -> None:
    model = ScriptedModel(replies=[asks(call("ask_person", {"question": "Which?"})), "That."])
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    assert pending(run(way, graph, question(), on()))
    assert TURNS._lines == {}
    assert run(way, graph, Command(resume="this one"), on())["answer"] == "That."


@both_ways
def test_a_run_that_is_drained_does_not_have_the_thread(way: Way) -> None:
    held, control = Held(InMemorySaver()), RunControl()
    first = begun(lambda: run(way, held.graph, question("hold"), on(), control=control))
    assert held.entered.wait(SECONDS)
    control.request_drain("SIGTERM")
    held.free.set()
    assert isinstance(first.exception(SECONDS), GraphDrained)
    assert TURNS._lines == {}
    assert run(way, held.graph, None, on())["answer"] == "done"


def test_an_abandoned_stream_frees_the_thread() -> None:
    held = Held(InMemorySaver())
    for _ in held.graph.stream(question("hi"), on(), stream_mode="messages"):
        break
    assert held.graph.invoke(question("again"), on())["answer"] == "re: again"
    for end in ("close", "drop", "in a cycle"):
        parts: Any = held.graph.stream(question("more"), on(), stream_mode="messages")
        next(parts)
        with pytest.raises(ThreadBusyError):
            held.graph.invoke(question("never"), on())
        if end == "close":
            parts.close()
        elif end == "in a cycle":
            cycle = [parts]
            cycle.append(cycle)
            del cycle
        del parts
        gc.collect()
        assert held.graph.invoke(question("again"), on())["answer"] == "re: again"


async def test_an_abandoned_async_stream_frees_the_thread() -> None:
    held = Held(InMemorySaver())
    async for _ in held.graph.astream(question("hi"), on(), stream_mode="messages"):
        break  # nobody closes it: the event loop does, in one of its next rounds
    assert (await held.graph.ainvoke(question("again"), on()))["answer"] == "re: again"
    async for _ in astream_steps(held.graph, question("hi"), on()):
        break
    assert (await held.graph.ainvoke(question("again"), on()))["answer"] == "re: again"
    parts = held.graph.astream(question("more"), on(), stream_mode="messages")
    await anext(parts)
    with pytest.raises(ThreadBusyError):
        await held.graph.ainvoke(question("never"), on())
    await parts.aclose()
    assert (await held.graph.ainvoke(question("again"), on()))["answer"] == "re: again"
    assert "never" not in held.messages()


@pytest.mark.filterwarnings("ignore")  # asyncio and LangGraph complain of such an end
def test_a_stream_whose_loop_was_closed_frees_the_thread() -> None:
    held = Held(InMemorySaver())

    async def leave() -> Any:
        parts = held.graph.astream(question("hi"), on(), stream_mode="messages")
        await anext(parts)
        return parts

    loop = asyncio.new_event_loop()
    parts = loop.run_until_complete(leave())
    loop.close()
    with pytest.raises(ThreadBusyError):
        held.graph.invoke(question("never"), on())
    del parts
    gc.collect()
    assert held.graph.invoke(question("again"), on())["answer"] == "re: again"


async def test_a_cancelled_task_frees_the_thread() -> None:
    held = Held(InMemorySaver())
    for _ in range(3):
        held.entered.clear()
        task = asyncio.create_task(held.graph.ainvoke(question("hold"), on()))
        await asyncio.to_thread(held.entered.wait, SECONDS)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert TURNS._lines == {}
    held.free.set()
    assert (await held.graph.ainvoke(question("again"), on()))["answer"] == "re: again"


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("way", ["graph.invoke({}, {})", "asyncio.run(graph.ainvoke({}, {}))"])
def test_ctrl_c_frees_the_thread(way: str) -> None:
    done = python_process(f"""
        import asyncio, os, signal, threading
        from langgraph.checkpoint.memory import InMemorySaver
        from support import question
        from writer_support import Held, on
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without it
        held = Held(InMemorySaver())
        graph = held.graph
        def hit():
            held.entered.wait(30)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=hit, daemon=True).start()
        try:
            {way.format('question("hold")', "on()")}
        except KeyboardInterrupt:
            print("interrupted")
        held.free.set()
        print(graph.invoke(question("again"), on())["answer"])
    """)
    assert done.stdout.split("\n") == ["interrupted", "re: again", ""], done


def test_a_signal_handler_may_cancel_and_ask_again() -> None:
    held = Held(InMemorySaver())
    seen: list[Any] = []

    def handle(*_: Any) -> None:
        cancel.request("Ctrl-C")

    before = signal.signal(signal.SIGINT, handle)
    try:
        with Cancellation() as cancel:
            threading.Thread(target=lambda: held.entered.wait(SECONDS) and os.kill(os.getpid(), signal.SIGINT)).start()
            seen.append(held.graph.invoke(question("hold"), on())["stop"]["detail"])
    finally:
        signal.signal(signal.SIGINT, before)
        held.free.set()
    assert seen == ["Ctrl-C"]
    assert held.graph.invoke(question("again"), on())["answer"] == "re: again"


# Who takes part


@both_ways
def test_a_nested_graph_is_part_of_its_parent(way: Way) -> None:
    inner = create_react_graph(ScriptedModel(replies=["Inner."]), [])
    own = create_react_graph(ScriptedModel(replies=["Own."]), [], checkpointer=InMemorySaver())

    async def asynchronous(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        mine = await own.ainvoke({"messages": [("user", "?")]}, on("another"))
        return {"messages": [mine["messages"][-1]]}

    def synchronous(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [own.invoke({"messages": [("user", "?")]}, on("another"))["messages"][-1]]}

    outer = (
        StateGraph(MessagesState)
        .add_node("inner", inner)
        .add_node("own", synchronous if way == "invoke" else asynchronous)
        .add_edge(START, "inner")
        .add_edge("inner", "own")
        .compile(checkpointer=InMemorySaver())
    )
    result = run(way, outer, question(), on())
    assert [m.text for m in result["messages"]][1:] == ["Inner.", "Own."]


@both_ways
@pytest.mark.parametrize("strategy", ["reject", "enqueue", "interrupt", "rollback"])
def test_a_run_that_starts_another_on_its_own_thread_is_told_so(way: Way, strategy: str) -> None:
    saver = InMemorySaver()
    found: list[Exception] = []
    inner = create_react_graph(ScriptedModel(replies=["Never."]), [], checkpointer=saver)

    @tool(effects="none")
    async def again() -> str:
        """Start another run."""
        try:
            await inner.ainvoke(question(), on(strategy=strategy))
        except ThreadBusyError as error:
            found.append(error)
        return (await inner.ainvoke(question(), on("its own")))["answer"]

    outer = create_react_graph(ScriptedModel(replies=[asks(call("again")), "Well."]), [again], checkpointer=saver)
    assert run(way, outer, question(), on())["answer"] == "Well."
    assert ["Give the inner run a thread_id of its own" in str(error) for error in found] == [True]


@both_ways
def test_a_langgraph_server_sees_to_it_itself(way: Way) -> None:
    held = Held(InMemorySaver())
    server = {"metadata": {"langgraph_api_version": "0.16.7"}}
    with held.holding(way, on(**server)):
        assert TURNS._lines == {}


@both_ways
def test_without_a_checkpointer_there_is_no_thread(way: Way) -> None:
    held = Held(None)
    with held.holding(way):
        assert run(way, held.graph, question("hi"), on())["answer"] == "re: hi"


def test_two_savers_on_the_same_memory_keep_the_same_threads() -> None:
    first, second = InMemorySaver(), InMemorySaver()
    second.storage = first.storage
    other = create_react_graph(ScriptedModel(replies=["Well."]), [], checkpointer=second)
    held = Held(first)
    with held.holding(), pytest.raises(ThreadBusyError):
        other.invoke(question(), on())
    apart = create_react_graph(ScriptedModel(replies=["Well."]), [], checkpointer=InMemorySaver())
    with held.holding():
        assert apart.invoke(question(), on())["answer"] == "Well."


def test_thread_ids_that_are_no_text_mean_the_same_thread() -> None:
    held = Held(InMemorySaver())
    with held.holding(config={"configurable": {"thread_id": 7}}), pytest.raises(ThreadBusyError, match="thread '7'"):
        held.graph.invoke(question(), on("7"))


# update_state, batch


@both_ways
def test_the_state_is_not_changed_under_a_run(way: Way) -> None:
    held = Held(InMemorySaver())
    change = {"messages": [("user", "by the way")]}

    def update() -> Any:
        if way == "invoke":
            return held.graph.update_state(on(), change, as_node="reason")
        return asyncio.run(held.graph.aupdate_state(on(), change, as_node="reason"))

    with held.holding(way), pytest.raises(ThreadBusyError):
        update()
    update()
    assert held.messages()[-1] == "by the way"


@both_ways
@pytest.mark.parametrize("strategy", [None, "enqueue"])
def test_a_batch_on_one_thread(way: Way, strategy: str | None) -> None:
    held = Held(InMemorySaver())
    inputs = [question(f"q{i}") for i in range(6)]
    config: Any = on(strategy=strategy)
    if way == "invoke":
        results = held.graph.batch(inputs, config, return_exceptions=True)
    else:
        results = asyncio.run(held.graph.abatch(inputs, config, return_exceptions=True))
    _nothing_vanished(held, [f"q{i}" for i in range(6)], results, refused=strategy is None)


@both_ways
@pytest.mark.parametrize("strategy", ["reject", "enqueue", "interrupt"])
def test_of_many_runs_at_once_none_vanishes(way: Way, strategy: str) -> None:
    held = Held(InMemorySaver())
    texts = [f"q{i}" for i in range(24)]
    for _ in range(2):
        results = runs_of(held.graph, way, [(text, on(strategy=strategy)) for text in texts])
        _nothing_vanished(held, texts, results, refused=strategy == "reject")
        held.graph.checkpointer.delete_thread("t1")


def _nothing_vanished(held: Held, texts: list[str], results: list[Any], *, refused: bool) -> None:
    accepted = [text for text, result in zip(texts, results, strict=True) if isinstance(result, dict)]
    errors = [result for result in results if not isinstance(result, dict)]
    assert all(isinstance(error, ThreadBusyError) for error in errors), errors
    asked = [text for text in held.messages() if text.startswith("q")]
    assert sorted(asked) == sorted(accepted), "each accepted question once, and no other"
    assert len(held.messages()) == 2 * len(accepted), "and each with its answer"
    assert accepted
    if not refused:
        assert errors == []


def test_a_default_limit_of_langchain_still_counts_as_none() -> None:
    held = Held(InMemorySaver(), limits=Limits(steps=60))
    filled_in = {"tags": [], "metadata": {}, "callbacks": None, "recursion_limit": DEFAULT_RECURSION_LIMIT, **on()}
    held.graph.invoke(question("hi"), filled_in)
    assert held.graph.with_config({"tags": ["x"]}).limits == Limits(steps=60)
