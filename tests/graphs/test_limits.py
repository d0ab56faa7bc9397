"""No limit, however small and however set, loses a run: an answer and a true reason always come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel
from support import (
    Way,
    asks,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    both_ways,
    closes_or,
    lookup,
    question,
    run,
    thread,
)

from taograph import Context, Limits, create_react_graph
from taograph.models import ScriptedModel, call

RECURSION_LIMITS = range(2, 61)
STEPS = range(1, 31)


class Place(BaseModel):
    """Where something is."""

    page: int


def endless_mixed() -> ScriptedModel:
    """Never finishes, and every third reply cannot be used: empty, cut off, or with broken arguments."""
    turn = 0
    torn = [{"name": "lookup", "args": '{"name": "A', "id": None, "error": None}]

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        turn += 1
        if turn % 3:
            return asks(f"n{turn}")
        kinds = [
            AIMessage(""),
            AIMessage("", invalid_tool_calls=torn),
            AIMessage("It is", response_metadata={"finish_reason": "length"}),
        ]
        return kinds[turn // 3 % 3]

    return ScriptedModel(replies=[closes_or(reply)], repeat=True)


def endless_answers() -> ScriptedModel:
    """Answers every time, which ``require`` and ``verify`` do not let pass."""
    return ScriptedModel(replies=[closes_or("It is on page 3.")], repeat=True)


def endless_structured() -> ScriptedModel:
    """Never finishes, and gives the form when it is asked for it."""
    turn = 0

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        turn += 1
        if "required form" in str(messages[-1].content):
            return asks(call("Place", {"page": 3}))
        return asks(f"n{turn}")

    return ScriptedModel(replies=[reply], repeat=True)


# Both ways run the same core, which reckons; asynchronously, the shortest and the longest of them are looked at.
def in_one_way_or_both(numbers: range) -> Any:
    both = {*numbers[:10], *numbers[-2:]}
    return [(way, number) for way in ("invoke", "ainvoke") for number in numbers if way == "invoke" or number in both]


@pytest.mark.parametrize(("way", "limit"), in_one_way_or_both(RECURSION_LIMITS))
def test_every_recursion_limit(way: Way, limit: int) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=None))
    result = run(way, graph, question(), {"recursion_limit": limit})
    assert_ended(result, "step_limit", model)
    assert f"recursion_limit={limit}" in result["stop"]["detail"]
    assert result["answer"] == "So far: …"
    assert result["spent"]["model_calls"] == result["stop"]["step"] + 1
    # A step takes two supersteps; at most two are kept for the end.
    assert result["stop"]["step"] == max(1, limit // 2)


@pytest.mark.parametrize(("way", "steps"), in_one_way_or_both(STEPS))
def test_every_number_of_steps(way: Way, steps: int) -> None:
    model = asks_for_ever()
    result = run(way, create_react_graph(model, [lookup], limits=Limits(steps=steps)), question())
    assert_ended(result, "step_limit", model)
    assert result["stop"] == {"reason": "step_limit", "detail": f"{steps} of {steps} steps used", "step": steps}
    assert result["spent"]["model_calls"] == steps + 1
    assert result["spent"]["tool_calls"] == steps


KINDS: dict[str, tuple[Callable[[], ScriptedModel], dict[str, Any]]] = {
    "plain": (asks_for_ever, {}),
    "parallel": (lambda: asks_for_ever(parallel=3), {}),
    "malformed": (endless_mixed, {}),
    "response_format": (endless_structured, {"response_format": Place}),
    "require": (asks_for_ever, {"require": ["lookup"]}),
    "checkpointer": (asks_for_ever, {"checkpointer": True}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 30])
def test_both_limits(kind: str, steps: int) -> None:
    make, options = KINDS[kind]
    for limit in (2, 3, 4, 5, 6, 7, 14, 15, 60, 61, 62, 63, 64):
        model = make()
        options = {**options, **({"checkpointer": InMemorySaver()} if "checkpointer" in options else {})}
        graph = create_react_graph(model, [lookup], limits=Limits(steps=steps), **options)
        result = graph.invoke(question(), thread(recursion_limit=limit))
        if kind == "malformed" and result["stop"]["reason"] != "step_limit":
            # The last reply that was allowed could not be used: that, too, is a true reason.
            assert_ended(result, result["stop"]["reason"], model)
            assert result["stop"]["reason"] in ("empty_output", "malformed_output")
        else:
            assert_ended(result, "step_limit", model)
        assert 1 <= result["stop"]["step"] <= steps
        assert result["spent"]["model_calls"] <= steps + 1
        if kind == "response_format":
            assert result["structured"] == {"page": 3}


@pytest.mark.parametrize("limit", [*range(2, 20), 60])
def test_answers_that_are_never_accepted(limit: int) -> None:
    """``require`` and ``verify`` send the loop on a bounded number of times, and never over a limit."""
    for steps in (1, 2, 3, 4, 5, 15):
        model = endless_answers()
        graph = create_react_graph(
            model,
            [lookup],
            limits=Limits(steps=steps),
            require=["lookup"],
            verify=lambda answer, trajectory: "there is no page 3",
        )
        result = graph.invoke(question(), {"recursion_limit": limit})
        assert_ended(result, "final", model)
        assert result["answer"] == "It is on page 3."
        assert "lookup was required" in result["stop"]["detail"]
        assert "no page 3" in result["stop"]["detail"]
        assert result["stop"]["step"] == min(steps, 4, limit - 1)


@both_ways
def test_recursion_limit_of_one_is_refused_before_the_model_is_paid(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="recursion_limit") as refused:
        run(way, graph, question(), thread(recursion_limit=1))
    assert "2" in str(refused.value)
    assert model.requests == []
    model.replies = ["It is."]
    result = run(way, graph, question(), thread())
    assert_ended(result, "final")


@both_ways
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_an_answer_on_the_last_allowed_step_is_final(way: Way, steps: int) -> None:
    model = ScriptedModel(replies=[*[asks(f"n{i}") for i in range(steps - 1)], "Here it is."])
    result = run(way, create_react_graph(model, [lookup], limits=Limits(steps=steps)), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Here it is."
    assert result["stop"]["step"] == steps


@both_ways
@pytest.mark.parametrize("acts", [0, 1, 2, 5])
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_an_answer_on_the_last_superstep_is_final(way: Way, acts: int, spare: int) -> None:
    model = ScriptedModel(replies=[*[asks(f"n{i}") for i in range(acts)], "Here it is."])
    result = run(way, create_react_graph(model, [lookup]), question(), {"recursion_limit": 2 * acts + 2 + spare})
    assert_ended(result, "final", model)
    assert result["answer"] == "Here it is."


def test_an_answer_in_a_form_on_the_last_step_is_final() -> None:
    for limit in (2, 3, 4):
        model = ScriptedModel(replies=["Page 3.", asks(call("Place", {"page": 3}))])
        graph = create_react_graph(model, [lookup], limits=Limits(steps=1), response_format=Place)
        result = graph.invoke(question(), {"recursion_limit": limit})
        assert_ended(result, "final", model)
        assert result["answer"] == "Page 3."
        assert result["structured"] == {"page": 3}


@both_ways
@pytest.mark.parametrize(("replies", "calls"), [([asks("a"), asks("b")], 2), ([asks("a", "b", "c")], 3)])
def test_an_answer_after_exactly_the_allowed_tool_calls_is_final(way: Way, replies: list[Any], calls: int) -> None:
    model = ScriptedModel(replies=[*replies, "Found."])
    result = run(way, create_react_graph(model, [lookup], limits=Limits(tool_calls=calls)), question())
    assert_ended(result, "final", model)
    assert result["spent"]["tool_calls"] == calls


@both_ways
def test_no_tool_calls_allowed(way: Way) -> None:
    model = asks_for_ever()
    result = run(way, create_react_graph(model, [lookup], limits=Limits(tool_calls=0)), question())
    assert_ended(result, "tool_call_limit", model)
    assert result["spent"]["tool_calls"] == 0
    assert result["stop"]["step"] == 1


@both_ways
def test_of_parallel_calls_over_the_limit_the_first_are_run(way: Way) -> None:
    model = ScriptedModel(replies=[asks("a", "b", "c"), "Two pages."])
    result = run(way, create_react_graph(model, [lookup], limits=Limits(tool_calls=2)), question())
    assert_ended(result, "final", model)
    observed = [m for m in result["messages"] if m.type == "tool"]
    assert [m.status for m in observed] == ["success", "success", "error"]
    assert "only 2 tool calls" in observed[2].text


@pytest.mark.parametrize(
    ("field", "value", "fix"),
    [
        ("steps", 0, "1 or more"),
        ("steps", -1, "None for no limit"),
        ("steps", 2.5, "whole number"),
        ("steps", "3", "whole number"),
        ("steps", True, "whole number"),
        ("tool_calls", -1, "0 or more"),
        ("seconds", 0, "above 0"),
        ("seconds", -3, "above 0"),
        ("seconds", float("nan"), "a number"),
        ("seconds", float("inf"), "None for no limit"),
        ("seconds", "5", "a number"),
        ("tokens", 0, "1 or more"),
        ("cost", 0, "above 0"),
        ("cost", -0.5, "above 0"),
        ("repeats", 1, "2 or more"),
        ("repeats", None, "whole number"),
        ("errors", 0, "1 or more"),
        ("malformed", -1, "0 or more"),
        ("model_retries", -1, "0 or more"),
        ("model_retries", None, "whole number"),
        ("reserve_seconds", -1, "not below 0"),
        ("reserve_seconds", None, "a number"),
    ],
)
def test_a_wrong_limit_is_named_with_its_fix(field: str, value: Any, fix: str) -> None:
    with pytest.raises(ValueError, match=f"limits.{field}=") as refused:
        Limits(**{field: value})
    assert fix in str(refused.value)
    assert repr(value) in str(refused.value)


def test_limits_are_frozen_values() -> None:
    assert Limits(steps=3) == Limits(steps=3)
    assert Limits(seconds=None, steps=None).steps is None
    with pytest.raises(AttributeError):
        Limits().steps = 5  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"taograph\.Limits"):
        create_react_graph(asks_for_ever(), [lookup], limits={"steps": 3})  # type: ignore[arg-type]


@dataclass
class Mine:
    """A context of the caller's own."""

    user: str = "u1"
    steps: int | None = None


