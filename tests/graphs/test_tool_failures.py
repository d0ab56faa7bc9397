"""Whatever a tool raises is an observation: its siblings, the run and its secrets are safe."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.tools import BaseTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    Counting,
    Way,
    asks,
    assert_ended,
    both_ways,
    lookup,
    question,
    run,
    texts,
    thread,
)
from tool_support import as_kind, kinds, observed, one_tool

from taograph import Limits, ToolError, create_react_graph, tool
from taograph.models import ScriptedModel, call

SECRET = "password=hunter2 sk-abcdef1234567890 postgres://admin:s3cr3t@db.internal/prod"


class Fatal(BaseException):
    """Not even an Exception."""


class Odd(Exception):  # noqa: N818
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "RuntimeError": lambda: RuntimeError("trouble"),
    "StopIteration": lambda: StopIteration("trouble"),
    "StopAsyncIteration": lambda: StopAsyncIteration("trouble"),
    "SystemExit": lambda: SystemExit(3),
    "RecursionError": lambda: RecursionError("trouble"),
    "MemoryError": lambda: MemoryError("trouble"),
    "TimeoutError": lambda: TimeoutError("trouble"),
    "CancelledError": lambda: asyncio.CancelledError("trouble"),
    "ExceptionGroup": lambda: ExceptionGroup("troubles", [ValueError("a"), TypeError("b")]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("troubles", [SystemExit(1), ValueError("b")]),
    "Odd": Odd,
}


@both_ways
@kinds
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("limited", [True, False])
def test_whatever_a_tool_raises_is_an_observation(way: Way, kind: str, error: str, limited: bool) -> None:
    counting = Counting()

    def raises() -> None:
        raise ERRORS[error]()

    doing = as_kind(raises, kind)
    model = ScriptedModel(replies=[asks(call("doing"), call("count"), "Ada"), asks("Grace"), "Done."])
    limits = Limits() if limited else Limits(seconds=None)
    graph = create_react_graph(model, [doing, counting.tool, lookup], limits=limits, checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    first, second, third, _ = observed(result)
    assert first.status == "error"
    assert "trouble" not in first.text
    assert "doing" in first.text
    assert "time was over" not in first.text
    assert "no result within" not in first.text
    assert second.text == "call number 1"
    assert third.text == "Ada is in the book on page 3."
    assert result["spent"]["tool_calls"] == 4


@pytest.mark.parametrize(
    ("way", "kind"), [("invoke", "sync"), ("ainvoke", "sync"), ("invoke", "async"), ("invoke", "unbounded")]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, Fatal])
def test_what_is_made_to_pass_everything_passes_and_the_thread_goes_on(way: Way, kind: str, error: Any) -> None:
    """``KeyboardInterrupt``, and exceptions that are no ``Exception`` on purpose."""
    raised = []

    def raises() -> str:
        if not raised:
            raised.append(1)
            raise error
        return "well"

    model = ScriptedModel(replies=[asks(call("doing"), "Ada"), "Done.", "Else."])
    graph = create_react_graph(model, [as_kind(raises, kind), lookup], checkpointer=InMemorySaver())
    with pytest.raises(error):
        run(way, graph, question(), thread())
    result = run(way, graph, None, thread())
    assert_ended(result, "final", model)
    assert [m.text for m in observed(result)] == ["well", "Ada is in the book on page 3."]


class Exiting(BaseTool):
    """A tool class of its own, which no wrapper reaches."""

    name: str = "exiting"
    description: str = "Exit."

    def _run(self) -> str:
        raise SystemExit(1)

    async def _arun(self) -> str:
        raise SystemExit(1)


def test_a_tool_class_that_exits_under_invoke() -> None:
    graph, model = one_tool(Exiting())
    result = graph.invoke(question(), thread())
    assert_ended(result, "final", model)
    assert observed(result)[0].text.startswith("exiting failed (SystemExit)")


def test_async_tools_still_work_after_one_that_exits() -> None:
    """The loop that runs async tools under ``invoke`` is shared, and must outlive any of them."""

    def exits() -> None:
        raise SystemExit(1)

    for _ in range(2):
        graph, model = one_tool(as_kind(exits, "async"))
        assert_ended(graph.invoke(question(), thread()), "final", model)
        graph, model = one_tool(as_kind(lambda: "well", "async"))
        result = graph.invoke(question(), thread())
        assert observed(result)[0].text == "well"


def test_the_loop_of_async_tools_outlives_a_task_that_exits() -> None:
    """A task that a tool starts itself can raise what asyncio hands on to the loop."""

    def made(exits: bool) -> BaseTool:
        async def doing() -> str:
            """Do it."""

            async def inner() -> str:
                if exits:
                    raise SystemExit(1)
                return "well"

            return await asyncio.create_task(inner())

        return tool(effects="none", timeout=3)(doing)

    graph, _ = one_tool(made(True))
    assert observed(graph.invoke(question(), thread()))[0].status == "error"
    graph, _ = one_tool(made(False))
    assert observed(graph.invoke(question(), thread()))[0].text == "well"


@both_ways
def test_a_tool_error_is_shown_and_an_unexpected_one_is_not(way: Way) -> None:
    @tool(effects="none")
    def choosy(what: str) -> str:
        """Take one of two.

        Args:
            what: "shown", "exception" or anything else.
        """
        if what == "shown":
            raise ToolError("Give a country, as in France.")
        if what == "exception":
            raise ToolException("Not a country.")
        raise RuntimeError("Not for the model.")

    asked = [call("choosy", {"what": what}) for what in ("shown", "exception", "else")]
    graph, model = one_tool(choosy, *asked)
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert texts(observed(result))[:3] == [
        "Give a country, as in France.",
        "Not a country.",
        "choosy failed (RuntimeError). Try other arguments, or another tool.",
    ]
    assert [m.status for m in observed(result)] == ["error"] * 3 + ["success"]


@both_ways
def test_secrets_in_an_exception_reach_nobody(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    def leaks() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as inner:
            raise RuntimeError(f"cannot connect: {SECRET}") from inner

    caplog.set_level(logging.DEBUG)
    for kind in ("sync", "async", "unbounded"):
        caplog.clear()
        model = ScriptedModel(replies=[asks(call("doing"), text="I try."), ValueError("down")])
        graph = create_react_graph(model, [as_kind(leaks, kind)], checkpointer=InMemorySaver())
        parts: list[Any] = []
        if way == "invoke":
            parts = list(
                graph.stream(question(), thread(), stream_mode=["custom", "updates", "values", "tasks", "debug"])
            )
        else:

            async def collect(graph: Any = graph, parts: list[Any] = parts) -> None:
                async for part in graph.astream(
                    question(), thread(), stream_mode=["custom", "updates", "values", "tasks", "debug"]
                ):
                    parts.append(part)

            asyncio.run(collect())
        seen = repr(parts) + repr(graph.get_state(thread())) + repr([r.messages for r in model.requests]) + caplog.text
        for piece in ("hunter2", "abcdef1234567890", "s3cr3t"):
            assert piece not in seen, kind
        assert "RuntimeError" in seen


@both_ways
def test_secrets_in_a_tool_error_are_hidden_where_they_are_known(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "correct-horse-battery")

    def tells() -> None:
        raise ToolError("401 for key correct-horse-battery (sk-abcdef1234567890): use another city")

    graph, _ = one_tool(as_kind(tells, "sync"))
    text = observed(run(way, graph, question(), thread()))[0].text
    assert "correct-horse" not in text
    assert "abcdef" not in text
    assert "use another city" in text


@both_ways
def test_what_a_tool_raises_after_it_was_given_up_is_not_logged(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    """asyncio logs exceptions that nobody asked for, text and all."""
    ended = threading.Event()

    @tool(effects="none", timeout=0.2)
    async def late() -> str:
        """Raise when it is too late."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.8)
            ended.set()
            raise RuntimeError(SECRET) from None
        return ""

    model = ScriptedModel(replies=[asks(call("late")), "Done."])
    graph = create_react_graph(model, [late])
    if way == "invoke":
        result = graph.invoke(question())
        assert ended.wait(10)
        time.sleep(0.1)
    else:

        async def stay() -> Any:
            result = await graph.ainvoke(question())
            await asyncio.to_thread(ended.wait, 10)
            await asyncio.sleep(0.1)
            return result

        result = asyncio.run(stay())
    assert_ended(result, "final", model)
    gc.collect()
    assert "hunter2" not in caplog.text
    assert "never retrieved" not in caplog.text
