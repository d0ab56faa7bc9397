"""The seconds limit cuts what is in flight: the run ends within the limit and the reserve."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Hang, Reply
from langchain_openai import ChatOpenAI
from support import Counting, Way, asks, assert_ended, both_ways, lookup, question, run

from taograph import Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call

LIMIT, RESERVE = 0.6, 0.5
SLACK = 4.0  # the machine may be busy; what is cut would take a minute
LIMITS = Limits(seconds=LIMIT, reserve_seconds=RESERVE)
# Where a first answer has to come in time over HTTP.
ROOMY = Limits(seconds=1.5, reserve_seconds=RESERVE)


class Timed:
    """Runs a graph and holds the run to the limit and the reserve."""

    def __init__(self, way: Way, graph: Any, most: float = LIMIT + RESERVE + SLACK, **config: Any) -> None:
        began = time.monotonic()
        self.result = run(way, graph, question(), config or None)
        self.took = time.monotonic() - began
        assert self.took < most, f"took {self.took:.1f} s"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


@both_ways
@pytest.mark.parametrize("named", [True, False])
def test_a_server_that_never_answers(way: Way, named: bool, silent: str) -> None:
    model: Any = f"{silent}#any" if named else ChatOpenAI(base_url=silent, api_key="none", model="any", max_retries=0)
    timed = Timed(way, create_react_graph(model, [lookup], limits=LIMITS))
    assert_ended(timed.result, "deadline")
    assert timed.took >= LIMIT
    assert f"{LIMIT:g} seconds" in timed.result["stop"]["detail"]
    assert timed.result["spent"]["model_calls"] == 2, "the turn and the closing call"


@both_ways
@pytest.mark.parametrize("streamed", [True, False])
def test_a_server_that_stops_in_the_middle(way: Way, streamed: bool) -> None:
    """A stream that stalls is cut too, and the client leaves."""
    with FakeOpenAI([Reply(calls=[("lookup", {"name": "Ada"})]), Hang("I think"), Hang("So")]) as server:
        graph = create_react_graph(f"{server.url}#fake", [lookup], limits=ROOMY)
        began = time.monotonic()
        if streamed:

            async def last() -> Any:
                state: Any = None
                async for mode, part in graph.astream(question(), stream_mode=["messages", "values"]):
                    state = part if mode == "values" else state
                return state

            if way == "ainvoke":
                result = asyncio.run(last())
            else:
                parts = list(graph.stream(question(), stream_mode=["messages", "values"]))
                result = [part for mode, part in parts if mode == "values"][-1]
        else:
            result = run(way, graph, question())
        assert time.monotonic() - began < 1.5 + RESERVE + SLACK
        assert_ended(result, "deadline")
        assert "Ada is in the book on page 3." in result["answer"]
        if way == "ainvoke" or not streamed:  # a thread leaves with its request, five seconds later at most
            assert server.left.wait(10), "the request was given up, not left running"


@both_ways
def test_the_closing_answer_has_its_reserve(way: Way) -> None:
    """The model hangs in a turn, and answers when it is asked for what it has."""
    with FakeOpenAI([Reply(calls=[("lookup", {"name": "Ada"})]), Hang(), "Page 3, as far as I saw."]) as server:
        limits = Limits(seconds=1.5, reserve_seconds=10)
        timed = Timed(way, create_react_graph(f"{server.url}#fake", [lookup], limits=limits), most=10)
    assert_ended(timed.result, "deadline")
    assert timed.result["answer"] == "Page 3, as far as I saw."
    assert timed.result["stop"]["step"] == 2


@both_ways
def test_no_reserve_means_no_closing_call(way: Way) -> None:
    with FakeOpenAI([Reply(calls=[("lookup", {"name": "Ada"})]), Hang(), "Never asked."]) as server:
        limits = Limits(seconds=1.5, reserve_seconds=0)
        timed = Timed(way, create_react_graph(f"{server.url}#fake", [lookup], limits=limits))
        assert len(server.requests) == 2
    assert_ended(timed.result, "deadline")
    assert "Ada is in the book on page 3." in timed.result["answer"]
    assert timed.result["spent"]["model_calls"] == 2


def sleeping(kind: str) -> Any:
    """A tool that sleeps for a minute, in one of the ways that a tool can."""

    def blocking(what: str) -> str:
        """Sleep.

        Args:
            what: Anything.
        """
        time.sleep(60)
        return "slept"

    async def cooperative(what: str) -> str:
        """Sleep.

        Args:
            what: Anything.
        """
        await asyncio.sleep(60)
        return "slept"

    async def stubborn(what: str) -> str:
        """Sleep, whatever it is told.

        Args:
            what: Anything.
        """
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue
        return "slept"

    made = {"blocking": blocking, "cooperative": cooperative, "stubborn": stubborn}
    return tool(name="sleeper", effects="once", timeout=None)(made[kind])


@both_ways
@pytest.mark.parametrize("kind", ["blocking", "cooperative"])
def test_a_tool_that_sleeps(way: Way, kind: str) -> None:
    counting = Counting()
    model = ScriptedModel(
        replies=[
            asks(call("count", {"what": "a"}), call("sleeper", {"what": "x"}), call("lookup", {"name": "Ada"})),
            "What I have.",
        ]
    )
    graph = create_react_graph(model, [sleeping(kind), counting.tool, lookup], limits=LIMITS)
    timed = Timed(way, graph)
    assert_ended(timed.result, "deadline", model)
    assert timed.took >= LIMIT
    observed = {m.name: m for m in timed.result["messages"] if m.type == "tool"}
    assert observed["count"].text == "call number 1"
    assert observed["lookup"].text == "Ada is in the book on page 3."
    assert observed["sleeper"].status == "error"
    assert "unknown" in observed["sleeper"].text
    assert timed.result["answer"] == "What I have."
    assert timed.result["stop"]["step"] == 1
    assert len(model.requests) == 2, "no turn is begun when the time is over"
    assert timed.result["spent"]["tool_calls"] == 3


def test_an_async_tool_that_swallows_its_cancellation_under_invoke() -> None:
    model = ScriptedModel(replies=[asks(call("sleeper", {"what": "x"})), "What I have."])
    timed = Timed("invoke", create_react_graph(model, [sleeping("stubborn")], limits=LIMITS))
    assert_ended(timed.result, "deadline", model)
    assert "unknown" in timed.result["messages"][2].text


async def test_an_async_tool_that_swallows_its_cancellation_under_ainvoke() -> None:
    """The task cannot be killed either; the run goes on without it."""
    model = ScriptedModel(replies=[asks(call("sleeper", {"what": "x"})), "What I have."])
    release = asyncio.Event()

    @tool(name="sleeper", effects="once", timeout=None)
    async def stubborn(what: str) -> str:
        """Sleep until it is let go.

        Args:
            what: Anything.
        """
        while not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 1)
            except (asyncio.CancelledError, TimeoutError):
                continue
        return "slept"

    began = time.monotonic()
    result = await create_react_graph(model, [stubborn], limits=LIMITS).ainvoke(question())
    assert time.monotonic() - began < LIMIT + RESERVE + SLACK
    assert_ended(result, "deadline", model)
    assert "unknown" in result["messages"][2].text
    release.set()


@both_ways
@pytest.mark.parametrize("kind", ["blocking", "cooperative"])
def test_a_tools_own_timeout_does_not_end_the_run(way: Way, kind: str) -> None:
    def blocking(what: str) -> str:
        """Sleep.

        Args:
            what: Anything.
        """
        time.sleep(30)
        return "slept"

    async def cooperative(what: str) -> str:
        """Sleep.

        Args:
            what: Anything.
        """
        await asyncio.sleep(30)
        return "slept"

    slow = tool(name="slow", timeout=0.3)(blocking if kind == "blocking" else cooperative)
    model = ScriptedModel(replies=[asks(call("slow", {"what": "x"}), "Ada"), "Without it, then."])
    timed = Timed(way, create_react_graph(model, [slow, lookup]), most=0.3 + SLACK)
    assert_ended(timed.result, "final", model)
    observed = [m for m in timed.result["messages"] if m.type == "tool"]
    assert "no result within 0.3 s" in observed[0].text
    assert "unknown" in observed[0].text
    assert observed[1].status == "success"


@both_ways
@pytest.mark.parametrize("calls", [3, 6])
def test_waiting_for_a_place_does_not_extend_the_deadline(way: Way, calls: int) -> None:
    """Calls that ``max_concurrency`` holds back share what is left of the time."""
    model = ScriptedModel(replies=[asks(*(call("sleeper", {"what": str(n)}) for n in range(calls))), "What I have."])
    graph = create_react_graph(model, [sleeping("blocking")], limits=LIMITS)
    timed = Timed(way, graph, max_concurrency=1)
    assert_ended(timed.result, "deadline", model)
    assert len([m for m in timed.result["messages"] if m.type == "tool"]) == calls


@both_ways
def test_a_retry_does_not_wait_beyond_the_deadline(way: Way) -> None:
    from fake_openai_server import Fail

    with FakeOpenAI([Fail(429, retry_after=30), "Never asked."]) as server:
        timed = Timed(way, create_react_graph(f"{server.url}#fake", [lookup], limits=LIMITS))
    assert_ended(timed.result, "model_error")
    assert timed.took < LIMIT + SLACK


@both_ways
def test_a_verifier_that_hangs(way: Way) -> None:
    model = ScriptedModel(replies=["Page 3."])

    def verify(answer: str, trajectory: Any) -> None:
        time.sleep(60)

    timed = Timed(way, create_react_graph(model, [lookup], limits=LIMITS, verify=verify))
    assert_ended(timed.result, "final", model)
    assert timed.result["answer"] == "Page 3."
    assert "not verified" in timed.result["stop"]["detail"]


@both_ways
def test_a_model_class_that_knows_only_the_blocking_way(way: Way) -> None:
    class Blocking(ScriptedModel):
        _agenerate = ScriptedModel.__mro__[1]._agenerate  # type: ignore[attr-defined]
        _astream = ScriptedModel.__mro__[1]._astream  # type: ignore[attr-defined]

    model = Blocking(replies=["Too late."], delay=30)
    timed = Timed(way, create_react_graph(model, [lookup], limits=LIMITS))
    assert_ended(timed.result, "deadline")


@both_ways
def test_the_process_ends_with_the_run(way: Way, silent: str) -> None:
    """No thread that hangs keeps the interpreter: not one of a tool, of an async tool or of a model."""
    code = f"""
        import asyncio, time
        from taograph import Limits, create_react_graph, tool
        from taograph.models import ScriptedModel, call
        from langchain_core.messages import AIMessage

        @tool(timeout=None)
        def sleeper(what: str = "") -> str:
            "Sleep."
            time.sleep(60)

        @tool(timeout=None)
        async def asleeper(what: str = "") -> str:
            "Sleep."
            end = time.monotonic() + 60
            while time.monotonic() < end:
                try:
                    await asyncio.sleep(end - time.monotonic())
                except asyncio.CancelledError:
                    if {way!r} == "ainvoke":
                        raise

        for hangs in ("sleeper", "asleeper", "model"):
            model = ScriptedModel(replies=[AIMessage("", tool_calls=[call(hangs)]), "Done."])
            if hangs == "model":
                model = "{silent}#any"
            graph = create_react_graph(model, [sleeper, asleeper], limits=Limits(seconds=0.5, reserve_seconds=0.3))
            given = {{"messages": [("user", "Go.")]}}
            result = asyncio.run(graph.ainvoke(given)) if {way!r} == "ainvoke" else graph.invoke(given)
            print(result["stop"]["reason"])
    """
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=Path(__file__).parent,
        check=False,
    )
    assert done.stdout.split() == ["deadline"] * 3, done.stderr
    assert done.returncode == 0
    assert done.stderr == ""
    assert time.monotonic() - began < 45
