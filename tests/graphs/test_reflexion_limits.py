"""Reflexion under limits and other ends; what is streamed, forms of the answer, and whatever a model says."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import BaseModel
from reflexion_support import good, kinds_of, last_text, trial_of, tries, verdicts
from stream_support import Streams, of
from support import (
    Way,
    asks,
    assert_ended,
    both_ways,
    broken,
    lookup,
    question,
    run,
    thread,
)

from taograph import Cancellation, Context, Limits
from taograph.graphs.reflexion import create_reflexion_graph
from taograph.models import FlatPrice, ScriptedModel, call, set_price

# Limits are shared


@pytest.mark.parametrize(
    ("steps", "calls", "answer", "told"),
    [
        (1, ["trial 1", "close"], "So far: …", ["cut"]),
        (2, ["trial 1"] * 2, "bad", ["failed"]),
        (3, ["trial 1"] * 2, "bad", ["failed"]),
        (4, ["trial 1"] * 2 + ["reflect", "trial 2"], "bad", ["failed", "cut"]),
        (5, ["trial 1"] * 2 + ["reflect", "trial 2", "trial 2"], "worse", ["failed", "failed"]),
    ],
)
@both_ways
def test_the_steps_of_the_run_bound_all_trials(
    way: Way, steps: int, calls: list[str], answer: str, told: list[str]
) -> None:
    model = tries("bad", "worse", "good")
    graph = create_reflexion_graph(model, [lookup], evaluate=good, limits=Limits(steps=steps))
    result = run(way, graph, question())
    assert_ended(result, "step_limit", model)
    assert kinds_of(model) == calls
    assert result["answer"] == answer
    assert verdicts(result) == told
    if answer != "So far: …":
        assert f"the answer of trial {told.count('failed')} is given, which did not pass: {answer}" in str(
            result["stop"]
        )


def test_a_trial_that_passes_with_the_last_step_of_the_run_is_final() -> None:
    model = tries("bad", "good")
    result = create_reflexion_graph(model, [lookup], evaluate=good, limits=Limits(steps=5)).invoke(question())
    assert_ended(result, "final", model)
    assert result["answer"] == "good"


def test_a_judge_that_costs_is_not_asked_beyond_a_limit_and_the_answer_is_given_as_it_is() -> None:
    judge = ScriptedModel(replies=["no"], repeat=True)
    model = tries("answer")
    result = create_reflexion_graph(model, [lookup], evaluate=judge, limits=Limits(steps=2)).invoke(question())
    assert_ended(result, "step_limit")
    assert result["answer"] == "answer"
    assert verdicts(result) == ["cut"]
    assert not judge.requests
    assert "the answer of trial 1 is given, which was not judged" in result["stop"]["detail"]


def test_the_default_limit_has_room_for_all_trials() -> None:
    for trials, within, steps in ((3, None, 48), (2, Limits(steps=4), 10), (5, Limits(steps=None), None)):
        assert create_reflexion_graph(tries("x"), trials=trials, trial_limits=within).limits.steps == steps


def test_a_trial_has_limits_of_its_own() -> None:
    model = tries(lambda messages: asks(f"n{len(messages)}"), "good")
    graph = create_reflexion_graph(model, [lookup], evaluate=good, trial_limits=Limits(steps=3))
    result = graph.invoke(question())
    assert_ended(result, "final", model)
    assert result["trials"][0]["stop"] == {"reason": "step_limit", "detail": "3 of 3 steps used", "step": 3}
    assert result["children"][0]["shared"] is False
    assert kinds_of(model) == ["trial 1"] * 3 + ["reflect"] + ["trial 2"] * 2


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(tokens=200), "token_limit"),
        (Limits(cost=0.0002), "cost_limit"),
        (Limits(tool_calls=1), "tool_call_limit"),
    ],
)
def test_tokens_money_and_calls_are_those_of_the_run(limits: Limits, reason: str) -> None:
    set_price("reflexion-script", FlatPrice(1.0, 1.0))
    model = tries("bad", "worse", usage=(40, 10), model_name="reflexion-script")
    result = create_reflexion_graph(model, [lookup], evaluate=good, limits=limits).invoke(question())
    assert_ended(result, reason, model)
    assert result["answer"] == "bad"
    spent = result["spent"]
    assert spent["input_tokens"] + spent["output_tokens"] <= (limits.tokens or 10**9)
    assert spent["cost"] <= (limits.cost or 1.0)
    assert spent["tool_calls"] <= (limits.tool_calls or 100)


@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(tokens=240), "token_limit"), (Limits(cost=0.00024), "cost_limit")]
)
def test_samples_that_would_go_beyond_a_limit_are_not_drawn(limits: Limits, reason: str) -> None:
    set_price("reflexion-script", FlatPrice(1.0, 1.0))
    model = tries("good", sample=lambda: "good", usage=(40, 10), model_name="reflexion-script")
    result = create_reflexion_graph(model, [lookup], evaluate="agreement", limits=limits).invoke(question())
    assert_ended(result, reason, model)
    assert kinds_of(model) == ["trial 1", "trial 1"]
    assert result["answer"] == "good"
    assert "3 samples take about" in result["stop"]["detail"]
    assert verdicts(result) == ["cut"]


class Hanging(ScriptedModel):
    """A model that does not reply in the second trial."""

    over: Any = None

    def _generate(self, messages: Any, *args: Any, **more: Any) -> Any:
        if trial_of(messages) == 2:
            self.over.wait(20)
        return super()._generate(messages, *args, **more)

    async def _agenerate(self, messages: Any, *args: Any, **more: Any) -> Any:
        if trial_of(messages) == 2:
            await asyncio.sleep(20)
        return await super()._agenerate(messages, *args, **more)


@both_ways
def test_the_time_is_that_of_the_run_and_a_trial_in_flight_is_cut(way: Way) -> None:
    over = threading.Event()
    model = Hanging(replies=tries("bad").replies, repeat=True, over=over)
    graph = create_reflexion_graph(model, [lookup], evaluate=good, limits=Limits(seconds=2))
    result = run(way, graph, question())
    over.set()
    assert_ended(result, "deadline")
    assert result["answer"] == "bad"
    assert "the answer of trial 1 is given" in result["stop"]["detail"]
    assert verdicts(result) == ["failed", "cut"]
    assert "close" not in kinds_of(model)


def test_what_the_trials_spent_is_spent_by_the_run() -> None:
    model = tries("bad", "good", usage=(40, 10))
    result = create_reflexion_graph(model, [lookup], evaluate=good).invoke(question())
    assert result["spent"]["model_calls"] == 5
    assert result["spent"]["input_tokens"] == 200
    assert result["spent"]["tool_calls"] == 2
    assert sum(child["spent"]["model_calls"] for child in result["children"]) == 4


@both_ways
@pytest.mark.parametrize("limit", range(2, 14))
def test_no_recursion_limit_raises(way: Way, limit: int) -> None:
    for evaluate in (good, "agreement"):
        model = tries("bad", "worse", "good", sample=lambda: "other")
        graph = create_reflexion_graph(model, [lookup], evaluate=evaluate)
        result = run(way, graph, question(), {"recursion_limit": limit})
        assert result["stop"]["reason"] in ("step_limit", "final")
        assert_ended(result, result["stop"]["reason"], model)
        assert kinds_of(model)[-1] != "reflect", "nothing is noted where no trial can follow"


def test_a_recursion_limit_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="recursion_limit=1 is too small"):
        create_reflexion_graph(tries("x")).invoke(question(), {"recursion_limit": 1})


# Other ends


@both_ways
@pytest.mark.parametrize("failing", [1, 3, 4])
def test_a_model_that_is_down_ends_the_run_with_the_answer_there_is(way: Way, failing: int) -> None:
    calls = itertools.count(1)
    inner = tries("bad", "good").replies[0]

    def reply(messages: list[Any]) -> Any:
        if next(calls) >= failing:
            raise ValueError("no such model")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good), question())
    assert_ended(result, "model_error", model)
    assert (result["answer"] == "bad") == (failing > 2)
    assert verdicts(result) == {1: ["cut"], 3: ["failed"], 4: ["failed", "cut"]}[failing]


def test_a_refusal_in_a_trial_ends_the_run() -> None:
    model = tries(AIMessage("No.", additional_kwargs={"refusal": "No."}))
    result = create_reflexion_graph(model, [lookup], evaluate=good).invoke(question())
    assert_ended(result, "refusal", model)
    assert len(model.requests) == 1


def test_an_empty_reflection_is_asked_for_again_and_then_ends_the_run() -> None:
    model = tries("bad", "good")
    silent = ScriptedModel(replies=["", "", ""])
    result = create_reflexion_graph(model, [lookup], evaluate=good, reflector=silent).invoke(question())
    assert_ended(result, "empty_output")
    assert result["answer"] == "bad"
    assert len(silent.requests) == 3


@both_ways
@pytest.mark.parametrize("when", ["trial 1", "reflect", "trial 2"])
def test_a_run_that_is_cancelled_ends_with_the_answer_there_is(way: Way, when: str) -> None:
    cancel = Cancellation()
    inner = tries("bad", "good").replies[0]

    def reply(messages: list[Any]) -> Any:
        if kinds_of(model)[-1] == when:
            cancel.request("enough")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    with cancel:
        result = run(way, create_reflexion_graph(model, [lookup], evaluate=good), question())
    assert_ended(result, "cancelled", model)
    assert "enough" in result["stop"]["detail"]
    assert (result["answer"] == "bad") == (when != "trial 1")
    assert kinds_of(model)[-1] == when


def test_a_run_that_is_cancelled_before_it_begins_tells_nothing_of_the_one_before(saver: Any) -> None:
    graph = create_reflexion_graph(tries("bad", "good"), [lookup], evaluate=good, checkpointer=saver)
    graph.invoke(question(), thread())
    with Cancellation() as cancel:
        cancel.request("no")
        result = graph.invoke(question("And now?"), thread())
    assert_ended(result, "cancelled")
    assert (result["trials"], result["reflections"], result["children"]) == ([], [], [])


# Streams, forms, protocols


def test_trials_are_told_as_they_happen(steps: Streams) -> None:
    graph = create_reflexion_graph(tries("bad", "good"), [lookup], evaluate=good)
    events = steps(graph, question())
    told = [(e["reason"], e["detail"]) for e in of(events, "retry")]
    assert told == [
        ("trial", "trial 1 of 3 did not pass: bad is not good"),
        ("reflection", "Lesson 1."),
    ]
    children = of(events, "child")
    assert {tuple(e["path"]) for e in children} >= {("trial",)}
    answers = [e["event"]["text"] for e in children if e["event"]["type"] == "answer"]
    assert answers == ["bad", "good"]
    assert [e["type"] for e in events[-2:]] == ["stop", "answer"]
    actions = [e["event"]["args"] for e in children if e["event"]["type"] == "action"]
    assert actions == [{"name": "n1"}, {"name": "n2"}]


class Place(BaseModel):
    """Where it is."""

    page: int


@both_ways
def test_the_answer_in_a_form_is_asked_for_once(way: Way) -> None:
    inner = tries("bad", "good").replies[0]

    def reply(messages: list[Any]) -> Any:
        if "required form" in last_text(messages):
            return AIMessage("", tool_calls=[call("Place", {"page": 3})])
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good, response_format=Place), question())
    assert_ended(result, "final", model)
    assert result["structured"] == {"page": 3}
    assert len(model.requests) == 6


@both_ways
def test_in_the_text_protocol(way: Way) -> None:
    notes = itertools.count(1)

    def reply(messages: list[Any]) -> str:
        said = last_text(messages)
        if said.startswith("An attempt at a task"):
            return f"Lesson {next(notes)}."
        noted = any("- Trial 1: Lesson 1." in m.text for m in messages)
        if "Observation:" in said or messages[-1].type == "tool":
            return f"Thought: I see.\nFinal Answer: {'good' if noted else 'bad'}"
        return 'Thought: Look.\nAction: lookup\nAction Input: {"name": "Ada"}'

    model = ScriptedModel(replies=[reply], repeat=True)
    result = run(way, create_reflexion_graph(model, [lookup], evaluate=good, protocol="text"), question())
    assert_ended(result, "final")
    assert result["answer"] == "good"
    assert result["reflections"] == ["Lesson 1."]


def test_without_tools_and_without_a_model() -> None:
    result = create_reflexion_graph(tries(lambda m: "bad", lambda m: "good"), evaluate=good).invoke(question())
    assert result["answer"] == "good"
    graph = create_reflexion_graph(None, [lookup])
    with pytest.raises(ValueError, match="no-such-provider"):
        graph.invoke(question(), context=Context(model="no-such-provider:x"))


# Whatever a model says


_replies = st.one_of(
    st.sampled_from(["", "An answer.", "good", "<think>Hm.</think>", '{"name": "lookup"}']),
    st.builds(asks, st.sampled_from(["Ada", "Bo"])),
    st.builds(lambda: asks(call("broken", {"name": "x"}))),
    st.builds(lambda: AIMessage("x", response_metadata={"finish_reason": "length"})),
    st.sampled_from([ValueError("bad"), AIMessage("No.", additional_kwargs={"refusal": "No."})]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(_replies, min_size=1, max_size=8),
    evaluate=st.sampled_from([None, good, "tool_errors", "agreement", lambda q, a, t: 1 / 0]),
    limits=st.builds(
        Limits,
        steps=st.integers(1, 9),
        tokens=st.sampled_from([None, 1, 300, 900]),
        tool_calls=st.sampled_from([None, 0, 2]),
        errors=st.integers(1, 2),
        model_retries=st.just(0),
    ),
    within=st.sampled_from([None, Limits(steps=2), Limits(steps=3, repeats=2, errors=1)]),
    recursion_limit=st.sampled_from([None, None, 2, 3, 5, 9]),
    way=st.sampled_from(["invoke", "ainvoke"]),
)
def test_any_script_ends(
    script: list[Any], evaluate: Any, limits: Limits, within: Limits | None, recursion_limit: int | None, way: Way
) -> None:
    model = ScriptedModel(replies=script, repeat=True, usage=(50, 5))
    graph = create_reflexion_graph(
        model, [lookup, broken], evaluate=evaluate, limits=limits, trial_limits=within, trials=2
    )
    config = {} if recursion_limit is None else {"recursion_limit": recursion_limit}
    result = run(way, graph, question(), config)
    assert_ended(result, result["stop"]["reason"], model)
    assert result["stop"]["step"] <= limits.steps  # type: ignore[operator]
    assert result["spent"]["tool_calls"] <= (100 if limits.tool_calls is None else limits.tool_calls)
    assert len(result["trials"]) <= 2
