"""Keeping the requests of a run within the model's window: measuring, planning, and learning from refusals.

The sizes are estimates, set right by what the provider reports of each request. Counting costs the same at every
step: what was counted is kept in the run's bookkeeping, and only new messages are looked at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import proxy

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable
from typing_extensions import TypedDict

from taograph.calls import Steps
from taograph.graphs.loop.counting import fixed_tokens, message_tokens
from taograph.graphs.loop.internals import invocation_of
from taograph.graphs.loop.planning import Draft, Room, draft, question_of, round_starts, with_digest
from taograph.graphs.loop.summarizing import Record, summarize
from taograph.graphs.loop.window import Plan, body, digest_of, instructions, reach, request
from taograph.models.windows import overflow_of, reply_tokens, window_of
from taograph.tools.results import READ_RESULT, read_result_tool

if TYPE_CHECKING:
    from taograph.graphs.loop.session import Session

LEAST_WINDOW = 512
# A reply whose length nobody bounds may take this, and no more than an eighth of the window.
_REPLY = 4096
# Of what there is room for, kept free for what the estimate misses: before the provider has reported once, and after.
_MARGIN_UNMEASURED, _MARGIN = 0.12, 0.05
# A report beyond these is no report: some servers say the same number for every request.
_PLAUSIBLE = (0.5, 8.0)
_LEAST_SCALE = 0.8
# The window, in sizes of a request that was refused without a word on it: where one before it was taken, it cannot be
# far beyond; where none was, nobody knows.
_ASSUMED, _ASSUMED_AT_FIRST = 1.2, 0.5
_KNOWN_RUNS = 1024


class Gauge(TypedDict):
    """What was learned of the model's window, and what was counted; part of the run's bookkeeping.

    Attributes:
        model: The model it holds for.
        window: Tokens of its window, as an error told; None where none did.
        scale: The model's own tokens in one of ours.
        measured: Whether the model reported them.
        taken: Whether the model took a request.
        counted: The messages before this place are counted, as requests show them.
        last: Id of the last of them.
        tokens: Their tokens.
    """

    model: str
    window: int | None
    scale: float
    measured: bool
    taken: bool
    counted: int
    last: str | None
    tokens: float


def new_gauge(model: str) -> Gauge:
    """A gauge that knows nothing yet."""
    return Gauge(model=model, window=None, scale=1.0, measured=False, taken=False, counted=0, last=None, tokens=0.0)


def check_window(window: Any) -> None:
    """Refuse a window that cannot be one.

    Raises:
        ValueError: With the field, and what to give.
    """
    if window is None:
        return
    if isinstance(window, bool) or not isinstance(window, int) or window < LEAST_WINDOW:
        raise ValueError(f"context.window={window!r}: give the model's window in tokens, {LEAST_WINDOW} or more")


class Fitter:
    """Makes the requests of one node's view of a run, so that they fit.

    Args:
        session: The run.
        plan: What requests show of the history so far.

    Attributes:
        plan: The same, as it stands.
        changed: Whether it has to be stored.
    """

    def __init__(self, session: Session, plan: Plan) -> None:
        self.plan = plan
        self.changed = False
        # Held weakly: the session holds it. In a circle, both would be left to the garbage collector at each step.
        self._session: Session = proxy(session)
        if "gauge" in session.run:
            session.run["gauge"] = Gauge(**session.run["gauge"])
        self._size = 0.0
        self._refused = False

    @property
    def _gauge(self) -> Gauge:
        name, run = self._session.bound.name, self._session.run
        gauge = run.get("gauge")
        if gauge is None or gauge["model"] != name:
            run["gauge"] = gauge = new_gauge(name)
        return gauge

    def request(self, model: Runnable[Any, Any], conversation: Sequence[AnyMessage]) -> Steps[list[AnyMessage]]:
        """The messages of a request that fits, as far as the window is known.

        Args:
            model: The model that is going to be asked, with what is bound to it.
            conversation: The messages of the run.
        """
        self._check(conversation)
        window = self._window()
        self._size = 0.0
        if window is not None:
            fixed = self._fixed(model, conversation)
            limit = self._limit(window)
            size = fixed + self._count(conversation)
            if size > limit or self._refused:
                room = Room(limit, fixed)
                yield from self._replan(model, conversation, room, size)
                size = fixed + self._count(conversation)
            self._size = size
        self._refused = False
        return self._written(conversation)

    def refused(self, error: Exception, model: Runnable[Any, Any], conversation: Sequence[AnyMessage]) -> None:
        """Learn from a request that the provider refused as too long; the next one will be shorter."""
        gauge, told = self._gauge, overflow_of(error)
        size = self._fixed(model, conversation) + self._count(conversation)
        known = self._window()
        if told.window is not None:
            gauge["window"] = told.window
        elif known is None:
            share = _ASSUMED if gauge["taken"] else _ASSUMED_AT_FIRST
            gauge["window"] = max(1, int(size * gauge["scale"] * share))
        if told.sent is not None and told.sent > size * _PLAUSIBLE[0]:
            gauge["scale"] = max(gauge["scale"], min(told.sent / size, _PLAUSIBLE[1]))
        window = self._window() or 1
        if size <= self._limit(window):  # it was longer than estimated, by who knows how much
            gauge["scale"] *= 1.05 * self._limit(window) / max(size, 1.0)
        self._refused = True

    def measured(self, reply: AIMessage) -> None:
        """Set the estimate right by what the provider says of the request that :meth:`request` made last."""
        usage, about = reply.usage_metadata, reply.response_metadata
        self._gauge["taken"] = True
        if not self._size or usage is None or usage["input_tokens"] <= 0:
            return
        if about.get("usage_estimated") or about.get("unread_replies"):
            return
        gauge, found = self._gauge, usage["input_tokens"] / self._size
        plausible = _PLAUSIBLE[0] <= found <= _PLAUSIBLE[1]
        gauge["scale"] = max(found, _LEAST_SCALE) if plausible else 1.0
        gauge["measured"] = plausible

    def _replan(
        self, model: Runnable[Any, Any], conversation: Sequence[AnyMessage], room: Room, size: float
    ) -> Steps[None]:
        gauge, before, changed = self._gauge, self.plan, self.changed
        made = draft(conversation, _stored(conversation), self.plan, room, read_on=self._reads_on)
        plan, why = made.plan, ""
        if made.summarize is not None:
            record = self._record(conversation, made)
            said = yield from summarize(
                self._session, record, tokens=made.summary_tokens, limit=room.limit, scale=gauge["scale"]
            )
            plan = Plan(**{**plan, "summary": said.text, "by": said.by})
            why = said.why
        self._set(with_digest(plan, conversation, before))
        after = room.fixed + self._count(conversation)
        if made.summarize is None and after >= size:  # there was nothing to be left out
            self.plan, self.changed = before, changed
            self._forget_count()
            return
        self._tell(conversation, made, size * gauge["scale"], after * gauge["scale"], why)

    def _record(self, conversation: Sequence[AnyMessage], made: Draft) -> Record:
        """What is to be summarized: new rounds, an earlier summary, and the question it stood with if that is over."""
        start, end = made.summarize or (0, 0)
        first, last = question_of(conversation)
        old = self.plan.get("question") or (0, 0)
        asked = conversation[old[0] : old[1]] if (old[0], old[1]) != (first, last) else ()
        new = [m for place, m in enumerate(conversation[start:end], start) if not first <= place < last]
        return Record(
            task="\n".join(str(message.text) for message in conversation[first:last]),
            before=self.plan.get("summary", "") if self.plan.get("through") else "",
            by=self.plan.get("by", "model"),
            messages=[*asked, *new],
        )

    def _tell(self, conversation: Sequence[AnyMessage], made: Draft, before: float, after: float, why: str) -> None:
        numbers = {"tokens_before": round(before), "tokens_after": round(after)}
        sizes = f"the request has about {numbers['tokens_after']} tokens instead of {numbers['tokens_before']}"
        if made.summarize is None:
            numbers["before_message"] = reach(self.plan)
            reason, what = "condensed", "older observations are shown in short"
            if "cut" in self.plan:
                what = f"no part of a message is shown beyond {self.plan['cut_chars']} characters"
        else:
            start, end = made.summarize
            numbers["rounds"] = len(round_starts(conversation[:end], start)) if end > start else 0
            numbers["before_message"] = end
            reason, what = "summarized", f"{numbers['rounds']} rounds are told by a summary"
            if why:
                what += f" put together without the model ({why})"
        self._session.teller.tell("retry", reason=reason, detail=f"{what}; {sizes}", numbers=numbers)

    def _written(self, conversation: Sequence[AnyMessage]) -> list[AnyMessage]:
        session = self._session
        examples, composed = session.bound.examples, session.composed
        return request(session.system, examples, conversation, self.plan, read_on=self._reads_on, composed=composed)

    def _check(self, conversation: Sequence[AnyMessage]) -> None:
        """Drop the plan where the messages that it speaks of are not there any more."""
        end = reach(self.plan)
        if not end:
            return
        run, within = self._session.run["id"], invocation_of(self._session.config)
        there = end <= len(conversation) and conversation[end - 1].id == self.plan.get("last")
        if there and within is not None and _CHECKED.get(run) is within:
            return
        if end > len(conversation) or digest_of(conversation[:end]) != self.plan.get("digest"):
            self._set(Plan())
            return
        _CHECKED[run] = within
        _CHECKED.move_to_end(run)
        if len(_CHECKED) > _KNOWN_RUNS:
            _CHECKED.popitem(last=False)

    def _set(self, plan: Plan) -> None:
        self.plan, self.changed = plan, True
        self._forget_count()

    def _forget_count(self) -> None:
        self._gauge["counted"] = 0

    def _count(self, conversation: Sequence[AnyMessage]) -> float:
        """Tokens of the conversation as it is shown, without instructions."""
        gauge, stored = self._gauge, _stored(conversation)
        place = gauge["counted"]
        known = 0 < place <= len(conversation) and conversation[place - 1].id == gauge["last"] is not None
        if not known or place < reach(self.plan):
            told = body(conversation, self.plan, read_on=self._reads_on)
            unsaved = len(conversation) - stored
            sizes = list(map(message_tokens, told))
            gauge["tokens"] = sum(sizes[: len(sizes) - unsaved])
            rest = sum(sizes[len(sizes) - unsaved :])
        else:
            gauge["tokens"] += sum(map(message_tokens, conversation[place:stored]))
            rest = sum(map(message_tokens, conversation[stored:]))
        gauge["counted"], gauge["last"] = stored, conversation[stored - 1].id if stored else None
        return gauge["tokens"] + rest

    def _fixed(self, model: Runnable[Any, Any], conversation: Sequence[AnyMessage]) -> float:
        session = self._session
        return fixed_tokens(model, instructions(session.system, conversation), session.bound.examples)

    def _window(self) -> int | None:
        """The window: what the caller says or the model's profile, and no more than a refusal has told."""
        asked = self._session.run["limits"].get("window") or window_of(self._session.bound.model)
        told = self._gauge["window"]
        return told if asked is None else asked if told is None else min(asked, told)

    def _limit(self, window: int) -> float:
        """What a request may have, in our tokens."""
        gauge = self._gauge
        most = reply_tokens(self._session.bound.model)
        reply = min(_REPLY, window // 8) if most is None else min(most, window // 2)
        margin = _MARGIN if gauge["measured"] else _MARGIN_UNMEASURED
        return (window - reply) * (1 - margin) / gauge["scale"]

    @property
    def _reads_on(self) -> bool:
        return self._session.agent.by_name.get(READ_RESULT) is read_result_tool()


def _stored(conversation: Sequence[AnyMessage]) -> int:
    """How many messages are stored, or are going to be: behind them only what is asked once, which has no id."""
    place = len(conversation)
    while place and conversation[place - 1].id is None:
        place -= 1
    return place


# Which invocation a run's plan was checked in against all the messages: within one, a look at the last is enough.
_CHECKED: OrderedDict[str, object] = OrderedDict()
