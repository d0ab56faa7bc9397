"""A reply in the text protocol while it comes: what can be shown already, and where it has to end.

:class:`StepStream` reads the pieces of a reply once, from left to right. It gives out a thought or an answer as soon
as that is certain, holds back what may still turn out to be something else, and ends the reply where the model begins
to write what is not its to write: an observation, or a second step. What the reply says is not decided here but by
the parser, on the whole of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from taograph.graphs.protocols.arguments import nothing_meant
from taograph.graphs.protocols.labels import Mark, scan
from taograph.models.text_outlet import Outlet, Stops

# A line may begin with a label as long as it is no more than marks, a word or two, and a number.
_MAY_BE_LABEL = re.compile(r"[\W\d_]{0,40}(?:[^\W\d_]{1,14}[\W\d_]{0,16}){0,2}")
_UNSEEN = " \t\n\v\f\r\u3000\ufeff\u200b\u200c\u200d\u200e\u200f\u2060"
_LINES = re.compile(r"[^\n]*+\n|[^\n]++")
_COLON = re.compile(r"[:：]")
_LONGEST_HEAD = 80
_BOLD = "*_`"
_BOLD_ONLY = re.compile(r"[^\S\n]*[*_`]*")
_BOLD_END = re.compile(r"(?:[^\S\n]*[*_`]+)?")
_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"[^\S\n]*+(`{3,}+|~{3,}+)([^\n]*)")
# A reply that was stopped within the word, which is no part of an answer.
_CUT_WORD = re.compile(r"[^\S\n]*+[*_#]{0,3}+[^\S\n]*+Obs(?:e(?:r(?:v(?:a(?:t(?:i(?:on?)?)?)?)?)?)?)?\s*+(?:<|\Z)")
# At the start of a line these may begin a step that is not under labels.
_NOT_PROSE = ("<", "`", "~", "{", "[")

Kind = Literal["thought", "answer"]


class _Mode(Enum):
    THINKING = auto()  # within a <think> that the reply begins with
    PRELUDE = auto()  # before any label
    PLAIN = auto()  # a reply of no protocol: shown as it is
    THOUGHT = auto()
    ANSWER = auto()
    HELD = auto()  # an action, or what only the parser can tell


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a thought or an answer."""

    kind: Kind
    text: str


