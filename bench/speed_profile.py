"""Where the time of a step goes, by package. Runs in the environment of the framework."""

from __future__ import annotations

import asyncio
import cProfile
import importlib.util
import pstats
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from speed_agents import Scripted, asked, checked, config, lookup, made, over_http

# The first that stands in a file's path, as a folder; what is none of these is the rest.
GROUPS = {
    "langgraph": ("langgraph",),
    "langchain-core": ("langchain_core",),
    "langchain": ("langchain",),
    "langchain-openai": ("langchain_openai",),
    "langsmith": ("langsmith",),
    "openai": ("openai",),
    "httpx, httpcore, h11": ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio", "sniffio"),
    "pydantic": ("pydantic", "pydantic_core", "typing_inspection"),
    "asyncio, selectors, threads": ("asyncio", "selectors.py", "concurrent", "threading.py", "queue.py", "socket.py"),
    "json": ("json", "orjson"),
    "benchmark": ("speed_agents.py", "speed_profile.py"),
}
REST = "rest of Python"
_DEEPEST = 50


def profile(name: str, runner: asyncio.Runner, steps: int, url: str, runs: int) -> dict[str, Any]:
    """Milliseconds of a step by package.

    Args:
        name: The framework.
        runner: The event loop.
        steps: Of a run.
        url: The endpoint; empty: a scripted model.
        runs: How many.

    Returns:
        "groups" as the profiler has it, and "ms", the CPU of the same runs without it.
    """
    agent = made(name, over_http(name, url) if url else Scripted(steps=steps), [lookup])

    async def go() -> None:
        for _ in range(runs):
            checked(await agent.ainvoke(asked(steps), config()), steps)

    runner.run(go())
    begun = time.process_time()
    runner.run(go())
    plain = (time.process_time() - begun) / runs / (steps + 1) * 1e3
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    try:
        runner.run(go())
    finally:
        profiler.disable()
    taken = by_group(pstats.Stats(profiler), ours())
    return {"ms": plain, "groups": {group: t / runs / (steps + 1) * 1e3 for group, t in taken.items()}}


def ours() -> tuple[str, str]:
    """The folders of our graphs and of the rest of our package; empty where it is not there."""
    spec = importlib.util.find_spec("taograph")
    if spec is None or spec.origin is None:
        return "", ""
    graphs = importlib.util.find_spec("taograph.graphs")
    return str(Path(graphs.origin).parent) if graphs and graphs.origin else "", str(Path(spec.origin).parent)


def by_group(stats: pstats.Stats, folders: tuple[str, str]) -> dict[str, float]:
    """Seconds of own time. What is of no group, as most of the standard library, counts for who calls it."""
    found: Any = stats
    group = {function: group_of(function[0], folders) for function in found.stats}
    held = {function: about[2] for function, about in found.stats.items()}
    for _ in range(_DEEPEST):
        moved: dict[Any, float] = defaultdict(float)
        for function, seconds in held.items():
            callers = {one: about for one, about in found.stats[function][4].items() if one != function}
            whole = sum(about[3] for about in callers.values())
            if group[function] != REST or not whole:
                moved[function] += seconds
                continue
            for one, about in callers.items():
                moved[one] += seconds * about[3] / whole
        held = moved
    taken: dict[str, float] = defaultdict(float)
    for function, seconds in held.items():
        taken[group[function]] += seconds
    return dict(taken)


def group_of(file: str, folders: tuple[str, str]) -> str:
    """The group of a source file."""
    for folder, group in zip(folders, ("taograph.graphs", "taograph, the rest"), strict=True):
        if folder and file.startswith(folder + "/"):
            return group
    parts = file.replace("\\", "/").split("/")
    inner = parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else parts
    for group, names in GROUPS.items():
        if any(name in inner for name in names):
            return group
    return REST
