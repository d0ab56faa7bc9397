"""Accounts: IBAN, payment cards and wallets, each by its checksum."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stdnum import bitcoin, ean, iban, luhn

from taograph.trace.redaction.rules import GAP, LEFT, LIKELY, NOT, SURE, UNSURE, Candidate, bare, groups, loose, starts

_IBAN = re.compile(rf"{LEFT}(?=([A-Z]{{2}}\d{{2}}(?:{GAP}?[0-9A-Z]){{11,30}}))", re.IGNORECASE)
_ENDS = re.compile(r"[0-9A-Za-z](?![0-9A-Za-z])")
_POLISH = starts(rf"\d{{26}}|{groups(2, 4, 4, 4, 4, 4, 4)}")
_CARD = starts("|".join([r"\d{12,19}", groups(4, 4, 4, 4) + rf"(?:{GAP}\d{{1,3}})?", groups(4, 6, 5), groups(4, 6, 4)]))
_LOOSE_CARD = loose(12, rf"(?:{GAP}?\d){{0,7}}")
# First digits and lengths of the networks: a checksum alone lets one in ten of all numbers pass.
_NETWORKS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|(?:30[0-5]\d|309\d|3[689]\d\d)\d{10,15}"  # Diners
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"  # Discover
    r"|(?:352[89]|35[3-8]\d)\d{12,15}"  # JCB
    r"|62\d{14,17}|81\d{14}"  # UnionPay
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{8,15}"  # Maestro
    r"|220[0-4]\d{12,15}|(?:60|82|508)\d{13,14}|9792\d{12}"  # Mir, RuPay, Troy
)
_BITCOIN = starts(r"(?:[13][1-9A-HJ-NP-Za-km-z]{25,34}|bc1[02-9ac-hj-np-z]{11,71})")
_ETHER = starts(r"0x[0-9a-f]{40}")


def ibans(text: str, start: int, end: int) -> Iterator[Candidate]:
    """International bank account numbers, in any groups."""
    for match in _IBAN.finditer(text, start, end):
        for last in _ENDS.finditer(text, match.start(1) + 14, match.end(1)):
            number = bare(text[match.start(1) : last.end()])
            if 15 <= len(number) <= 34 and iban.is_valid(number, check_country=False):
                yield Candidate(match.start(1), last.end(), "IBAN", SURE, SURE)
                break


def polish_accounts(text: str, start: int, end: int) -> Iterator[Candidate]:
    """Accounts as they are written in Poland: an IBAN without its country."""
    for match in _POLISH.finditer(text, start, end):
        if iban.is_valid("PL" + bare(match[1]), check_country=False):
            yield Candidate(*match.span(1), "IBAN", SURE, SURE)


def cards(text: str, start: int, end: int, labelled: bool) -> Iterator[Candidate]:
    """Numbers of payment cards."""
    for pattern in (_CARD, _LOOSE_CARD) if labelled else (_CARD,):
        for match in pattern.finditer(text, start, end):
            number = bare(match[1])
            if _NETWORKS.fullmatch(number) and luhn.is_valid(number):
                # Thirteen digits that begin with 4 are also the number of an article from Germany.
                article = len(number) == 13 and ean.is_valid(number)
                score = NOT if pattern is _LOOSE_CARD else UNSURE if article else SURE
                yield Candidate(*match.span(1), "CARD", score, SURE)


def wallets(text: str) -> Iterator[Candidate]:
    """Addresses of Bitcoin, by their checksum, and of Ethereum, by their form."""
    for match in _BITCOIN.finditer(text):
        if bitcoin.is_valid(match[1]):
            yield Candidate(*match.span(1), "WALLET", SURE, SURE)
    for match in _ETHER.finditer(text):
        yield Candidate(*match.span(1), "WALLET", LIKELY, SURE)
