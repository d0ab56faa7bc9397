"""Asking the person at the terminal what a run wants to know.

Prompts go to stderr, so that stdout stays the run's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taograph.cli.text import clean
from taograph.cli.waiting import Waiting, in_words

Check = Callable[[str, Mapping[str, Any]], str | None]
"""What is wrong with the arguments of a tool's call, in words; None if nothing is."""

_APPROVAL_HELP = """\
  a  approve: run it as it is
  e  edit: run it with other arguments, written as JSON
  r  reject: do not run it, and tell the model why
  s  stop: do not run it, and end the run
  l  later: leave it waiting; what is answered goes on
  w  show it whole
  Ctrl-C leaves everything as it is."""
_UNFINISHED_HELP = """\
  r  repeat: it did not take effect, run it again
  d  done: it took effect; what it returned can be given
  u  unknown: the model is told that nobody knows
  l  later: leave it waiting; what is answered goes on
  w  show it whole
  Ctrl-C leaves everything as it is."""


class Unanswered(Exception):  # noqa: N818 - not an error: nobody is there, or they left
    """Something that was asked stays open.

    Attributes:
        waiting: What stays open.
        left: Whether a person was asked and left (Ctrl-C, end of input), or nobody could be asked.
        signal: The signal that ended the asking, or 0.
    """

    def __init__(self, waiting: Sequence[Waiting], *, left: bool, signal: int = 0) -> None:
        super().__init__("something that was asked stays open")
        self.waiting = tuple(waiting)
        self.left = left
        self.signal = signal


class EndOfInput(Exception):  # noqa: N818 - the person has left
    """There is nothing more to be read from the person."""


def can_ask() -> bool:
    """Whether somebody is there."""
    return sys.stdin.isatty()


def ask_all(waiting: Sequence[Waiting], check: Check) -> dict[str, Any]:
    """Ask for everything that a run waits for, one after another.

    Args:
        waiting: What it waits for.
        check: Looks at arguments that were changed.

    Returns:
        Answers by interrupt; what the person wants to answer later is left out.

    Raises:
        EndOfInput: The person left.
        KeyboardInterrupt: The person left.
    """
    many = len(waiting) > 1
    if many:
        _write(f"\nThe run waits for {in_words(waiting)}.\n")
        for number, each in enumerate(waiting, 1):
            _write(f"  {number}. {_indented(each.title())}\n")
    answers: dict[str, Any] = {}
    for number, each in enumerate(waiting, 1):
        answer = _ask(each, check, f"{number} of {len(waiting)}: " if many else "")
        if answer is not None:
            answers[each.interrupt] = answer
    return answers


def confirm(question: str, *, default: bool = True) -> bool:
    """Ask for a yes or no at the terminal; end of input is a no."""
    _write(f"{question} {'[Y/n]' if default else '[y/N]'} ")
    line = sys.stdin.readline()
    word = line.strip().lower()
    return bool(line) and (word in ("y", "yes") or (default and not word))


def _ask(each: Waiting, check: Check, place: str) -> Any:
    """The answer to one thing; None for later."""
    match each.kind:
        case "approval":
            _write(f"\n{place}{_indented(each.title())}\n  {each.detail()}\n")
            return _approval(each, check)
        case "unfinished_call":
            _write(f"\n{place}{_indented(each.title())}\n  {each.detail()}\n")
            return _unfinished(each)
        case "question":
            _write(f"\n{place}The run asks you: {_indented(each.title())}\n")
            return _line("> ", empty=False)
        case _:
            _write(f"\n{place}The run waits for an answer to: {_indented(each.title())}\n")
            return _value(_line("Text or JSON > ", empty=False))


def _approval(each: Waiting, check: Check) -> Any:
    while True:
        word, rest = _choice("[a]pprove, [e]dit, [r]eject, [l]ater, [?] more > ")
        match word:
            case "a" | "approve" | "y" | "yes":
                return {"decision": "approve", "hash": each.value.get("hash")}
            case "e" | "edit":
                args = _arguments(each, check, rest)
                if args is not None:
                    return {"decision": "edit", "args": args, "hash": each.value.get("hash")}
            case "r" | "reject" | "n" | "no" | "s" | "stop":
                reason = rest or _line("Why? The model is told. > ")
                return {
                    "decision": "reject",
                    "reason": reason,
                    "stop": word in ("s", "stop"),
                    "hash": each.value.get("hash"),
                }
            case "l" | "later":
                return None
            case "w" | "whole":
                _write(f"{each.title(whole=True)}\n")
            case _:
                _write(f"{_APPROVAL_HELP}\n")


def _unfinished(each: Waiting) -> Any:
    while True:
        word, rest = _choice("[r]epeat, [d]one, [u]nknown, [l]ater, [?] more > ")
        match word:
            case "r" | "repeat":
                return {"decision": "repeat"}
            case "d" | "done":
                return {"decision": "done", "result": rest or _line("What did it return? Empty if you don't know. > ")}
            case "u" | "unknown":
                return {"decision": "unknown"}
            case "l" | "later":
                return None
            case "w" | "whole":
                _write(f"{each.title(whole=True)}\n")
            case _:
                _write(f"{_UNFINISHED_HELP}\n")


def _arguments(each: Waiting, check: Check, given: str) -> dict[str, Any] | None:
    """The arguments that a person wants instead; None where they changed their mind."""
    before = json.dumps(each.args, ensure_ascii=False)
    text = given
    while True:
        if not text:
            text = _edited("All arguments, as JSON; empty leaves them. > ", before)
        if not text:
            return None
        args, complaint = read_arguments(text)
        if args == each.args:
            _write("That changes nothing.\n")
            return None
        complaint = complaint or check(each.tool, args or {})
        if complaint is None:
            return args
        _write(f"{clean(complaint)}\n")
        before, text = text, ""


def read_arguments(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """Arguments that were written as JSON, or what is wrong with that."""
    try:
        args = json.loads(text)
    except ValueError as error:
        return None, f'That is no JSON ({error}); write an object such as {{"amount": 10}}.'
    if not isinstance(args, dict):
        return None, 'The arguments are an object: write {"name": value, …}.'
    return args, None


def _choice(prompt: str) -> tuple[str, str]:
    """A word and what stands behind it."""
    word, _, rest = _line(prompt).partition(" ")
    return word.lower(), rest.strip()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _line(prompt: str, *, empty: bool = True) -> str:
    """A line that the person typed.

    Raises:
        EndOfInput: There is none.
    """
    while True:
        _write(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EndOfInput
        if line.strip() or empty:
            return line.strip()


def _edited(prompt: str, text: str) -> str:
    """A line that the person changed; where the terminal can't be written into, it is shown to be copied."""
    try:
        import readline
    except ImportError:  # Windows
        readline = None  # type: ignore[assignment]
    if readline is None or not sys.stdout.isatty():
        _write(f"  {text}\n")
        return _line(prompt)
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        return input(prompt).strip()
    except EOFError:
        raise EndOfInput from None
    finally:
        readline.set_startup_hook()


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
