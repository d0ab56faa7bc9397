"""Runs that are timed: the loop alone, many at once, slow tools. Runs in the environment of the framework."""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from speed_agents import (
    ENDED,
    Scripted,
    aopened,
    asked,
    checked,
    config,
    lookup,
    made,
    opened,
    options,
    over_http,
    slow,
)
from speed_memory import resident
from speed_meter import used

_SAMPLE_SECONDS = 0.05
_WARM_STEPS = 5


def loop(
    name: str, runner: asyncio.Runner, way: str, store: str, url: str, steps: int, runs: int = 1
) -> dict[str, Any]:
    """Runs with a scripted model, one after the other: milliseconds of CPU a step, of this process."""
    if way == "ainvoke":
        return {"ms": runner.run(_aloop(name, store, url, steps, runs))}
    with opened(name, store, url) as saver:
        warm, agent = (made(name, Scripted(steps=n), [lookup], saver) for n in (_WARM_STEPS, steps))
        warm.invoke(asked(_WARM_STEPS), config(), **options(saver))
        gc.collect()
        begun = used()
        for _ in range(runs):
            checked(agent.invoke(asked(steps), config(), **options(saver)), steps)
        return {"ms": _a_step(begun, steps, runs)}


async def _aloop(name: str, store: str, url: str, steps: int, runs: int) -> float:
    async with aopened(name, store, url) as saver:
        warm, agent = (made(name, Scripted(steps=n), [lookup], saver) for n in (_WARM_STEPS, steps))
        await warm.ainvoke(asked(_WARM_STEPS), config(), **options(saver))
        gc.collect()
        begun = used()
        for _ in range(runs):
            checked(await agent.ainvoke(asked(steps), config(), **options(saver)), steps)
        return _a_step(begun, steps, runs)


def _a_step(begun: float, steps: int, runs: int) -> float:
    return (used() - begun) / runs / (steps + 1) * 1e3


async def many(name: str, url: str, runs: int, steps: int, threshold: int | None = None) -> dict[str, Any]:
    """Runs at once: how long each takes and all do, the CPU, the memory at most while they are under way.

    Args:
        name: The framework.
        url: The endpoint.
        runs: How many at once.
        steps: Of each.
        threshold: Of Python's garbage collector, where it is not to be Python's own.
    """
    if threshold is not None:
        gc.set_threshold(threshold)
    agent = made(name, over_http(name, url), [lookup])
    checked(await agent.ainvoke(asked(_WARM_STEPS), config()), _WARM_STEPS)
    gc.collect()
    before, most = resident(), [0]

    async def watch() -> None:
        while True:
            most[0] = max(most[0], resident())
            await asyncio.sleep(_SAMPLE_SECONDS)

    async def one() -> float:
        begun = time.perf_counter()
        out = await agent.ainvoke(asked(steps), config())
        seconds = time.perf_counter() - begun
        checked(out, steps)
        return seconds

    watching = asyncio.create_task(watch())
    clock, cpu = time.perf_counter(), time.process_time()
    done = await asyncio.gather(*(one() for _ in range(runs)), return_exceptions=True)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    watching.cancel()
    took = sorted(one for one in done if isinstance(one, float))
    failed = [repr(one)[:300] for one in done if not isinstance(one, float)]
    return {
        "answers": len(took),
        "lost": failed[0] if failed else None,
        "steps_per_second": len(took) * (steps + 1) / clock,
        "p50": statistics.median(took) if took else None,
        "p95": took[int(len(took) * 0.95)] if took else None,
        "seconds": clock,
        "cpu": cpu,
        "kb_per_run": (most[0] - before) / 1e3 / runs,
    }


def tools(
    name: str, runner: asyncio.Runner, kind: str, calls: int, runs: int, way: str, seconds: float
) -> dict[str, Any]:
    """Runs at once whose model makes some calls of a slow tool in its one turn: seconds by the clock."""
    agent = made(name, Scripted(steps=1, width=calls), [slow(kind, seconds)])

    async def at_once() -> list[Any]:
        return await asyncio.gather(*(agent.ainvoke(asked(1), config()) for _ in range(runs)))

    begun = time.perf_counter()
    if way == "ainvoke":
        outs = runner.run(at_once())
    else:
        with ThreadPoolExecutor(runs) as pool:
            outs = list(pool.map(lambda _: agent.invoke(asked(1), config()), range(runs)))
    took = time.perf_counter() - begun
    for out in outs:
        checked(out, calls)
    return {"seconds": took}


def traced(name: str, steps: int) -> dict[str, Any]:
    """A run of ours that is recorded in an SQLite file: milliseconds of CPU a step."""
    from taograph import trace

    with tempfile.TemporaryDirectory() as folder:
        agent = trace.record(made(name, Scripted(steps=steps), [lookup]), to=f"sqlite:///{folder}/a.db", redactor=None)
        begun = used()
        out = agent.invoke(asked(steps), config())
        if out["answer"] != ENDED:
            raise RuntimeError(f"not the answer: {out['answer']!r}")
        for writer in list(trace._writers.values()):
            writer.close()
        return {"ms": _a_step(begun, steps, 1)}
