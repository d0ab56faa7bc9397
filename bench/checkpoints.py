"""What a long thread costs to keep: bytes and seconds by turns, on SQLite and PostgreSQL, beside create_agent.

    python bench/checkpoints.py                    ours and LangChain's create_agent with LangGraph's own savers
    python bench/checkpoints.py --turns 50 200     fewer turns
    python bench/checkpoints.py --write            into docs/benchmarks.md

A turn is a question, a call of a tool, its result and an answer: 4 messages, about 2.2 kB of text, which is taken
from Python's reference (the same text over and over would shrink where a database compresses it). The model is
scripted. The PostgreSQL server is started for the measurement, as the tests start theirs. A measurement ends when
the database is larger than ``--most`` MB. Times are by the clock and of the process's CPU; what the PostgreSQL server
computes is only in the first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from langchain_core.messages import AIMessage, BaseMessage
from parser import machine, write
from postgres_server import PostgresServer, Unavailable, running

from taograph import checkpoints, create_react_graph, tool
from taograph.models import ScriptedModel, call

WHERE: Any = {"configurable": {"thread_id": "t"}}
TURNS = [50, 200, 400, 1000]
BACK = 500
PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain")
REFERENCE = "\n".join(topics.values())

Measure = Callable[[], float]
Time = tuple[float, float]
"""Seconds by the clock, and of CPU."""


def passage(number: int, length: int) -> str:
    """Some of the text, another for each number."""
    start = number * 7919 % (len(REFERENCE) - length)
    return REFERENCE[start : start + length]


@tool(effects="none")
def read_page(number: int) -> str:
    """Read a page.

    Args:
        number: Which.
    """
    return f"Page {number}.\n" + passage(number, 1000)


def model() -> ScriptedModel:
    """Asks for a page, then answers."""

    def reply(messages: list[BaseMessage]) -> Any:
        if messages[-1].type == "tool":
            return "It says:\n" + passage(-len(messages), 1000)
        return AIMessage("", tool_calls=[call("read_page", {"number": len(messages)})])

    return ScriptedModel(replies=[reply], repeat=True)


@dataclass
class Kept:
    """What one way to keep a thread took."""

    megabytes: dict[int, float] = field(default_factory=dict)
    taken: dict[int, Time] = field(default_factory=dict)
    load_last: dict[int, Time] = field(default_factory=dict)
    load_back: dict[int, Time] = field(default_factory=dict)
    ended: int | None = None


@contextmanager
def sqlite_ours() -> Iterator[tuple[Any, Measure]]:
    with tempfile.TemporaryDirectory() as folder, checkpoints.open(f"sqlite:///{folder}/a.db") as saver:
        yield saver, lambda: size_of_file(saver.conn, folder)  # type: ignore[attr-defined]


@contextmanager
def sqlite_theirs() -> Iterator[tuple[Any, Measure]]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/a.db") as saver:
        yield saver, lambda: size_of_file(saver.conn, folder)


def size_of_file(connection: Any, folder: str) -> float:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return os.path.getsize(f"{folder}/a.db") / 1e6


@contextmanager
def postgres_ours(server: PostgresServer) -> Iterator[tuple[Any, Measure]]:
    with checkpoints.open(database(server, "ours")) as saver:
        yield saver, lambda: size_of_database(server, "ours")


@contextmanager
def postgres_theirs(server: PostgresServer) -> Iterator[tuple[Any, Measure]]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(database(server, "theirs")) as saver:
        saver.setup()
        yield saver, lambda: size_of_database(server, "theirs")


def database(server: PostgresServer, name: str) -> str:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(database=name)


def size_of_database(server: PostgresServer, name: str) -> float:
    import psycopg

    with psycopg.connect(server.url(database=name), autocommit=True) as connection:
        found = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchone()
    return float(found[0]) / 1e6 if found else 0.0


def our_graph(saver: Any) -> Any:
    return create_react_graph(model(), [read_page], checkpointer=saver)


def their_graph(saver: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(model(), [read_page], checkpointer=saver)


def now() -> Time:
    return time.perf_counter(), time.process_time()


def since(begun: Time) -> Time:
    clock, cpu = now()
    return clock - begun[0], cpu - begun[1]


def keep(make: Callable[[Any], Any], saver: Any, size: Measure, turns: list[int], most: float) -> Kept:
    """Live a thread, and measure at some turns."""
    kept, graph, taken = Kept(), make(saver), (0.0, 0.0)
    for turn in range(1, turns[-1] + 1):
        question = {"messages": [("user", f"What does page {turn} say? {passage(turn, 150)}")]}
        begun = now()
        graph.invoke(question, WHERE, durability="sync")
        clock, cpu = since(begun)
        taken = taken[0] + clock, taken[1] + cpu
        if turn in turns:
            kept.megabytes[turn], kept.taken[turn] = size(), taken
            kept.load_last[turn] = load(graph, WHERE)
            if (earlier := back(saver)) is not None:
                kept.load_back[turn] = load(graph, earlier)
            print(f"  {turn} turns: {kept.megabytes[turn]:.1f} MB, {taken[0]:.1f} s", file=sys.stderr, flush=True)
        if turn % 10 == 0 and turn < turns[-1] and size() > most:
            kept.ended = turn
            print(f"  {turn} turns: more than {most:g} MB", file=sys.stderr, flush=True)
            break
    return kept


def load(graph: Any, config: Any) -> Time:
    """How long a state takes to read, the median of five."""
    times = []
    for _ in range(5):
        begun = now()
        graph.get_state(config)
        times.append(since(begun))
    clock, cpu = zip(*times, strict=True)
    return statistics.median(clock), statistics.median(cpu)


def back(saver: Any) -> Any:
    """The config of the state so many steps back, where there is one."""
    config = WHERE
    for _ in range(BACK):
        found = saver.get_tuple(config)
        if found is None or found.parent_config is None:
            return None
        config = found.parent_config
    return config


def table(kept: dict[str, Kept], turns: list[int]) -> str:
    """The figures; where a measurement was ended, a cell says at which turn."""

    def block(title: str, pick: Callable[[Kept], dict[int, Any]], shown: Callable[[Any], str]) -> list[str]:
        some = [turn for turn in turns if any(turn in pick(one) for one in kept.values())]
        head = [f"| {title} | " + " | ".join(f"{turn:,} turns" for turn in some) + " |", "|---|" + "---:|" * len(some)]
        rows = []
        for name, one in kept.items():
            cells = [shown(pick(one)[turn]) if turn in pick(one) else f"ended at {one.ended}" for turn in some]
            rows.append(f"| {name} | " + " | ".join(cells) + " |")
        return [*head, *rows, ""]

    return "\n".join(
        [
            *block("database", lambda one: one.megabytes, lambda size: f"{size:,.1f} MB"),
            *block("time of all turns", lambda one: one.taken, lambda one: f"{one[0]:,.1f} s ({one[1]:,.1f})"),
            *block("reading the last state", lambda one: one.load_last, milliseconds),
            *block(f"reading the state {BACK} steps back", lambda one: one.load_back, milliseconds),
        ]
    )


def milliseconds(one: Time) -> str:
    return f"{one[0] * 1000:,.0f} ms ({one[1] * 1000:,.0f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=TURNS)
    parser.add_argument("--most", type=float, default=10_000.0, metavar="MB", help="where a measurement ends (10,000)")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args()
    turns = sorted(options.turns)
    kept: dict[str, Kept] = {}
    with ExitStack() as stack:
        ways: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "taograph, SQLite": (our_graph, sqlite_ours()),
            "create_agent, SQLite": (their_graph, sqlite_theirs()),
        }
        try:
            server = stack.enter_context(running())
        except Unavailable as reason:
            print(f"no PostgreSQL: {reason}", file=sys.stderr)
        else:
            ways["taograph, PostgreSQL"] = our_graph, postgres_ours(server)
            ways["create_agent, PostgreSQL"] = their_graph, postgres_theirs(server)
        for name, (make, opened) in ways.items():
            print(name, file=sys.stderr, flush=True)
            with opened as (saver, size):
                kept[name] = keep(make, saver, size, turns, options.most)
    text = machine({name: version(name) for name in PACKAGES}) + "\n" + table(kept, turns)
    print(text)
    if options.write:
        write("checkpoints", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
