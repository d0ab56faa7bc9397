"""What a person is asked at a terminal, what they may type, and the same as options."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from taograph.cli.answers import Given
from taograph.cli.ask import EndOfInput, ask_all, confirm
from taograph.cli.endings import raise_of
from taograph.cli.kept import command, shortened
from taograph.cli.settings import Settings
from taograph.cli.waiting import Waiting, in_words, listing, ways

PAY = {"type": "approval", "call": "call_1", "tool": "pay", "args": {"to": "Bob"}, "hash": "h1", "question": "Run pay?"}
SEND = {**PAY, "call": "call_2", "tool": "send", "hash": "h2", "question": "Run send? Send a letter."}
CUT = {**PAY, "type": "unfinished_call", "call": "call_3", "question": "pay was begun."}
WHO = {"type": "question", "question": "Who\x1b[31m is it?"}


def waiting(*values: Any) -> list[Waiting]:
    return [Waiting.read(f"{number}abcdef0123", value) for number, value in enumerate(values)]


def short(tool: str, args: Mapping[str, Any]) -> str | None:
    return None if set(args) == {"to"} else f"The arguments of {tool} are wrong."


def typed(monkeypatch: pytest.MonkeyPatch, text: str, *values: Any) -> list[Any]:
    """The answers, in the order of what was asked."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    asked = waiting(*values)
    answers = ask_all(asked, short)
    return [answers.get(each.interrupt) for each in asked]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a\n", {"decision": "approve", "hash": "h1"}),
        ("Approve\n", {"decision": "approve", "hash": "h1"}),
        ("r\nnot now\n", {"decision": "reject", "reason": "not now", "stop": False, "hash": "h1"}),
        ("no not now\n", {"decision": "reject", "reason": "not now", "stop": False, "hash": "h1"}),
        ("s\n\n", {"decision": "reject", "reason": "", "stop": True, "hash": "h1"}),
        ('e\n{"to": "Eve"}\n', {"decision": "edit", "args": {"to": "Eve"}, "hash": "h1"}),
        ('edit {"to": "Eve"}\n', {"decision": "edit", "args": {"to": "Eve"}, "hash": "h1"}),
        ('e {"to"\n[1]\n{"from": 1}\n{"to": "Eve"}\n', {"decision": "edit", "args": {"to": "Eve"}, "hash": "h1"}),
        ("e\n\na\n", {"decision": "approve", "hash": "h1"}),
        ('e {"to": "Bob"}\na\n', {"decision": "approve", "hash": "h1"}),
        ("\n?\nw\ndance\na\n", {"decision": "approve", "hash": "h1"}),
        ("l\n", None),
    ],
)
def test_a_call_is_approved_edited_or_rejected(monkeypatch: pytest.MonkeyPatch, text: str, answer: Any) -> None:
    assert typed(monkeypatch, text, PAY) == [answer]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("r\n", {"decision": "repeat"}),
        ("d\nsent\n", {"decision": "done", "result": "sent"}),
        ("done it was sent\n", {"decision": "done", "result": "it was sent"}),
        ("\nu\n", {"decision": "unknown"}),
        ("later\n", None),
    ],
)
def test_what_became_of_a_call_is_asked(monkeypatch: pytest.MonkeyPatch, text: str, answer: Any) -> None:
    assert typed(monkeypatch, text, CUT) == [answer]


def test_several_are_listed_first_and_asked_one_after_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"some": "thing\x1b[31m"}
    answers = typed(monkeypatch, 'a\nl\n\n\nthe cat\n{"x": [1]}\n', PAY, SEND, WHO, other)
    assert answers == [{"decision": "approve", "hash": "h1"}, None, "the cat", {"x": [1]}]
    said = capsys.readouterr().err
    assert said.startswith(
        '\nThe run waits for approval of 2 calls and 2 answers.\n  1. pay(to="Bob")\n  2. send(to="Bob")\n'
        "  3. Who is it?\n"
    )
    assert '\n2 of 4: send(to="Bob")\n  Run send? Send a letter.\n' in said
    assert "\n3 of 4: The run asks you: Who is it?\n> > > \n" in said
    assert '\n4 of 4: The run waits for an answer to: {"some": "thing' in said
    assert "\x1b" not in said


@pytest.mark.parametrize("text", ["", "a\n", "a\nr\n"])
def test_the_end_of_the_input_answers_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(EndOfInput):
        typed(monkeypatch, text, PAY, SEND)