class StepStream:
    """Reads one reply as it comes.

    Args:
        primed: Whether the prompt ended with the label of a thought, which the reply then continues.
        plain: Whether a reply without labels is to be shown as it comes: nobody asked for the protocol.
        live: Whether anything is to be shown before the end, and the reply to end at labels.
        answers: Whether answers are to be shown before the end.
        stops: Texts that end the reply wherever they stand.

    Attributes:
        cut: Whether the reply was ended; what comes then is not read.
        stopped: The text of ``stops`` that ended it, if one did.
        is_plain: Whether it is a reply of no protocol.
        is_labelled: Whether it begins with a label.
        goes_on: Whether more than an action follows an answer: the answer that was shown may not be the last.
    """

    def __init__(
        self,
        *,
        primed: bool = False,
        plain: bool = False,
        live: bool = True,
        answers: bool = True,
        stops: Sequence[str] = (),
    ) -> None:
        self.cut = False
        self.is_plain = False
        self.is_labelled = False
        self.goes_on = False
        self._primed, self._plain, self._live, self._answers = primed, plain, live, answers
        self._stops = Stops(stops)
        self._mode = _Mode.PRELUDE
        self._outlet = Outlet()
        self._kept: list[str] = []
        self._pending = ""
        self._return = ""
        self._line_begins = True
        self._aside: list[str] = []  # the text before any label; the name behind the label of an action
        self._said = False  # whether anything but blanks has come
        self._acted: Literal["", "action", "input", "none"] = ""
        self._fence = ""
        self._over = False
        self._value = _Value()
        self._thinking = _Thinking()
        self._tagged = False
        self._looked = 0  # so many kept pieces were looked through for tags
        self._shown: dict[Kind, list[str]] = {"thought": [], "answer": []}

    @property
    def text(self) -> str:
        """What was read, up to where it was cut."""
        return "".join(self._kept)

    @property
    def stopped(self) -> str:
        """The text of ``stops`` that ended it, or nothing."""
        return self._stops.hit

    def shown(self, kind: Kind) -> str:
        """All that was given out of a kind."""
        return "".join(self._shown[kind])

    def feed(self, piece: str) -> list[Delta]:
        """Read a piece; returns what can be shown now."""
        if not (self._plain or self._kept or self._pending):
            piece = piece.lstrip(_UNSEEN)
        piece, self._return = self._return + piece, ""
        if piece.endswith("\r"):  # it may be the first half of a line break
            piece, self._return = piece[:-1], "\r"
        return self._take(self._stops.pass_on(piece.replace("\r\n", "\n").replace("\r", "\n")))

    def end(self) -> list[Delta]:
        """The reply is over; returns what is left of one of no protocol. What is left of others, the parser tells."""
        last = self._stops.pass_on("\n") if self._return else ""
        return [] if self.cut else self._take(last + self._stops.rest(), ended=True)

    def _take(self, text: str, *, ended: bool = False) -> list[Delta]:
        deltas: list[Delta] = []
        if self.cut:
            return deltas
        lines = _LINES.findall(self._pending + text) if self._live else [self._pending + text]
        self._pending = ""
        self._over = ended = ended or bool(self._stops.hit)
        for line in lines:
            if not self._live:
                self._kept.append(line)
            elif not self.cut:
                self._read(line, deltas, ended=ended)
        self.cut = self.cut or bool(self._stops.hit)
        return deltas

    def _read(self, line: str, deltas: list[Delta], *, ended: bool) -> None:
        """Read a line, or what there is of it yet."""
        if self._mode is _Mode.THINKING:
            line = self._think(line)
        if line and self._line_begins and self._mode not in (_Mode.PLAIN, _Mode.THINKING) and not self._value.in_text:
            if not (ended or line.endswith("\n")) and _undecided(line):
                self._pending = line
                return
            head = line[:_LONGEST_HEAD]
            if not self._said and (tag := _TAG.match(head.lstrip())) and not tag[1]:
                self._mode = _Mode.THINKING
                self._read(line, deltas, ended=ended)
                return
            mark = self._begin_line(head)
            if mark is not None and self._ends(mark):
                self.cut = True
                return
            if mark is not None:
                self._label(mark, deltas)
                self._kept.append(line[: mark.value])
                self._line_begins, line = False, line[mark.value :]
        if line:
            self._line_begins = line.endswith("\n")
            self._kept.append(line)
            self._body(line, deltas)

    def _think(self, text: str) -> str:
        """Read on within the thinking that a reply begins with; returns what stands behind it."""
        at = self._thinking.pass_on(text)
        self._kept.append(text[:at])
        if at is None:
            return ""
        # A label may stand right behind the tag.
        self._mode, self._looked, self._line_begins = _Mode.PRELUDE, len(self._kept), True
        return text[at:]

    def _begin_line(self, head: str) -> Mark | None:
        """The label that a line begins with, if there is one and it counts."""
        if self._mode is _Mode.ANSWER and _CUT_WORD.match(head):
            self._outlet.frozen = True
        fence = _FENCE.match(head)
        if self._fence:
            if fence and not fence[2].strip() and fence[1].startswith(self._fence):
                self._fence = ""
            return None
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            self._fence = fence[1]
        mark = None if fence else _label_of(head)
        if mark is None and head.strip() and not self._said:
            self._begin_unlabelled(head)
        self.is_labelled = self.is_labelled or (mark is not None and not self._said)
        self._said = self._said or bool(head.strip())
        if mark is None and self._mode in (_Mode.PRELUDE, _Mode.THOUGHT) and head.lstrip().startswith(_NOT_PROSE):
            self._mode = _Mode.HELD
        return mark

    def _begin_unlabelled(self, head: str) -> None:
        if self._primed:
            self._mode = _Mode.THOUGHT
        elif self._plain and not head.lstrip().startswith(("<", "`", "~")):
            self._mode, self.is_plain = _Mode.PLAIN, True

    def _ends(self, mark: Mark) -> bool:
        """Whether a label begins what is not part of the first step.

        Nothing is cut of a reply that begins with prose, or has a ``<think>`` within it, see :meth:`_is_certain`.
        """
        if self._mode is _Mode.ANSWER or self.goes_on:
            # Another thought, and another answer, are a correction: the last one counts.
            return mark.kind in ("action", "observation")
        if not self._begins_a_step or self._is_tagged():
            return False
        if mark.kind == "observation":
            return self._acted != "none" and bool("".join(self._kept).strip())
        return self._acted == "input" and mark.kind in ("thought", "action")

    def _is_tagged(self) -> bool:
        """Whether there is a ``<think>`` so far, other than at the beginning."""
        if not self._tagged:
            self._tagged = _TAG.search("".join(self._kept[self._looked :])) is not None
            self._looked = len(self._kept)
        return self._tagged

    def _label(self, mark: Mark, deltas: list[Delta]) -> None:
        self._value = _Value()
        match mark.kind:
            case "thought" if (
                self._mode is _Mode.PRELUDE and not mark.bold and not Outlet.is_doubtful("".join(self._aside))
            ):
                self._mode, self._outlet = _Mode.THOUGHT, Outlet()
            case "answer" if self._answers and not mark.bold and self._is_certain():
                if self._mode is _Mode.THOUGHT:
                    self._show("thought", self._outlet.rest(), deltas)
                self._mode, self._outlet = _Mode.ANSWER, Outlet(answer=True)
            case "action" if not (self._acted or self.goes_on):
                self._mode, self._acted, self._aside = _Mode.HELD, "action", []
            case "input" if self._acted == "action":
                name = "".join(self._aside).split()
                self._acted = "none" if name and nothing_meant(name[0]) else "input"
            case _:
                self.goes_on = self.goes_on or self._mode is _Mode.ANSWER
                self._mode = _Mode.HELD

    @property
    def _begins_a_step(self) -> bool:
        return self.is_labelled or self._primed

    def _is_certain(self) -> bool:
        """Whether what stands before the label of an answer is sure to be a thought.

        Prose need not be: a model whose ``<think>`` was in the prompt may rehearse whole steps in it, which count for
        nothing once it is closed.
        """
        if self._mode is _Mode.PRELUDE:
            return self._begins_a_step and not self._aside
        return self._mode is _Mode.THOUGHT and not self._outlet.frozen and self._begins_a_step

    def _body(self, text: str, deltas: list[Delta]) -> None:
        match self._mode:
            case _Mode.THOUGHT:
                self._show("thought", self._outlet.pass_on(text), deltas)
            case _Mode.ANSWER:
                self._show("answer", self._outlet.pass_on(text), deltas)
            case _Mode.PLAIN:
                self._show("answer", "".join([*self._aside, text]), deltas)
                self._aside = []
            case _Mode.PRELUDE:
                self._aside.append(text)
            case _Mode.HELD if self._acted == "action":
                self._aside.append(text)
        if self._acted:
            self._value.pass_on(text)

    def _show(self, kind: Kind, text: str, deltas: list[Delta]) -> None:
        # When all has come, the parser says what it is: the last line may be the beginning of a label.
        if text and (self.is_plain or not self._over):
            self._shown[kind].append(text)
            deltas.append(Delta(kind, text))


