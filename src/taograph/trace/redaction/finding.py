"""Finding personal data in a text: where, of which kind, how sure.

In two steps. What is sure by its form or its checksum is found by itself. What is not, such as nine digits, counts
where a word beside it says what it is. A token of an earlier redaction, and what was found before, ends the search for
such a word: so a text that was redacted shows no more than it did.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from taograph import redaction
from taograph.trace.redaction import words
from taograph.trace.redaction.accounts import cards, ibans, polish_accounts, wallets
from taograph.trace.redaction.phones import phones
from taograph.trace.redaction.plain import Plain
from taograph.trace.redaction.rules import NUMBERS, SURE, Candidate
from taograph.trace.redaction.shapes import addresses, dates, emails, macs
from taograph.trace.redaction.tokens import SECRET, TOKEN

NEAR_LEFT, NEAR_RIGHT, NEXT = 48, 16, 8
_BLANK = "\x1f"  # white space to a pattern for secrets, no separator to one for numbers
_ROUNDS = 8  # two are usual
_MARGIN = 40
_LETTER = re.compile("[A-Za-z]")
_LEAST = 4  # digits, below which no kind has a number


class Span(NamedTuple):
    """A part of a text that holds personal data or a secret.

    Attributes:
        start: Its first character.
        end: The one after its last.
        kind: What it is, such as ``EMAIL``.
        score: How sure that is, from 0 to 1.
    """

    start: int
    end: int
    kind: str
    score: float


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    kinds: frozenset[str]
    patterns: Mapping[str, re.Pattern[str]]
    regions: tuple[str, ...]
    threshold: float


# Digits with letters and separators between, from the first digit to the last.
_DIGITS = re.compile(r"\d(?:[0-9A-Za-z .\-/()+]{0,10}\d)*+")
# Numbers that are no one's: dates, UUIDs, fractions, ids of calls and messages.
_ORDINARY = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    r"|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./](?:19|20)\d\d"
    r"|(?:0|[1-9]\d{0,2})\.\d{6,}"
    r"|(?:call|toolu|chatcmpl|run|msg|req|resp|fc)[_-][0-9A-Za-z-]+)(?![0-9A-Za-z])",
    re.IGNORECASE,
)
_BLOB = re.compile(r"[A-Za-z0-9+/=]{1024,}")  # an image, a file: no sentence


def find(
    text: str, wanted: Wanted, *, secrets: Collection[str], also: Iterable[Span] = (), context: str = ""
) -> list[Span]:
    """Parts of a text that hold personal data, in order, none overlapping another.

    Args:
        text: The text.
        wanted: What is looked for.
        secrets: Values that are secret, however they look.
        also: What was found already, of a name's kind, say.
        context: What is said before the text, such as the key under which it stands.
    """
    before = f'"{context}": "' if context else ""
    plain, ahead = Plain(before + text), len(before)
    work = plain.text
    known = [Span(*match.span(), match[1] or "", SURE) for match in TOKEN.finditer(work)]
    tokens = [(span.start, span.end) for span in known]
    given = [s._replace(start=plain.here(s.start + ahead), end=plain.here(s.end + ahead)) for s in also]
    found = _united([part for span in given for part in _outside(span, tokens)])
    work = _blanked(work, [*known, *found])
    for _ in range(_ROUNDS):
        # Once more: what was found may have parted two numbers that were one row before.
        new = [part for span in _round(work, wanted, secrets, [*known, *found]) for part in _outside(span, tokens)]
        if not new:
            break
        found = _united([*found, *new])
        work = _blanked(work, new)
    there = [s._replace(start=plain.there(s.start) - ahead, end=plain.there(s.end) - ahead) for s in found]
    return [span._replace(start=max(0, span.start)) for span in there if span.end > 0]


def _outside(span: Span, tokens: list[tuple[int, int]]) -> Iterator[Span]:
    """The parts of a span that no token holds."""
    at = span.start
    first = bisect_right(tokens, span.start, key=lambda token: token[1])
    for index in range(first, len(tokens)):
        start, end = tokens[index]
        if start >= span.end:
            break
        if start > at:
            yield span._replace(start=at, end=start)
        at = max(at, end)
    if at < span.end:
        yield span._replace(start=at)


def _united(spans: list[Span]) -> list[Span]:
    """Overlapping spans as one, of the surest kind: no rest of a value may stay."""
    united: list[Span] = []
    for span in sorted(spans):
        if united and span.start < united[-1].end:
            last = united.pop()
            best = max(last, span, key=lambda s: (s.kind == SECRET, s.score, s.end - s.start, s.kind))
            span = best._replace(start=last.start, end=max(last.end, span.end))  # noqa: PLW2901
        united.append(span)
    return united


def _blanked(text: str, spans: Iterable[Span]) -> str:
    parts, at = [], 0
    for start, end, *_ in sorted(spans):
        if end > at:
            parts += [text[at : max(at, start)], _BLANK * (end - max(at, start))]
            at = end
    return "".join([*parts, text[at:]])


def _round(text: str, wanted: Wanted, secrets: Collection[str], known: list[Span]) -> list[Span]:
    """One look at a text in which what is known is blank."""
    found = [Span(start, end, SECRET, SURE) for start, end in redaction.find(text, secrets)]
    blobs = [Span(*match.span(), "", 0) for match in _BLOB.finditer(text)] if len(text) >= 1024 else []
    text = _blanked(text, blobs)
    for name, pattern in wanted.patterns.items():
        found += [Span(*span, name, SURE) for span in _in_lines(pattern, text)]
    forms = {"EMAIL": emails, "IP": addresses, "MAC": macs, "WALLET": wallets}
    for kind, form in forms.items():
        if kind in wanted.kinds:
            found += [Span(*c[:4]) for c in form(text) if c.score >= wanted.threshold]
    text = _blanked(text, found)
    sure, unsure = _numbers(text, wanted)
    if "BIRTH_DATE" in wanted.kinds:
        unsure += dates(text)
    found += sure
    text = _blanked(text, sure)
    return found + _beside_words(text, unsure, {span.end: span.kind for span in [*known, *found]})


def _in_lines(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    # A line at a time, as a stream has them.
    at = 0
    for line in text.split("\n"):
        for match in pattern.finditer(line):
            if match.end() > match.start():
                yield at + match.start(), at + match.end()
        at += len(line) + 1


def _numbers(text: str, wanted: Wanted) -> tuple[list[Span], list[Candidate]]:
    """What is sure, and what needs a word, of all that has digits."""
    sure: list[Span] = []
    unsure: list[Candidate] = []
    for start, end, first, last in _rows(text):
        # A copy of the row in which dates and the like are blank, with enough before it to know their beginning.
        at = max(0, start - _MARGIN)
        row = _ORDINARY.sub(lambda match: "\x1e" * len(match[0]), text[at : end + _MARGIN])
        digits = sum(map(row[first - at : last - at].count, "0123456789"))
        if digits < _LEAST:
            continue
        follows = _BLANK in text[max(0, start - NEXT) : end]
        near = _Near("" if follows else text[max(0, start - NEAR_LEFT) : end + NEAR_RIGHT].lower(), follows)
        for one in _candidates(row, (start - at, end - at), digits, wanted, near):
            if one.score >= wanted.threshold:
                sure.append(Span(one.start + at, one.end + at, one.kind, one.score))
            elif one.labelled >= wanted.threshold and one.kind in near:
                unsure.append(one._replace(start=one.start + at, end=one.end + at))
    return sure, unsure


def _rows(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Where numbers stand that may be one, with some of what is around, and without."""
    for match in _DIGITS.finditer(text):
        start, end = match.span()
        if end - start < 5:
            continue
        start, end = max(0, start - 12), min(len(text), end + 12)
        # Not in the midst of a word: a pattern would take the cut for the word's end.
        least = match.end() - 64
        while least < end < len(text) and _alnum(text[end - 1]) and _alnum(text[end]):
            end -= 1
        yield start, end, *match.span()


