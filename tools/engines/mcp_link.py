"""One connection to an MCP server, from its start to its end.

The libraries want a connection left by the task that entered it, so one task owns it; calls come from others. A
transport that breaks leaves requests waiting for ever, so whoever waits for an answer watches the owner too.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    Implementation,
)

from taograph.tools.engines.mcp_config import ServerSpec

# How long a server may take to say that it is there, and how often one is asked during a call.
ANSWER_SECONDS = 3.0
HEARTBEAT_SECONDS = 5.0
# A server that was told to end is cut off then; its process has been killed long before.
_END_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_CLIENT = Implementation(name="taograph", version="1")
_UNSENT = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_REFUSED_BEFORE = (httpx.ConnectError, httpx.ConnectTimeout)


class Lost(Exception):  # noqa: N818 - named for what happened
    """A connection ended, or was never made.

    Attributes:
        why: What happened, in words without secrets.
        sent: Whether the call may have reached the server.
        said: The last of what the server wrote to stderr.
    """

    def __init__(self, why: str, *, sent: bool, said: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent
        self.said = said


class Link:
    """One connection; to be made and used on one event loop.

    Args:
        spec: The server.

    Attributes:
        owner: The task that opens the connection, holds it and leaves it.
        calls: How many calls wait for their answers.
        suspect: Whether a call was given up, so that the server may hang.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.calls = 0
        self.suspect = False
        self._spec = spec
        self._stderr = _Stderr()
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._errors: tuple[BaseException, ...] = ()
        self._checking: asyncio.Task[None] | None = None
        self._notes: set[asyncio.Task[None]] = set()
        self.owner = asyncio.create_task(self._own())
        LINKS.add(self)
        self.owner.add_done_callback(lambda _: LINKS.discard(self))

    async def session(self) -> ClientSession:
        """The session, once it is open.

        Raises:
            Lost: It could not be opened, or has ended.
        """
        either: set[asyncio.Future[Any]] = {self._opened, self.owner}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.owner.done() or self._opened.cancelled():
            await self._stderr.drained()
            raise self._lost(sent=False)
        return self._opened.result()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool.

        Raises:
            Lost: The connection ended before there was an answer.
            McpError: The server refused the call.
            RuntimeError: The answer is not of the form that the server promised.
        """
        session = await self.session()
        number: int | None = None

        async def ask() -> CallToolResult:
            nonlocal number
            # There is no public way to learn a request's number, which taking it back needs.
            number = getattr(session, "_request_id", None)
            return await session.call_tool(name, dict(arguments))

        self.calls += 1
        work = asyncio.create_task(ask())
        try:
            await self._wait(work)
        except asyncio.CancelledError:
            self.calls -= 1
            self._take_back(session, number)
            raise
        except BaseException:
            self.calls -= 1
            raise
        self.calls -= 1
        try:
            return work.result()
        except _UNSENT:
            self.stop()
            raise self._lost(sent=False) from None
        except McpError as error:
            if not _is_end(error):
                raise
            self.stop()
            raise self._lost(sent=error.error.code == CONNECTION_CLOSED) from None

    def check(self) -> asyncio.Task[None]:
        """See whether the server answers; a connection to one that does not is ended.

        Returns:
            A task of the connection's own: the caller may be cancelled meanwhile.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        return self._checking

    def stop(self) -> None:
        """Begin to end the connection, and with it a server that was started for it."""
        self._stop.set()
        asyncio.get_running_loop().call_later(_END_SECONDS, self.owner.cancel)

    @property
    def ending(self) -> bool:
        """Whether no further call can be made."""
        return self._stop.is_set() or self.owner.done()

    async def _own(self) -> None:
        try:
            async with (
                _transport(self._spec, self._stderr) as (read, write),
                ClientSession(read, write, client_info=_CLIENT, message_handler=self._heard) as session,
            ):
                async with asyncio.timeout(self._spec.start_seconds):
                    await session.initialize()
                self._opened.set_result(session)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - told to whoever waits, in words
            self._errors = self._errors or tuple(_leaves(error))
        finally:
            self._stderr.close()
            if not self._opened.done():
                self._opened.cancel()

    async def _heard(self, message: Any) -> None:
        """What comes unasked. Over HTTP an answer that can't be read comes this way, and no other follows."""
        # Answers to calls that were given up come as RuntimeError; a line that is no message may be a greeting.
        if isinstance(message, ValueError) and self._spec.transport != "stdio":
            self._errors = (message,)
            self.owner.cancel()

    async def _wait(self, work: asyncio.Task[Any]) -> None:
        # A process that ends closes its pipes; that an HTTP server is gone has to be found out.
        pause = None if self._spec.transport == "stdio" else HEARTBEAT_SECONDS
        alone = self.calls == 1 and (self._checking is None or self._checking.done())
        try:
            while not work.done():
                await asyncio.wait({work, self.owner}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                alone = alone and self.calls == 1
                if self.owner.done() and not work.done():
                    # Of several requests, nobody knows which one was refused.
                    refused = bool(self._errors) and all(isinstance(each, _REFUSED_BEFORE) for each in self._errors)
                    raise self._lost(sent=not (refused and alone))
                if not work.done():
                    alone = False
                    self.check()
        finally:
            if not work.done():
                work.cancel()
                work.add_done_callback(_looked_at)

    async def _check(self) -> None:
        try:
            session = await self.session()
        except Lost:
            return
        ping = asyncio.create_task(session.send_ping())
        await asyncio.wait({ping, self.owner}, timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not ping.done():
            ping.cancel()
            ping.add_done_callback(_looked_at)
            if self.owner.done() or self.calls:  # it may be at work, and unable to answer meanwhile
                return
        else:
            error = ping.exception()
            if not isinstance(error, _UNSENT) and not (isinstance(error, McpError) and _is_end(error)):
                self.suspect = False
                return
        self.stop()

    def _take_back(self, session: ClientSession, number: int | None) -> None:
        """Tell the server that nobody waits for an answer any more, and see whether it still gives any."""
        self.suspect = True

        async def tell() -> None:
            if number is not None:
                params = CancelledNotificationParams(requestId=number, reason="it took too long")
                note = ClientNotification(CancelledNotification(method="notifications/cancelled", params=params))
                sent = asyncio.create_task(session.send_notification(note))
                await asyncio.wait({sent}, timeout=ANSWER_SECONDS)
                sent.cancel()
                sent.add_done_callback(_looked_at)
            await self.check()

        task = asyncio.create_task(tell())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    def _lost(self, *, sent: bool) -> Lost:
        return Lost(_why(self._errors, self._spec), sent=sent, said=self._spec.secrets.hide(self._stderr.tail()))


# Links whose owner has not ended: what nobody else holds any more has still to end.
LINKS: set[Link] = set()


class _Stderr:
    """What a server writes to stderr: read, so that it never blocks, and the last of it kept."""

    def __init__(self) -> None:
        self._kept = b""
        self._reader, writer = os.pipe()
        self.sink = os.fdopen(writer, "w")
        self._thread = threading.Thread(target=self._read, name="taograph-mcp-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close our side; what a process holds of the other one stays open."""
        self.sink.close()

    async def drained(self) -> None:
        """Wait a little for the last words of a process that has ended."""
        for _ in range(20):
            if not self._thread.is_alive():
                return
            await asyncio.sleep(0.01)

    def tail(self) -> str:
        """The last lines."""
        lines = [line.strip() for line in self._kept.decode("utf-8", "replace").splitlines() if line.strip()]
        return "; ".join(lines[-2:])[-400:]

    def _read(self) -> None:
        with os.fdopen(self._reader, "rb", buffering=0) as reader:
            while chunk := reader.read(4096):
                self._kept = (self._kept + chunk)[-4000:]


@asynccontextmanager
async def _transport(spec: ServerSpec, stderr: _Stderr) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of messages."""
    if spec.transport == "stdio":
        server = StdioServerParameters(
            command=spec.command,
            args=list(spec.args),
            env=dict(spec.env),
            cwd=spec.cwd,
            encoding_error_handler="replace",
        )
        async with stdio_client(server, errlog=stderr.sink) as streams:
            stderr.close()
            yield streams
    elif spec.transport == "sse":
        headers = dict(spec.headers)
        async with sse_client(spec.url, headers, timeout=_CONNECT_SECONDS, sse_read_timeout=3600.0) as streams:
            yield streams
    else:
        # No limit for reading: a server may be silent for as long as a call may take.
        patience = httpx.Timeout(_CONNECT_SECONDS, read=None)
        async with (
            httpx.AsyncClient(headers=dict(spec.headers), timeout=patience) as client,
            streamable_http_client(spec.url, http_client=client) as (read, write, _),
        ):
            yield read, write


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _is_end(error: McpError) -> bool:
    """Whether an error says that there is no connection or no session any more; servers use the codes otherwise too."""
    return (error.error.code, error.error.message) in ((CONNECTION_CLOSED, "Connection closed"), _SESSION_OVER)


_SESSION_OVER = (32600, "Session terminated")


def _looked_at(task: asyncio.Task[Any]) -> None:
    """Look at what became of a task that was given up, so that nobody warns of it."""
    if not task.cancelled():
        task.exception()


def _why(errors: tuple[BaseException, ...], spec: ServerSpec) -> str:
    """What happened, in our words: the texts of exceptions hold addresses and more."""
    error = errors[0] if errors else None
    match error:
        case None | McpError() | anyio.BrokenResourceError() | anyio.ClosedResourceError():
            # A process that ends before it is spoken to is found out by writing to it.
            return "it ended" if spec.transport == "stdio" else "the connection ended"
        case FileNotFoundError() | NotADirectoryError() if error.filename == spec.cwd:
            return f"its folder {spec.cwd} does not exist"
        case FileNotFoundError():
            return f"there is no program {spec.command!r}"
        case TimeoutError():
            return f"it did not start within {spec.start_seconds:g} s"
        case OSError():
            return f"{spec.command!r} can't be started: {error.strerror or type(error).__name__}"
        case httpx.HTTPStatusError():
            status = error.response.status_code
            hint = "; check its url and headers" if status in (301, 302, 303, 307, 308, 401, 403, 404, 405) else ""
            return f"{spec.place} answers with HTTP status {status}{hint}"
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return f"{spec.place} can't be reached"
        case httpx.TimeoutException():
            return f"{spec.place} does not answer"
        case ValueError():
            return f"{spec.place} answers with something that is not MCP"
        case _:
            return f"the connection failed ({type(error).__name__})"