def test_a_long_call_is_cut_and_shown_whole_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = {**PAY, "args": {"to": "x" * 5000 + "!"}}
    typed(monkeypatch, "w\na\n", long)
    first, whole = capsys.readouterr().err.split("[?] more > ")[:2]
    assert "(5,011 characters in all)" in first
    assert len(first) < 1500
    assert "x" * 5000 + "!" in whole


@pytest.mark.parametrize(
    ("text", "default", "agreed"),
    [
        ("\n", True, True),
        ("Y\n", True, True),
        ("yes\n", True, True),
        ("n\n", True, False),
        ("", True, False),
        ("\n", False, False),
        ("y\n", False, True),
        ("", False, False),
    ],
)
def test_confirm(monkeypatch: pytest.MonkeyPatch, text: str, default: bool, agreed: bool) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert confirm("Fetch it?", default=default) is agreed


# The same as options


@pytest.mark.parametrize(
    ("given", "values", "answers"),
    [
        (Given(approve=True), [PAY], [{"decision": "approve", "by": "", "hash": "h1"}]),
        (
            Given(reject="too much", by="Ada", stop=True),
            [PAY],
            [{"decision": "reject", "by": "Ada", "hash": "h1", "reason": "too much", "stop": True}],
        ),
        (
            Given(edit='{"to": "Eve"}'),
            [PAY, WHO],
            [{"decision": "edit", "by": "", "hash": "h1", "args": {"to": "Eve"}}, None],
        ),
        (Given(approve=True, calls="call_2"), [PAY, SEND], [None, {"decision": "approve", "by": "", "hash": "h2"}]),
        (Given(approve=True, calls=" 1abc ,"), [PAY, SEND], [None, {"decision": "approve", "by": "", "hash": "h2"}]),
        (
            Given(approve=True, calls="all"),
            [PAY, SEND, WHO],
            [{"decision": "approve", "by": "", "hash": "h1"}, {"decision": "approve", "by": "", "hash": "h2"}, None],
        ),
        (Given(answer="the cat"), [PAY, WHO], [None, "the cat"]),
        (Given(answer="repeat"), [CUT], [{"decision": "repeat", "result": ""}]),
        (Given(answer="Done: sent: yes"), [CUT], [{"decision": "done", "result": "sent: yes"}]),
        (Given(answer="done"), [CUT], [{"decision": "done", "result": ""}]),
        (Given(answer='{"x": 1}'), [{"any": 1}], [{"x": 1}]),
        (Given(answer="text"), [{"any": 1}], ["text"]),
    ],
)
def test_options_answer_what_waits(given: Given, values: list[Any], answers: list[Any]) -> None:
    given.check()
    asked = waiting(*values)
    found = given.to_answers(asked)
    assert [found.get(each.interrupt) for each in asked] == answers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(approve=True, reject="x"), "give one of --approve, --reject, not several"),
        (Given(edit="{"), "That is no JSON"),
        (Given(edit="[1]"), "The arguments are an object"),
        (Given(calls="call_1"), "it says nothing without --approve, --reject, --edit or --answer"),
        (Given(approve=True, stop=True), "it says nothing without --reject"),
    ],
)
def test_options_that_contradict_are_refused_before_anything_is_opened(given: Given, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        given.check()


@pytest.mark.parametrize(
    ("given", "values", "said"),
    [
        (Given(approve=True), [WHO], "the run waits for an answer: answer with --answer"),
        (Given(answer="x"), [PAY], "the run waits for approval of a call: answer with --approve, --reject or --edit"),
        (Given(approve=True), [PAY, SEND], "2 wait: name one or more of call_1, call_2, with commas between them"),
        (Given(approve=True, calls="call_9"), [PAY, SEND], "'call_9': none that can be answered so is called that"),
        (Given(approve=True, calls="call_"), [PAY, SEND], "'call_': more than one begins so; there are call_1, call_2"),
        (Given(approve=True, calls="2"), [PAY, SEND, WHO], "'2': none that can be answered so is called that"),
        (Given(approve=True, calls=","), [PAY], "it is empty: name one of call_1, or all"),
        (Given(edit='{"to": "x"}', calls="all"), [PAY, SEND], "one call at a time can be edited"),
        (Given(answer="maybe"), [CUT], "for pay write repeat"),
        (Given(answer="repeat: it"), [CUT], "for pay write repeat"),
    ],
)
def test_options_that_fit_nothing_say_what_does(given: Given, values: list[Any], said: str) -> None:
    given.check()
    with pytest.raises(typer.BadParameter, match=said):
        given.to_answers(waiting(*values))


def test_what_waits_is_said_with_how_to_answer_it() -> None:
    assert in_words(waiting(PAY)) == "approval of a call"
    assert in_words(waiting(CUT, CUT, WHO)) == "a word on 2 calls cut off and an answer"
    several = [*listing(waiting(PAY, WHO))]
    assert several == [
        '  1. pay(to="Bob")',
        "     Run pay?",
        "     --call call_1",
        "  2. Who is it?",
        "     --call 1abcdef0",
    ]
    assert [*listing(waiting(PAY))] == ['  pay(to="Bob")', "  Run pay?"]
    assert [*ways("t", waiting(PAY, WHO), None)][1:] == [
        "tao resume t --call call_1 --approve",
        "tao resume t --call call_1 --reject 'why not'",
        """tao resume t --call call_1 --edit '{"to": "Bob"}'""",
        "tao resume t --call all --approve",
    ]
    assert [*ways("t", waiting(CUT), None)][2] == "tao resume t --answer 'done: what it returned'  it did"


# What is said and stored


def test_a_command_can_be_typed_again_and_tells_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAOGRAPH_CHECKPOINTS", raising=False)
    assert command("resume", "a b") == "tao resume 'a b'"
    assert command("resume", "a", url="sqlite:///x.db") == "tao resume a --checkpoints sqlite:///x.db"
    assert command("resume", "a", url="postgresql://u:pw@h/d") == "tao resume a --checkpoints URL"
    monkeypatch.setenv("TAOGRAPH_CHECKPOINTS", "sqlite:///x.db")
    assert command("resume", "a", url="sqlite:///x.db") == "tao resume a"


def test_ids_are_shortened_to_what_names_them() -> None:
    long = ["1f1ece6e-80d6-66f3-800e-64d148f02688", "1f1ece6e-81ff-66f3-800e-64d148f02688", "9" * 36]
    assert shortened(["ada", *long]) == {
        "ada": "ada",
        long[0]: "1f1ece6e-80…",
        long[1]: "1f1ece6e-81…",
        long[2]: "99999999…",
    }


def test_settings_are_remembered_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = Settings(
        graph="react",
        model="openai:gpt-5-mini",
        tools="calculator, ./own.py:tool,pkg:tool",
        docs=Path("notes"),
        mcp=Path("mcp.json"),
        approve="all",
        limits={"steps": 3, "cost": 0.5},
    )
    kept = Settings.from_metadata(given.to_metadata())
    assert kept == Settings(
        graph="react",
        model="openai:gpt-5-mini",
        tools=f"calculator,{tmp_path / 'own.py'}:tool,pkg:tool",
        docs=tmp_path / "notes",
        mcp=tmp_path / "mcp.json",
        approve="all",
        limits={"steps": 3, "cost": 0.5},
    )
    secret = Settings(model="http://user:pw123@host/v1#m", system="Use sk-abcdefghijklmnop1234.").to_metadata()
    assert "pw123" not in str(secret)
    assert "abcdef" not in str(secret)
    with pytest.raises(Exception, match="--model of this thread had a secret in it") as caught:
        Settings.from_metadata(secret).check()
    assert caught.value.fixes == ("give it again: --model …",)  # type: ignore[attr-defined]
    for metadata in ({}, {"tao": "{"}, {"tao": "[1]"}, {"tao": 7}, {"tao": '{"limits": 3, "model": 4}'}):
        assert Settings.from_metadata(metadata) == Settings()


def test_what_is_said_now_stands_before_what_is_remembered() -> None:
    earlier = Settings(model="a", tools="x", limits={"steps": 3, "cost": 0.5})
    assert Settings(model="b", limits={"steps": 9}).over(earlier) == Settings(
        model="b", tools="x", limits={"steps": 9, "cost": 0.5}
    )


def test_a_limit_is_raised_by_as_much_again() -> None:
    spent = {"tool_calls": 3, "seconds": 12.3456, "input_tokens": 900, "output_tokens": 101, "cost": 0.0123456}
    limits = {"steps": 15, "seconds": 10.0, "tokens": 500, "cost": 0.01, "tool_calls": 3}
    assert raise_of("steps", limits, spent, 15) == ("--steps", "30")
    assert raise_of("tokens", limits, spent, 15) == ("--tokens", "2002")
    assert raise_of("tool_calls", limits, spent, 15) == ("--tool-calls", "6")
    assert raise_of("seconds", limits, spent, 15) == ("--seconds", "24.7")
    assert raise_of("cost", limits, spent, 15) == ("--cost", "0.0247")
