"""Plan-and-Execute: limits that a run shares with its steps, going on, checks of the answer, and the form of it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from plan_support import ASKED, COMPARED, Script, a_plan, act, asked_for, kind_of, planned, statuses
from pydantic import BaseModel
from support import Way, assert_acceptable, assert_ended, both_ways, lookup, question, run, thread

from taograph import Context, Limits, tool
from taograph.cancel import Cancellation
from taograph.graphs.plan_execute import create_plan_execute_graph
from taograph.models import FlatPrice, ScriptedModel, set_price

AGAIN: dict[str, Any] = {"messages": []}


def looks(name: str, times: int) -> list[Any]:
    """So many look-ups, each another, and the result."""
    return [*(act("lookup", {"name": name * n}) for n in range(1, times + 1)), f"{name} is {times}"]


def searching(**options: Any) -> tuple[ScriptedModel, Any]:
    """Steps that take three turns and two calls each: 1 + 3 + 3 + 1 + 1 turns in all, and four calls."""
    return planned(Script(work={"find A": looks("A", 2), "find B": looks("B", 2)}), [lookup], **options)


# Limits


@both_ways
@pytest.mark.parametrize("steps", range(1, 10))
def test_steps_are_shared(way: Way, steps: int) -> None:
    model, graph = searching(limits=Limits(steps=steps))
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final" if steps >= 9 else "step_limit", model)
    turns = [kind for kind in asked_for(model) if kind != "closing"]
    assert len(turns) == result["stop"]["step"] == min(steps, 9)
    assert "failed" not in statuses(result).values()


@pytest.mark.parametrize("calls", range(5))
def test_tool_calls_are_shared(calls: int) -> None:
    model, graph = searching(limits=Limits(tool_calls=calls))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final" if calls >= 4 else "tool_call_limit", model)
    assert result["spent"]["tool_calls"] == calls


@pytest.mark.parametrize("tokens", [15, 30, 60, 90, 120])
def test_tokens_are_shared(tokens: int) -> None:
    """A turn takes 15; two may be in flight."""
    model, graph = searching(limits=Limits(tokens=tokens))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "token_limit", model)
    assert result["spent"]["input_tokens"] + result["spent"]["output_tokens"] <= tokens + 15
    assert "failed" not in statuses(result).values()


def test_time_is_shared() -> None:
    def slow(messages: list[Any]) -> Any:
        time.sleep(0.4)
        return act("lookup", {"name": str(len(messages))})

    model, graph = planned(
        Script(work={"find A": [slow], "find B": [slow]}), [lookup], limits=Limits(steps=50, seconds=1.0)
    )
    result = graph.invoke(question(ASKED))
    assert_ended(result, "deadline")
    assert "choice" not in asked_for(model)
    assert set(statuses(result).values()) == {"pending"}


def test_a_limit_of_cost_needs_the_price_of_the_planner_too() -> None:
    set_price("plan-priced", FlatPrice(input=1.0, output=1.0))
    unknown = Script().model(model_name="nobody-knows-this-one")
    with pytest.raises(ValueError, match="nobody-knows-this-one"):
        create_plan_execute_graph(Script().model(model_name="plan-priced"), planner=unknown, limits=Limits(cost=1.0))
    graph = create_plan_execute_graph(Script().model(model_name="plan-priced"), planner=unknown)
    with pytest.raises(ValueError, match="nobody-knows-this-one"):
        graph.invoke(question(ASKED), context=Context(cost=1.0))
    assert unknown.requests == []


@both_ways
@pytest.mark.parametrize("limit", range(2, 20))
def test_no_recursion_limit_raises(way: Way, limit: int) -> None:
    model, graph = searching()
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert result["stop"]["reason"] in (("final",) if limit >= 6 else ("final", "step_limit"))
    assert_ended(result, result["stop"]["reason"], model)
    assert "running" not in statuses(result).values()


@both_ways
@pytest.mark.parametrize("limit", range(2, 12))
def test_no_recursion_limit_raises_where_steps_fail(way: Way, limit: int) -> None:
    fails: list[Any] = [act("lookup", {"name": "x"})]
    script = Script([("way 1",)], [a_plan("way 2", first=2), "Nobody knows."], {"way 1": fails, "way 2": fails})
    model, graph = planned(script, [lookup])
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert result["stop"]["reason"] in ("final", "step_limit")
    assert_ended(result, result["stop"]["reason"], model)


# Going on, and another turn


@both_ways
@pytest.mark.parametrize("steps", range(1, 9))
def test_a_run_that_was_stopped_goes_on(way: Way, steps: int) -> None:
    """With a raised limit it goes on with the plan: what is done is not done again, nor planned again."""
    model, graph = searching(limits=Limits(steps=steps), checkpointer=InMemorySaver())
    before = run(way, graph, question(ASKED), thread())
    assert_ended(before, "step_limit")
    result = run(way, graph, AGAIN, thread(), context=Context(steps=30))
    assert_ended(result, "final")
    assert result["answer"] == "A is bigger"
    assert statuses(result) == {1: "done", 2: "done", 3: "done"}
    kinds = asked_for(model)
    assert kinds.count("plan") == kinds.count("compare") == kinds.count("choice") == 1
    assert result["spent"]["model_calls"] == len(model.requests)
    for done in (s["task"] for s in before["plan"] if s["status"] == "done"):
        assert kinds.count(done) <= 3
    assert_acceptable(result["messages"])


@both_ways
def test_a_run_that_was_cancelled_goes_on(way: Way) -> None:
    cancel, for_ever = Cancellation(), threading.Event()

    @tool(effects="none", timeout=60)
    def wait() -> str:
        """Wait."""
        cancel.request("enough")
        for_ever.wait(60)
        return "never told"

    script = Script(work={"compare": [act("wait", {}), "A > B"]})
    model, graph = planned(script, [wait], checkpointer=InMemorySaver())
    try:
        with cancel:
            before = run(way, graph, question(ASKED), thread())
    finally:
        for_ever.set()
    assert_ended(before, "cancelled")
    assert statuses(before) == {1: "done", 2: "done", 3: "pending"}
    result = run(way, graph, AGAIN, thread())
    assert_ended(result, "final", model)
    assert asked_for(model)[-2:] == ["compare", "choice"]
    assert statuses(result) == {1: "done", 2: "done", 3: "done"}


def test_a_planner_that_was_down_is_asked_again_and_nothing_else(saver: Any) -> None:
    def down(messages: list[Any]) -> Any:
        raise ConnectionError("no route")

    script = Script(choices=[down, "A is bigger"])
    model, graph = planned(script, checkpointer=saver, limits=Limits(steps=50, model_retries=0))
    assert_ended(graph.invoke(question(ASKED), thread()), "model_error")
    asked = len(model.requests)
    result = graph.invoke(AGAIN, thread())
    assert_ended(result, "final")
    assert asked_for(model)[asked:] == ["choice"]


def test_a_step_that_was_cut_short_is_told_what_it_had_found(saver: Any) -> None:
    model, graph = searching(limits=Limits(steps=4), checkpointer=saver)
    graph.invoke(question(ASKED), thread())
    asked = len(model.requests)
    graph.invoke(AGAIN, thread(), context=Context(steps=30))
    again = [r.messages[0].text for r in model.requests[asked:] if kind_of(r.messages) == "find A"]
    assert "cut short" in again[0]
    assert "A is in the book on page 1." in again[0]


def test_the_same_limit_is_an_error_before_the_model_is_paid(saver: Any) -> None:
    model, graph = searching(limits=Limits(steps=4), checkpointer=saver)
    graph.invoke(question(ASKED), thread())
    asked = len(model.requests)
    with pytest.raises(ValueError, match="raise it to go on"):
        graph.invoke(AGAIN, thread())
    assert len(model.requests) == asked


@both_ways
def test_another_question_on_the_thread_has_a_plan_of_its_own(way: Way) -> None:
    fails: list[Any] = [act("lookup", {"name": "x"})]
    script = Script([COMPARED, ("find C",)], ["Not known.", "C is 3."], {"find A": fails, "find B": looks("B", 1)})
    model, graph = planned(script, [lookup], checkpointer=InMemorySaver())
    run(way, graph, question(ASKED), thread())
    asked = len(model.requests)
    result = run(way, graph, question("And C?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "C is 3."
    assert [(s["id"], s["task"]) for s in result["plan"]] == [(1, "find C")]
    assert len(result["children"]) == 1
    assert result["spent"]["model_calls"] == len(model.requests) - asked == 3
    shown = [m.text for m in model.requests[asked].messages]
    assert "Not known." in shown
    assert "B is 1" in shown
    assert not any("is in the book" in text for text in shown), "of earlier steps, the results"


def test_a_question_that_ends_at_once_leaves_no_plan_of_the_one_before(saver: Any) -> None:
    _, graph = planned(Script([COMPARED, *[AIMessage("no plan")] * 3]), checkpointer=saver)
    assert len(graph.invoke(question(ASKED), thread())["plan"]) == 3
    result = graph.invoke(question("And C?"), thread())
    assert_ended(result, "malformed_output")
    assert result["plan"] == []


# Checks and forms of the answer


@both_ways
def test_a_required_tool_that_a_step_has_called_is_called(way: Way) -> None:
    model, graph = planned(Script(work={"find A": looks("A", 1)}), [lookup], require=["lookup"])
    assert_ended(run(way, graph, question(ASKED)), "final", model)
    assert asked_for(model).count("choice") == 1


def test_a_required_tool_that_was_not_called_leads_to_another_plan() -> None:
    script = Script(
        choices=["A.", a_plan("look it up", first=4), "A, by the book."], work={"look it up": looks("A", 1)}
    )
    model, graph = planned(script, [lookup], require=["lookup"])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "A, by the book."
    assert "lookup" in model.requests[-1].messages[-1].text or asked_for(model)[-2] == "look it up"
    model, graph = planned(Script(choices=["A.", "Still A."]), [lookup], require=["lookup"])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["stop"]["detail"].endswith("lookup was required and was not called")


@both_ways
@pytest.mark.parametrize("replans", [0, 3])
def test_an_objection_leads_to_another_answer(way: Way, replans: int) -> None:
    seen: list[str] = []

    def verify(answer: str, trajectory: Any) -> str | None:
        seen.append(answer)
        return None if "because" in answer else "it gives no reason."

    model, graph = planned(Script(choices=["A.", "A, because 5 > 4."]), verify=verify, replans=replans)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert seen == ["A.", "A, because 5 > 4."]
    assert "it gives no reason" in model.requests[-1].messages[-1].text


def test_an_objection_that_stands_is_told() -> None:
    model, graph = planned(Script(choices=["A.", "A!", "A?"]), verify=lambda answer, trajectory: "no.")
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["stop"]["detail"] == "the planner answered; verify still objects: no."


class Verdict(BaseModel):
    """Which is bigger."""

    bigger: str


@both_ways
def test_the_answer_in_a_form(way: Way) -> None:
    script = Script()
    model = ScriptedModel(
        replies=[
            lambda messages: act("Verdict", {"bigger": "A"}) if "Verdict" in messages[-1].text else script(messages)
        ],
        repeat=True,
    )
    graph = create_plan_execute_graph(model, response_format=Verdict)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["structured"] == {"bigger": "A"}
    assert result["answer"] == "A is bigger"


@pytest.mark.parametrize("place", ["plan", "find A", "choice"])
def test_a_model_that_is_down(place: str) -> None:
    """It ends the run where it plans; where it works on a step, that has failed."""
    script = Script(choices=["B, for all we know"])

    def reply(messages: list[Any]) -> Any:
        if kind_of(messages) == place:
            raise ConnectionError("no route")
        return script(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_plan_execute_graph(model, limits=Limits(model_retries=0), step_limits=Limits(model_retries=0))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final" if place == "find A" else "model_error")
    if place == "find A":
        assert statuses(result) == {1: "failed", 2: "done", 3: "pending"}


def test_a_refusal_in_a_step_is_a_failed_step() -> None:
    refused = AIMessage("", additional_kwargs={"refusal": "I will not."})
    model, graph = planned(Script(choices=["It cannot be said."], work={"find A": [refused]}))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["plan"][0]["result"].startswith("refusal: ")
