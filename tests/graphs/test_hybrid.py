"""The paper's hybrids: which way is tried first, what leads to the other, and what both cost."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from stream_support import Streams, kinds, of
from support import Way, asks, assert_acceptable, assert_ended, both_ways, lookup, question, run, texts
from vote_support import ASKED, IN_ORDER, Script, is_sample, looks_up, sampled, thinks

from taograph import Context
from taograph.graphs import STRATEGIES
from taograph.graphs.hybrid import create_hybrid_graph
from taograph.graphs.parts.chain_of_thought import THINK
from taograph.models import ScriptedModel, TextReAct

EACH = [str(number) for number in range(21)]


def hybrid(
    said: Any = ("Paris",), loop: Any = (), *, usage: tuple[int, int] | None = None, **options: Any
) -> tuple[ScriptedModel, Any]:
    """Samples that say this, and a loop that never answers unless it is told to."""
    model = Script(said, loop).model(usage=usage)
    return model, create_hybrid_graph(model, [lookup], **options)


def cost(result: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Of each sub-run: its name, why it ended, its steps and its calls of the model."""
    return [(c["name"], c["stop"]["reason"], c["stop"]["step"], c["spent"]["model_calls"]) for c in result["children"]]


# ReAct → CoT-SC


@both_ways
def test_a_loop_that_answers_is_all(way: Way) -> None:
    model, graph = hybrid(loop=[looks_up(1), "Paris, it says."])
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris, it says."
    assert result["branch"] == "react"
    assert result["votes"] is None
    assert cost(result) == [("react", "final", 2, 2)]
    assert sampled(model) == []
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "ai"]


@both_ways
def test_a_loop_without_an_answer_in_seven_steps_leads_to_a_vote(way: Way) -> None:
    model, graph = hybrid()
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert result["branch"] == "samples"
    assert result["votes"]["count"] == 11
    assert cost(result) == [("react", "step_limit", 7, 7), ("self_consistency", "final", 1, 11)]
    assert len(model.requests) == 18  # seven turns without a closing call, and eleven samples of twenty-one
    assert result["spent"]["model_calls"] == 18
    assert result["stop"] == {"reason": "final", "detail": "samples: 11 of 11 samples gave this answer", "step": 8}


def test_after_the_loop_a_weak_majority_is_the_answer() -> None:
    _, graph = hybrid(EACH, react_steps=2)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert result["votes"]["count"] == 1
    assert result["votes"]["drawn"] == 21


def test_the_loop_takes_as_many_steps_as_it_is_given() -> None:
    model, graph = hybrid(react_steps=5)
    result = graph.invoke(question(ASKED))
    assert cost(result)[0] == ("react", "step_limit", 5, 5)
    assert len(model.requests) == 5 + 11


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ([asks("same")] * 7, "repeated_action"),
        ([asks({"name": "none_such", "args": {"n": n}, "id": f"c{n}"}) for n in range(7)], "tool_errors"),
        ([AIMessage("")] * 7, "empty_output"),
        ([AIMessage("cut", response_metadata={"finish_reason": "length"})] * 7, "malformed_output"),
    ],
)
def test_whatever_keeps_the_loop_from_an_answer_leads_to_a_vote(loop: Any, reason: str) -> None:
    model, graph = hybrid(loop=loop)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["branch"] == "samples"
    assert cost(result)[0][1] == reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [(ValueError("bad key"), "model_error"), (AIMessage("", additional_kwargs={"refusal": "I will not."}), "refusal")],
)
def test_an_endpoint_that_is_down_and_a_refusal_lead_to_none(said: Any, reason: str) -> None:
    model, graph = hybrid(loop=[said])
    result = graph.invoke(question(ASKED))
    assert_ended(result, reason, model)
    assert result["branch"] == "react"
    assert sampled(model) == []


def test_samples_are_not_led_by_what_the_loop_did() -> None:
    model, graph = hybrid(react_steps=2, system_prompt="Be exact.")
    graph.invoke(question(ASKED))
    assert {tuple(texts(request.messages)) for request in sampled(model)} == {("Be exact.", f"{ASKED}\n\n{THINK}")}
    assert all(not request.tools for request in sampled(model))


def test_the_trajectory_has_both_and_says_why() -> None:
    _, graph = hybrid(react_steps=1)
    result = graph.invoke(question(ASKED))
    assert texts(result["messages"]) == [
        ASKED,
        "thought 1",
        "n1 is in the book on page 2.",
        "The work with tools ended without an answer (1 of 1 steps used). Independent tries vote on the question.",
        "Paris",
    ]
    assert result["messages"][-1].additional_kwargs["reasoning_content"].startswith("thought ")


# CoT-SC → ReAct


@both_ways
def test_a_majority_of_half_the_votes_is_all(way: Way) -> None:
    model, graph = hybrid(["Rome"] * 5 + ["Paris"], first="samples")
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris"
    assert result["branch"] == "samples"
    assert result["votes"]["count"] == 11
    assert cost(result) == [("self_consistency", "final", 2, 16)]


