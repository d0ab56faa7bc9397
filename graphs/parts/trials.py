"""Reflexion's nodes: begin, try, judge, reflect; and what they keep of it."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Overwrite

from taograph.calls import Steps
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.stage import Body, Stage
from taograph.graphs.loop.state import Child, StrategyOutput, StrategyState
from taograph.graphs.loop.stopping import Stop
from taograph.graphs.loop.subruns import Branch
from taograph.graphs.loop.trajectory import feedback, instructed, read_trajectory
from taograph.graphs.parts import evaluating, reflecting
from taograph.graphs.parts.chain_of_thought import thought_and_answer
from taograph.graphs.parts.evaluating import SAMPLES, Verdict
from taograph.graphs.parts.reflecting import TRIGGERS, Trial, split_trials
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import text_of
from taograph.models.prices import price_of
from taograph.models.windows import window_of

_TEMPERATURE = 0.7


class TrialsState(StrategyState):
    """The channels.

    Attributes:
        trials: The trials of the run.
        reflections: What was noted after each that failed, but for the last.
        samples: What the samples of the evaluator "agreement" said.
        next: What is to be done next, also where a run that a limit ended goes on.
        oracle: Whether the evaluator knows the right answer.
    """

    trials: list[Trial]
    reflections: list[str]
    samples: Annotated[list[str], operator.add]
    next: Literal["trial", "evaluate", "sample", "reflect"]
    oracle: bool


class TrialsOutput(StrategyOutput):
    """What comes of it.

    Attributes:
        trials: The trials, the verdict and the reason of each.
        reflections: What was noted after each that failed, but for the last.
        oracle: Whether the evaluator knew the right answer; then figures are not those of use.
    """

    trials: list[Trial]
    reflections: list[str]
    oracle: bool


@dataclass(frozen=True)
class Trials:
    """What the nodes do.

    Attributes:
        agent: What the strategy is made of.
        actor: The graph of a trial.
        limits: What a trial may use.
        judge: The evaluator, see :func:`taograph.graphs.reflexion.create_reflexion_graph`.
        most: How many trials there are at most.
        memory: How many reflections a trial is given.
        trigger: When a trial counts as stuck.
        oracle: Whether the evaluator knows the right answer.
        reflector: What reflects, where it is not the run's own model.
    """

    agent: Agent
    actor: CompiledStateGraph[Any, Any, Any, Any]
    limits: Limits
    judge: Any
    most: int
    memory: int
    trigger: str
    oracle: bool
    reflector: BaseChatModel | None

    @property
    def fresh(self) -> dict[str, Any]:
        """What the channels hold when a run begins."""
        return {"trials": [], "reflections": [], "samples": Overwrite([]), "next": "trial", "oracle": self.oracle}

    def begin(self, here: Stage, state: TrialsState) -> Steps[dict[str, Any]]:
        """A run begins, or goes on where a limit cut it."""
        yield from ()
        if not here.goes_on:
            return {}
        here.session.removed += [str(message.id) for message in reflecting.closing_words(here.history)]
        judged = [trial for trial in state["trials"] if trial["verdict"] != "cut"]
        update: dict[str, Any] = {"trials": judged, "samples": Overwrite([])}
        cut = [trial for trial in state["trials"] if trial["verdict"] == "cut"]
        if state["next"] == "trial" and cut and cut[-1]["stop"]["reason"] == "final":
            update["next"] = "evaluate"  # it came to its answer, and was not judged
        return update

    def act(self, here: Branch, state: TrialsState) -> Steps[dict[str, Any]]:
        """A trial; one that was cut goes on from what it had done."""
        asked, trials = split_trials(here.messages)
        if state["reflections"]:
            notes = reflecting.noted(state["reflections"], self.memory)
            asked = instructed(asked, reflecting.MEMORY.format(lessons=notes), "reflection", aside=True)
        done = [message for message in trials[-1] if not reflecting.is_composed(message)]
        about = f"trial {len(state['trials']) + 1} of {self.most}"
        ended = yield from here.run(self.actor, self.limits, [*asked, *done], name="react", about=about)
        return {"messages": ended["messages"]}

    def sample(self, here: Branch, number: int) -> Steps[dict[str, Any]]:
        """One more answer from the observations of the trial."""
        asked, trials = split_trials(here.messages)
        request = instructed([*asked, *trials[-1][:-1]], reflecting.SAMPLE, "sample")
        closing = here.session.bound.closing
        reply = yield from here.ask(request, model=closing, temperature=_TEMPERATURE, quiet=True)
        return {"samples": ["" if reply is None else thought_and_answer(reply)[1]]}

    def evaluate(self, here: Stage, state: TrialsState) -> Steps[dict[str, Any]]:
        """Judge the trial that ended."""
        asked, trials = split_trials(here.conversation)
        talk, child = [asked[-1], *trials[-1]], state["children"][-1]
        number, stop = len(state["trials"]) + 1, child["stop"]
        answer = reflecting.answer_of(trials[-1]) if stop["reason"] == "final" else ""
        pays = self.judge == "agreement" or isinstance(self.judge, BaseChatModel)
        if not answer or pays:
            here.begin()
        if stop["reason"] in ("model_error", "refusal", "rejected"):
            raise Ended(here.stop(stop["reason"], f"trial {number}: {stop['detail']}"))
        if answer and self.judge == "agreement" and state["next"] != "sample":
            self._can_sample(here, trials[-1][-1], child)
            here.turn()
            return {"next": "sample", "samples": Overwrite([])}
        verdict = yield from self._verdict(here, state, answer, talk, stop)
        notes = [verdict.note] if verdict.note else []
        if verdict.passed:
            found = yield from here.objection_to(answer, again=number < self.most)
            verdict = replace(verdict, passed=not found.text, reason=_bare(found.text) or verdict.reason)
            notes += found.notes
        record = _record(number, verdict, stop)
        update: dict[str, Any] = {"trials": [*state["trials"], record], "next": "trial"}
        if verdict.passed:
            said = "; ".join([f"trial {number} of {self.most} passed", *notes])
            return {**update, "stop": here.stop("final", self._labeled(said)), "answer": answer}
        here.session.teller.tell("retry", reason="trial", detail=self._failed(number, verdict))
        if number < self.most:
            return {**update, "next": "reflect"}
        return {**update, **self._best(here, update["trials"], stop)}

    def _can_sample(self, here: Stage, last: AnyMessage, child: Child) -> None:
        """See to it that the tokens and the money reach for a round of samples: each is about what the answer took.

        Raises:
            Ended: They do not.
        """
        limits, spent, whole = here.session.limits, here.session.spent, child["spent"]
        total = whole["input_tokens"] + whole["output_tokens"]
        usage = last.usage_metadata if isinstance(last, AIMessage) else None
        tokens = usage["total_tokens"] if usage else total / max(1, whole["model_calls"])
        used = spent["input_tokens"] + spent["output_tokens"]
        if limits.tokens is not None and used + SAMPLES * tokens > limits.tokens:
            said = f"{used} of {limits.tokens} tokens used; {SAMPLES} samples take about {SAMPLES * tokens:.0f}"
            raise Ended(here.stop("token_limit", said))
        cost = SAMPLES * whole["cost"] * tokens / total if total else 0.0
        if limits.cost is not None and spent["cost"] + cost > limits.cost:
            said = f"${spent['cost']:.4f} of ${limits.cost:g} used; {SAMPLES} samples take about ${cost:.4f}"
            raise Ended(here.stop("cost_limit", said))

    def reflect(self, here: Stage, state: TrialsState) -> Steps[dict[str, Any]]:
        """Find out what went wrong, and note what to do better."""
        here.begin()
        steps, limit = here.session.run["steps"], here.session.limits.steps
        # Without another trial, what is noted would be of no use.
        if limit is not None and steps + 2 > limit:
            raise Ended(here.stop("step_limit", f"{steps} of {limit} steps used, and another trial needs 2"))
        if here.room < 3:
            raise Ended(here.stop("step_limit", here.recursion_detail()))
        last, lessons = state["trials"][-1], state["reflections"]
        reply = yield from self._noting(here, last, reflecting.noted(lessons, self.memory))
        lesson = text_of(reply)[: reflecting.LESSON_CHARS]
        told = reflecting.NEXT.format(number=last["trial"], reason=last["reason"], lesson=lesson)
        here.send_back(told, reflecting.BOUNDARY, lesson)
        return {"reflections": [*lessons, lesson], "next": "trial"}

    def _noting(self, here: Stage, last: Trial, notes: str) -> Steps[AIMessage]:
        """Ask what went wrong in the last trial; with less of its log where that is too long for the model."""
        asked, trials = split_trials(here.conversation)
        trajectory, answer = read_trajectory([asked[-1], *trials[-1]]), reflecting.answer_of(trials[-1])
        other: dict[str, Any] = {"model": self.reflector, "price": price_of(self.reflector)} if self.reflector else {}
        while True:
            room = self._log_room(here)
            request = reflecting.REFLECT.format(
                question=here.question,
                earlier=reflecting.EARLIER.format(lessons=notes) if notes else "",
                log=reflecting.log_of(trajectory, answer, room),
                reason=last["reason"],
            )
            try:
                return (yield from here.ask_text([HumanMessage(request)], **other))
            except Ended as end:  # a request that was refused as too long has told how long it may be
                if end.stop["reason"] != "model_error" or self._log_room(here) >= room:
                    raise

    def _log_room(self, here: Stage) -> int:
        run, model = here.session.run, self.reflector or here.session.bound.given
        gauge: Any = run.get("gauge") or {}
        known = [gauge.get("window"), run["limits"].get("window"), window_of(model)]
        return reflecting.log_room(min((size for size in known if size), default=None))

    def ends_well(self, body: Body, after: int) -> Body:
        """The body of a stage whose run ends with the answer of the best trial so far, where it is cut."""

        def whole(here: Stage, state: TrialsState) -> Steps[dict[str, Any]]:
            update: dict[str, Any] = {}
            try:
                update = yield from body(here, state)
                if update.get("stop") is None and here.room < after + 1:
                    raise Ended(here.stop("step_limit", here.recursion_detail()))
            except Ended as end:
                done = {**state, **update}
                return {**update, **self._cut(here, cast(TrialsState, done), end.stop)}
            return update

        return whole

    def _cut(self, here: Stage, state: TrialsState, stop: Stop) -> dict[str, Any]:
        """The run ends here: the trial that is not judged yet is told of, and the best answer is given."""
        trials = state["trials"]
        if any(split_trials(here.conversation)[1][len(trials) :]):
            why, ended = f"the run ended before it was judged: {stop['detail']}", state["children"][-1]["stop"]
            trials = [*trials, Trial(trial=len(trials) + 1, verdict="cut", reason=why, stop=ended)]
        best = reflecting.best_trial(trials)
        if best is None:
            return {"trials": trials, "stop": Stop(**{**stop, "detail": self._labeled(stop["detail"])})}
        said = f"{stop['detail']}; the answer of trial {best['trial']} is given, which did not pass: {best['reason']}"
        if best["verdict"] == "cut":
            said = f"{stop['detail']}; the answer of trial {best['trial']} is given, which was not judged"
        return {"trials": trials, "stop": here.stop(stop["reason"], self._labeled(said)), **self._give(here, best)}

    def _best(self, here: Stage, trials: list[Trial], last: Stop) -> dict[str, Any]:
        """What is given where no trial passed."""
        best = reflecting.best_trial(trials)
        if best is None:
            said = f"none of {len(trials)} trials came to an answer; the last: {last['detail']}"
            return {"stop": here.stop(last["reason"], self._labeled(said))}
        said = f"none of {len(trials)} trials passed; the answer of trial {best['trial']} is given: {best['reason']}"
        return {"stop": here.stop("final", self._labeled(said)), **self._give(here, best)}

    def _give(self, here: Stage, best: Trial) -> dict[str, Any]:
        trials = split_trials(here.conversation)[1]
        answer = reflecting.answer_of(trials[best["trial"] - 1])
        last = here.conversation[-1]
        if not isinstance(last, AIMessage) or text_of(last) != answer:
            given = feedback(reflecting.GIVE.format(number=best["trial"]), reflecting.GIVEN)
            here.session.messages += [given, AIMessage(answer)]
        return {"answer": answer}

    def _verdict(self, here: Stage, state: TrialsState, answer: str, talk: list[Any], stop: Stop) -> Steps[Verdict]:
        if not answer:
            return evaluating.stopped(stop)
        trajectory = read_trajectory(talk)
        if self.judge is None:
            return evaluating.heuristic(trajectory, TRIGGERS[self.trigger].says)
        if self.judge == "tool_errors":
            return evaluating.tool_errors(trajectory)
        if self.judge == "agreement":
            return evaluating.agreement(answer, state["samples"])
        return (yield from evaluating.judged(here.session, self.judge, answer, talk))

    def _failed(self, number: int, verdict: Verdict) -> str:
        return self._labeled(f"trial {number} of {self.most} did not pass: {verdict.reason}")

    def _labeled(self, said: str) -> str:
        return f"{said} (judged with the right answer)" if self.oracle else said


def _bare(objection: str) -> str:
    """An objection without what a loop tells the model around it."""
    before, _, after = prompts.OBJECTION.partition("{objection}")
    return objection.removeprefix(before).removesuffix(after)


def _record(number: int, verdict: Verdict, stop: Stop) -> Trial:
    reason = (verdict.reason or verdict.note)[: reflecting.REASON_CHARS]
    record = Trial(trial=number, verdict="passed" if verdict.passed else "failed", reason=reason, stop=stop)
    return record if verdict.score is None else Trial(**record, score=verdict.score)
