"""What is taken out of a text, and what is written in its place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_args

from taograph import redaction
from taograph.trace.redaction import finding
from taograph.trace.redaction.finding import Span, Wanted
from taograph.trace.redaction.phones import REGIONS
from taograph.trace.redaction.rules import NUMBERS, SURE
from taograph.trace.redaction.streaming import Stream
from taograph.trace.redaction.tokens import NAME, Mode, written
from taograph.trace.redaction.values import redacted

KEY_VARIABLE = "TAOGRAPH_TRACE_KEY"
NATIONAL_ID = "NATIONAL_ID"
NATIONAL_KINDS = tuple(number.kind for number in NUMBERS)
DEFAULT_KINDS = ("EMAIL", "PHONE", "IBAN", "CARD", "IP", "MAC", "WALLET", "BIRTH_DATE", *NATIONAL_KINDS)

# Texts up to the one are names of fields and the like, many and small; those above the other are not held on to. In
# characters.
_SHORT, _REMEMBERED = 64, 20_000

Found = str | Iterable[tuple[int, int, str]]


@dataclass(frozen=True)
class Redactor:
    """Takes personal data and secrets out of texts and values before they are written or sent.

        redactor = Redactor()
        redactor.text("Mail anna@example.com, PESEL 44051401359")   # "Mail <EMAIL>, PESEL <PL_PESEL>"
        redactor.value({"phone": "+48 512 345 678"})                # {"phone": "<PHONE>"}

    What is redacted once stays as it is when it is redacted again. API keys and other secrets are taken out always,
    as ``[secret]``, whatever the kinds and the mode.

    Patterns and checksums need no model: python-stdnum's checksums, phonenumbers' numbering plans. Names and postal
    addresses have no pattern and stay, unless ``custom`` finds them:
    :func:`~taograph.trace.redaction.names.presidio_names`.

    Raises:
        ValueError: A field has a value that it can't have; the message names it and says what it can have.
        TypeError: A field is of another type.
    """

    kinds: Collection[str] = DEFAULT_KINDS
    """What is looked for: names of ``DEFAULT_KINDS``; ``NATIONAL_ID`` is all numbers that a state gives to a person."""
    mode: Mode = "replace"
    """What is written in place of a value: ``replace`` its kind (``<EMAIL>``), ``mask`` as many stars, ``hash`` its
    kind and a keyed hash, the same for the same value (``<EMAIL:3fa9c1d2>``), ``drop`` ``[…]``."""
    key: str | bytes | None = field(default=None, repr=False)
    """The key of the hash (HMAC-SHA256): 32 random bytes, say. Without one that of the environment's
    ``TAOGRAPH_TRACE_KEY``. Who has it can try all telephone numbers: keep it away from the trace."""
    patterns: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Your own: a name in capital letters, such as ``STAFF_ID``, and a regular expression. Matched line by line."""
    custom: Callable[[str], Found] | None = None
    """Your own function of a line: gives back the line as it is to be, or starts, ends and kinds of what it found. It
    is asked first. What it raises is raised: a line that could not be looked at is not written."""
    regions: Collection[str] = REGIONS
    """The countries, by two letters, whose telephone numbers are found without a country's code."""
    threshold: float = 0.5
    """How sure a find has to be, from 0 to 1. At 0.3 and below, nine or ten digits are taken for an NHS number or a BSN
    by their check digit alone: one order number in eleven is, too."""
    hides_secrets = True  # who asks it need not do that before
    _wanted: Wanted = field(init=False, repr=False, compare=False)
    _key: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = _kinds(self.kinds)
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode={self.mode!r} is none: one of {', '.join(get_args(Mode))}")
        if self.custom is not None and not callable(self.custom):
            raise TypeError(f"custom={self.custom!r}: give a function of a text, or None")
        if isinstance(self.threshold, bool) or not 0 < self.threshold <= 1:
            raise ValueError(f"threshold={self.threshold!r}: give a number above 0 and up to 1; 0.5 is usual")
        object.__setattr__(self, "kinds", tuple(sorted(kinds)))
        object.__setattr__(self, "regions", regions := _regions(self.regions))
        object.__setattr__(self, "patterns", dict(self.patterns))
        object.__setattr__(self, "_key", _key(self.mode, self.key))
        object.__setattr__(self, "_wanted", Wanted(kinds, _patterns(self.patterns), regions, self.threshold))

    def __call__(self, value: Any) -> Any:
        """The same as :meth:`value`."""
        return self.value(value)

    def text(self, text: str, *, context: str = "") -> str:
        """A text without personal data and secrets.

        Args:
            text: The text.
            context: What is said before it, such as the name of the field in which it stands.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}: give a str; redactor.value takes anything")
        return self._text(text, context, tuple(redaction.named()))

    def value(self, value: Any) -> Any:
        """A value of the same shape, with every text in it redacted: keys too, and numbers that are somebody's.

        Such a number becomes a text. A file in base64 is left alone. What is under a key such as ``api_key`` or
        ``password`` is a secret, however it looks.

        Args:
            value: What JSON can hold; anything else is taken as its text.
        """
        secrets = tuple(redaction.named())
        return redacted(value, lambda text, context: self._text(text, context, secrets))

    def spans(self, text: str, *, context: str = "") -> list[Span]:
        """Where personal data and secrets stand, in order and without overlaps.

        What ``custom`` finds is in it where that tells places; a text that it gives back has none.

        Args:
            text: The text.
            context: What is said before it.
        """
        given, also = self._asked(text)
        also = also if given == text else []
        return finding.find(text, self._wanted, secrets=redaction.named(), also=also, context=context)

    def stream(self) -> Stream:
        """Redact a text that comes in pieces: the pieces that come out, joined, are what :meth:`text` makes of it."""
        return Stream(self.text, self._find, self._part)

    def _part(self, text: str, spans: list[Span], start: int, end: int) -> str:
        # A function that gives back the text has not been asked: it would have moved the places.
        return self._asked(self._write(text, spans, start, end))[0]

    def _text(self, text: str, context: str, secrets: tuple[str, ...]) -> str:
        if self.custom is None and len(text) <= _REMEMBERED:
            look = _looked_through_short if len(text) < _SHORT else _looked_through
            return look(self, text, context, secrets)
        return self._read(text, context, secrets)

    def _read(self, text: str, context: str, secrets: tuple[str, ...]) -> str:
        text, also = self._asked(text)
        spans = finding.find(text, self._wanted, secrets=secrets, also=also, context=context)
        return self._write(text, spans, 0, len(text))

    def _find(self, text: str, known: list[Span]) -> list[Span]:
        also = [] if self.custom is None else self._asked(text)[1]
        return finding.find(text, self._wanted, secrets=redaction.named(), also=[*known, *also])

    def _write(self, text: str, spans: list[Span], start: int, end: int) -> str:
        parts, at = [], start
        for span in spans:
            if start <= span.start and span.end <= end:
                token = written(text[span.start : span.end], span.kind, self.mode, self._key)
                parts += [text[at : span.start], token]
                at = span.end
        return "".join([*parts, text[at:end]])

    def _asked(self, text: str) -> tuple[str, list[Span]]:
        """What the user's function makes of each line."""
        if self.custom is None:
            return text, []
        lines, spans, at = [], [], 0
        for line in text.split("\n"):
            told = self.custom(line) if line else line
            new = told if isinstance(told, str) else line
            if not isinstance(told, str):
                spans += [_span(found, line, at) for found in told]
            lines.append(new)
            at += len(new) + 1
        return "\n".join(lines), spans


