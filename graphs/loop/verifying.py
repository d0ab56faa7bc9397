"""The check of an answer before it is given: the caller's function, or a second model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage

from taograph.calls import TOOL_THREADS, Call, Cancelled, Steps, TimedOut
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.trajectory import Trajectory, read_trajectory
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import text_of
from taograph.models.prices import price_of

_OBSERVATION_CHARS = 1500


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        text: The objection, for the model; "" where there is none.
        note: Why there was no check, where it failed; "" otherwise.
    """

    text: str = ""
    note: str = ""


def objection(
    session: Session, verify: Callable[..., Any] | BaseChatModel, answer: str, messages: Sequence[AnyMessage]
) -> Steps[Finding]:
    """Ask the verifier. A check that itself fails is no objection, but the result says so."""
    trajectory = read_trajectory(messages)
    try:
        if isinstance(verify, BaseChatModel):
            return (yield from _ask_model(session, verify, answer, trajectory))
        said = yield _call(session, verify, answer, trajectory)
        if inspect.isawaitable(said):  # a plain function that hands on what an async one gave it
            said = yield Call(None, lambda: said, session.seconds_left(), TOOL_THREADS)
        return _finding(said)
    except Cancelled:
        return Finding(note="the answer was not verified: the run was cancelled")
    except TimedOut:
        return Finding(note="the answer was not verified: no time was left")
    except GaveUp as failure:
        return Finding(note=f"the answer was not verified: {type(failure.error).__name__}")
    except Exception as error:  # noqa: BLE001 - the caller's own code
        return Finding(note=f"the answer was not verified: {type(error).__name__}")


def _call(session: Session, verify: Callable[..., Any], answer: str, trajectory: Trajectory) -> Call:
    seconds = session.seconds_left()
    if inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(getattr(verify, "__call__", None)):  # noqa: B004
        return Call(None, lambda: verify(answer, trajectory), seconds, TOOL_THREADS)
    return Call(lambda: verify(answer, trajectory), None, seconds, TOOL_THREADS)


def _finding(said: Any) -> Finding:
    if said is None or said is True:
        return Finding()
    if said is False:
        return Finding("the answer does not hold against the observations.")
    if isinstance(said, str):
        return Finding(said.strip())
    return Finding(
        note=f"the answer was not verified: verify returned a {type(said).__name__}, not a text, bool or None"
    )


def _ask_model(session: Session, model: BaseChatModel, answer: str, trajectory: Trajectory) -> Steps[Finding]:
    seen = [f"- {o.tool}: {o.text[:_OBSERVATION_CHARS]}" for step in trajectory.steps for o in step.observations]
    text = prompts.VERIFY.format(question=trajectory.question, observations="\n".join(seen) or "(none)", answer=answer)
    reply = yield from session.ask(model, [HumanMessage(text)], quiet=True, price=price_of(model))
    said = text_of(reply).strip()
    if not said:
        return Finding(note="the answer was not verified: the verifying model gave no verdict")
    return Finding() if said.rstrip(".! ").upper() == "OK" or said.upper().startswith("OK\n") else Finding(said)
