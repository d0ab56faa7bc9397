"""The planner and the replanner of Plan-and-Execute: asking for a plan, and for an answer or a new plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Annotated, Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import BaseModel, BeforeValidator, Field

from taograph.calls import Steps
from taograph.graphs.loop.agent import Agent, check_prices
from taograph.graphs.loop.options import Model, Options, agent_of
from taograph.graphs.loop.stage import Stage
from taograph.graphs.loop.structure import Structure, WrongForm, read_structure
from taograph.graphs.loop.subruns import Subrun
from taograph.graphs.loop.trajectory import feedback, feedback_kind, instructed, is_feedback, user_turn
from taograph.graphs.loop.window import first_place
from taograph.graphs.parts.chain_of_thought import thought_and_answer
from taograph.graphs.parts.plan_lists import is_labelled, needed_numbers, read_answer, read_steps, whole_number
from taograph.graphs.parts.plan_prompts import ANSWER, WRONG_CHOICE, WRONG_LIST, ask_choice, ask_plan, work_for
from taograph.graphs.parts.plans import Checked, Listed, PlanStep, Standing, checked, head, told_plan
from taograph.graphs.protocols.native import text_of

T = TypeVar("T")

STEP = "step"
"""The kind of the message that stands before what was done for a step."""
_RESULT = "taograph_step"


class StepForm(BaseModel):
    """A step of a plan."""

    id: Annotated[int, BeforeValidator(lambda value: whole_number(value) or 0)] = Field(0, description="Its number.")
    task: str = Field(description="One thing to find out or to do, in words that can be understood alone.")
    needs: Annotated[list[int], BeforeValidator(needed_numbers)] = Field(
        default_factory=list, description="Numbers of the steps whose results it needs."
    )


class Plan(BaseModel):
    """Give a plan."""

    steps: list[StepForm] = Field(description="The steps.")


class AnswerOrPlan(BaseModel):
    """Give the answer, or a plan of what remains to be done."""

    answer: str = Field("", description="The answer to the question; empty where there is a plan.")
    steps: list[StepForm] = Field(default_factory=list, description="What remains to be done; empty with an answer.")


_PLAN, _ANSWER_OR_PLAN = read_structure(Plan), read_structure(AnswerOrPlan)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a replanner decided.

    Attributes:
        answer: The answer; None where it plans.
        steps: The new steps.
        thought: What was thought before the answer, where it is told.
    """

    answer: str | None
    steps: Sequence[PlanStep] = ()
    thought: str = ""

    @property
    def message(self) -> AIMessage:
        """What is said with it: the answer, or the plan."""
        if self.answer is None:
            return AIMessage(f"New plan:\n{told_plan(self.steps)}")
        return AIMessage(self.answer, additional_kwargs={"reasoning_content": self.thought} if self.thought else {})


@dataclass(frozen=True)
class Planner:
    """Asks for plans.

    Args:
        agent: What the strategy is made of.
        own: The model that plans, where it is another one.
    """

    agent: Agent
    own: Agent | None = None

    def plan(self, here: Stage) -> Steps[list[PlanStep]]:
        """Ask for the first plan.

        Raises:
            Ended: There is none.
        """
        as_list = self._begin(here)
        request = instructed(outline(here.conversation), ask_plan(self.agent.tools, as_list=as_list), "plan")
        if as_list:
            made = yield from here.ask_read(
                request,
                _counting(lambda reply, again: checked(read_steps(text_of(reply)), {}, 1, again=again)),
                again=WRONG_LIST,
            )
        else:
            form = _PLAN
            made = yield from here.ask_form(
                request, _checking(form, lambda value, again: checked(_steps(value), {}, 1, again=again))
            )
        return _told(here, made)

    def decide(self, here: Stage, standing: Standing, news: Sequence[AnyMessage]) -> Steps[Decision]:
        """Ask for the answer, or for a new plan.

        Args:
            here: The stage.
            standing: How the run stands with its plans.
            news: What is put before what is asked.

        Raises:
            Ended: There is neither.
        """
        as_list = self._begin(here)
        done, first = standing.done, standing.next_id
        told = ask_choice(standing, as_list=as_list)
        request = instructed([*outline(here.conversation), *news], told, "replan")
        if not as_list:
            made = yield from here.ask_form(
                request, _checking(_ANSWER_OR_PLAN, lambda value, again: _choice(value, done, first, again))
            )
        else:
            made = yield from here.ask_read(
                request,
                _counting(lambda reply, again: _written_choice(reply, standing, again)),
                again=WRONG_CHOICE,
            )
        if isinstance(made, str):
            return Decision(made)
        return Decision(None, _told(here, made))

    def answer(self, here: Stage, news: Sequence[AnyMessage]) -> Steps[Decision]:
        """Ask for the answer alone: no new plan may be made.

        Raises:
            Ended: There is none.
        """
        self._begin(here)
        reply = yield from here.ask_text(instructed([*outline(here.conversation), *news], ANSWER, "replan"))
        thought, answer = thought_and_answer(reply)
        return Decision(answer, thought=thought)

    def _begin(self, here: Stage) -> bool:
        """Ask the planner from now on; returns whether it is asked for lists."""
        session = here.session
        bound = session.bound
        if self.own is not None:
            bound = self.own.bound(None)
            check_prices(self.own, bound, session.limits)
        # Examples of tool calls are none of plans.
        session.bound = replace(bound, examples=())
        # A small model seldom gets a plan into a form, and does write a list.
        return bound.protocol == "text" or bool(getattr(bound.model, "worked_examples", False))


