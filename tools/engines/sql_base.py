"""What both kinds of database give the tools, and how it is written for a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from taograph.tools.engines.visible import visible
from taograph.tools.policy import ToolError

CELL_CHARS = 300
MAX_COLUMNS = 100
MAX_SQL_CHARS = 20_000
COUNTED_ROWS = 10_000
"""Rows of a table that are counted; of more it is only said that there are more."""
RESULT_CHARS = 4000
NARROWER = "Name the columns, or use WHERE, LIMIT and OFFSET, or aggregate."


class SqlError(ToolError):
    """A query that was refused or failed; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave.

    Attributes:
        columns: The names of the columns.
        rows: The cells as text, None for NULL; a cut one ends in ``…``.
        more: Whether there are more rows than these.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    more: bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: As it is written in SQL, quoted where it must be.
        type: Its type, as the database names it.
        notes: What else is known: ``"key"``, ``"not null"``, ``"→ other_table.column"``.
        details: What is told only of a single table: its default, its comment, what values there are.
    """

    name: str
    type: str
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view.

    Attributes:
        name: As it is written in SQL, with its schema where that is needed, quoted where it must be.
        plain: The same without quotes.
        kind: What it is.
        rows: How many rows it has, in words; empty where that is not known.
        columns: Its columns.
        notes: What is told only of a single table: its comment, indexes, the definition of a view.
    """

    name: str
    plain: str
    kind: Literal["table", "view"]
    rows: str
    columns: Sequence[Column]
    notes: Sequence[str] = field(default=())


class Database(Protocol):
    """A database that can only be read."""

    @property
    def kind(self) -> str:
        """The name of the dialect."""

    def query(self, sql: str) -> Rows:
        """Run one query.

        Raises:
            SqlError: It was refused or failed.
        """

    def tables(self, wanted: str = "") -> list[Table]:
        """All tables and views in brief, or those that a name or a pattern with ``*`` means in full.

        Raises:
            SqlError: The database can't be read.
        """


def rows_in_words(count: int) -> str:
    """How many rows a table has, where at most one more than :data:`COUNTED_ROWS` were counted."""
    if count > COUNTED_ROWS:
        return f"more than {COUNTED_ROWS:,} rows"
    return "1 row" if count == 1 else f"{count:,} rows"


def wanted_tables(wanted: str, names: Sequence[str]) -> list[str]:
    """Which of the tables a name or a pattern means: just as written, else in any case, else by ``*``."""
    asked = wanted.replace('"', "").strip()
    for fits in (
        [name for name in names if name == asked],
        [name for name in names if name.casefold() == asked.casefold()],
        [name for name in names if name.rpartition(".")[2].casefold() == asked.casefold()],
    ):
        if fits:
            return fits
    if "*" not in asked:
        return []
    pattern = re.compile(".*".join(re.escape(part) for part in re.split(r"\*+", asked)), re.IGNORECASE | re.DOTALL)
    return [name for name in names if pattern.fullmatch(name)]


def table_text(result: Rows) -> str:
    """A result as text: a line of names, a line for each row, and how many there are.

    Args:
        result: The rows. What has no room is left out, and that is said.
    """
    head = " | ".join(visible(name[:CELL_CHARS], escape="|") for name in result.columns)
    lines: list[str] = []
    room = RESULT_CHARS - len(head)
    cell = CELL_CHARS
    for row in result.rows:
        line = " | ".join(_cell(value, cell) for value in row)
        if not lines and len(line) > room:  # one row at least, however wide
            cell = max(10, room // (len(row) * 2))
            line = " | ".join(_cell(value, cell) for value in row)
        room -= len(line) + 1
        if lines and room < 0:
            break
        lines.append(line)
    shown = len(lines)
    count = "1 row" if shown == 1 else f"{shown} rows"
    left_out = shown < len(result.rows) or result.more
    foot = f"({count} shown, there are more. {NARROWER})" if left_out else f"({count})"
    if any(line.endswith("…") or "… | " in line for line in lines):
        foot += " (… ends a value that was cut: substr(column, start, length) gives more of it)"
    return "\n".join([head, *lines, foot])


def _cell(value: str | None, size: int) -> str:
    if value is None:
        return "NULL"
    if value in ("", "NULL"):
        return f"'{value}'"  # what is text is told from what is nothing
    text = visible(value[: size + 1], escape="|")
    cut = len(text) > size and text[size:] != "…"
    return text[:size] + "…" if cut else text


def schema_text(kind: str, tables: Sequence[Table]) -> str:
    """All tables in as much detail as there is room for.

    Args:
        kind: The name of the dialect.
        tables: The tables in brief.
    """
    if not tables:
        return f"This {kind} database has no tables that can be read."
    count = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    head = f"{kind} database, {count} (→ means: refers to):"
    full = [f"{_titled(table)}: {', '.join(map(_column, table.columns)) or 'can not be read'}" for table in tables]
    if sum(map(len, full)) + len(full) <= RESULT_CHARS:
        return "\n".join([head, *full])
    head = f'{kind} database, {count}. For the columns of one: sql_schema(table="{tables[0].name}").'.replace('""', '"')
    lines: list[str] = []
    room = RESULT_CHARS
    for table in tables:
        line = _titled(table)
        room -= len(line) + 1
        if room < 0:
            lines.append(
                f'… and {len(tables) - len(lines)} more: sql_schema(table="a*") lists those that begin with a.'
            )
            break
        lines.append(line)
    return "\n".join([head, *lines])


def details_text(tables: Sequence[Table]) -> str:
    """A few tables in full."""
    parts: list[str] = []
    room = RESULT_CHARS * 2
    for number, table in enumerate(tables):
        lines = [f"{table.name} ({', '.join(part for part in (table.kind, table.rows) if part)})"]
        for column in table.columns:
            told = ", ".join((*column.notes, *column.details))
            lines.append(f"- {column.name} {column.type}".rstrip() + (f", {told}" if told else ""))
        lines += [visible(note) for note in table.notes]
        part = _within("\n".join(lines), RESULT_CHARS * 2)
        room -= len(part)
        if parts and room < 0:
            parts.append(f"… and {len(tables) - number} more tables: ask for one by its name.")
            break
        parts.append(part)
    return "\n\n".join(parts)


def _titled(table: Table) -> str:
    told = ", ".join(part for part in ("view" if table.kind == "view" else "", table.rows) if part)
    return f"{table.name} ({told})" if told else table.name


def _column(column: Column) -> str:
    return " ".join(part for part in (column.name, column.type, *column.notes) if part)


def _within(text: str, size: int) -> str:
    return text if len(text) <= size else text[:size] + "\n… (cut here)"
