"""What the ledger costs for each call, on SQLite and PostgreSQL.

    python bench/ledger.py                  the tables
    python bench/ledger.py --write          into docs/benchmarks.md
    python bench/ledger.py --calls 50       fewer of each

Each operation alone, in an empty ledger and in one with ten thousand calls; and runs of a scripted model with a tool
that does nothing, with the ledger and without it. Times by the clock are medians: most of one is waiting for the
disk or the server. The PostgreSQL server is started for the measurement, as the tests start theirs: on this machine,
and without waiting for the disk.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from parser import machine, write
from postgres_server import Unavailable, running

from taograph import checkpoints, create_react_graph, tool
from taograph.checkpoints.ledger import CallKey, Ledger, hash_of
from taograph.graphs.loop import effects
from taograph.models import ScriptedModel, call

MANY = 10_000
STEPS = 10
PACKAGES = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres")
RESULT = {"message": ToolMessage("paid " * 100, tool_call_id="x"), "ran": True, "size": 500, "handle": None}
REPLY = AIMessage("I pay. " * 20, tool_calls=[call("pay", {"to": "Ann"}, id="x")])


@contextmanager
def databases() -> Iterator[dict[str, Any]]:
    """An open saver for each."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        found = {"SQLite": stack.enter_context(checkpoints.open(f"sqlite:///{folder}/runs.db"))}
        try:
            server = stack.enter_context(running())
        except Unavailable as reason:
            print(f"no PostgreSQL: {reason}", file=sys.stderr)
        else:
            found["PostgreSQL"] = stack.enter_context(checkpoints.open(server.url()))
        yield found


def timed(do: Callable[[], None], times: int) -> tuple[float, float]:
    """Milliseconds by the clock (median) and of CPU (mean)."""
    taken, begun = [], time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        do()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3, (time.process_time() - begun) / times * 1e3


def key() -> CallKey:
    return CallKey("t", "", "run", uuid4().hex, hash_of("pay", {"to": "Ann"}))


def operations(ledger: Ledger) -> dict[str, Callable[[], None]]:
    def effect() -> None:
        of = key()
        ledger.begin(of, "pay")
        ledger.finish(of, "pay", RESULT, keep=True)

    return {
        'a call with effects ("once", "idempotent")': effect,
        "a call that only reads": lambda: ledger.finish(key(), "look", RESULT, keep=False),
        "a reply of the model": lambda: ledger.finish(key(), "model", REPLY, keep=False, only=True),
        "a look after a restart": lambda: (ledger.find(key()), None)[1],
    }


def fill(saver: Any) -> None:
    """A ledger with calls of a long life."""
    ledger = Ledger(saver)
    ledger.begin(key(), "pay")
    kind, blob = saver.serde.dumps_typed(RESULT)
    with saver.transaction() as execute:
        for number in range(MANY):
            execute(
                "INSERT INTO taograph_calls (thread_id, checkpoint_ns, scope, call_id, args_hash, tool, state, tries, "
                "since, kept, type, result) VALUES (?, '', ?, ?, ?, 'pay', 'finished', 1, 0, 1, ?, ?)",
                *("t", f"run {number // 20}", f"call {number}", f"{number:064d}", kind, blob),
            )


def run_cost(saver: Any, effect: Any, runs: int) -> list[str]:
    """Milliseconds of CPU for each step of runs of ten, with the ledger and without it, in turn: their medians."""

    @tool(effects=effect)
    def pay(to: str) -> str:
        """Pay.

        Args:
            to: Whom.
        """
        return "paid"

    def reply(messages: list[BaseMessage]) -> Any:
        done = sum(message.type == "tool" for message in messages)
        if done == STEPS:
            return "Done."
        return AIMessage("", tool_calls=[call("pay", {"to": f"n{done}"}, id=uuid4().hex)])

    graph = create_react_graph(ScriptedModel(replies=[reply], repeat=True), [pay], checkpointer=saver)

    def once() -> float:
        given = {"messages": [("user", "Pay them all.")]}
        begun = time.process_time()
        graph.invoke(given, {"configurable": {"thread_id": uuid4().hex}}, durability="sync")
        return time.process_time() - begun

    once()
    kept, left_out = [], []
    for _ in range(runs):
        kept.append(once())
        with mock.patch.object(effects, "ledger_of", return_value=None):
            left_out.append(once())
    return [f"{statistics.median(taken) / STEPS * 1e3:.2f} ms" for taken in (kept, left_out)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300, help="of each operation")
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    options = parser.parse_args()
    alone = ["| for each, by the clock (CPU) | ledger | empty | with 10,000 calls |", "|---|---|---:|---:|"]
    whole = ["| a step of a run, CPU | database | with the ledger | without |", "|---|---|---:|---:|"]
    with databases() as savers:
        found: dict[tuple[str, str], list[str]] = {}
        for name, saver in savers.items():
            for effect in ("once", "none"):
                cells = run_cost(saver, effect, options.runs)
                whole.append(f'| a reply and a call with effects="{effect}" | {name} | {" | ".join(cells)} |')
            for full in (False, True):
                if full:
                    fill(saver)
                for what, do in operations(Ledger(saver)).items():
                    do()
                    found.setdefault((name, what), []).append(shown(timed(do, options.calls)))
            alone += [f"| {what} | {at} | {' | '.join(cells)} |" for (at, what), cells in found.items() if at == name]
    text = "\n".join([machine({p: version(p) for p in PACKAGES}), *alone, "", *whole])
    print(text)
    if options.write:
        write("ledger", text)
    return 0


def shown(taken: tuple[float, float]) -> str:
    clock, cpu = taken
    return f"{clock:.2f} ms ({cpu:.2f})"


if __name__ == "__main__":
    sys.exit(main())
