"""Reflexion's evaluators: functions, models, tool errors, agreement, the trigger, and the right answer."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from reflexion_support import good, kinds_of, last_text, tries, verdicts
from support import Counting, Way, asks, assert_ended, both_ways, broken, lookup, question, run

from taograph import Limits
from taograph.graphs.reflexion import create_reflexion_graph, exact_match, oracle
from taograph.models import ScriptedModel, call

# Evaluators


async def later(question: str, answer: str, trajectory: Any) -> str | None:
    await asyncio.sleep(0)
    return None if "good" in answer else "not yet"


def handed_on(*what: Any) -> Any:
    return later(*what)


class Judge:
    async def __call__(self, question: str, answer: str, trajectory: Any) -> bool:
        return "good" in answer


@both_ways
@pytest.mark.parametrize("evaluate", [good, later, Judge(), handed_on], ids=range(4))
def test_evaluators_of_every_kind(way: Way, evaluate: Any) -> None:
    model = tries("bad", "good")
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=evaluate), question())
    assert_ended(result, "final", model)
    assert verdicts(result) == ["failed", "passed"]


@both_ways
def test_a_sync_evaluator_does_not_hold_the_event_loop(way: Way) -> None:
    loop = threading.get_ident()
    seen: list[int] = []

    def evaluate(question: str, answer: str, trajectory: Any) -> None:
        seen.append(threading.get_ident())

    run(way, create_reflexion_graph(tries("good"), [lookup], evaluate=evaluate), question())
    assert len(seen) == 1
    assert seen[0] != loop


def test_the_evaluator_is_given_the_question_the_answer_and_this_trial_alone() -> None:
    seen: list[Any] = []

    def evaluate(question: str, answer: str, trajectory: Any) -> bool:
        seen.append((question, answer, [a.args["name"] for step in trajectory.steps for a in step.actions]))
        return len(seen) == 2

    create_reflexion_graph(tries("one", "two"), [lookup], evaluate=evaluate).invoke(question("Where?"))
    assert seen == [("Where?", "one", ["n1"]), ("Where?", "two", ["n2"])]


@both_ways
def test_a_model_judges_and_says_why(way: Way) -> None:
    judge = ScriptedModel(replies=["The page is wrong.", "OK"], usage=(11, 2))
    model = tries("bad", "good")
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=judge), question())
    assert_ended(result, "final")
    assert verdicts(result) == ["failed", "passed"]
    assert result["trials"][0]["reason"] == "The page is wrong."
    assert "n1 is in the book" in last_text(judge.requests[0].messages)
    assert "n1 is in the book" not in last_text(judge.requests[1].messages)
    assert result["spent"]["model_calls"] == len(model.requests) + len(judge.requests) == 7


def test_an_evaluator_that_fails_holds_nothing_against_the_answer_and_the_result_says_so() -> None:
    def fails(question: str, answer: str, trajectory: Any) -> bool:
        raise RuntimeError("secret")

    result = create_reflexion_graph(tries("answer"), [lookup], evaluate=fails).invoke(question())
    assert_ended(result, "final")
    assert result["stop"]["detail"] == "trial 1 of 3 passed; the answer was not judged: RuntimeError"
    assert "secret" not in str(result)
    result = create_reflexion_graph(tries("answer"), [lookup], evaluate=lambda *what: 5).invoke(question())
    assert "evaluate returned a int, not a text, bool, None or Verdict" in result["stop"]["detail"]


def test_tool_errors_judges_by_the_last_calls() -> None:
    def second(messages: list[Any]) -> Any:
        tools = [m for m in messages if m.type == "tool"]
        return "answer" if len(tools) == 2 else asks(call("broken", {"name": "x"}) if not tools else "Ada")

    first = [asks("Ada"), asks(call("broken", {"name": "x"})), "made up"]
    model = tries(lambda messages: first[sum(m.type == "tool" for m in messages)], second)
    result = create_reflexion_graph(model, [lookup, broken], evaluate="tool_errors").invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "answer"
    assert verdicts(result) == ["failed", "passed"], "a call that failed and was mended is no fault"
    assert result["trials"][0]["reason"].startswith("the last calls failed, so the answer rests on nothing: broken:")


@both_ways
def test_agreement_asks_a_few_samples_side_by_side(way: Way) -> None:
    together = threading.Barrier(3, timeout=20)
    said = iter(["something else"] * 3 + ["The good one."] * 3)

    def sample() -> str:
        if way == "invoke":
            together.wait()
        return next(said)

    model = tries("bad", "good one", sample=sample)
    result = run(way, create_reflexion_graph(model, [lookup], evaluate="agreement"), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "good one"
    assert kinds_of(model) == [*["trial 1"] * 2, *["sample"] * 3, "reflect", *["trial 2"] * 2, *["sample"] * 3]
    assert [t["score"] for t in result["trials"]] == [0.0, 1.0]
    assert result["trials"][0]["reason"] == "0 of 3 samples agree with the answer; others say: something else"
    assert result["stop"]["step"] == 7, "a round of samples is one step"
    request = model.requests[2]
    assert request.options["temperature"] == 0.7
    assert any(m.type == "tool" for m in request.messages), "they answer from the observations of the trial"
    assert "bad" not in [m.text for m in request.messages], "and are not shown the answer"


def test_an_answer_that_no_sample_could_be_had_for_stands() -> None:
    def sample() -> str:
        raise ValueError("down")

    result = create_reflexion_graph(tries("good", sample=sample), [lookup], evaluate="agreement").invoke(question())
    assert_ended(result, "final")
    assert result["stop"]["detail"] == "trial 1 of 3 passed; the answer was not judged: no sample gave an answer"


# The trigger


def stuck(times: int) -> Any:
    """An actor that looks the same up so many times before it answers; in the second trial it answers at once."""

    def reply(messages: list[Any]) -> Any:
        return "at last" if sum(m.type == "tool" for m in messages) == times else asks("same")

    return tries(reply, "good")


@pytest.mark.parametrize(("trigger", "times", "passes"), [("paper", 3, True), ("published_code", 2, False)])
def test_a_trial_that_got_stuck_failed_though_it_answered(trigger: Any, times: int, passes: bool) -> None:
    model = stuck(times)
    result = create_reflexion_graph(model, [lookup], trigger=trigger).invoke(question())
    assert_ended(result, "final", model)
    assert verdicts(result) == (["passed"] if passes else ["failed", "passed"])
    if not passes:
        assert result["trials"][0]["reason"] == 'lookup({"name": "same"}) was repeated'


def test_the_papers_trigger_counts_equal_outcomes_wherever_they_are() -> None:
    def reply(messages: list[Any]) -> Any:
        done = sum(m.type == "tool" for m in messages)
        return "at last" if done == 8 else asks("same" if done % 2 == 0 else f"other {done}")

    model = tries(reply, "good")
    result = create_reflexion_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert result["trials"][0]["reason"] == 'lookup({"name": "same"}) brought the same result 4 times'


def test_a_poll_whose_result_changes_is_no_repetition_for_the_paper() -> None:
    counting = Counting()

    def reply(messages: list[Any]) -> Any:
        return "at last" if len(counting.calls) == 6 else asks(call("count", {"what": "x"}))

    result = create_reflexion_graph(tries(reply), [counting.tool]).invoke(question())
    assert verdicts(result) == ["passed"]
    counting.calls.clear()
    result = create_reflexion_graph(tries(reply), [counting.tool], trigger="published_code", trials=1).invoke(
        question()
    )
    assert verdicts(result) == ["failed"], "the published code does not look at what came of it"


def test_more_than_30_actions_are_too_many() -> None:
    def reply(messages: list[Any]) -> Any:
        done = sum(m.type == "tool" for m in messages)
        return asks(*(f"n{done + i}" for i in range(8))) if done < 40 else "at last"

    model = tries(reply, "good")
    result = create_reflexion_graph(model, [lookup]).invoke(question())
    assert result["trials"][0]["stop"]["reason"] == "tool_call_limit"
    result = create_reflexion_graph(tries(reply, "good"), [lookup], trial_limits=Limits()).invoke(question())
    assert result["trials"][0]["reason"] == "40 actions were taken, and more than 30 are inefficient"


# The right answer


def test_an_evaluator_that_knows_the_right_answer_is_refused_unless_that_is_said() -> None:
    for evaluate in (exact_match("Paris"), oracle(good)):
        with pytest.raises(ValueError, match="oracle=True"):
            create_reflexion_graph(tries("x"), evaluate=evaluate)
    with pytest.raises(ValueError, match="oracle=True: give evaluate="):
        create_reflexion_graph(tries("x"), oracle=True)


def test_a_run_that_was_judged_with_the_right_answer_is_labeled() -> None:
    model = tries("London", "the Paris!")
    graph = create_reflexion_graph(model, [lookup], evaluate=exact_match(["Paris", "Paname"]), oracle=True)
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "the Paris!"
    assert result["oracle"] is True
    assert result["stop"]["detail"] == "trial 2 of 3 passed (judged with the right answer)"
    told = [last_text(r.messages) for r in model.requests]
    assert not any("Paris" in text for text in told), "the model is not told the answer"
    limited = create_reflexion_graph(
        tries("London"), [lookup], evaluate=oracle(lambda *what: False), oracle=True, limits=Limits(steps=3)
    )
    assert "(judged with the right answer)" in limited.invoke(question())["stop"]["detail"]
