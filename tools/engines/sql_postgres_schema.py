"""The tables of a PostgreSQL database, from its catalogs: those that the role may read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import RawCursor

from taograph.tools.engines.sql_base import COUNTED_ROWS, Column, Table, rows_in_words, wanted_tables

_MOST_TABLES = 2000
_COUNTED_TABLES = 3

_TABLES = """
    SELECT c.oid,
        CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE quote_ident(n.nspname) || '.' END || quote_ident(c.relname),
        CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE n.nspname || '.' END || c.relname,
        c.relkind IN ('v', 'm'), c.reltuples::bigint
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
        AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
        AND has_schema_privilege(n.oid, 'USAGE')
        AND (has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT'))
    ORDER BY NOT pg_table_is_visible(c.oid), n.nspname, c.relname LIMIT $1
"""
_COLUMNS = """
    SELECT a.attrelid, a.attname, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attnotnull,
        COALESCE(a.attnum = ANY(k.conkey), false), pg_get_expr(d.adbin, d.adrelid),
        col_description(a.attrelid, a.attnum),
        (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
            FROM pg_catalog.pg_enum e WHERE e.enumtypid = a.atttypid)
    FROM pg_catalog.pg_attribute a
    LEFT JOIN pg_catalog.pg_constraint k ON k.conrelid = a.attrelid AND k.contype = 'p'
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
        AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
    ORDER BY a.attrelid, a.attnum
"""
_REFERENCES = """
    SELECT k.conrelid, a.attname, k.confrelid::regclass::text || '.' || quote_ident(b.attname)
    FROM pg_catalog.pg_constraint k
    CROSS JOIN LATERAL unnest(k.conkey, k.confkey) AS pair(here, there)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = pair.here
    JOIN pg_catalog.pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = pair.there
    WHERE k.contype = 'f' AND k.conrelid = ANY($1::oid[])
"""
_NOTES = """
    SELECT 'Comment: ' || obj_description($1, 'pg_class')
    UNION ALL SELECT regexp_replace(pg_get_indexdef(i.indexrelid), '^CREATE (UNIQUE )?INDEX.* USING', '\\1INDEX')
        FROM pg_catalog.pg_index i WHERE i.indrelid = $1
    UNION ALL SELECT 'Defined as: ' || regexp_replace(pg_get_viewdef($1), '\\s+', ' ', 'g')
        WHERE (SELECT relkind IN ('v', 'm') FROM pg_catalog.pg_class WHERE oid = $1)
"""


def read_tables(cursor: RawCursor[Any], wanted: str) -> list[Table]:
    """All tables and views in brief, or those that a name or a pattern with ``*`` means in full.

    Args:
        cursor: In a transaction that can only read.
        wanted: The name or pattern; empty for all.
    """
    listed = cursor.execute(_TABLES, [_MOST_TABLES]).fetchall()
    if wanted:
        names = set(wanted_tables(wanted, [row[2] for row in listed]))
        listed = [row for row in listed if row[2] in names]
    oids = [row[0] for row in listed]
    columns = _columns(cursor, oids, full=bool(wanted))
    notes = {oid: _notes(cursor, oid) for oid in oids} if wanted else {}
    # Counted last: one that takes too long breaks the transaction.
    counted = _counts(cursor, [(row[0], row[1]) for row in listed if row[4] <= 0]) if wanted else {}
    return [
        Table(
            name,
            plain,
            "view" if view else "table",
            counted.get(oid) or (f"about {estimate:,} rows" if estimate > 0 else ""),
            columns.get(oid, ()),
            notes.get(oid, ()),
        )
        for oid, name, plain, view, estimate in listed
    ]


def _columns(cursor: RawCursor[Any], oids: Sequence[int], *, full: bool) -> Mapping[int, Sequence[Column]]:
    targets = {(oid, column): f"→ {target}" for oid, column, target in cursor.execute(_REFERENCES, [oids]).fetchall()}
    columns: dict[int, list[Column]] = defaultdict(list)
    for row in cursor.execute(_COLUMNS, [oids]).fetchall():
        oid, plain, name, kind, required, key, default, comment, values = row
        told = ["key"] * key + ["not null"] * (required and not key)
        if (oid, plain) in targets:
            told.append(targets[oid, plain])
        details: list[str] = []
        if full:
            details += [f"one of {', '.join(map(repr, values))}"[:300]] if values else []
            details += [f"default {default}"[:100]] if default else []
            details += [f"({comment[:200]})"] if comment else []
        columns[oid].append(Column(name, kind, tuple(told), tuple(details)))
    return columns


def _notes(cursor: RawCursor[Any], oid: int) -> list[str]:
    return [str(text)[:1000] for (text,) in cursor.execute(_NOTES, [oid]).fetchall() if text]


def _counts(cursor: RawCursor[Any], tables: Sequence[tuple[int, str]]) -> Mapping[int, str]:
    counted: dict[int, str] = {}
    with suppress(psycopg.Error):
        for oid, name in tables[:_COUNTED_TABLES]:
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {COUNTED_ROWS + 1}) AS q"  # noqa: S608 - quoted
            found = cursor.execute(sql).fetchone()
            counted[oid] = rows_in_words(found[0]) if found else ""
    return counted
