"""Asking a database: its tables with ``sql_schema``, its data with ``sql_query``.

Both only read, and it is the database that holds them to it, not a search for words; how, the modules
:mod:`taograph.tools.engines.sql_sqlite` and :mod:`taograph.tools.engines.sql_postgres` say. Each call opens a
connection of its own and closes it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from langchain_core.tools import BaseTool

from taograph.tools.engines.sql_base import Database, SqlError, details_text, schema_text, table_text
from taograph.tools.policy import ToolExample, tool

_FORMS = (
    "write sqlite:///relative/path, sqlite:////absolute/path or postgresql://user:password@host:port/database "
    "(with signs such as @ : / # % in the password written as %40 %3A %2F %23 %25)"
)
_POSTGRES = ("postgresql", "postgres")
_POSTGRES_LIBRARIES = ("psycopg", "sqlglot")
_WAITING = 10.0

# What the tools return for a small database of a workshop; a test makes it and holds them to it.
_SCHEMA_EXAMPLE = ToolExample(
    question="What does the database know about repairs?",
    args={"table": "repairs"},
    observation=(
        "repairs (table, 4 rows)\n- id integer, key\n- bicycle_id integer, not null, → bicycles.id\n"
        "- day text, not null\n- cost numeric\nIndex on day"
    ),
    answer="It knows of 4 repairs: which bicycle each was for, its day and its cost.",
)
_QUERY_EXAMPLE = ToolExample(
    question="What did the repairs of each bicycle cost, the dearest first?",
    args={
        "query": (
            "SELECT b.name, sum(r.cost) AS total FROM repairs r JOIN bicycles b ON b.id = r.bicycle_id "
            "GROUP BY b.name ORDER BY total DESC"
        )
    },
    observation="name | total\nTandem | 120\nCargo bike | 45\n(2 rows)",
    answer="The repairs of the tandem cost 120, those of the cargo bike 45.",
)


def sql_tools(
    url: str, *, max_rows: int = 50, seconds: float = 10.0, allow_functions: Iterable[str] = ()
) -> list[BaseTool]:
    """The tools ``sql_schema`` and ``sql_query`` over a database, which they can only read.

    For PostgreSQL give a role that has no other rights than to read what may be read: what the role can see,
    a model can see.

    Args:
        url: ``sqlite:///path`` of a file that exists, or ``postgresql://user:password@host:port/database``. The
            password is never shown.
        max_rows: Rows of a result at most.
        seconds: Seconds a query may take before it is ended.
        allow_functions: Functions of PostgreSQL that may be called, as ``"schema.name"``, though they are not
            declared STABLE or IMMUTABLE.

    Raises:
        ValueError: The URL can't be read, the file is missing, or a library is; the message says the fix and
            shows nothing of the URL.
    """
    if max_rows < 1 or not seconds > 0:
        raise ValueError("max_rows and seconds must be above 0")
    database = _open(url, max_rows, float(seconds), frozenset(allow_functions))
    # A query is planned and then run, each within its time; a connection takes its time too.
    timeout = 2 * seconds + _WAITING

    @tool(effects="none", timeout=timeout, max_chars=None, trusted=False, examples=(_SCHEMA_EXAMPLE,))
    def sql_schema(table: str = "") -> str:
        """List the tables.

        Args:
            table: A table to tell everything of; with * for several, such as "order*". All tables in brief when absent.
        """
        wanted = table.strip()
        tables = database.tables(wanted)
        if wanted and not tables:
            raise SqlError(f"There is no table {wanted[:100]!r}. {_others(database, wanted)}")
        return details_text(tables) if wanted else schema_text(database.kind, tables)

    @tool(effects="none", timeout=timeout, max_chars=None, trusted=False, examples=(_QUERY_EXAMPLE,))
    def sql_query(query: str) -> str:
        """Query the database.

        Args:
            query: One SELECT, with all values written out.
        """
        return table_text(database.query(query))

    asked = f"the user's {database.kind} database"
    about_schema = (
        f"List the tables of {asked} with their columns, types and keys. Call it before the first query. "
        'Example: sql_schema(table="orders").'
    )
    about_query = (
        f"Ask {asked}, which can only be read, with one SELECT. {max_rows} rows are shown at most. "  # noqa: S608
        'Example: sql_query(query="SELECT status, count(*) FROM orders GROUP BY status").'
    )
    return [
        sql_schema.model_copy(update={"description": about_schema}),
        sql_query.model_copy(update={"description": about_query}),
    ]


def _open(url: str, max_rows: int, seconds: float, allowed: frozenset[str]) -> Database:
    scheme = _scheme(url)
    if scheme == "sqlite":
        from taograph.tools.engines.sql_sqlite import SqliteDatabase

        path = _sqlite_path(url)
        if not path.is_file():
            raise ValueError(f"there is no database file {path}: {_FORMS}")
        return SqliteDatabase(path.resolve(), max_rows, seconds)
    if scheme in _POSTGRES:
        if not all(map(find_spec, _POSTGRES_LIBRARIES)):
            raise ValueError("PostgreSQL is read with psycopg and sqlglot: pip install taograph[postgres]")
        from taograph.postgres_urls import check_url
        from taograph.tools.engines.sql_postgres import PostgresDatabase

        plain = f"postgresql://{url.partition('://')[2]}"
        check_url(plain)
        return PostgresDatabase(plain, max_rows, seconds, allowed)
    raise ValueError(f"the database URL can't be read: {_FORMS}")


def _scheme(url: str) -> str:
    """The scheme, without the driver that other libraries take there: ``postgresql+psycopg``."""
    return url.partition("://")[0].partition("+")[0].strip().lower() if "://" in url else ""


def _sqlite_path(url: str) -> Path:
    parts = urlsplit(url.strip())
    if parts.netloc or parts.query or parts.fragment or len(parts.path) < 2:
        raise ValueError(f"the database URL can't be read: {_FORMS}; a file is opened read-only as it is")
    path = unquote(parts.path)[1:]
    return Path(path).expanduser()


def _others(database: Database, wanted: str) -> str:
    names = [table.plain for table in database.tables()]
    lower = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(re.sub(r'[*"]', "", wanted).casefold(), lower, n=3)
    if near:
        return f"Near to it: {', '.join(lower[name] for name in near)}."
    return f"The tables are: {', '.join(names[:30])}{' …' if len(names) > 30 else ''}." if names else "There are none."
