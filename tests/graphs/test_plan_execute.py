"""Plan-and-Execute: the plan, its steps side by side, new plans where one fails, and why a run ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from plan_support import ASKED, COMPARED, Script, a_plan, act, asked_for, kind_of, planned, statuses
from stream_support import Streams, of
from support import Way, assert_ended, both_ways, lookup, question, run

from taograph import Context, Limits, tool
from taograph.cancel import Cancellation
from taograph.graphs.plan_execute import create_plan_execute_graph
from taograph.models import ScriptedModel

protocols = pytest.mark.parametrize("text", [False, True], ids=["native", "text"])
FAILS: list[Any] = [act("lookup", {"name": "x"})]
"""A step that looks the same up for ever, until the loop stops it."""


# The plan, the steps, the answer


@both_ways
@protocols
def test_a_plan_is_carried_out(way: Way, text: bool) -> None:
    found = "Final Answer: 5" if text else "5"
    script = Script(work={"find A": [act("lookup", {"name": "A"}, text=text), found]}, text=text)
    model, graph = planned(script, [lookup])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "A is bigger"
    kinds = asked_for(model)
    assert sorted(kinds[1:4]) == ["find A", "find A", "find B"]
    assert [kinds[0], *kinds[4:]] == ["plan", "compare", "choice"]
    assert result["spent"]["tool_calls"] == 1
    assert result["stop"]["step"] == 6
    assert [step["needs"] for step in result["plan"]] == [[], [], [1, 2]]
    assert statuses(result) == {1: "done", 2: "done", 3: "done"}
    assert result["plan"][2]["result"] == "result of compare"
    assert [child["about"] for child in result["children"]] == ["step 1: find A", "step 2: find B", "step 3: compare"]


def test_a_step_is_given_the_question_its_task_and_the_results_it_needs() -> None:
    model, graph = planned(Script([(*COMPARED, ("guess", 1))]))
    graph.invoke(question(ASKED))
    told = {kind_of(r.messages): r.messages for r in model.requests}
    for task in ("find A", "compare", "guess"):
        assert len(told[task]) == 1
        assert told[task][0].text.startswith(ASKED)
    assert "result of" not in told["find A"][0].text
    assert "result of find A" in told["compare"][0].text
    assert "result of find B" in told["compare"][0].text
    assert "result of find B" not in told["guess"][0].text


def test_the_trajectory_has_the_plan_and_what_was_done_for_each_step() -> None:
    _, graph = planned(Script(work={"find A": [act("lookup", {"name": "A"}), "5"]}), [lookup])
    result = graph.invoke(question(ASKED))
    assert [(m.type, m.text) for m in result["messages"]] == [
        ("human", ASKED),
        ("ai", "Plan:\n1. find A\n2. find B\n3. compare (needs: 1, 2)"),
        ("human", "Step 1: find A"),
        ("ai", ""),
        ("tool", "A is in the book on page 1."),
        ("ai", "5"),
        ("human", "Step 2: find B"),
        ("ai", "result of find B"),
        ("human", "Step 3: compare"),
        ("ai", "result of compare"),
        ("human", "Steps done: 1, 2, 3."),
        ("ai", "A is bigger"),
    ]


def test_the_replanner_is_shown_results_and_not_how_they_were_found() -> None:
    model, graph = planned(Script(work={"find A": [act("lookup", {"name": "A"}), "5"]}), [lookup])
    graph.invoke(question(ASKED))
    shown = [m.text for m in model.requests[-1].messages]
    assert "5" in shown
    assert "A is in the book on page 1." not in shown
    assert [type(m) for m in model.requests[-1].messages[-2:]] == [AIMessage, HumanMessage]


@both_ways
def test_steps_that_do_not_need_each_other_run_side_by_side(way: Way) -> None:
    """Each waits for the other, which would never come if they ran one after the other."""
    both = threading.Barrier(2, timeout=20)

    @tool(effects="none", timeout=30)
    def meet(who: str) -> str:
        """Wait for the other.

        Args:
            who: Who waits.
        """
        both.wait()
        return f"{who} was there"

    script = Script(
        work={"find A": [act("meet", {"who": "A"}), "5"], "find B": [act("meet", {"who": "B"}), "4"]},
    )
    model, graph = planned(script, [meet])
    assert_ended(run(way, graph, question(ASKED)), "final", model)
    assert both.n_waiting == 0


def test_a_step_begins_when_what_it_needs_is_done() -> None:
    model, graph = planned(Script([(("last", 2, 3), "first", ("second", 2))]))
    graph.invoke(question(ASKED))
    assert asked_for(model) == ["plan", "first", "second", "last", "choice"]


@protocols
def test_another_model_plans(text: bool) -> None:
    script = Script(text=text)
    planner, worker = script.model(), Script(text=text).model()
    graph = create_plan_execute_graph(worker, planner=planner, protocol="text" if text else "auto")
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final")
    assert asked_for(planner) == ["plan", "choice"]
    assert sorted(asked_for(worker)) == ["compare", "find A", "find B"]
    assert result["spent"]["model_calls"] == 5


def test_in_the_idiom_the_replanner_is_asked_after_each_round() -> None:
    rest = [{"id": 3, "task": "Compare.", "needs": [1, 2]}]
    model, graph = planned(Script(choices=[rest, "A is bigger"]), replan_on="step")
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert asked_for(model)[3:] == ["choice", "compare", "choice"]
    assert statuses(result) == {1: "done", 2: "done", 3: "done"}, "an unchanged rest goes on, under its numbers"
    model, graph = planned(Script(choices=["A, as far as is known"]), replan_on="step")
    result = graph.invoke(question(ASKED))
    assert result["answer"] == "A, as far as is known"
    assert statuses(result) == {1: "done", 2: "done", 3: "pending"}


# New plans


@both_ways
@protocols
def test_a_step_that_fails_leads_to_a_new_plan(way: Way, text: bool) -> None:
    fails = [act("lookup", {"name": "x"}, text=text)]
    another = a_plan(("look elsewhere",), ("compare them", 2, 4), first=4)
    script = Script(choices=[another, "A is bigger"], work={"find A": fails}, text=text)
    model, graph = planned(script, [lookup])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert statuses(result) == {1: "failed", 2: "done", 4: "done", 5: "done"}
    assert result["plan"][0]["result"].startswith("repeated_action: ")
    assert result["plan"][3]["needs"] == [2, 4]
    assert "compare" not in asked_for(model)
    (asked,) = [r.messages[-1].text for r in model.requests if kind_of(r.messages) == "choice"][:1]
    assert "1. [failed] find A (repeated_action: " in asked
    assert "2. [done] find B" in asked
    assert "3. [open] compare" in asked


def test_only_what_remains_is_carried_out_of_a_new_plan() -> None:
    """Steps that are done are left out, also under a new number, and what needs them has their results."""
    again = [
        {"id": 1, "task": "Find B!", "needs": []},
        {"id": 2, "task": "ask somebody", "needs": []},
        {"id": 3, "task": "compare", "needs": [1, 2]},
    ]
    model, graph = planned(Script(choices=[again, "A is bigger"], work={"find A": FAILS}), [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert asked_for(model).count("find B") == 1
    assert [(s["id"], s["task"], s["needs"]) for s in result["plan"][2:]] == [
        (4, "ask somebody", []),
        (5, "compare", [2, 4]),
    ]
    (work,) = [r.messages[0].text for r in model.requests if kind_of(r.messages) == "compare"]
    assert "result of find B" in work


@protocols
def test_a_new_plan_that_changes_nothing_ends_the_run(text: bool) -> None:
    fails = [act("lookup", {"name": "x"}, text=text)]
    same = a_plan(("Compare", 4, 2), "FIND A.", first=3)
    same[0]["needs"], same[1]["id"] = [4, 2], 4
    model, graph = planned(Script(choices=[same], work={"find A": fails}, text=text), [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "repeated_action", model)
    assert "same tasks" in result["stop"]["detail"]
    assert asked_for(model).count("find A") == asked_for(model)[:-1].count("find A")
    assert asked_for(model)[-1] == "closing"


@pytest.mark.parametrize("replans", [0, 1, 2])
def test_new_plans_are_bounded(replans: int) -> None:
    choices = [a_plan(f"way {n}", first=n) for n in range(2, 5)]
    work = {f"way {n}": FAILS for n in range(1, 5)}
    model, graph = planned(Script([("way 1",)], choices, work), [lookup], replans=replans)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "tool_errors", model)
    assert f"{replans} new plans are the most" in result["stop"]["detail"]
    assert asked_for(model).count("choice") == replans
    assert statuses(result) == dict.fromkeys(range(1, replans + 2), "failed")


def test_where_no_new_plan_may_be_made_the_answer_alone_is_asked_for() -> None:
    model, graph = planned(replans=0)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert asked_for(model)[-1] == "answer"
    assert result["answer"] == "A is bigger"


def test_a_failed_step_may_be_done_without() -> None:
    model, graph = planned(Script(choices=["B, for all we know"], work={"find A": FAILS}), [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "B, for all we know"


# What is streamed


def test_the_plan_and_its_progress_are_told(steps: Streams) -> None:
    _, graph = planned()
    events = steps(graph, question(ASKED))
    told = [{s["id"]: s["status"] for s in event["plan"]} for event in of(events, "plan")]
    assert told[0] == {1: "running", 2: "running", 3: "pending"}
    assert sorted(map(str, told[1:3])) == ["{1: 'done'}", "{2: 'done'}"]
    assert told[3:] == [{1: "done", 2: "done", 3: "running"}, {3: "done"}, {1: "done", 2: "done", 3: "done"}]
    assert set(of(events, "plan")[0]["plan"][0]) == {"id", "task", "needs", "status", "result"}
    inner = of(events, "child")
    assert {tuple(event["path"]) for event in inner} == {("step",)}
    assert [e["event"]["question"].partition("\n")[0] for e in inner if e["event"]["type"] == "run_started"] == [
        ASKED
    ] * 3
    assert of(events, "answer")[0]["text"] == "A is bigger"


def test_what_failed_is_told(steps: Streams) -> None:
    _, graph = planned(Script(choices=["Nobody knows."], work={"find A": FAILS}), [lookup])
    events = steps(graph, question(ASKED))
    failed = [s for event in of(events, "plan") for s in event["plan"] if s["status"] == "failed"]
    assert failed[0]["result"].startswith("repeated_action: ")


# Building


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"replans": -1}, "replans"),
        ({"replans": True}, "replans"),
        ({"replan_on": "never"}, "replan_on"),
        ({"step_limits": 8}, "step_limits"),
        ({"planner": 3}, "model"),
        ({"require": ["search"]}, "require"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        create_plan_execute_graph(ScriptedModel(), **options)


def test_a_model_may_come_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Script().model()
    monkeypatch.setattr("taograph.graphs.loop.agent.resolve", lambda name: model)
    graph = create_plan_execute_graph(None)
    result = graph.invoke(question(ASKED), context=Context(model="openai:any"))
    assert_ended(result, "final", model)


def test_own_limits_hold_for_each_step() -> None:
    many: list[Any] = [lambda messages: act("lookup", {"name": str(len(messages))})]
    model, graph = planned(
        Script([("find A",)], ["Not found."], {"find A": many}), [lookup], step_limits=Limits(steps=3, closing=False)
    )
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert asked_for(model).count("find A") == 3
    assert result["plan"][0]["result"].startswith("step_limit: ")
    assert result["children"][0]["shared"] is False


def test_a_cancelled_run_says_so() -> None:
    cancel = Cancellation()

    def stops(messages: list[BaseMessage]) -> Any:
        cancel.request("enough")
        return "result of find A"

    model, graph = planned(Script(work={"find A": [stops]}))
    with cancel:
        result = graph.invoke(question(ASKED))
    assert_ended(result, "cancelled")
    assert "enough" in result["stop"]["detail"]
    assert "choice" not in asked_for(model)
    assert statuses(result)[3] == "pending"
