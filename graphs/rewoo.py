"""ReWOO: the whole plan first, then its calls, then one answer. Two calls of the model, however many the tools are.

Xu et al., "ReWOO: Decoupling Reasoning from Observations for Efficient Augmented Language Models", arXiv 2305.18323.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import HumanMessage, ToolCall
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from typing_extensions import Unpack

from taograph.calls import Steps
from taograph.graphs.loop.acting import act, told
from taograph.graphs.loop.agent import check_prices
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import ActInput, Input, Output
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import feedback_kind, instructed
from taograph.graphs.loop.waves import once_more, sends, wave
from taograph.graphs.parts.chain_of_thought import as_answer, thought_and_answer
from taograph.graphs.parts.evidence import (
    AGAIN,
    LLM,
    LLM_PARAMETERS,
    linked_plan,
    parse_plan,
    plan_form,
    plan_request,
    solve_request,
)
from taograph.graphs.parts.planned import PlannedState, parameters_of, plan_of, results_of, trusted_of
from taograph.graphs.parts.references import EVIDENCE
from taograph.graphs.protocols.native import text_of
from taograph.served import served
from taograph.tools.catalog import default_tools
from taograph.tools.outcome import ToolRun, failed, succeeded
from taograph.tools.policy import ToolPolicy

_WORKER = ToolPolicy(effects="none", max_chars=None)


@a_strategy
def create_rewoo_graph(
    model: Model,
    tools: Tools = (),
    *,
    solver: Model = None,
    llm: bool = True,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that plans all calls at once, makes them, and answers from what they gave.

    The model is asked twice: for the plan, whose steps refer to the evidence of others as ``#E1``, and for the answer.
    A plan that cannot be read is asked for again, ``limits.malformed`` times. Between the two, the tools are called, in
    parallel where their inputs are there. A step that can never have its input (its reference is to nothing, to itself,
    or to a call that failed) is not run; it says so, and the others go on.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: Likewise.
        solver: The model that answers, where it is another one.
        llm: Whether the planner may also ask the model itself, as a worker named ``LLM`` (as in the paper): each such
            step is a call of the model beyond the two, and counts in ``spent``.
        **options: As :func:`taograph.create_react_graph`.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.loop.state.Output` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    agent = agent_of(model, tools, options, name="rewoo", worked=False)
    other = None if solver is None else agent_of(solver, (), {"limits": agent.limits}, name="rewoo")
    apart = {LLM} if llm and LLM not in agent.by_name else set[str]()
    parameters = {**parameters_of(agent.tools), **dict.fromkeys(apart, LLM_PARAMETERS)}
    form, trusted = plan_form(), trusted_of(agent.tools) | apart

    def plan(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        before = plan_of(state.get("plan"), here.session.run["turn"])
        if here.goes_on and before["round"]:
            return {"plan": once_more(here, before, here.history)}
        if other is not None:
            check_prices(other, other.bound(None), here.session.limits)
        text = here.session.bound.protocol == "text"
        request = instructed(here.conversation, plan_request(agent.tools, llm=bool(apart), text=text), "plan")
        if text:
            steps = yield from here.ask_read(request, lambda reply: parse_plan(text_of(reply)), again=AGAIN)
        else:
            steps = yield from here.ask_form(request, form)
        return {"plan": linked_plan(steps, before, here.history, parameters)}

    def work(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        yield from wave(here, state["plan"], EVIDENCE, parameters, apart=apart)
        return {}

    def think(here: Branch, task: ActInput) -> Steps[dict[str, Any]]:
        call = task["call"]
        done = yield from told(here.session.teller, call, replied(here, call, task["refused"]))
        return {"messages": [done.message]}

    def solve(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        tasks = state["plan"]["tasks"]
        request = solve_request(here.question, tasks, results_of(tasks, here.history), trusted)
        bound = here.session.bound if other is None else other.bound(None)
        reply = yield from here.ask_text(
            instructed(here.conversation, request, "solve"), model=bound.model, price=bound.price
        )
        return (yield from here.answered(as_answer(reply, *thought_and_answer(reply))))

    def planned(state: PlannedState) -> Literal["work", "finish", "__end__"]:
        if state.get("stop") is None:
            return "work"
        return "__end__" if state["run"]["done"] else "finish"

    def route(state: PlannedState) -> Literal["plan", "work", "solve", "finish", "__end__"] | list[Send]:
        if state.get("stop") is not None:
            return "__end__" if state["run"]["done"] else "finish"
        waiting = sends(state, apart, "think")
        if waiting:
            return waiting
        # A tool that is required was not called: that takes another plan. Another objection takes another answer.
        return "plan" if feedback_kind(state["messages"][-1]) == "required_tool" else "solve"

    builder = (
        StateGraph(PlannedState, context_schema=context_of(options), input_schema=Input, output_schema=Output)
        .add_node("plan", node("plan", stage(agent, plan)))
        .add_node("work", node("work", stage(agent, work)))
        .add_node("act", node("act", act(agent)), input_schema=ActInput)
        .add_node("think", node("think", branch(agent, think)), input_schema=ActInput)
        .add_node("solve", node("solve", stage(agent, solve)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "plan")
        .add_conditional_edges("plan", router("planned", planned), ["work", "finish", END])
        .add_conditional_edges("work", router("route", route), ["act", "think", "solve", "finish", END])
        .add_edge("act", "work")
        .add_edge("think", "work")
        .add_conditional_edges("solve", router("route", route), ["plan", "solve", "finish", END])
        .add_edge("finish", END)
    )
    return compiled(builder, agent, options)


def replied(here: Branch, call: ToolCall, refused: str | None) -> Steps[ToolRun]:
    """What the worker that is a model says."""
    prompt = call["args"].get("prompt")
    if refused is not None:
        return failed(call, refused)
    if not isinstance(prompt, str) or not prompt.strip() or len(call["args"]) > 1:
        return failed(call, f"{LLM} takes one argument, prompt: the text that it is to reply to. It was not asked.")
    reply = yield from here.ask([HumanMessage(prompt)], quiet=True)
    text = "" if reply is None else text_of(reply)
    return succeeded(call, text, _WORKER) if text else failed(call, "The model gave no reply.")


graph = served(create_rewoo_graph(None, default_tools()))
