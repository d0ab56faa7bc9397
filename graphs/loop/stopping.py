"""The stop policy: small named rules over what a run has done, asked before every turn.

To add a cause, add its name to :data:`StopReason`, a rule, and its place in :data:`RULES`. What a reply itself
decides (a final answer, a refusal, a broken reply) is in ``reasoning.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from taograph.graphs.loop.events import Spent
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.trajectory import Step, Trajectory

StopReason = Literal[
    "final",
    "step_limit",
    "tool_call_limit",
    "deadline",
    "token_limit",
    "cost_limit",
    "repeated_action",
    "tool_errors",
    "malformed_output",
    "empty_output",
    "refusal",
    "model_error",
    "rejected",
    "cancelled",
]


class Stop(TypedDict):
    """Why a run ended.

    Attributes:
        reason: The cause, one of :data:`StopReason`.
        detail: The same in words, with the numbers that decided it.
        step: The turn at which it ended.
    """

    reason: StopReason
    detail: str
    step: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What the rules look at: a run as it stands before its next turn.

    Attributes:
        trajectory: Its last steps, as many as the rules need (:func:`tail_needed`).
        limits: What it may use.
        spent: What it has used, ``seconds`` up to now.
        steps: Turns taken.
        turn_tokens: Tokens that the last turn took, an estimate of the next; 0 if unknown.
        turn_cost: Dollars that the last turn took, likewise.
        nudged: Whether the model was told that it repeats itself.
    """

    trajectory: Trajectory
    limits: Limits
    spent: Spent
    steps: int
    turn_tokens: int = 0
    turn_cost: float = 0.0
    nudged: bool = False


Verdict = tuple[StopReason, str]


def deadline(run: Progress) -> Verdict | None:
    """The active time is over."""
    limit = run.limits.seconds
    if limit is None or run.spent["seconds"] < limit:
        return None
    return "deadline", f"{run.spent['seconds']:.1f} of {limit:g} seconds used"


def token_limit(run: Progress) -> Verdict | None:
    """The tokens do not reach for one more turn and a closing answer after it."""
    limit, used = run.limits.tokens, run.spent["input_tokens"] + run.spent["output_tokens"]
    if limit is None or (used + 2 * run.turn_tokens <= limit and used < limit):
        return None
    return "token_limit", f"{used} of {limit} tokens used; a turn takes about {run.turn_tokens}"


def cost_limit(run: Progress) -> Verdict | None:
    """The money does not reach for one more turn and a closing answer after it."""
    limit, used = run.limits.cost, run.spent["cost"]
    if limit is None or (used + 2 * run.turn_cost <= limit and used < limit):
        return None
    return "cost_limit", f"${used:.4f} of ${limit:g} used; a turn takes about ${run.turn_cost:.4f}"


def repeated_action(run: Progress) -> Verdict | None:
    """The same round of one to three steps came ``limits.repeats`` times with the same outcome."""
    found = cycle(run.trajectory.steps) if run.nudged else None
    if found is None or found.times < run.limits.repeats:
        return None
    return "repeated_action", f"{found} with the same result, also after a nudge"


def tool_errors(run: Progress) -> Verdict | None:
    """Every call failed in ``limits.errors`` turns in a row."""
    acted = [step for step in run.trajectory.steps if step.observations]
    tail = acted[-run.limits.errors :]
    if len(tail) < run.limits.errors or not all(step.failed for step in tail):
        return None
    return "tool_errors", f"every call failed in {len(tail)} turns in a row"


def rejected(run: Progress) -> Verdict | None:
    """A person ended the run with a rejection, or rejected every call in ``limits.errors`` turns in a row."""
    acted = [step for step in run.trajectory.steps if step.observations]
    if acted and any(o.rejected == "stop" for o in acted[-1].observations):
        return "rejected", "a person rejected a call and ended the run"
    tail = acted[-run.limits.errors :]
    if len(tail) < run.limits.errors or not all(o.rejected for step in tail for o in step.observations):
        return None
    return "rejected", f"a person rejected every call in {len(tail)} turns in a row"


def step_limit(run: Progress) -> Verdict | None:
    """The turns are used up."""
    limit = run.limits.steps
    if limit is None or run.steps < limit:
        return None
    return "step_limit", f"{run.steps} of {limit} steps used"


Rule = Callable[[Progress], Verdict | None]

RULES: tuple[Rule, ...] = (rejected, deadline, cost_limit, token_limit, tool_errors, repeated_action, step_limit)
"""The rules in the order in which they are asked; the first that speaks decides."""

BUDGETS: tuple[Rule, ...] = (deadline, cost_limit, token_limit, step_limit)
"""Those that say what a run has used up: for strategies that see for themselves to what their parts did."""


def decide(run: Progress, rules: Sequence[Rule] = RULES) -> Stop | None:
    """The stop policy: the first rule that ends the run, or None."""
    for rule in rules:
        verdict = rule(run)
        if verdict is not None:
            return Stop(reason=verdict[0], detail=verdict[1], step=run.steps)
    return None


def nudge(run: Progress) -> str | None:
    """What to tell a model that is about to be stopped for repeating itself; None if it is not, or was told.

    It offers another way and does not echo the call, which would only make the call more likely.
    """
    found = None if run.nudged else cycle(run.trajectory.steps)
    if found is None or found.times < max(2, run.limits.repeats - 1):
        return None
    return (
        "The last actions brought the same result more than once, and repeating them will not change it. "
        "Use what the observations already say and answer now, or try a different tool or different arguments."
    )


@dataclass(frozen=True, slots=True)
class Cycle:
    """A round of ``period`` steps that came ``times`` times in a row at the end of a run."""

    period: int
    times: int

    def __str__(self) -> str:
        what = "the same action" if self.period == 1 else f"the same round of {self.period} actions"
        return f"{what} {self.times} times"


def cycle(steps: Sequence[Step], longest: int = 3) -> Cycle | None:
    """The round that the last steps repeat with equal calls and equal outcomes, or None.

    A poll whose result changes is no repetition; nor is a step that did not act.
    """
    acted: list[Step] = []
    for step in reversed(steps):
        if not step.actions:
            break
        acted.append(step)
    for period in range(1, longest + 1):
        if len(acted) < 2 * period:
            break
        times = 1
        while len(acted) >= (times + 1) * period and _same(acted[:period], acted[times * period :]):
            times += 1
        if times > 1:
            return Cycle(period, times)
    return None


def _same(round_: Sequence[Step], other: Sequence[Step]) -> bool:
    """Whether steps did and saw the same; most saw something else, which is quick to see."""
    pairs = list(zip(round_, other, strict=False))
    return all(a.saw_as(b) for a, b in pairs) and all(a.signature == b.signature for a, b in pairs)


def tail_needed(limits: Limits) -> int:
    """How many of the last steps the rules look at."""
    return max(3 * (limits.repeats + 1), limits.errors + limits.malformed + 1) + 1
