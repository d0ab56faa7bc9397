"""HTTP connections of async model calls, which belong to the event loop that they were opened in."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from typing import Any

import openai

# What the openai package is made with: httpx2 today, httpx yesterday.
_BASES = [base.__module__.partition(".")[0] for base in openai.DefaultAsyncHttpxClient.__mro__]
_HTTP: Any = import_module(next(name for name in _BASES if name.startswith("httpx")))

# A client looks at all its idle connections, with a system call each, at every request.
_SIDE_BY_SIDE = 8
_CLIENTS = 125
# As many connections stay open as are in use: closed between two steps, each would be opened anew.
_LIMITS: Any = _HTTP.Limits(max_connections=1000, max_keepalive_connections=_SIDE_BY_SIDE)


class ClientOfEachLoop(openai.DefaultAsyncHttpxClient):
    """An HTTP client that is clients of its own for each event loop, which are closed with it.

    A model object outlives the event loop of an ``asyncio.run``, and its open connections do not: with one
    client, the next loop's first request is sent (and paid) on a connection of the closed one, and lost with
    "Event loop is closed".

    Args:
        proxy: The address of a proxy to go by; None for the environment's, if there is one.
    """

    def __init__(self, proxy: str | None = None) -> None:
        # It sends nothing itself, so it needs no certificates, which take long to read.
        unused: Any = _Nowhere()
        super().__init__(transport=unused)
        self._lock = threading.Lock()
        self._proxy = proxy
        self._certificates: ssl.SSLContext | None = None
        # No weak keys: a connection holds on to its loop, so what is kept for one keeps it until it is taken out.
        self._of_loop: dict[asyncio.AbstractEventLoop, _Lanes] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[_Lanes]] = {}

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
        return await found.send(request, **options)

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _Lanes:
        try:
            # It reads certificates, which is no work for a loop.
            lanes = _Lanes(self._made, await asyncio.to_thread(self._made))
            lanes.closing = self._closed_with(loop, lanes)
            await anext(lanes.closing)
        finally:
            with self._lock:
                self._opening.pop(loop, None)
        return lanes

    async def _closed_with(self, loop: asyncio.AbstractEventLoop, lanes: _Lanes) -> AsyncGenerator[None]:
        """A generator that a loop ends when it shuts down, as it does with all that are under way."""
        with self._lock:
            for kept in (self._of_loop, self._opening):
                for closed in [one for one in kept if one.is_closed()]:  # without having shut down
                    del kept[closed]
            self._of_loop[loop] = lanes
        try:
            yield
        finally:
            with self._lock:
                self._of_loop.pop(loop, None)
            for client in lanes.clients:
                await client.aclose()

    def _made(self) -> openai.DefaultAsyncHttpxClient:
        if self._certificates is None:
            self._certificates = _HTTP.create_ssl_context()
        client = openai.DefaultAsyncHttpxClient(verify=self._certificates, limits=_LIMITS, proxy=self._proxy)
        # Azure's client has one here, which takes its key off a request that is sent on to another host.
        client.event_hooks = self.event_hooks
        return client


class _Lanes:
    """The clients of one event loop: as many as it takes for none to have many requests at a time.

    Attributes:
        clients: They.
        closing: What closes them when the loop shuts down.
    """

    def __init__(
        self, make: Callable[[], openai.DefaultAsyncHttpxClient], first: openai.DefaultAsyncHttpxClient
    ) -> None:
        self._make, self.clients, self._busy = make, [first], [0]
        self.closing: AsyncGenerator[None] | None = None

    async def send(self, request: Any, **options: Any) -> Any:
        at = next((at for at, busy in enumerate(self._busy) if busy < _SIDE_BY_SIDE), len(self._busy))
        if at == _CLIENTS:
            at = self._busy.index(min(self._busy))
        elif at == len(self._busy):
            self.clients.append(self._make())
            self._busy.append(0)
        self._busy[at] += 1
        try:
            return await self.clients[at].send(request, **options)
        finally:
            self._busy[at] -= 1


class _Nowhere:
    """Where no request is sent."""

    async def aclose(self) -> None:
        pass
