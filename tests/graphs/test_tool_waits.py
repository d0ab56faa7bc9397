"""A call of a tool that waits for a thread: its own time has not begun, the run's counts, and what is said is true."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import asks, assert_ended, question

from taograph import Cancellation, Limits, create_react_graph, tool
from taograph.calls import TOOL_THREADS
from taograph.models import ScriptedModel, call

Ask = Callable[..., dict[str, Any]]
WAYS: list[Ask] = [
    lambda graph, given: graph.invoke(given),
    lambda graph, given: asyncio.run(graph.ainvoke(given)),
]


@pytest.fixture(params=WAYS, ids=["sync", "async"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(TOOL_THREADS, "size", 1)
    ask: Ask = request.param
    return ask


@pytest.fixture
def taken(ask: Ask) -> Iterator[None]:
    """Another's call has the only thread."""
    over, begun = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        over.wait(30)

    future = TOOL_THREADS.submit(hold)
    assert begun.wait(10)
    yield
    over.set()
    future.result(10)


def quick(began: list[str], seconds: float | None) -> Any:
    @tool(effects="none", timeout=seconds)
    def quick() -> str:
        """Be quick."""
        began.append("quick")
        return "Done."

    return quick


def told(result: dict[str, Any]) -> list[str]:
    return [str(message.content) for message in result["messages"] if message.type == "tool"]


def test_the_time_of_a_tool_begins_when_it_has_a_thread(ask: Ask) -> None:
    @tool(effects="none", timeout=None)
    def long() -> str:
        """Take long."""
        time.sleep(0.9)
        return "Long done."

    model = ScriptedModel(replies=[asks(call("long", {}), call("quick", {})), "Both."])
    result = ask(create_react_graph(model, [long, quick([], 0.3)]), question("Go."))
    assert told(result) == ["Long done.", "Done."]


def test_it_is_over_once_it_has_run_that_long(ask: Ask) -> None:
    over = threading.Event()

    @tool(effects="none", timeout=None)
    def long() -> str:
        """Take long."""
        time.sleep(0.4)
        return "Long done."

    @tool(effects="none", timeout=0.1)
    def hang() -> str:
        """Hang."""
        over.wait(30)
        return "Late."

    model = ScriptedModel(replies=[asks(call("long", {}), call("hang", {})), "One."])
    result = ask(create_react_graph(model, [long, hang]), question("Go."))
    over.set()
    assert told(result) == [
        "Long done.",
        "hang was given up: no result within 0.1 s. Whether it took effect is unknown.",
    ]


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("seconds", [None, 0.05, 60.0])
def test_the_time_of_the_run_counts_while_a_call_waits(ask: Ask, seconds: float | None) -> None:
    began: list[str] = []
    model = ScriptedModel(replies=[asks(call("quick", {})), "Never."])
    limits = Limits(seconds=0.6, reserve_seconds=0.2)
    result = ask(create_react_graph(model, [quick(began, seconds)], limits=limits), question("Go."))
    assert told(result) == ["quick was not run: the run's time was over before it began."]
    assert_ended(result, "deadline")
    assert (began, result["spent"]["tool_calls"]) == ([], 0)


@pytest.mark.usefixtures("taken")
def test_a_run_that_is_cancelled_while_a_call_waits(ask: Ask) -> None:
    began: list[str] = []
    model = ScriptedModel(replies=[asks(call("quick", {})), "Never."])
    with Cancellation() as cancel:
        timer = threading.Timer(0.3, cancel.request)
        timer.start()
        result = ask(create_react_graph(model, [quick(began, 0.05)]), question("Go."))
        timer.join()
    assert told(result) == ["quick was not run: the run was cancelled before it began."]
    assert_ended(result, "cancelled")
    assert (began, result["spent"]["tool_calls"]) == ([], 0)
