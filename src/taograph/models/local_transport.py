"""HTTP transports that lead to the local server wherever it is, and start it when it is not there.

``ChatOpenAI`` is given a fixed address that nobody has; these put the server's real one, and its key, into each
request. So the model object can be made before there is a server, and outlives the servers it uses.
"""

from __future__ import annotations

import asyncio

import httpx

from taograph.models.local_lease import Lease
from taograph.models.local_spec import Record

# Reserved by RFC 6761: no name server knows it.
ADDRESS = "http://local.invalid/v1"
# No connection is kept: it would be bound to the event loop and to the server of its day, and is cheap to make.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=0)


class LocalTransport(httpx.BaseTransport):
    """Sends requests to the server of a lease."""

    def __init__(self, lease: Lease) -> None:
        """Remember the lease; nothing is started."""
        self._lease = lease
        self._http = httpx.HTTPTransport(verify=False, trust_env=False, limits=_LIMITS)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; once more, to a new server, where the first went away before it answered."""
        record = self._lease.record()
        try:
            return self._http.handle_request(_addressed(request, record))
        except httpx.TransportError as error:
            # The lease's connection tells whether it was the server's end or another trouble.
            now = self._lease.record()
            if now is record or isinstance(error, httpx.TimeoutException):
                raise
            return self._http.handle_request(_addressed(request, now))

    def close(self) -> None:
        """Close what is open."""
        self._http.close()


class AsyncLocalTransport(httpx.AsyncBaseTransport):
    """The same for async callers; finding and starting the server happens in a thread."""

    def __init__(self, lease: Lease) -> None:
        """Remember the lease; nothing is started."""
        self._lease = lease
        self._http = httpx.AsyncHTTPTransport(verify=False, trust_env=False, limits=_LIMITS)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As :meth:`LocalTransport.handle_request`."""
        record = await asyncio.to_thread(self._lease.record)
        try:
            return await self._http.handle_async_request(_addressed(request, record))
        except httpx.TransportError as error:
            now = await asyncio.to_thread(self._lease.record)
            if now is record or isinstance(error, httpx.TimeoutException):
                raise
            return await self._http.handle_async_request(_addressed(request, now))

    async def aclose(self) -> None:
        """Close what is open."""
        await self._http.aclose()


def _addressed(request: httpx.Request, record: Record) -> httpx.Request:
    server = httpx.URL(record.url)
    headers = request.headers.copy()
    headers["host"] = f"{server.host}:{server.port}"
    headers["authorization"] = f"Bearer {record.key}"
    return httpx.Request(
        request.method,
        request.url.copy_with(scheme=server.scheme, host=server.host, port=server.port),
        headers=headers,
        stream=request.stream,
        extensions=request.extensions,
    )
