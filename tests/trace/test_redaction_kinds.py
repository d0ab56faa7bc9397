"""What is found: every kind in sentences of four languages, and what must be left as it is."""

from __future__ import annotations

import json
from random import Random

import pytest
from pii_values import OTHERS, PHONES, VALIDATED, WIDE

from taograph.trace.redaction import DEFAULT_KINDS, NATIONAL_KINDS, Redactor

REDACTOR = Redactor()
FRAMES = {
    "en": [
        "{} is what she wrote.",
        "Please check {} again.",
        "I have two: {}, and another one.",
        "({})",
        '{{"value": "{}", "n": 3}}',
        "a={};b=2",
        "2026-03-04 10:22:31 INFO got '{}' in 12 ms",
        "| Jane | {} | 42 |",
        "Is it 17 or {}?",
        "see <b>{}</b>",
    ],
    "de": [
        "{} steht auf dem Bescheid.",
        "Bitte prüfen Sie {} noch einmal.",
        "Es sind zwei: {} und noch eine.",
        "„{}“",
        '{{"wert":"{}"}}',
        "wert={};größe=2",
        "04.03.2026 10:22:31 Warnung: {} unbekannt",
        "Müller;{};50667;Köln",
        "Nr. 12: {}",
        "für{{{}}}über",
    ],
    "pl": [
        "{} widnieje w umowie.",
        "Proszę sprawdzić {} jeszcze raz.",
        "Są dwa: {} i jeszcze jeden.",
        "«{}»",
        '{{"wartość": "{}"}}',
        "wartość={}, ilość=2",
        "2026-03-04 ostrzeżenie: {} nieznany",
        "Łukasz\t{}\t00-950",
        "poz. 7: {}",
        "ż{{{}}}ó",
    ],
    "zh": [
        "{}是他写的。",
        "请再核对{}一次。",
        "有两个：{}，还有一个。",
        "（{}）",
        '{{"值":"{}"}}',
        "值={}；数量=2",
        "2026-03-04 10:22:31 警告{}未知",
        "王小梅、{}、上海",
        "第7项：{}",
        "共3个，{}在内",
    ],
}
# Written so they are like one number in eleven: they need a word.
LABELS = {"UK_NHS": "NHS no. {}", "NL_BSN": "BSN: {}", "CZ_RC": "rodné číslo {}"}


@pytest.mark.parametrize("kind", VALIDATED)
@pytest.mark.parametrize("language", FRAMES)
def test_no_valid_number_is_missed(kind: str, language: str) -> None:
    random = Random(f"{kind} {language}")
    for _ in range(2):
        for frame in FRAMES[language]:
            value = VALIDATED[kind](random)
            text = frame.format(LABELS.get(kind, "{}").format(value))
            found = REDACTOR.spans(text)
            assert any(text[s.start : s.end] == value and s.kind in {kind, *same(kind)} for s in found), (text, found)
            assert value not in REDACTOR.text(text)


def same(kind: str) -> set[str]:
    """Eleven digits may be valid in two countries; then either may be told."""
    return set(NATIONAL_KINDS) if kind in NATIONAL_KINDS else set()


@pytest.mark.parametrize("kind", ["CARD", "PL_PESEL", "CN_ID", "DE_TAX_ID", "BE_NN", "NO_FNR", "BR_CPF"])
def test_digits_of_other_scripts_and_widths_are_digits(kind: str) -> None:
    random = Random(kind)
    for _ in range(20):
        value = VALIDATED[kind](random)
        for told in (value.translate(WIDE), value.replace(" ", "\u00a0"), value.replace("-", "\u2011")):
            assert told not in REDACTOR.text(f"号码：{told}。")


@pytest.mark.parametrize("kind", VALIDATED)
@pytest.mark.parametrize("depth", [1, 2])
def test_what_json_escapes_hides_nothing(kind: str, depth: int) -> None:
    random = Random(kind)
    for before, after in (("电话", "谢谢"), ("a\n", "\nb"), ("ł\t", "\t"), ("：", "；"), ('"', '"')):
        value = VALIDATED[kind](random)
        text = before + LABELS.get(kind, "{}").format(value) + after
        for _ in range(depth):
            text = json.dumps({"text": text})
        assert value in text
        assert value not in REDACTOR.text(text), text


def test_what_urls_escape_hides_nothing() -> None:
    assert REDACTOR.text("?phone=%2B48512345678&email=jan%40x.de") == "?phone=<PHONE>&email=<EMAIL>"
    assert REDACTOR.text("/%E7%94%B5%E8%AF%9D13812345678/") == "/%E7%94%B5%E8%AF%9D<PHONE>/"


