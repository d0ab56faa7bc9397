"""What a step costs: over the endpoint, in the loop alone, and where that goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from parser_rivals import ROOT
from speed_agents import ALONE
from speed_session import (
    LANGCHAIN,
    OURS,
    PEERS,
    Part,
    Session,
    goals,
    in_turn,
    milliseconds,
    say,
    table,
)

sys.path.append(str(ROOT / "tests"))

from postgres_server import PostgresServer, Unavailable, running

STEPS = (10, 50, 200)
ROUNDS = {10: 5, 50: 3, 200: 2}
RUNS = {10: 3, 50: 1, 200: 1}
STORES = {"none": "none", "sqlite": "SQLite", "postgres": "PostgreSQL"}
WAYS = ("ainvoke", "invoke")
AGENTS = (OURS, *LANGCHAIN)
BELOW = 0.999
Figures = dict[str, dict[str, float]]
"""Number of steps → framework → milliseconds of CPU a step."""


def sizes(session: Session) -> tuple[int, ...]:
    return STEPS[:2] if session.quick else STEPS


def measure_endpoint(session: Session) -> dict[str, Any]:
    """All peers over the shared endpoint."""
    peers, found = str(session.file("peer.py")), {}
    with session.endpoint() as server, session.workers(PEERS) as workers:
        for steps in sizes(session):
            about = {"peers": peers, "url": server.url, "steps": steps, "runs": RUNS[steps]}

            def way(name: str, about: dict[str, Any] = about) -> Callable[[], float]:
                return lambda: float(workers[name].ask("endpoint", **about)["ms"])

            found[str(steps)] = in_turn({name: way(name) for name in PEERS}, session.rounds(ROUNDS[steps]))
            say(f"  {steps} steps: " + ", ".join(f"{name} {ms:.2f}" for name, ms in found[str(steps)].items()))
    return {"ms": found}


def tables_endpoint(found: dict[str, Any]) -> str:
    """Milliseconds, and the goals."""
    ms: Figures = found["ms"]
    last = max(ms, key=int)
    rows = [
        [name, *(milliseconds(ms[steps][name]) for steps in ms), f"{ms[last][name] / ms[last][OURS]:.1f}"]
        for name in ms[last]
    ]
    text = table(["CPU ms a step", *(f"{steps} steps" for steps in ms), f"times ours at {last}"], rows)
    few, wanted = ms["10"], []
    wanted.append(("10 steps, of create_agent's", few[OURS] / few["create_agent"], BELOW))
    if "200" in ms:
        long = ms["200"]
        wanted += [
            (f"200 steps, of {name}'s", long[OURS] / long[name], 1 / 8) for name in ("create_agent", "raw_openai_loop")
        ]
        wanted.append(("200 steps, of our own at 10", long[OURS] / few[OURS], 2.0))
    return text + "\n\n" + goals(wanted)


def measure_loop(session: Session) -> dict[str, Any]:
    """LangGraph's agents with a scripted model, by kind of store and way to run."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        workers = stack.enter_context(session.workers((*AGENTS, ALONE)))
        stores = ["none", "sqlite"]
        databases: dict[str, str] = {}
        try:
            server = stack.enter_context(running())
        except Unavailable as reason:
            say(f"  no PostgreSQL: {reason}")
        else:
            stores.append("postgres")
            databases = {name: database(server, name) for name in AGENTS}
        for store in stores:
            for way in WAYS:
                for steps in sizes(session):

                    def once(
                        name: str, store: str = store, way: str = way, steps: int = steps, runs: int = RUNS[steps]
                    ) -> Callable[[], float]:
                        about = {"way": way, "store": store, "url": databases.get(name, ""), "steps": steps}
                        return lambda: float(workers[name].ask("loop", **about, runs=runs)["ms"])

                    names = (*AGENTS, ALONE) if store == "none" else AGENTS
                    least = in_turn({name: once(name) for name in names}, session.rounds(ROUNDS[steps]))
                    found.setdefault(store, {}).setdefault(way, {})[str(steps)] = least
                say(f"  {STORES[store]}, {way}: {found[store][way]}")
    return {"ms": found}


def database(server: PostgresServer, name: str) -> str:
    """The URL of a new database."""
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(database=name)


def tables_loop(found: dict[str, Any]) -> str:
    """Milliseconds, and the goals."""
    rows, wanted = [], []
    for store, ways in found["ms"].items():
        for way, ms in ways.items():
            rows += [
                [f"{STORES[store]}, `{way}`: {name}", *(milliseconds(ms[steps][name]) for steps in ms)]
                for name in ms["10"]
            ]
            for steps, one in ms.items():
                ratio = max(one[OURS] / one[name] for name in LANGCHAIN)
                most = 0.5 if steps == "200" else BELOW
                wanted.append((f"{STORES[store]}, `{way}`, {steps} steps, of the better of the two", ratio, most))
    head = ["Store, way: CPU ms a step", *(f"{steps} steps" for steps in next(iter(ms for ms in [ms])))]
    return table(head, rows) + "\n\n" + goals(wanted)


def measure_profile(session: Session) -> dict[str, Any]:
    """Ours and create_agent, over the endpoint and with a scripted model."""
    found: dict[str, Any] = {}
    names = (OURS, "create_agent")
    with session.endpoint() as server, session.workers(names) as workers:
        for where, url in (("the endpoint", server.url), ("a scripted model", "")):
            for steps in (10, 50) if session.quick else (10, 200):
                for name in names:
                    runs = max(1, 60 // steps)
                    answer = workers[name].ask("profile", steps=steps, url=url, runs=runs)
                    found.setdefault(where, {}).setdefault(str(steps), {})[name] = answer
                say(f"  {where}, {steps} steps")
    return found


def tables_profile(found: dict[str, Any]) -> str:
    """Shares of own time."""
    text = []
    for where, by_steps in found.items():
        columns = [(name, steps, one) for steps, named in by_steps.items() for name, one in named.items()]
        shares = [
            {group: ms / sum(one["groups"].values()) for group, ms in one["groups"].items()} for _, _, one in columns
        ]
        groups = sorted({g for one in shares for g in one}, key=lambda g: -max(one.get(g, 0.0) for one in shares))
        rows = [
            [group, *(f"{one.get(group, 0.0):.0%}" if one.get(group, 0.0) >= 0.005 else "" for one in shares)]
            for group in groups
            if max(one.get(group, 0.0) for one in shares) >= 0.01
        ]
        rows.insert(0, ["CPU ms a step", *(milliseconds(one["ms"]) for _, _, one in columns)])
        text.append(table([f"With {where}", *(f"{name}, {steps} steps" for name, steps, _ in columns)], rows))
    return "\n\n".join(text)


PARTS = (
    Part("endpoint", measure_endpoint, tables_endpoint),
    Part("loop", measure_loop, tables_loop),
    Part("profile", measure_profile, tables_profile),
)
