"""Two runs beside each other: which steps are the same, and where they first differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal

from taograph.trace.chain import Entry
from taograph.trace.reading import Summary, is_shape, summarize
from taograph.trace.showing import Line, lines

QUESTION = "the question"
"""What comes before the first step."""
END = "the end"
"""What comes after the last one: answer and stop."""
_EDGES = (QUESTION, END)
How = Literal["same", "changed", "only_a", "only_b"]
# What a step is known by when runs are aligned: what was done; what was thought is worded anew each time.
_DONE = ("Action", "Plan", "Answer", ">")


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of a run: what was thought, done and seen in it.

    Attributes:
        name: How it is called: "step 2", "the end", or the name of a nested run that belongs to no step.
        said: Labels without their numbers, and texts.
    """

    name: str
    said: tuple[tuple[str, str], ...]

    @property
    def done(self) -> str:
        """What it is aligned by."""
        return "\n".join(text for label, text in self.said if label.startswith(_DONE))


_NONE = Moment("", ())


@dataclass(frozen=True, slots=True)
class Pair:
    """Steps that stand beside each other.

    Attributes:
        how: Whether they are the same.
        a: Of the first run; None where it has none.
        b: Of the second.
    """

    how: How
    a: Moment | None
    b: Moment | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing in which two runs differ.

    Attributes:
        where: The step.
        what: "thought", "action", "observation" and so on; "step" where one run has a step that the other has not.
        a: What the first run has there; None for nothing.
        b: What the second has.
    """

    where: str
    what: str
    a: str | None
    b: str | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"where": self.where, "what": self.what, "a": self.a, "b": self.b}


@dataclass(frozen=True)
class Alignment:
    """Two runs beside each other.

    Attributes:
        a: What the first came to.
        b: What the second came to.
        pairs: Their steps, in order.
        unknown: What of them is not known, so that nobody can say that they are the same; empty where all is.
    """

    a: Summary
    b: Summary
    pairs: tuple[Pair, ...] = field(default_factory=tuple)
    unknown: str = ""

    @property
    def differences(self) -> Iterator[Difference]:
        """What is first not the same in each step, in order."""
        return (_difference(pair) for pair in self.pairs if pair.how != "same")

    @property
    def first(self) -> Difference | None:
        """The first difference; None where there is none."""
        return next(self.differences, None)

    @property
    def same(self) -> bool | None:
        """Whether they are the same; None where that can't be known."""
        if self.first is not None:
            return False
        return None if self.unknown else True

    def count(self, how: How) -> int:
        """How many steps there are of a kind, without the question and the end."""
        return sum(pair.how == how and (pair.a or pair.b or _NONE).name not in _EDGES for pair in self.pairs)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        first = self.first
        return {
            "same": self.same,
            "unknown": self.unknown,
            "first": None if first is None else first.to_dict(),
            "steps": {how: self.count(how) for how in ("same", "changed", "only_a", "only_b")},
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
        }


def align(a: Iterable[Entry], b: Iterable[Entry]) -> Alignment:
    """Lay two runs beside each other by what they did.

    Times, ids and what was spent are no differences. Nested runs are compared in their places.

    Args:
        a: The events of the first.
        b: The events of the second.
    """
    one, other = [*a], [*b]
    left, right = [*_moments(lines(one))], [*_moments(lines(other))]
    unknown = _unknown(one) or _unknown(other)
    return Alignment(summarize(one), summarize(other), tuple(_pairs(left, right)), unknown)


def _unknown(events: Iterable[Entry]) -> str:
    """What is not known of a run."""
    for event in events:
        if event.content is None:
            return "what one of them said was erased"
        if any(map(is_shape, event.content.values())):
            return "what one of them said was not recorded, only how long it was"
    return ""


def _moments(trajectory: Iterable[Line]) -> Iterator[Moment]:
    """The steps of a trajectory: a nested run belongs to the step in which it began, if there is one."""
    said: list[tuple[str, str]] = []
    name, step = QUESTION, ""
    for line in trajectory:
        label, number = _split(line.label)
        if line.depth == 0 and number and number != step:
            if said:
                yield Moment(name, tuple(said))
            said, step, name = [], number, f"step {number}"
        elif line.kind == "block" and line.depth == 0 and not step:
            if said:
                yield Moment(name, tuple(said))
            said, name = [], line.label
        elif line.depth == 0 and line.kind in ("answer", "stop", "run_ended") and name != END:
            if said:
                yield Moment(name, tuple(said))
            said, name = [], END
        mark = ">" * line.depth + (">" if line.kind == "block" else "")
        said.append((f"{mark} {label}".strip(), line.text))
    if said:
        yield Moment(name, tuple(said))


def _split(label: str) -> tuple[str, str]:
    """A label without its number, and the step of that: "Action 1b" → "Action", "1"."""
    words = label.split(" ")
    numbers = [word for word in words[1:] if word[:1].isdigit()]
    if not numbers:
        return label, ""
    digits = numbers[0][: next((i for i, char in enumerate(numbers[0]) if not char.isdigit()), None)]
    return " ".join(word for word in words if word not in numbers), digits


def _pairs(left: Sequence[Moment], right: Sequence[Moment]) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, [each.done for each in left], [each.done for each in right], autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        ones, others = left[i1:i2], right[j1:j2]
        beside = min(len(ones), len(others))
        for one, other in zip(ones, others, strict=False):
            yield Pair("same" if one.said == other.said else "changed", one, other)
        yield from (Pair("only_a", one, None) for one in ones[beside:])
        yield from (Pair("only_b", None, other) for other in others[beside:])


def _difference(pair: Pair) -> Difference:
    if pair.a is None or pair.b is None:
        only = pair.a or pair.b or _NONE
        whole = "\n".join(f"{label}: {text}" for label, text in only.said)
        return Difference(only.name, "step", whole if pair.a else None, whole if pair.b else None)
    ones, others, where = pair.a.said, pair.b.said, pair.a.name
    place = next(
        (at for at, (left, right) in enumerate(zip(ones, others, strict=False)) if left != right),
        min(len(ones), len(others)),
    )
    left, right = (said[place] if place < len(said) else None for said in (ones, others))
    kind = next(each[0] for each in (left, right) if each)
    kind = f"nested {kind.lstrip('> ')}" if kind.startswith(">") else kind
    if left and right and left[0] != right[0]:  # as a thought here, an action there
        return Difference(where, kind.lower(), f"{left[0]}: {left[1]}", f"{right[0]}: {right[1]}")
    return Difference(where, kind.lower(), left and left[1], right and right[1])
