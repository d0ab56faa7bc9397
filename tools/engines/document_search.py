"""Finding passages: a question in anybody's words, turned into full-text queries that cannot fail.

Candidates come from SQLite's BM25, those with all words first, else those with some; a second look then
prefers passages that hold more of the words, and those whose heading or title is what was asked for.
"""

from __future__ import annotations

import math
import re
import sqlite3
from dataclasses import dataclass

MAX_WORDS = 16
"""Words of a query that are looked up; of a longer one, the rarest."""
_CANDIDATES = 60
_WORTH = 0.2
"""Of the best passage's score: what is below it holds little of what was asked and would only cost tokens."""
_OPEN, _CLOSE = "\x02", "\x03"
"""Mark the words that matched; no text of an index holds them."""

_STOP_WORDS = frozenset(
    """
    a about an and any are as at be became become been by can could did do does find for from give had has have how i in
    info information into is it its long many me much my of on or our please s show tell that the their there
    these they this to us was we were what when where which who whom whose why will with would you your
    """.split()  # noqa: SIM905 - a list of fifty literals reads worse
)
# Weights of title, heading, keywords and text.
_BM25 = "bm25(words, 3.0, 4.0, 2.0, 1.0)"


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found.

    Attributes:
        document: The name to open its document by.
        title: The document's title.
        heading: The headings above the passage.
        page: The page of the document it stands on.
        text: The passage.
        spots: Where in the text the words of the query stand.
    """

    document: str
    title: str
    heading: str
    page: int
    text: str
    spots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    phrase: str
    weight: float


def query_words(query: str) -> list[str]:
    """The words of a query that are worth looking up; all of them, if it has no others than common ones."""
    words = list(dict.fromkeys(re.findall(r"[^\W_]+", query.lower().replace("’", "'").replace("'s ", " "))))
    telling = [word for word in words if word not in _STOP_WORDS]
    return [word[:64] for word in telling or words][:200]


def find(connection: sqlite3.Connection, query: str, limit: int, *, document: str | None = None) -> list[Hit]:
    """The best passages for a query, best first.

    Args:
        connection: The index, within one transaction.
        query: Any text.
        limit: Passages at most.
        document: Look in this document only.
    """
    words = _known(connection, query_words(query))
    if not words:
        return _containing(connection, query_words(query), limit, document)
    any_word = " OR ".join(word.phrase for word in words)
    all_words = " AND ".join(word.phrase for word in words)
    rows = _candidates(connection, all_words, document)
    if len(rows) < limit:
        rows = {**_candidates(connection, any_word, document), **rows}
    return _best(connection, words, rows, limit)


def _known(connection: sqlite3.Connection, words: list[str]) -> list[_Word]:
    """The words that occur in the index, the rarest first; the rarer a word, the more it counts."""
    (total,) = connection.execute("SELECT count(*) FROM passages").fetchone()
    found = []
    for word in words:
        phrase = '"' + word.replace('"', '""') + '"'
        (count,) = connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (phrase,)).fetchone()
        if count:
            found.append(_Word(phrase, math.log(1 + (total - count + 0.5) / (count + 0.5))))
    return sorted(found, key=lambda word: -word.weight)[:MAX_WORDS]


def _candidates(connection: sqlite3.Connection, match: str, document: str | None) -> dict[int, float]:
    where, values = _within(document)
    return dict(
        connection.execute(
            f"SELECT rowid, -{_BM25} FROM words WHERE words MATCH ? {where} ORDER BY 2 DESC LIMIT {_CANDIDATES}",  # noqa: S608
            (match, *values),
        )
    )


def _within(document: str | None) -> tuple[str, tuple[str, ...]]:
    if document is None:
        return "", ()
    ids = "SELECT p.id FROM passages p JOIN documents d ON d.id = p.document WHERE d.name = ?"
    return f"AND rowid IN ({ids})", (document,)


def _best(connection: sqlite3.Connection, words: list[_Word], rows: dict[int, float], limit: int) -> list[Hit]:
    ids = ", ".join(str(rowid) for rowid in rows)
    covered = dict.fromkeys(rows, 0.0)
    for word in words:
        for (rowid,) in connection.execute(
            f"SELECT rowid FROM words WHERE words MATCH ? AND rowid IN ({ids})",  # noqa: S608
            (word.phrase,),
        ):
            covered[rowid] += word.weight
    whole = sum(word.weight for word in words)
    scored = []
    for row in connection.execute(
        f"SELECT w.rowid, d.name, p.title, p.heading, p.page, p.part, highlight(words, 0, ?1, ?2), "  # noqa: S608
        f"highlight(words, 1, ?1, ?2), highlight(words, 2, ?1, ?2), highlight(words, 3, ?1, ?2) "
        f"FROM words w JOIN passages p ON p.id = w.rowid JOIN documents d ON d.id = p.document "
        f"WHERE words MATCH ?3 AND w.rowid IN ({ids})",
        (_OPEN, _CLOSE, " OR ".join(word.phrase for word in words)),
    ):
        rowid, name, title, heading, page, part, in_title, in_heading, in_keywords, text = row
        named = max(_share(in_title), 0.7 if _OPEN in in_keywords else 0.0)
        score = rows[rowid] * (covered[rowid] / whole) ** 2 * (1 + named) * (1 + _share(in_heading))
        score *= 1.1 if part == 0 else 1.0  # a section begins with what it is about
        scored.append((score, -rowid, Hit(name, title, heading, page, _unmarked(text), _spots(text))))
    scored.sort(key=lambda item: item[:2], reverse=True)
    unique: dict[str, Hit] = {}
    for score, _, hit in scored:
        if score >= scored[0][0] * _WORTH:
            unique.setdefault(hit.title + hit.text, hit)
    return list(unique.values())[:limit]


def _share(marked: str) -> float:
    """How much of a title or heading the query names."""
    words = [word for word in re.findall(r"\x02?[^\W_]+", marked.lower()) if word not in _STOP_WORDS]
    return sum(word.startswith(_OPEN) for word in words) / len(words) if words else 0.0


def _unmarked(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")


def _spots(marked: str) -> tuple[int, ...]:
    marks = enumerate(re.finditer(f"[{_OPEN}{_CLOSE}]", marked))
    return tuple(found.start() - before for before, found in marks if found[0] == _OPEN)


def _containing(connection: sqlite3.Connection, words: list[str], limit: int, document: str | None) -> list[Hit]:
    """Passages that hold the letters of a word inside another: scripts without spaces, parts of long words."""
    wanted = [word for word in words if len(word) > (1 if ord(word[0]) > 0x2E7F else 3)][:MAX_WORDS]
    if not wanted:
        return []
    held = " + ".join("(instr(lower(p.heading || ' ' || p.text), ?) > 0)" for _ in wanted)
    where, values = ("AND d.name = ?", [document]) if document else ("", [])
    rows = connection.execute(
        f"SELECT d.name, p.title, p.heading, p.page, p.text, {held} AS held FROM passages p "  # noqa: S608
        f"JOIN documents d ON d.id = p.document WHERE held > 0 {where} ORDER BY held DESC, p.id LIMIT ?",
        (*wanted, *values, limit),
    )
    return [
        Hit(name, title, heading, page, text, tuple(at for word in wanted if (at := text.lower().find(word)) >= 0))
        for name, title, heading, page, text, _ in rows
    ]
