"""Asking the person at the terminal what a run wants to know."""

from __future__ import annotations

import json
import sys
from typing import Any

from taograph.cli.errors import CommandError
from taograph.cli.text import clean


class Unanswered(Exception):  # noqa: N818 - not an error: nobody is there, or they left
    """A question stays open.

    Attributes:
        left: Whether a person was asked and left (Ctrl-C, end of input), or nobody could be asked.
    """

    def __init__(self, *, left: bool) -> None:
        super().__init__("a question stays open")
        self.left = left


def answer_to(value: Any) -> str:
    """Ask a person the question of an interrupt and return what they typed.

    The prompt goes to stderr, so that stdout stays the run's.

    Args:
        value: The interrupt's value, ``{"type": "question", "question": text}``.

    Raises:
        Unanswered: Stdin is not a terminal, or its input ended.
        KeyboardInterrupt: The person left.
        CommandError: The interrupt wants something else than an answer to a question.
    """
    say(value)
    if not sys.stdin.isatty():
        raise Unanswered(left=False)
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise Unanswered(left=True)
        if line.strip():
            return line.strip()


def say(value: Any) -> None:
    """Show a question on stderr.

    Raises:
        CommandError: As :func:`answer_to`.
    """
    if not isinstance(value, dict) or value.get("type") != "question":
        shown = clean(json.dumps(value, ensure_ascii=False, default=str))[:500]
        raise CommandError(
            f"the run waits for something that tao can't ask at a terminal: {shown}",
            fixes=("go on from Python: graph.invoke(Command(resume={id: answer}), config)",),
        )
    question = clean(str(value.get("question", ""))).strip().replace("\n", "\n  ")
    sys.stderr.write(f"\nThe run asks you: {question}\n")
    sys.stderr.flush()


def confirm(question: str) -> bool:
    """Ask for a yes or no at the terminal; end of input is a no."""
    sys.stderr.write(f"{question} [Y/n] ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return bool(line) and line.strip().lower() in ("", "y", "yes")
