"""Budgets hold across interrupts, resumes and restarts; waiting for a person costs nothing."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from support import (
    Counting,
    Way,
    asks,
    asks_a_person,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    both_ways,
    closes_or,
    lookup,
    pending,
    question,
    run,
    thread,
)

from taograph import Context, Limits, checkpoints, create_react_graph, tool
from taograph.models import FlatPrice, ScriptedModel, call, set_price
from taograph.tools.person import ask_person


class Page(BaseModel):
    """An answer of a person."""

    page: int


def answer_all(
    way: Way, make: Callable[[], Any], config: dict[str, Any], *, most: int = 20, wait: float = 0.0
) -> tuple[dict[str, Any], int]:
    """Ask, and answer every question of the run, each from a graph made anew by ``make``."""
    result = run(way, make(), question(), config)
    for answered in range(most):
        if not pending(result):
            return result, answered
        time.sleep(wait)
        result = run(way, make(), Command(resume=f"answer {answered + 1}"), config)
    raise AssertionError(f"still waiting after {most} answers")


@both_ways
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_steps_hold_across_interrupts(way: Way, steps: int) -> None:
    model = asks_a_person()
    graph = create_react_graph(model, [ask_person], limits=Limits(steps=steps), checkpointer=InMemorySaver())
    result, answered = answer_all(way, lambda: graph, thread())
    assert_ended(result, "step_limit", model)
    assert answered == steps
    assert result["spent"]["model_calls"] == steps + 1
    assert result["spent"]["tool_calls"] == steps
    assert [m.text for m in result["messages"] if m.type == "tool"] == [f"answer {n + 1}" for n in range(steps)]


@both_ways
def test_steps_hold_across_restarts(way: Way, tmp_path: Path) -> None:
    model = asks_a_person()
    url = f"sqlite:///{tmp_path}/threads.db"

    async def anew(given: Any) -> Any:
        if way == "invoke":
            with checkpoints.open(url) as saver:
                graph = create_react_graph(model, [ask_person], limits=Limits(steps=3), checkpointer=saver)
                return graph.invoke(given, thread())
        async with checkpoints.aopen(url) as saver:
            graph = create_react_graph(model, [ask_person], limits=Limits(steps=3), checkpointer=saver)
            return await graph.ainvoke(given, thread())

    result = asyncio.run(anew(question()))
    answered = 0
    while pending(result):
        answered += 1
        result = asyncio.run(anew(Command(resume=f"answer {answered}")))
    assert answered == 3
    assert_ended(result, "step_limit", model)
    assert result["spent"]["model_calls"] == 4
    model.replies = ["Fine."]
    result = asyncio.run(anew(question("Another?")))
    assert_ended(result, "final")
    assert result["spent"]["model_calls"] == 1
    assert_acceptable(model.requests[-1].messages)


@both_ways
@pytest.mark.parametrize(
    ("limits", "reason", "turns"),
    [
        (Limits(tool_calls=2), "tool_call_limit", 3),
        (Limits(tokens=450), "token_limit", 3),
        (Limits(cost=0.0101), "cost_limit", 4),
    ],
)
def test_every_budget_holds_across_interrupts(way: Way, limits: Limits, reason: str, turns: int) -> None:
    set_price("scripted-priced", FlatPrice(1.0, 10.0))
    model = asks_a_person()
    model.model_name = "scripted-priced"
    model.usage = (1000, 100) if reason == "cost_limit" else (90, 10)
    graph = create_react_graph(model, [ask_person], limits=limits, checkpointer=InMemorySaver())
    result, _ = answer_all(way, lambda: graph, thread())
    assert_ended(result, reason, model)
    assert result["stop"]["step"] == turns
    assert len(model.requests) == turns + 1
    assert result["spent"]["input_tokens"] == model.usage[0] * len(model.requests)


@both_ways
@pytest.mark.parametrize("again", [None, Context(), Context(steps=2), Context(steps=4)])
def test_limits_of_the_context_hold_where_the_resume_sets_none(way: Way, again: Any) -> None:
    model = asks_a_person()
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread(), context=Context(steps=2))
    for _ in range(9):
        if not pending(result):
            break
        result = run(way, graph, Command(resume="yes"), thread(), **({} if again is None else {"context": again}))
    assert_ended(result, "step_limit", model)
    assert result["stop"]["step"] == (4 if again is not None and again.steps == 4 else 2)
    result = run(way, graph, question("And now?"), thread(), context=Context(steps=1))
    assert pending(result)
    result = run(way, graph, Command(resume="yes"), thread())
    assert result["stop"]["step"] == 1


@both_ways
def test_a_new_question_is_not_held_to_the_last_ones_context(way: Way) -> None:
    model = asks_for_ever()
    graph = create_react_graph(model, [lookup], limits=Limits(steps=4), checkpointer=InMemorySaver())
    assert run(way, graph, question(), thread(), context=Context(steps=2))["stop"]["step"] == 2
    assert run(way, graph, question("And now?"), thread())["stop"]["step"] == 4


@both_ways
@pytest.mark.parametrize(
    ("limits", "reason"), [(Limits(tokens=250), "token_limit"), (Limits(cost=0.005), "cost_limit")]
)
def test_tries_at_a_form_are_paid_from_the_budget(way: Way, limits: Limits, reason: str) -> None:
    set_price("scripted-priced", FlatPrice(1.0, 10.0))

    def reply(messages: list[BaseMessage]) -> Any:
        told = str(messages[-1].content)
        asked = "required form" in told or "does not fit" in told
        return asks(call("Page", {"page": "three"})) if asked else "Page 3."

    model = ScriptedModel(replies=[reply], repeat=True, model_name="scripted-priced")
    model.usage = (90, 10) if reason == "token_limit" else (1000, 100)
    result = run(way, create_react_graph(model, [lookup], limits=limits, response_format=Page), question())
    assert_ended(result, reason, model)
    assert len(model.requests) == 2
    assert result["structured"] is None
    assert result["answer"] == "Page 3."
    assert "page" in result["stop"]["detail"]


@both_ways
def test_repetition_is_seen_across_interrupts(way: Way) -> None:
    model = ScriptedModel(replies=[closes_or(asks(call("ask_person", {"question": "Which?"})))], repeat=True)
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    while pending(result):
        result = run(way, graph, Command(resume="that one"), thread())
    assert_ended(result, "repeated_action", model)
    assert result["stop"]["step"] == 3


@both_ways
def test_seconds_hold_across_interrupts(way: Way) -> None:
    @tool(effects="none", timeout=None)
    def ponder(question: str) -> str:
        """Ask, and ponder the answer for a while.

        Args:
            question: What to ask.
        """
        said = interrupt(question)
        time.sleep(0.25)
        return f"{said}, after all"

    turns = itertools.count(1)
    model = ScriptedModel(
        replies=[closes_or(lambda _: asks(call("ponder", {"question": f"Question {next(turns)}?"})))], repeat=True
    )
    graph = create_react_graph(
        model, [ponder], limits=Limits(seconds=0.6, reserve_seconds=10, steps=20), checkpointer=InMemorySaver()
    )
    result, answered = answer_all(way, lambda: graph, thread())
    assert_ended(result, "deadline")
    assert answered <= 3
    assert 0.6 <= result["spent"]["seconds"] < 5
    assert result["answer"] == "So far: …"


@both_ways
@pytest.mark.parametrize("fresh", [False, True])
def test_waiting_for_a_person_does_not_count(way: Way, fresh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = itertools.count(1)

    def reply(messages: list[BaseMessage]) -> Any:
        n = next(turns)
        return asks(call("ask_person", {"question": f"Question {n}?"})) if n <= 3 else "Thanks."

    model = ScriptedModel(replies=[reply], repeat=True)
    saver = InMemorySaver()

    def make() -> Any:
        if fresh:  # what another process would know: nothing
            monkeypatch.setattr("taograph.graphs.loop.clock.DEADLINES._turns", type(_turns())())
        return create_react_graph(model, [ask_person], limits=Limits(seconds=1.5), checkpointer=saver)

    graph = make()
    result, answered = answer_all(way, make if fresh else (lambda: graph), thread(), wait=0.6)
    assert answered == 3
    assert_ended(result, "final", model)
    assert result["spent"]["seconds"] < 1.5


def _turns() -> Any:
    from taograph.graphs.loop.clock import DEADLINES

    return DEADLINES._turns


@both_ways
def test_a_pause_before_the_tools_does_not_count(way: Way) -> None:
    """What Studio does: stop before a node, look, go on."""
    counting = Counting()
    model = ScriptedModel(replies=[asks(call("count")), "One."])
    graph = create_react_graph(model, [counting.tool], limits=Limits(seconds=1.5), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread(), interrupt_before=["act"])
    assert counting.calls == []
    time.sleep(1.6)
    result = run(way, graph, None, thread())
    assert_ended(result, "final", model)
    assert counting.calls == [""]
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["call number 1"]
    assert result["spent"]["seconds"] < 1.5


@both_ways
def test_a_new_question_has_a_new_budget(way: Way) -> None:
    model = asks_for_ever()
    model.usage = (10, 1)
    graph = create_react_graph(model, [lookup], limits=Limits(steps=3, tool_calls=9), checkpointer=InMemorySaver())
    ids = set()
    for n in range(1, 4):
        result = run(way, graph, question(f"Question {n}?"), thread())
        assert_ended(result, "step_limit")
        assert result["spent"]["model_calls"] == 4
        assert result["spent"]["tool_calls"] == 3
        assert result["spent"]["input_tokens"] == 40
        assert len(model.requests) == 4 * n
        assert result["spent"]["seconds"] < 5
        ids.add(graph.get_state(thread()).values["run"]["id"])
    assert len(ids) == 3
    for request in model.requests:
        assert_acceptable(request.messages)


@both_ways
def test_a_new_question_instead_of_an_answer_abandons_the_run(way: Way) -> None:
    model = asks_a_person()
    graph = create_react_graph(model, [ask_person], limits=Limits(steps=2), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    result = run(way, graph, Command(resume="answer 1"), thread())
    assert pending(result)
    model.replies = ["It is something else."]
    result = run(way, graph, question("Never mind. What else?"), thread())
    assert_ended(result, "final")
    assert result["spent"]["model_calls"] == 1
    assert result["stop"]["step"] == 1
    assert_acceptable(model.requests[-1].messages)
    assert model.requests[-1].messages[-1].text == "Never mind. What else?"


@both_ways
def test_parallel_calls_time_counts_once(way: Way) -> None:
    @tool(effects="none")
    def slow(n: int) -> str:
        """Take a while.

        Args:
            n: A number.
        """
        time.sleep(0.4)
        return str(n)

    model = ScriptedModel(replies=[asks(*(call("slow", {"n": n}) for n in range(5))), "Done."])
    result = run(way, create_react_graph(model, [slow]), question())
    assert_ended(result, "final", model)
    assert result["spent"]["tool_calls"] == 5
    assert 0.4 <= result["spent"]["seconds"] < 1.6


@both_ways
def test_calls_that_queue_count_one_after_the_other(way: Way) -> None:
    @tool(effects="none")
    def slow(n: int) -> str:
        """Take a while.

        Args:
            n: A number.
        """
        time.sleep(0.15)
        return str(n)

    model = ScriptedModel(replies=[asks(*(call("slow", {"n": n}) for n in range(4))), "Done."])
    result = run(way, create_react_graph(model, [slow]), question(), {"max_concurrency": 1})
    assert_ended(result, "final", model)
    assert result["spent"]["seconds"] >= 0.6


def test_the_loops_own_messages_are_no_turn_of_the_user() -> None:
    """A nudge, an objection or a hint does not start a new budget."""
    model = ScriptedModel(replies=[closes_or("Page 3.")], repeat=True)
    graph = create_react_graph(
        model, [lookup], limits=Limits(steps=15), verify=lambda a, t: "wrong", checkpointer=InMemorySaver()
    )
    result = graph.invoke(question(), thread())
    assert_ended(result, "final", model)
    assert result["stop"]["step"] == 3
    humans = [m for m in result["messages"] if isinstance(m, HumanMessage)]
    assert len(humans) == 3


def test_a_model_that_is_given_another_name_costs_what_that_one_does() -> None:
    """Its requests go to the model of that name from then on."""
    set_price("scripted-cheap", FlatPrice(1.0, 10.0))
    set_price("scripted-dear", FlatPrice(100.0, 1000.0))
    model = ScriptedModel(replies=["It is so."], repeat=True)
    model.usage = (1000, 100)
    graph = create_react_graph(model, [lookup])
    spent = {}
    for name in ("scripted-cheap", "scripted-dear", "scripted-cheap"):
        model.model_name = name
        spent[name] = graph.invoke(question())["spent"]["cost"]
    assert spent == {"scripted-cheap": pytest.approx(0.002), "scripted-dear": pytest.approx(0.2)}
