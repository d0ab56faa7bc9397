"""A majority among samples: counting, and how many more samples could settle it.

Plain majority over normalized answers, ties to the answer that was seen first (Wang et al., arXiv 2203.11171, who find
that weights by probability change next to nothing). Sampling ends once the majority cannot change any more: what is
asked for next is always the smallest number of samples that could settle it.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NotRequired

from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from taograph.graphs.loop.state import Input, Output, State
from taograph.graphs.loop.stopping import StopReason
from taograph.graphs.parts.answers import answer_key, told_answer
from taograph.graphs.parts.chain_of_thought import is_lone_thought, thought_and_answer
from taograph.graphs.protocols.native import read_reply, text_of

_FAULTS: dict[str, tuple[StopReason, str]] = {
    "empty": ("empty_output", "an empty reply"),
    "cut": ("malformed_output", "a reply cut off at the length limit"),
    "refusal": ("refusal", "the model refused"),
    "malformed": ("malformed_output", "a call where there is no tool"),
}


class Sample(TypedDict):
    """What came of one sample.

    Attributes:
        number: Its place among the samples of the run, from 1.
        ballot: The vote it belongs to: there is a new one after an objection to an answer.
        answer: Its answer; empty where it gave none.
        thought: Its reasoning.
        fault: Why it gave no answer; None where it did. Such a sample is no vote.
        detail: The same in words.
        plain: Whether it was asked without a temperature, because the model refuses one.
    """

    number: int
    ballot: int
    answer: str
    thought: str
    fault: StopReason | None
    detail: str
    plain: bool


class Count(TypedDict):
    """An answer, as the first sample that gave it wrote it, and its votes."""

    answer: str
    count: int


class Votes(TypedDict):
    """The result of a vote.

    Attributes:
        answer: The answer with the most votes, in the words of the first sample that gave it; empty without votes.
        count: Its votes.
        of: Votes in all.
        share: ``count`` of ``of``, from 0 to 1.
        table: All answers, most votes first, ties in the order in which they were seen.
        drawn: Samples that were drawn, those that failed included.
        failed: Of those, the ones that gave no answer.
        samples: How many there could have been.
    """

    answer: str
    count: int
    of: int
    share: float
    table: list[Count]
    drawn: int
    failed: int
    samples: int


class Draw(TypedDict):
    """What one ``sample`` task is sent; the fields are those of :class:`Sample`."""

    number: int
    ballot: int
    plain: bool


class VotingInput(Input):
    """What the graph takes.

    Attributes:
        known: Samples that were drawn before, by whoever goes on with a run of which this is a part.
    """

    known: NotRequired[list[Sample]]


class VotingState(State):
    """The channels: besides the loop's, the samples, the vote, and what is drawn next."""

    known: list[Sample]
    samples: Annotated[list[Sample], operator.add]
    votes: Votes
    wave: list[Draw]


class VotingOutput(Output):
    """What the graph gives.

    Attributes:
        votes: The share of the answer, and what else was answered.
        samples: All samples, in the order in which they ended.
    """

    votes: Votes
    samples: Annotated[list[Sample], operator.add]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a vote stands.

    Attributes:
        counts: The votes of each answer, in the order in which the answers were seen.
        first: The first sample of each, in the same order.
    """

    counts: tuple[int, ...]
    first: tuple[Sample, ...]

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Standing:
        """Count the samples that gave an answer, in the order of their numbers."""
        counts: Counter[str] = Counter()
        first: dict[str, Sample] = {}
        for sample in sorted(samples, key=lambda one: one["number"]):
            if sample["fault"] is None:
                key = answer_key(sample["answer"])
                counts[key] += 1
                first.setdefault(key, sample)
        return cls(tuple(counts[key] for key in first), tuple(first.values()))

    @property
    def leader(self) -> Sample | None:
        """The first sample of the answer with the most votes; None without votes."""
        return self.first[_leader(self.counts)] if self.counts else None

    def votes(self, samples: Sequence[Sample], most: int) -> Votes:
        """The result.

        Args:
            samples: All that were drawn.
            most: How many there could have been.
        """
        ranked = sorted(zip(self.first, self.counts, strict=True), key=lambda one: -one[1])
        table = [Count(answer=sample["answer"], count=count) for sample, count in ranked]
        best = table[0] if table else Count(answer="", count=0)
        of = sum(self.counts)
        return Votes(
            answer=best["answer"],
            count=best["count"],
            of=of,
            share=best["count"] / of if of else 0.0,
            table=table,
            drawn=len(samples),
            failed=sum(sample["fault"] is not None for sample in samples),
            samples=most,
        )


def read_sample(
    reply: AIMessage | None, fault: tuple[StopReason, str] | None, *, number: int, ballot: int, plain: bool
) -> Sample:
    """A sample as it is kept.

    Args:
        reply: What the model replied, or None.
        fault: Why it did not.
        number: As :class:`Sample`.
        ballot: As :class:`Sample`.
        plain: As :class:`Sample`.
    """
    thought = answer = ""
    if reply is None:
        fault = fault or ("model_error", "the model did not reply")
    else:
        read = read_reply(reply, ())
        fault = _FAULTS.get(read.kind, _FAULTS["malformed"]) if read.kind != "final" else None
        if fault is None:
            thought, answer = thought_and_answer(read.message)
            lone = is_lone_thought(read.message)
            told = told_answer(answer) if lone or answer == text_of(read.message) else ""
            if told:  # the form was not kept to, and the text says what it comes to
                thought, answer = "\n".join(part for part in (thought, answer) if part), told
            elif lone:
                fault = ("malformed_output", "a thought without an answer")
    reason, detail = fault or (None, "")
    return Sample(
        number=number, ballot=ballot, answer=answer, thought=thought, fault=reason, detail=detail, plain=plain
    )


def is_settled(counts: Sequence[int], left: int, quorum: int = 0) -> bool:
    """Whether so many more samples cannot change what comes of a vote.

    Args:
        counts: Votes of each answer, in the order in which the answers were seen.
        left: Samples that could still be drawn.
        quorum: Votes that the answer needs to be of use: where no answer can reach them, it does not matter which
            one leads.
    """
    if not counts:
        return left < max(quorum, 1)
    leader = _leader(counts)
    most = counts[leader]
    if most + left < quorum:
        return True
    if most < quorum or left > most:  # an answer that nobody has given yet would lose a tie
        return False
    return all(
        count + left < most or (count + left == most and place > leader)
        for place, count in enumerate(counts)
        if place != leader
    )


def next_wave(counts: Sequence[int], left: int, quorum: int = 0) -> int:
    """The smallest number of samples that could settle a vote; 0 where it is settled.

    Args:
        counts: As :func:`is_settled`.
        left: As :func:`is_settled`.
        quorum: As :func:`is_settled`.
    """
    if is_settled(counts, left, quorum):
        return 0
    for size in range(1, left):
        agree = ((*counts[:at], counts[at] + size, *counts[at + 1 :]) for at in range(len(counts)))
        outcomes = [*agree, (*counts, size), (*counts, *[1] * size)]
        if any(is_settled(outcome, left - size, quorum) for outcome in outcomes):
            return size
    return left


def affordable(size: int, used: float, each: float, limit: float | None) -> int:
    """How many of so many samples a limit lets be drawn at once, at least one.

    Args:
        size: So many are wanted.
        used: What was used of the limit.
        each: What one sample is expected to take of it.
        limit: The limit; None is none.
    """
    if limit is None or each <= 0:
        return size
    return max(1, min(size, int((limit - used) / each)))


def _leader(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=lambda place: (counts[place], -place))
