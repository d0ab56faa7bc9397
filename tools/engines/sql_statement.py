"""What a query for PostgreSQL is made of, before the database sees it.

sqlglot reads the statement: there must be one, and it must be a query. The names of what is called are found by
the rules of PostgreSQL's own scanner (``scan.l``) instead, since a reader of many dialects may take for a text or a
comment what PostgreSQL takes for code: in ``SELECT a$x$, f(1), b$x$`` sqlglot sees a quoted text, PostgreSQL a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from taograph.tools.engines.sql_base import MAX_SQL_CHARS, SqlError

_BEGINNINGS = ("select", "with", "values", "table")
_ONE_QUERY = "Write one query: SELECT, WITH … SELECT, or VALUES."
_MAX_DEPTH = 100
_NAME_BYTES = 63

_IDENTIFIER = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"
_SCANNER = re.compile(
    rf"""
    (?P<space>[ \t\r\n]+ | --[^\r\n]*)
  | (?P<comment>/\*)
  | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
  | (?P<refused>[uU]&["'])
  | (?P<string>[bBxXnN]?'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<word>{_IDENTIFIER})
  | (?P<number>[0-9]+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

# Tables of the server that hold passwords, of roles and of other servers, and files with them.
_SECRETS = frozenset(
    {
        "pg_authid",
        "pg_shadow",
        "pg_user_mapping",
        "pg_user_mappings",
        "user_mapping_options",
        "pg_subscription",
        "pg_hba_file_rules",
        "pg_file_settings",
    }
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A query that may be sent.

    Attributes:
        sql: Its text as it was given, less the semicolons at its end.
        calls: Each name that stands before a bracket, with the schema where one is given: functions, and words
            that only look like one.
        attributes: Each name behind a dot: a column, or a function of a row (``t.f`` is ``f(t)``).
    """

    sql: str
    calls: frozenset[tuple[str | None, str]]
    attributes: frozenset[str]


def read_statement(sql: str) -> Statement:
    """Read a query.

    Args:
        sql: The text, as a model wrote it.

    Raises:
        SqlError: It is no single query, or something in it is refused.
    """
    if len(sql) > MAX_SQL_CHARS:
        raise SqlError(
            f"The query has {len(sql):,} characters; at most {MAX_SQL_CHARS:,} are taken. Write a shorter one."
        )
    tokens = list(_tokens(sql))
    end = next((token.start for token in tokens if token.text == ";"), len(sql))
    if not tokens or tokens[0].start == end:
        raise SqlError(f"The query is empty. {_ONE_QUERY}")
    if any(token.text != ";" for token in tokens if token.start > end):
        raise SqlError("There is more than one statement. Call the tool once for each query.")
    tokens = [token for token in tokens if token.start < end]
    first = next((token for token in tokens if token.text != "("), tokens[0])
    if first.kind != "word" or first.name not in _BEGINNINGS:
        raise SqlError(f"{first.text[:40].upper()} is refused: the database can only be read. {_ONE_QUERY}")
    _check_brackets(tokens)
    _check_tree(sql[:end])
    names = [token for token in tokens if token.name]
    if secret := next((token.name for token in names if token.name in _SECRETS), None):
        raise SqlError(f"{secret} is refused: it holds passwords. Leave it out.")
    return Statement(sql[:end], frozenset(_calls(tokens)), frozenset(_attributes(tokens)))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    name: str = ""


def _tokens(sql: str) -> Iterator[_Token]:
    """The tokens but for spaces and comments, which may stand between any two."""
    place = 0
    before = ""
    while found := _SCANNER.match(sql, place):
        kind, text, start = found.lastgroup or "", found[0], place
        place = found.end()
        if kind == "comment":
            place = _comment_end(sql, place)
            continue
        if kind == "space":
            continue
        if kind == "refused":
            raise SqlError("Text with U& is refused. Write the characters themselves.")
        if kind == "other":
            _check_sign(text)
        if kind == "string" and before == "escaped":
            # On a new line it would be one text with the E'…' before it, and its backslashes would count.
            raise SqlError("Two texts stand side by side. Join them with ||.")
        name = ""
        if kind == "word":
            name = _short(text.translate(_LOWER))
        elif kind == "quoted":
            name = _short(text[1:-1].replace('""', '"'))
        yield _Token(kind, text, start, name)
        before = kind


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
"""As PostgreSQL does it in UTF-8: letters beyond ASCII stay as they are."""


def _short(name: str) -> str:
    """The name as the server keeps it: so many bytes of it."""
    return name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore")


def _comment_end(sql: str, place: int) -> int:
    """Where a comment ends that began before ``place``: comments lie within each other."""
    depth = 1
    for mark in re.finditer(r"/\*|\*/", sql[place:]):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return place + mark.end()
    raise SqlError("A comment has no end: close each /* with */.")


def _check_sign(sign: str) -> None:
    if sign in "'\"":
        raise SqlError(f"A text or name that begins with {sign} has no end. Close it.")
    if sign == "$":
        raise SqlError("The sign $ is taken within texts in single quotes only. Write values and texts themselves.")
    if sign < " " or sign == "\x7f":
        raise SqlError(f"The character {sign!a} is refused. Leave it out.")


def _check_brackets(tokens: list[_Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            raise SqlError("There is a closing bracket too many.")
        if depth > _MAX_DEPTH:
            raise SqlError("The query is nested too deeply. Write a simpler one.")
    if depth:
        raise SqlError("A bracket is not closed.")


def _check_tree(sql: str) -> None:
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="postgres") if tree is not None]
    except RecursionError:
        raise SqlError("The query is nested too deeply. Write a simpler one.") from None
    except SqlglotError as error:
        raise SqlError(f"The query can't be read: {_told(error)}") from error
    if len(trees) != 1:
        raise SqlError("There is more than one statement. Call the tool once for each query.")
    tree = trees[0]
    if not isinstance(tree, exp.Query | exp.Values):
        raise SqlError(f"{tree.key.upper()} is refused: the database can only be read. {_ONE_QUERY}")
    for part, word in ((exp.DML, ""), (exp.DDL, ""), (exp.Command, ""), (exp.Into, "SELECT INTO")):
        for found in tree.find_all(part):
            if not isinstance(found, exp.Query):
                told = word or found.key.upper()
                raise SqlError(f"{told} is refused: the database can only be read. {_ONE_QUERY}")
    if tree.find(exp.Lock):
        raise SqlError("FOR UPDATE and FOR SHARE are refused: the database can only be read. Leave them out.")


def _told(error: SqlglotError) -> str:
    first = next(iter(getattr(error, "errors", ())), None)
    if first:
        near = str(first.get("highlight") or "").strip()
        said = str(first.get("description") or "it is no SQL").split(" for <class")[0].rstrip(". ")
        where = f"line {first.get('line')}, column {first.get('col')}"
        return f"{said} at {where}" + (f", near {near[:60]!r}." if near else ".")
    return "a text, name or comment in it has no end."


def _calls(tokens: list[_Token]) -> Iterator[tuple[str | None, str]]:
    for number, token in enumerate(tokens[:-1]):
        if token.name and tokens[number + 1].text == "(":
            qualified = number >= 2 and tokens[number - 1].text == "."
            yield (tokens[number - 2].name or None if qualified else None), token.name


def _attributes(tokens: list[_Token]) -> Iterator[str]:
    for before, token in pairwise(tokens):
        if before.text == "." and token.name:
            yield token.name
