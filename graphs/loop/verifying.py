"""The check of an answer before it is given: the caller's function, or a second model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage

from taograph.calls import TOOL_THREADS, Call, Cancelled, Steps, TimedOut
from taograph.graphs.loop.counting import text_tokens
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.trajectory import Trajectory, read_trajectory
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import text_of
from taograph.models.failures import is_overflow
from taograph.models.prices import price_of
from taograph.models.windows import Overflow, overflow_of, reply_tokens, window_of

_OBSERVATION_CHARS = 1500
# A verdict is a sentence; a model that thinks takes more.
_REPLY = 4096
# Kept free of the window for what the count misses.
_MARGIN = 0.12


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        text: The objection, for the model; "" where there is none.
        note: Why there was no check, where it failed; "" otherwise.
    """

    text: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Objection:
    """What stands against an answer.

    Attributes:
        text: What to tell the model, so that it tries once more; empty where the answer stands.
        kind: The kind of that message.
        notes: Where the answer stands: what the result says of it all the same.
    """

    text: str = ""
    kind: str = ""
    notes: tuple[str, ...] = ()


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
    seen = [f"- {o.tool}: {_cut(o.text, _OBSERVATION_CHARS)}" for step in trajectory.steps for o in step.observations]
    case = _Case(trajectory.question, answer, seen)
    text = case.told(_room(window_of(model), reply_tokens(model)))
    try:
        reply = yield from session.ask(model, [HumanMessage(text)], quiet=True, price=price_of(model))
    except GaveUp as failure:
        if not is_overflow(failure.error):
            raise
        text = case.told(_learned(overflow_of(failure.error), reply_tokens(model), text_tokens(text)))
        session.teller.tell("retry", reason="context_overflow", detail=f"verified again with less: {failure.words}")
        reply = yield from session.ask(model, [HumanMessage(text)], quiet=True, price=price_of(model))
    said = text_of(reply).strip()
    if not said:
        return Finding(note="the answer was not verified: the verifying model gave no verdict")
    return Finding() if said.rstrip(".! ").upper() == "OK" or said.upper().startswith("OK\n") else Finding(said)


@dataclass(frozen=True, slots=True)
class _Case:
    """What a model is told to verify.

    Attributes:
        question: What was asked.
        answer: What is to be given.
        seen: The observations, oldest first.
    """

    question: str
    answer: str
    seen: Sequence[str]

    def told(self, room: float | None) -> str:
        """The request, with as many of the latest observations as there is room for, in tokens; None for all."""
        if room is None:
            return self._written(self.seen)
        left = room - text_tokens(self._written((), left_out=True))
        kept: list[str] = []
        for each in reversed(self.seen):
            left -= text_tokens(each) + 1
            if left < 0:
                break
            kept.append(each)
        if self.seen and not kept:  # the latest alone is too long: its beginning
            left += text_tokens(self.seen[-1])
            share = max(0.0, left) / text_tokens(self.seen[-1])
            kept.append(_cut(self.seen[-1], int(share * len(self.seen[-1]))))
        return self._written(kept[::-1], left_out=len(kept) < len(self.seen))

    def _written(self, seen: Sequence[str], *, left_out: bool = False) -> str:
        note = [prompts.VERIFY_LEFT_OUT.format(number=len(self.seen) - len(seen))] if left_out else []
        listed = "\n".join([*note, *seen]) or "(none)"
        return prompts.VERIFY.format(question=self.question, observations=listed, answer=self.answer)


def _room(window: int | None, reply: int | None, scale: float = 1.0) -> float | None:
    """What a request may have, in tokens as ``counting.py`` counts; None where nobody knows the window.

    Args:
        window: The model's tokens in all.
        reply: Those that it may reply with; None where that is left to it.
        scale: The model's own tokens in one of ours.
    """
    if window is None:
        return None
    kept_free = min(_REPLY, window // 8) if reply is None else min(reply, window // 2)
    return (window - kept_free) * (1 - _MARGIN) / scale


def _learned(told: Overflow, reply: int | None, size: float) -> float:
    """The same, after a request of some size was refused as too long."""
    scale = 1.0 if told.sent is None else max(1.0, told.sent / max(size, 1.0))
    room = _room(told.window, reply, scale)
    return size / 2 if room is None else min(room, 0.8 * size)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[:chars]} […]"
