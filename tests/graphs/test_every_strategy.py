"""Every strategy has the same call, the same result, and the same manners."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, get_args

import pytest
from every_support import ANSWER, ASKED, NAMES, TOOLLESS, WITH_TOOLS, Actor, Page, made
from fake_openai_server import FakeOpenAI
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from support import CLOSING, Way, assert_acceptable, both_ways, question, run

from taograph import Context, Limits, tool
from taograph.graphs import STRATEGIES
from taograph.graphs.loop import session
from taograph.graphs.loop.state import NOTHING
from taograph.graphs.loop.stopping import StopReason
from taograph.models import FlatPrice, call, set_price

every = pytest.mark.parametrize("name", STRATEGIES)
with_tools = pytest.mark.parametrize("name", WITH_TOOLS)
PRICE = FlatPrice(100.0, 1000.0)
TURN = 15  # tokens of a call of the model
DOLLARS = 10 * 1e-4 + 5 * 1e-3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.0)
    set_price("actor", PRICE)


class Tools(list[BaseTool]):
    """``lookup``, and ``broken`` that always fails; ``ran`` has what they were called with."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool(effects="none")
        def lookup(name: str) -> str:
            """Look a name up.

            Args:
                name: What to look up.
            """
            self.ran.append(name)
            return f"{name} is on page 3."

        @tool(effects="none")
        def broken(name: str) -> str:
            """Fail.

            Args:
                name: Anything.
            """
            self.ran.append(name)
            raise RuntimeError("internal trouble")

        super().__init__([lookup, broken])


def check(result: dict[str, Any], model: Actor | None = None, tools: Tools | None = None) -> None:
    """What every run owes, whatever the strategy and whatever it met."""
    stop, spent = result["stop"], result["spent"]
    assert set(stop) == {"reason", "detail", "step"}
    assert stop["reason"] in get_args(StopReason)
    assert stop["detail"].strip()
    assert isinstance(stop["step"], int)
    assert isinstance(result["answer"], str)
    assert result["answer"].strip()
    assert {key: type(value) for key, value in spent.items()} == {key: type(value) for key, value in NOTHING.items()}
    assert all(type(message) in (HumanMessage, AIMessage, ToolMessage) for message in result["messages"])
    assert_acceptable(result["messages"])
    assert isinstance(result["messages"][-1], AIMessage)
    for key in ("model_calls", "tool_calls", "input_tokens", "output_tokens", "cost"):
        parts = sum(child["spent"][key] for child in result.get("children", ()))
        assert parts <= spent[key] + 1e-9, (key, result["children"])
    if model is not None:
        assert spent["model_calls"] == len(model.requests)
        for request in model.requests:
            assert_acceptable(request.messages)
    if tools is not None:
        assert spent["tool_calls"] == len(tools.ran)


def answered(name: str, result: dict[str, Any], model: Actor, tools: Tools) -> None:
    """The task was carried out: both names, and the answer."""
    check(result, model, tools)
    assert result["stop"]["reason"] == "final"
    assert result["answer"] == ANSWER
    assert sorted(tools.ran) == ([] if name in TOOLLESS else sorted(NAMES))
    spent, asked = result["spent"], len(model.requests)
    assert (spent["input_tokens"], spent["output_tokens"]) == (10 * asked, 5 * asked)
    assert spent["cost"] == pytest.approx(asked * DOLLARS)


# The call and the result


@both_ways
@every
@pytest.mark.parametrize("protocol", ["native", "text"])
def test_the_same_call_and_the_same_result(way: Way, name: str, protocol: str) -> None:
    model, tools = Actor(), Tools()
    graph = made(name, model, tools, protocol=protocol)
    assert graph.name == name
    result = run(way, graph, question(ASKED))
    answered(name, result, model, tools)
    assert isinstance(result["messages"][0], HumanMessage)
    assert [m.text for m in result["messages"]].count(ASKED) == 1
    if protocol == "text":
        assert not any(request.tools for request in model.requests)


async def _streamed(graph: Any) -> list[dict[str, Any]]:
    return [each async for each in graph.astream(question(ASKED), stream_mode="values")]


RUNS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "stream": lambda graph: list(graph.stream(question(ASKED), stream_mode="values"))[-1:],
    "astream": lambda graph: asyncio.run(_streamed(graph))[-1:],
    "batch": lambda graph: graph.batch([question(ASKED)] * 2),
    "abatch": lambda graph: asyncio.run(graph.abatch([question(ASKED)] * 2)),
}