def _span(found: tuple[int, int, str], line: str, at: int) -> Span:
    start, end, kind = found[0], found[1], found[2]
    if not (0 <= start < end <= len(line)) or not NAME.fullmatch(kind):
        raise ValueError(
            f"custom gave ({start!r}, {end!r}, {kind!r}) for a line of {len(line)} characters: give start, end and a "
            "kind in capital letters, such as PERSON"
        )
    return Span(start + at, end + at, kind, SURE)


def _kinds(kinds: Collection[str]) -> frozenset[str]:
    if isinstance(kinds, str):
        raise TypeError(f"kinds={kinds!r}: give several names, such as ({kinds!r},)")
    known = {*DEFAULT_KINDS, NATIONAL_ID}
    if unknown := sorted(set(kinds) - known):
        hint = "names need custom=presidio_names(…), see there" if {"PERSON", "NAME"} & set(unknown) else ""
        raise ValueError(f"kinds: there is no {', '.join(unknown)}; {hint or 'there are ' + ', '.join(sorted(known))}")
    return frozenset(kinds) - {NATIONAL_ID} | (frozenset(NATIONAL_KINDS) if NATIONAL_ID in kinds else frozenset())


def _regions(regions: Collection[str]) -> tuple[str, ...]:
    if isinstance(regions, str):
        raise TypeError(f"regions={regions!r}: give several, such as ({regions!r},)")
    regions = tuple(regions)
    if regions != REGIONS:
        import phonenumbers

        if unknown := sorted(set(regions) - phonenumbers.SUPPORTED_REGIONS):
            raise ValueError(f"regions: {', '.join(map(repr, unknown))} is no country: two capital letters, such as DE")
    return regions


def _patterns(patterns: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    compiled = {}
    for name, pattern in patterns.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"patterns: {name!r} is no name: capital letters, digits and _, such as STAFF_ID")
        try:
            compiled[name] = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"patterns: {name} is no regular expression: {error}") from None
        if compiled[name].match(""):
            raise ValueError(f'patterns: {name} matches nothing at all (""): use + for *, so that it needs a character')
    return compiled


def _key(mode: Mode, key: str | bytes | None) -> bytes:
    if key is not None and not isinstance(key, str | bytes):
        raise TypeError(f"key is a {type(key).__name__}: give a str or bytes")
    key = os.environ.get(KEY_VARIABLE, "") if key is None else key
    if mode == "hash" and not key:
        raise ValueError(f'mode="hash" needs a key: give key=…, or set {KEY_VARIABLE} to 32 random bytes or so')
    return key.encode() if isinstance(key, str) else key


@lru_cache(256)
def _looked_through(redactor: Redactor, text: str, context: str, secrets: tuple[str, ...]) -> str:
    """What is said once is recorded in several places: as a reply, as a thought, in the hash of each request."""
    return redactor._read(text, context, secrets)


@lru_cache(2048)
def _looked_through_short(redactor: Redactor, text: str, context: str, secrets: tuple[str, ...]) -> str:
    """The same few names of fields stand in every event: they do not crowd out what is long, nor does that them."""
    return redactor._read(text, context, secrets)
