"""What is recorded of graphs within graphs, and of strategies that have parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from recording_support import QUESTION, THREAD, Recorded, asks, content, look, of_type, pay, recorded, run, says, told

from taograph import create_react_graph
from taograph.graphs.hybrid import create_hybrid_graph
from taograph.graphs.self_consistency import create_self_consistency_graph

__all__ = ["recorded"]


@pytest.mark.parametrize("how", ["as a node", "by a call"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_within_a_graph_that_is_not_ours(recorded: Recorded, how: str, way: str) -> None:
    inner = create_react_graph(says(asks("a"), "There."), [look])

    def sync_call(state: Any, config: Any) -> Any:
        return {"messages": inner.invoke(state, config)["messages"]}

    async def async_call(state: Any, config: Any) -> Any:
        return {"messages": (await inner.ainvoke(state, config))["messages"]}

    node: Any = inner if how == "as a node" else sync_call if way == "invoke" else async_call
    # What LangGraph finds out of a function's config it reads from its annotations.
    for function in (sync_call, async_call):
        function.__annotations__.clear()
    builder = StateGraph(MessagesState).add_node("agent", node).add_edge(START, "agent").add_edge("agent", END)
    run(way, recorded.of(builder.compile()))
    found = recorded.one()
    assert told(found) == [
        "0 run_started",
        "0 run_started in agent",
        "1 model_asked in agent",
        "1 model_replied in agent",
        "1 action look in agent",
        "1 observation look in agent",
        "2 model_asked in agent",
        "2 model_replied in agent",
        "2 stop final in agent",
        "2 answer in agent",
        "0 run_ended ended",
    ]
    assert len({content(e)["run"] for e in found[1:-1]}) == 1
    assert content(found[0])["run"] == content(found[-1])["run"] != content(found[1])["run"]


def test_a_question_from_within_is_told_once(recorded: Recorded) -> None:
    inner = create_react_graph(says(asks("Ada", tool="pay"), "Paid."), [pay], approve=["pay"])
    builder = StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").add_edge("agent", END)
    graph = recorded.of(builder.compile(checkpointer=InMemorySaver()))
    graph.invoke(QUESTION, THREAD)
    graph.invoke(Command(resume="approve"), THREAD)
    first, second = recorded.all()
    assert told(first)[-2:] == ["0 approval_asked", "0 run_ended waiting"], "LangGraph tells it of the outermost graph"
    assert [line for line in told(second) if "approval" in line] == ["1 approval_answered pay in agent"]
    assert told(second)[-1] == "0 run_ended ended"


def test_a_strategy_that_votes(recorded: Recorded) -> None:
    model = says(*["It is so. The answer is 4."] * 3)
    recorded.of(create_self_consistency_graph(model, samples=3)).invoke(QUESTION)
    found = recorded.one()
    assert told(found)[0] == "0 run_started"
    assert sorted(told(found)[1:5]) == sorted(["1 model_asked", "1 model_replied"] * 2), "side by side"
    assert told(found)[5:] == ["1 vote", "1 thought", "1 stop final", "1 answer", "0 run_ended ended"]
    assert len({json.dumps(a["call"]) for a in of_type(found, "model_asked")}) == 2


def test_a_strategy_of_two(recorded: Recorded) -> None:
    model = says("The answer is 4.", "The answer is 5.", "The answer is 6.", asks("a"), "It is 4.")
    recorded.of(create_hybrid_graph(model, [look], samples=3, first="samples")).invoke(QUESTION)
    found = recorded.one()
    outer = content(found[0])["run"]
    of_parts = {
        path: {content(e)["run"] for e in found if content(e)["path"] == [path]} for path in ("samples", "react")
    }
    assert [len(runs) for runs in of_parts.values()] == [1, 1]
    assert len({outer, *of_parts["samples"], *of_parts["react"]}) == 3, "each has a run of its own"
    assert [line for line in told(found) if line.endswith("in react")] == [
        "0 run_started in react",
        "1 model_asked in react",
        "1 model_replied in react",
        "1 action look in react",
        "1 observation look in react",
        "2 model_asked in react",
        "2 model_replied in react",
        "2 stop final in react",
        "2 answer in react",
    ]
    samples = [line for line in told(found) if line.endswith("in samples")]
    assert samples[0] == "0 run_started in samples"
    assert samples.count("1 model_asked in samples") == samples.count("1 model_replied in samples") == 2
    assert samples[-1] == "2 answer in samples"
    assert [line for line in told(found) if " in " not in line] == [
        "0 run_started",
        "2 retry",
        "4 stop final",
        "4 answer",
        "0 run_ended ended",
    ]
    assert content(found[-1])["model_calls"] == 5
