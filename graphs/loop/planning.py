"""What to leave out of requests that no longer fit: the decisions, as pure functions over messages and sizes.

In this order: old observations are condensed; old rounds are replaced by a summary; and where the last rounds alone
are too long for the window, they are cut. Each step leaves room for many rounds, because each changes what stands
before the newest messages, which a provider's prompt cache then has to read anew.

A round is a reply of the model with the results of its calls and what the loop said about it, or a message of the
user. It is left out as a whole or not at all, so a call never loses its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from taograph.graphs.loop.counting import message_tokens
from taograph.graphs.loop.trajectory import is_feedback, user_turn
from taograph.graphs.loop.window import Plan, digest_of, first_place, reach, shown, summary_message

# Shares of what is free for the conversation, that is, beside instructions, tools, examples and the question.
# Up to this, condensed rounds are left standing; beyond, they go into the summary.
_CONDENSED_AT_MOST = 0.45
# A plan has to leave this much for the rounds to come.
_FULL = 0.9
# After a summary: for itself, for condensed rounds before the last ones, for the last ones.
_SUMMARY, _CONDENSED_KEPT, _LAST_ROUNDS = 0.15, 0.15, 0.5
# Rounds that are shown whole while they are not more than this.
_WHOLE = 0.2
_LEAST_SUMMARY = 40.0
# How the last rounds may be shown, best first: so many, with no part longer than so many characters.
_WAYS: tuple[tuple[int, int | None], ...] = (
    (2, None),
    (1, None),
    (2, 4000),
    (1, 4000),
    (2, 1500),
    (1, 1500),
    (2, 600),
    (1, 600),
    (2, 240),
    (1, 240),
    (2, 120),
    (1, 120),
)


@dataclass(frozen=True, slots=True)
class Room:
    """What there is room for, in tokens as ``counting.py`` counts them.

    Attributes:
        limit: Of a whole request.
        fixed: Instructions, worked examples and tools.
    """

    limit: float
    fixed: float


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and what is still to be done for it.

    Attributes:
        plan: The plan; where something is to be summarized, with the summary that there was.
        summarize: From where to where messages are to be summarized, the summary that there was included; None
            where nothing is.
        summary_tokens: How long the summary may be.
    """

    plan: Plan
    summarize: tuple[int, int] | None
    summary_tokens: float


def draft(messages: Sequence[AnyMessage], stored: int, plan: Plan, room: Room, *, read_on: bool = True) -> Draft:
    """The plan for a conversation that does not fit under the one there is.

    Args:
        messages: The conversation.
        stored: How many of them are stored, or are going to be; a plan speaks of no others.
        plan: The plan that there is.
        room: What there is room for.
        read_on: Whether the model has ``read_result``.
    """
    work = _Work(messages, stored, plan, room, read_on=read_on)
    return work.condensed() or work.summarized()


def with_digest(plan: Plan, messages: Sequence[AnyMessage], before: Plan) -> Plan:
    """A plan that knows the messages it speaks of.

    Args:
        plan: The plan.
        messages: The conversation.
        before: The plan that there was, which knows its own.
    """
    end, known = reach(plan), reach(before)
    known = known if known <= end else 0
    digest = digest_of(messages[:end], known, before.get("digest", "") if known else "")
    return Plan(**{**plan, "last": messages[end - 1].id if end else None, "digest": digest})


def question_of(messages: Sequence[AnyMessage]) -> tuple[int, int]:
    """Where the user's last words stand: all the messages they sent one after the other."""
    begin = first_place(messages)
    last = user_turn(messages)
    if last is None:
        return begin, begin
    first = last
    while first > begin and _is_users(messages[first - 1]):
        first -= 1
    return first, last + 1


def round_starts(messages: Sequence[AnyMessage], start: int) -> list[int]:
    """The places where rounds begin, from a place on that is the beginning of one."""
    later = range(start + 1, len(messages))
    return [start, *(i for i in later if isinstance(messages[i], AIMessage) or _is_users(messages[i]))]


def _is_users(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage) and not is_feedback(message)


