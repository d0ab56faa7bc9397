"""Cores that run beside another: heard of in order, cut with it, and never left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from taograph.beside import Mailbox, Outcome, Receive, Start
from taograph.calls import TOOL_THREADS, Call, Cancelled, Pause, Steps, TimedOut, adrive, drive
from taograph.cancel import Cancellation, current_cancellation

Run = Callable[[Steps[Any]], Any]


@pytest.fixture(params=["threads", "tasks"])
def run(request: pytest.FixtureRequest) -> Run:
    return drive if request.param == "threads" else lambda steps: asyncio.run(adrive(steps))


def doing(function: Callable[[], Any], seconds: float | None = 30.0) -> Call:
    return Call(function, None, seconds, TOOL_THREADS)


def returning(value: Any) -> Steps[Any]:
    return (yield doing(lambda: value))


def test_outcomes_come_as_they_are_ready(run: Run) -> None:
    first, second = threading.Event(), threading.Event()

    def waiting(event: threading.Event, name: str) -> Steps[str]:
        yield doing(lambda: event.wait(30))
        return name

    def core() -> Steps[list[Any]]:
        box, got = Mailbox(), []
        yield Start(waiting(first, "first"), box, 1)
        yield Start(waiting(second, "second"), box, 2)
        second.set()
        got.append((yield Receive(box)))
        first.set()
        got.append((yield Receive(box)))
        return got

    assert run(core()) == [Outcome(2, "second"), Outcome(1, "first")]


def test_what_a_core_raises_is_its_outcome(run: Run) -> None:
    class Odd(BaseException):
        pass

    def fails(error: BaseException) -> Steps[None]:
        yield Pause(0)
        raise error

    def core() -> Steps[list[Any]]:
        box = Mailbox()
        for error in (ValueError("x"), Odd(), SystemExit(3)):
            yield Start(fails(error), box, type(error))
        return [(yield Receive(box)), (yield Receive(box)), (yield Receive(box))]

    got = run(core())
    assert {outcome.key: type(outcome.error) for outcome in got} == {one: one for one in (ValueError, Odd, SystemExit)}


def test_events_from_anywhere_wake_it(run: Run) -> None:
    def core() -> Steps[list[str]]:
        box = Mailbox()
        threading.Thread(target=lambda: [box.put("a"), box.put("b")]).start()
        return [(yield Receive(box, 30)), (yield Receive(box, 30))]

    assert run(core()) == ["a", "b"]


def test_a_wait_has_an_end(run: Run) -> None:
    def core() -> Steps[str]:
        box = Mailbox()
        with pytest.raises(TimedOut):
            yield Receive(box, 0.01)
        with pytest.raises(TimedOut):
            yield Receive(box, 0)
        box.put("there")
        return (yield Receive(box, 0))

    assert run(core()) == "there"


def test_nothing_is_left_when_the_core_ends(run: Run) -> None:
    began = threading.Event()
    ended: list[str] = []

    def write() -> None:
        ended.append("written down")

    def hangs() -> Steps[None]:
        async def sleep() -> None:
            began.set()
            await asyncio.sleep(300)

        try:
            yield Call(None, sleep, None, TOOL_THREADS)
        except Cancelled as cut:
            ended.append(cut.reason)
            yield Call(write, lambda: asyncio.sleep(0, write()), None, TOOL_THREADS, certain=True)
            raise

    def core(fails: bool) -> Steps[str]:
        yield Start(hangs(), Mailbox(), 1)
        yield doing(lambda: began.wait(30))
        if fails:
            raise KeyError("mine")
        return "done"

    assert run(core(False)) == "done"
    assert ended == ["what it was a part of has ended", "written down"]
    began.clear()
    with pytest.raises(KeyError):
        run(core(True))
    assert len(ended) == 4


def test_a_cancellation_reaches_all_of_them(run: Run) -> None:
    with Cancellation() as cancel:
        inner: list[Any] = []

        def hangs() -> Steps[str]:
            try:
                yield doing(lambda: threading.Event().wait(300), None)
            except Cancelled as cut:
                inner.append((cut.reason, current_cancellation() is not cancel))
            return "given up"

        def core() -> Steps[Any]:
            box = Mailbox()
            yield Start(hangs(), box, 1)
            threading.Timer(0.01, lambda: cancel.request("enough")).start()
            with pytest.raises(Cancelled, match="enough"):
                yield Receive(box)
            with pytest.raises(Cancelled):
                yield Receive(box)
            return (yield Receive(box, certain=True))

        assert run(core()) == Outcome(1, "given up")
        assert inner == [("enough", True)]


def test_a_task_that_is_cancelled_takes_them_along() -> None:
    ended: list[str] = []

    def hangs() -> Steps[None]:
        try:
            yield Call(None, lambda: asyncio.sleep(300), None, TOOL_THREADS)
        except Cancelled as cut:
            ended.append(cut.reason)

    def core() -> Steps[None]:
        box = Mailbox()
        yield Start(hangs(), box, 1)
        yield Receive(box)

    async def main() -> None:
        task = asyncio.create_task(adrive(core()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["what it was a part of has ended"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_many_at_once_each_in_a_context_of_its_own(run: Run) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)
    together = threading.Barrier(20)

    def sets(number: int) -> Steps[int]:
        before = variable.get()
        variable.set(number)
        yield doing(lambda: together.wait(30))
        return before * 100 + variable.get()

    def core() -> Steps[list[int]]:
        variable.set(7)
        box = Mailbox()
        for number in range(20):
            yield Start(sets(number), box, number)
        got = []
        for _ in range(20):
            got.append((yield Receive(box)).result)
        return sorted(got)

    assert run(core()) == [700 + number for number in range(20)]


def test_cores_within_cores(run: Run) -> None:
    def outer(depth: int) -> Steps[int]:
        if depth == 0:
            return (yield from returning(1))
        box = Mailbox()
        yield Start(outer(depth - 1), box, "a")
        yield Start(outer(depth - 1), box, "b")
        first = yield Receive(box)
        second = yield Receive(box)
        return first.result + second.result

    assert run(outer(4)) == 16
