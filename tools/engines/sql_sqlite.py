"""Reading an SQLite database, and nothing else.

What keeps it so, from the outside in: the file is opened read-only; the connection answers queries only; each
statement is compiled before it runs, and SQLite itself reports what it would do (``set_authorizer``), where
only reading is let through; the sizes and steps of a statement are bounded as SQLite advises for statements
of strangers (https://www.sqlite.org/security.html).
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from taograph.tools.engines.sql_base import (
    CELL_CHARS,
    COUNTED_ROWS,
    MAX_COLUMNS,
    MAX_SQL_CHARS,
    NARROWER,
    Column,
    Rows,
    SqlError,
    Table,
    rows_in_words,
    wanted_tables,
)

_ONE_QUERY = "Write one query: SELECT, WITH … SELECT, or VALUES."
_BUSY_SECONDS = 3.0
_STEPS_BETWEEN_LOOKS = 2000
_VALUE_BYTES = 1_000_000
"""Bytes of a value at most. A function's run over a value can't be interrupted, so values must be short for it."""

_SHOWN_BYTES = 32

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_SQL_CHARS + 20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
# None of these is there by default; a build of SQLite may have them.
_REFUSED_FUNCTIONS = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer")
# What tells of tables, as functions of a query: pragma_table_info('t'). The last one is asked by full-text tables.
_PRAGMAS = ("table_list", "table_info", "table_xinfo", "foreign_key_list", "index_list", "index_info", "data_version")
_DENIED = {
    getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ATTACH", "DETACH", "PRAGMA", "TRANSACTION", "SAVEPOINT", "REINDEX"),
        *("ANALYZE", "ALTER_TABLE", "CREATE_TABLE", "CREATE_VIEW", "CREATE_INDEX", "CREATE_TRIGGER"),
        *("CREATE_TEMP_TABLE", "CREATE_TEMP_VIEW", "CREATE_TEMP_INDEX", "CREATE_TEMP_TRIGGER", "CREATE_VTABLE"),
        *("DROP_TABLE", "DROP_VIEW", "DROP_INDEX", "DROP_TRIGGER", "DROP_VTABLE"),
    )
}


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """A database file.

    Attributes:
        path: Where it is.
        max_rows: Rows of a result at most.
        seconds: Seconds a query may take.
    """

    path: Path
    max_rows: int
    seconds: float

    @property
    def kind(self) -> str:
        """The name of the dialect."""
        return "SQLite"

    def query(self, sql: str) -> Rows:
        """Run one query.

        Raises:
            SqlError: It was refused or failed.
        """
        if len(sql) > MAX_SQL_CHARS:
            raise SqlError(
                f"The query has {len(sql):,} characters; at most {MAX_SQL_CHARS:,} are taken. Write a shorter one."
            )
        with self._opened() as (connection, guard):
            guard.selects = False
            connection.execute(f"EXPLAIN {sql}").close()  # compiles it and runs nothing of it
            if not guard.selects:
                raise SqlError(f"That is no query, and the database can only be read. {_ONE_QUERY}")
            with closing(connection.execute(sql)) as cursor:
                columns = [str(entry[0]) for entry in cursor.description or ()]
                if len(columns) > MAX_COLUMNS:
                    raise SqlError(
                        f"The result has {len(columns)} columns: name the ones you need, {MAX_COLUMNS} at most."
                    )
                rows: list[list[str | None]] = []
                for row in cursor:
                    if len(rows) == self.max_rows:
                        return Rows(columns, rows, more=True)
                    rows.append([_text(value) for value in row])
                return Rows(columns, rows, more=False)

    def tables(self, wanted: str = "") -> list[Table]:
        """All tables and views in brief, or those that a name or a pattern with ``*`` means in full.

        Raises:
            SqlError: The database can't be read.
        """
        with self._opened() as (connection, _):
            listed = connection.execute(
                "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow' "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            ).fetchall()
            kinds: dict[str, str] = dict(listed)
            names = wanted_tables(wanted, list(kinds)) if wanted else list(kinds)
            written = _Written(connection)
            return [_table(connection, written, name, kinds[name], full=bool(wanted)) for name in names]

    @contextmanager
    def _opened(self) -> Iterator[tuple[sqlite3.Connection, _Guard]]:
        guard = _Guard(time.monotonic() + self.seconds)
        try:
            with closing(_connect(self.path)) as connection:
                guard.watch(connection)
                yield connection, guard
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise SqlError(_told(str(error), guard, self.seconds)) from error


class _Guard:
    """Lets a connection read only, and only until its time is over.

    Attributes:
        selects: Whether a query was compiled.
        denied: What was refused last.
        late: Whether the time was over.
    """

    def __init__(self, deadline: float) -> None:
        self.selects = False
        self.denied = ""
        self.late = False
        self._deadline = deadline

    def watch(self, connection: sqlite3.Connection) -> None:
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._over, _STEPS_BETWEEN_LOOKS)

    def _over(self) -> bool:
        self.late = time.monotonic() > self._deadline
        return self.late

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        self.selects = self.selects or action == sqlite3.SQLITE_SELECT
        if action in _ALLOWED:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _REFUSED_FUNCTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_UPDATE and first == "sqlite_master":
            # Said of any use of a virtual table (json_each, full text) as it declares its columns in memory. A
            # statement that would update this table is refused by SQLite itself, and one that changes it otherwise
            # is reported as more than this.
            return sqlite3.SQLITE_OK
        if not self.denied:
            what = second if action == sqlite3.SQLITE_FUNCTION else _DENIED.get(action, "")
            self.denied = (
                "A change of the tables" if first in ("sqlite_master", "sqlite_temp_master") else what or "That"
            )
        return sqlite3.SQLITE_DENY


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(path.as_posix())}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None)
    try:
        for category, limit in _LIMITS.items():
            connection.setlimit(category, limit)
        for pragma in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # Tables of some modules (R*Tree) compile statements that write as they are opened, which is not writing.
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'create virtual%'").fetchall():
            with suppress(sqlite3.Error):  # of a module that isn't there: said when the table is asked for
                connection.execute(f"SELECT 1 FROM {_quoted(name)} LIMIT 0").close()  # noqa: S608 - quoted
    except BaseException:
        connection.close()
        raise
    return connection


def _told(said: str, guard: _Guard, seconds: float) -> str:
    if guard.late:
        return f"The query took longer than {seconds:g} s and was ended. {NARROWER}"
    if guard.denied:
        return f"{guard.denied} is refused: the database can only be read. {_ONE_QUERY}"
    known = {
        "one statement at a time": "There is more than one statement. Call the tool once for each query.",
        "incomplete input": f"The query is empty, or its end is missing. {_ONE_QUERY}",
        "null character": "The query holds a NUL character. Leave it out.",
        "too big": f"A value has more than {_VALUE_BYTES:,} bytes, or the query is too long. Leave that column out.",
        "locked": "Another program is writing to the database. Try again in a moment.",
        "no such table": f"{said}. sql_schema lists the tables.",
        "no such column": f"{said}. sql_schema tells the columns.",
        "not a database": "The file is no SQLite database, or an encrypted one. Go on without it.",
        "unable to open": "The database file can't be opened now. Go on without it.",
        "malformed": "The database file is damaged. Go on without it.",
    }
    return next((text for mark, text in known.items() if mark in said), f"{said}. Correct the query.")


def _text(value: Any) -> str | None:
    """A value as text, cut soon after what is shown of it."""
    if value is None:
        return None
    if isinstance(value, float):
        short = f"{value:.15g}"  # as SQLite itself writes it
        return short if re.search(r"[^0-9-]", short) else f"{short}.0"
    if isinstance(value, bytes):
        shown = f"x'{value[:_SHOWN_BYTES].hex().upper()}'"
        return shown if len(value) <= _SHOWN_BYTES else f"{shown} and so on, {len(value):,} bytes"
    return str(value)[: CELL_CHARS + 1]


class _Written:
    """How names are written in SQL: quoted where SQLite would not take them as they are."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self, name: str) -> str:
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            with suppress(sqlite3.Error):
                sql = f"SELECT {name}.{name} FROM (SELECT 1 AS {name}) AS {name}"  # noqa: S608 - letters and digits
                self._connection.execute(sql).close()
                return name
        return _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(connection: sqlite3.Connection, written: _Written, name: str, kind: str, *, full: bool) -> Table:
    targets: dict[str, str] = {}
    for target, source, column in connection.execute(
        'SELECT "table", "from", "to" FROM pragma_foreign_key_list(?)', (name,)
    ):
        targets[source] = f"→ {written(target)}" + (f".{written(column)}" if column else "")
    columns: list[Column] = []
    with suppress(sqlite3.OperationalError):  # a view of a table that is gone has no columns
        for column, declared, required, default, key, hidden in connection.execute(
            'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (name,)
        ).fetchall():
            if hidden == 1:  # a full-text table has one named like itself, for its own use
                continue
            told = ["key"] * bool(key) + ["not null"] * bool(required and not key)
            told += [targets[column]] if column in targets else []
            details = (f"default {default}"[:CELL_CHARS],) if default is not None else ()
            columns.append(Column(written(column), declared.lower(), tuple(told), details))
    notes = tuple(_notes(connection, written, name)) if full else ()
    return Table(written(name), name, "view" if kind == "view" else "table", _count(connection, name), columns, notes)


def _count(connection: sqlite3.Connection, name: str) -> str:
    with suppress(sqlite3.Error):  # as long as there is time, and a view that can be read
        sql = f"SELECT count(*) FROM (SELECT 1 FROM {_quoted(name)} LIMIT {COUNTED_ROWS + 1})"  # noqa: S608 - quoted
        return rows_in_words(connection.execute(sql).fetchone()[0])
    return ""


def _notes(connection: sqlite3.Connection, written: _Written, name: str) -> Iterator[str]:
    for index, unique in connection.execute('SELECT name, "unique" FROM pragma_index_list(?)', (name,)).fetchall():
        parts = connection.execute("SELECT name FROM pragma_index_info(?)", (index,)).fetchall()
        inside = ", ".join(written(part) if part else "an expression" for (part,) in parts)
        yield f"{'Unique index' if unique else 'Index'} on {inside}"
    asked = "SELECT sql FROM sqlite_master WHERE name = ? AND (type = 'view' OR sql LIKE 'create virtual%')"
    for (sql,) in connection.execute(asked, (name,)):
        yield f"Defined as: {' '.join(str(sql).split())}"[:1000]
