"""Plan-and-Execute: plans that cannot be carried out are mended or asked for again; small models write lists."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from plan_support import ASKED, COMPARED, Script, act, asked_for, planned
from stream_support import Streams, of
from support import assert_acceptable, assert_ended, lookup, question

from taograph.graphs.plan_execute import create_plan_execute_graph
from taograph.models import ScriptedModel, call

protocols = pytest.mark.parametrize("text", [False, True], ids=["native", "text"])


def steps_of(*given: Any) -> AIMessage:
    return AIMessage("", tool_calls=[call("Plan", {"steps": list(given)})])


BROKEN: dict[str, Any] = {
    "a circle": steps_of({"id": 1, "task": "a", "needs": [2]}, {"id": 2, "task": "b", "needs": [1]}),
    "an unknown need": steps_of({"id": 1, "task": "a", "needs": [7]}),
    "the same number, needed": steps_of(
        {"id": 1, "task": "a", "needs": []}, {"id": 1, "task": "b", "needs": []}, {"id": 2, "task": "c", "needs": [1]}
    ),
    "no steps": steps_of(),
    "empty tasks": steps_of({"id": 1, "task": " ", "needs": []}),
    "too many steps": steps_of(*({"id": n, "task": f"t{n}", "needs": []} for n in range(1, 22))),
    "no plan": AIMessage("I would rather not."),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_plan_that_cannot_be_carried_out_is_asked_for_again(broken: AIMessage, steps: Streams) -> None:
    model, graph = planned(Script([broken, COMPARED]))
    events = steps(graph, question(ASKED))
    assert of(events, "stop")[0]["reason"] == "final"
    assert asked_for(model)[:2] == ["plan", "plan"]
    assert len(of(events, "retry")) == 1
    assert_acceptable(model.requests[1].messages)


@protocols
def test_a_plan_is_asked_for_so_often_and_no_more(text: bool) -> None:
    model, graph = planned(Script([AIMessage("Hm.")] * 3, text=text))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "malformed_output", model)
    assert asked_for(model)[:3] == ["plan"] * 3
    assert result["plan"] == []


@pytest.mark.parametrize("broken", ["a circle", "an unknown need", "the same number, needed"])
def test_needs_that_make_no_sense_twice_are_passed_over(broken: str, steps: Streams) -> None:
    """The second time, the steps are taken one after the other, as they stand."""
    _, graph = planned(Script([BROKEN[broken], BROKEN[broken]]))
    events = steps(graph, question(ASKED))
    assert of(events, "stop")[0]["reason"] == "final"
    made = of(events, "plan")[0]["plan"]
    assert [s["needs"] for s in made] == [[], [1], [1, 2]][: len(made)]
    assert of(events, "retry")[-1]["detail"].endswith("the steps are taken in their order")


MENDED: dict[str, tuple[AIMessage, list[tuple[int, str, list[int]]]]] = {
    "numbers from elsewhere": (
        steps_of({"id": 10, "task": "a", "needs": []}, {"id": 20, "task": "b", "needs": [10]}),
        [(1, "a", []), (2, "b", [1])],
    ),
    "the same number twice": (
        steps_of(
            {"id": 1, "task": "a", "needs": []},
            {"id": 1, "task": "b", "needs": []},
            {"id": 2, "task": "c", "needs": [2]},
        ),
        [(1, "a", []), (2, "b", []), (3, "c", [])],
    ),
    "needs itself": (steps_of({"id": 1, "task": "a", "needs": [1]}), [(1, "a", [])]),
    "no task": (
        steps_of(
            {"id": 1, "task": "", "needs": []},
            {"id": 2, "task": "a", "needs": []},
            {"id": 3, "task": "b", "needs": [2]},
        ),
        [(1, "a", []), (2, "b", [1])],
    ),
    "numbers in words": (
        steps_of({"id": "Step 1", "task": "a", "needs": None}, {"id": "2", "task": "b", "needs": ["#E1"]}),
        [(1, "a", []), (2, "b", [1])],
    ),
    "no numbers": (steps_of({"task": "a"}, {"task": "b", "needs": [1]}), [(1, "a", []), (2, "b", [1])]),
}


@pytest.mark.parametrize(("mended", "meant"), MENDED.values(), ids=MENDED.keys())
def test_a_plan_is_mended_where_its_meaning_is_clear(
    mended: AIMessage, meant: list[tuple[int, str, list[int]]], steps: Streams
) -> None:
    model, graph = planned(Script([mended]))
    events = steps(graph, question(ASKED))
    assert asked_for(model).count("plan") == 1
    made = of(events, "plan")[0]["plan"]
    assert [(s["id"], s["task"], s["needs"]) for s in made] == meant
    silent = [MENDED[name][0] for name in ("numbers from elsewhere", "numbers in words", "no numbers")]
    assert [e["reason"] for e in of(events, "retry")] == ([] if mended in silent else ["plan"])


FAILS: list[Any] = [act("lookup", {"name": "x"}, text=True)]


class Small(ScriptedModel):
    """A model that is given worked examples, as the local ones are."""

    worked_examples: bool = True


def test_a_small_model_is_asked_for_a_list_and_is_shown_no_examples_of_calls() -> None:
    script = Script(text=True)
    model = Small(replies=[script], repeat=True)
    result = create_plan_execute_graph(model, [lookup]).invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["answer"] == "A is bigger"
    assert asked_for(model)[0] == "plan"
    assert len(model.requests[0].messages) == 1
    assert model.requests[0].tools == []


@pytest.mark.parametrize("failed", [False, True])
def test_a_list_without_a_label_is_the_answer_only_where_nothing_is_left(failed: bool) -> None:
    listed = "1. A is bigger\n2. B is smaller"
    script = Script(choices=[lambda messages: listed, "A"], work={"find A": FAILS} if failed else {}, text=True)
    model, graph = planned(script, [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == ("A" if failed else listed)


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        "Verdict: A is bigger",
        "**Verdict:** A is bigger",
        "Thought: 5 > 4.\nVerdict: A is bigger",
        "1. A is 5\n2. B is 4\nVerdict: A is bigger",
        "Verdict: A is bigger\n\nPlan:\n4. nothing else to be done",
        "Plan: there is nothing to be done.\nVerdict: A is bigger",
    ],
)
def test_an_answer_under_its_label(said: str, failed: bool) -> None:
    script = Script(choices=[lambda messages: said], work={"find A": FAILS} if failed else {}, text=True)
    model, graph = planned(script, [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "A is bigger"


def test_words_alone_are_no_answer_to_a_failure_until_they_come_again() -> None:
    words = "It cannot be said."
    script = Script(choices=[lambda messages: words] * 2, work={"find A": FAILS}, text=True)
    model, graph = planned(script, [lookup])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == words
    assert asked_for(model).count("choice") == 2


def test_a_plan_comes_first_where_an_answer_is_made_up_behind_it() -> None:
    said = "Plan:\n4. ask somebody (needs: none)\nVerdict: somebody said A"
    script = Script(choices=[lambda messages: said, "A is bigger"], text=True)
    model, graph = planned(script)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert asked_for(model)[-2:] == ["ask somebody", "choice"]
    assert result["answer"] == "A is bigger"


def test_a_thought_before_a_plan_is_none_of_it() -> None:
    said = "Thought: two things are needed.\nPlan:\n1. find A (needs: none)\n2. find B (needs: none)"
    script = Script([lambda messages: said], text=True)
    model, graph = planned(script)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert [s["task"] for s in result["plan"]] == ["find A", "find B"]
    assert asked_for(model).count("plan") == 1
