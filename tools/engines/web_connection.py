"""Connections that go only where they may: a name is looked up, checked, and what was checked is connected to.

A name is looked up once for each connection, here and nowhere else. A second look-up could give another answer
than the one that was checked ("DNS rebinding").
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

import httpcore
import httpx

from taograph.threads import ThreadPool
from taograph.tools.engines.web_addresses import Address, AddressRules
from taograph.tools.engines.web_errors import WebError

Resolve = Callable[[str, int], Iterable[str]]
"""Finds the addresses of a host; blocking. Raises ``OSError`` where there are none."""

_CONNECT_SECONDS = 5.0
_MOST_ADDRESSES = 4

# Look-ups have threads of their own: one that hangs can't be stopped.
_LOOKUPS = ThreadPool(16, "taograph-lookup")


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses that this machine's resolver gives for a host."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """A network in which only what the rules admit can be connected to.

    Args:
        rules: What may be read from.
        resolve: How names are looked up.
        network: What connects, once an address is checked.
    """

    def __init__(
        self,
        rules: AddressRules,
        resolve: Resolve = system_resolve,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._rules = rules
        self._resolve = resolve
        self._network = network or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host at an address that was checked.

        Raises:
            WebError: It may not be connected to, or there is no such host.
            httpcore.ConnectError: It does not take the connection.
        """
        addresses = await self._addresses(host, port)
        self._rules.check(host, port, addresses)
        failure: Exception = httpcore.ConnectError("no address")
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                stream = await self._network.connect_tcp(
                    str(address),
                    port,
                    min(timeout or _CONNECT_SECONDS, _CONNECT_SECONDS),
                    local_address,
                    socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            try:
                self._check_socket(stream, host, port, address)
            except BaseException:
                await stream.aclose()
                raise
            return _Stream(stream)
        raise failure

    async def _addresses(self, host: str, port: int) -> list[Address]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            pass
        lookup = _LOOKUPS.submit(lambda: list(self._resolve(host, port)))
        try:
            found = await asyncio.wrap_future(lookup)
            return list(dict.fromkeys(ipaddress.ip_address(address) for address in found))
        except (OSError, ValueError):  # ValueError: a name that the resolver's own encoding does not take
            return []
        finally:
            if not lookup.done():
                _LOOKUPS.abandon(lookup)

    def _check_socket(self, stream: httpcore.AsyncNetworkStream, host: str, port: int, address: Address) -> None:
        """Hold the connection itself to the rules, before a byte is sent.

        A machine can also have a public address, at which it answers itself what it would not answer others.
        """
        reached = _address(stream.get_extra_info("server_addr"))
        if reached != address:
            raise WebError("address", f"{host} was not opened: the connection led to another address than was asked.")
        if reached == _address(stream.get_extra_info("client_addr")):
            self._rules.check(host, port, [reached], own=True)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """No page is behind a socket of this machine."""
        raise WebError("address", "Only public pages can be read.")

    async def sleep(self, seconds: float) -> None:
        """Wait; asked for by httpcore."""
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed where time runs out in its TLS handshake, which httpcore leaves open."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _address(name: Any) -> Address | None:
    with suppress(ValueError, TypeError, IndexError):
        return ipaddress.ip_address(name[0])
    return None


class CheckedTransport(httpx.AsyncBaseTransport):
    """httpx over a network of one's choice, which httpx itself has no argument for.

    It reads no proxy from the environment: a proxy looks names up itself, so nothing here could be held to.

    Args:
        network: What connects.
        certificates: The certificates that are trusted; a server is held to the name in the URL.
    """

    def __init__(self, network: httpcore.AsyncNetworkBackend, certificates: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=certificates, max_connections=4, keepalive_expiry=5.0, network_backend=network
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; failures are those of httpcore."""
        url = request.url
        response = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._response.aclose()
