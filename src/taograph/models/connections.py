"""HTTP connections of async model calls, which belong to the event loop that they were opened in."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

import openai

try:
    from httpx2 import Limits, create_ssl_context  # what the openai package of today is made with
except ImportError:
    from httpx import Limits, create_ssl_context  # type: ignore[assignment]  # and that of yesterday

# As many stay open as may be open: of a thousand runs at once the package would close nine in ten connections
# between two steps.
_LIMITS: Any = Limits(max_connections=1000, max_keepalive_connections=1000)

_Connected = tuple[openai.DefaultAsyncHttpxClient, AsyncGenerator[None]]


class ClientOfEachLoop(openai.DefaultAsyncHttpxClient):
    """An HTTP client that is one client for each event loop, and is closed with it.

    A model object outlives the event loop of an ``asyncio.run``, and its open connections do not: with one
    client, the next loop's first request is sent (and paid) on a connection of the closed one, and lost with
    "Event loop is closed".
    """

    def __init__(self) -> None:
        # It sends nothing itself, so it needs no certificates, which take long to read.
        unused: Any = _Nowhere()
        super().__init__(transport=unused)
        self._lock = threading.Lock()
        self._certificates: ssl.SSLContext | None = None
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Connected] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[_Connected]] = WeakKeyDictionary()

    async def send(self, request: Any, **options: Any) -> Any:
        """As the client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._of_loop.get(loop)
            if found is None:
                opening = self._opening.get(loop) or loop.create_task(self._open(loop))
                self._opening[loop] = opening
        if found is None:  # one is opened for all that ask at once, whoever of them goes away
            found = await asyncio.shield(opening)
        return await found[0].send(request, **options)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _Connected:
        try:
            # It reads certificates, which is no work for a loop.
            client = await asyncio.to_thread(self._made)
            # Azure's client has one here, which takes its key off a request that is sent on to another host.
            client.event_hooks = self.event_hooks
            closing = _closed_with_the_loop(client)
            await anext(closing)
            with self._lock:
                self._of_loop[loop] = client, closing
        finally:
            with self._lock:
                self._opening.pop(loop, None)
        return client, closing

    def _made(self) -> openai.DefaultAsyncHttpxClient:
        if self._certificates is None:
            self._certificates = create_ssl_context()
        return openai.DefaultAsyncHttpxClient(verify=self._certificates, limits=_LIMITS)


class _Nowhere:
    """Where no request is sent."""

    async def aclose(self) -> None:
        pass


async def _closed_with_the_loop(client: openai.DefaultAsyncHttpxClient) -> AsyncGenerator[None]:
    """A generator that a loop ends when it shuts down, as it does with all that are under way."""
    try:
        yield
    finally:
        await client.aclose()
