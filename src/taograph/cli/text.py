"""Text from models, tools and web pages, made safe and short enough for a terminal."""

from __future__ import annotations

import re

# Whole escape sequences first, so that no remains like "[31m" are left of them; then every control
# character but newline and tab, and the marks that reverse the direction of what follows them.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # CSI: colors, cursor movements
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, …: titles, links
    r"|\x1b[ -/]*+[0-~]"  # the two- and three-character ones
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_BREAKS = re.compile("\r\n?|[\u0085\u2028\u2029]")


def clean(text: str) -> str:
    """Text as it can be printed: no escape sequence, no control character but newline and tab."""
    return _CONTROLS.sub("", _BREAKS.sub("\n", _SEQUENCES.sub("", text)))


def shorten(text: str, *, chars: int, lines: int) -> tuple[str, bool]:
    """The head of a text.

    Args:
        text: What is to be shown.
        chars: Characters that are kept at most.
        lines: Lines that are kept at most.

    Returns:
        The head, without a mark, and whether anything was left out.
    """
    head = "\n".join(text.split("\n", lines)[:lines])[:chars]
    return (head.rstrip(), True) if len(head) < len(text) else (text, False)


def one_line(text: str, chars: int) -> str:
    """A text on one line, for a table or a header."""
    line = " ".join(clean(text).split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"