def _alnum(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


class _Near:
    """The kinds that a number may be of by the words around it, looked up when they are asked for."""

    def __init__(self, text: str, every: bool) -> None:
        self._text, self._every = text, every
        self._found: dict[str, bool] = {}

    def __contains__(self, kind: str) -> bool:
        if kind not in self._found:
            self._found[kind] = self._every or words.near(self._text, kind)
        return self._found[kind]


def _candidates(text: str, span: tuple[int, int], digits: int, wanted: Wanted, near: _Near) -> Iterator[Candidate]:
    (start, end), kinds = span, wanted.kinds
    letters = _LETTER.search(text, start, end)
    for number in NUMBERS:
        if digits >= number.least and number.kind in kinds and (letters or not number.letters):
            yield from number.candidates(text, start, end, bool(number.loose) and number.kind in near)
    if "IBAN" in kinds and digits >= 8 and letters:
        yield from ibans(text, start, end)
    if "IBAN" in kinds and digits >= 26:
        yield from polish_accounts(text, start, end)
    if "CARD" in kinds and digits >= 12:
        yield from cards(text, start, end, "CARD" in near)
    if "PHONE" in kinds and digits >= 7:
        yield from phones(text, start, end, "PHONE" in near, wanted.regions)


def _beside_words(text: str, candidates: list[Candidate], kinds: Mapping[int, str]) -> list[Span]:
    """Those that a word beside says to be what they look like, or that follow one of their kind ("tel. 1 or 2")."""
    found: list[Span] = []
    ends = dict(kinds)
    for one in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if (found and one.start < found[-1].end) or _BLANK in text[one.start : one.end]:
            continue
        least = max(0, one.start - NEAR_LEFT, found[-1].end if found else 0)
        begin = max(least, 1 + max(text.rfind(sign, least, one.start) for sign in (_BLANK, "\n")))
        follows = one.start - begin <= NEXT and ends.get(begin) == one.kind
        left = text[begin : one.start].lower()
        word, other = words.last(left, one.kind), words.last(left, words.OTHER)
        right = re.split(f"[\n{_BLANK}]", text[one.end : one.end + NEAR_RIGHT].lower(), maxsplit=1)[0]
        if follows or word > other or (other < 0 and words.last(right, one.kind) >= 0):
            found.append(Span(one.start, one.end, one.kind, one.labelled))
            ends[one.end] = one.kind
    return found
