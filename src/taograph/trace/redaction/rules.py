"""National numbers: how each is written and what makes it valid. A new one is a row in ``NUMBERS``.

Checksums are python-stdnum's: it has them for dozens of countries, typed, without a dependency or a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from stdnum.at import vnr
from stdnum.be import nn
from stdnum.br import cpf
from stdnum.ch import ssn as ahv
from stdnum.cn import ric
from stdnum.cz import rc
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.it import codicefiscale
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.se import personnummer

SURE, LIKELY, UNSURE, NOT = 1.0, 0.6, 0.3, 0.0


class Candidate(NamedTuple):
    """A part of a text that may be personal data."""

    start: int
    end: int
    kind: str
    score: float  # as it stands
    labelled: float  # after a word that says what it is


# Latin letters, digits and "1." before it belong to the value; a Chinese sign does not.
LEFT, RIGHT = r"(?<![0-9A-Za-z])(?<!\d\.)", r"(?![0-9A-Za-z])(?!\.\d)"
GAP = r"(?: ?[-./] ?| )"
_SEPARATORS = re.compile(r"[ .\-/()]")


def bare(number: str) -> str:
    """A number without what separates its groups."""
    return _SEPARATORS.sub("", number).upper()


def starts(way: str) -> re.Pattern[str]:
    """A pattern that is tried at every place: a number that is none must not hide one that starts within it."""
    return re.compile(rf"{LEFT}(?=({way}){RIGHT})", re.IGNORECASE)


def groups(*sizes: int) -> str:
    """Digits in groups of these sizes."""
    return GAP.join(rf"\d{{{size}}}" for size in sizes)


def loose(count: int, tail: str = "") -> re.Pattern[str]:
    """Digits in any groups."""
    return starts(rf"\d(?:{GAP}?\d){{{count - 1}}}{tail}")


@dataclass(frozen=True)
class Number:
    """A number that a state gives to a person."""

    kind: str
    valid: Callable[[str], object]
    """Whether it can be one: asked without separators."""
    ways: tuple[tuple[re.Pattern[str], float], ...]
    """How it is written, and how sure a valid one is that is written so and has no word that says what it is."""
    loose: re.Pattern[str] | None = None
    """Ways that count only after such a word."""
    least: int = 9
    """Digits that it has at least."""
    letters: bool = False
    """Whether it has letters, too."""

    def candidates(self, text: str, start: int, end: int, labelled: bool) -> Iterator[Candidate]:
        """What may be such a number in a part of a text."""
        tried: set[tuple[int, int]] = set()
        for pattern, score in (*self.ways, *([(self.loose, NOT)] if self.loose and labelled else [])):
            for match in pattern.finditer(text, start, end):
                span = match.span(1)
                if span not in tried and self.valid(bare(match[1])):
                    tried.add(span)
                    yield Candidate(*span, self.kind, score, SURE)


def _cn_id(number: str) -> bool:
    # Not by the library's list of places: that of today lacks some of those who were born long ago.
    try:
        day = date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    return number[:2] in _PROVINCES and day.year >= 1800 and ric.calc_check_digit(number) == number[17]


_PROVINCES = frozenset(map(str, (*range(11, 16), *range(21, 24), *range(31, 38), *range(41, 47), *range(50, 55))))
_PROVINCES |= frozenset(map(str, (*range(61, 66), 71, 81, 82, 83, 91)))


def _us_ssn(number: str) -> bool:
    return number[:3] not in {"000", "666"} and number[0] != "9" and number[3:5] != "00" and number[5:] != "0000"


def _uk_nino(number: str) -> bool:
    return number[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _fr_nir(number: str) -> bool:
    return number[0] in "123478" and bool(nir.is_valid(number))


def _at_svnr(number: str) -> bool:
    # Where a day had too many births its months went on to 15.
    return 1 <= int(number[4:6]) <= 31 and 1 <= int(number[6:8]) <= 15 and bool(vnr.is_valid(number))


def _fi_hetu(number: str) -> bool:
    # The sign between is the century, and only a hyphen is lost with the separators.
    return bool(hetu.is_valid(number if len(number) == 11 else f"{number[:6]}-{number[6:]}"))


_D = rf"{GAP}?"
_NIR = f"[1-478]{_D}" + _D.join([r"\d\d", r"\d\d", r"(?:\d\d|2[AB])", r"\d{3}", r"\d{3}", r"\d\d"])
_CN_GROUPS = (6, 8, 3), (6, 4, 4, 3), (3, 3, 4, 4, 3)
_NINO, _END = "[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]", "[A-D]"
_CF = "[A-Z]{6}", "[0-9L-NP-V]{2}[A-EHLMPR-T][0-9L-NP-V]{2}", "[A-Z][0-9L-NP-V]{3}[A-Z]"


def _way(pattern: str, score: float = SURE) -> tuple[re.Pattern[str], float]:
    return starts(pattern), score


NUMBERS: tuple[Number, ...] = (
    Number("DE_TAX_ID", idnr.is_valid, (_way(rf"\d{{11}}|{groups(2, 3, 3, 3)}|{groups(3, 4, 4)}"),), loose(11), 11),
    Number("PL_PESEL", pesel.is_valid, (_way(rf"\d{{11}}|{groups(6, 5)}"),), loose(11), 11),
    Number(
        "CN_ID",
        _cn_id,
        (_way("|".join([r"\d{17}[0-9X]", *(f"{groups(*sizes)}[0-9X]" for sizes in _CN_GROUPS)])),),
        loose(17, rf"{GAP}?[0-9X]"),
        least=17,
    ),
    # Neither has a checksum: the way it is written says what it is, or a word.
    Number(
        "US_SSN",
        _us_ssn,
        (_way(r"\d{3}-\d{2}-\d{4}", LIKELY),),
        starts(r"\d{3}[ .]?\d{2}[ .]?\d{4}"),
    ),
    Number(
        "UK_NINO",
        _uk_nino,
        (_way(rf"{_NINO}(?:\d{{6}}| \d{{6}} | ?\d{{2}} \d{{2}} \d{{2}} ?|-\d{{2}}-\d{{2}}-\d{{2}}-){_END}", LIKELY),),
        starts(rf"{_NINO}{_D}\d\d{_D}\d\d{_D}\d\d(?:{_D}{_END})?"),
        least=6,
        letters=True,
    ),
    # One in eleven of all numbers is valid, or nearly so: a bare one needs a word.
    Number("UK_NHS", nhs.is_valid, (_way(groups(3, 3, 4), LIKELY), _way(r"\d{10}", UNSURE)), loose(10), 10),
    Number(
        "NL_BSN",
        bsn.is_valid,
        (_way(r"\d{4}\.\d{2}\.\d{3}", LIKELY), _way(r"\d{9}", UNSURE)),
        starts(rf"\d{{8}}|{groups(3, 3, 3)}"),
        least=8,
    ),
    Number("CZ_RC", rc.is_valid, (_way(r"\d{6}/\d{3,4}", LIKELY), _way(r"\d{10}", UNSURE)), starts(r"\d{6} ?\d{3,4}")),
    Number(
        "SE_PNR",
        personnummer.is_valid,
        (_way(r"(?:\d\d)?\d{6}[-+]\d{4}", LIKELY), _way(r"\d{10}|\d{12}", UNSURE)),
        None,
        10,
    ),
    Number("AT_SVNR", _at_svnr, (_way(rf"\d{{10}}|{groups(4, 6)}", LIKELY),), loose(10), 10),
    Number("FR_NIR", nir.is_valid, (_way(_NIR),), least=12),
    Number("ES_DNI", dni.is_valid, (_way(r"\d{8}[ -]?[A-Z]|\d{2}\.\d{3}\.\d{3}[ -]?[A-Z]"),), least=8, letters=True),
    Number("ES_NIE", nie.is_valid, (_way(r"[XYZ][ -]?\d{7}[ -]?[A-Z]"),), least=7, letters=True),
    Number(
        "IT_CF",
        codicefiscale.is_valid,
        (_way(f"{''.join(_CF)}|[A-Z]{{3}} [A-Z]{{3}} {_CF[1]} {_CF[2]}"),),
        least=4,
        letters=True,
    ),
    Number("BE_NN", nn.is_valid, (_way(r"\d{11}|\d\d[. ]\d\d[. ]\d\d[- ]\d{3}[. ]\d\d"),), loose(11), 11),
    Number("BR_CPF", cpf.is_valid, (_way(r"\d{11}|\d{3}\.\d{3}\.\d{3}[-/]\d{2}"),), loose(11), 11),
    Number("CH_AHV", ahv.is_valid, (_way(rf"756(?:\d{{10}}|{GAP}{groups(4, 4, 2)})"),), loose(13), 13),
    Number("FI_HETU", _fi_hetu, (_way(r"\d{6}[-+A-FU-Y]\d{3}[0-9A-Y]"),), least=9),
    Number("NO_FNR", fodselsnummer.is_valid, (_way(rf"\d{{11}}|{groups(6, 5)}"),), loose(11), 11),
)
