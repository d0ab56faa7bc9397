"""What is written in place of what was found; values; the user's own patterns and functions."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from taograph.redaction import redact
from taograph.trace.redaction import Redactor, Span

TEXT = "Mail anna@example.com or Anna@Example.com, PESEL 44051401359."
KEYED = Redactor(mode="hash", key="k" * 32)


def test_modes() -> None:
    assert Redactor().text(TEXT) == "Mail <EMAIL> or <EMAIL>, PESEL <PL_PESEL>."
    assert Redactor(mode="drop").text(TEXT) == "Mail […] or […], PESEL […]."
    assert Redactor(mode="mask").text(TEXT) == f"Mail {'*' * 16} or {'*' * 16}, PESEL {'*' * 11}."
    told = KEYED.text(TEXT)
    first, second = told.split()[1], told.split()[3].rstrip(",")
    assert first == second  # one address in two ways
    assert first.startswith("<EMAIL:")
    assert "44051401359" not in told


def test_a_hash_needs_the_key_and_tells_the_same_value_however_it_is_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    card, spaced = KEYED.text("4111111111111111"), KEYED.text("4111 1111 1111 1111")
    assert card == spaced
    assert Redactor(mode="hash", key="other").text("4111111111111111") != card
    monkeypatch.delenv("TAOGRAPH_TRACE_KEY", raising=False)
    with pytest.raises(ValueError, match="TAOGRAPH_TRACE_KEY"):
        Redactor(mode="hash")
    monkeypatch.setenv("TAOGRAPH_TRACE_KEY", "k" * 32)
    assert Redactor(mode="hash").text("4111111111111111") == card
    assert "kkkk" not in repr(KEYED)


@pytest.mark.parametrize("mode", ["replace", "mask", "hash", "drop"])
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "tel. 512 345 678, 601 234 567",
        "password: jan@example.com/foo",
        "12 4111 1111 1111 1111 44051401359",
        "<IBAN>DE89 3704 0044 0532 0130 00</IBAN>",
        'api_key="sk-1234567890abcdefghij" x',
        "Phone <PHONE> 512345678 <PHONE:0123abcd> 512345678",
    ],
)
def test_a_second_time_changes_nothing(mode: Any, text: str) -> None:
    redactor = Redactor(mode=mode, key="k" * 32)
    once = redactor.text(text)
    assert redactor.text(once) == once != text
    assert redactor.spans(once) == []


@pytest.mark.parametrize("mode", ["replace", "mask", "hash", "drop"])
def test_secrets_go_always(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "correct horse battery")
    redactor = Redactor(kinds=(), mode=mode, key="k" * 32)
    text = (
        'key sk-1234567890abcdefghij, "api_key": "x1y2z3", postgresql://ann:hunter2@db.example.org/x, '
        "Authorization: Bearer abc.def, and correct horse battery"
    )
    told = redactor.text(text)
    assert told.count("[secret]") == 5
    assert redact(told) == told
    assert redactor.text(redact(text)) == redact(text)
    assert redactor.value(
        {"password": "two words", "apiKey": 12345, "token_count": 7, "x": {"Authorization": "Basic z"}}
    ) == {
        "password": "[secret]",
        "apiKey": "[secret]",
        "token_count": 7,
        "x": {"Authorization": "[secret]"},
    }


def test_values_keep_their_shape() -> None:
    value = {
        "anna@example.com": {"phone": "512345678", "n": 3, "ok": True, "none": None},
        "cards": [4111111111111111, 4111111111111111.0, 17.5, 2026],
        "phones": ["512345678", 512345678],
        "order": {"number": "512345678"},
        "messages": [{"content": [{"type": "text", "text": "PESEL: 44051401359"}]}],
    }
    told = Redactor().value(value)
    assert told == {
        "<EMAIL>": {"phone": "<PHONE>", "n": 3, "ok": True, "none": None},
        "cards": ["<CARD>", "<CARD>", 17.5, 2026],
        "phones": ["<PHONE>", "<PHONE>"],
        "order": {"number": "512345678"},
        "messages": [{"content": [{"type": "text", "text": "PESEL: <PL_PESEL>"}]}],
    }
    assert Redactor().value(told) == told
    assert Redactor()(value) == told
    json.dumps(told)


def test_two_keys_stay_two() -> None:
    told = Redactor().value({"a@example.com": 1, "b@example.com": 2})
    assert told == {"<EMAIL>": 1, "<EMAIL> (2)": 2}
    assert Redactor().value(told) == told


def test_a_value_deeper_than_the_stack() -> None:
    value: Any = "a@example.com"
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    told = Redactor().value(value)
    while isinstance(told, list):
        (told,) = told
    assert told == "<EMAIL>"


def test_what_is_no_json_is_taken_as_its_text() -> None:
    class Person:
        def __str__(self) -> str:
            return "Person(anna@example.com)"

    assert Redactor().value({"who": Person(), "t": ("a@example.com",)}) == {"who": "Person(<EMAIL>)", "t": ["<EMAIL>"]}


def test_files_are_left_alone() -> None:
    image = "iVBORw0KGgo" * 1000 + "4111111111111111"
    value = {"type": "image", "base64": image, "url": f"data:image/png;base64,{image}"}
    assert Redactor().value(value) == value
    assert Redactor().text(f"card 4111111111111111 {image} a@example.com") == f"card <CARD> {image} <EMAIL>"
    assert Redactor().value("1" * 2000 + " a@example.com").endswith(" <EMAIL>")


def test_patterns_of_ones_own() -> None:
    redactor = Redactor(patterns={"STAFF_ID": r"\bE-\d{5}\b", "ROOM": r"room \d+"}, kinds=())
    assert redactor.text("E-12345 sits in room 7, not E-1") == "<STAFF_ID> sits in <ROOM>, not E-1"
    assert redactor.spans("E-12345") == [Span(0, 7, "STAFF_ID", 1.0)]


def test_a_function_of_ones_own_finds_places() -> None:
    def names(line: str) -> list[tuple[int, int, str]]:
        at = line.find("Anna")
        return [(at, at + 4, "PERSON")] if at >= 0 else []

    redactor = Redactor(custom=names)
    assert redactor.text("Hi\nI am Anna, a@example.com") == "Hi\nI am <PERSON>, <EMAIL>"
    assert redactor.text(redactor.text("I am Anna")) == "I am <PERSON>"
    assert [s.kind for s in redactor.spans("I am Anna, a@example.com")] == ["PERSON", "EMAIL"]


def test_a_function_of_ones_own_gives_the_text() -> None:
    redactor = Redactor(custom=lambda line: line.replace("Anna", "someone"))
    assert redactor.text("Anna: a@example.com") == "someone: <EMAIL>"


def test_a_function_that_fails_lets_nothing_through() -> None:
    def fails(line: str) -> str:
        raise RuntimeError("no model")

    with pytest.raises(RuntimeError, match="no model"):
        Redactor(custom=fails).text("Anna")
    with pytest.raises(ValueError, match=r"custom gave \(0, 99, 'PERSON'\)"):
        Redactor(custom=lambda line: [(0, 99, "PERSON")]).text("Anna")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kinds": ("EMAIL", "MAIL")}, "kinds: there is no MAIL"),
        ({"kinds": ("PERSON",)}, "presidio_names"),
        ({"kinds": "EMAIL"}, "kinds="),
        ({"mode": "hide"}, "mode='hide'"),
        ({"mode": "hash", "key": b""}, "key"),
        ({"key": 7}, "key is a int"),
        ({"patterns": {"staff": "x"}}, "patterns: 'staff'"),
        ({"patterns": {"STAFF": "("}}, "patterns: STAFF"),
        ({"patterns": {"STAFF": "x*"}}, "matches nothing"),
        ({"custom": "names"}, "custom="),
        ({"regions": ("XX",)}, "regions: 'XX'"),
        ({"regions": "DE"}, "regions="),
        ({"threshold": 0}, "threshold=0"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says.replace("(", r"\(")):
        Redactor(**options)


def test_it_is_frozen_and_equal_by_value() -> None:
    assert Redactor() == Redactor(kinds=Redactor().kinds)
    assert Redactor() != Redactor(mode="drop")
    with pytest.raises(AttributeError):
        Redactor().mode = "drop"  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"redactor\.value"):
        Redactor().text(7)  # type: ignore[arg-type]


def test_regions() -> None:
    assert Redactor(regions=("PL",)).text("tel. 98765 43210") == "tel. 98765 43210"
    assert Redactor(regions=("IN",)).text("tel. 98765 43210") == "tel. <PHONE>"