class _Work:
    """The making of a plan."""

    def __init__(self, messages: Sequence[AnyMessage], stored: int, plan: Plan, room: Room, *, read_on: bool) -> None:
        self._messages, self._stored, self._plan, self._room, self._read_on = messages, stored, plan, room, read_on
        self._end = len(messages)
        self._start = max(first_place(messages), plan.get("through", 0))
        self._starts = [at for at in round_starts(messages, self._start) if at <= stored] or [self._start]
        self._question = question_of(messages)
        # Running sums from the start on, so that any stretch is a difference.
        self._whole = self._sums(Plan())
        self._short = self._sums(Plan(condensed=self._end))
        begin, end = self._question
        asked = sum(message_tokens(message) for message in messages[begin:end])
        self._free = max(0.0, room.limit - room.fixed - asked)
        self._before = self._told_before()

    def condensed(self) -> Draft | None:
        """The plan that only condenses observations; None where that is not enough."""
        for rounds in (2, 1):
            at = self._last(rounds, widen=True)
            if at <= self._plan.get("condensed", 0):
                continue
            older = self._between(self._short, self._start, at)
            used = self._before + older + self._between(self._whole, at, self._end)
            if older <= _CONDENSED_AT_MOST * self._free and used <= _FULL * self._free:
                kept = {key: value for key, value in self._plan.items() if key not in ("cut", "cut_chars")}
                return Draft(Plan(**{**kept, "condensed": at}), None, 0.0)  # type: ignore[typeddict-item]
        return None

    def summarized(self) -> Draft:
        """The plan that replaces rounds by a summary, and cuts the last ones if need be."""
        at, chars = self._way()
        heavy = self._before > 2 * _SUMMARY * self._free  # such as a long question of an earlier run
        through = at if heavy else self._oldest_kept(at)
        begin, end = self._question
        if begin < through < end:
            through = begin
        plan = Plan(**{**self._plan, "condensed": at})
        plan.pop("cut", None)
        plan.pop("cut_chars", None)
        if chars is not None:
            plan["cut"], plan["cut_chars"] = self._stored, chars
        if through <= self._start and not heavy:
            return Draft(plan, None, 0.0)
        plan["through"] = through
        plan["question"] = [begin, end] if begin < through else None
        return Draft(plan, (self._start, through), max(_LEAST_SUMMARY, _SUMMARY * self._free))

    def _way(self) -> tuple[int, int | None]:
        """Where the last rounds begin, and to how many characters their parts are cut."""
        at, chars = self._start, None
        for rounds, chars in _WAYS:
            at = self._last(rounds, widen=chars is None)
            cut = Plan() if chars is None else Plan(cut=self._stored, cut_chars=chars)
            size = self._between(self._sums(cut, at), at, self._end, base=at)
            if size <= _LAST_ROUNDS * self._free:
                break
        return at, chars

    def _last(self, rounds: int, *, widen: bool) -> int:
        """Where the last rounds begin: so many, and more if they are short."""
        place = max(0, len(self._starts) - rounds)
        while widen and rounds > 1 and place > 0:
            if self._between(self._whole, self._starts[place - 1], self._end) > _WHOLE * self._free:
                break
            place -= 1
        return self._starts[place]

    def _oldest_kept(self, at: int) -> int:
        """Where the condensed rounds begin that are left standing before a place."""
        found = at
        for start in reversed(self._starts):
            if start < at:
                if self._between(self._short, start, at) > _CONDENSED_KEPT * self._free:
                    break
                found = start
        return found

    def _sums(self, plan: Plan, start: int | None = None) -> list[float]:
        """Running sums of tokens from a place on; the question counts nothing, since it is shown in any case."""
        start = self._start if start is None else start
        begin, end = self._question
        told = shown(self._messages, plan, start, self._end, read_on=self._read_on)
        sizes = (0.0 if begin <= at < end else message_tokens(m) for at, m in enumerate(told, start))
        return [0.0, *accumulate(sizes)]

    def _between(self, sums: list[float], start: int, end: int, base: int | None = None) -> float:
        """Tokens of the messages from one place to another, by sums that begin at a base."""
        base = self._start if base is None else base
        return sums[end - base] - sums[start - base]

    def _told_before(self) -> float:
        """Tokens of the summary, and of a question that is shown with it and is not the one at hand."""
        if not self._plan.get("through"):
            return 0.0
        begin, end = self._plan.get("question") or (0, 0)
        other = self._messages[begin:end] if (begin, end) != self._question else ()
        return sum(map(message_tokens, [summary_message(self._plan["summary"]), *other]))
