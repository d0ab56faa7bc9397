"""HTTP connections of async model calls, which belong to the event loop that they were opened in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

import openai


class ClientOfEachLoop(openai.DefaultAsyncHttpxClient):
    """An HTTP client that is one client for each event loop, and is closed with it.

    A model object outlives the event loop of an ``asyncio.run``, and its open connections do not: with one
    client, the next loop's first request is sent (and paid) on a connection of the closed one, and lost with
    "Event loop is closed".
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._of_loop: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[openai.DefaultAsyncHttpxClient, AsyncGenerator[None]]
        ] = WeakKeyDictionary()

    async def send(self, request: Any, **options: Any) -> Any:
        """As the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._of_loop.get(loop)
        if found is None:
            # It reads certificates, which is no work for a loop.
            client = await asyncio.to_thread(openai.DefaultAsyncHttpxClient)
            closing = _closed_with_the_loop(client)
            await anext(closing)
            with self._lock:
                found = self._of_loop.setdefault(loop, (client, closing))
        return await found[0].send(request, **options)


async def _closed_with_the_loop(client: openai.DefaultAsyncHttpxClient) -> AsyncGenerator[None]:
    """A generator that a loop ends when it shuts down, as it does with all that are under way."""
    try:
        yield
    finally:
        await client.aclose()
