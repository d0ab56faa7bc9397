"""Self-consistency: samples of a chain of thought, and the answer that most of them give.

CoT-SC: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", arXiv 2203.11171; with
21 samples at a temperature of 0.7 as the ReAct paper has it (arXiv 2210.03629). The majority is plain, over normalized
answers, and a tie goes to the answer that was seen first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from langchain_core.messages import AIMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite, Send
from typing_extensions import Unpack

from taograph.calls import Cancelled, Steps, TimedOut
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.finishing import finish
from taograph.graphs.loop.internals import node, router
from taograph.graphs.loop.options import Model, Options, Tools, agent_of, compiled, context_of
from taograph.graphs.loop.origin import a_strategy
from taograph.graphs.loop.stage import Body, Stage, stage
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import feedback, instructed
from taograph.graphs.parts.chain_of_thought import THINK, as_answer
from taograph.graphs.parts.voting import (
    Draw,
    Sample,
    Standing,
    VotingInput,
    VotingOutput,
    VotingState,
    affordable,
    next_wave,
    read_sample,
)
from taograph.graphs.protocols import prompts
from taograph.served import served

_AT_ONCE = 64


@a_strategy
def create_self_consistency_graph(
    model: Model,
    tools: Tools = (),
    *,
    samples: int = 21,
    temperature: float = 0.7,
    quorum: int = 0,
    **options: Unpack[Options],
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a graph that answers with the majority of independent chains of thought, without tools.

    Samples are drawn side by side, as far as ``max_concurrency`` of the config allows, in waves of the smallest number
    that could settle the vote (of 21 samples at first 11), and no more once nothing can change the answer. A wave is
    one step of the run. A sample that fails is no vote. An answer that ``verify`` objects to is told with the
    objection, and what is left of the samples votes anew.

    Args:
        model: As :func:`taograph.create_react_graph`. One that refuses a temperature is asked without.
        tools: Taken so that one strategy can stand in for another; none is called.
        samples: How many are drawn at most.
        temperature: What they are drawn at.
        quorum: Votes that the answer needs to be of use to the caller: sampling ends, too, once no answer can have
            so many. The answer is then the one that leads.
        **options: As :func:`taograph.create_react_graph`.

    Returns:
        A compiled graph: ``{"messages": […]}`` in, :class:`~taograph.graphs.parts.voting.VotingOutput` out.

    Raises:
        ValueError: A part cannot be used; the message names it and says the fix.
    """
    check_sampling(samples, temperature)
    if isinstance(quorum, bool) or not isinstance(quorum, int) or not 0 <= quorum <= samples:
        raise ValueError(f"quorum={quorum!r}: give a number of votes from 0 to samples={samples}")
    agent = agent_of(model, (), options, name="self_consistency")

    def route(state: VotingState) -> Literal["finish", "__end__"] | list[Send]:
        if state.get("stop") is not None:
            return "__end__" if state["run"]["done"] else "finish"
        return [Send("sample", task) for task in state["wave"]]

    builder = (
        StateGraph(
            VotingState, context_schema=context_of(options), input_schema=VotingInput, output_schema=VotingOutput
        )
        .add_node("vote", node("vote", stage(agent, _vote(samples, quorum), after=2, checked=False)))
        .add_node("sample", node("sample", branch(agent, _sample(temperature))), input_schema=Draw)
        .add_node("finish", node("finish", finish(agent)))
        .add_edge(START, "vote")
        .add_conditional_edges("vote", router("route", route), ["sample", "finish", END])
        .add_edge("sample", "vote")
        .add_edge("finish", END)
    )
    # Under ``invoke``, LangGraph alone would ask as many at once as the machine has processors, and four. One thread
    # is the stream's.
    return compiled(builder, agent, options).with_config({"max_concurrency": min(samples, _AT_ONCE) + 1})


def check_sampling(samples: Any, temperature: Any) -> None:
    """Refuse a sampling that cannot be.

    Raises:
        ValueError: With the option, and what to give.
    """
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples={samples!r}: give a whole number, 1 or more")
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not math.isfinite(temperature) or temperature < 0:
        raise ValueError(f"temperature={temperature!r}: give a number not below 0, such as 0.7")