def test_a_polish_account_without_its_country() -> None:
    assert REDACTOR.text("konto 61 1090 1014 0000 0712 1981 2874") == "konto <IBAN>"
    assert REDACTOR.text("konto 61 1090 1014 0000 0712 1981 2875") == "konto 61 1090 1014 0000 0712 1981 2875"


@pytest.mark.parametrize("kind", OTHERS)
def test_forms(kind: str) -> None:
    random = Random(kind)
    for frame in (frame for frames in FRAMES.values() for frame in frames):
        value = OTHERS[kind](random)
        text = frame.format(value)
        assert any(text[s.start : s.end] == value for s in REDACTOR.spans(text)), text


@pytest.mark.parametrize(
    ("language", "frame"),
    [
        ("en", "Call me on {} tonight."),
        ("uk", "Tel.: {}"),
        ("de", "Telefon: {}"),
        ("de", '{{"rufnummer": "{}"}}'),
        ("pl", "tel. {} (po 16)"),
        ("pl", "Zadzwoń: {}"),
        ("zh", "电话：{}，谢谢"),
        ("zh", "手机{}"),
    ],
)
def test_phones_with_a_word(language: str, frame: str) -> None:
    random = Random(frame)
    for _ in range(30):
        value = PHONES[language](random)
        assert not any(len(part) > 3 and part in REDACTOR.text(frame.format(value)) for part in value.split()), value


def test_a_list_of_numbers_has_one_word() -> None:
    told = REDACTOR.text("tel. 512 345 678, 601 234 567 / 22 123 45 67\nrazem 512 345 678 sztuk")
    assert told == "tel. <PHONE>, <PHONE> / <PHONE>\nrazem 512 345 678 sztuk"


def test_the_nearest_word_counts() -> None:
    assert REDACTOR.text("Phone orders: order no. 512345678") == "Phone orders: order no. 512345678"
    assert REDACTOR.text("Order hotline, phone 512345678") == "Order hotline, phone <PHONE>"


def test_a_birth_date_needs_a_word() -> None:
    assert REDACTOR.text("born on 12 March 1985 in Ulm") == "born on <BIRTH_DATE> in Ulm"
    assert REDACTOR.text("geb. 03.05.2011") == "geb. <BIRTH_DATE>"
    assert REDACTOR.text("ur. 14 lipca 1977") == "ur. <BIRTH_DATE>"
    assert REDACTOR.text("1990年5月12日出生") == "<BIRTH_DATE>出生"
    assert REDACTOR.text("The law of 12 March 1985") == "The law of 12 March 1985"


def test_a_check_digit_that_is_wrong_is_no_number() -> None:
    for text in ("44051401358", "4111111111111112", "DE89370400440532013001", "12345678A", "11010519491231002Y"):
        assert REDACTOR.text(f"value {text}.") == f"value {text}."


@pytest.mark.parametrize(
    "text",
    [
        "order 4711-0815, 1,234,567.89 USD, 15 000 000 rows",
        "ISBN 978-3-16-148410-0",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit 9ff70bd1c0a4e2b8f6d3a59e7c1b2d4f6a8e0c3d",
        "call_9xKq2LmN8pR4 toolu_01A09q90qw90lq917835lq9",
        "langgraph==1.2.24, version 10.0.19045.3803, v1.2.3.4",
        "2026-11-30T18:40:02.113Z took 1764530411.2284",
        "127.0.0.1:8000 and 0.0.0.0, 255.255.255.0, 10.0.0.0/8",
        "std::vector<int> a::b c; x[::2]",
        "logo@2x.png @app.route git@example.com:x/y.git a @ b",
        "00:00:00:00:00:00",
        "pi = 3.14159265358979, 0.4111111111111111",
        "{'temperature': 21.5, 'lat': 52.520008}",
        "BSN is a city code, 123456789 is a seed",
    ],
)
def test_ordinary_things_stay(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_a_lower_threshold_takes_bare_numbers_too() -> None:
    assert Redactor().text("see 9434765919") == "see 9434765919"
    assert Redactor(threshold=0.3).text("see 9434765919") == "see <UK_NHS>"


def test_only_the_kinds_that_were_asked_for() -> None:
    text = "anna@example.com 44051401359 +48 512 345 678"
    assert Redactor(kinds=("EMAIL",)).text(text) == "<EMAIL> 44051401359 +48 512 345 678"
    assert Redactor(kinds=("NATIONAL_ID",)).text(text) == "anna@example.com <PL_PESEL> +48 512 345 678"
    assert Redactor(kinds=()).text(text) == text
    assert set(Redactor().kinds) == set(DEFAULT_KINDS)