@both_ways
@pytest.mark.parametrize(
    ("schema", "context", "steps"),
    [
        (Context, None, 4),
        (Context, Context(), 4),
        (Context, Context(steps=2), 2),
        (Context, Context(steps=6), 6),
        (Context, {"steps": 2}, 2),
        (Mine, Mine(steps=3), 3),
        (Mine, Mine(), 4),
        (Mine, {"user": "u2", "steps": 3}, 3),
        (dict, {"steps": 3, "colour": "red"}, 3),
    ],
)
def test_the_context_sets_limits(way: Way, schema: Any, context: Any, steps: int) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=4), context_schema=schema)
    result = run(way, graph, question(), **({} if context is None else {"context": context}))
    assert_ended(result, "step_limit", model)
    assert result["stop"]["step"] == steps


@both_ways
def test_the_context_can_allow_many_steps(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=2))
    result = run(way, graph, question(), context=Context(steps=90))
    assert_ended(result, "step_limit", model)
    assert result["stop"]["step"] == 90


@both_ways
def test_more_steps_than_the_recursion_limit_holds_end_well(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=2))
    result = run(way, graph, question(), context=Context(steps=500))
    assert_ended(result, "step_limit", model)
    assert "recursion_limit=" in result["stop"]["detail"]


@both_ways
@pytest.mark.parametrize(("field", "value"), [("steps", 0), ("seconds", -1.0), ("tokens", 0), ("tool_calls", -2)])
def test_a_wrong_limit_in_the_context_is_named_before_the_model_is_paid(way: Way, field: str, value: Any) -> None:
    model = asks_for_ever()
    with pytest.raises(ValueError, match=f"limits.{field}="):
        run(way, create_react_graph(model, [lookup]), question(), context=Context(**{field: value}))
    assert model.requests == []