def planning_agent(planner: Model, agent: Agent, options: Options) -> Agent | None:
    """The model that plans, as the strategy's own is; None where none is given.

    Raises:
        ValueError: It cannot be used, or its price is not known and there is a limit of cost.
    """
    if planner is None:
        return None
    asked: Options = {"protocol": options.get("protocol", "auto"), "limits": agent.limits}
    return agent_of(planner, (), asked, name="planner")


def outline(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A conversation without what was done within the steps: of each, its task and its result."""
    return list(_outline(messages))


def _outline(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    inside = False
    for message in messages:
        ends = _RESULT in message.additional_kwargs or (message.type == "human" and not is_feedback(message))
        if ends or not inside or feedback_kind(message) == STEP:
            yield message
        inside = feedback_kind(message) == STEP or (inside and not ends)


def results_of(messages: Sequence[AnyMessage], steps: Sequence[int]) -> dict[int, str]:
    """What came of steps of the run at hand, whole, by their numbers; the last where there were several attempts."""
    found: dict[int, str] = {}
    for message in reversed(messages):
        if message.type == "human" and not is_feedback(message):
            break
        id: Any = message.additional_kwargs.get(_RESULT)
        if id in steps and id not in found:
            found[id] = str(message.text)
    return {id: found[id] for id in steps if id in found}


def work_of(messages: Sequence[AnyMessage], plan: Sequence[PlanStep], step: PlanStep) -> list[AnyMessage]:
    """What the run of a step is given: the user's question, its task, and the results that it needs.

    Args:
        messages: The messages of the thread.
        plan: The steps, those that it needs among them.
        step: The step.
    """
    place = user_turn(messages)
    if place is None:
        raise ValueError("messages: the question is gone: the state was changed from outside")
    found = results_of(messages, [*step["needs"], step["id"]])
    results = {one["id"]: (one["task"], found.get(one["id"], "")) for one in plan if one["id"] in step["needs"]}
    told = work_for(step["task"], results, found.get(step["id"], ""))
    return [*messages[: first_place(messages)], *instructed([messages[place]], told, STEP)]


def came_of(step: PlanStep, sub: Subrun) -> tuple[PlanStep, list[AnyMessage]]:
    """A step after its run, and the messages for the trajectory.

    It is done where the run answered. Where a limit that it shares with the whole cut it short, it is still to be done.
    """
    stop, status, result = sub["stop"], "done", head(sub["answer"])
    if sub["child"]["shared"] or stop["reason"] == "cancelled":
        status = "pending"
    elif stop["reason"] != "final":
        status, result = "failed", head(f"{stop['reason']}: {stop['detail']}")
    new = sub["messages"]
    if not new or not isinstance(new[-1], AIMessage):
        new = [*new, AIMessage(sub["answer"])]
    last = new[-1].model_copy(update={"additional_kwargs": {**new[-1].additional_kwargs, _RESULT: step["id"]}})
    after: Any = {**step, "status": status, "result": result}
    told = feedback(f"Step {step['id']}: {step['task']}", STEP)
    return after, [told, *new[:-1], last]


def news_of(standing: Standing) -> AnyMessage:
    """What is said before a replanner decides."""
    if standing.failed:
        return feedback("\n".join(f"Step {s['id']} failed: {s['result']}" for s in standing.failed), "replan")
    return feedback(f"Steps done: {', '.join(map(str, standing.done))}.", "replan")


def _steps(value: Mapping[str, Any]) -> list[Listed]:
    return [Listed(step["id"] or None, step["task"], tuple(step["needs"])) for step in value["steps"]]


def _choice(value: Mapping[str, Any], done: Mapping[int, str], first: int, again: bool) -> Checked | str:
    answer = value["answer"].strip()
    if bool(answer) == bool(value["steps"]):
        raise WrongForm(f"{'both' if answer else 'neither'} the answer {'and' if answer else 'nor'} steps are given")
    return answer or checked(_steps(value), done, first, again=again)


def _written_choice(reply: AIMessage, standing: Standing, again: bool) -> Checked | str:
    """What a text decides. Words without a label are the answer where nothing is left to be done."""
    text, is_over = text_of(reply), not standing.left
    answer = read_answer(text)
    if answer:
        return answer
    listed = read_steps(text)
    if listed and (is_labelled(text) or not is_over):
        return checked(listed, standing.done, standing.next_id, again=again)
    if is_over or again:
        return text
    raise WrongForm('there is neither "Verdict:" nor a numbered list')


def _checking(form: Structure, check: Callable[[Any, bool], Any]) -> Structure:
    """A form whose values are checked beyond their shape, so that what is wrong is told and asked for again."""
    counted = _counting(check)
    return replace(form, validate=lambda value: counted(form.validate(value)))


def _counting(check: Callable[[Any, bool], T]) -> Callable[[Any], T]:
    """A check that is told whether there was one before."""
    times = count()
    return lambda value: check(value, next(times) > 0)


def _told(here: Stage, made: Checked) -> list[PlanStep]:
    if made.repairs:
        here.session.teller.tell("retry", reason="plan", detail="; ".join(made.repairs))
    return made.steps
