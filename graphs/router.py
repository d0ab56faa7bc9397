"""The router: an easy question is answered in one call, a hard one enters the loop, and a failure is answered by more.

It starts simple and escalates on what is measured, never on a guess: an answer that says itself that it is not sure,
an objection of ``verify``, or a stop reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import Unpack

from taograph.graphs import STRATEGIES
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import OwnLimitGraph, node, router
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of, for_child
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import stage
from taograph.graphs.loop.state import Input
from taograph.graphs.loop.subruns import branch
from taograph.graphs.parts.routes import DEFAULT_RULES, ESCALATIONS, Asked, Route, Rule
from taograph.graphs.parts.routing import Router, RouterOutput, RouterState
from taograph.models.prices import model_name, price_of
from taograph.models.resolving import resolve
from taograph.served import served
from taograph.tools.catalog import default_tools

__all__ = ["DEFAULT_RULES", "ESCALATIONS", "Asked", "Route", "Rule", "create_router_graph", "graph"]

Strategies = Sequence[str] | Mapping[str, CompiledStateGraph[Any, Any, Any, Any] | None]
_LADDER = ("direct", "react", "plan_execute", "reflexion")
_LIMITS = Limits(steps=60)


@a_strategy
def create_router_graph(
    model: Model,
    tools: Tools = (),
    *,
    rules: Sequence[Rule] = DEFAULT_RULES,
    hops: int = 3,
    strategies: Strategies | None = None,
    classifier: BaseChatModel | str | Literal[False] | None = None,
    escalations: Mapping[str, Sequence[str]] = ESCALATIONS,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that chooses a strategy for each question, and another one where that fell short.

    ``direct`` is asked to say what it cannot know and whether it is sure. It fell short where it says "I don't know"
    or the like, or that its confidence is low. Any strategy fell short where ``verify`` or ``require`` objects to its
    answer, or where it ended by one of the stop reasons in ``escalations``; what follows stands there, too:

    ================================================  ==========================================
    what is measured                                  what is tried next, the first that is left
    ================================================  ==========================================
    ``direct`` is not confident                       react, plan_execute, reflexion
    ``verify`` or ``require`` objects                 react, reflexion, plan_execute
    step_limit of the strategy's own                  react, plan_execute, reflexion
    tool_call_limit of its own                        react, plan_execute
    repeated_action                                   plan_execute, reflexion
    tool_errors                                       reflexion, plan_execute
    malformed_output, empty_output                    react, reflexion, plan_execute
    a limit of the run, deadline, token_limit,        nothing: the run ends
    cost_limit, refusal, rejected, cancelled,
    model_error
    ================================================  ==========================================

    The next strategy is given the question and what the one before it left. The result's ``hops`` tells each with its
    reason, its stop and its cost; the events have them as ``plan``.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: Likewise.
        rules: What decides where a question begins: functions of :class:`Asked` that return a :class:`Route` or None,
            asked in order (:mod:`taograph.graphs.parts.routes`).
        hops: How many strategies may be tried, the first included.
        strategies: Which ones there are, by name; or a mapping of names to graphs of your own (made by any of our
            factories), where None is the strategy of that name as it is made here. The default is direct, react,
            plan_execute and reflexion; without tools it is direct.
        classifier: What decides where no rule does, in one short call: None for the model itself, another model or
            its name, or False for no call (then a question begins with ``direct``).
        escalations: What follows on what is measured.
        **options: As :func:`taograph.create_react_graph`. The limits are those of the run with all its strategies,
            which have the default limits of their own within it; there are 60 steps by default.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.parts.routing.RouterOutput` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    if isinstance(hops, bool) or not isinstance(hops, int) or hops < 1:
        raise ValueError(f"hops={hops!r}: give a whole number, 1 or more")
    agent = agent_of(model, tools, options, name="router", limits=_LIMITS)
    graphs = _graphs(agent, tools, strategies, options)
    chooser = resolve(classifier) if isinstance(classifier, str) else classifier
    _check_price(agent, chooser)
    part = Router(agent, graphs, tuple(rules), hops, escalations, chooser)

    def route(state: RouterState) -> str:
        if state.get("stop") is not None:
            return END if state["run"]["done"] else "finish"
        return state["hops"][-1]["strategy"]

    builder = (
        StateGraph(RouterState, context_schema=context_of(options), input_schema=Input, output_schema=RouterOutput)
        .add_node("choose", node("choose", stage(agent, part.choose, after=2, checked=False)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "choose")
        .add_conditional_edges("choose", router("route", route), [*graphs, "finish", END])
        .add_edge("finish", END)
    )
    for name, strategy in graphs.items():
        builder.add_node(name, node(name, branch(agent, part.runs(name)), strategy)).add_edge(name, "choose")
    return compiled(builder, agent, options)


def _graphs(agent: Agent, tools: Tools, wanted: Strategies | None, options: Options) -> dict[str, OwnLimitGraph]:
    """The strategies by name."""
    if wanted is None:
        wanted = _LADDER if agent.tools else ("direct",)
    if isinstance(wanted, str) or not wanted:
        raise ValueError(f'strategies={wanted!r}: name one or more, as in ("direct", "react")')
    given = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
    graphs: dict[str, OwnLimitGraph] = {}
    for name, strategy in given.items():
        if name in ("choose", "finish", "router"):
            raise ValueError(f"strategies: {name!r} is a name of the router's own; choose another")
        if strategy is None:
            graphs[name] = _made(name, agent, tools, options)
        elif isinstance(strategy, OwnLimitGraph):
            graphs[name] = strategy
        else:
            raise ValueError(f"strategies[{name!r}]={strategy!r}: give a graph made by one of our factories, or None")
    return graphs


def _made(name: str, agent: Agent, tools: Tools, options: Options) -> OwnLimitGraph:
    """A strategy with its own limits, which leaves the closing answer to the router: another one may follow."""
    if name not in STRATEGIES:
        raise ValueError(f"strategies: there is no {name!r}; there are {', '.join(STRATEGIES)}")
    # direct calls no tools, so there is nothing to approve, and no call to show.
    changes: dict[str, Any] = {"approve": (), "examples": ()} if name == "direct" else {"require": agent.require}
    own = for_child(options, **changes)
    made = STRATEGIES[name](agent.model, tools, **own)
    quiet: OwnLimitGraph = STRATEGIES[name](agent.model, tools, **own, limits=replace(made.limits, closing=False))
    return quiet


def _check_price(agent: Agent, classifier: Any) -> None:
    limit = agent.limits.cost
    if isinstance(classifier, BaseChatModel) and limit is not None and price_of(classifier) is None:
        raise ValueError(
            f"limits.cost={limit!r}, but the price of {model_name(classifier) or type(classifier).__name__!r} "
            "(classifier=) is not known: set it with taograph.models.set_price, or drop the limit"
        )


graph = served(create_router_graph(None, default_tools()))