@both_ways
def test_a_cost_limit_without_a_price_is_refused_before_the_model_is_paid(way: Way) -> None:
    model = asks_for_ever()
    model.model_name = "nobody-knows-it"
    with pytest.raises(ValueError, match="price"):
        create_react_graph(model, [lookup], limits=Limits(cost=1.0))
    graph = create_react_graph(model, [lookup])
    with pytest.raises(ValueError, match="price of 'nobody-knows-it'"):
        run(way, graph, question(), context=Context(cost=1.0))
    assert model.requests == []


@both_ways
def test_the_context_sets_the_system_prompt(way: Way) -> None:
    model = ScriptedModel(replies=["Yes.", "Yes."])
    graph = create_react_graph(model, [lookup], system_prompt="Be brief.")
    run(way, graph, question())
    run(way, graph, question(), context=Context(system_prompt="Be long."))
    assert [r.messages[0].text for r in model.requests] == ["Be brief.", "Be long."]
    for request in model.requests:
        assert_acceptable(request.messages)


@pytest.mark.parametrize("many", ["batch", "abatch", "pipe", "lambda", "apipe"])
def test_langchains_default_recursion_limit_does_not_override_the_graphs_own(many: str) -> None:
    """langchain-core writes 25 into every config that it passes on, which would be eleven steps."""
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=20))
    pipe = RunnableLambda(question) | graph
    if many == "batch":
        results = graph.batch([question("a"), question("b")], {"max_concurrency": 2})
    elif many == "abatch":
        results = asyncio.run(graph.abatch([question("a"), question("b")]))
    elif many == "pipe":
        results = [pipe.invoke("a"), *pipe.batch(["b", "c"])]
    elif many == "apipe":
        results = [asyncio.run(pipe.ainvoke("a"))]
    else:
        results = [RunnableLambda(lambda x, config: {"result": graph.invoke(x, config)}).invoke(question())["result"]]
    for result in results:
        assert_ended(result, "step_limit")
        assert result["stop"]["detail"] == "20 of 20 steps used"


