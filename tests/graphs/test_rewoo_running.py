"""ReWOO's graph in a world where limits are met, persons are asked, and processes die."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from rewoo_support import asked_for, evidence, multiply, plan, search, solved_with
from support import Way, assert_acceptable, assert_ended, both_ways, pending, question, run, thread

from taograph import Limits, checkpoints, tool
from taograph.cancel import Cancellation
from taograph.graphs.rewoo import create_rewoo_graph
from taograph.models import ScriptedModel


@both_ways
def test_a_limit_of_tool_calls_and_going_on(way: Way) -> None:
    model = ScriptedModel(
        replies=[plan("#E1 = search[a]", "#E2 = search[b]", "#E3 = search[#E1 #E2]"), "So far.", "All of it."]
    )
    graph = create_rewoo_graph(model, [search], limits=Limits(tool_calls=1), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "tool_call_limit", model)
    assert evidence(result) == {"E1": "found <a>"}
    result = run(way, graph, {"messages": []}, thread(), context={"tool_calls": 3})
    assert_ended(result, "final")
    assert len(model.requests) == 3, "planned again"
    assert evidence(result)["E3"] == "found <found <a> found <b>>"
    assert result["answer"] == "All of it."


@both_ways
def test_what_was_given_up_is_made_again_when_the_run_goes_on(way: Way) -> None:
    begun = threading.Event()
    hangs = [True]

    @tool(effects="none", timeout=None)
    async def wait(name: str) -> str:
        """Wait.

        Args:
            name: For whom.
        """
        if hangs:
            hangs.clear()
            begun.set()
            await asyncio.sleep(60)
        return f"{name} came"

    model = ScriptedModel(replies=[plan("#E1 = wait[a]", "#E2 = search[#E1]"), "All of it."])
    graph = create_rewoo_graph(model, [wait, search], checkpointer=InMemorySaver())
    with Cancellation() as cancel:
        threading.Thread(target=lambda: (begun.wait(30), cancel.request("enough"))).start()
        result = run(way, graph, question(), thread())
    assert_ended(result, "cancelled", model)
    result = run(way, graph, {"messages": []}, thread())
    assert_ended(result, "final")
    assert len(model.requests) == 2
    assert "cancelled" in evidence(result)["E1"]
    assert evidence(result)["E1_again1"] == "a came"
    assert evidence(result)["E2"] == "found <a came>"


@pytest.mark.parametrize("limit", range(2, 12))
def test_any_recursion_limit_ends_with_an_answer(limit: int) -> None:
    model, graph = asked_for("#E1 = search[a]", "#E2 = search[#E1]", "#E3 = search[#E2]")
    model.repeat = True
    result = graph.invoke(question(), {"recursion_limit": limit})
    assert_ended(result, "final" if limit >= 10 else "step_limit", model)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=1), "step_limit"),
        (Limits(tokens=150), "token_limit"),
        (Limits(tool_calls=0), "tool_call_limit"),
        (Limits(seconds=1e-9), "deadline"),
    ],
)
def test_limits_end_it(limits: Limits, reason: str) -> None:
    model, graph = asked_for("#E1 = search[a]", limits=limits)
    model.repeat = True
    result = graph.invoke(question())
    assert result["stop"]["reason"] == reason, result["stop"]
    assert_ended(result, reason, model)


@both_ways
def test_the_word_of_a_person(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:

        def graph(model: ScriptedModel) -> Any:
            return create_rewoo_graph(model, [search, multiply], approve=["multiply"], checkpointer=saver)

        model = ScriptedModel(replies=[plan("#E1 = search[a]", "#E2 = multiply[3]", "#E3 = multiply[#E2]"), "Fine."])
        (asked,) = pending(run(way, graph(model), question(), thread()))
        assert asked.value["args"] == {"first": 3}
        edit = {"decision": "edit", "args": {"first": 4}}
        (asked,) = pending(run(way, graph(model), Command(resume={asked.id: edit}), thread()))
        assert asked.value["args"] == {"first": 8}
        result = run(way, graph(model), Command(resume={asked.id: {"decision": "reject", "by": "Ann"}}), thread())
        assert_ended(result, "final", model)
        assert len(model.requests) == 2
        assert "rejected this call by Ann" in solved_with(model)
    with pytest.raises(ValueError, match="checkpointer"):
        create_rewoo_graph(model, [search], approve=True).invoke(question())


def test_a_person_ends_it() -> None:
    model = ScriptedModel(replies=[plan("#E1 = search[a]", "#E2 = search[#E1]"), "As far as I got."])
    graph = create_rewoo_graph(model, [search], approve=True, checkpointer=InMemorySaver())
    (asked,) = pending(graph.invoke(question(), thread()))
    result = graph.invoke(Command(resume={asked.id: {"decision": "reject", "stop": True}}), thread())
    assert_ended(result, "rejected", model)


class Crash(BaseException):
    """Passes everything, as the end of a process does."""


@both_ways
def test_after_a_crash_nothing_is_paid_or_run_twice(way: Way, tmp_path: Path) -> None:
    runs: list[str] = []
    crashes = [True]

    @tool(effects="idempotent")
    def note(text: str) -> str:
        """Note something.

        Args:
            text: What.
        """
        runs.append(text)
        if text == "b" and crashes:
            crashes.clear()
            raise Crash
        return f"noted {text}"

    with checkpoints.open(f"sqlite:///{tmp_path / 'c.db'}") as saver:
        model = ScriptedModel(replies=[plan("#E1 = note[a]", "#E2 = note[b]", "#E3 = note[#E1]"), "Fine."])
        graph = create_rewoo_graph(model, [note], checkpointer=saver)
        with pytest.raises(Crash):
            run(way, graph, question(), thread())
        result = run(way, graph, None, thread())
        assert_ended(result, "final", model)
        assert sorted(runs) == ["a", "b", "b", "noted a"]
        assert len(model.requests) == 2


@both_ways
def test_a_second_question_has_a_plan_of_its_own(way: Way) -> None:
    model = ScriptedModel(
        replies=[plan("#E1 = search[a]"), "One.", plan("#E1 = search[b]", "#E2 = search[#E1]"), "Two."]
    )
    graph = create_rewoo_graph(model, [search], checkpointer=InMemorySaver())
    run(way, graph, question(), thread())
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "Two."
    assert result["spent"]["model_calls"] == 2
    assert evidence(result) == {"E1": "found <a>", "E1_2": "found <b>", "E2": "found <found <b>>"}
    assert_acceptable(result["messages"])
    for request in model.requests:
        assert_acceptable(request.messages)
