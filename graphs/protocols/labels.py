"""Where the labels of the text protocol stand in a reply: one pass, linear in its length.

A label counts only at the start of a line, and never inside a code fence, a ``<think>`` part or the JSON value of
an argument. Every quantifier of the pattern that could give back what it took is possessive, so that no run of
blanks, stars or digits makes the search slower than its length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Literal

from taograph.graphs.protocols.arguments import JsonValue, decode_at

LabelKind = Literal["thought", "action", "input", "observation", "answer"]

_WORDS: dict[LabelKind, str] = {
    "input": r"action(?:[ \t]*+\d{1,4})?+[ \t_-]{0,3}+input|行动[ \t]?输入|动作[ \t]?输入",
    "action": r"action|行动|动作",
    "thought": r"thought|思考",
    "observation": r"observation|观察",
    "answer": r"final[ \t_-]{0,3}+answer|answer|最终答案|最终回答|答案",
}
_LABELS = "|".join(f"(?P<{kind}>{words})" for kind, words in _WORDS.items())
_MARK = re.compile(
    rf"""
    ^[^\S\n]*+(?P<fence>`{{3,}}+|~{{3,}}+)
    | (?P<think><(?P<close>/)?think(?:ing)?>)
    | (?:^|(?<=</think>)|(?<=</thinking>))[^\S\n]*+(?:(?:[-*+•]|\d{{1,3}}[.)])[^\S\n]++)?+(?:\#{{1,6}}[^\S\n]*+)?+
      (?P<bold>[*_`]{{1,3}}+)?+[^\S\n]*+
      (?:{_LABELS})
      [^\S\n]*+(?:\#?\d{{1,4}})?+[^\S\n]*+
      (?P<closed>[*_`]{{1,3}}+)?+[^\S\n]*+[:：]
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_FENCE_CLOSE = re.compile(r"[^\S\n]*+(`{3,}+|~{3,}+)[^\S\n]*+$", re.MULTILINE)
_QUOTES = re.compile(r"\\.|\"")
_BOLD = re.compile(r"[^\S\n]*+[*_`]{1,3}+")
# A stray </think> makes everything before it a thought; after so many, arguments are no longer decoded.
_MOST_DECODED = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A label of a reply.

    Attributes:
        kind: Which.
        start: Where its line begins.
        value: Where what it labels begins.
        bold: The bold marks that were opened before the label and not closed by the colon.
    """

    kind: LabelKind
    start: int
    value: int
    bold: str = ""


@dataclass(slots=True)
class Marks:
    """What a scan found.

    Attributes:
        labels: The labels, in order.
        thoughts: What stood in ``<think>`` parts.
        base: Where the reply begins, behind a thought whose opening tag was in the prompt.
        unclosed: Where a ``<think>`` begins that is not closed, if there is one ahead of an answer.
        decoded: The JSON value behind the first action's "Action Input", where there is one.
        holes: The ``<think>`` parts, as spans.
    """

    labels: list[Mark] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    base: int = 0
    unclosed: int | None = None
    decoded: JsonValue | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)

    def text(self, source: str, start: int, end: int) -> str:
        """A part of the reply without the ``<think>`` parts in it, trimmed."""
        parts: list[str] = []
        for n in range(max(0, bisect_left(self.holes, (start, start)) - 1), len(self.holes)):
            left, right = self.holes[n]
            if left >= end:
                break
            if right > start:
                parts.append(source[start : max(start, left)])
                start = right
        return "".join([*parts, source[start:end]]).strip()


def scan(text: str, start: int = 0, *, fenced: bool = False) -> Marks:
    """Find the labels of a reply.

    Args:
        text: The reply.
        start: Where it begins.
        fenced: Whether a fence was opened before that, around the whole reply: the first bare one closes it.
    """
    found = Marks(base=start)
    depth, opened, decodes, at = 0, 0, 0, start
    strings = _Strings(text)
    while (match := _MARK.search(text, at)) is not None:
        at = match.end()
        if match["fence"]:
            if depth == 0 and fenced and _closes(text, match, found):
                fenced, at = False, _line_end(text, at)
                found.holes.append((match.start(), at))
            elif depth == 0:
                at = _behind_fence(text, match)
        elif match["think"]:
            if found.labels and found.labels[-1].kind == "answer" and depth == 0:
                continue  # an answer may speak of the tag
            if not match["close"]:
                opened = match.start() if depth == 0 else opened
                depth += 1
            elif depth > 0:
                depth -= 1
                if depth == 0:
                    found.thoughts.append(_inside(text[opened : match.start()]))
                    found.holes.append((opened, match.end()))
            elif not strings.hold(found, match.start()):  # opened in the prompt: what stood before was thought
                found.thoughts = [_inside(text[found.base : match.start()])]
                found.base, found.labels, found.decoded, found.holes = match.end(), [], None, []
        elif depth == 0:
            mark = _mark(text, match)
            at = mark.value
            found.labels.append(mark)
            strings.begin(mark.value)
            of_action = mark.kind == "input" and len(found.labels) > 1 and found.labels[-2].kind == "action"
            if of_action and found.decoded is None and decodes < _MOST_DECODED:
                decodes += 1
                found.decoded = decode_at(text, mark.value)
                at = found.decoded.end if found.decoded else at
    found.unclosed = opened if depth else None
    return found


class _Strings:
    """Tells what stands within a string of arguments that broke off; each character is looked at once.

    Args:
        text: The reply.
    """

    def __init__(self, text: str) -> None:
        self._text, self._last_line = text, text.rfind("\n") + 1
        self._at, self._quotes = 0, 0

    def begin(self, at: int) -> None:
        """What a label labels begins here."""
        self._at, self._quotes = at, 0

    def hold(self, found: Marks, at: int) -> bool:
        """Whether the last label is that of arguments, and this place in the last line is in a string of theirs."""
        if not found.labels or found.labels[-1].kind != "input" or at < self._last_line:
            return False
        self._quotes += _QUOTES.findall(self._text, self._at, at).count('"')
        self._at = at
        return self._quotes % 2 == 1


def _mark(text: str, match: re.Match[str]) -> Mark:
    kind: LabelKind = next(kind for kind in _WORDS if match[kind])
    bold, value = match["bold"] or "", match.end()
    if match["closed"]:
        bold = ""
    elif bold and (closing := _BOLD.match(text, value)) and closing[0].strip() == bold:
        bold, value = "", closing.end()
    return Mark(kind, match.start(), value, bold)


def _behind_fence(text: str, opening: re.Match[str]) -> int:
    """Where a fence ends: labels within it do not count. One that is never closed goes on to the end."""
    mark: str = opening["fence"]
    at = text.find("\n", opening.end())
    if mark[0] == "`" and "`" in text[opening.end() : at if at >= 0 else len(text)]:
        return opening.end()  # code within a line
    while at >= 0:
        closing = _FENCE_CLOSE.match(text, at + 1)
        if closing and closing[1][0] == mark[0] and len(closing[1]) >= len(mark):
            return closing.end()
        at = text.find("\n", at + 1)
    return len(text)


def _closes(text: str, fence: re.Match[str], found: Marks) -> bool:
    """Whether a fence closes the one around the reply: it is bare, and no label waits for what it would open."""
    if text[fence.end() : _line_end(text, fence.end())].strip():
        return False
    return not found.labels or bool(text[found.labels[-1].value : fence.start()].strip())


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _inside(text: str) -> str:
    return re.sub(r"</?think(?:ing)?>", "", text, flags=re.IGNORECASE).strip()
