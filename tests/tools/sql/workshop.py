"""A database of a workshop, and short ways to ask it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from langchain_core.tools import BaseTool

from taograph.tools.sql import sql_tools

WORKSHOP = """
    CREATE TABLE bicycles (id integer PRIMARY KEY, name text NOT NULL);
    CREATE TABLE repairs (
        id integer PRIMARY KEY, bicycle_id integer NOT NULL REFERENCES bicycles (id), day text NOT NULL, cost numeric);
    CREATE INDEX repairs_day ON repairs (day);
    INSERT INTO bicycles VALUES (1, 'Tandem'), (2, 'Cargo bike');
    INSERT INTO repairs VALUES (1, 1, '2024-03-01', 80), (2, 2, '2024-03-02', 45), (3, 1, '2024-04-11', 40),
        (4, 2, '2024-04-12', NULL);
"""


ODDITIES = """
    CREATE TABLE "Odd Things" (id integer PRIMARY KEY, "order" text DEFAULT 'none', data blob, size real, made date);
    INSERT INTO "Odd Things" VALUES (1, 'DROP TABLE bicycles; --', x'00ff10', 0.1 + 0.2, '2024-02-29'),
        (2, NULL, zeroblob(5000), 5.0, ''), (3, 'NULL', NULL, 1e300, '北京 🚲'),
        (4, 'a|b' || char(10) || 'c', NULL, -0.5, NULL);
    CREATE VIEW cheap AS SELECT * FROM repairs WHERE cost < 50;
    CREATE VIEW broken AS SELECT * FROM gone;
    CREATE VIRTUAL TABLE notes USING fts5 (title, body);
    INSERT INTO notes VALUES ('Chains', 'A chain wants oil.');
    CREATE TABLE huge (value blob);
    INSERT INTO huge VALUES (zeroblob(1500000));
"""


def make(path: Path, *scripts: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript("".join(scripts))
    return path


def ask(path: Path, query: str, **options: float) -> str:
    return sql_tools(f"sqlite:///{path}", **options)[1].invoke({"query": query})  # type: ignore[arg-type]


def schema(path: Path, table: str = "") -> str:
    return sql_tools(f"sqlite:///{path}")[0].invoke({"table": table})


READER = "what-readers-say-7"

ON_POSTGRES = f"""
    CREATE TYPE state AS ENUM ('new', 'paid');
    CREATE TABLE bicycles (id int PRIMARY KEY, name text NOT NULL UNIQUE);
    CREATE TABLE repairs (
        id serial PRIMARY KEY, bicycle_id int NOT NULL REFERENCES bicycles (id), day date NOT NULL,
        cost numeric(10, 2), state state DEFAULT 'new', photo bytea, times timestamptz[], notes jsonb, done bool);
    COMMENT ON TABLE bicycles IS 'what is lent';
    COMMENT ON COLUMN bicycles.name IS 'as on its frame';
    INSERT INTO bicycles VALUES (1, 'Tandem'), (2, 'DROP TABLE bicycles; --'), (3, E'a|b\\nc'), (4, '北京 🚲');
    INSERT INTO repairs (bicycle_id, day, cost, state, photo, notes, done) VALUES
        (1, '2024-02-29', 80, 'paid', '\\x00ff', '{{"a": 1}}', true), (1, 'infinity', NULL, NULL, NULL, NULL, false),
        (2, '0044-03-15 BC', 12345678.12, 'new', NULL, NULL, NULL);
    CREATE VIEW cheap AS SELECT id FROM repairs WHERE cost < 100;
    CREATE SCHEMA other;
    CREATE TABLE other."Odd Things" ("order" text);
    CREATE FUNCTION double(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
    CREATE FUNCTION touch() RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION peek(bicycles) RETURNS text LANGUAGE plpgsql AS
        $$ BEGIN RETURN pg_read_file('/etc/hostname'); END $$;
    CREATE FUNCTION trap() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
    CREATE FUNCTION lies() RETURNS int LANGUAGE plpgsql STABLE AS
        $$ BEGIN EXECUTE 'DELETE FROM repairs'; RETURN 1; END $$;
    CREATE ROLE reader LOGIN PASSWORD '{READER}';
    GRANT SELECT ON bicycles TO reader;
    GRANT SELECT (id, day) ON repairs TO reader;
"""


def ask_tool(tool: BaseTool, text: str) -> str:
    return tool.invoke({"query": text})  # type: ignore[no-any-return]
