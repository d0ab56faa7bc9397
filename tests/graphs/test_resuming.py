"""Runs that go on after a question to a person, a pause, a crash, a cancelled task or an edit by hand."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError
from support import (
    Counting,
    Way,
    asks,
    asks_a_person,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    both_ways,
    closes_or,
    lookup,
    pending,
    question,
    run,
    thread,
)

from taograph import Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person


class Page(BaseModel):
    """An answer of a person."""

    page: int


@both_ways
def test_a_run_that_a_server_drains_goes_on_with_its_budget(way: Way) -> None:
    control = RunControl()
    model = asks_for_ever()
    inner = model.replies[0]

    def drains(messages: list[BaseMessage]) -> Any:
        control.request_drain("SIGTERM")
        return inner(messages)

    model.replies = [drains, inner]
    graph = create_react_graph(model, [lookup], limits=Limits(steps=3), checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained):
        run(way, graph, question(), thread(), control=control)
    result = run(way, graph, None, thread())
    assert_ended(result, "step_limit", model)
    assert result["stop"]["step"] == 3


@both_ways
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("together", [True, False])
def test_two_questions_at_once_are_answered_by_id(way: Way, order: tuple[int, int], together: bool) -> None:
    model = ScriptedModel(
        replies=[
            asks(call("ask_person", {"question": "Name?"}, id="q0"), call("ask_person", {"question": "Age?"}, id="q1")),
            "Ada, 36.",
        ]
    )
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    asked = {one.value["question"]: one.id for one in pending(result)}
    assert sorted(asked) == ["Age?", "Name?"]
    answers = [{asked["Name?"]: "Ada"}, {asked["Age?"]: "36"}]
    if together:
        result = run(way, graph, Command(resume=answers[order[0]] | answers[order[1]]), thread())
    else:
        result = run(way, graph, Command(resume=answers[order[0]]), thread())
        assert [one.id for one in pending(result)] == list(answers[order[1]])
        result = run(way, graph, Command(resume=answers[order[1]]), thread())
    assert_ended(result, "final", model)
    assert {m.tool_call_id: m.text for m in result["messages"] if m.type == "tool"} == {"q0": "Ada", "q1": "36"}
    assert result["spent"]["tool_calls"] == 2
    assert result["spent"]["model_calls"] == 2


@both_ways
def test_the_siblings_of_a_question_run_once(way: Way) -> None:
    counting, fails = Counting(), Counting("fails")

    @tool(effects="once", name="fails")
    def failing(what: str) -> str:
        """Fail.

        Args:
            what: Anything.
        """
        fails.calls.append(what)
        raise RuntimeError

    model = ScriptedModel(
        replies=[
            asks(
                call("count", {"what": "before"}),
                call("ask_person", {"question": "Which?"}),
                call("count", {"what": "after"}),
                call("fails", {"what": "x"}),
            ),
            "Done.",
        ]
    )
    graph = create_react_graph(model, [ask_person, counting.tool, failing], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert len(pending(result)) == 1
    assert sorted(counting.calls) == ["after", "before"]
    result = run(way, graph, Command(resume="this"), thread())
    assert_ended(result, "final", model)
    assert sorted(counting.calls) == ["after", "before"]
    assert fails.calls == ["x"]
    assert result["spent"]["tool_calls"] == 4
    assert [m.status for m in result["messages"] if m.type == "tool"] == ["success"] * 3 + ["error"]


@both_ways
def test_two_questions_in_one_call(way: Way) -> None:
    @tool(effects="none", timeout=30)
    def interview() -> str:
        """Ask two questions, one after the other."""
        return f"{interrupt('first?')} and {interrupt('second?')}"

    model = ScriptedModel(replies=[asks(call("interview")), "Both."])
    graph = create_react_graph(model, [interview], limits=Limits(seconds=30), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert [one.value for one in pending(result)] == ["first?"]
    result = run(way, graph, Command(resume="one"), thread())
    assert [one.value for one in pending(result)] == ["second?"]
    result = run(way, graph, Command(resume="two"), thread())
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["one and two"]
    assert result["spent"]["tool_calls"] == 1


@both_ways
@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_that_does_not_fit_can_be_given_again(way: Way, is_async: bool) -> None:
    def ask() -> str:
        """Ask for a page."""
        return f"page {interrupt('Which page?', response_schema=Page).page}"

    async def aask() -> str:
        """Ask for a page."""
        return ask()

    ask_page = tool(name="ask_page", effects="none")(aask if is_async else ask)
    model = ScriptedModel(replies=[asks(call("ask_page")), "Done."])
    graph = create_react_graph(model, [ask_page], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    with pytest.raises(ValidationError, match="page"):
        run(way, graph, Command(resume={"page": "three"}), thread())
    result = run(way, graph, Command(resume={"page": 3}), thread())
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["page 3"]


@both_ways
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_resume_under_a_small_recursion_limit_ends_well(way: Way, limit: int, goes_on: bool) -> None:
    model = asks_a_person()
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    run(way, graph, question(), thread())
    model.replies = [*model.replies, closes_or(asks(call("ask_person", {"question": "And?"})) if goes_on else "Good.")]
    result = run(way, graph, Command(resume="yes"), thread(recursion_limit=limit))
    if not goes_on:
        assert_ended(result, "final", model)
    elif not pending(result):
        assert_ended(result, "step_limit", model)
        assert f"recursion_limit={limit}" in result["stop"]["detail"]
    else:
        assert limit > 2


@both_ways
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_going_on_after_a_pause_under_a_small_recursion_limit_loses_nothing(way: Way, limit: int) -> None:
    counting = Counting()
    model = ScriptedModel(replies=[asks(call("count")), "One."])
    graph = create_react_graph(model, [counting.tool], checkpointer=InMemorySaver())
    run(way, graph, question(), thread(), interrupt_before=["act"])
    result = run(way, graph, None, thread(recursion_limit=limit))
    assert_ended(result, "final", model)
    assert counting.calls == [""]


def test_a_run_left_by_a_crash_goes_on_with_its_budget(tmp_path: Path) -> None:
    """The process dies in a tool; another one goes on with the thread. Calls that ended are not run again."""
    code = f"""
        import os, sys, time
        from pathlib import Path
        from langchain_core.messages import AIMessage
        from taograph import Context, Limits, checkpoints, create_react_graph, tool
        from taograph.models import ScriptedModel, call

        log = Path({str(tmp_path)!r}, "log")
        first = not log.exists()

        def note(what):
            with log.open("a") as file:
                file.write(what + "\\n")

        @tool(effects="none")
        def count(what: str) -> str:
            "Count."
            note(what)
            return what

        @tool(effects="none")
        def deadly(what: str) -> str:
            "End the process, the first time."
            note(what)
            if first and what == "d2":
                time.sleep(0.3)
                os._exit(7)
            return what

        def reply(messages):
            if "The run ends here" in str(messages[-1].content):
                return "So far."
            n = sum(m.type == "ai" for m in messages) + 1
            note(f"turn {{n}}")
            return AIMessage("", tool_calls=[call("count", {{"what": f"c{{n}}"}}, id=f"c{{n}}"),
                                             call("deadly", {{"what": f"d{{n}}"}}, id=f"d{{n}}")])

        with checkpoints.open("sqlite:///{tmp_path}/t.db") as saver:
            model = ScriptedModel(replies=[reply], repeat=True)
            graph = create_react_graph(model, [count, deadly], limits=Limits(steps=3), checkpointer=saver)
            given = {{"messages": [("user", "Go.")]}} if first else None
            result = graph.invoke(given, {{"configurable": {{"thread_id": "1"}}}}, durability="sync")
            print(result["stop"]["reason"], result["stop"]["step"], result["spent"]["model_calls"],
                  result["spent"]["tool_calls"])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    dead = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert dead.returncode == 7, dead.stderr
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["step_limit", "3", "4", "6"], done.stderr
    ran = (tmp_path / "log").read_text().split("\n")[:-1]
    assert sorted(ran) == sorted(["turn 1", "c1", "d1", "turn 2", "c2", "d2", "d2", "turn 3", "c3", "d3"]), (
        "only what had not ended is run again"
    )


