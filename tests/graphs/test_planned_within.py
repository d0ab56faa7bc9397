"""ReWOO and LLMCompiler's graph as parts of a run, side by side: they share what the run has left."""

from __future__ import annotations

from typing import Any

import pytest
from dag_support import finish as finished
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from rewoo_support import search
from stream_support import Streams, of
from support import Way, assert_acceptable, both_ways, question, run

from taograph import Limits
from taograph.calls import Steps
from taograph.graphs.dag import create_dag_graph
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import agent_of, compiled, context_of
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input, State, StrategyOutput, StrategyState
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.rewoo import create_rewoo_graph
from taograph.models import ScriptedModel


def reply(messages: list[BaseMessage]) -> str:
    last = str(messages[-1].content)
    if "Make a plan" in last:
        return '1. search("a")\n2. search("b $1")\n3. join()'
    if "the whole plan" in last:
        return "Plan: a\n#E1 = search[a]\n#E2 = search[#E1]"
    return finished("dag is done") if "or Replan" in last else "Solved."


def both_of(limits: Limits) -> tuple[ScriptedModel, Any]:
    """A strategy that runs one of each at the same time."""
    model = ScriptedModel(replies=[reply], repeat=True, usage=(10, 5))
    agent = agent_of(model, [search], {"limits": limits}, name="both")
    parts = {"dag": create_dag_graph(model, [search]), "rewoo": create_rewoo_graph(model, [search])}

    def begin(here: Stage, state: State) -> Steps[dict[str, Any]]:
        yield from here.ask_text(here.conversation)
        return {}

    def part(here: Branch, name: str) -> Steps[dict[str, Any]]:
        done = yield from here.run(parts[name], Limits(), [HumanMessage(f"Do it by {name}.")], name=name)
        return {"messages": done["messages"]}

    def conclude(here: Stage, state: State) -> Steps[dict[str, Any]]:
        said = yield from here.ask_text([*here.conversation, HumanMessage("And now?")])
        here.session.messages.append(AIMessage(said.text))
        return {"stop": here.stop("final", "done"), "answer": str(said.text)}

    def fan_out(state: State) -> Any:
        if state.get("stop") is None:
            return [Send("part", name) for name in parts]
        return END if state["run"]["done"] else "finish"

    builder = (
        StateGraph(StrategyState, context_schema=context_of({}), input_schema=Input, output_schema=StrategyOutput)
        .add_node("begin", node("begin", stage(agent, begin, after=2)))
        .add_node("part", node("part", branch(agent, part)))
        .add_node("conclude", node("conclude", stage(agent, conclude)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "begin")
        .add_conditional_edges("begin", router("fan_out", fan_out), ["part", "finish", END])
        .add_edge("part", "conclude")
        .add_conditional_edges(
            "conclude", router("end", lambda state: END if state["run"]["done"] else "finish"), ["finish", END]
        )
        .add_edge("finish", END)
    )
    return model, compiled(builder, agent, {})


@both_ways
@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(), "final"), (Limits(tool_calls=3), "tool_call_limit"), (Limits(steps=4), "step_limit")],
)
def test_limits_are_shared(way: Way, limits: Limits, reason: str) -> None:
    model, graph = both_of(limits)
    result = run(way, graph, question())
    assert result["stop"]["reason"] == reason
    assert result["answer"].strip()
    assert_acceptable(result["messages"])
    spent = result["spent"]
    assert spent["model_calls"] == len(model.requests)
    assert spent["input_tokens"] == 10 * len(model.requests)
    if limits.tool_calls is not None:
        assert spent["tool_calls"] == limits.tool_calls
    assert limits.steps is None or result["stop"]["step"] <= limits.steps
    assert {child["name"] for child in result["children"]} == {"dag", "rewoo"}
    assert any(child["shared"] for child in result["children"]) == (reason != "final")


def test_what_is_told_of_the_parts(steps: Streams) -> None:
    _, graph = both_of(Limits())
    inner = [event["event"] for event in of(steps(graph, question()), "child")]
    assert sorted(event["id"] for event in inner if event["type"] == "action") == ["E1", "E2", "t1", "t2"]
    assert len([event for event in inner if event["type"] == "answer"]) == 2
    assert any(event["type"] == "plan" for event in inner)
