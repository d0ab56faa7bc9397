"""What the trace costs a run: `python bench/trace.py [--write]`.

A scripted model calls a tool in every step, whose results are about 2 kB of text. The same run without a trace and
with one, in turn, so that the noise of the machine meets both; medians of a few pairs. What a step costs is CPU of the
process and time by the clock, for a run of 10 steps and for one of 100. Needs no model; PostgreSQL is started as the
tests start theirs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from langchain_core.messages import AIMessage, BaseMessage
from parser import machine, write
from postgres_server import Unavailable, running

from taograph import Limits, create_react_graph, tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace.redaction import Redactor

PACKAGES = ("langgraph", "langchain-core", "taograph")
STEPS = (10, 100)
LINES = "Ada Sample wrote on 3 March that the lamps came late and that two of them were broken. Order 1042. " * 20


@tool(effects="none", trusted=True)
def search(query: str) -> str:
    """Search the letters.

    Args:
        query: What to look for.
    """
    return f"{query}: {LINES}"


def graph_of(steps: int) -> Any:
    """A run of so many steps."""

    def reply(messages: list[BaseMessage]) -> AIMessage:
        done = sum(message.type == "tool" for message in messages)
        if done == steps - 1:
            return AIMessage("Two lamps were broken.")
        return AIMessage(
            "I read on in the letters.", tool_calls=[call("search", {"query": f"n{done}"}, id=uuid4().hex)]
        )

    model = ScriptedModel(replies=[reply], repeat=True, usage=(100, 20))
    return create_react_graph(model, [search], limits=Limits(steps=None, seconds=None))


def once(graph: Any) -> tuple[float, float]:
    """Seconds of CPU and by the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    graph.invoke({"messages": [("user", "What was broken?")]}, {"recursion_limit": 10_000})
    return time.process_time() - cpu, time.perf_counter() - clock


def added(steps: int, to: str, pairs: int, **options: Any) -> tuple[float, float, float, float]:
    """Milliseconds a step without it, and what it adds, of CPU and by the clock."""
    plain = graph_of(steps)
    recorded = trace.record(plain, to=to, **options)
    once(plain), once(recorded)
    left, right = [], []
    for _ in range(pairs):
        left.append(once(plain))
        right.append(once(recorded))
    base = [statistics.median(values) / steps * 1e3 for values in zip(*left, strict=True)]
    both = [statistics.median(values) / steps * 1e3 for values in zip(*right, strict=True)]
    return base[0], both[0] - base[0], base[1], both[1] - base[1]


def main() -> None:
    """Measure, and show or write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks.md")
    parser.add_argument("--pairs", type=int, default=9)
    chosen = parser.parse_args()
    lines = [
        "| Recorded to | steps | CPU ms a step without | added | clock ms a step without | added |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stores: dict[str, tuple[str, dict[str, Any]]] = {
            "SQLite, secrets taken out": (f"sqlite:///{folder}/a.db", {"redactor": None}),
            "SQLite, personal data taken out too": (f"sqlite:///{folder}/b.db", {"redactor": Redactor().value}),
            "SQLite, without content": (f"sqlite:///{folder}/c.db", {"content": False}),
            "JSON lines, secrets taken out": (f"jsonl:{folder}/d", {"redactor": None}),
        }
        try:
            server = stack.enter_context(running())
        except Unavailable as reason:
            print(f"no PostgreSQL: {reason}", file=sys.stderr)
        else:
            stores["PostgreSQL, secrets taken out"] = (server.url(), {"redactor": None})
        for name, (to, options) in stores.items():
            for steps in STEPS:
                figures = added(steps, to, chosen.pairs, **options)
                lines.append(f"| {name} | {steps} | " + " | ".join(f"{one:.2f}" for one in figures) + " |")
                print(lines[-1], flush=True)
        for writer in list(trace._writers.values()):
            writer.close()
    text = machine({name: version(name) for name in PACKAGES}) + "\n" + "\n".join(lines)
    if chosen.write:
        write("trace", text)


if __name__ == "__main__":
    main()
