"""Telephone numbers: found by how they are written, held to be real by phonenumbers (a port of libphonenumber).

Its own matcher is not used: it takes any number of a country's length without a word beside it, as orders have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taograph.trace.redaction.rules import LIKELY, NOT, SURE, Candidate

REGIONS = ("DE", "PL", "CN", "US", "GB", "FR", "ES", "IT", "NL", "AT", "CH")
_LEFT, _RIGHT = r"(?<![0-9A-Za-z+])(?<!\d\.)", r"(?![0-9A-Za-z])"
# Not a part of a longer row of digits and separators.
_ALONE_LEFT, _ALONE_RIGHT = r"(?<![0-9A-Za-z+])(?<!\d[-./, ])", r"(?![0-9A-Za-z])(?![-./]\d)(?! \d{2})"
_GAP = r"(?: ?[-./] ?|  ?|\) ?[-/.]? ?| ?\(|\))"
_CHAIN = rf"\d+(?:{_GAP}\d+){{0,9}}"

_INTERNATIONAL = re.compile(rf"(?:(?<![A-Za-z+])(?=\+)|{_LEFT})(?=((?:\+ ?|00 ?(?=[1-9]))\(?{_CHAIN}){_RIGHT})")
_WAYS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(rf"{_ALONE_LEFT}(?=({way}){_ALONE_RIGHT})"), regions)
    for way, regions in (
        (r"(?:1[-. ])?(?:\([2-9]\d\d\)[ -]?|[2-9]\d\d[-. ])[2-9]\d\d[-. ]\d{4}", ("US",)),
        (r"1[3-9]\d(?:\d{8}|[- ]\d{4}[- ]\d{4})", ("CN",)),
        (r"(?:\(\d\d\) ?|\d\d )\d{3}[- ]\d\d[- ]\d\d", ("PL",)),
        # A 0, the area, a gap. Not Italy, whose numbers have any length.
        (rf"(?:\(0\d{{1,4}}\) ?[-/]? ?|0\d{{1,4}}(?: ?[-/] ?|[ .]))\d+(?:{_GAP}\d+){{0,6}}", ()),
    )
)
_LABELLED = re.compile(rf"{_LEFT}(?=(\(?{_CHAIN}){_RIGHT})")
_GROUP = re.compile(r"\d+(?![0-9A-Za-z])")


def phones(text: str, start: int, end: int, labelled: bool, regions: tuple[str, ...]) -> Iterator[Candidate]:
    """Numbers with a country's code, nationally written ones, and after a word for it any that a country has.

    Args:
        text: The text.
        start: Where to begin.
        end: Where to end.
        labelled: Whether a word for a telephone number is near.
        regions: The countries whose national numbers count.
    """
    for match in _INTERNATIONAL.finditer(text, start, end):
        yield from _longest(text, match.span(1), (), LIKELY)
    for pattern, only in _WAYS:
        for match in pattern.finditer(text, start, end):
            where = tuple(region for region in regions if (region in only if only else region not in {"IT", "US"}))
            yield from _longest(text, match.span(1), where, LIKELY)
    if labelled:
        for match in _LABELLED.finditer(text, start, end):
            yield from _longest(text, match.span(1), regions, NOT)


def _longest(text: str, span: tuple[int, int], regions: tuple[str, ...], score: float) -> Iterator[Candidate]:
    """The longest row of whole groups from a start on that is a number somewhere."""
    start, end = span
    ends = [last.end() for last in _GROUP.finditer(text, start, end)]
    for last in reversed(ends):
        digits = sum(map(str.isdigit, text[start:last]))
        if 7 <= digits <= 17 and is_phone(text[start:last], regions, possible=score < LIKELY):
            begin = start if text[start] != "(" or ")" in text[start:last] else start + 1
            yield Candidate(begin, last, "PHONE", score, SURE)
            return


def is_phone(text: str, regions: tuple[str, ...], possible: bool) -> bool:
    """Whether a number is in use in one of the countries; without one it has to have its country's code.

    Args:
        text: The number.
        regions: Countries, by their two letters.
        possible: A number is enough that is as long as a subscriber's; for words that say what it is.
    """
    import phonenumbers

    plus, international = text[0] == "+", text.startswith(("+", "00"))
    if international and not plus:
        text = "+" + text[2:]
    for region in (None,) if international else regions:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number) or (plus and phonenumbers.is_possible_number(number)):
            return True
    return possible and not international and 7 <= sum(map(str.isdigit, text)) <= 8
