"""Asking the model, as steps of a run: what ends a step ends the run, with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable

from taograph.calls import Cancelled, Steps, TimedOut
from taograph.graphs.loop.forms import Unformed, ask_form
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.stopping import Stop, StopReason
from taograph.graphs.loop.structure import Structure
from taograph.graphs.loop.trajectory import feedback, instructed
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import read_reply, text_of, without_protocol
from taograph.models.failures import refusal_text

T = TypeVar("T")


_UNUSABLE: dict[str, tuple[str, str, StopReason]] = {
    "empty": ("an empty reply", prompts.NO_WORDS, "empty_output"),
    "cut": ("a reply cut off at the length limit", prompts.SHORTER, "malformed_output"),
    "malformed": ("a call where there is no tool", prompts.NO_TOOL, "malformed_output"),
}


class Ended(Exception):  # noqa: N818 - a signal within a strategy
    """The run is over; ``stop`` is why."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop["detail"])
        self.stop = stop


class Asker:
    """What asks the model in a run.

    Attributes:
        session: The run.
    """

    session: Session

    def turn(self) -> None:
        """A step begins: it counts against ``Limits.steps``.

        Raises:
            Ended: A sub-run beside this one took the last step that the parent had left.
        """
        session, steps = self.session, self.session.run["steps"] + 1
        if session.grant is not None and session.grant.claim("steps", steps) < steps:
            raise Ended(self.stop("step_limit", f"no step is left beside {steps - 1} of this part of the run"))
        session.run["steps"] = steps
        session.run["refused"] = {}
        session.teller.turn(steps)

    def ask(
        self, request: Sequence[AnyMessage], *, model: Runnable[Any, Any] | None = None, **options: Any
    ) -> Steps[AIMessage]:
        """Ask the model, as a step of the run; what it takes is told.

        Args:
            request: The messages after the system prompt, which is put before them.
            model: The model, where it is not the run's own without tools.
            **options: As :meth:`Session.ask`.

        Raises:
            Ended: It did not reply: the time is over, the run was cancelled, the model is down or refused.
        """
        return (yield from self._step(self.session.ask_to_fit(model or self.session.bound.model, request, **options)))

    def ask_text(
        self,
        request: Sequence[AnyMessage],
        *,
        model: Runnable[Any, Any] | None = None,
        own_form: bool = False,
        **options: Any,
    ) -> Steps[AIMessage]:
        """Ask the model for words; a reply without any, or cut off, is asked for again, ``limits.malformed`` times.

        Args:
            request: As :meth:`ask`.
            model: As :meth:`ask`.
            own_form: Whether the reply is in a form of the strategy's own, which the text protocol takes for a step.
            **options: As :meth:`Session.ask`.

        Raises:
            Ended: As :meth:`ask`; or it said nothing that can be used.
        """
        talk, left = list(request), self.session.limits.malformed
        while True:
            said = yield from self.ask(talk, model=model, **options)
            reply = read_reply(without_protocol(said) if own_form else said, ())
            if reply.kind == "final":
                return reply.message
            if reply.kind == "refusal":
                raise Ended(self.stop("refusal", f"the model refused: {reply.text[:200] or 'no words were given'}"))
            what, told, reason = _UNUSABLE.get(reply.kind, _UNUSABLE["malformed"])
            if not left or not self.has_turn():
                raise Ended(self.stop(reason, f"{what}, {self.session.limits.malformed - left + 1} times in a row"))
            left -= 1
            self.session.teller.tell("retry", reason=reason, detail=what)
            before = [AIMessage(reply.text)] if reply.text else []
            talk = [*request, *before, feedback(told, reason)]

    def ask_read(self, request: Sequence[AnyMessage], read: Callable[[AIMessage], T], *, again: str) -> Steps[T]:
        """Ask the model for words that can be read; what cannot is asked for again, ``limits.malformed`` times.

        Args:
            request: As :meth:`ask`.
            read: Reads a reply; a ``ValueError`` says what is wrong, in words for the model.
            again: What the model is told then, with a place for the ``problem``.

        Raises:
            Ended: As :meth:`ask_text`; or no reply could be read.
        """
        talk, left = list(request), self.session.limits.malformed
        while True:
            reply = yield from self.ask_text(talk, own_form=True)
            try:
                return read(reply)
            except ValueError as wrong:
                problem = str(wrong)
            if not left or not self.has_turn():
                tried = self.session.limits.malformed - left + 1
                raise Ended(self.stop("malformed_output", f"no reply could be read in {tried} tries: {problem}"))
            left -= 1
            self.session.teller.tell("retry", reason="malformed_output", detail=problem)
            talk = [*request, AIMessage(text_of(reply)), feedback(again.format(problem=problem), "malformed_output")]

    def has_turn(self) -> bool:
        """Whether another turn of the model would be allowed after this one."""
        steps = self.session.limits.steps
        return steps is None or self.session.run["steps"] < steps

    def ask_form(self, request: Sequence[AnyMessage], structure: Structure) -> Steps[Any]:
        """Ask the model for a value in a form, as a step of the run.

        Args:
            request: The messages after the system prompt; the last one says what is wanted.
            structure: The form, which the model is told with the last message.

        Raises:
            Ended: As :meth:`ask`; or no reply fitted the form.
        """
        told = prompts.FORM.format(name=structure.name, schema=json.dumps(structure.schema, ensure_ascii=False))
        asking = ask_form(self.session, instructed(request, told, "form"), structure, may_refuse=True)
        return (yield from self._step(asking))

    def _step(self, asking: Steps[T]) -> Steps[T]:
        """One step of the model; what ends it ends the run."""
        session = self.session
        self.turn()
        before = (session.spent["input_tokens"] + session.spent["output_tokens"], session.spent["cost"])
        try:
            reply = yield from asking
        except Cancelled as cut:
            raise Ended(self.stop("cancelled", cut.reason)) from None
        except TimedOut:
            raise Ended(self.out_of_time()) from None
        except Unformed as wrong:
            detail = f"no reply fitted the required form in {wrong.tried} tries: {wrong.problem}"
            if wrong.reason == "refusal":
                detail = wrong.problem
            raise Ended(self.stop(wrong.reason, detail)) from None
        except GaveUp as failure:
            refused = refusal_text(failure.error)
            if refused is not None:
                session.messages.append(AIMessage(refused))
                raise Ended(self.stop("refusal", f"the model refused: {refused[:200]}")) from None
            raise Ended(self.stop("model_error", failure.words)) from None
        self.weigh(before)
        session.budget()
        return reply

    def weigh(self, before: tuple[int, float]) -> None:
        """Remember what the step took: the next one is expected to take as much."""
        spent, run = self.session.spent, self.session.run
        run["turn_tokens"] = spent["input_tokens"] + spent["output_tokens"] - before[0]
        run["turn_cost"] = spent["cost"] - before[1]

    def stop(self, reason: StopReason, detail: str) -> Stop:
        """A stop at this step."""
        return Stop(reason=reason, detail=detail, step=self.session.run["steps"])

    def out_of_time(self) -> Stop:
        """The stop where the model did not reply in time."""
        return self.stop(
            "deadline", f"the model had not replied when {self.session.limits.seconds:g} seconds were over"
        )