@every
@pytest.mark.parametrize("how", RUNS)
def test_streams_and_batches(name: str, how: str) -> None:
    model, tools = Actor(), Tools()
    results = RUNS[how](made(name, model, tools))
    for result in results:
        check(result)
        assert (result["answer"], result["stop"]["reason"]) == (ANSWER, "final")
    assert sum(result["spent"]["model_calls"] for result in results) == len(model.requests)
    assert len(tools.ran) == (0 if name in TOOLLESS else 2 * len(results))


@both_ways
@every
def test_in_a_pipe_and_as_a_node_of_a_graph_of_others(way: Way, name: str) -> None:
    graph = made(name, Actor(), Tools())
    pipe = RunnableLambda(question) | graph | (lambda result: result["answer"].upper())
    assert run(way, pipe, ASKED) == ANSWER.upper()
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", graph)
        .add_node("after", lambda state: {"messages": [("user", "Thanks.")]})
        .add_edge(START, "agent")
        .add_edge("agent", "after")
        .add_edge("after", END)
        .compile()
    )
    messages = run(way, outer, question(ASKED))["messages"]
    assert_acceptable(messages)
    assert [m.text for m in messages][-2:] == [ANSWER, "Thanks."]


@every
def test_the_model_comes_with_the_run(name: str) -> None:
    graph = STRATEGIES[name](None, None)
    graph.get_graph(xray=True).draw_mermaid()
    with FakeOpenAI(default=f"Thought: I know.\nFinal Answer: {ANSWER}") as server:
        result = graph.invoke(question(ASKED), context=Context(model=f"{server.url}#fake"))
        check(result)
        assert result["spent"]["model_calls"] == len(server.requests) > 0


@every
def test_without_tools(name: str) -> None:
    model = Actor(says={"plan": ""} if name in ("rewoo", "dag") else {})
    result = made(name, model).invoke(question(ASKED))
    check(result, model)
    assert result["answer"]


@every
def test_a_form_of_the_answer(name: str) -> None:
    model, tools = Actor(), Tools()
    result = made(name, model, tools, response_format=Page).invoke(question(ASKED))
    answered(name, result, model, tools)
    assert result["structured"] == {"page": 3}


@with_tools
def test_a_required_tool_that_cannot_be_left_out(name: str) -> None:
    """It was called: nothing is said of it. It was not: the answer stands at last, and the result says so."""
    model, tools = Actor(), Tools()
    result = made(name, model, tools, require=["lookup"]).invoke(question(ASKED))
    answered(name, result, model, tools)
    assert "required" not in result["stop"]["detail"]
    model, tools = Actor(), Tools()
    result = made(name, model, tools, require=["broken"]).invoke(question(ASKED))
    check(result, model, tools)
    if result["stop"]["reason"] == "final":
        assert "broken was required and was not called" in result["stop"]["detail"]
    assert any("broken" in str(m.text) for r in model.requests for m in r.messages if m.type == "human")


@both_ways
@every
def test_an_answer_that_is_objected_to(way: Way, name: str) -> None:
    model, tools, seen = Actor(), Tools(), list[str]()

    def verify(answer: str, trajectory: Any) -> str | None:
        seen.append(answer)
        return "Look closer." if len(seen) == 1 else None

    result = run(way, made(name, model, tools, verify=verify), question(ASKED))
    check(result, model, tools)
    assert (result["stop"]["reason"], result["answer"]) == ("final", ANSWER)
    assert seen == [ANSWER] * 2
    assert any("Look closer." in str(m.text) for r in model.requests for m in r.messages)


# What a model may do


def _refuses(messages: Any) -> AIMessage:
    return AIMessage("", additional_kwargs={"refusal": "No."})


def _is_down(messages: Any) -> AIMessage:
    raise RuntimeError("down")


_NUMBER = itertools.count()
WRONG: dict[str, tuple[Any, set[str]]] = {
    "is down": (_is_down, {"model_error"}),
    "is empty": ("", {"empty_output"}),
    "refuses": (_refuses, {"refusal"}),
    "writes garbage": ("\x00 }{ <|im_end|> Action: ", {"final", "malformed_output"}),
    "is cut off": (AIMessage("I was", response_metadata={"finish_reason": "length"}), {"malformed_output"}),
    "calls what is not there": (
        lambda _: AIMessage("", tool_calls=[call("nope", {"x": 1})]),
        {"tool_errors", "malformed_output", "empty_output"},
    ),
    "calls what fails": (
        lambda _: AIMessage("", tool_calls=[call("broken", {"name": f"n{next(_NUMBER)}"})]),
        {"tool_errors", "malformed_output", "empty_output"},
    ),
}


