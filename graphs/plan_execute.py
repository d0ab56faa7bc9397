"""Plan-and-Execute: a plan is made, its steps are carried out, and what fails leads to a new plan.

The idea of a plan before the work: Wang et al., "Plan-and-Solve Prompting", arXiv 2305.04091. As a graph, LangGraph's
idiom of planner, executor and replanner: each step is a ReAct run of its own, and the replanner either answers or
gives the steps that remain. Beyond it, steps that do not need each other run side by side, new plans are bounded, a
step that fails is planned anew rather than taken for done, and a new plan that changes nothing ends the run.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, Send
from typing_extensions import Unpack

from taograph.calls import Steps
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, read_channels, router
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of, for_child
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.parts.planning import Planner, came_of, news_of, planning_agent, work_of
from taograph.graphs.parts.plans import Planning, PlanOutput, PlanState, PlanStep, Standing, is_same, told_plan
from taograph.graphs.react import create_react_graph
from taograph.served import served
from taograph.tools.catalog import default_tools

ReplanOn = Literal["failure", "step"]
_LIMITS = Limits(steps=50, seconds=900.0)
_STEP_LIMITS = Limits(steps=8)
# Supersteps from a plan to the next look at it: its steps, and the look.
_ROUND = 2


@a_strategy
def create_plan_execute_graph(
    model: Model,
    tools: Tools = (),
    *,
    step_limits: Limits = _STEP_LIMITS,
    replans: int = 3,
    replan_on: ReplanOn = "failure",
    planner: Model = None,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that plans, carries the steps out, each as a ReAct run, and plans anew where one fails.

    Args:
        model: As :func:`taograph.create_react_graph`. It carries the steps out.
        tools: As there; the steps have them.
        step_limits: What one step may use, within what the whole run has left.
        replans: New plans at most. Where the last of them fails, too, the run ends with ``tool_errors``, and with
            ``repeated_action`` where a new plan has the tasks of the one that failed.
        replan_on: When the replanner is asked beside at the end: "failure" of a step; or every "step", as in
            LangGraph's idiom, which can answer early and costs a call for each round of steps.
        planner: A model that plans, replans and answers in place of ``model``.
        **options: As :func:`taograph.create_react_graph`. Where no ``limits`` are given, they are 50 steps, those of
            the plan's steps included, and 900 seconds.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.parts.plans.PlanOutput` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    if isinstance(replans, bool) or not isinstance(replans, int) or replans < 0:
        raise ValueError(f"replans={replans!r}: give a whole number, 0 or more")
    if replan_on not in ("failure", "step"):
        raise ValueError(f'replan_on={replan_on!r}: use "failure" or "step"')
    if not isinstance(step_limits, Limits):
        raise TypeError(f"step_limits={step_limits!r}: give a taograph.Limits")
    agent = agent_of(model, tools, options, name="plan_execute", limits=_LIMITS)
    plans = Planner(agent, planning_agent(planner, agent, options))
    worker = create_react_graph(agent.model, tools, **for_child(options, limits=step_limits))

    def plan(here: Stage, state: PlanState) -> Steps[dict[str, Any]]:
        if here.goes_on and state.get("plan"):
            return (yield from replan(here, state))
        steps = yield from plans.plan(here)
        here.session.messages.append(AIMessage(f"Plan:\n{told_plan(steps)}"))
        return carried_on(here, Standing(steps, 1), 0)

    def step(here: Branch, task: PlanStep) -> Steps[dict[str, Any]]:
        work = work_of(here.messages, read_channels(here.session.config, ("plan",))["plan"], task)
        sub = yield from here.run(worker, step_limits, work, name="react", about=f"step {task['id']}: {task['task']}")
        after, messages = came_of(task, sub)
        here.session.teller.tell("plan", plan=[after])
        return {"plan": [after], "messages": messages}

    def replan(here: Stage, state: PlanState) -> Steps[dict[str, Any]]:
        standing, used = Standing(state["plan"], state["planning"]["since"]), state["planning"]["replans"]
        for child in here.children:
            if child["stop"]["reason"] == "rejected":
                return {"stop": here.stop("rejected", f"{child['about']}: {child['stop']['detail']}")}
        failed = standing.failed
        if standing.left and not failed and (replan_on == "failure" or used == replans):
            return carried_on(here, standing, used)
        here.session.teller.tell("plan", plan=standing.steps)
        if failed and used == replans:
            why = f"step {failed[0]['id']} failed ({failed[0]['result']})"
            return {"stop": here.stop("tool_errors", f"{why}, and {replans} new plans are the most")}
        news = news_of(standing)
        while True:
            if used < replans:
                decision = yield from plans.decide(here, standing, [news])
            else:
                decision = yield from plans.answer(here, [news])
            if decision.answer is None and is_same(decision.steps, standing.left):
                if failed:
                    why = f"the new plan has the same tasks as the one that failed at step {failed[0]['id']}"
                    return {"stop": here.stop("repeated_action", f"{why}: {failed[0]['result']}")}
                return carried_on(here, standing, used)
            here.session.messages += [news, decision.message]
            if decision.answer is None:
                return carried_on(here, standing.replaced(decision.steps), used + 1)
            here.tell_thought(decision.message)
            found = yield from here.objection_to(decision.answer)
            if not found.text:
                why = "; ".join(["the planner answered", *found.notes])
                return {"stop": here.stop("final", why), "answer": decision.answer}
            news = feedback(found.text, found.kind)

    def carried_on(here: Stage, standing: Standing, used: int) -> dict[str, Any]:
        steps = standing.begun() if here.room > _ROUND else standing.steps
        here.session.teller.tell("plan", plan=steps)
        return {"plan": Overwrite(steps), "planning": Planning(since=standing.since, replans=used)}

    def route(state: PlanState) -> Literal["finish", "__end__"] | list[Send]:
        if state.get("stop") is not None:
            return "__end__" if state["run"]["done"] else "finish"
        return [Send("step", one) for one in state["plan"] if one["status"] == "running"]

    fresh = {"plan": Overwrite([]), "planning": Planning(since=1, replans=0)}
    builder = (
        StateGraph(PlanState, context_schema=context_of(options), input_schema=Input, output_schema=PlanOutput)
        .add_node("plan", node("plan", stage(agent, plan, after=_ROUND, spends=True, fresh=fresh)))
        .add_node("step", node("step", branch(agent, step), worker))
        .add_node("replan", node("replan", stage(agent, replan, after=_ROUND, spends=True)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "plan")
        .add_conditional_edges("plan", router("route", route), ["step", "finish", END])
        .add_edge("step", "replan")
        .add_conditional_edges("replan", router("route", route), ["step", "finish", END])
        .add_edge("finish", END)
    )
    return compiled(builder, agent, options)


graph = served(create_plan_execute_graph(None, default_tools()))
