"""How soon a process is ready, and what a long run keeps in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parser_rivals import ROOT
from speed_session import OURS, Part, Session, goals, say, table

sys.path.append(str(ROOT / "tests"))

from fake_openai_server import FakeOpenAI, Reply

IMPORTS = {
    "create_agent": "from langchain.agents import create_agent; from langchain_openai import ChatOpenAI",
    "create_react_agent": "from langgraph.prebuilt import create_react_agent; from langchain_openai import ChatOpenAI",
    "raw_openai_loop": "from openai import AsyncOpenAI",
    "pydantic_ai": "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
    "openai_agents": "from agents import Agent, Runner",
    "smolagents": "from smolagents import OpenAIModel, ToolCallingAgent",
    "llama_index": "from llama_index.core.agent.workflow import FunctionAgent; "
    "from llama_index.llms.openai_like import OpenAILike",
}
NOTHING = "Python itself"
STORES = {"none": "no store", "sqlite": "SQLite"}
Took = dict[str, float]
"""Seconds by the clock and of CPU."""


def run(command: list[str], **environment: str) -> Took:
    """Run a command to its end."""
    with tempfile.TemporaryFile() as said:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=tempfile.gettempdir(),
            env={**os.environ, **environment},
        )
        _, status, used = os.wait4(process.pid, 0)
        clock = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed: {said.read().decode()[-2000:]}")
    return {"clock": clock, "cpu": used.ru_utime + used.ru_stime}


def tao() -> list[str]:
    """Our command, of this environment."""
    path = Path(sys.executable).with_name("tao")
    return [str(path)] if path.exists() else [sys.executable, "-c", "from taograph.cli import main; main()"]


def first_request(home: str) -> Took:
    """``tao run`` against an endpoint: how long until it is asked, and the CPU of the whole run."""
    came: list[float] = []

    def reply(body: dict[str, Any]) -> Reply:
        came.append(time.perf_counter())
        return Reply("Paris.")

    with FakeOpenAI(default=reply) as server:
        begun = time.perf_counter()
        took = run([*tao(), "run", "--yes", "--model", f"{server.url}#fake", "Where?"], **homes(home))
    return {"clock": came[0] - begun, "cpu": took["cpu"]}


def homes(home: str) -> dict[str, str]:
    """Folders of a user who has nothing yet."""
    names = ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    return dict.fromkeys(names, home)


def measure_start(session: Session) -> dict[str, Any]:
    """Commands and imports, in turn."""

    def importing(name: str, line: str) -> Callable[[], Took]:
        return lambda: run([str(session.python(name)), "-c", line])

    with session.workers((OURS, *IMPORTS)) as workers:
        for worker in workers.values():
            worker.ask("where")  # it tells its versions
    with tempfile.TemporaryDirectory() as home:
        ways: dict[str, Callable[[], Took]] = {
            NOTHING: importing(OURS, "pass"),
            "`import taograph`": importing(OURS, "import taograph"),
            "`from taograph import create_react_graph`": importing(OURS, "from taograph import create_react_graph"),
            "`tao --help`": lambda: run([*tao(), "--help"]),
            "`tao run`, until it asks": lambda: first_request(home),
        }
        ways |= {f"import of {name}": importing(name, line) for name, line in IMPORTS.items()}
        for way in ways.values():
            way()  # makes the byte code
        found: dict[str, Took] = {}
        for round_ in range(session.rounds(10)):
            for name, way in ways.items():
                took, before = way(), found.get(name)
                found[name] = {key: min(value, (before or took)[key]) for key, value in took.items()}
            say(f"  round {round_ + 1}")
    return found


def tables_start(found: dict[str, Any]) -> str:
    """Seconds, and the goals."""
    rows = [[name, f"{one['clock']:.2f}", f"{one['cpu']:.2f}"] for name, one in found.items()]
    rivals = [found[f"import of {name}"]["clock"] for name in ("create_agent", "create_react_agent")]
    wanted = [
        (f"{name}, of the import of create_agent", found[name]["clock"] / rivals[0], 1.0)
        for name in found
        if "tao" in name
    ]
    return table(["Start", "seconds", "CPU seconds"], rows) + "\n\n" + goals(wanted)


def measure_memory(session: Session) -> dict[str, Any]:
    """A long run, looked at on its way; exactly, and as the system sees it."""
    found: dict[str, Any] = {}
    for store in ("none", "sqlite"):
        for name in (OURS, "create_agent"):
            # With a store, create_agent writes the whole history in each step: 1,000 are gigabytes.
            steps = 200 if session.quick else 300 if store == "sqlite" and name != OURS else 1000
            one: dict[str, Any] = {}
            for exact in (True, False):
                with session.workers([name]) as workers:
                    about = {"store": store, "steps": steps, "every": steps // 10}
                    one["exact" if exact else "process"] = workers[name].ask("memory", exact=exact, **about)
            found.setdefault(store, {})[name] = one
            say(f"  {store}, {name}: {beyond(one)}")
    return found


def beyond(one: dict[str, Any]) -> dict[int, float]:
    """Kilobytes beside the messages, by step."""
    exact = one["exact"]
    return {int(step): kb - exact["messages"][step] for step, kb in exact["held"].items()}


def a_step(by_step: dict[int, float]) -> float:
    """By how much something grows with each step."""
    first, *_, last = by_step
    return (by_step[last] - by_step[first]) / (last - first)


def tables_memory(found: dict[str, Any]) -> str:
    """Kilobytes at some steps, and the goal."""
    rows, wanted = [], []
    langgraph = a_step(beyond(found["none"]["create_agent"]))
    for store, named in found.items():
        for name, one in named.items():
            rest, messages, process = (
                beyond(one),
                {int(step): kb for step, kb in one["exact"]["messages"].items()},
                {int(step): kb for step, kb in one["process"]["held"].items()},
            )
            first, *_, last = rest
            title = f"{STORES[store]}: {name}"
            cells = [f"{last:,}", *(f"{rest[step]:,.0f}" for step in (first, last)), f"{a_step(rest):.2f}"]
            rows.append([title, *cells, f"{a_step(messages):.2f}", f"{a_step(process):.2f}"])
            if name == OURS:
                grown = (a_step(rest) - langgraph) / a_step(messages)
                wanted.append(
                    (f"{STORES[store]}: our part of what is beside them, a step, of the messages", grown, 0.1)
                )
    head = [
        "Beside the messages, kB",
        "steps",
        "at a tenth of them",
        "at the last",
        "a step",
        "the messages, a step",
        "the process, a step",
    ]
    return table(head, rows) + "\n\n" + goals(wanted)


PARTS = (Part("start", measure_start, tables_start), Part("memory", measure_memory, tables_memory))
