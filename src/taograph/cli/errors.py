"""What the command says when something goes wrong: one sentence, the fix, and no secret."""

from __future__ import annotations

import os

from taograph.cli.text import clean
from taograph.redaction import redact


class CommandError(Exception):
    """A command can't do what it was asked to; the message is for the person at the terminal.

    Attributes:
        fixes: What they can do about it, each a line of its own.
        code: The exit status.
    """

    def __init__(self, message: str, *, fixes: tuple[str, ...] = (), code: int = 1) -> None:
        super().__init__(message)
        self.fixes = fixes
        self.code = code


def sentence(error: BaseException) -> str:
    """An exception as one line for a person: its text without secrets, or its type where it has none."""
    text = " ".join(clean(redact(str(error))).split())
    kind = type(error).__name__
    if not text:
        return kind
    # These say themselves what is wrong; the text of others is often a fragment.
    named = isinstance(error, CommandError | ValueError | OSError) or text.startswith(kind)
    return text if named else f"{kind}: {text}"


def debugging() -> bool:
    """Whether tracebacks are wanted (TAOGRAPH_DEBUG=1)."""
    return os.environ.get("TAOGRAPH_DEBUG", "").lower() not in ("", "0", "false", "no")
