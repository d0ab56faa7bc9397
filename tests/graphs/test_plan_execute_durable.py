"""Plan-and-Execute over interrupts and crashes: questions in two steps at once, a person's word, replies paid once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from plan_support import ASKED, Script, a_plan, act, asked_for, kind_of, planned, statuses
from support import Way, assert_acceptable, assert_ended, both_ways, lookup, pending, question, run, thread

from taograph import checkpoints, tool
from taograph.checkpoints.sqlite import SqliteCheckpoints
from taograph.graphs.plan_execute import create_plan_execute_graph
from taograph.tools.person import ask_person

SENT: list[str] = []


@tool(effects="once")
def send(to: str) -> str:
    """Send a letter.

    Args:
        to: To whom.
    """
    SENT.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def asking() -> Script:
    """Both first steps ask a person."""
    return Script(
        work={
            name: [act("ask_person", {"question": f"{name}?"}), lambda messages: f"a person said {messages[-1].text}"]
            for name in ("find A", "find B")
        }
    )


# Questions to a person


@both_ways
@pytest.mark.parametrize("order", [("find A?", "find B?"), ("find B?", "find A?")], ids=["in order", "reversed"])
def test_questions_in_two_steps_are_answered_in_any_order(way: Way, order: tuple[str, str], saver: Any) -> None:
    model, graph = planned(asking(), [ask_person], checkpointer=saver)
    result = run(way, graph, question(ASKED), thread())
    asked = {one.value["question"]: one.id for one in pending(result)}
    assert sorted(asked) == ["find A?", "find B?"]
    result = run(way, graph, Command(resume={asked[order[0]]: f"one for {order[0]}"}), thread())
    assert [one.value["question"] for one in pending(result)] == [order[1]]
    # What goes on is made anew, as after a restart.
    again = create_plan_execute_graph(model, [ask_person], checkpointer=saver)
    result = run(way, again, Command(resume={asked[order[1]]: f"one for {order[1]}"}), thread())
    assert_ended(result, "final", model)
    assert [s["result"] for s in result["plan"][:2]] == [
        "a person said one for find A?",
        "a person said one for find B?",
    ]
    assert Counter(asked_for(model)) == {"plan": 1, "find A": 2, "find B": 2, "compare": 1, "choice": 1}


@both_ways
def test_questions_in_two_steps_are_answered_together(way: Way, saver: Any) -> None:
    model, graph = planned(asking(), [ask_person], checkpointer=saver)
    asked = pending(run(way, graph, question(ASKED), thread()))
    answers = {one.id: "yes" for one in asked}
    result = run(way, graph, Command(resume=answers), thread())
    assert_ended(result, "final", model)
    assert len(asked_for(model)) == 7


def test_a_step_beside_one_that_asks_is_done_once(saver: Any) -> None:
    script = asking()
    del script.work["find B"]
    model, graph = planned(script, [ask_person], checkpointer=saver)
    graph.invoke(question(ASKED), thread())
    assert statuses(graph.get_state(thread()).values) == {1: "running", 2: "done", 3: "pending"}
    result = graph.invoke(Command(resume="yes"), thread())
    assert_ended(result, "final", model)
    assert asked_for(model).count("find B") == 1


def test_another_question_while_a_step_waits_begins_anew(saver: Any) -> None:
    script = asking()
    script.plans.append(("find C",))
    model, graph = planned(script, [ask_person], checkpointer=saver)
    graph.invoke(question(ASKED), thread())
    result = graph.invoke(question("And C?"), thread())
    assert_ended(result, "final")
    assert [s["task"] for s in result["plan"]] == ["find C"]
    for request in model.requests:
        assert_acceptable(request.messages)


# A person's word


def letters(*more: Any) -> Script:
    return Script(
        [("write", "find B", ("report", 1, 2))],
        [*more, "It is sent."],
        {"write": [act("send", {"to": "Ann"}, id="to-Ann"), "It went out."]},
    )


@both_ways
def test_an_action_of_a_step_waits_for_a_person(way: Way, saver: Any) -> None:
    model, graph = planned(letters(), [send], approve=["send"], checkpointer=saver)
    (asked,) = pending(run(way, graph, question(), thread()))
    assert asked.value["tool"] == "send"
    assert SENT == []
    result = run(way, graph, Command(resume="approve"), thread())
    assert_ended(result, "final", model)
    assert SENT == ["Ann"]
    assert result["spent"]["tool_calls"] == 1


@both_ways
def test_a_rejection_that_stops_ends_the_run(way: Way, saver: Any) -> None:
    model, graph = planned(letters(), [send], approve=["send"], checkpointer=saver)
    run(way, graph, question(), thread())
    rejection = {"decision": "reject", "reason": "not now", "stop": True}
    result = run(way, graph, Command(resume=rejection), thread())
    assert_ended(result, "rejected")
    assert result["stop"]["detail"].startswith("step 1: write: ")
    assert SENT == []
    assert "choice" not in asked_for(model)
    assert "report" not in asked_for(model)


def test_a_rejection_alone_is_for_the_step_to_deal_with(saver: Any) -> None:
    model, graph = planned(letters(), [send], approve=["send"], checkpointer=saver)
    graph.invoke(question(), thread())
    result = graph.invoke(Command(resume={"decision": "reject", "reason": "wrong address"}), thread())
    assert_ended(result, "final", model)
    assert SENT == []


def test_a_run_that_waits_for_a_person_has_to_be_stored() -> None:
    model, graph = planned(letters(), [send], approve=["send"])
    with pytest.raises(ValueError, match="there is no checkpointer"):
        graph.invoke(question(), thread())
    assert model.requests == []


# Crashes


class Crash(Exception):  # noqa: N818 - what happens
    """The process dies."""

    taograph_fatal = True


def crashing_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """Let the process die before the checkpoint with this number is stored; returns how many there were."""
    seen = 0
    put = SqliteCheckpoints.put

    def stored(self: Any, *given: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == number:
            raise Crash
        return put(self, *given)

    monkeypatch.setattr(SqliteCheckpoints, "put", stored)
    return lambda: seen


def failing_script() -> Script:
    """A plan with two steps at once, of which one fails, and a new plan."""
    return Script(
        choices=[a_plan("ask", ("compare", 2, 4), first=4), "A is bigger"],
        work={"find A": [act("lookup", {"name": "x"})], "find B": [act("lookup", {"name": "B"}), "4"]},
    )


@both_ways
def test_no_reply_is_paid_twice_wherever_the_process_dies(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carried(path: Path, number: int) -> tuple[list[Any], dict[str, Any], int]:
        with monkeypatch.context() as patch, checkpoints.open(f"sqlite:///{path}") as saver:
            puts = crashing_at(patch, number)
            model, graph = planned(failing_script(), [lookup], checkpointer=saver)
            given: Any = question(ASKED)
            try:
                result = run(way, graph, given, thread())
            except Crash:
                stored = graph.get_state(thread()).values
                result = run(way, graph, None if stored else given, thread())
            told = [(kind_of(r.messages), len(r.messages), r.messages[-1].text) for r in model.requests]
            return told, result, puts()

    usual, undisturbed, puts = carried(tmp_path / "undisturbed.db", 0)
    assert_ended(undisturbed, "final")
    for number in range(1, puts + 1, 2 if way == "invoke" else 4):
        told, result, _ = carried(tmp_path / f"{number}.db", number)
        assert_ended(result, "final")
        assert Counter(told) == Counter(usual), f"died at checkpoint {number}"
        assert statuses(result) == statuses(undisturbed)
        assert [m.text for m in result["messages"]] == [m.text for m in undisturbed["messages"]]
        assert {**result["spent"], "seconds": 0} == {**undisturbed["spent"], "seconds": 0}
        assert len(result["children"]) == 4
