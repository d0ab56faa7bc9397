"""Plans: steps with what each needs, what makes a plan sound, and how one is told.

A plan is a list of plain dicts, so that it can be stored, streamed and read in a trace as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from typing_extensions import TypedDict

from taograph.graphs.loop.state import StrategyOutput, StrategyState
from taograph.graphs.loop.structure import WrongForm

Status = Literal["pending", "running", "done", "failed"]

MOST_STEPS = 20
_HEAD_CHARS = 300
_WORD = re.compile(r"\w+")


class PlanStep(TypedDict):
    """A step of a plan.

    Attributes:
        id: Its number, from 1; a new plan goes on counting.
        task: What is to be done.
        needs: Numbers of the steps whose results it needs.
        status: How it stands.
        result: The beginning of what came of it; the whole is in the messages.
    """

    id: int
    task: str
    needs: list[int]
    status: Status
    result: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A step as a model wrote it.

    Attributes:
        id: The number that it was given; None for none.
        task: What is to be done.
        needs: The numbers it names; None where nothing is said about it.
    """

    id: int | None
    task: str
    needs: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan that can be carried out.

    Attributes:
        steps: Its steps, numbered on, all of them pending.
        repairs: What was mended in it, in words.
    """

    steps: list[PlanStep]
    repairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands with its plans.

    Attributes:
        steps: The steps of the plan at hand, and those of earlier plans that were carried out.
        since: The number of the first step of the plan at hand.
    """

    steps: Sequence[PlanStep]
    since: int

    @property
    def plan(self) -> list[PlanStep]:
        """The plan at hand."""
        return [step for step in self.steps if step["id"] >= self.since]

    @property
    def done(self) -> dict[int, str]:
        """Tasks of all steps that are done, by their numbers."""
        return {step["id"]: step["task"] for step in self.steps if step["status"] == "done"}

    @property
    def failed(self) -> list[PlanStep]:
        """Steps of the plan at hand that failed."""
        return [step for step in self.plan if step["status"] == "failed"]

    @property
    def left(self) -> list[PlanStep]:
        """Steps of the plan at hand that are not done, those that failed included."""
        return [step for step in self.plan if step["status"] != "done"]

    @property
    def ready(self) -> list[PlanStep]:
        """Steps that can be carried out now: all that they need is done."""
        done = self.done.keys()
        return [step for step in self.left if step["status"] != "failed" and done >= set(step["needs"])]

    @property
    def next_id(self) -> int:
        """The number of the next new step."""
        return max((step["id"] for step in self.steps), default=0) + 1

    def begun(self) -> list[PlanStep]:
        """All steps, with those that are carried out now as running."""
        ready = {step["id"] for step in self.ready}
        return [PlanStep(**{**step, "status": "running"}) if step["id"] in ready else step for step in self.steps]

    def replaced(self, steps: Sequence[PlanStep]) -> Standing:
        """With a new plan: what was carried out stays, and what was not is dropped."""
        kept = [step for step in self.steps if step["status"] in ("done", "failed")]
        return Standing([*kept, *steps], steps[0]["id"])


def checked(
    listed: Sequence[Listed], done: Mapping[int, str], first: int, *, again: bool = False, most: int = MOST_STEPS
) -> Checked:
    """The plan that a model wrote, mended where its meaning is clear.

    Only remaining steps may be in a plan, so one that is done already is left out, and what needs it has its result.

    Args:
        listed: The steps as they were written.
        done: Tasks of the steps that are done, by their numbers.
        first: The number of the plan's first step.
        again: Whether it was asked for again already: where what its steps need makes no sense, they are taken one
            after the other, as they stand.
        most: How many steps it may have.

    Raises:
        WrongForm: It cannot be carried out, and what was meant is not clear; the text says it to the model.
    """
    kept, repairs, known = _remaining(listed, done)
    if not kept:
        raise WrongForm("all of its steps are done already" if known else "there is no step in it")
    if len(kept) > most:
        raise WrongForm(f"it has {len(kept)} steps, and {most} are the most: put some together")
    in_order = [list(range(first, id)) for id in range(first, first + len(kept))]
    if len(kept) > 1 and all(one.needs is None for one in kept):  # a plain list: each after all before it
        return Checked(_planned(kept, in_order, first), tuple(repairs))
    try:
        steps = _planned(kept, _all_needs(kept, {**{id: id for id in done}, **known}, first, repairs), first)
    except WrongForm as wrong:
        if not again:
            raise
        steps = _planned(kept, in_order, first)
        repairs.append(f"{wrong}: the steps are taken in their order")
    return Checked(steps, tuple(repairs))


def normalized(task: str) -> str:
    """A task without what does not change its meaning: case, blanks, punctuation."""
    return " ".join(_WORD.findall(task.casefold())) or task.strip()


def is_same(plan: Collection[PlanStep], other: Collection[PlanStep]) -> bool:
    """Whether two plans are the same tasks, whatever their numbers and their order."""
    return sorted(normalized(step["task"]) for step in plan) == sorted(normalized(step["task"]) for step in other)


def merge_plan(plan: Sequence[PlanStep] | None, written: Sequence[PlanStep]) -> list[PlanStep]:
    """A plan with some of its steps replaced by what became of them."""
    fresh = {step["id"]: step for step in written}
    known = [fresh.pop(step["id"], step) for step in plan or ()]
    return [*known, *fresh.values()]


