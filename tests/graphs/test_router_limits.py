"""The router under limits and cancellation; what is streamed, forms, both protocols, and whatever a model says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import BaseModel
from router_support import HARD, LOOP, STUCK, UNSURE, direct, kinds_of, path, routed
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
)

from taograph import Cancellation, Context, Limits
from taograph.graphs.router import create_router_graph
from taograph.models import FlatPrice, ScriptedModel, call, set_price

pytestmark = pytest.mark.usefixtures("no_pauses")


# Limits are shared over the hops


@both_ways
@pytest.mark.parametrize(
    ("steps", "reason", "answer", "strategies"),
    [
        (1, "step_limit", "I don't know: it needs a source.", ["direct"]),
        (2, "step_limit", "I don't know: it needs a source.", ["direct"]),
        (3, "step_limit", "So far: …", ["direct", "react"]),
        (4, "final", "found", ["direct", "react"]),
    ],
)
def test_the_steps_of_the_run_bound_all_hops(
    way: Way, steps: int, reason: str, answer: str, strategies: list[str]
) -> None:
    model = routed(at_once=UNSURE)
    graph = create_router_graph(model, [lookup], strategies=LOOP, limits=Limits(steps=steps))
    result = run(way, graph, question(HARD))
    assert_ended(result, reason, model)
    assert result["answer"] == answer
    assert path(result) == strategies
    assert result["stop"]["step"] == steps


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(tokens=45), "token_limit"),
        (Limits(cost=0.000045), "cost_limit"),
        (Limits(tool_calls=0), "tool_call_limit"),
    ],
)
def test_tokens_money_and_calls_are_those_of_the_run_and_nothing_follows(limits: Limits, reason: str) -> None:
    set_price("routed-script", FlatPrice(1.0, 1.0))
    model = routed(at_once=UNSURE, loop=STUCK, trials="tried", model_name="routed-script")
    result = create_router_graph(model, [lookup], limits=limits).invoke(question(HARD))
    assert_ended(result, reason, model)
    assert result["spent"]["input_tokens"] + result["spent"]["output_tokens"] <= (limits.tokens or 10**9)
    assert result["spent"]["cost"] <= (limits.cost or 1.0)
    assert "reflexion" not in path(result)


def test_what_the_hops_spent_is_spent_by_the_run() -> None:
    model = routed(at_once=UNSURE)
    result = create_router_graph(model, [lookup]).invoke(question(HARD))
    costs = [hop["spent"]["model_calls"] for hop in result["hops"]]
    assert costs == [1, 2]
    assert result["spent"]["model_calls"] == 4
    assert result["spent"]["input_tokens"] == 40
    assert result["spent"]["tool_calls"] == 1
    assert [child["name"] for child in result["children"]] == ["direct", "react"]


@both_ways
@pytest.mark.parametrize("limit", range(2, 12))
def test_no_recursion_limit_raises(way: Way, limit: int) -> None:
    model = routed(at_once=UNSURE, loop=STUCK, trials="tried")
    graph = create_router_graph(model, [lookup], strategies=("direct", "react", "reflexion"))
    result = run(way, graph, question(HARD), {"recursion_limit": limit})
    assert_ended(result, result["stop"]["reason"], model)
    if limit < 4:
        assert kinds_of(model) == ["close"], "nothing is asked about a way that there is no room for"
    if 4 <= limit < 6:
        assert result["answer"] == "I don't know: it needs a source."


def test_a_recursion_limit_of_one_is_refused() -> None:
    model = routed()
    with pytest.raises(ValueError, match="recursion_limit=1 is too small"):
        create_router_graph(model, [lookup]).invoke(question(HARD), {"recursion_limit": 1})
    assert not model.requests


@both_ways
@pytest.mark.parametrize("when", ["classify", "direct", "react"])
def test_a_run_that_is_cancelled_ends_where_it_is(way: Way, when: str) -> None:
    cancel = Cancellation()
    inner = routed(at_once=UNSURE).replies[0]

    def reply(messages: list[Any]) -> Any:
        if kinds_of(model)[-1] == when:
            cancel.request("enough")
        return inner(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    with cancel:
        result = run(way, create_router_graph(model, [lookup]), question(HARD))
    assert_ended(result, "cancelled", model)
    assert kinds_of(model)[-1] == when
    if when != "classify":  # its reply may have come before it was noticed; then the next one is not asked
        assert path(result) == {"direct": ["direct"], "react": ["direct", "react"]}[when]


# Streams, forms, protocols


def test_every_hop_is_told_with_its_reason_and_its_cost(steps: Streams) -> None:
    events = steps(create_router_graph(routed(at_once=UNSURE), [lookup]), question(HARD))
    plans = [e["plan"] for e in of(events, "plan")]
    assert [[(p["tool"], p["status"]) for p in plan] for plan in plans] == [
        [("direct", "running")],
        [("direct", "failed"), ("react", "running")],
        [("direct", "failed"), ("react", "done")],
    ]
    last = plans[-1]
    assert last[0]["task"] == "direct: the model decided: so it seems"
    assert last[1]["why"] == "direct fell short: it says that its confidence is low"
    assert [p["spent"]["model_calls"] for p in last] == [1, 2]
    children = [e["event"] for e in of(events, "child")]
    assert [e["path"] for e in children if e["type"] == "run_started"] == [["direct"], ["react"]]
    assert {e["question"] for e in children if e["type"] == "run_started"} == {HARD}
    assert of(events, "run_started")[0]["question"] == HARD


def test_a_nested_strategys_events_have_their_place(steps: Streams) -> None:
    graph = create_router_graph(routed(), [lookup], strategies=("reflexion",))
    events = steps(graph, question(HARD))
    paths = {tuple(e["event"]["path"]) for e in of(events, "child")}
    assert ("reflexion", "trial") in paths
    assert ("reflexion",) in paths


class Place(BaseModel):
    """Where it is."""

    page: int


@both_ways
def test_the_answer_in_a_form_is_asked_for_once(way: Way) -> None:
    model = routed(at_once=UNSURE)
    result = run(way, create_router_graph(model, [lookup], response_format=Place), question(HARD))
    assert_ended(result, "final", model)
    assert result["structured"] == {"page": 3}
    assert kinds_of(model).count("form") == 1


@both_ways
def test_in_the_text_protocol(way: Way) -> None:
    def reply(messages: list[Any]) -> str:
        said = str(messages[-1].text)
        if "Reply with one word" in said:
            return "direct"
        if "Confidence: high" in said:
            return direct("Unknown.", "low")
        if "Observation:" in said or messages[-1].type == "tool":
            return "Thought: I see.\nFinal Answer: On page 3."
        return 'Thought: Look.\nAction: lookup\nAction Input: {"name": "Ada"}'

    model = ScriptedModel(replies=[reply], repeat=True)
    result = run(way, create_router_graph(model, [lookup], protocol="text"), question(HARD))
    assert_ended(result, "final")
    assert result["answer"] == "On page 3."
    assert path(result) == ["direct", "react"]
    assert len(model.requests) == 4


def test_the_model_can_come_with_the_run() -> None:
    graph = create_router_graph(None, [lookup])
    with pytest.raises(ValueError, match="no-such-provider"):
        graph.invoke(question(), context=Context(model="no-such-provider:x"))


# Whatever a model says


_replies = st.one_of(
    st.sampled_from(["", "direct", "tools", "An answer.\nConfidence: low", "I don't know.", "Final Answer: so"]),
    st.builds(asks, st.sampled_from(["Ada", "Bo"])),
    st.builds(lambda: asks(call("broken", {"name": "x"}))),
    st.builds(lambda: AIMessage("", tool_calls=[call("route", {"route": "tools"})])),
    st.builds(lambda: AIMessage("x", response_metadata={"finish_reason": "length"})),
    st.sampled_from([ValueError("bad"), AIMessage("No.", additional_kwargs={"refusal": "No."})]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(_replies, min_size=1, max_size=10),
    limits=st.builds(
        Limits,
        steps=st.integers(1, 12),
        tokens=st.sampled_from([None, 1, 300, 900]),
        tool_calls=st.sampled_from([None, 0, 2]),
        model_retries=st.just(0),
    ),
    strategies=st.sampled_from([None, LOOP, ("react",), ("reflexion", "direct")]),
    verify=st.sampled_from([None, lambda a, t: "wrong"]),
    recursion_limit=st.sampled_from([None, None, 2, 3, 5, 9]),
    way=st.sampled_from(["invoke", "ainvoke"]),
)
def test_any_script_ends(
    script: list[Any], limits: Limits, strategies: Any, verify: Any, recursion_limit: int | None, way: Way
) -> None:
    model = ScriptedModel(replies=script, repeat=True, usage=(50, 5))
    graph = create_router_graph(model, [lookup, broken], limits=limits, strategies=strategies, verify=verify)
    config = {} if recursion_limit is None else {"recursion_limit": recursion_limit}
    result = run(way, graph, question(HARD), config)
    assert_ended(result, result["stop"]["reason"], model)
    assert result["stop"]["step"] <= limits.steps  # type: ignore[operator]
    assert len(result["hops"]) <= 3
    assert all(hop["stop"] is not None for hop in result["hops"])
