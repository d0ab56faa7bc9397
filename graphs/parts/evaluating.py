"""Reflexion's evaluators: what judges the answer of a trial.

No evaluator knows the right answer unless the caller says so: the published results on questions come from giving the
actor another try exactly where the gold answer says that it was wrong, which nobody can do outside of a benchmark.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage

from taograph.calls import TOOL_THREADS, Call, Cancelled, Steps, TimedOut
from taograph.graphs.loop.session import Session
from taograph.graphs.loop.stopping import Stop
from taograph.graphs.loop.trajectory import Trajectory, read_trajectory
from taograph.graphs.loop.verifying import objection
from taograph.graphs.parts.answers import answer_key, normalize_answer

SAMPLES = 3
"""How many samples have to agree, in the evaluator "agreement": more than half of them with the answer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an evaluator says of a trial; one can return it instead of a bool or a text.

    Attributes:
        passed: Whether the answer is good enough.
        reason: Why not; the self-reflection is told.
        score: A number by which the best of several failed trials is chosen; higher is better.
        note: Why it could not judge; then the answer stands, and the result says so.
    """

    passed: bool
    reason: str = ""
    score: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Oracle:
    """An evaluator that knows the right answer; see :func:`exact_match` and :func:`oracle`.

    Attributes:
        judge: A function of (question, answer, trajectory).
    """

    judge: Callable[[str, str, Trajectory], Any]

    def __call__(self, question: str, answer: str, trajectory: Trajectory) -> Any:
        """Judge an answer."""
        return self.judge(question, answer, trajectory)


def oracle(judge: Callable[[str, str, Trajectory], Any]) -> Oracle:
    """Mark an evaluator as one that knows the right answer: the environment's own score, or hidden tests.

    Args:
        judge: A function of (question, answer, trajectory), sync or async.
    """
    return Oracle(judge)


def exact_match(gold: str | Sequence[str]) -> Oracle:
    """An evaluator that knows the right answer, and compares as HotpotQA and FEVER do.

    Args:
        gold: The answer, or all that are right.
    """
    right = {normalize_answer(one) for one in ([gold] if isinstance(gold, str) else gold)}
    # What the self-reflection is told must not give the answer away.
    return Oracle(lambda question, answer, trajectory: normalize_answer(answer) in right or "the answer is wrong")


def judged(
    session: Session, evaluate: Callable[..., Any] | BaseChatModel, answer: str, messages: Sequence[AnyMessage]
) -> Steps[Verdict]:
    """Ask an evaluator. One that itself fails holds nothing against the answer, but the result says so.

    Args:
        session: The run.
        evaluate: A function of (question, answer, trajectory), or a model.
        answer: The answer of the trial.
        messages: The question and the trial.
    """
    if isinstance(evaluate, BaseChatModel):
        found = yield from objection(session, evaluate, answer, messages)
        return Verdict(not found.text, found.text, note=found.note)
    trajectory = read_trajectory(messages)

    def ask() -> Any:
        return evaluate(trajectory.question, answer, trajectory)

    seconds = session.seconds_left()
    try:
        said = (
            yield Call(None, ask, seconds, TOOL_THREADS)
            if _is_async(evaluate)
            else Call(ask, None, seconds, TOOL_THREADS)
        )
        if inspect.isawaitable(said):  # a plain function that hands on what an async one gave it
            said = yield Call(None, lambda: said, session.seconds_left(), TOOL_THREADS)
    except Cancelled:
        return Verdict(True, note="the answer was not judged: the run was cancelled")
    except TimedOut:
        return Verdict(True, note="the answer was not judged: no time was left")
    except Exception as error:  # noqa: BLE001 - the caller's own code
        return Verdict(True, note=f"the answer was not judged: {type(error).__name__}")
    return _verdict(said)


def _is_async(evaluate: Callable[..., Any]) -> bool:
    judge = evaluate.judge if isinstance(evaluate, Oracle) else evaluate
    return inspect.iscoroutinefunction(judge) or inspect.iscoroutinefunction(getattr(judge, "__call__", None))  # noqa: B004


def _verdict(said: Any) -> Verdict:
    if isinstance(said, Verdict):
        return said
    if said is None or said is True:
        return Verdict(True)
    if said is False:
        return Verdict(False, "the evaluator did not accept the answer")
    if isinstance(said, str):
        return Verdict(not said.strip(), said.strip())
    kind = type(said).__name__
    return Verdict(
        True, note=f"the answer was not judged: evaluate returned a {kind}, not a text, bool, None or Verdict"
    )


def stopped(stop: Stop) -> Verdict:
    """What is said of a trial that came to no answer by itself, whatever the evaluator."""
    return Verdict(False, f"it came to no answer: {stop['detail']}")


def heuristic(trajectory: Trajectory, says: Callable[[Trajectory], str | None]) -> Verdict:
    """The default: an answer was reached without getting stuck on the way.

    Args:
        trajectory: The trial.
        says: The trigger, see :data:`taograph.graphs.parts.reflecting.TRIGGERS`.
    """
    wrong = says(trajectory)
    return Verdict(wrong is None, wrong or "")


def tool_errors(trajectory: Trajectory) -> Verdict:
    """Whether the answer rests on calls that worked: those of the last turn that called any did not all fail."""
    acted = [step for step in trajectory.steps if step.observations]
    if not acted or not acted[-1].failed:
        return Verdict(True)
    wrong = "; ".join(f"{o.tool}: {' '.join(o.text.split())[:200]}" for o in acted[-1].observations)
    return Verdict(False, f"the last calls failed, so the answer rests on nothing: {wrong}")


def agreement(answer: str, samples: Sequence[str]) -> Verdict:
    """Whether more than half of the samples say what the answer says.

    Args:
        answer: The answer of the trial.
        samples: The answers of the samples; empty ones gave none.
    """
    given = [sample for sample in samples if sample]
    if not given:
        return Verdict(True, note="the answer was not judged: no sample gave an answer")
    same = sum(answer_key(sample) == answer_key(answer) for sample in given)
    score = same / len(given)
    if 2 * same > len(given):
        return Verdict(True, f"{same} of {len(given)} samples agree", score)
    others = sorted({" ".join(s.split())[:80] for s in given if answer_key(s) != answer_key(answer)})
    said = "; ".join(others)
    return Verdict(False, f"{same} of {len(given)} samples agree with the answer; others say: {said}", score)
