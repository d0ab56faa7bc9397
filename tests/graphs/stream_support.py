"""The two ways to stream, and looking at events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from taograph import astream_steps, stream_steps

Streams = Callable[..., list[dict[str, Any]]]


def collect(graph: Any, given: Any, config: Any = None, **options: Any) -> list[dict[str, Any]]:
    return [dict(event) for event in stream_steps(graph, given, config, **options)]


def acollect(graph: Any, given: Any, config: Any = None, **options: Any) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        return [dict(event) async for event in astream_steps(graph, given, config, **options)]

    return asyncio.run(collect())


def kinds(events: list[dict[str, Any]], *, deltas: bool = False) -> list[str]:
    return [e["type"] for e in events if deltas or e["type"] != "thought_delta"]


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [e for e in events if e["type"] == kind]
