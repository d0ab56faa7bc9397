"""Pages as ReAct's Wikipedia environment reads them: sentence by sentence.

Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022), ``wikienv.py``: a page is
lines, a line is parted at every full stop with a blank after it, and nothing else is a sentence's end. What a
search shows and how look-ups are counted depends on just that, so it is kept, abbreviations included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

FIRST = 5
"""Sentences of a page that a search shows."""
SIMILAR = 5
"""Titles that a search offers where there is no such page."""

# The paper's environment knows English only; the full stops of other scripts have no blank after them.
_STOPS = "。！？।۔።"
_ENDS = re.compile(rf"(?<=\.) |(?<=[{_STOPS}])\s*(?![{_STOPS}」』”’）)])")
_APART = re.compile(r"\s+\.$")


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        title: Its title, after redirects.
        revision: What changes when its text does.
        text: Its running text, a paragraph a line.
        meanings: Whether it only lists what its title may mean.
    """

    title: str
    revision: str
    text: str
    meanings: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no page of that title, or one of meanings only.

    Attributes:
        similar: Titles that may be meant, best first.
        meanings: Whether the title has several meanings.
    """

    similar: tuple[str, ...]
    meanings: bool = False


class Encyclopedia(Protocol):
    """Where pages come from. ``key`` is stored with a run, to know its own pages again."""

    @property
    def key(self) -> str:
        """What this is called in the messages of a run."""
        ...

    def search(self, entity: str) -> Page | Missing:
        """The page of that title, or the titles like it."""
        ...

    def read(self, title: str, revision: str) -> Page | None:
        """A page that a search has found before, as it was then if that can be had."""
        ...


def sentences(text: str) -> list[str]:
    """The sentences of a page."""
    found: list[str] = []
    for paragraph in text.split("\n"):
        parts = (_APART.sub(".", part.strip()) for part in _ENDS.split(paragraph))
        found += [part for part in parts if part and part != "."]
    return found


def beginning(text: str) -> str:
    """What a search shows of a page."""
    return " ".join(sentences(text)[:FIRST])


def holding(text: str, keyword: str) -> list[str]:
    """The sentences of a page that hold a text, in any case."""
    wanted = keyword.lower()
    return [sentence for sentence in sentences(text) if wanted in sentence.lower()]


def lists_meanings(text: str) -> bool:
    """Whether a page only lists what its title may mean, by the paper's sign of it."""
    return "may refer to:" in text
