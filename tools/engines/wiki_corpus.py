"""Pages from a local file: one SQLite database with a full-text index, made once from a file of JSON lines.

A title is found as it is written, else without case and accents, else as an alias. Titles like it come from
BM25 with ten times the weight on the title.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from taograph.folders import cache_folder
from taograph.tools.engines.document_search import MAX_WORDS, query_words
from taograph.tools.engines.folding import folded
from taograph.tools.engines.wiki_text import SIMILAR, Missing, Page, lists_meanings

_APPLICATION = 0x7A0D0C6  # marks a file as ours
_SCHEMA = 1
_TABLES = """
CREATE TABLE pages (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, folded TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX pages_by_folded ON pages (folded);
CREATE TABLE aliases (folded TEXT NOT NULL, page INTEGER NOT NULL REFERENCES pages(id), PRIMARY KEY (folded, page))
    WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(
    title, text, content = 'pages', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
"""
_SOURCES = (".jsonl", ".jsonl.gz")


class CorpusError(ValueError):
    """Raised when a corpus can't be made or read; the message says the fix, and names no folder."""


class Corpus:
    """A corpus file. Safe to use from any thread; what is made of JSON lines is made at the first use."""

    def __init__(self, path: str | Path) -> None:
        """Name the file.

        Args:
            path: A database that :func:`build_corpus` made, or a file of JSON lines, packed with gzip or not.

        Raises:
            CorpusError: There is no such file, or it is neither.
        """
        self._path = Path(path).expanduser().absolute()
        self._lock = threading.Lock()
        name = self._path.name
        if not self._path.is_file():
            raise CorpusError(f"corpus {str(path)!r}: there is no such file")
        self._source = name.lower().endswith(_SOURCES)
        self.key = "corpus:" + name.partition(".")[0]
        if not self._source and not _ours(self._path):
            raise CorpusError(
                f"corpus {str(path)!r} was not made by build_corpus: give one that was, or a file of JSON lines "
                '({"title": …, "text": …}, one page a line) called .jsonl or .jsonl.gz'
            )

    def search(self, entity: str) -> Page | Missing:
        """The page of that title, or the titles like it.

        Raises:
            CorpusError: The file can't be used.
        """
        with self._opened() as connection:
            found = _page(connection, entity)
            if found is None:
                return Missing(tuple(_similar(connection, entity))[:SIMILAR])
            if found.meanings:
                others = [title for title in _similar(connection, entity) if title != found.title]
                return Missing(tuple(others[:SIMILAR]), meanings=True)
            return found

    def read(self, title: str, revision: str) -> Page | None:
        """A page by its exact title; a corpus has one revision of each."""
        with self._opened() as connection:
            row = connection.execute("SELECT title, text FROM pages WHERE title = ?", (title,)).fetchone()
        return Page(row[0], "", row[1]) if row else None

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(_reading(self._database())) as connection:
                yield connection
        except (OSError, sqlite3.Error) as error:  # damage shows only where it is read
            raise CorpusError(f"the corpus {self._path.name} can't be read ({type(error).__name__})") from error

    def _database(self) -> Path:
        if not self._source:
            return self._path
        with self._lock:
            state = self._path.stat()
            name = f"{self.key.partition(':')[2]}-{_digest(self._path)}"
            stamp = _digest(_SCHEMA, state.st_size, state.st_mtime_ns)
            database = cache_folder() / "wikipedia" / f"{name}-{stamp}.sqlite"
            if not database.is_file() or not _ours(database):
                build_corpus(self._path, database)
                for old in database.parent.glob(f"{name}-*.sqlite"):
                    if old != database:
                        with suppress(OSError):
                            old.unlink()
            return database


def build_corpus(source: str | Path | Iterable[Mapping[str, Any]], database: str | Path) -> int:
    """Make a corpus database; an older one of that name is replaced when the new one is complete.

    Args:
        source: The pages, or a file of JSON lines with them. A page has ``title``, ``text`` (or ``extract``) and, if
            it has other titles, ``aliases``. Of several pages with one title the first is kept.
        database: Where it is to be.

    Returns:
        The number of pages.

    Raises:
        CorpusError: A page has no title or text, or the file can't be read.
    """
    path = Path(database).expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    records = _lines(Path(source).expanduser()) if isinstance(source, str | Path) else enumerate(source, 1)
    handle, made = tempfile.mkstemp(prefix=path.stem, suffix=".making", dir=path.parent)
    os.close(handle)
    try:
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            count = _fill(connection, records)
        Path(made).replace(path)
    finally:
        Path(made).unlink(missing_ok=True)
    return count


def _fill(connection: sqlite3.Connection, records: Iterable[tuple[int, Any]]) -> int:
    connection.execute("PRAGMA journal_mode = OFF")  # a half-made file is thrown away
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(f"BEGIN; {_TABLES}")
    count = 0
    for number, record in records:
        title, text, aliases = _checked(record, number)
        added = connection.execute(
            "INSERT OR IGNORE INTO pages (title, folded, text) VALUES (?, ?, ?) RETURNING id",
            (title, folded(title), text),
        ).fetchone()
        if added:
            count += 1
            connection.executemany(
                "INSERT OR IGNORE INTO aliases VALUES (?, ?)", [(folded(alias), added[0]) for alias in aliases]
            )
    if not count:
        raise CorpusError("there is no page in it")
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute("INSERT INTO words (words) VALUES ('optimize')")
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_SCHEMA}")
    return count


def _checked(record: Any, number: int) -> tuple[str, str, list[str]]:
    if not isinstance(record, Mapping):
        raise CorpusError(f"page {number} is no object with title and text")
    title, text = record.get("title"), record.get("text", record.get("extract"))
    aliases = record.get("aliases") or []
    if not isinstance(title, str) or not title.strip():
        raise CorpusError(f"page {number} has no title: give it one, as text")
    if not isinstance(text, str):
        raise CorpusError(f'page {number} ({title[:60]!r}) has no text: give it one as "text"')
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise CorpusError(f"page {number} ({title[:60]!r}): aliases must be a list of titles")
    try:
        "".join((title, text, *aliases)).encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"page {number} ({title[:60]!r}) has half of a character in it (a lone surrogate)") from error
    return " ".join(title.split()), text, aliases


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{path.name}: line {number} is not JSON ({error.msg})") from error
    except RecursionError as error:
        raise CorpusError(f"{path.name}: line {number} is nested too deeply") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path.name} can't be read after line {number} ({type(error).__name__})") from error


