"""The paper's hybrids: which way is tried first, what leads to the other, and what both cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from stream_support import Streams, kinds, of
from support import Way, asks, assert_acceptable, assert_ended, both_ways, lookup, pending, question, run, texts, thread
from vote_support import ASKED, IN_ORDER, Script, is_sample, looks_up, objecting, sampled, thinks

from taograph import Cancellation, Context, Limits, checkpoints
from taograph.graphs import STRATEGIES
from taograph.graphs.hybrid import create_hybrid_graph
from taograph.graphs.parts.chain_of_thought import THINK
from taograph.models import ScriptedModel, TextReAct
from taograph.models.prices import FlatPrice, set_price

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


# Limits are shared


@both_ways
@pytest.mark.parametrize("first", ["react", "samples"])
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=2), "step_limit"),
        (Limits(tokens=100), "token_limit"),
        (Limits(cost=0.1), "cost_limit"),
    ],
)
def test_a_limit_of_the_run_ends_the_run(way: Way, first: Any, limits: Limits, reason: str) -> None:
    set_price("priced-hybrid", FlatPrice(input=1000.0, output=1000.0))
    model = Script(EACH).model(usage=(10, 10), model_name="priced-hybrid")
    result = run(way, create_hybrid_graph(model, [lookup], limits=limits, first=first), question(ASKED))
    assert_ended(result, reason, model)
    assert result["children"][0]["shared"] or reason == "step_limit"
    assert len(result["children"]) == 1
    assert result["branch"] == first
    assert result["spent"]["model_calls"] == len(model.requests)


def test_no_tool_call_left_ends_the_run() -> None:
    model, graph = hybrid(limits=Limits(tool_calls=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "tool_call_limit", model)
    assert sampled(model) == []
    assert result["spent"]["tool_calls"] == 1


def test_at_the_deadline_nothing_is_sampled() -> None:
    import time

    def slow(messages: list[BaseMessage]) -> AIMessage:
        time.sleep(0.3)
        return looks_up(len(messages))

    model, graph = hybrid(loop=[slow] * 9, limits=Limits(seconds=0.5, reserve_seconds=5.0))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "deadline")
    assert sampled(model) == []
    assert result["branch"] == "react"


def test_steps_that_the_loop_used_up_leave_none_for_a_vote() -> None:
    model, graph = hybrid(limits=Limits(steps=7))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit", model)
    assert sampled(model) == []
    _, graph = hybrid(loop=[*[looks_up(n) for n in range(6)], "Paris, it says."], limits=Limits(steps=7))
    assert graph.invoke(question(ASKED))["stop"]["reason"] == "final"  # what answers in the last step has answered


def test_what_samples_say_when_a_limit_ends_them_is_the_answer() -> None:
    _, graph = hybrid(["Rome"] * 5 + ["Paris"], first="samples", limits=Limits(steps=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit")
    assert result["answer"] == "Paris"
    assert result["branch"] == "samples"


@both_ways
@pytest.mark.parametrize("first", ["react", "samples"])
@pytest.mark.parametrize("limit", range(2, 13))
def test_no_recursion_limit_raises(way: Way, first: Any, limit: int) -> None:
    model, graph = hybrid(EACH, first=first, react_steps=2)
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert_ended(result, result["stop"]["reason"], model)
    assert result["stop"]["reason"] in ("final", "step_limit")
    assert result["branch"] in ("react", "samples")


def test_a_cancelled_run_says_so() -> None:
    cancel = Cancellation()

    def stops(messages: list[BaseMessage]) -> AIMessage:
        cancel.request("enough")
        return looks_up(1)

    model, graph = hybrid(loop=[stops])
    with cancel:
        result = graph.invoke(question(ASKED))
    assert_ended(result, "cancelled")
    assert "enough" in result["stop"]["detail"]
    assert len(model.requests) == 1
    assert result["branch"] == "react"


# Checks


@both_ways
def test_an_objection_to_a_vote_leads_to_the_loop(way: Way) -> None:
    check = objecting("Look it up.")
    model, graph = hybrid(loop=[looks_up(1), "Paris, it says."], first="samples", verify=check)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["branch"] == "react"
    assert result["answer"] == "Paris, it says."
    assert check.seen == ["Paris", "Paris, it says."]  # type: ignore[attr-defined]


def test_a_tool_that_is_required_leads_from_the_vote_to_the_loop() -> None:
    model, graph = hybrid(loop=["No need.", looks_up(1), "Paris, it says."], first="samples", require=["lookup"])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["branch"] == "react"
    assert result["children"][1]["called"] == ["lookup"]
    assert result["answer"] == "Paris, it says."


def test_an_objection_to_the_last_answer_stands_in_the_result() -> None:
    _, graph = hybrid(react_steps=1, verify=objecting("No.", "No.", "No."))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert "verify still objects: No." in result["stop"]["detail"]


@both_ways
def test_the_answer_in_a_form(way: Way) -> None:
    form = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    script = Script(loop=[looks_up(1)])

    def reply(messages: list[BaseMessage]) -> Any:
        return '{"city": "Paris"}' if "required form" in messages[-1].text else script(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_hybrid_graph(model, [lookup], react_steps=1, response_format=form)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["structured"] == {"city": "Paris"}
    assert result["answer"] == "Paris"


# Threads


def test_a_person_approves_within_the_loop(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(loop=[looks_up(1)], react_steps=1, approve=["lookup"], checkpointer=saver)
        (asked,) = pending(graph.invoke(question(ASKED), thread()))
        assert len(model.requests) == 1
        model, graph = hybrid(loop=[], react_steps=1, approve=["lookup"], checkpointer=saver)  # another process
        result = graph.invoke(Command(resume={asked.id: "approve"}), thread())
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert len(model.requests) == 11
    assert result["spent"]["tool_calls"] == 1
    assert result["spent"]["model_calls"] == 12


def test_where_a_person_ends_it_nothing_is_sampled(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(loop=[looks_up(1)], approve=["lookup"], checkpointer=saver)
        (asked,) = pending(graph.invoke(question(ASKED), thread()))
        decision = {"decision": "reject", "reason": "no", "stop": True}
        result = graph.invoke(Command(resume={asked.id: decision}), thread())
    assert_ended(result, "rejected")
    assert sampled(model) == []


@pytest.mark.parametrize("first", ["react", "samples"])
def test_a_run_that_a_limit_ended_goes_on_where_it_was(first: Any, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(
            ["Rome"] * 5 + ["Paris"], [looks_up(1)], first=first, limits=Limits(steps=1), checkpointer=saver
        )
        ended = graph.invoke(question(ASKED), thread())
        assert ended["stop"]["reason"] == "step_limit"
        before = len(model.requests)
        with pytest.raises(ValueError, match="the limit is the same"):
            graph.invoke({"messages": []}, thread())
        result = graph.invoke({"messages": []}, thread(), context=Context(steps=20))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert not any("The run ends here" in text for text in texts(result["messages"]))
    if first == "react":
        asked = model.requests[before].messages  # the loop sees what it did
        assert texts(asked)[:3] == [ASKED, "thought 1", "n1 is in the book on page 2."]


@both_ways
def test_another_question_on_the_thread(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        script = Script(loop=[looks_up(1)])
        graph = create_hybrid_graph(script.model(), [lookup], react_steps=1, checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        script.loop = [looks_up(1), "Rome."]
        result = graph.invoke(question("And of Italy?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "Rome."
    assert result["branch"] == "react"
    assert result["votes"] is None
    assert cost(result) == [("react", "final", 1, 1)]


def test_after_a_crash_in_the_vote_the_loop_is_not_run_again(tmp_path: Path) -> None:
    class Crash(BaseException):
        pass

    model = Script(["Paris", Crash(), "Paris"]).model()
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        graph = create_hybrid_graph(model, [lookup], react_steps=2, samples=5, checkpointer=saver)
        with pytest.raises(Crash):
            graph.invoke(question(ASKED), {**thread(), **IN_ORDER})
        assert len(model.requests) == 2 + 3
        result = graph.invoke(None, {**thread(), **IN_ORDER})
    assert_ended(result, "final")
    assert len(model.requests) == 2 + 3 + 1
    assert result["votes"]["of"] == 3
    assert cost(result)[0] == ("react", "step_limit", 2, 2)


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
