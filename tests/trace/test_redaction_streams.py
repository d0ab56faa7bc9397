"""Redaction of pieces, again and again, of anything: what comes out is the redaction of the whole."""

from __future__ import annotations

import json
import re
import sys
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pii_values import OTHERS, PHONES, VALIDATED, WIDE

from taograph.trace.redaction import Redactor
from taograph.trace.redaction.streaming import Stream

REDACTORS = [
    Redactor(),
    Redactor(mode="hash", key="k" * 32, patterns={"STAFF": r"E-\d+", "XX": "x"}),
    Redactor(mode="mask", custom=lambda line: [(m.start(), m.end(), "PERSON") for m in re.finditer("Anna", line)]),
    Redactor(mode="drop", threshold=0.3),
]
MAKE = list({**VALIDATED, **OTHERS, **PHONES}.values())

values = st.builds(lambda make, seed: make(Random(seed)), st.sampled_from(MAKE), st.integers(0, 10_000))
SIGNS = [" ", " ", ", ", "\n", "\n\n", "", "-", ".", ":", '"', "，", "：", "(", ")", "+", "00", "@", "%40", "\x1f"]
WORDS = [
    "tel. ",
    "order ",
    "PESEL: ",
    "born ",
    "geb. ",
    "电话",
    "NHS ",
    "BSN ",
    "card ",
    "Bearer ",
    "Anna",
    "x",
    "E-12",
]
PARTS = [
    "\\n",
    "\\u7535\\u8bdd",
    "\\uff1a",
    "\\",
    "%2B",
    "%E7",
    "12",
    "1.5",
    "2026-03-04",
    "password=",
    'api_key": "',
    "-----BEGIN PRIVATE KEY-----",
]
TOKENS = ["<EMAIL>", "<PHONE:0123abcd>", "[secret]", "[…]", "****"]
between = st.sampled_from([*SIGNS, *WORDS, *PARTS, *TOKENS])
anything = st.one_of(values, values.map(lambda v: v.translate(WIDE)), between, between, st.text(max_size=4))
texts = st.lists(anything, max_size=16).map("".join)
redactors = st.sampled_from(REDACTORS)


@given(texts, redactors)
@example("tel. 512 345 678 512 345 678 password: a@example.com/x1", REDACTORS[1])
@example("at707425473459527629" + "+16465550197" * 30, REDACTORS[0])
@settings(max_examples=200, deadline=None)
def test_a_second_time_changes_nothing(text: str, redactor: Redactor) -> None:
    once = redactor.text(text)
    assert redactor.text(once) == once


@given(texts, redactors, st.data())
@settings(max_examples=150, deadline=None)
def test_pieces_are_as_the_whole(text: str, redactor: Redactor, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    stream, out = redactor.stream(), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        out += stream.feed(text[start:end])
    assert out + stream.close() == redactor.text(text)


@given(st.lists(texts, max_size=4), st.booleans())
@settings(max_examples=100, deadline=None)
def test_json_stays_json(lines: list[str], ascii_only: bool) -> None:
    # A secret that only begins takes what comes next, quotes too.
    lines = [line for line in lines if not re.search("password|api_key|BEGIN", line)]
    told = REDACTORS[0].text(json.dumps({"a": {"lines": lines}, "n": 3}, ensure_ascii=ascii_only))
    assert len(json.loads(told)["a"]["lines"]) == len(lines)


def long_line(seed: int, count: int) -> str:
    random = Random(seed)
    words = ["word", "and", "und", "oraz", "tel.", "order", "12", "2026-03-04"]
    return " ".join(
        random.choice(MAKE)(random) if random.random() < 0.1 else random.choice(words) for _ in range(count)
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_line_that_is_longer_than_what_is_held(seed: int) -> None:
    redactor, text = REDACTORS[seed % 4], long_line(seed, 3000)
    stream = Stream(redactor.text, redactor._find, redactor._part, held=4096)
    random, out, at, held = Random(seed), "", 0, 0
    whole = redactor.text(text)
    while at < len(text):
        size = random.randint(1, 700)
        out += stream.feed(text[at : at + size])
        at += size
        held = max(held, len(text[:at]) - len(out))
    assert out + stream.close() == whole
    assert held < 4096 * 3


def test_a_function_that_gives_the_text_is_asked_of_long_lines_too() -> None:
    redactor = Redactor(custom=lambda line: line.replace("Anna", "someone"))
    text = "Anna and a@example.com, " * 5000
    stream = redactor.stream()
    out = "".join(stream.feed(text[at : at + 999]) for at in range(0, len(text), 999)) + stream.close()
    assert "Anna" not in out
    assert out.count("someone and <EMAIL>, ") == 5000


def test_what_is_held_is_not_more_than_a_line() -> None:
    stream = Redactor().stream()
    assert stream.feed("Mail anna@exam") == ""
    assert stream.feed("ple.com\nand 4111 1111") == "Mail <EMAIL>\n"
    assert stream.feed(" 1111 1111\n") == "and <CARD>\n"
    assert stream.close() == ""
    with pytest.raises(ValueError, match="closed"):
        stream.feed("x")


def test_a_secret_longer_than_what_is_held_is_one_token() -> None:
    text = "Authorization: Bearer " + "a1" * 100_000 + " and a@example.com"
    stream = Redactor().stream()
    out = "".join(stream.feed(text[at : at + 5000]) for at in range(0, len(text), 5000)) + stream.close()
    assert out == Redactor().text(text) == "Authorization: Bearer [secret] and <EMAIL>"


def test_a_key_file_over_many_lines() -> None:
    text = (
        "a\n-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 40
        + "-----END PRIVATE KEY-----\nb\n"
    )
    stream = Redactor().stream()
    out = "".join(stream.feed(line + "\n") for line in text.splitlines()) + stream.close()
    assert out == Redactor().text(text) == "a\n[secret]\nb\n"


def calls(text: str) -> int:
    """How many functions are called to redact a text, Python's own too."""
    count = 0

    def profile(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        REDACTORS[0].text(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    "unit",
    [
        "tel. 512 345 678 ",
        "<PHONE> 512345678 ",
        "4111 1111 1111 1112 ",
        "44051401359 ",
        "a@b.co ",
        "a@",
        "1:",
        "DE89 ",
        "+1",
        "born 12.03.1985 ",
        "born ",
        'api_key="x1y2" ',
        "\\u7535",
        "%40",
        "(1",
        "a1-",
        "bsn 512345678 pesel 12 ",
    ],
)
def test_the_work_grows_with_the_text_and_no_faster(unit: str) -> None:
    calls(unit)
    few, many = (calls(unit * (size // len(unit))) for size in (1_000, 4_000))
    assert many < few * 4.5
