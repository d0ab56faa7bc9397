"""Redaction of a text that comes in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

from taograph.trace.redaction.finding import Span

HELD, TAIL, SEEN = 32_768, 1_024, 512
# A secret that goes on in the next line: a key file, and a name whose value is yet to come.
_OPEN_KEY = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?![^-]{0,10000}-----END)(?=[^-]{0,10000}\Z)")
_OPEN_NAME = re.compile(r"(?:key|token|secret|password)[\"']?\s{0,3}[:=]?\s{0,3}[\"']?\s*\Z", re.IGNORECASE)
_REST = re.compile(r"[^\s\"']*")
_PLACE = re.compile(r"(?<=[^\d\s])\s(?=[^\d\s])")

Find = Callable[[str, list[Span]], list[Span]]
Write = Callable[[str, list[Span], int, int], str]


class Stream:
    """A redaction in pieces: what comes out, joined, is the redaction of all that went in.

    A line is held back until it ends, since a word at its end may say what the number at its start is. Of a line that
    is longer than 32 kB the last kilobyte is: a secret that is longer still is one token all the same.

        stream = redactor.stream()
        for piece in pieces:
            write(stream.feed(piece))
        write(stream.close())
    """

    def __init__(self, whole: Callable[[str], str], find: Find, write: Write, *, held: int = HELD) -> None:
        """Make one; ``redactor.stream()`` does.

        Args:
            whole: Redacts whole lines.
            find: Finds what is in a part of a line, given what was found in it before.
            write: Writes a part of a text, from a start to an end, with what was found in it.
            held: Characters of a line that are held back.
        """
        self._whole, self._find, self._write = whole, find, write
        self._held = held
        self._tail, self._keep = min(TAIL, held // 4), min(SEEN, held // 8)
        self._text, self._seen = "", 0  # what is not written yet, after so much that is
        self._spans: list[Span] = []
        self._inside = False  # a secret that is longer than what is held
        self._closed = False

    def feed(self, piece: str) -> str:
        """Take the next piece.

        Returns:
            What is ready of the redacted text; often nothing.

        Raises:
            ValueError: The stream is closed.
        """
        if self._closed:
            raise ValueError("the stream is closed: start another with redactor.stream()")
        if self._inside:
            piece = piece[_REST.match(piece).end() :]  # type: ignore[union-attr]
            if not piece:
                return ""
            self._inside = False
        self._text += piece
        written = self._lines() if "\n" in piece else ""
        while len(self._text) - self._seen > self._held:
            written += self._part()
        return written

    def close(self) -> str:
        """The rest of the redacted text."""
        self._closed = True
        return self._up_to(len(self._text))

    def _lines(self) -> str:
        end = self._text.rfind("\n") + 1
        if (
            end <= self._seen
            or _OPEN_KEY.search(self._text, self._seen, end)
            or _OPEN_NAME.search(self._text, max(self._seen, end - 40), end)
        ):
            return ""
        return self._up_to(end)

    def _up_to(self, end: int) -> str:
        """Whole lines, or the rest of the text."""
        if self._seen:
            spans = self._find(self._text[:end], self._spans)
            written = self._write(self._text, spans, self._seen, end)
        else:
            written = self._whole(self._text[:end])
        self._text, self._seen, self._spans = self._text[end:], 0, []
        return written

    def _part(self) -> str:
        """A part of a long line, up to a place between two words where nothing was found."""
        text, end = self._text, len(self._text)
        spans = self._find(text, self._spans)
        cut = end - self._tail
        places = [p.start() + 1 for p in _PLACE.finditer(text, max(self._seen + 1, cut - self._tail), cut)]
        cut = next((p for p in reversed(places) if not any(s.start < p < s.end for s in spans)), cut)
        for span in spans:
            if span.start < cut < span.end:
                cut = span.start if span.start > self._seen else span.end
        written = self._write(text, spans, self._seen, cut)
        keep = max(0, cut - self._keep)
        if cut == end and spans and spans[-1].end == end:
            self._inside, keep = True, end
        self._text, self._seen = text[keep:], cut - keep
        self._spans = [
            s._replace(start=s.start - keep, end=s.end - keep) for s in spans if keep <= s.start and s.end <= cut
        ]
        return written
