"""LLMCompiler: a plan as a graph of calls; each runs as soon as its inputs are there, while the plan is being written.

Kim et al., "An LLM Compiler for Parallel Function Calling", arXiv 2312.04511.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from typing_extensions import Unpack

from taograph.calls import Steps
from taograph.graphs.loop.acting import act
from taograph.graphs.loop.fetching import fetched
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import ActInput, Input, Output
from taograph.graphs.loop.trajectory import instructed
from taograph.graphs.loop.waves import once_more, sends, wave
from taograph.graphs.parts.chain_of_thought import as_answer, thought_and_answer
from taograph.graphs.parts.joining import JOIN_AGAIN, Joined, join_request, read_join, tasks_request
from taograph.graphs.parts.planned import Plan, PlannedState, call_ids, parameters_of, plan_of, results_of, trusted_of
from taograph.graphs.parts.references import TASK
from taograph.graphs.parts.tasks import JOIN
from taograph.graphs.protocols.native import text_of
from taograph.served import served
from taograph.tools.catalog import default_tools


@a_strategy
def create_dag_graph(
    model: Model, tools: Tools = (), *, replans: int = 1, **options: Unpack[Options]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that plans calls with what they depend on, makes them as early as it can, and joins their results.

    A call begins as soon as the results are there that it refers to (``$1``), also while the planner is still writing;
    so a run takes as long as the slowest chain of calls, and not as long as all of them. What fails is an observation,
    and so is what needs it. Then the model decides whether the results answer the question; if not, it plans what is
    still missing, ``replans`` times. Calls that need a person's word run when the plan is complete.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: Likewise.
        replans: How often another plan may follow the first (1 or 2 in the paper); after the last there is an answer.
        **options: As :func:`taograph.create_react_graph`.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.loop.state.Output` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    if isinstance(replans, bool) or not isinstance(replans, int) or replans < 0:
        raise ValueError(f"replans={replans!r}: give a whole number, 0 or more")
    agent = agent_of(model, tools, options, name="dag", worked=False)
    if JOIN in agent.by_name:
        raise ValueError(f"a tool is named {JOIN!r}, which is how a plan ends: rename it")
    parameters, trusted = parameters_of(agent.tools), trusted_of(agent.tools)

    def plan(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        before = plan_of(state.get("plan"), here.session.run["turn"])
        if here.goes_on and before["round"]:
            return {"plan": once_more(here, before, here.history)}
        first = max((task["id"] for task in before["tasks"]), default=0) + 1
        request = instructed(
            here.conversation,
            tasks_request(agent.tools, first=first, text=here.session.bound.protocol == "text"),
            "plan",
        )
        made = yield from fetched(here, request, before, parameters)
        made.write()
        # A plan that did not come to its end is none to go on with, where the run goes on.
        rounds = before["round"] + (made.reply is not None)
        tasks = [*before["tasks"], *made.tasks]
        return {"plan": Plan(turn=before["turn"], round=rounds, tasks=tasks), "stop": made.stop}

    def work(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        yield from wave(here, state["plan"], TASK, parameters)
        return {}

    def join(here: Stage, state: PlannedState) -> Steps[dict[str, Any]]:
        text = here.session.bound.protocol == "text"
        tasks, may_replan = state["plan"]["tasks"], state["plan"]["round"] <= replans
        results = results_of(tasks, here.history)
        request = join_request(here.question, tasks, results, trusted=trusted, may_replan=may_replan, text=text)

        def read(reply: AIMessage) -> tuple[AIMessage, Joined]:
            return reply, read_join(text_of(reply), may_replan=may_replan)

        reply, joined = yield from here.ask_read(instructed(here.conversation, request, "join"), read, again=JOIN_AGAIN)
        if joined.replan:
            thinks = AIMessage(joined.thought or joined.text)
            here.session.messages.append(thinks)
            here.tell_thought(thinks)
            here.send_back(f"Plan again: {joined.text}", "replan")
            return {}
        thought, answer = (joined.thought, joined.text) if joined.text else thought_and_answer(reply)
        return (yield from here.answered(as_answer(reply, thought, answer)))

    def ended(state: PlannedState) -> Literal["finish", "__end__"] | None:
        if state.get("stop") is None:
            return None
        return "__end__" if state["run"]["done"] else "finish"

    def route(state: PlannedState) -> Literal["work", "join", "finish", "__end__"] | list[Send]:
        end = ended(state)
        if end is not None:
            return end
        waiting = sends(state)
        if waiting:
            return waiting
        sent = call_ids(state["messages"])
        return "join" if all(task["call"] in sent for task in state["plan"]["tasks"]) else "work"

    def decided(state: PlannedState) -> Literal["plan", "finish", "__end__"]:
        return ended(state) or "plan"

    builder = (
        StateGraph(PlannedState, context_schema=context_of(options), input_schema=Input, output_schema=Output)
        .add_node("plan", node("plan", stage(agent, plan)))
        .add_node("work", node("work", stage(agent, work)))
        .add_node("act", node("act", act(agent)), input_schema=ActInput)
        .add_node("join", node("join", stage(agent, join)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "plan")
        .add_conditional_edges("plan", router("route", route), ["work", "join", "finish", END])
        .add_conditional_edges("work", router("route", route), ["act", "join", "finish", END])
        .add_edge("act", "work")
        .add_conditional_edges("join", router("decided", decided), ["plan", "finish", END])
        .add_edge("finish", END)
    )
    return compiled(builder, agent, options)


graph = served(create_dag_graph(None, default_tools()))
