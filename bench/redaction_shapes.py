"""Texts of a given size for the time that redaction takes: what is usual, and what is made to be slow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data/pii_sentences.jsonl").open(encoding="utf-8")]
PROSE = Path(__file__).parents[1].joinpath("docs", "benchmarks.md")


def again(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def sentences(language: str) -> str:
    return "\n".join(row["text"] for row in ROWS if row["language"] == language) + "\n"


def numbers(form: str) -> str:
    random = Random(3)
    return "".join(form.format(*(random.randrange(10**8, 10**9) for _ in range(4))) for _ in range(250))


WORDS = "The agent reads a page, thinks about what it says and writes the next step of its plan in a few words. "
LOG = "2026-03-04 10:22:31,113 INFO worker-7 step=12 tool=search took 1.204 s, 3 results, id=call_9xKq2LmN8pR4\n"

USUAL: dict[str, Callable[[int], str]] = {
    "prose without data": again(WORDS),
    "log lines without data": again(LOG),
    "the labelled sentences, English": again(sentences("en")),
    "the labelled sentences, German": again(sentences("de")),
    "the labelled sentences, Polish": again(sentences("pl")),
    "the labelled sentences, Chinese": again(sentences("zh")),
    "a table of numbers": again(numbers("{},{},{};{}\n")),
    "an image in base64": again("iVBORw0KGgoAAAANSUhEUgAAB4AAAAQ4CAYAAADo08FDAAAgAElEQVR4nOzde5"),
}
MADE: dict[str, Callable[[int], str]] = {
    "one letter": again("a"),
    "one digit": again("1"),
    "digits and spaces": again("1 "),
    "groups of digits": again("4111 "),
    "cards, none valid": again("4111 1111 1111 1112 "),
    "cards, all valid": again("4111 1111 1111 1111 "),
    "cards in one row, all valid": again("4111111111111111"),
    "words for all kinds": again("pesel ssn nino card iban tel. order born "),
    "words and nine digits": again("bsn 512345678 pesel 12 "),
    "PESEL in one line": again("44051401359 "),
    "addresses of mail": again("a@b.co "),
    "@": again("@"),
    "a@": again("a@"),
    "a.": again("a."),
    "1.": again("1."),
    "1:": again("1:"),
    "ab:": again("ab:"),
    "+1": again("+1"),
    "tel. 1": again("tel. 512 345 678 "),
    "words for phones": again("tel. "),
    "words for births": again("born "),
    "born, dates": again("born 12.03.1985 "),
    "DE89": again("DE89 "),
    "DE89 in one row": again("DE89"),
    "tokens": again("<EMAIL> "),
    "tokens and numbers": again("<PHONE> 512345678 "),
    "password=": again("password="),
    "secrets": again('api_key="x1y2" '),
    "a key file that never ends": again("-----BEGIN PRIVATE KEY-----abc"),
    "eyJ": again("eyJ"),
    "0x": again("0x1234567890abcdef"),
    "(": again("("),
    "full-width digits": again("４１１１ "),
    "UUIDs": again("550e8400-e29b-41d4-a716-446655440000 "),
    "fractions": again("0.123456789 "),
}
