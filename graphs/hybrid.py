"""The hybrids of the ReAct paper: the loop, and a vote among chains of thought where it does not answer; or reversed.

Yao et al., arXiv 2210.03629, section 3.2. "ReAct → CoT-SC": where the loop has no answer within so many steps (7 for
HotpotQA, 5 for FEVER), the majority of the samples is the answer. "CoT-SC → ReAct": where the majority has fewer than
half of the votes, what the model knows does not settle it, and the loop is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Overwrite, Send
from typing_extensions import Unpack

from taograph.calls import Steps
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.finishing import closing_of, finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of, for_child
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input
from taograph.graphs.loop.stopping import Stop
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import user_turn
from taograph.graphs.parts.switching import (
    FOLLOWING,
    Begin,
    HybridOutput,
    HybridState,
    Tried,
    Which,
    answers,
    is_followed,
    other,
)
from taograph.graphs.parts.voting import Votes
from taograph.graphs.react import create_react_graph
from taograph.graphs.self_consistency import check_sampling, create_self_consistency_graph
from taograph.served import served
from taograph.tools.catalog import default_tools


@a_strategy
def create_hybrid_graph(
    model: Model,
    tools: Tools = (),
    *,
    first: Which = "react",
    samples: int = 21,
    temperature: float = 0.7,
    react_steps: int = 7,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that answers by the loop or by a vote, and by the other where the first does not settle it.

    Both draw on the limits of the run. A limit of the run that ends the first ends the run: the other is tried where
    the first was done and has no answer. An objection to a vote, too, lets the loop try.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: As :func:`taograph.create_react_graph`; only the loop has them.
        first: "react" for ReAct → CoT-SC, "samples" for CoT-SC → ReAct.
        samples: How many samples are drawn at most.
        temperature: What they are drawn at.
        react_steps: Steps of the loop.
        **options: As :func:`taograph.create_react_graph`. Without ``limits`` a run has ``react_steps`` steps and 8.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.parts.switching.HybridOutput` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    if first not in ("react", "samples"):
        raise ValueError(f'first={first!r}: give "react" or "samples"')
    check_sampling(samples, temperature)
    if isinstance(react_steps, bool) or not isinstance(react_steps, int) or react_steps < 1:
        raise ValueError(f"react_steps={react_steps!r}: give a whole number, 1 or more")
    needed = (samples + 1) // 2 if first == "samples" else 0
    agent = agent_of(model, tools, options, name="hybrid", limits=Limits(steps=react_steps + 8))
    # Whoever follows them, or the run's own finish, says what they did not.
    shared = replace(agent.limits, steps=None, tool_calls=None, seconds=None, tokens=None, cost=None, closing=False)
    of_loop = replace(shared, steps=react_steps)
    checks = {"require": options.get("require", ()), "verify": options.get("verify")}
    loop = create_react_graph(model, tools, **for_child(options, limits=of_loop, **checks))
    alone = for_child(options, limits=shared, examples=(), approve=())
    vote = create_self_consistency_graph(model, samples=samples, temperature=temperature, quorum=needed, **alone)

    decide = _decide(first, needed)
    fresh = {"tried": Overwrite([]), "samples": [], "votes": None, "branch": first}

    def route(state: HybridState) -> Literal["finish", "__end__"] | list[Send]:
        if state.get("stop") is not None:
            return "__end__" if state["run"]["done"] else "finish"
        return [Send(state["next"]["which"], state["next"])]

    builder = (
        StateGraph(HybridState, context_schema=context_of(options), input_schema=Input, output_schema=HybridOutput)
        .add_node("decide", node("decide", stage(agent, decide, after=2, checked=False, fresh=fresh)))
        .add_node("react", node("react", _part(agent, loop, of_loop, "react"), loop), input_schema=Begin)
        .add_node("samples", node("samples", _part(agent, vote, shared, "self_consistency"), vote), input_schema=Begin)
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "decide")
        .add_conditional_edges("decide", router("route", route), ["react", "samples", "finish", END])
        .add_edge("react", "decide")
        .add_edge("samples", "decide")
        .add_edge("finish", END)
    )
    return compiled(builder, agent, options)


def _decide(first: Which, needed: int) -> Callable[[Stage, HybridState], Steps[dict[str, Any]]]:
    """What looks at what a branch gave, and says what is next."""

    def decide(here: Stage, state: HybridState) -> Steps[dict[str, Any]]:
        if here.is_new:
            here.begin()
            return {"next": Begin(which=first, whole=False, known=[])}
        tried = state["tried"]
        last = tried[-1]
        if here.goes_on:
            here.begin()
            known = state["samples"] if last["branch"] == "samples" else []
            again = Begin(which=last["branch"], whole=True, known=known)
            return {"tried": Overwrite(tried[:-1]), "next": again}
        why = ""
        if answers(tried, needed):
            if last["branch"] == "react":  # it was asked for an answer that holds
                return {"stop": here.stop("final", f"react: {last['stop']['detail']}"), "answer": last["answer"]}
            found = yield from here.objection_to(last["answer"], again=len(tried) < 2)
            if not found.text:
                detail = "; ".join([f"samples: {last['stop']['detail']}", *found.notes])
                return {"stop": here.stop("final", detail), "answer": last["answer"]}
            why = found.text
        try:
            here.begin()
        except Ended as end:
            leads = last["branch"] == "samples" and last["votes"]
            return {"stop": end.stop, **({"answer": last["answer"]} if leads else {})}
        if not why and not is_followed(tried):
            stop = here.stop(last["stop"]["reason"], f"{last['branch']}: {last['stop']['detail']}")
            return {"stop": stop}
        if here.room < 3:  # to run it and to look at what it gave, and one more
            return {"stop": here.stop("step_limit", here.recursion_detail())}
        which = other(last["branch"])
        here.send_back(why or FOLLOWING[which].format(why=last["stop"]["detail"]), "branch")
        return {"branch": which, "next": Begin(which=which, whole=False, known=[])}

    return decide


def _part(agent: Agent, graph: Pregel[Any, Any, Any, Any], limits: Limits, name: str) -> Any:
    """The core of the node that runs one of the two."""

    def part(here: Branch, task: Begin) -> Steps[dict[str, Any]]:
        messages = here.messages
        if task["which"] == "samples" or not task["whole"]:  # neither is to be led by what the other did
            messages = messages[: (user_turn(messages) or 0) + 1]
        extra = {"known": task["known"]} if task["known"] and task["which"] == "samples" else None
        sub = yield from here.run(graph, limits, messages, name=name, extra=extra)
        new, stop = sub["messages"], sub["stop"]
        if task["which"] == "react" and stop["reason"] != "final":
            new = new[: len(new) - len(closing_of(new))]
        votes: Votes | None = sub["output"].get("votes")
        tried = Tried(
            branch=task["which"], answer=sub["answer"], stop=Stop(**stop), votes=votes["count"] if votes else 0
        )
        drawn = {"votes": votes, "samples": sub["output"]["samples"]} if votes else {}
        return {"messages": new, "tried": [tried], **drawn}

    return branch(agent, part)


graph = served(create_hybrid_graph(None, default_tools()))