def _vote(samples: int, quorum: int) -> Body:
    """What counts the votes and says what is drawn next."""

    def vote(here: Stage, state: VotingState) -> Steps[dict[str, Any]]:
        run, own = here.session.run, dict[str, Any]()
        drawn = (state.get("known") or []) if here.is_new else state["samples"]
        if here.is_new or here.goes_on:
            drawn = [one for one in drawn if one["fault"] is None]  # what failed is drawn again
            own |= {"samples": Overwrite(drawn), "known": []}
        ballot = [one for one in drawn if one["ballot"] == run["objections"]]
        standing, left = Standing.of(ballot), samples - len(drawn)
        votes = own["votes"] = standing.votes(ballot, samples)
        size, leader = next_wave(standing.counts, left, quorum), standing.leader
        if ballot:
            here.session.teller.tell("vote", votes=votes)
            here.session.budget()
        if leader is not None and not size:
            said = _said(leader)
            here.session.messages.append(said)
            here.tell_thought(said)
            found = yield from here.objection_to(leader["answer"], again=left > 0)
            if not found.text:
                how = f"{votes['count']} of {votes['of']} samples gave this answer"
                return {**own, "stop": here.stop("final", "; ".join([how, *found.notes])), "answer": leader["answer"]}
            here.session.messages.append(feedback(found.text, found.kind))
            ballot, size, leader = [], next_wave((), left, quorum), None
        try:
            _check_failed(here, ballot)
            size = _begin_wave(here, size, len(drawn))
        except Ended as end:
            if leader is None:
                return {**own, "stop": end.stop}
            # Marked as a closing answer, which goes when the run goes on.
            why = feedback(prompts.VOTE_ENDED.format(why=end.stop["detail"]), "closing")
            here.session.messages += [why, _said(leader)]
            return {**own, "stop": end.stop, "answer": leader["answer"]}
        # Here, and not in every sample: an earlier part of the conversation may have to be summarized.
        with suppress(Cancelled, TimedOut):  # the samples will meet it, too
            yield from here.session.fitter.request(here.session.bound.model, here.conversation)
        plain = any(one["plain"] for one in drawn)
        last = max((one["number"] for one in drawn), default=0)
        numbers = range(last + 1, last + 1 + size)
        return {**own, "wave": [Draw(number=n, ballot=run["objections"], plain=plain) for n in numbers]}

    return vote


def _check_failed(here: Stage, ballot: Sequence[Sample]) -> None:
    """End a run of whose samples none was answered; one that was cut off or cancelled ends for that."""
    faults = [one for one in ballot if one["fault"] is not None]
    if faults and len(faults) == len(ballot) and faults[0]["fault"] not in ("cancelled", "deadline"):
        detail = f"none of {len(faults)} samples was answered: {faults[0]['detail']}"
        raise Ended(here.stop(faults[0]["fault"] or "model_error", detail))


def _begin_wave(here: Stage, size: int, drawn: int) -> int:
    """A step begins; returns how many samples the limits let it have."""
    session, limits = here.session, here.session.limits
    run, cost = session.run, session.spent["cost"]
    used = session.spent["input_tokens"] + session.spent["output_tokens"]
    asked = count_tokens_approximately(instructed(here.conversation, THINK, "think"))
    run["turn_tokens"], run["turn_cost"] = used // max(drawn, 1), cost / max(drawn, 1)
    here.begin()
    if here.room < 3:  # to draw, to count, and one more
        raise Ended(here.stop("step_limit", here.recursion_detail()))
    here.turn()
    price = session.bound.price
    each = run["turn_cost"] or (price.dollars(asked, 0, 0) if price else 0.0)
    size = affordable(size, used, run["turn_tokens"] or asked, limits.tokens)
    return affordable(size, cost, each, limits.cost)


def _said(leader: Sample) -> AIMessage:
    return as_answer(AIMessage(leader["answer"]), leader["thought"], leader["answer"])


def _sample(temperature: float) -> Callable[[Branch, Draw], Steps[dict[str, Any]]]:
    """What draws one sample."""

    def sample(here: Branch, task: Draw) -> Steps[dict[str, Any]]:
        request = instructed(here.messages, THINK, "think")
        at = None if task["plain"] else temperature
        reply = yield from here.ask(request, temperature=at, quiet=True)
        task = Draw(number=task["number"], ballot=task["ballot"], plain=task["plain"] or here.is_plain)
        return {"samples": [read_sample(reply, here.fault, **task)]}

    return sample


graph = served(create_self_consistency_graph(None))
