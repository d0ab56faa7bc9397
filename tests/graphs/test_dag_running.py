"""LLMCompiler's graph in a world where persons are asked, processes die, and time is short."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from dag_support import (
    LONG,
    Writing,
    finish,
    multiply,
    observed,
    plan,
    search,
)
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from stream_support import Streams
from support import Way, assert_ended, both_ways, pending, question, run, thread
from typing_extensions import TypedDict

from taograph import Limits, checkpoints, tool
from taograph.cancel import Cancellation
from taograph.graphs.dag import create_dag_graph
from taograph.models import ScriptedModel


@both_ways
def test_the_word_of_a_person_is_asked_for_when_the_plan_is_complete(way: Way, tmp_path: Path) -> None:
    begun: list[str] = []

    @tool(effects="none")
    def look(what: str) -> str:
        """Look.

        Args:
            what: At what.
        """
        begun.append(what)
        return f"saw {what}"

    calls = ['look("a")', 'send("$1")', 'look("b")', 'look("$2")']
    sent: list[str] = []

    @tool(effects="once")
    def send(text: str) -> str:
        """Send.

        Args:
            text: What.
        """
        sent.append(text)
        return f"sent {text}"

    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan(*calls), finish("Fine.")])
        options: dict[str, Any] = {"approve": ["send"], "checkpointer": saver}
        (asked,) = pending(run(way, create_dag_graph(model, [look, send], **options), question(), thread()))
        assert asked.value["args"] == {"text": "saw a"}
        assert sorted(begun) == ["a", "b"]
        assert sent == []
        edit = {asked.id: {"decision": "edit", "args": {"text": "less"}}}
        result = run(way, create_dag_graph(model, [look, send], **options), Command(resume=edit), thread())
        assert_ended(result, "final", model)
        assert len(model.requests) == 2
        assert sent == ["less"]
        assert sorted(begun) == ["a", "b", "sent less"]


@both_ways
@pytest.mark.parametrize("kind", ["predicate", "tool"])
def test_a_call_that_turns_out_to_wait_for_a_person(way: Way, kind: str, tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effects="none")
    def choose(what: str) -> str:
        """Let a person choose.

        Args:
            what: Of what.
        """
        said = interrupt(f"which {what}?") if kind == "tool" else "red"
        ran.append(what)
        return f"{said} {what}"

    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan('choose("hat")', 'search("$1")', 'search("b")'), finish("Fine.")])
        approve: Any = (lambda name, args, trajectory: name == "choose") if kind == "predicate" else ()
        graph = create_dag_graph(model, [choose, search], approve=approve, checkpointer=saver)
        (asked,) = pending(run(way, graph, question(), thread()))
        assert ran == []
        answer = "approve" if kind == "predicate" else "red"
        result = run(way, graph, Command(resume={asked.id: answer}), thread())
        assert_ended(result, "final", model)
        assert ran == ["hat"]
        assert observed(result) == {"t1": "red hat", "t2": "found <red hat>", "t3": "found <b>"}
        assert len(model.requests) == 2


class Crash(BaseException):
    """Passes everything, as the end of a process does."""


@both_ways
@pytest.mark.parametrize("effects", ["none", "idempotent", "once"])
def test_after_a_crash_nothing_is_paid_or_run_twice(way: Way, effects: Any, tmp_path: Path) -> None:
    runs: list[str] = []
    crashes = [True]
    both = threading.Event()

    @tool(effects=effects)
    def note(text: str) -> str:
        """Note something.

        Args:
            text: What.
        """
        runs.append(text)
        if text == "b":
            both.set()
        return f"noted {text}"

    @tool(effects="none")
    def break_down(text: str) -> str:
        """Break down once.

        Args:
            text: Anything.
        """
        assert both.wait(LONG)
        if crashes:
            crashes.clear()
            raise Crash
        return "whole"

    with checkpoints.open(f"sqlite:///{tmp_path / 'c.db'}") as saver:
        model = ScriptedModel(
            replies=[plan('note("a")', 'note("b $1"[2:0] or "b")', 'break_down("$1")'), finish("Fine.")]
        )
        model.replies = [plan('note("a")', 'note("b")', 'break_down("$1 $2")'), finish("Fine.")]
        graph = create_dag_graph(model, [note, break_down], checkpointer=saver)
        with pytest.raises(Crash):
            run(way, graph, question(), thread())
        result = run(way, graph, None, thread())
        assert_ended(result, "final")
        assert len(model.requests) == 2, "the plan was paid twice"
        assert sorted(runs) == ["a", "b"]
        assert observed(result)["t3"] == "whole"


@both_ways
@pytest.mark.parametrize("effects", ["none", "idempotent"])
def test_what_was_done_before_the_plan_was_complete_survives_a_crash(way: Way, effects: Any, tmp_path: Path) -> None:
    runs: list[str] = []
    crashes = [True]
    second = threading.Event()

    @tool(effects=effects)
    def note(text: str) -> str:
        """Note something.

        Args:
            text: What.
        """
        runs.append(text)
        if text != "a":
            second.set()
        return "n"

    @tool(effects="none")
    def break_down(text: str) -> str:
        """Break down once.

        Args:
            text: Anything.
        """
        if crashes:
            crashes.clear()
            raise Crash
        return "whole"

    pieces = ['1. note("a")\n2. note("b$1")\n', lambda: second.wait(LONG), '3. break_down("$2")\n4. join()']
    with checkpoints.open(f"sqlite:///{tmp_path / 'c.db'}") as saver:
        model = Writing(replies=["", finish("Fine.")], pieces=pieces)
        graph = create_dag_graph(model, [note, break_down], checkpointer=saver)
        with pytest.raises(Crash):
            run(way, graph, question(), thread())
        result = run(way, graph, None, thread())
        assert_ended(result, "final")
        assert len(model.requests) == 2
        assert runs == ["a", "bn"]
        assert observed(result) == {"t1": "n", "t2": "n", "t3": "whole"}


def test_what_must_not_be_repeated_waits_for_the_whole_plan_where_it_is_stored(steps: Streams) -> None:
    looked = threading.Event()

    @tool(effects="once")
    def send(text: str) -> str:
        """Send.

        Args:
            text: What.
        """
        return "sent"

    @tool(effects="none")
    def look(text: str) -> str:
        """Look.

        Args:
            text: At what.
        """
        if text == "seen":
            looked.set()
        return "seen"

    def order(**options: Any) -> list[str]:
        looked.clear()
        pieces = ['1. send("a")\n2. look("b")\n3. look("$2")\n', lambda: looked.wait(LONG), "4. join()"]
        model = Writing(replies=["", finish("Fine.")], pieces=pieces)
        events = steps(create_dag_graph(model, [send, look], **options), question(), thread())
        assert events[-1]["text"] == "Fine."
        told = [e.get("id", "the plan") for e in events if e["type"] in ("action", "budget")]
        return told[: told.index("t1") + 1]

    with checkpoints.open("sqlite://") as saver:
        assert order(checkpointer=saver) == ["t2", "t3", "the plan", "t1"]
    assert "the plan" not in order(), "nothing can be held to where nothing is stored"


@both_ways
def test_a_planner_that_begins_anew_after_a_failure(way: Way) -> None:
    noted: list[str] = []
    begun = threading.Event()

    @tool(effects="none")
    def note(text: str) -> str:
        """Note.

        Args:
            text: What.
        """
        noted.append(text)
        begun.set()
        return f"noted {text}"

    def breaks() -> None:
        assert begun.wait(LONG)
        raise httpx.ReadError("the connection broke")

    model = Writing(
        replies=["", plan('note("a")', 'note("c")'), finish("Fine.")], pieces=['1. note("a")\n2. note("b")\n3.', breaks]
    )
    result = run(way, create_dag_graph(model, [note], limits=Limits(model_retries=1)), question())
    assert_ended(result, "final", model)
    assert noted.count("a") == 1, "what says the same is not called again"
    assert sorted(noted) == ["a", "b", "c"]
    got = observed(result)
    assert got["t2_2"] == "noted c"
    assert got["t2"] == "noted b", "what was done is told"


@both_ways
def test_cancelled_while_it_plans_and_calls(way: Way) -> None:
    begun, ended = threading.Event(), threading.Event()
    hung: list[str] = []

    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        hung.append(name)
        begun.set()
        try:
            await asyncio.sleep(300)
        finally:
            ended.set()
        return name

    with Cancellation() as cancel:

        def stop() -> None:
            assert begun.wait(LONG)
            cancel.request("enough")

        pieces = ['1. search("x")\n2. hang("$1")\n3. hang("$2")\n', stop, "4. join()"]
        result = run(way, create_dag_graph(Writing(replies=["", "x"], pieces=pieces), [hang, search]), question())
    assert_ended(result, "cancelled")
    assert ended.wait(LONG), "it was left running"
    assert hung == ["found <x>"]
    assert observed(result)["t1"] == "found <x>"
    assert "cancelled" in observed(result)["t2"]


@both_ways
def test_the_time_is_over_in_the_middle(way: Way) -> None:
    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        await asyncio.sleep(300)
        return name

    model = ScriptedModel(replies=[plan('hang("a")', 'search("b")', 'search("$1")'), "What I have."])
    result = run(way, create_dag_graph(model, [hang, search], limits=Limits(seconds=0.3)), question())
    assert_ended(result, "deadline", model)
    assert "the run's time was over" in observed(result)["t1"]
    assert observed(result)["t2"] == "found <b>"
    assert result["answer"] == "What I have."


def test_an_error_of_our_own_ends_the_run_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        begun.set()
        try:
            await asyncio.sleep(300)
        finally:
            released.set()
        return name

    @tool(effects="none")
    def last(name: str) -> str:
        """Come after it.

        Args:
            name: Anything.
        """
        assert begun.wait(LONG)
        return name

    def broken(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr("taograph.tools.running.succeeded", broken)
    model = ScriptedModel(replies=[plan('hang("a")', 'last("b")'), "x"])
    with pytest.raises(KeyError):
        create_dag_graph(model, [hang, last]).invoke(question())
    assert released.wait(LONG), "it was left running"


class Outer(TypedDict):
    answer: str
    rejected: bool


@both_ways
def test_as_a_node_of_another_graph_with_an_approval_in_it(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan('search("a")', "multiply(3)", 'search("$2")'), finish("Fine.")])
        inner = create_dag_graph(model, [search, multiply], approve=["multiply"])

        async def ainside(state: Outer) -> dict[str, Any]:
            return {"answer": (await inner.ainvoke(question()))["answer"]}

        def inside(state: Outer) -> dict[str, Any]:
            return {"answer": inner.invoke(question())["answer"]}

        builder = StateGraph(Outer).add_node("inside", RunnableLambda(inside, ainside))
        graph = builder.add_edge(START, "inside").add_edge("inside", END).compile(checkpointer=saver)
        (asked,) = pending(run(way, graph, {"answer": ""}, thread()))
        assert asked.value["tool"] == "multiply"
        result = run(way, graph, Command(resume={asked.id: "approve"}), thread())
        assert result["answer"] == "Fine."
        assert len(model.requests) == 2