@both_ways
def test_a_majority_with_fewer_leads_to_the_loop(way: Way) -> None:
    model, graph = hybrid(EACH, [looks_up(1), "Paris, it says."], first="samples")
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["answer"] == "Paris, it says."
    assert result["branch"] == "react"
    assert cost(result) == [("self_consistency", "final", 2, 12), ("react", "final", 2, 2)]
    assert result["votes"]["count"] == 1
    assert result["votes"]["drawn"] == 12  # with nine left, no answer can have eleven
    assert texts(model.requests[-2].messages) == [ASKED]  # nor is the loop led by the vote


@pytest.mark.parametrize(("votes", "branch"), [(10, "react"), (11, "samples")])
def test_of_twenty_one_ten_votes_switch_and_eleven_do_not(votes: int, branch: str) -> None:
    said = ["Paris"] * votes + EACH[: 21 - votes]
    _, graph = hybrid(said, ["Paris, it says."], first="samples")
    result = graph.invoke(question(ASKED), IN_ORDER)
    assert result["branch"] == branch
    assert result["votes"]["count"] == votes


@pytest.mark.parametrize(("votes", "branch"), [(1, "react"), (2, "samples")])
def test_of_four_two_votes_are_half(votes: int, branch: str) -> None:
    said = ["Paris"] * votes + EACH[: 4 - votes]
    _, graph = hybrid(said, ["Paris, it says."], first="samples", samples=4)
    assert graph.invoke(question(ASKED), IN_ORDER)["branch"] == branch


def test_where_neither_answers_the_run_says_what_it_found() -> None:
    model, graph = hybrid(EACH, first="samples", react_steps=2)
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit", model)
    assert result["branch"] == "react"
    assert result["answer"] == "So far: nothing."
    assert result["stop"]["detail"] == "react: 2 of 2 steps used"
    closing = model.requests[-1].messages
    assert "n1 is in the book on page 2." in texts(closing)
    assert len(model.requests) == 12 + 2 + 1


def test_where_every_sample_fails_the_loop_is_not_run_on_an_endpoint_that_is_down() -> None:
    model, graph = hybrid([ValueError("bad key")], first="samples")
    result = graph.invoke(question(ASKED))
    assert_ended(result, "model_error", model)
    assert len(model.requests) == 11


# Streams and building


def test_both_are_told_with_their_place(steps: Streams) -> None:
    _, graph = hybrid(react_steps=1)
    events = steps(graph, question(ASKED))
    assert [kind for kind in kinds(events) if kind != "child"] == ["run_started", "retry", "stop", "answer"]
    (retry,) = of(events, "retry")
    assert retry["reason"] == "branch"
    assert retry["step"] == 1
    inner = of(events, "child")
    assert list(dict.fromkeys(event["path"][0] for event in inner)) == ["react", "samples"]
    assert [e["event"]["votes"]["drawn"] for e in inner if e["event"]["type"] == "vote"] == [11]
    assert {e["path"][0] for e in inner if e["event"]["type"] == "thought_delta"} == {"react"}


def test_in_the_text_protocol() -> None:
    def reply(messages: list[BaseMessage]) -> str:
        if is_sample(messages):
            return thinks("Paris")
        return f'Thought: hm\nAction: lookup\nAction Input: {{"name": "n{len(messages)}"}}'

    model = ScriptedModel(replies=[reply], repeat=True)
    result = create_hybrid_graph(TextReAct(model), [lookup], react_steps=2).invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert len(model.requests) == 2 + 11


def test_worked_examples_are_the_loops_alone() -> None:
    shown = [("user", "b?"), AIMessage("page 1")]
    model, graph = hybrid(react_steps=1, examples=shown)
    graph.invoke(question(ASKED))
    assert texts(model.requests[0].messages)[:2] == ["b?", "page 1"]
    assert texts(sampled(model)[0].messages) == [f"{ASKED}\n\n{THINK}"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"first": "vote"}, "first"),
        ({"samples": 0}, "samples"),
        ({"temperature": -1}, "temperature"),
        ({"react_steps": 0}, "react_steps"),
        ({"react_steps": True}, "react_steps"),
        ({"require": ["search"]}, "require"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_part_that_cannot_be_used_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises((ValueError, TypeError), match=field):
        create_hybrid_graph(ScriptedModel(), [lookup], **options)


def test_an_approval_needs_a_checkpointer_before_a_model_is_paid() -> None:
    model, graph = hybrid(approve=["lookup"])
    with pytest.raises(ValueError, match="checkpointer"):
        graph.invoke(question(ASKED))
    assert model.requests == []


def test_a_model_may_come_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Script(loop=["Paris."]).model()
    monkeypatch.setattr("taograph.graphs.loop.agent.resolve", lambda name: model)
    result = create_hybrid_graph(None).invoke(question(ASKED), context=Context(model="openai:any"))
    assert_ended(result, "final", model)


def test_it_stands_among_the_strategies_and_in_other_graphs() -> None:
    assert STRATEGIES["hybrid"] is create_hybrid_graph
    _, graph = hybrid(react_steps=1)
    builder = StateGraph(MessagesState).add_node("answer", graph).add_edge(START, "answer").add_edge("answer", END)
    result = builder.compile().invoke(question(ASKED))
    assert_acceptable(result["messages"])
    assert result["messages"][-1].text == "Paris"
    drawn = graph.get_graph(xray=True).draw_mermaid()
    assert "vote" in drawn
    assert "reason" in drawn
