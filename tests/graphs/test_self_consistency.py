"""Self-consistency: samples, the vote, and when no more are drawn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_openai_server import Raw, Reply
from http_support import Made, assert_concluded, both_pairs
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from stream_support import Streams, kinds, of
from support import Way, assert_acceptable, assert_ended, both_ways, lookup, question, run, thread
from vote_support import (
    ASKED,
    IN_ORDER,
    Meeting,
    NoTemperature,
    Script,
    is_sample,
    objecting,
    sampled,
    thinks,
    waves,
)

from taograph import Context, Limits, checkpoints
from taograph.graphs import STRATEGIES
from taograph.graphs.parts.chain_of_thought import THINK
from taograph.graphs.self_consistency import create_self_consistency_graph
from taograph.models import ScriptedModel, TextReAct

SPLIT = ["Paris"] * 6 + ["Rome"] * 5 + ["Paris"]


def voting(said: Any = ("Paris",), **options: Any) -> tuple[ScriptedModel, Any]:
    usage = options.pop("usage", None)
    model = Script(said).model(usage=usage)
    return model, create_self_consistency_graph(model, **options)


# The vote


@both_ways
def test_samples_that_agree_take_eleven_calls_of_twenty_one(way: Way) -> None:
    model, graph = voting()
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert len(model.requests) == 11
    assert result["stop"] == {"reason": "final", "detail": "11 of 11 samples gave this answer", "step": 1}
    assert result["votes"] == {
        "answer": "Paris",
        "count": 11,
        "of": 11,
        "share": 1.0,
        "table": [{"answer": "Paris", "count": 11}],
        "drawn": 11,
        "failed": 0,
        "samples": 21,
    }
    asked, answered = result["messages"]
    assert asked.text == ASKED
    assert answered.text == "Paris"
    assert answered.additional_kwargs["reasoning_content"].startswith("thought ")


def test_each_sample_is_asked_alike_at_the_temperature() -> None:
    model, graph = voting(temperature=0.5, system_prompt="Be brief.")
    graph.invoke(question(ASKED))
    assert [request.options for request in model.requests] == [{"temperature": 0.5}] * 11
    sent = {tuple(str(message.text) for message in request.messages) for request in model.requests}
    assert sent == {("Be brief.", f"{ASKED}\n\n{THINK}")}


@both_ways
def test_a_wave_is_drawn_side_by_side(way: Way) -> None:
    model = Meeting(replies=[thinks("Paris")], repeat=True, size=11)
    result = run(way, create_self_consistency_graph(model), question(ASKED))
    assert_ended(result, "final", model)


@both_ways
def test_what_could_settle_it_is_drawn_and_no_more(way: Way) -> None:
    model, graph = voting(SPLIT)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert len(model.requests) == 16  # eleven; then the five that six need
    assert result["votes"]["table"] == [{"answer": "Paris", "count": 11}, {"answer": "Rome", "count": 5}]
    assert result["votes"]["share"] == 11 / 16
    assert result["stop"]["step"] == 2


def test_samples_that_never_agree_take_all_and_the_first_wins() -> None:
    model, graph = voting([str(number) for number in range(21)])
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert_ended(result, "final", model)
    assert len(model.requests) == 21
    assert result["answer"] == "0"
    assert result["votes"]["count"] == 1
    assert result["votes"]["of"] == 21
    assert result["stop"]["step"] == 5


def test_a_tie_goes_to_the_answer_that_was_seen_first() -> None:
    _, graph = voting(["Rome", "Paris", "paris.", "Rome!"], samples=4)
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert result["answer"] == "Rome"
    assert result["votes"]["table"] == [{"answer": "Rome", "count": 2}, {"answer": "Paris", "count": 2}]


def test_the_answer_has_the_thought_of_the_first_sample_that_gave_it() -> None:
    _, graph = voting(["Rome", "1,000", "1000.0", "$1000"], samples=4)
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert result["answer"] == "1,000"
    assert result["votes"]["count"] == 3
    assert result["messages"][-1].additional_kwargs["reasoning_content"] == "thought 2"


def test_samples_that_do_not_keep_to_the_form_vote_where_they_say_what_they_come_to() -> None:
    said = [AIMessage("23 * 19 = 437.\nSo the answer is 437."), AIMessage("Thought: It is \\(\\boxed{437}\\)."), "437"]
    _, graph = voting(said, samples=3)
    result = graph.invoke(question("What is 23 * 19?"), IN_ORDER)
    assert result["answer"] == "437"
    assert result["votes"]["table"] == [{"answer": "437", "count": 2}]
    assert result["messages"][-1].additional_kwargs["reasoning_content"] == said[0].text


@pytest.mark.parametrize("samples", [1, 3, 10, 40])
def test_never_more_than_so_many(samples: int) -> None:
    model, graph = voting([str(number) for number in range(samples)], samples=samples, limits=Limits(steps=30))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert len(model.requests) == samples


def test_of_two_samples_the_first_decides() -> None:
    model, graph = voting(["Paris", "Rome"], samples=2)
    assert graph.invoke(question(ASKED))["answer"] == "Paris"
    assert len(model.requests) == 1


def test_with_a_quorum_no_more_are_drawn_once_nothing_can_reach_it() -> None:
    model, graph = voting([str(number) for number in range(21)], quorum=11)
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert len(model.requests) == 12  # nine are left, and with one vote no answer can have eleven
    assert result["answer"] == "0"


def test_samples_are_stored_as_plain_values() -> None:
    with checkpoints.open("sqlite://") as saver:
        _, graph = voting(["Paris", "Rome", "Paris"], samples=3, checkpointer=saver)
        graph.invoke(question(ASKED), {**thread(), **IN_ORDER})
        stored = graph.get_state(thread()).values["samples"]
    assert stored[0] == {
        "number": 1,
        "ballot": 0,
        "answer": "Paris",
        "thought": "thought 1",
        "fault": None,
        "detail": "",
        "plain": False,
    }
    assert sorted(one["number"] for one in stored) == [1, 2, 3]


# Samples that fail


@pytest.mark.parametrize(
    ("fails", "fault"),
    [
        (ValueError("no luck"), "model_error"),
        (AIMessage(""), "empty_output"),
        (AIMessage("Thought: It must be in the north."), "malformed_output"),
        (AIMessage("Final Ans", response_metadata={"finish_reason": "length"}), "malformed_output"),
        (AIMessage("I will not.", additional_kwargs={"refusal": "I will not."}), "refusal"),
    ],
)
def test_a_sample_that_fails_is_no_vote_and_does_not_take_the_others_with_it(fails: Any, fault: str) -> None:
    model, graph = voting(["Rome", fails, "Paris", "Paris"], samples=5)
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert result["votes"]["failed"] == 1
    assert [one["fault"] for one in result["samples"] if one["fault"]] == [fault]
    assert result["votes"]["of"] == result["votes"]["drawn"] - 1
    assert len(model.requests) <= 5


@both_ways
@pytest.mark.parametrize(("fails", "reason"), [(ValueError("no luck"), "model_error"), (AIMessage(""), "empty_output")])
def test_where_all_fail_the_run_ends_with_the_first_wave(way: Way, fails: Any, reason: str) -> None:
    model, graph = voting([fails])
    result = run(way, graph, question(ASKED))
    assert_ended(result, reason, model)
    assert "none of 11 samples was answered" in result["stop"]["detail"]
    assert len(sampled(model)) == 11
    assert result["votes"]["failed"] == 11
    assert result["votes"]["answer"] == ""


def test_what_fails_is_told(steps: Streams) -> None:
    _, graph = voting([ValueError("no luck"), "Paris"], samples=3)
    told = [event["reason"] for event in of(steps(graph, question(ASKED)), "retry")]
    assert told == ["model_error"]


@both_ways
def test_a_model_that_refuses_a_temperature_is_asked_without(way: Way) -> None:
    model = NoTemperature(replies=[Script(SPLIT)], repeat=True)
    result = run(way, create_self_consistency_graph(model), question(ASKED))
    assert result["answer"] == "Paris"
    assert len(model.requests) == 16
    assert model.refused == [0.7] * 11  # the second wave knows it
    assert result["spent"]["model_calls"] == 16 + 11


def test_the_refusal_of_a_temperature_is_told_as_a_retry(steps: Streams) -> None:
    model = NoTemperature(replies=[thinks("Paris")], repeat=True)
    events = steps(create_self_consistency_graph(model, samples=1), question(ASKED))
    (told,) = of(events, "retry")
    assert told["reason"] == "temperature"
    assert "asked without one" in told["detail"]


@both_pairs
def test_an_endpoint_that_refuses_a_temperature(serve: Any, made: Made, way: Way) -> None:
    error = {
        "message": "Unsupported value: 'temperature' does not support 0.7 with this model.",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "unsupported_value",
    }

    def answer(body: dict[str, Any]) -> Any:
        warm = body.get("temperature") is not None
        return Raw(json.dumps({"error": error}), status=400) if warm else Reply(thinks("Paris"))

    server = serve(default=answer)
    result = run(way, create_self_consistency_graph(made(server), samples=3), question(ASKED))
    assert_concluded(result, "final", server)
    assert result["answer"] == "Paris"
    assert len(server.requests) == 4


def test_another_error_is_no_refusal_of_the_temperature() -> None:
    model, graph = voting([ValueError("bad key"), "Paris"], samples=1)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "model_error", model)
    assert len(model.requests) == 1


# Streams, checks, forms


def test_votes_are_told_and_samples_are_not_streamed(steps: Streams) -> None:
    _, graph = voting(SPLIT)
    events = steps(graph, question(ASKED))
    assert kinds(events, deltas=True) == [
        "run_started",
        "vote",
        "budget",
        "vote",
        "budget",
        "thought",
        "stop",
        "answer",
    ]
    assert waves(events) == [11, 16]
    assert of(events, "budget")[-1]["spent"]["model_calls"] == 16


@both_ways
def test_an_objection_is_told_and_what_is_left_votes_anew(way: Way) -> None:
    script = Script(["Lyon"] * 11 + ["Paris"])
    model = script.model()
    check = objecting("Lyon is not the capital.")
    result = run(way, create_self_consistency_graph(model, verify=check), question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert check.seen == ["Lyon", "Paris"]  # type: ignore[attr-defined]
    assert len(model.requests) == 11 + 5  # five of the ten that are left can settle it
    last = model.requests[-1].messages
    assert last[1].text == "Lyon"
    assert "Lyon is not the capital." in last[2].text
    assert result["votes"]["of"] == 5


def test_an_objection_with_nothing_left_to_draw_stands_in_the_result() -> None:
    model, graph = voting(samples=1, verify=objecting("I doubt it."))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert len(model.requests) == 1
    assert "verify still objects: I doubt it." in result["stop"]["detail"]


@both_ways
def test_the_answer_in_a_form(way: Way) -> None:
    form = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    def reply(messages: list[BaseMessage]) -> str:
        return thinks("Paris") if is_sample(messages) else '{"city": "Paris"}'

    model = ScriptedModel(replies=[reply], repeat=True)
    result = run(way, create_self_consistency_graph(model, response_format=form), question(ASKED))
    assert_ended(result, "final", model)
    assert result["structured"] == {"city": "Paris"}
    assert result["answer"] == "Paris"
    assert len(model.requests) == 12


def test_a_model_in_the_text_protocol_votes_too() -> None:
    model = Script(SPLIT).model()
    result = create_self_consistency_graph(TextReAct(model)).invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert model.requests[0].options == {"temperature": 0.7}


def test_a_long_history_is_summarized_once_and_not_by_every_sample() -> None:
    said: list[str] = []

    def reply(messages: list[BaseMessage]) -> str:
        if is_sample(messages):
            return thinks("Paris")
        said.append("summary")
        return "They spoke of many things."

    model = ScriptedModel(replies=[reply], repeat=True)
    long = [message for n in range(30) for message in (("user", f"Tell me {n}. " + "word " * 80), ("ai", "well " * 80))]
    graph = create_self_consistency_graph(model)
    result = graph.invoke({"messages": [*long, ("user", ASKED)]}, context=Context(window=4000))
    assert result["answer"] == "Paris"
    assert len(said) <= 1


# Building


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"samples": 0}, "samples"),
        ({"samples": True}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"quorum": 22}, "quorum"),
        ({"quorum": -1}, "quorum"),
        ({"require": ["lookup"]}, "require"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        create_self_consistency_graph(ScriptedModel(), **options)


def test_a_model_may_come_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Script().model()
    monkeypatch.setattr("taograph.graphs.loop.agent.resolve", lambda name: model)
    result = create_self_consistency_graph(None).invoke(question(ASKED), context=Context(model="openai:any"))
    assert_ended(result, "final", model)


def test_it_stands_among_the_strategies_and_takes_tools() -> None:
    assert STRATEGIES["self_consistency"] is create_self_consistency_graph
    model = Script().model()
    result = STRATEGIES["self_consistency"](model, [lookup]).invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert all(not request.tools for request in model.requests)


def test_as_a_node_of_another_graph() -> None:
    _, graph = voting()
    builder = StateGraph(MessagesState).add_node("vote", graph).add_edge(START, "vote").add_edge("vote", END)
    result = builder.compile().invoke(question(ASKED))
    assert_acceptable(result["messages"])
    assert result["messages"][-1].text == "Paris"
