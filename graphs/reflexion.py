"""Reflexion: try, judge, reflect on what went wrong, and try again with what was noted.

Reflexion: Shinn et al., "Reflexion: Language Agents with Verbal Reinforcement Learning", arXiv 2303.11366. An actor (a
ReAct sub-run), an evaluator, and a self-reflection whose words the next trial's actor is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from typing_extensions import Unpack

from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of, for_child
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import stage
from taograph.graphs.loop.state import Input
from taograph.graphs.loop.subruns import branch
from taograph.graphs.parts.evaluating import SAMPLES, Oracle, Verdict, exact_match, oracle
from taograph.graphs.parts.reflecting import TRIGGERS
from taograph.graphs.parts.trials import Trials, TrialsOutput, TrialsState
from taograph.graphs.react import create_react_graph
from taograph.models.prices import model_name, price_of
from taograph.models.resolving import resolve
from taograph.served import served
from taograph.tools.catalog import default_tools

__all__ = ["Evaluator", "Oracle", "Verdict", "create_reflexion_graph", "exact_match", "graph", "oracle"]

Evaluator = Callable[..., Any] | BaseChatModel | str | None


@a_strategy
def create_reflexion_graph(
    model: Model,
    tools: Tools = (),
    *,
    evaluate: Evaluator = None,
    trials: int = 3,
    memory: int = 3,
    trigger: Literal["paper", "published_code"] = "paper",
    oracle: bool = False,
    trial_limits: Limits | None = None,
    reflector: BaseChatModel | str | None = None,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that tries, judges, reflects and tries again.

    Where no trial passes, the answer of the best one is given, with the evaluator's objection in ``stop["detail"]``:
    that of the highest score, and of equal ones the latest. Its reason is "final", as where ``verify`` still objects;
    ``trials`` tells that none passed. Where no trial came to an answer, the reason is that of the last one.

    Args:
        model: As :func:`taograph.create_react_graph`.
        tools: Likewise.
        evaluate: What judges a trial that came to an answer; one that came to none has failed whatever judges.
            None: it did not get stuck on the way (``trigger``). "tool_errors": the last calls did not all fail.
            "agreement": most of a few samples that answer from the same observations say the same. A function of
            (question, answer, trajectory), sync or async, that returns True or None, False, what is wrong as a text,
            or a :class:`Verdict`. A model, or the name of one, that judges and says why.
        trials: How many there are at most.
        memory: How many of the last reflections a trial is given: 1 to 3, as in the paper.
        trigger: When a trial counts as stuck. "paper": the same action with the same outcome more than 3 times, or
            more than 30 actions. "published_code": the same action twice in a row.
        oracle: Let ``evaluate`` know the right answer (:func:`exact_match`, :func:`oracle`). The result says so:
            figures that come of it are not what users will see.
        trial_limits: What a trial may use, within what the run has left. The default goes with ``trigger``: 15 steps,
            30 calls and 4 equal outcomes, or 49 calls and 2.
        reflector: A model for the self-reflection, or its name, where it is not the actor's own.
        **options: As :func:`taograph.create_react_graph`. The default limit of steps has room for all trials and the
            reflections between them.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.parts.trials.TrialsOutput` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    _check(trials, memory, trigger, evaluate, oracle)
    within = trial_limits or TRIGGERS[trigger].limits
    steps = None if within.steps is None else trials * (within.steps + 1)
    agent = agent_of(model, tools, options, name="reflexion", limits=Limits(steps=steps))
    judge = (
        resolve(evaluate) if isinstance(evaluate, str) and evaluate not in ("tool_errors", "agreement") else evaluate
    )
    thinker = resolve(reflector) if isinstance(reflector, str) else reflector
    _check_prices(agent, evaluate=judge, reflector=thinker)
    # A trial that ends without an answer is followed by another, or by the run's own closing answer.
    within = replace(within, closing=False)
    actor = create_react_graph(agent.model, tools, **for_child(options, limits=within, require=agent.require))
    part = Trials(agent, actor, within, judge, trials, memory, trigger, oracle, thinker)
    after = 2 if judge == "agreement" else 1

    def route(state: TrialsState) -> str | list[Send]:
        if state.get("stop") is not None:
            return END if state["run"]["done"] else "finish"
        if state["next"] == "sample":
            return [Send("sample", number) for number in range(SAMPLES)]
        return state["next"]

    samples = ["sample"] if judge == "agreement" else []
    builder = (
        StateGraph(TrialsState, context_schema=context_of(options), input_schema=Input, output_schema=TrialsOutput)
        .add_node("begin", node("begin", stage(agent, part.begin, after=2, fresh=part.fresh)))
        .add_node("trial", node("trial", branch(agent, part.act), actor))
        .add_node("evaluate", node("evaluate", stage(agent, part.ends_well(part.evaluate, after), checked=False)))
        .add_node("reflect", node("reflect", stage(agent, part.ends_well(part.reflect, 2), checked=False)))
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "begin")
        .add_conditional_edges(
            "begin", router("route", route), ["trial", "evaluate", "reflect", *samples, "finish", END]
        )
        .add_edge("trial", "evaluate")
        .add_conditional_edges("evaluate", router("route", route), ["reflect", *samples, "finish", END])
        .add_conditional_edges("reflect", router("route", route), ["trial", "finish", END])
        .add_edge("finish", END)
    )
    if samples:
        builder.add_node("sample", node("sample", branch(agent, part.sample))).add_edge("sample", "evaluate")
    return compiled(builder, agent, options)


def _check(trials: int, memory: int, trigger: str, evaluate: Any, knows: bool) -> None:
    for name, given, most in (("trials", trials, None), ("memory", memory, 3)):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1 or (most is not None and given > most):
            raise ValueError(f"{name}={given!r}: give a whole number, {f'1 to {most}' if most else '1 or more'}")
    if trigger not in TRIGGERS:
        raise ValueError(f"trigger={trigger!r}: use {' or '.join(repr(name) for name in TRIGGERS)}")
    if isinstance(evaluate, Oracle) and not knows:
        raise ValueError(
            "evaluate knows the right answer, so the figures would not be those of use: say oracle=True if that is "
            "meant (the result is labeled), or judge without it"
        )
    if evaluate is not None and not isinstance(evaluate, BaseChatModel | str) and not callable(evaluate):
        raise ValueError(
            f'evaluate={evaluate!r}: give a function of (question, answer, trajectory), a model, "tool_errors", '
            '"agreement" or None'
        )
    if knows and (evaluate is None or not callable(evaluate) or isinstance(evaluate, BaseChatModel)):
        raise ValueError(
            "oracle=True: give evaluate= a function that knows the right answer, such as exact_match(gold)"
        )


def _check_prices(agent: Agent, **models: Any) -> None:
    for what, one in models.items():
        if isinstance(one, BaseChatModel) and agent.limits.cost is not None and price_of(one) is None:
            raise ValueError(
                f"limits.cost={agent.limits.cost!r}, but the price of {model_name(one) or type(one).__name__!r} "
                f"({what}=) is not known: set it with taograph.models.set_price, or drop the limit"
            )


graph = served(create_reflexion_graph(None, default_tools()))