class Planning(TypedDict):
    """How far the planning is.

    Attributes:
        since: The number of the first step of the plan at hand.
        replans: How many new plans there were.
    """

    since: int
    replans: int


class PlanState(StrategyState):
    """The channels of Plan-and-Execute."""

    plan: Annotated[list[PlanStep], merge_plan]
    planning: Planning


class PlanOutput(StrategyOutput):
    """What Plan-and-Execute gives.

    Attributes:
        plan: The steps, with what became of each; those of earlier plans that were carried out stand before.
    """

    plan: Annotated[list[PlanStep], merge_plan]


def told_plan(steps: Sequence[PlanStep]) -> str:
    """A plan as a numbered list."""
    return "\n".join(f"{step['id']}. {step['task']}{_needs_of(step)}" for step in steps)


def told_progress(steps: Sequence[PlanStep]) -> str:
    """How a plan stands, step by step; for a step that failed, why."""
    return "\n".join(
        f"{step['id']}. [{'open' if step['status'] in ('pending', 'running') else step['status']}] {step['task']}"
        + (f" ({step['result']})" if step["status"] == "failed" else "")
        for step in steps
    )


def head(text: str) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _HEAD_CHARS else f"{flat[: _HEAD_CHARS - 1]}…"


def _needs_of(step: PlanStep) -> str:
    return f" (needs: {', '.join(map(str, step['needs']))})" if step["needs"] else ""


def _remaining(listed: Sequence[Listed], done: Mapping[int, str]) -> tuple[list[Listed], list[str], dict[int, int]]:
    """The steps that are to be done; what was left out, in words; and which done step a number of those stands for."""
    tasks = {normalized(task): id for id, task in done.items()}
    kept: list[Listed] = []
    repairs: list[str] = []
    known: dict[int, int] = {}
    for place, one in enumerate(listed, 1):
        number = one.id or place
        was = tasks.get(normalized(one.task))
        if not one.task.strip():
            repairs.append(f"step {number} had no task and was left out")
        elif was is not None:
            repairs.append(f"step {number} is done already (step {was}) and was left out")
            known[number] = was
        else:
            kept.append(one)
    return kept, repairs, known


def _planned(kept: Sequence[Listed], needs: Sequence[list[int]], first: int) -> list[PlanStep]:
    """The steps with their numbers.

    Raises:
        WrongForm: Some could never begin.
    """
    steps = [
        PlanStep(id=id, task=one.task.strip(), needs=needed, status="pending", result="")
        for id, (one, needed) in enumerate(zip(kept, needs, strict=True), first)
    ]
    circle = _circle(steps)
    if circle:
        named = ", ".join(str(kept[id - first].id or id - first + 1) for id in circle)
        raise WrongForm(f"the steps {named} need each other in a circle, so none of them could begin")
    return steps


def _all_needs(kept: Sequence[Listed], done: Mapping[int, int], first: int, repairs: list[str]) -> list[list[int]]:
    """What each step needs, as the plan is numbered in the end.

    Args:
        kept: The steps.
        done: The numbers of the steps that are done, by what the model may call them.
        first: The number of the first step.
        repairs: Is added to.

    Raises:
        WrongForm: A need is not clear.
    """
    ids = {number: first + place for number, place in _places(kept, repairs).items()}
    return [_needs(one, id, ids, done, repairs) for id, one in enumerate(kept, first)]


def _places(kept: Sequence[Listed], repairs: list[str]) -> dict[int, int]:
    """Where each number stands.

    Raises:
        WrongForm: A number stands for several steps, and it is needed.
    """
    numbers = [one.id or 0 for one in kept]
    twice = {number for number in numbers if number and numbers.count(number) > 1}
    if not any(numbers) or (len(kept) > 1 and len(set(numbers)) == 1):  # "1." before every step, as in Markdown
        return {place + 1: place for place in range(len(kept))}
    needed = {need for one in kept for need in one.needs or ()}
    if twice & needed:
        raise WrongForm(f"several steps have the number {min(twice & needed)}: give each its own")
    if twice:
        repairs.append(f"several steps had the number {min(twice)} and were numbered anew")
    return {number: place for place, number in enumerate(numbers) if number and number not in twice}


def _needs(one: Listed, own: int, ids: Mapping[int, int], done: Mapping[int, int], repairs: list[str]) -> list[int]:
    """The numbers of what a step needs, as the plan is numbered in the end.

    Args:
        one: The step.
        own: Its number in the end.
        ids: The numbers in the end, by those that the model gave.
        done: The numbers of the steps that are done, by what the model may call them.
        repairs: Is added to.

    Raises:
        WrongForm: It needs a step that there is not.
    """
    found: set[int] = set()
    for need in one.needs or ():
        if need in ids and ids[need] != own:
            found.add(ids[need])
        elif need in done:
            found.add(done[need])
        elif need in ids or need == 0:
            if need:
                repairs.append(f"step {need} was to need itself")
        else:
            raise WrongForm(f"step {one.id or own} needs step {need}, which there is not")
    return sorted(found)


def _circle(steps: Sequence[PlanStep]) -> list[int]:
    """Numbers of the steps that could never begin, since they need each other."""
    left = {step["id"]: set(step["needs"]) for step in steps}
    while True:
        free = [id for id, needs in left.items() if not needs & left.keys()]
        if not free:
            return sorted(left)
        for id in free:
            del left[id]