def _undecided(line: str) -> bool:
    """Whether the beginning of a line may still become a label, or the mark of a fence."""
    if len(line) >= _LONGEST_HEAD:
        return False
    if line.lstrip()[:1] in ("`", "~"):
        return True
    colon = _COLON.search(line)
    if colon is None:
        return _MAY_BE_LABEL.fullmatch(line) is not None
    # Bold marks that close behind the colon belong to the label.
    return any(mark in line[: colon.start()] for mark in _BOLD) and _BOLD_ONLY.fullmatch(line, colon.end()) is not None


def _label_of(line: str) -> Mark | None:
    colon = _COLON.search(line, 0, _LONGEST_HEAD)
    if colon is None:
        return None
    found = scan(line[: _BOLD_END.match(line, colon.end()).end()]).labels  # type: ignore[union-attr]
    return found[0] if found and found[0].start == 0 else None


class _Value:
    """Whether a place in an argument is within a JSON text, where labels are data."""

    def __init__(self) -> None:
        self.in_text = False
        self._depth = 0
        self._escaped = False

    def pass_on(self, text: str) -> None:
        """Read on."""
        if self._depth == 0 and "{" not in text and "[" not in text:
            return
        for char in text:
            if not self.in_text:
                if char in "{[":
                    self._depth += 1
                elif self._depth and char in "}]":
                    self._depth -= 1
                self.in_text = bool(self._depth) and char == '"'
            elif self._escaped:
                self._escaped = False
            elif char == "\\":
                self._escaped = True
            elif char == '"':
                self.in_text = False


class _Thinking:
    """Finds the end of a ``<think>`` part."""

    def __init__(self) -> None:
        self._depth = 0
        self._tail = ""

    def pass_on(self, text: str) -> int | None:
        """Where in a piece it ends, or None."""
        whole = self._tail + text
        for tag in _TAG.finditer(whole):
            self._depth += -1 if tag[1] else 1
            if self._depth == 0:
                return tag.end() - len(self._tail)
        at = whole.rfind("<", max(0, len(whole) - len("</thinking>")))
        self._tail = "" if at < 0 or ">" in whole[at:] else whole[at:]
        return None
