"""Text on one line, with nothing in it that can't be seen."""

from __future__ import annotations

import unicodedata

JOINERS = "\u200c\u200d"
"""Unseen, but a part of words in Persian and Indian scripts, and of many emoji."""

_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def visible(text: str, *, escape: str = "") -> str:
    r"""Text whose unseen characters are written out, as ``\n`` or ``\u202e``.

    Args:
        text: Any text.
        escape: Characters to write with a backslash besides.
    """
    if text.isprintable() and not any(char in text for char in escape):
        return text
    return "".join("\\" + char if char in escape else char if seen(char) else ascii(char)[1:-1] for char in text)


def seen(char: str) -> bool:
    """Whether a character shows, or joins those that do."""
    return char in JOINERS or unicodedata.category(char) not in _UNSEEN
