"""Texts of strangers, made safe to print; questions that can't be asked."""

from __future__ import annotations

import pytest

from taograph.cli.errors import sentence
from taograph.cli.text import clean, one_line, shorten


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc\u2028d\u0085e", "a\nb\nc\nd\ne"),
        ("\x1b[1;31mred\x1b[0m \x1b[2J\x1b[?25lhidden", "red hidden"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bPq#0\x1b\\c", "abc"),
        ("\x1b]52;c;unterminated stays readable", "52;c;unterminated stays readable"),
        ("\x1bcreset \x1b(B \x9b31mC1 \x9d0;t\x9c.", "reset  C1 ."),
        ("a\x00b\x08c\x7fd\u202ee\ud800f", "abcdef"),
        ("ünïcödé 日本語 🙂", "ünïcödé 日本語 🙂"),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_cleaning_is_linear() -> None:
    for piece in ("\x1b", "\x1b[", "\x1b[1;", "\x1b]", "\x1b]x", "\x9b", "\x1bP", "\r"):
        assert len(clean(piece * 300_000)) <= len(piece) * 300_000


def test_shorten_says_whether_it_did() -> None:
    assert shorten("abc", chars=3, lines=1) == ("abc", False)
    assert shorten("abcd", chars=3, lines=1) == ("abc", True)
    assert shorten("a\nb\nc", chars=99, lines=2) == ("a\nb", True)
    assert shorten("", chars=3, lines=1) == ("", False)
    assert one_line(" a\n b\x1b[1m ", 99) == "a b"
    assert one_line("abcdef", 4) == "abc…"


def test_an_exception_is_one_line() -> None:
    assert sentence(ValueError("a\n  b")) == "a b"
    assert sentence(KeyError()) == "KeyError"
    assert sentence(RuntimeError("x \x1b[31my")) == "RuntimeError: x y"