async def test_a_run_whose_task_was_cancelled_goes_on_with_its_budget() -> None:
    """What a server does with a run that its client cancels: the tool is cut, the thread stays usable."""
    began, calls = asyncio.Event(), []

    @tool(effects="none")
    async def slow(name: str) -> str:
        """Take long the first time.

        Args:
            name: Anything.
        """
        calls.append(name)
        began.set()
        if len(calls) == 1:
            await asyncio.sleep(60)
        return name

    model = ScriptedModel(replies=[asks(call("slow", {"name": "a"}), "Ada"), "Done.", "Something else."])
    graph = create_react_graph(model, [slow, lookup], checkpointer=InMemorySaver())
    task = asyncio.create_task(graph.ainvoke(question(), thread()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await graph.ainvoke(None, thread())
    assert_ended(result, "final", model)
    assert calls == ["a", "a"]
    assert result["spent"]["tool_calls"] == 2


async def test_a_new_question_after_a_cancelled_task_is_answered() -> None:
    began = asyncio.Event()

    @tool(effects="none")
    async def slow(name: str) -> str:
        """Take long.

        Args:
            name: Anything.
        """
        began.set()
        await asyncio.sleep(60)
        return name

    model = ScriptedModel(replies=[asks(call("slow", {"name": "a"}), "Ada"), "Something else."])
    graph = create_react_graph(model, [slow, lookup], checkpointer=InMemorySaver())
    task = asyncio.create_task(graph.ainvoke(question(), thread()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await graph.ainvoke(question("Something else?"), thread())
    assert_ended(result, "final")
    assert_acceptable(model.requests[-1].messages)
    assert result["spent"]["model_calls"] == 1


@both_ways
def test_a_fork_from_every_checkpoint_counts_from_there(way: Way) -> None:
    """Time travel: what was spent after the checkpoint is not held against the fork, what was before is."""
    answers = itertools.count(1)

    def reply(messages: list[BaseMessage]) -> Any:
        acted = sum(m.type == "ai" for m in messages)
        return asks(f"n{acted}") if acted < 3 else f"Answer {next(answers)}."

    model = ScriptedModel(replies=[reply], repeat=True, usage=(10, 1))
    graph = create_react_graph(model, [lookup], limits=Limits(steps=4), checkpointer=InMemorySaver())
    whole = run(way, graph, question(), thread())
    assert_ended(whole, "final", model)
    history = list(graph.get_state_history(thread()))
    forks = 0
    for state in history:
        if not state.next or ("reason" not in state.next and "act" not in state.next):
            continue
        forks += 1
        result = run(way, graph, None, state.config)
        assert_ended(result, "final")
        assert result["stop"]["step"] == 4
        assert result["answer"] == f"Answer {forks + 1}."
        for key in ("model_calls", "tool_calls", "input_tokens", "output_tokens"):
            assert result["spent"][key] == whole["spent"][key], key
    assert forks >= 7


@both_ways
def test_a_call_edited_by_hand_before_it_runs(way: Way) -> None:
    """What Studio does: stop before the tools, change the call, go on."""
    model = ScriptedModel(replies=[asks("Ada"), "Found."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    run(way, graph, question(), thread(), interrupt_before=["act"])
    (asked,) = [m for m in graph.get_state(thread()).values["messages"] if m.type == "ai"]
    edited = asked.model_copy(update={"tool_calls": [{**asked.tool_calls[0], "args": {"name": "Grace"}}]})
    graph.update_state(thread(), {"messages": [edited]}, as_node="reason")
    result = run(way, graph, None, thread())
    assert_ended(result, "final")
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["Grace is in the book on page 5."]


@both_ways
def test_a_result_written_by_hand_instead_of_the_call(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Found."])
    counting = Counting("lookup")
    graph = create_react_graph(model, [counting.tool], checkpointer=InMemorySaver())
    run(way, graph, question(), thread(), interrupt_before=["act"])
    (asked,) = [m for m in graph.get_state(thread()).values["messages"] if m.type == "ai"]
    told = ToolMessage("By hand.", tool_call_id=asked.tool_calls[0]["id"], name="lookup")
    graph.update_state(thread(), {"messages": [told]}, as_node="act")
    result = run(way, graph, None, thread())
    assert_ended(result, "final", model)
    assert counting.calls == []
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["By hand."]