@every
@pytest.mark.parametrize("protocol", ["native", "text"])
@pytest.mark.parametrize("what", WRONG)
def test_a_model_that_always(name: str, what: str, protocol: str) -> None:
    says, reasons = WRONG[what]
    model, tools = Actor(says={"": says}), Tools()
    result = made(name, model, tools, protocol=protocol).invoke(question(ASKED))
    check(result, None if what == "is down" else model, tools)
    assert result["stop"]["reason"] in reasons, result["stop"]
    assert len(model.requests) <= 16
    if what in ("is down", "refuses"):  # it will be no better
        assert len(model.requests) <= (2 if name == "self_consistency" else 1)


# Limits


@both_ways
@every
@pytest.mark.parametrize("calls", ["lookup", "broken"])
def test_steps_hold(way: Way, name: str, calls: str) -> None:
    says = {} if calls == "lookup" else {"act": WRONG["calls what fails"][0]}
    for steps in range(1, 6):
        model, tools = Actor(says=says), Tools()
        result = run(way, made(name, model, tools, limits=Limits(steps=steps)), question(ASKED))
        check(result, model, tools)
        turns = [r for r in model.requests if CLOSING not in str(r.messages[-1].content)]
        if name == "self_consistency":  # a wave is one step
            assert result["stop"]["step"] == 1
        else:
            assert len(turns) == result["stop"]["step"] <= steps
        if result["stop"]["reason"] == "step_limit":
            assert result["stop"]["step"] == steps


@both_ways
@every
@pytest.mark.parametrize("limit", ["tokens", "cost"])
def test_what_a_run_may_use_up(way: Way, name: str, limit: str) -> None:
    """No limit is gone beyond, but by the first call of those that begin at once: nobody knows what it takes."""
    each = TURN if limit == "tokens" else DOLLARS
    at_once = 2 if name in ("self_consistency", "plan_execute") else 1
    for calls in (0.1, 1, 1.5, 2, 3, 4, 5, 7):
        model, tools = Actor(), Tools()
        given: Any = {limit: max(1, int(calls * each)) if limit == "tokens" else calls * each}
        result = run(way, made(name, model, tools, limits=Limits(**given)), question(ASKED))
        check(result, model, tools)
        assert len(model.requests) <= max(calls, 1) + at_once - 1 or len(model.requests) == 1
        if result["stop"]["reason"] != "final":
            assert result["stop"]["reason"] == f"{limit.removesuffix('s')}_limit"
            assert result["answer"]


@both_ways
@with_tools
@pytest.mark.parametrize("most", [0, 1])
def test_tool_calls_hold(way: Way, name: str, most: int) -> None:
    model, tools = Actor(), Tools()
    result = run(way, made(name, model, tools, limits=Limits(tool_calls=most)), question(ASKED))
    check(result, model, tools)
    assert result["stop"]["reason"] == "tool_call_limit"
    assert len(tools.ran) == most


@both_ways
@every
def test_no_time(way: Way, name: str) -> None:
    model, tools = Actor(), Tools()
    result = run(way, made(name, model, tools, limits=Limits(seconds=1e-9)), question(ASKED))
    check(result, model, tools)
    assert result["stop"]["reason"] == "deadline"
    assert [CLOSING in str(request.messages[-1].content) for request in model.requests] == [True]
    model = Actor()
    result = run(way, made(name, model, limits=Limits(seconds=1e-9, closing=False)), question(ASKED))
    check(result, model)
    assert not model.requests


@both_ways
@every
def test_no_recursion_limit_raises(way: Way, name: str) -> None:
    for limit in range(2 if way == "invoke" else 3, 13, 2):
        model, tools = Actor(), Tools()
        result = run(way, made(name, model, tools), question(ASKED), {"recursion_limit": limit})
        check(result, model, tools)
        assert result["stop"]["reason"] in ("final", "step_limit")
    model = Actor()
    with pytest.raises(ValueError, match="recursion_limit=1 is too small"):
        run(way, made(name, model), question(ASKED), {"recursion_limit": 1})
    assert not model.requests
