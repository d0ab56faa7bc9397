"""Every way a run can end, each reached through the compiled graph, sync and async."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    Counting,
    Way,
    asks,
    asks_for_ever,
    assert_ended,
    both_ways,
    broken,
    closes_or,
    is_closing,
    lookup,
    nudges,
    question,
    run,
    second_turn,
    texts,
    thread,
)

from taograph import Cancellation, Limits, create_react_graph, tool
from taograph.models import FlatPrice, ScriptedModel, call, set_price


@both_ways
def test_final(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada", text="Look first."), "On page 3."], usage=(100, 7))
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert result["answer"] == "On page 3."
    assert result["stop"]["step"] == 2
    assert result["spent"]["tool_calls"] == 1
    assert (result["spent"]["input_tokens"], result["spent"]["output_tokens"]) == (200, 14)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert "structured" not in result or result["structured"] is None
    second_turn(way, graph, model)


@both_ways
def test_step_limit(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=3), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "step_limit", model)
    assert result["stop"] == {"reason": "step_limit", "detail": "3 of 3 steps used", "step": 3}
    assert result["answer"] == "So far: …"
    assert result["spent"]["model_calls"] == 4
    assert result["spent"]["tool_calls"] == 3
    assert is_closing(model.requests[-1].messages)
    assert model.requests[-1].tools == []
    assert "3 of 3 steps used" in str(model.requests[-1].messages[-1].content)
    second_turn(way, graph, model)


@both_ways
def test_step_limit_where_the_closing_call_fails_too(way: Way) -> None:
    counting = Counting()
    model = ScriptedModel(
        replies=[
            asks(call("count", {"what": "a"})),
            asks(call("count", {"what": "b"}), text="One more time."),
            ValueError("no"),
        ]
    )
    graph = create_react_graph(model, [counting.tool], limits=Limits(steps=2), checkpointer=InMemorySaver())
    result = run(way, graph, question("How many?"), thread())
    assert_ended(result, "step_limit", model)
    assert "call number 1" in result["answer"]
    assert "call number 2" in result["answer"]
    assert "2 of 2 steps" in result["answer"]
    assert "One more time." in result["answer"]
    second_turn(way, graph, model)


@both_ways
@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_tool_call_limit(way: Way, parallel: int) -> None:
    model = asks_for_ever(parallel=parallel)
    graph = create_react_graph(model, [lookup], limits=Limits(tool_calls=3), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "tool_call_limit", model)
    assert "3 of 3 tool calls" in result["stop"]["detail"]
    assert result["spent"]["tool_calls"] == 3
    assert result["stop"]["step"] == -(-3 // parallel) + 1
    assert result["answer"] == "So far: …"
    second_turn(way, graph, model)


@both_ways
def test_deadline_between_turns(way: Way) -> None:
    @tool(effects="none")
    def slow(name: str) -> str:
        """Take a while.

        Args:
            name: Anything.
        """
        time.sleep(0.15)
        return f"slowly, {name}"

    model = asks_for_ever("slow")
    graph = create_react_graph(
        model, [slow], limits=Limits(seconds=0.4, reserve_seconds=5), checkpointer=InMemorySaver()
    )
    result = run(way, graph, question(), thread())
    assert_ended(result, "deadline", model)
    assert "0.4 seconds" in result["stop"]["detail"]
    assert result["answer"] == "So far: …"
    assert result["spent"]["seconds"] >= 0.4
    assert result["stop"]["step"] <= 3
    second_turn(way, graph, model)


@both_ways
@pytest.mark.parametrize("limit", [250, 399, 400, 1000, 5000])
def test_token_limit(way: Way, limit: int) -> None:
    model = asks_for_ever()
    model.usage = (90, 10)
    graph = create_react_graph(model, [lookup], limits=Limits(tokens=limit, steps=100), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "token_limit", model)
    spent = result["spent"]
    assert spent["input_tokens"] + spent["output_tokens"] == 100 * len(model.requests) <= limit
    assert f"of {limit} tokens" in result["stop"]["detail"]
    assert result["answer"] == "So far: …"
    second_turn(way, graph, model)


@both_ways
def test_token_limit_that_leaves_nothing_for_a_closing_call(way: Way) -> None:
    model = asks_for_ever(text="Let me see.")
    model.usage = (90, 10)
    graph = create_react_graph(model, [lookup], limits=Limits(tokens=150), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "token_limit", model)
    assert len(model.requests) == 1
    assert "is in the book" in result["answer"]
    assert "100 of 150 tokens" in result["answer"]
    second_turn(way, graph, model)


@both_ways
def test_tokens_are_counted_where_the_model_reports_none(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(tokens=600, steps=100))
    result = run(way, graph, question(), thread())
    assert_ended(result, "token_limit", model)
    assert 0 < result["spent"]["input_tokens"] <= 600


@both_ways
def test_cost_limit(way: Way) -> None:
    set_price("scripted-priced", FlatPrice(1.0, 10.0))  # dollars a million tokens
    model = asks_for_ever()
    model.model_name = "scripted-priced"
    model.usage = (1000, 100)
    graph = create_react_graph(model, [lookup], limits=Limits(cost=0.0101, steps=100), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "cost_limit", model)
    assert result["spent"]["cost"] == pytest.approx(0.002 * len(model.requests))
    assert result["spent"]["cost"] <= 0.0101
    assert len(model.requests) == 5
    assert "$0.0101" in result["stop"]["detail"]
    second_turn(way, graph, model)


@both_ways
def test_cost_limit_that_leaves_nothing_for_a_closing_call(way: Way) -> None:
    set_price("scripted-priced", FlatPrice(1.0, 10.0))
    model = asks_for_ever()
    model.model_name = "scripted-priced"
    model.usage = (1000, 100)
    graph = create_react_graph(model, [lookup], limits=Limits(cost=0.003), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "cost_limit", model)
    assert len(model.requests) == 1
    assert "is in the book" in result["answer"]
    second_turn(way, graph, model)


@both_ways
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("kind", ["raises", "unknown", "invalid"])
def test_tool_errors(way: Way, kind: str, same: bool) -> None:
    """Also where it is the same call that fails: that it fails says more than that it is repeated."""
    turn = 0

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        turn += 0 if same else 1
        wrong = {
            "raises": call("broken", {"name": f"n{turn}"}),
            "unknown": call("nonesuch", {"name": f"n{turn}"}),
            "invalid": call("lookup", {"nome": f"n{turn}"}),
        }
        return asks(wrong[kind])

    model = ScriptedModel(replies=[closes_or(reply)], repeat=True)
    graph = create_react_graph(model, [lookup, broken], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "tool_errors", model)
    assert result["stop"]["step"] == 3
    assert "3 turns in a row" in result["stop"]["detail"]
    assert result["spent"]["tool_calls"] == (3 if kind == "raises" else 0)
    assert "internal trouble" not in " ".join(texts(result["messages"]))
    second_turn(way, graph, model)


@both_ways
def test_tool_errors_are_in_a_row(way: Way) -> None:
    bad, good = call("broken", {"name": "x"}), call("lookup", {"name": "y"})
    replies: list[Any] = []
    for n in range(4):
        replies += [asks(call("broken", {"name": f"a{n}"})), asks(call("broken", {"name": f"b{n}"})), asks(bad, good)]
    model = ScriptedModel(replies=[*replies, "At last."])
    result = run(way, create_react_graph(model, [lookup, broken]), question())
    assert_ended(result, "final", model)


@both_ways
def test_empty_output(way: Way) -> None:
    model = ScriptedModel(replies=[closes_or("")], repeat=True)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "empty_output", model)
    assert result["stop"]["step"] == 3
    assert "3 times in a row" in result["stop"]["detail"]
    assert result["answer"] == "So far: …"
    assert len(nudges(model)) == 2, "each retry says what was wrong"
    second_turn(way, graph, model)


@both_ways
def test_empty_output_even_in_the_closing_call(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada"), ""], repeat=True)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question("Where is Ada?"), thread())
    assert_ended(result, "empty_output", model)
    assert "Ada is in the book on page 3." in result["answer"]
    second_turn(way, graph, model)


@both_ways
def test_malformed_output(way: Way) -> None:
    torn = AIMessage("", invalid_tool_calls=[{"name": "lookup", "args": '{"name": "A', "id": None, "error": None}])
    model = ScriptedModel(replies=[closes_or(torn)], repeat=True)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "malformed_output", model)
    assert result["stop"]["step"] == 3
    assert result["spent"]["tool_calls"] == 0
    second_turn(way, graph, model)


@both_ways
def test_malformed_output_cut_by_length(way: Way) -> None:
    cut = AIMessage("I would say that the", response_metadata={"finish_reason": "length"})
    model = ScriptedModel(replies=[cut], repeat=True)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "malformed_output", model)
    assert result["stop"]["step"] == 3
    assert "length limit" in result["stop"]["detail"]
    second_turn(way, graph, model)


@both_ways
@pytest.mark.parametrize("seen", [False, True])
def test_refusal(way: Way, seen: bool) -> None:
    no = AIMessage("", additional_kwargs={"refusal": "I can't help with that."})
    model = ScriptedModel(replies=[*[asks("Ada")] * seen, no, "I looked and refuse."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "refusal", model)
    assert "I can't help with that." in result["stop"]["detail"]
    assert result["stop"]["step"] == 1 + seen
    if seen:
        assert result["answer"] == "I looked and refuse."
    else:
        assert "I can't help with that." in result["answer"]
        assert len(model.requests) == 1, "with nothing observed it is not asked again"
    second_turn(way, graph, model)


@both_ways
def test_model_error(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada", text="I look her up."), ValueError("bad request sk-abcdef123456")])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "model_error", model)
    assert result["stop"]["step"] == 2
    assert "ValueError: bad request" in result["stop"]["detail"]
    assert "abcdef123456" not in str(result)
    assert "Ada is in the book on page 3." in result["answer"]
    assert len(model.requests) == 2, "an error that cannot pass is not retried, and a model that is down not asked"
    second_turn(way, graph, model)


@both_ways
def test_model_error_at_once(way: Way) -> None:
    model = ScriptedModel(replies=[ValueError("bad request")])
    result = run(way, create_react_graph(model, [lookup]), question("Where is Ada?"))
    assert_ended(result, "model_error", model)
    assert "Where is Ada?" in result["answer"]
    assert "bad request" in result["answer"]


@both_ways
def test_cancelled_during_a_model_call(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada", text="I look her up."), "Never said."], delay=0)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    with Cancellation() as cancel:

        def slow_from_now(messages: list[BaseMessage]) -> AIMessage:
            model.delay = 30
            threading.Timer(0.2, cancel.request, ["the user left"]).start()
            return asks("Ada", text="I look her up.")

        model.replies = [slow_from_now, "Never said."]
        began = time.monotonic()
        result = run(way, graph, question(), thread())
    assert time.monotonic() - began < 10
    assert_ended(result, "cancelled")
    assert result["stop"] == {"reason": "cancelled", "detail": "the user left", "step": 2}
    assert result["spent"]["model_calls"] == 2
    assert "Ada is in the book on page 3." in result["answer"]
    assert "the user left" in result["answer"]
    model.delay = 0
    model._next = 2
    second_turn(way, graph, model)


@both_ways
def test_cancelled_during_a_tool_call(way: Way) -> None:
    ran = threading.Event()

    @tool(effects="once")
    def send(name: str) -> str:
        """Send something.

        Args:
            name: To whom.
        """
        ran.set()
        time.sleep(5)
        return "sent"

    model = ScriptedModel(replies=[asks(call("send", {"name": "Ada"}), call("lookup", {"name": "Ada"})), "Never."])
    graph = create_react_graph(model, [lookup, send], checkpointer=InMemorySaver())
    with Cancellation() as cancel:
        threading.Thread(target=lambda: (ran.wait(10), time.sleep(0.2), cancel.request("Ctrl-C"))).start()
        began = time.monotonic()
        result = run(way, graph, question(), thread())
    assert time.monotonic() - began < 4
    assert_ended(result, "cancelled", model)
    assert result["stop"] == {"reason": "cancelled", "detail": "Ctrl-C", "step": 1}
    observed = {m.name: m for m in result["messages"] if m.type == "tool"}
    assert "unknown" in observed["send"].text
    assert observed["send"].status == "error"
    assert observed["lookup"].text == "Ada is in the book on page 3."
    assert "Ada is in the book on page 3." in result["answer"]
    second_turn(way, graph, model)


@both_ways
def test_cancelled_before_it_began(way: Way) -> None:
    model = ScriptedModel(replies=["Never said."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    with Cancellation() as cancel:
        cancel.request("not today")
        result = run(way, graph, question("Where is Ada?"), thread())
    assert_ended(result, "cancelled", model)
    assert result["stop"] == {"reason": "cancelled", "detail": "not today", "step": 0}
    assert model.requests == []
    assert "Where is Ada?" in result["answer"]
    second_turn(way, graph, model)


def test_a_run_after_a_cancelled_block_is_not_cancelled() -> None:
    with Cancellation() as cancel:
        cancel.request()
    model = ScriptedModel(replies=["Yes."])
    assert_ended(create_react_graph(model, []).invoke(question()), "final", model)


@both_ways
def test_answers_differ_from_run_to_run(way: Way) -> None:
    """An answer that the loop composes says something of the run at hand."""
    answers = set()
    for name in ("Ada", "Grace"):
        for error in (ValueError("one"), ValueError("two")):
            model = ScriptedModel(replies=[asks(name), error])
            answers.add(run(way, create_react_graph(model, [lookup]), question())["answer"])
    assert len(answers) == 4


@both_ways
def test_a_model_that_says_the_closing_instruction_again_has_not_answered(way: Way) -> None:
    model = ScriptedModel(
        replies=[asks(call("lookup", {"name": "Ohm"})), lambda messages: f"{str(messages[-1].content)[:60]}."]
    )
    result = run(way, create_react_graph(model, [lookup], limits=Limits(steps=1)), question())
    assert result["stop"]["reason"] == "step_limit"
    assert "The run ends here" not in result["answer"]
    assert "Ohm is in the book on page 3." in result["answer"]
