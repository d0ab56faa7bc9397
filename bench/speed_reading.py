"""How a stream of tokens is read: how soon, how many a second. Runs in the environment of the framework."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from speed_agents import config, lookup, made, over_http


async def pieces(name: str, agent: Any, tokens: int, rate: int) -> AsyncIterator[str]:
    """The text of a run as it comes: thoughts of ours, messages of theirs."""
    question = {"messages": [("user", f"tokens={tokens} rate={rate}")]}
    if name == "taograph":
        from taograph import astream_steps

        async for event in astream_steps(agent, question, config()):
            if event["type"] == "thought_delta":
                yield event["text"]
        return
    async for piece, _ in agent.astream(question, config(), stream_mode="messages"):
        if text := piece.text:
            yield str(text)


async def first(name: str, url: str, runs: int) -> dict[str, Any]:
    """Milliseconds from the reply's first byte to the first piece of text, in runs one after the other."""
    agent = made(name, over_http(name, url), [lookup])
    took = []
    for _ in range(runs + 1):
        reading = pieces(name, agent, 3, 0)
        text = await anext(reading)
        took.append((time.monotonic_ns() - int(text.split()[0])) / 1e6)
        async for _ in reading:
            pass
    return {"least": min(took[1:]), "median": statistics.median(took[1:])}


async def stream(name: str, url: str, runs: int, tokens: int, rate: int) -> dict[str, Any]:
    """Runs at once, each with so many tokens at so many a second: how far behind what is read is, and the CPU."""
    agent = made(name, over_http(name, url), [lookup])
    async for _ in pieces(name, agent, 3, 0):
        pass
    behind: list[float] = []

    async def one() -> int:
        read = 0
        async for text in pieces(name, agent, tokens, rate):
            now = time.monotonic_ns()
            sent = text.split()
            behind.extend((now - int(stamp)) / 1e6 for stamp in sent)
            read += len(sent)
        return read

    clock, cpu = time.perf_counter(), time.process_time()
    done = await asyncio.gather(*(one() for _ in range(runs)))
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    if set(done) != {tokens}:
        raise RuntimeError(f"{tokens} tokens were sent to each, and read: {sorted(set(done))}")
    behind.sort()
    return {
        "events_per_second": len(behind) / clock,
        "cpu": cpu / clock,
        "ms_per_event": cpu / len(behind) * 1e3,
        "p50": statistics.median(behind),
        "p95": behind[int(len(behind) * 0.95)],
        "most": behind[-1],
    }
