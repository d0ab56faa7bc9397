"""Threads for work that may never come back: bounded, reused, and never all taken by those who wait for one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from taograph import Limits, create_react_graph
from taograph.calls import TOOL_THREADS
from taograph.models import ScriptedModel
from taograph.threads import ThreadPool

SECONDS = 30.0


@pytest.fixture
def let_go() -> Iterator[threading.Event]:
    """What calls wait for; they end with the test."""
    event = threading.Event()
    yield event
    event.set()


def name() -> str:
    return threading.current_thread().name


def all_inside(pool: ThreadPool, number: int, let_go: threading.Event) -> list[Future[Any]]:
    """So many calls, all of which run now."""
    inside = threading.Barrier(number + 1)

    def wait() -> None:
        inside.wait(SECONDS)
        let_go.wait(SECONDS)

    futures = [pool.submit(wait) for _ in range(number)]
    inside.wait(SECONDS)
    return futures


def test_a_thread_is_reused() -> None:
    pool = ThreadPool(8, "reused")
    ran = set()
    for _ in range(50):
        ran.add(pool.submit(name).result(SECONDS))
        pool.submit(name).result(SECONDS)
    assert len(ran) <= 2, "the last one may not be idle again yet when the next call comes"


def test_calls_beyond_the_size_wait_their_turn(let_go: threading.Event) -> None:
    pool = ThreadPool(2, "small")
    running = all_inside(pool, 2, let_go)
    order: list[int] = []
    later = [pool.submit(lambda number=number: order.append(number)) for number in range(5)]
    assert not any(future.running() or future.done() for future in later)
    let_go.set()
    for future in (*running, *later):
        future.result(SECONDS)
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_calls_that_block_all_run_at_once(let_go: threading.Event) -> None:
    assert len(all_inside(ThreadPool(32, "many"), 32, let_go)) == 32


def test_a_call_that_was_given_up_gives_its_place_to_the_next(let_go: threading.Event) -> None:
    pool = ThreadPool(2, "given up")
    hangs = all_inside(pool, 2, let_go)
    waits = pool.submit(name)
    assert not waits.done()
    pool.abandon(hangs[0])
    pool.abandon(hangs[0])
    assert waits.result(SECONDS)
    # One place was given back, and only once, whatever becomes of the call.
    let_next = threading.Event()
    own = all_inside(pool, 1, let_next)
    more = pool.submit(name)
    assert not more.running()
    assert not more.done()
    let_go.set()
    hangs[0].result(SECONDS)
    let_next.set()
    own[0].result(SECONDS)
    assert more.result(SECONDS)
    again = threading.Event()
    all_inside(pool, 2, again)
    last = pool.submit(name)
    assert not last.running()
    again.set()
    assert last.result(SECONDS)


def test_a_call_that_was_given_up_before_it_began_never_runs(let_go: threading.Event) -> None:
    pool = ThreadPool(1, "dropped")
    all_inside(pool, 1, let_go)
    ran: list[int] = []
    dropped = pool.submit(lambda: ran.append(1))
    pool.abandon(dropped)
    kept = pool.submit(lambda: ran.append(2))
    let_go.set()
    kept.result(SECONDS)
    assert dropped.cancelled()
    assert ran == [2]


def test_a_call_has_the_context_of_who_made_it_and_leaves_it_alone() -> None:
    said: ContextVar[str] = ContextVar("said", default="nothing")
    pool = ThreadPool(1, "context")
    token = said.set("this")

    def change() -> str:
        found = said.get()
        said.set("else")
        return found

    assert pool.submit(change).result(SECONDS) == "this"
    assert said.get() == "this"
    given = copy_context()
    assert pool.submit(change, given).result(SECONDS) == "this"
    assert given[said] == "else"
    said.reset(token)


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3), StopIteration(1)])
def test_what_a_call_raises_is_its_outcome(raised: BaseException) -> None:
    pool = ThreadPool(1, "raising")

    def fail() -> None:
        raise raised

    with pytest.raises(RuntimeError if isinstance(raised, StopIteration) else type(raised)):
        pool.submit(fail).result(SECONDS)
    assert pool.submit(lambda: 1).result(SECONDS) == 1


@pytest.mark.parametrize("how", ["at once", "in another thread"])
def test_calls_that_wait_for_calls_do_not_take_each_others_places(how: str) -> None:
    """As tools do that run graphs: those that wait have all the places, and what they wait for runs all the same."""
    pool, other = ThreadPool(4, "waiting"), ThreadPool(4, "another")
    inside = threading.Barrier(4)

    def nested(depth: int) -> int:
        if depth == 4:
            return 0
        if depth == 0:
            inside.wait(SECONDS)
        within = pool if depth % 2 else other
        if how == "at once":
            return 1 + sum(
                future.result(SECONDS) for future in [within.submit(lambda: nested(depth + 1)) for _ in range(2)]
            )
        with ThreadPoolExecutor(1) as threads:  # as LangGraph runs its tasks
            context = copy_context()
            return 1 + threads.submit(
                lambda: context.run(lambda: within.submit(lambda: nested(depth + 1)).result(SECONDS))
            ).result(SECONDS)

    futures = [pool.submit(lambda: nested(0)) for _ in range(4)]
    assert {future.result(SECONDS) for future in futures} == ({15} if how == "at once" else {4})


def test_no_call_is_lost() -> None:
    pool = ThreadPool(3, "stress")
    done = threading.Semaphore(0)
    threads = [
        threading.Thread(target=lambda: [pool.submit(done.release) for _ in range(300)], daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for _ in range(1200):
        assert done.acquire(timeout=SECONDS)


def calling_once(call: str, args: dict[str, Any], times: int = 1) -> ScriptedModel:
    def reply(messages: list[BaseMessage]) -> AIMessage:
        if any(isinstance(message, AIMessage) for message in messages):
            return AIMessage("done")
        calls = [{"name": call, "args": args, "id": f"call-{number}"} for number in range(times)]
        return AIMessage("I call it.", tool_calls=calls)

    return ScriptedModel(replies=[reply], repeat=True)


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_tools_that_run_graphs_leave_threads_to_the_tools_of_these(way: str) -> None:
    """As many runs at once as there are threads for tools: each tool holds one and runs a graph that needs two."""
    many = TOOL_THREADS.size
    all_of_them = threading.Barrier(many)

    @tool
    def leaf() -> str:
        """Ends."""
        return "leaf"

    inner = create_react_graph(calling_once("leaf", {}, 2), [leaf], limits=Limits(steps=5, seconds=SECONDS))

    @tool
    def branch() -> str:
        """Runs a graph."""
        all_of_them.wait(SECONDS)
        result = inner.invoke({"messages": [("user", "Go on.")]})
        return str([message.text for message in result["messages"] if message.type == "tool"])

    outer = create_react_graph(calling_once("branch", {}), [branch], limits=Limits(steps=5, seconds=2 * SECONDS))
    question = {"messages": [("user", "Go.")]}

    async def at_once() -> list[Any]:
        return await asyncio.gather(*[outer.ainvoke(question) for _ in range(many)])

    if way == "ainvoke":
        results = asyncio.run(at_once())
    else:
        results = []
        run: Callable[[], None] = lambda: results.append(outer.invoke(question))  # noqa: E731
        threads = [threading.Thread(target=run, daemon=True) for _ in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * SECONDS)
    assert [result["messages"][2].text for result in results] == ["['leaf', 'leaf']"] * many
