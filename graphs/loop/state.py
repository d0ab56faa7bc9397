"""The channels of the loop, and what goes in and comes out of a graph."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import ToolCall
from langgraph.channels import DeltaChannel
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from taograph.graphs.loop.channels import Messages
from taograph.graphs.loop.clock import Clock, merge_clock
from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.fitting import Gauge
from taograph.graphs.loop.stopping import Stop
from taograph.graphs.loop.window import Plan


class Bookkeeping(TypedDict):
    """What the loop remembers of the run at hand; written by ``reason`` and ``finish`` only.

    Attributes:
        id: The run's id, the same after an interrupt.
        turn: Id of the user's message that it answers.
        protocol: How the model is asked: "native" or "text".
        limits: What its context set of the limits; the rest are the graph's.
        steps: Turns taken.
        unusable: Replies in a row that could not be used.
        nudged: Whether the model was told that it repeats itself.
        objections: Times that ``verify`` sent the loop on.
        reminded: Whether the model was told of a required tool.
        called: Names of the tools that were called.
        refused: Call id → why a call of the last turn is not to be run.
        turn_tokens: Tokens that the last turn took.
        turn_cost: Dollars that the last turn took.
        left: Active seconds that were left after the last turn; None for no limit.
        done: Whether the answer is given.
        gauge: What is known of the model's window, and what was counted.
        children: How many of the run's sub-runs are counted in ``steps`` and ``called``.
    """

    id: str
    turn: str
    protocol: Literal["native", "text"]
    limits: dict[str, Any]
    steps: int
    unusable: int
    nudged: bool
    objections: int
    reminded: bool
    called: list[str]
    refused: dict[str, str]
    turn_tokens: int
    turn_cost: float
    left: float | None
    done: bool
    gauge: NotRequired[Gauge]
    children: NotRequired[int]


def latest(plan: Plan, written: Sequence[Plan]) -> Plan:
    """The plan that was written last; when it was read back does not matter."""
    return written[-1] if written else plan


StoredPlan = Annotated[Plan, DeltaChannel(latest, snapshot_frequency=1)]
"""What requests show of the history: kept when it changes, since a summary in every checkpoint would outweigh it."""


def add_spent(left: Spent | None, right: Spent) -> Spent:
    """Add what was spent; the order of the additions does not matter."""
    return {key: left[key] + right[key] for key in left} if left else right  # type: ignore[literal-required,return-value]


class Child(TypedDict):
    """The record of a sub-run.

    Attributes:
        name: The strategy that was run.
        about: What for, such as the step of a plan.
        stop: Why it ended; ``step`` is the number of its turns.
        spent: What it used, which is part of what the run used.
        shared: Whether it ended by a limit that it shares with the run.
        called: Names of the tools that it called.
    """

    name: str
    about: str
    stop: Stop
    spent: Spent
    shared: bool
    called: list[str]


class Input(TypedDict):
    """What a graph takes."""

    messages: Messages


class Output(TypedDict):
    """What a graph gives.

    Attributes:
        messages: The whole trajectory, valid for any provider.
        answer: Never empty, whatever stopped the run.
        stop: Why it ended.
        spent: What it used.
        structured: The answer in the requested ``response_format``, as plain values.
    """

    messages: Messages
    answer: str
    stop: Stop
    spent: Annotated[Spent, add_spent]
    structured: NotRequired[Any]


class State(TypedDict):
    """The channels."""

    messages: Messages
    remaining_steps: RemainingSteps
    stop: Stop | None
    spent: Annotated[Spent, add_spent]
    answer: str
    structured: Any
    run: Bookkeeping
    window: StoredPlan
    clock: Annotated[Clock, merge_clock]


class StrategyState(State):
    """The channels of a strategy that runs other graphs."""

    children: Annotated[list[Child], operator.add]


class StrategyOutput(Output):
    """What such a strategy gives.

    Attributes:
        children: Its sub-runs, in the order in which they ended.
    """

    children: Annotated[list[Child], operator.add]


class ActInput(TypedDict):
    """What one ``act`` task is sent.

    Attributes:
        call: The tool call.
        step: The turn it belongs to.
        run: The run's id.
        refused: Why it is not to be run; None if it is.
        seconds: What was left of the run's time when it was sent; None for no limit.
    """

    call: ToolCall
    step: int
    run: str
    refused: str | None
    seconds: float | None


NOTHING = Spent(model_calls=0, tool_calls=0, input_tokens=0, output_tokens=0, cached_tokens=0, cost=0.0, seconds=0.0)
