"""Where the trace takes a shorter way, what comes out is the same, byte for byte."""

from __future__ import annotations

import gc
import os
import random
import re
from typing import Any

import pytest
import rfc8785
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from recording_support import QUESTION, Recorded, asks, look, recorded, says
from trace_support import events

from taograph import create_react_graph, redaction
from taograph.trace import open_store
from taograph.trace.chain import canonical, plain
from taograph.trace.messages import RequestHasher
from taograph.trace.redaction import Redactor
from taograph.trace.settings import hide_secrets

__all__ = ["recorded"]

TEXTS = [
    "",
    "a",
    "Z",
    "_",
    "é",
    "\u2028",
    "\x7f",
    '\x00\x1f\n\t"\\/',
    "😀",
    "\uffff",
    "漢",
    "<>&'",
    "\ud800",
    "\udc00x",
]
NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2**53 - 1,
    -(2**53),
    10**30,
    0.0,
    -0.0,
    1.0,
    1e-4,
    9.9e-5,
    1e15,
    1e16,
    1e21,
    1e-7,
    5e-324,
]
NUMBERS += [123456789012345.6, 0.1, 2.5e14, float("inf"), float("nan"), True, False, None]


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if kind < 0.3 or depth > 4:
        return "".join(chance.choices(TEXTS, k=2))
    if kind < 0.5:
        return chance.choice(NUMBERS)
    if kind < 0.7:
        return chance.choice((-1, 1)) * 10 ** chance.uniform(-12, 25)
    if kind < 0.85:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {"".join(chance.choices(TEXTS, k=2)): value(chance, depth + 1) for _ in range(chance.randrange(5))}


def test_canonical_json() -> None:
    chance = random.Random(8)
    for _ in range(3000):
        made = plain(value(chance))
        assert canonical(made) == rfc8785.dumps(made)
    for number in NUMBERS:
        assert canonical([plain(number)]) == rfc8785.dumps([plain(number)])


@pytest.mark.parametrize("odd", [float("nan"), 2**53, "\ud800", {1: 2}, object()])
def test_what_is_no_canonical_json(odd: Any) -> None:
    for encode in (canonical, rfc8785.dumps):
        with pytest.raises((rfc8785.CanonicalizationError, UnicodeError)):
            encode(odd)


def test_halves_of_characters() -> None:
    for text in (*TEXTS, "x\udfffy", "é\ud800"):
        made = plain(text)
        assert made == text.encode("utf-8", "replace").decode()
    assert plain("ab\ud83dc") == "ab?c"


