"""Reflexion: trials, self-reflection, and what the next trial is given."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from reflexion_support import REFLECTING, good, kinds_of, last_text, tries, verdicts
from support import Way, asks, assert_acceptable, assert_ended, both_ways, lookup, question, run

from taograph import Limits
from taograph.graphs.reflexion import Verdict, create_reflexion_graph
from taograph.models import FlatPrice, ScriptedModel, call, set_price

# The loop of trials


@both_ways
def test_a_trial_that_passes_is_the_only_one(way: Way) -> None:
    model = tries("good")
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "good"
    assert kinds_of(model) == ["trial 1", "trial 1"]
    assert result["trials"] == [
        {"trial": 1, "verdict": "passed", "reason": "", "stop": result["children"][0]["stop"]},
    ]
    assert result["reflections"] == []
    assert result["oracle"] is False
    assert result["stop"]["detail"] == "trial 1 of 3 passed"


@both_ways
def test_each_trial_is_given_what_was_noted_after_those_before(way: Way) -> None:
    model = tries("bad", "worse", "good")
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good), question("Where is it?"))
    assert_ended(result, "final", model)
    assert result["answer"] == "good"
    assert result["stop"] == {"reason": "final", "detail": "trial 3 of 3 passed", "step": 8}
    assert kinds_of(model) == ["trial 1"] * 2 + ["reflect"] + ["trial 2"] * 2 + ["reflect"] + ["trial 3"] * 2
    assert result["reflections"] == ["Lesson 1.", "Lesson 2."]
    assert verdicts(result) == ["failed", "failed", "passed"]
    assert [trial["reason"] for trial in result["trials"]] == ["bad is not good", "worse is not good", ""]
    third = last_text(model.requests[6].messages)
    assert third.startswith("Where is it?\n\nYou have tried this before")
    assert "- Trial 1: Lesson 1.\n- Trial 2: Lesson 2." in third
    assert len(model.requests[6].messages) == 1, "a trial begins anew: it is not shown what was done before"


def test_the_reflection_is_told_what_was_done_and_what_is_held_against_it() -> None:
    model = tries("bad", "worse", "good")
    create_reflexion_graph(model, [lookup], evaluate=good).invoke(question("Where is it?"))
    first, second = (r.messages for r in model.requests if last_text(r.messages).startswith(REFLECTING))
    assert len(first) == 1
    told = last_text(first)
    for part in ("Task: Where is it?", 'Action: lookup({"name": "n1"})', "n1 is in the book", "Answer: bad"):
        assert part in told
    assert "What is held against it: bad is not good" in told
    assert "Lesson" not in told
    assert "- Trial 1: Lesson 1." in last_text(second)
    assert "Answer: worse" in last_text(second)
    assert "n1 is in the book" not in last_text(second), "one trial at a time"


@pytest.mark.parametrize(("memory", "shown"), [(1, [3]), (2, [2, 3]), (3, [1, 2, 3])])
def test_the_memory_is_bounded(memory: int, shown: list[int]) -> None:
    model = tries("bad", "bad", "bad", "good")
    graph = create_reflexion_graph(model, [lookup], evaluate=good, trials=4, memory=memory)
    result = graph.invoke(question())
    assert result["reflections"] == ["Lesson 1.", "Lesson 2.", "Lesson 3."]
    last = last_text(model.requests[-2].messages)
    assert [n for n in (1, 2, 3) if f"- Trial {n}: Lesson {n}." in last] == shown


def test_the_messages_are_the_trials_each_behind_its_reflection() -> None:
    model = tries("bad", "good")
    messages = create_reflexion_graph(model, [lookup], evaluate=good).invoke(question())["messages"]
    assert_acceptable(messages)
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai", "human", "ai", "tool", "ai"]
    assert messages[4].text == "Trial 1 did not pass: bad is not good\nWhat is to be done better: Lesson 1."
    assert messages[3].text == "bad"
    assert messages[-1].text == "good"


@both_ways
def test_calls_of_two_trials_with_the_same_id_are_told_apart(way: Way) -> None:
    def looks(said: str) -> Any:
        return lambda m: said if m[-1].type == "tool" else asks(call("lookup", {"name": said}, id="same"))

    model = tries(looks("bad"), looks("worse"), looks("good"))
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "good"
    assert len({m.tool_call_id for m in result["messages"] if m.type == "tool"}) == 3
    assert verdicts(result) == ["failed", "failed", "passed"]


def test_a_reflector_of_its_own_reflects() -> None:
    model = tries("bad", "good")
    other = ScriptedModel(replies=["Look closer."], usage=(7, 3))
    result = create_reflexion_graph(model, [lookup], evaluate=good, reflector=other).invoke(question())
    assert result["reflections"] == ["Look closer."]
    assert len(other.requests) == 1
    assert result["spent"]["model_calls"] == 5
    assert kinds_of(model) == ["trial 1", "trial 1", "trial 2", "trial 2"]


# Where none passes


def test_the_latest_answer_is_given_where_none_passed() -> None:
    model = tries("bad", "worse")
    result = create_reflexion_graph(model, [lookup], evaluate=good, trials=2).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "worse"
    assert result["stop"]["detail"] == "none of 2 trials passed; the answer of trial 2 is given: worse is not good"
    assert "reflect" not in kinds_of(model)[-2:], "nothing is noted after the last trial"


def test_the_answer_with_the_best_score_is_given_where_none_passed() -> None:
    scores = {"bad": 0.2, "fair": 0.7, "worst": 0.1}
    model = tries("bad", "fair", "worst")
    graph = create_reflexion_graph(
        model, [lookup], evaluate=lambda q, answer, t: Verdict(False, f"it is {answer}", scores[answer])
    )
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "fair"
    assert [trial["score"] for trial in result["trials"]] == [0.2, 0.7, 0.1]
    assert "the answer of trial 2 is given: it is fair" in result["stop"]["detail"]
    assert result["messages"][-1].text == "fair"
    assert result["messages"][-2].text == "None of the trials passed. The answer of trial 2 is given."


def test_a_trial_without_an_answer_failed_and_is_reflected_upon() -> None:
    asked: list[str] = []

    def never(question: str, answer: str, trajectory: Any) -> None:
        asked.append(answer)

    model = tries(AIMessage("", tool_calls=[call("lookup", {"name": "same"})]), "good")
    result = create_reflexion_graph(model, [lookup], evaluate=never).invoke(question())
    assert_ended(result, "final", model)
    assert asked == ["good"], "what came to no answer needs no judge"
    assert verdicts(result) == ["failed", "passed"]
    assert result["trials"][0]["stop"]["reason"] == "repeated_action"
    assert "close" not in kinds_of(model), "no closing answer is paid for where another trial follows"
    assert "No answer was given." in next(
        last_text(r.messages) for r in model.requests if last_text(r.messages).startswith(REFLECTING)
    )


def test_where_no_trial_came_to_an_answer_the_run_closes_with_the_reason_of_the_last() -> None:
    model = tries(asks("same"))
    result = create_reflexion_graph(model, [lookup], trials=2).invoke(question())
    assert_ended(result, "repeated_action", model)
    assert result["answer"] == "So far: …"
    assert kinds_of(model).count("close") == 1
    assert result["stop"]["detail"].startswith("none of 2 trials came to an answer; the last: ")
    assert verdicts(result) == ["failed", "failed"]


# What the answer must fit


@both_ways
def test_an_objection_of_verify_leads_to_another_trial(way: Way) -> None:
    seen: list[str] = []

    def verify(answer: str, trajectory: Any) -> str | None:
        seen.append(answer)
        return "the page is missing" if answer == "first" else None

    model = tries("first", "second")
    result = run(way, create_reflexion_graph(model, [lookup], verify=verify), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "second"
    assert seen == ["first", "second"]
    assert verdicts(result) == ["failed", "passed"]
    assert result["trials"][0]["reason"] == "the page is missing"


def test_an_objection_to_the_last_trial_is_told() -> None:
    graph = create_reflexion_graph(tries("first"), [lookup], trials=1, verify=lambda a, t: "the page is missing")
    result = graph.invoke(question())
    assert_ended(result, "final")
    assert result["stop"]["detail"] == "trial 1 of 1 passed; verify still objects: the page is missing"


def test_a_required_tool_is_asked_for_within_the_trial() -> None:
    def reply(messages: list[Any]) -> Any:
        if any(m.type == "tool" for m in messages):
            return "looked up"
        return asks("Ada") if isinstance(messages[-1], HumanMessage) and "lookup" in messages[-1].text else "a guess"

    model = tries(reply)
    result = create_reflexion_graph(model, [lookup], require=("lookup",)).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "looked up"
    assert verdicts(result) == ["passed"]


# What is checked before anything is paid


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trials": 0}, "trials=0: give a whole number, 1 or more"),
        ({"memory": 4}, "memory=4: give a whole number, 1 to 3"),
        ({"memory": True}, "memory=True"),
        ({"trigger": "mine"}, "trigger='mine': use 'paper' or 'published_code'"),
        ({"evaluate": 5}, "evaluate=5: give a function"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, Any], words: str) -> None:
    model = tries("x")
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        create_reflexion_graph(model, [lookup], **options)
    assert not model.requests


def test_a_cost_limit_needs_the_price_of_every_model() -> None:
    set_price("priced-script", FlatPrice(1.0, 1.0))
    model = tries("x", model_name="priced-script", usage=(10, 10))
    for name in ("evaluate", "reflector"):
        with pytest.raises(ValueError, match=f"'unpriced-script' \\({name}=\\) is not known"):
            create_reflexion_graph(
                model, limits=Limits(cost=1.0), **{name: ScriptedModel(model_name="unpriced-script")}
            )