def test_twenty_five_holds_where_the_caller_wrote_it() -> None:
    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=20))
    result = graph.invoke(question(), {"recursion_limit": 25})
    assert_ended(result, "step_limit")
    assert "recursion_limit=25" in result["stop"]["detail"]


def test_without_a_limit_of_steps_a_batch_keeps_langchains_default() -> None:
    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=None))
    for result in graph.batch([question("a"), question("b")]):
        assert_ended(result, "step_limit")
        assert "recursion_limit=25" in result["stop"]["detail"]


def test_a_recursion_limit_of_the_caller_holds_in_a_batch() -> None:
    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=20))
    for result in graph.batch([question("a"), question("b")], {"recursion_limit": 9}):
        assert_ended(result, "step_limit")
        assert "recursion_limit=9" in result["stop"]["detail"]


@both_ways
@pytest.mark.parametrize("seconds", [1e-6, 1e12])
@pytest.mark.parametrize("reserve", [0, 5, 1e12])
def test_the_shortest_and_the_longest_time(way: Way, seconds: float, reserve: float) -> None:
    model = ScriptedModel(replies=[closes_or(asks("Ada")), "Page 3."])
    graph = create_react_graph(model, [lookup], limits=Limits(seconds=seconds, reserve_seconds=reserve))
    result = run(way, graph, question("Where is Ada?"))
    if seconds > 1:
        assert_ended(result, "final", model)
        return
    assert_ended(result, "deadline", model)
    assert result["stop"]["step"] == 0
    assert len(model.requests) == (1 if reserve else 0)
    assert ("So far: …" if reserve else "Where is Ada?") in result["answer"]


@both_ways
def test_an_input_without_a_question_is_refused_before_the_model_is_paid(way: Way) -> None:
    model = ScriptedModel(replies=["Yes."])
    graph = create_react_graph(model, [lookup])
    for messages in ([], [AIMessage("Hello.")], [HumanMessage("")], [HumanMessage("  ")]):
        with pytest.raises(ValueError, match="messages: "):
            run(way, graph, {"messages": messages})
    assert model.requests == []