def test_variables_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of the variables is known anew whichever way they are changed."""
    said = "It said hunter2hunter2 and then opensesame1."
    redact = Redactor()

    def hidden() -> tuple[str, str, str]:
        return hide_secrets(said), redact.text(said), str(redact.value([said])[0])

    assert set(hidden()) == {said}
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    assert set(hidden()) == {"It said [secret] and then opensesame1."}
    os.environ["MY_TOKEN"] = "opensesame1"
    assert set(hidden()) == {"It said hunter2hunter2 and then [secret]."}
    monkeypatch.setattr(os, "environ", {"HIS_PASSWORD": "hunter2hunter2"})  # not of the system's kind
    assert set(hidden()) == {"It said [secret] and then opensesame1."}
    os.environ["HIS_PASSWORD"] = "short"
    assert set(hidden()) == {said}
    monkeypatch.undo()
    assert redaction.named() == [v for n, v in os.environ.items() if len(v) >= 8 and redaction._NAMED.search(n)]


def test_what_is_short_is_remembered_by_all_that_it_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    number, text = "512345678", "a hunter2hunter2"
    assert Redactor().text(number) == number
    assert Redactor().text(number, context="phone") == "<PHONE>"
    assert Redactor(mode="mask").text(number, context="phone") == "*" * 9
    assert Redactor(kinds=("EMAIL",)).text(number, context="phone") == number
    assert Redactor(patterns={"NUMBER": r"\d+"}).text(number) == "<NUMBER>"
    assert Redactor(patterns={"ROW": r"\d+"}).text(number) == "<ROW>"
    assert (Redactor().text(text), hide_secrets(text)) == (text, text)
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    assert (Redactor().text(text), hide_secrets(text)) == ("a [secret]", "a [secret]")


def test_a_node_has_ended_when_what_it_told_is_stored(recorded: Recorded) -> None:
    """Events of a node may be stored together; nobody who sees that it has ended sees it sooner than the store does."""
    graph = recorded.of(create_react_graph(says(asks("a", "b", text="I look."), "Well."), [look]))
    seen = []
    for _ in graph.stream(QUESTION, stream_mode="updates"):
        store = open_store(recorded.url, read_only=True)
        seen.append([entry.type for entry in events(store)])
        store.close()
    thinks = ["run_started", "model_asked", "model_replied", "thought"]
    assert seen[0] == thinks
    assert "observation" in seen[1], "the first of two results"
    assert sorted(seen[2][4:8]) == ["action", "action", "observation", "observation"]
    assert seen[-1][-2:] == ["stop", "answer"]


def test_a_request_is_read_once() -> None:
    read: list[Any] = []

    def redact(given: Any) -> Any:
        read.append(given["content"])
        return given

    hasher = RequestHasher(redact)
    request = [SystemMessage("Be brief."), HumanMessage("Well?"), AIMessage("So."), ToolMessage("12", tool_call_id="c")]
    digest, chars, given = hasher.read(request, ["look"])
    assert (chars, given) == (19, request[:2])
    assert hasher.read(request, ["look"]) == (digest, chars, given)
    assert read == ["Be brief.", "Well?", "So.", "12"]
    assert hasher(request, []) != digest
    assert hasher([message.model_copy() for message in request], ["look"]) == digest
    request[2].content = "Or so."
    changed = hasher.read(request, ["look"])
    assert (changed[1], changed[0] != digest) == (22, True), "who assigns a field is noticed"
    assert RequestHasher(redact).read(request, ["look"]) == changed
    del request, given, changed
    gc.collect()
    assert not hasher._known


PARTS = ["sk-", "pk_live_", "rk-proj-", "hf_", "gsk_", "ghp_", "github_pat_", "lsv2_", "npm_", "r8_", "xai-", "glpat-"]
PARTS += ["tvly-", "pplx-", "nvapi-", "xoxb-", "xoxe-", "AKIA", "AIza", "eyJ", "-----BEGIN RSA PRIVATE KEY-----", "://"]
PARTS += [
    "Bearer ",
    "BEARER ",
    "Authorization: Basic ",
    "?key=",
    "&sig=",
    "&token=",
    "api_key",
    "X-Api-Key",
    "PASSWORD",
]
PARTS += ["access-token", "client_secret", "secretkey", "refresh_token", "sk_test_", "ghu_", "gho_", "ghr_", "ghs_"]
PARTS += [
    "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "0123456789ABCDEF",
    "u:p4ss@h",
    "=",
    ": ",
    '": "',
    "'",
    " ",
    "\n",
    ".x9_",
]
PARTS += ["pa\u017f\u017fword", "to\u212aen", "s\u0131g=", "Bas\u0130c ", "ä", "–"]


def test_secrets_are_looked_for_where_there_may_be_some() -> None:
    """As if the patterns were always asked."""
    chance, hidden = random.Random(4), 0
    for _ in range(20_000):
        text = "".join(chance.choices(PARTS, k=chance.randrange(1, 6)))
        always = redaction._ASSIGNED.sub(r"\1[secret]", redaction._SHAPES.sub("[secret]", text))
        spans = [m.span() for m in redaction._SHAPES.finditer(text)]
        spans += [m.span(2) for m in redaction._ASSIGNED.finditer(text)]
        assert redaction.without(text, ()) == always
        assert redaction.find(text) == spans
        hidden += always != text
    assert hidden > 2000


def test_what_counts_as_a_letter() -> None:
    """All signs beyond ASCII that a pattern takes for a Latin letter, and that small letters don't show."""
    letters = re.compile("[a-z]", re.IGNORECASE)
    found = {chr(code) for code in range(128, 0x110000) if letters.match(chr(code))}
    assert found == {sign for sign in map(chr, range(128, 0x110000)) if redaction._LIKE_LETTERS.match(sign)}
