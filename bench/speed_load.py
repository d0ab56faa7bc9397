"""Many runs at once, slow tools, streams of tokens."""

from __future__ import annotations

from typing import Any

from parser_rivals import HERE
from speed_session import LANGCHAIN, OURS, Part, Session, goals, milliseconds, say, served, table

AGENTS = (OURS, *LANGCHAIN)
LATENCY = 0.05
# Python's collector looks at all there is after every 700 new objects or so; this is a usual setting for servers.
COLLECTS = 20_000
TOOL_SECONDS = 1.0
CASES = {
    "five `async def`, one turn, `ainvoke`": {"kind": "async", "calls": 5, "runs": 1, "way": "ainvoke"},
    "five `def`, one turn, `ainvoke`": {"kind": "def", "calls": 5, "runs": 1, "way": "ainvoke"},
    "five `def`, one turn, `invoke`": {"kind": "def", "calls": 5, "runs": 1, "way": "invoke"},
    "ten runs, a `def` each, `ainvoke`": {"kind": "def", "calls": 1, "runs": 10, "way": "ainvoke"},
    "ten runs, a `def` each, `invoke` in threads": {"kind": "def", "calls": 1, "runs": 10, "way": "invoke"},
}
PACES = {
    "one run, 50 a second": {"runs": 1, "tokens": 100, "rate": 50},
    "50 runs, 10 a second each": {"runs": 50, "tokens": 80, "rate": 10},
    "50 runs, 500 a second each": {"runs": 50, "tokens": 200, "rate": 500},
}


def measure_many(session: Session) -> dict[str, Any]:
    """200 runs of 10 steps, then 1,000 of 5, each in a process of its own."""
    few, lots = (20, 50) if session.quick else (200, 1000)
    found: dict[str, Any] = {"runs": few, "lots": lots, "load": {}, "crowd": {}}
    with session.endpoint(LATENCY) as server:

        def once(name: str, runs: int, steps: int, threshold: int | None = None) -> dict[str, Any]:
            used = server.cpu()
            with session.workers([name]) as workers:
                one = workers[name].ask("many", url=server.url, runs=runs, steps=steps, threshold=threshold)
            one["server"] = (server.cpu() - used) / one["seconds"]
            say(f"  {name}, {runs} runs: {one}")
            return one

        for _ in range(session.rounds(2)):
            for name, threshold in [*((name, None) for name in AGENTS), *((name, COLLECTS) for name in AGENTS[:2])]:
                one = once(name, few, 10, threshold)
                shown = name if threshold is None else f"{name}, collector at {threshold:,}"
                before = found["load"].get(shown)
                if before is None or one["steps_per_second"] > before["steps_per_second"]:
                    found["load"][shown] = one
        for name in AGENTS[:2]:
            found["crowd"][name] = once(name, lots, 5)
    return found


def tables_many(found: dict[str, Any]) -> str:
    """Throughput, how long runs take, memory, and the goals."""
    load, crowd = found["load"], found["crowd"]
    rows = [
        [
            name,
            f"{one['steps_per_second']:,.0f}",
            f"{one['p50']:.2f}",
            f"{one['p95']:.2f}",
            milliseconds(one["cpu"] / found["runs"] / 11 * 1e3),
            f"{one['cpu'] / one['seconds']:.0%}",
            f"{one['server']:.0%}",
        ]
        for name, one in load.items()
    ]
    title = f"{found['runs']} runs of 10 steps at once"
    text = table([title, "steps a second", "p50, s", "p95, s", "CPU ms a step", "of a core", "endpoint's core"], rows)
    rows = [
        [
            name,
            f"{one['answers']:,} of {found['lots']:,}" + (f" ({one['lost']})" if one["lost"] else ""),
            f"{one['kb_per_run']:.0f}",
            milliseconds(one["seconds"]),
        ]
        for name, one in crowd.items()
    ]
    text += "\n\n" + table([f"{found['lots']:,} runs of 5 steps at once", "answers", "kB a run", "seconds"], rows)
    ours, theirs = load[OURS], load["create_agent"]
    wanted = [
        ("create_agent's throughput, of ours", theirs["steps_per_second"] / ours["steps_per_second"], 0.5),
        ("our p95, of create_agent's", ours["p95"] / theirs["p95"], 0.5),
        (f"runs lost, of {found['lots']:,}", float(found["lots"] - crowd[OURS]["answers"]), 0.0),
    ]
    return text + "\n\n" + goals(wanted)


def measure_tools(session: Session) -> dict[str, Any]:
    """Calls of a tool that takes a second."""
    found: dict[str, Any] = {}
    with session.workers(AGENTS) as workers:
        for name, worker in workers.items():
            worker.ask("tools", **CASES["five `async def`, one turn, `ainvoke`"], seconds=0.01)  # loads what is needed
            for case, about in CASES.items():
                found.setdefault(case, {})[name] = worker.ask("tools", **about, seconds=TOOL_SECONDS)["seconds"]
            say(f"  {name}")
    return found


def tables_tools(found: dict[str, Any]) -> str:
    """Seconds by the clock."""
    rows = [[case, *(f"{by[name]:.2f}" for name in AGENTS)] for case, by in found.items()]
    text = table(["Tools of 1 s: seconds", *AGENTS], rows)
    return text + "\n\n" + goals([("the slowest of ours, seconds", max(by[OURS] for by in found.values()), 1.25)])


def measure_stream(session: Session) -> dict[str, Any]:
    """Tokens as they come."""
    names = AGENTS[:2]
    found: dict[str, Any] = {"first": {}, "paced": {}}
    with served(HERE / "speed_sse.py") as server, session.workers(names) as workers:
        for _ in range(session.rounds(3)):
            for name in names:
                one = workers[name].ask("first", url=server.url, runs=10)
                before = found["first"].get(name, one)
                found["first"][name] = {which: min(one[which], before[which]) for which in one}
        say(f"  first: {found['first']}")
        for pace, about in PACES.items():
            for name in names:
                used = server.cpu()
                one = workers[name].ask("stream", url=server.url, **about)
                seconds = about["runs"] * about["tokens"] / one["events_per_second"]
                one["server"] = (server.cpu() - used) / seconds
                found["paced"].setdefault(pace, {})[name] = one
            say(f"  {pace}: {found['paced'][pace]}")
    return found


def tables_stream(found: dict[str, Any]) -> str:
    """How soon, how far behind, how much of a core."""
    rows = [[name, f"{one['least']:.2f}", f"{one['median']:.2f}"] for name, one in found["first"].items()]
    text = table(["First byte to first event, ms", "least", "median"], rows)
    rows = [
        [
            f"{pace}: {name}",
            f"{one['events_per_second']:,.0f}",
            milliseconds(one["p50"]),
            milliseconds(one["p95"]),
            f"{one['cpu']:.0%}",
            f"{one['ms_per_event']:.2f}",
            f"{one['server']:.0%}",
        ]
        for pace, by in found["paced"].items()
        for name, one in by.items()
    ]
    head = ["Tokens", "events a second", "behind, p50 ms", "p95 ms", "of a core", "CPU ms an event", "endpoint's core"]
    return text + "\n\n" + table(head, rows)


PARTS = (
    Part("many", measure_many, tables_many),
    Part("tools", measure_tools, tables_tools),
    Part("stream", measure_stream, tables_stream),
)
