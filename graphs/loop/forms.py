"""Asking a model for a value in a required form, in whichever way it can give one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable

from taograph.calls import Steps
from taograph.graphs.loop.repair import close_calls
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.stopping import StopReason
from taograph.graphs.loop.structure import Structure, WrongForm
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import read_reply, text_of
from taograph.models.failures import refuses_tools, status_of

_SHOWN_CHARS = 200


class Unformed(Exception):  # noqa: N818 - a signal within the loop
    """No reply fitted the form.

    Attributes:
        problem: What was wrong with the last one.
        tried: How many there were.
        is_cut: Whether there was no call left for one more.
        reason: What the last one was: "refusal", "empty_output", or "malformed_output" for any other.
    """

    def __init__(
        self, problem: str, tried: int, *, is_cut: bool = False, reason: StopReason = "malformed_output"
    ) -> None:
        super().__init__(problem)
        self.problem, self.tried, self.is_cut, self.reason = problem, tried, is_cut, reason


def ask_form(
    session: Session,
    talk: Sequence[AnyMessage],
    structure: Structure,
    *,
    reserve: float = 0.0,
    again: Callable[[], bool] = lambda: True,
    may_refuse: bool = False,
) -> Steps[Any]:
    """Ask until a reply fits, ``limits.malformed`` times more at most.

    Args:
        session: The run.
        talk: The messages after the system prompt; the last one says what is wanted, and in which form.
        structure: The form.
        reserve: Seconds beyond the run's limit that the calls may use.
        again: Whether one more call may be made.
        may_refuse: Whether a refusal ends it; else it is a reply that does not fit, as any other.

    Raises:
        Unformed: None did, or the model refused.
        GaveUp: The model failed for good.
        TimedOut: The time was over.
        Cancelled: The run was cancelled.
    """
    talk = list(talk)
    ways = _ways(session.bound.model, structure)
    problem, tried = "", 0
    while tried <= session.limits.malformed:
        try:
            reply = yield from session.ask_to_fit(ways[0], talk, reserve=reserve, quiet=True)
            return structure.read(reply)
        except WrongForm as wrong:
            problem, given = str(wrong), read_reply(reply, ())
            if may_refuse and given.kind == "refusal":
                words = given.text[:_SHOWN_CHARS] or "no words were given"
                raise Unformed(f"the model refused: {words}", tried + 1, reason="refusal") from None
            session.teller.tell("retry", reason="structured_output", detail=problem)
        except GaveUp as failure:
            if len(ways) > 1 and (status_of(failure.error) in (400, 422) or refuses_tools(failure.error)):
                del ways[: len(ways) - 1 if refuses_tools(failure.error) else 1]
                session.teller.tell("retry", reason="structured_output", detail=failure.words)
                continue
            raise
        tried += 1
        if tried <= session.limits.malformed and not again():
            raise Unformed(problem, tried, is_cut=True, reason=_reason(reply))
        talk += _corrected(session, reply, prompts.STRUCTURE_WRONG.format(problems=problem))
    raise Unformed(problem, tried, reason=_reason(reply))


def _reason(reply: AIMessage) -> StopReason:
    return "empty_output" if read_reply(reply, ()).kind == "empty" else "malformed_output"


def _corrected(session: Session, reply: AIMessage, wrong: str) -> list[AnyMessage]:
    """A reply that did not fit and what is wrong with it; a call as text, where no tools may be offered next time."""
    if reply.tool_calls and session.bound.protocol == "text":
        return [reply, *close_calls(reply.tool_calls, wrong)]
    said = text_of(reply) or json.dumps([call["args"] for call in reply.tool_calls], ensure_ascii=False)
    return [AIMessage(said, response_metadata=reply.response_metadata), feedback(wrong, "structure")]


def _ways(model: BaseChatModel, structure: Structure) -> list[Runnable[Any, Any]]:
    """Ways to ask for the form, best first: as a call that is forced, as one that is offered, as JSON in the text.

    Some endpoints refuse a forced call, some any; some models take none.
    """
    ways: list[Runnable[Any, Any]] = []
    for choice in ({"tool_choice": structure.name}, {}):
        with contextlib.suppress(NotImplementedError, ValueError, TypeError):
            ways.append(model.bind_tools([structure.tool], **choice))
    return [*ways, model]
