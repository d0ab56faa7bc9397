"""How much memory a process has, and what a long run keeps of it. Runs in the environment of the framework."""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
import types
from pathlib import Path
from typing import Any

from speed_agents import Scripted, aopened, asked, checked, config, made, options

_OBSERVATION = 2_000
_OF_THE_PROGRAM = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type(None), bool)


def resident() -> int:
    """Bytes of memory that this process has; where the system does not say, the most that it had."""
    try:
        return int(Path("/proc/self/statm").read_text("utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most * (1 if sys.platform == "darwin" else 1024)


async def memory(name: str, store: str, steps: int, every: int, exact: bool) -> dict[str, Any]:
    """What a long run holds, sampled after every so many steps.

    Args:
        name: The framework.
        store: "none" or "sqlite".
        steps: Of the run; each has an observation of 2 kB of its own.
        every: After how many of them memory is looked at.
        exact: Count what Python allocated, and the messages apart; else the memory of the process.

    Returns:
        Kilobytes by step: "held", and where they are counted exactly "messages".
    """
    held: dict[int, float] = {}

    async def lookup(key: str) -> str:
        """Look a record up by key.

        Args:
            key: the key of the record.
        """
        step = int(key[1:].split("_", maxsplit=1)[0])
        if step % every == 0 and step:
            gc.collect()
            held[step] = (tracemalloc.get_traced_memory()[0] if exact else resident()) / 1e3
        return f"record {key}: " + f"{step:08d}" * (_OBSERVATION // 8)

    async with aopened(name, store, "") as saver:
        for count in (3, steps + 1):
            if exact and count > 3:
                gc.collect()
                tracemalloc.start()
            agent = made(name, Scripted(steps=count), [lookup], saver)
            out = checked(await agent.ainvoke(asked(count), config(), **options(saver)), count)
    found: dict[str, Any] = {"held": held}
    if exact:
        found["messages"] = {step: _size(out["messages"][: 2 * step + 1]) for step in held}
    return found


def _size(messages: list[Any]) -> float:
    """Kilobytes that messages take, with all that they alone refer to."""
    seen: dict[int, Any] = {}
    waiting: list[Any] = list(messages)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _OF_THE_PROGRAM):
            continue
        seen[id(one)] = one
        waiting += gc.get_referents(one)
    return sum(sys.getsizeof(one) for one in seen.values()) / 1e3
