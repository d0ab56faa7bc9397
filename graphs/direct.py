"""Chain of thought: one call of the model that thinks and answers, without tools.

Chain of thought: Wei et al., arXiv 2201.11903. With ``plan_and_solve``, two calls: a plan and its execution, then the
answer read off them (Wang et al., arXiv 2305.04091).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import Unpack

from taograph.calls import Steps
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input, Output, State
from taograph.graphs.loop.trajectory import feedback, instructed
from taograph.graphs.parts.chain_of_thought import (
    CONCLUDE,
    PLAN,
    PLAN_PLUS,
    THINK,
    PlanAndSolve,
    as_answer,
    is_lone_thought,
    thought_and_answer,
)
from taograph.served import served


@a_strategy
def create_direct_graph(
    model: Model, tools: Tools = (), *, plan_and_solve: PlanAndSolve = False, **options: Unpack[Options]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that answers a question by thinking about it, without tools.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: Taken so that one strategy can stand in for another; none is called.
        plan_and_solve: Ask for a plan and its execution first, and for the answer in a second call. "plus" asks for
            the quantities and the intermediate results, too (PS+ of the paper).
        **options: As :func:`taograph.create_react_graph`.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.loop.state.Output` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    if plan_and_solve not in (True, False, "plus"):
        raise ValueError(f'plan_and_solve={plan_and_solve!r}: give True, False or "plus"')
    agent = agent_of(model, (), options, name="direct")
    plan = PLAN_PLUS if plan_and_solve == "plus" else PLAN

    def solve(here: Stage) -> Steps[tuple[AIMessage, str, str]]:
        talk, last = here.conversation, here.conversation[-1]
        if here.goes_on and isinstance(last, AIMessage):  # the work is done, and the answer was not read off it
            work, talk = last, talk[:-1]
            here.session.removed.append(last.id or "")
            talk = instructed(talk, plan, "plan_and_solve")
        else:
            talk = instructed(talk, plan, "plan_and_solve")
            work = yield from here.ask_text(talk)
        try:
            reply = yield from here.ask_text([*talk, work, feedback(CONCLUDE, "plan_and_solve")])
        except Ended:
            here.session.messages.append(work)
            raise
        return reply, "\n".join(thought_and_answer(work)).strip(), thought_and_answer(reply)[1]

    def think(here: Stage, state: State) -> Steps[dict[str, Any]]:
        while True:
            talk = here.conversation
            if plan_and_solve:
                reply, thought, answer = yield from solve(here)
            else:
                talk = instructed(talk, THINK, "think")
                reply = yield from here.ask_text(talk)
                thought, answer = thought_and_answer(reply)
                if is_lone_thought(reply) and here.has_turn():
                    with suppress(Ended):  # then what it said is the answer
                        read = yield from here.ask_text([*talk, reply, feedback(CONCLUDE, "think")])
                        reply, thought, answer = read, answer, thought_and_answer(read)[1]
            ended = yield from here.answered(as_answer(reply, thought, answer))
            if ended:
                return ended

    def route(state: State) -> Literal["finish", "__end__"]:
        return "__end__" if state["run"]["done"] else "finish"

    builder = (
        StateGraph(State, context_schema=context_of(options), input_schema=Input, output_schema=Output)
        .add_node("think", node("think", stage(agent, think)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "think")
        .add_conditional_edges("think", router("route", route), ["finish", END])
        .add_edge("finish", END)
    )
    return compiled(builder, agent, options)


graph = served(create_direct_graph(None))
