"""When a hybrid goes from the loop to the vote, or from the vote to the loop.

Yao et al., arXiv 2210.03629, section 3.2: to the vote where the loop has no answer within its steps; to the loop where
the majority has fewer than half of the votes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Annotated, Literal

from typing_extensions import TypedDict

from taograph.graphs.loop.state import StrategyOutput, StrategyState
from taograph.graphs.loop.stopping import Stop, StopReason
from taograph.graphs.parts.voting import Sample, Votes

FOLLOWING = {
    "samples": "The work with tools ended without an answer ({why}). Independent tries vote on the question.",
    "react": "The vote does not settle the question ({why}). It is worked on with tools.",
}
"""What is said in the run when the other branch begins."""

# Endings after which the other way may well find what this one did not. A person's no, a refusal and an endpoint that
# is down are none of them.
_DONE: frozenset[StopReason] = frozenset(
    {"final", "step_limit", "repeated_action", "tool_errors", "malformed_output", "empty_output"}
)


Which = Literal["react", "samples"]


class Tried(TypedDict):
    """What a branch gave.

    Attributes:
        branch: Which.
        answer: Its answer.
        stop: Why it ended.
        votes: Votes for the answer, where there was a vote.
    """

    branch: Which
    answer: str
    stop: Stop
    votes: int


class Begin(TypedDict):
    """What a branch is sent.

    Attributes:
        which: The branch.
        whole: Whether it is given what was done already: a run that a limit ended goes on.
        known: Samples that were drawn then.
    """

    which: Which
    whole: bool
    known: list[Sample]


class HybridState(StrategyState):
    """The channels: besides a strategy's, what was tried, what is next, the samples and the result of the vote."""

    samples: list[Sample]
    tried: Annotated[list[Tried], operator.add]
    next: Begin
    branch: Which
    votes: Votes | None


class HybridOutput(StrategyOutput):
    """What the graph gives.

    Attributes:
        branch: The branch that answered; where the run was stopped, the one that was run last.
        votes: The result of the vote, where there was one.
    """

    branch: Which
    votes: Votes | None


def answers(tried: Sequence[Tried], needed: int) -> bool:
    """Whether the last branch has the answer.

    Args:
        tried: The branches that were run, in order.
        needed: Votes that a majority needs where the loop can follow it.
    """
    last = tried[-1]
    if last["stop"]["reason"] != "final":
        return False
    return last["branch"] == "react" or len(tried) > 1 or last["votes"] >= needed


def is_followed(tried: Sequence[Tried]) -> bool:
    """Whether the other branch is run after one that has no answer; limits of the run itself are not asked here."""
    return len(tried) == 1 and tried[0]["stop"]["reason"] in _DONE


def other(branch: Which) -> Which:
    """The other branch."""
    return "samples" if branch == "react" else "react"
