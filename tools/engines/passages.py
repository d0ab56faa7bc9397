"""Documents in pieces small enough to answer from, and in pages to read one after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from taograph.tools.engines.document_readers import Document

PASSAGE_CHARS = 700
"""Characters of a passage at most: what a search result shows of the best one."""
PAGE_CHARS = 3000
"""Characters of a page of ``open_document``, headings included."""

# Where a text may be parted, from the best place to the worst.
_BREAKS = (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s*(?=\S)", r"(?<=[;:,，；])\s*(?=\S)", r"\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document.

    Attributes:
        heading: As the section's.
        text: The piece.
        page: The page of ``open_document`` it stands on, from 1.
        part: Which piece of its section it is, from 0.
        keywords: As the section's and the document's.
    """

    heading: str
    text: str
    page: int
    part: int
    keywords: str


def passages(document: Document) -> list[Passage]:
    """Cut a document into passages; together they are its whole text, in order."""
    made: list[Passage] = []
    page, used, shown = 1, 0, ""
    for section in document.sections:
        keywords = f"{document.keywords} {section.keywords}".strip()
        for part, piece in enumerate(split(section.text, PASSAGE_CHARS)):
            # Two line breaks, and the heading where it is not the one shown last on the page.
            cost = len(piece) + 2 + (len(section.heading) + 5 if section.heading != shown else 0)
            if used and used + cost > PAGE_CHARS:
                page, used = page + 1, 0
                cost = len(piece) + 2 + len(section.heading) + 5
            used, shown = used + cost, section.heading
            made.append(Passage(section.heading, piece, page, part, keywords))
    return made


def split(text: str, size: int) -> list[str]:
    """Part a text at paragraphs, else lines, sentences, phrases or words, else anywhere.

    Args:
        text: The text.
        size: Characters of a piece at most.
    """
    if len(text) > size:
        # Pieces of about one length: a leftover of a few words would be found before what it belongs to.
        size = min(size, math.ceil(len(text) / math.ceil(len(text) / size) * 1.2))
    return [piece for piece in (part.rstrip().strip("\n") for part in _split(text, size, 0)) if piece.strip()]


def _split(text: str, size: int, level: int) -> Iterator[str]:
    if len(text) <= size:
        yield text
    elif level == len(_BREAKS):
        yield from (text[at : at + size] for at in range(0, len(text), size))
    else:
        yield from _joined(_parted(text, _BREAKS[level]), size, level + 1)


def _parted(text: str, pattern: str) -> Iterator[str]:
    """The parts of a text, each with the break that ends it."""
    at = 0
    for found in re.finditer(pattern, text):
        if found.end() > at:
            yield text[at : found.end()]
            at = found.end()
    if at < len(text):
        yield text[at:]


def _joined(parts: Iterable[str], size: int, level: int) -> Iterator[str]:
    """Neighbours put together as far as the size allows; a part that is too large by itself is split finer."""
    held = ""
    for part in parts:
        if len(held) + len(part.rstrip()) <= size:
            held += part
            continue
        if held:
            yield held
        held = ""
        if len(part.rstrip()) <= size:
            held = part
        else:
            yield from _split(part, size, level)
    if held:
        yield held