def _opened(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _ours(path: Path) -> bool:
    try:
        with closing(_reading(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return False
    return (application, schema) == (_APPLICATION, _SCHEMA)


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)


def _digest(*values: object) -> str:
    return hashlib.sha256("\n".join(map(str, values)).encode()).hexdigest()[:8]


def _page(connection: sqlite3.Connection, entity: str) -> Page | None:
    asked = " ".join(entity.replace("_", " ").split())
    for where, value in (
        ("title = ?", asked),
        ("folded = ?", folded(asked)),
        ("id IN (SELECT page FROM aliases WHERE folded = ?)", folded(asked)),
    ):
        row = connection.execute(
            f"SELECT title, text FROM pages WHERE {where} ORDER BY id LIMIT 1",  # noqa: S608 - one of the three above
            (value,),
        ).fetchone()
        if row:
            return Page(row[0], "", row[1], lists_meanings(row[1]))
    return None


def _similar(connection: sqlite3.Connection, entity: str) -> list[str]:
    """Titles like this one: with all its words, then with some, then with words that begin like them."""
    words = query_words(entity)[:MAX_WORDS]
    exact = [f'"{word}"' for word in words]
    begun = [f'title : "{word[: max(3, len(word) * 2 // 3)]}" *' for word in words if len(word) > 3]
    found: dict[str, None] = {}
    for match in (" AND ".join(exact), " OR ".join(exact), " OR ".join(begun)):
        if match and len(found) <= SIMILAR:  # one more than is shown: the page itself may be among them
            rows = connection.execute(
                "SELECT title FROM words WHERE words MATCH ? ORDER BY bm25(words, 10.0, 1.0), rowid LIMIT ?",
                (match, SIMILAR + 1),
            )
            found |= dict.fromkeys(title for (title,) in rows)
    return list(found)
