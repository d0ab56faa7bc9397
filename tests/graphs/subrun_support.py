"""A strategy made for tests: parts side by side, each a sub-run, and an answer put together from theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from support import CLOSING

from taograph import Context, Limits, create_react_graph
from taograph.calls import Steps
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import agent_of, compiled
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input, StrategyOutput, StrategyState
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import feedback
from taograph.models import ScriptedModel

MANY = Limits(steps=100)


def parts_of(
    model: ScriptedModel,
    child: Any,
    *,
    parts: int = 2,
    limits: Limits = MANY,
    tools: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """A graph that runs a child so many times at once; it asks the model itself for nothing but a closing answer."""
    agent = agent_of(model, tools, {"limits": limits, **options}, name="parts")

    def begin(here: Stage, state: Any) -> Steps[dict[str, Any]]:
        yield from ()
        return {}

    def part(here: Branch, task: str) -> Steps[dict[str, Any]]:
        told = HumanMessage(f"{task} of {here.messages[0].text}")
        sub = yield from here.run(child, child.limits, [told], name=child.name, about=task)
        return {"messages": [feedback(task, "part"), *(sub["messages"] or [AIMessage(sub["answer"])])]}

    def end(here: Stage, state: Any) -> Steps[dict[str, Any]]:
        answer = "; ".join(f"{child['about']}: {child['stop']['reason']}" for child in here.children)
        found = yield from here.objection_to(answer)
        while found.text:
            found = yield from here.objection_to(answer)
        here.session.messages.append(AIMessage(answer))
        return {"stop": here.stop("final", "; ".join(["put together", *found.notes])), "answer": answer}

    def to_parts(state: Any) -> Literal["finish", "__end__"] | list[Send]:
        if state.get("stop") is not None:
            return "__end__" if state["run"]["done"] else "finish"
        return [Send("part", f"part {number}") for number in range(1, parts + 1)]

    def to_end(state: Any) -> Literal["finish", "__end__"]:
        return "__end__" if state["run"]["done"] else "finish"

    builder = (
        StateGraph(StrategyState, context_schema=Context, input_schema=Input, output_schema=StrategyOutput)
        .add_node("begin", node("begin", stage(agent, begin, after=2)))
        .add_node("part", node("part", branch(agent, part), child))
        .add_node("end", node("end", stage(agent, end)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "begin")
        .add_conditional_edges("begin", router("route", to_parts), ["part", "finish", END])
        .add_edge("part", "end")
        .add_conditional_edges("end", router("route", to_end), ["finish", END])
        .add_edge("finish", END)
    )
    return compiled(builder, agent, {"limits": limits, **options})


Make = Callable[..., Any]


def one_level(model: ScriptedModel, tools: Sequence[Any], *, own: Limits = MANY, **options: Any) -> Any:
    """Four loops side by side."""
    return parts_of(model, create_react_graph(model, tools, limits=own), parts=4, tools=tools, **options)


def two_levels(model: ScriptedModel, tools: Sequence[Any], *, own: Limits = MANY, **options: Any) -> Any:
    """Two strategies side by side, each with two loops."""
    inner = parts_of(model, create_react_graph(model, tools, limits=own), tools=tools)
    return parts_of(model, inner, tools=tools, **options)


def turns(model: ScriptedModel) -> int:
    """Requests that were no closing ones."""
    return sum(CLOSING not in str(request.messages[-1].content) for request in model.requests)


def part_of(messages: Sequence[BaseMessage]) -> str:
    """What a request of a part begins with."""
    return str(messages[0].text).partition(" of ")[0]
