"""An MCP server as the tools see it: there when it is called, started again when it has ended.

A connection is kept from call to call: starting a server takes seconds, and what it remembers (a browser's page, an
open database) would be lost with every call. All connections live on one event loop of their own, in a thread, so
that they serve ``invoke`` and ``ainvoke`` alike, outlive the loop of a single run, and are stalled by nobody's
blocking code.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from mcp import McpError
from mcp.types import CallToolResult

from taograph.redaction import redact
from taograph.tools.engines.mcp_config import ServerSpec
from taograph.tools.engines.mcp_link import LINKS, Link, Lost
from taograph.tools.policy import ToolError

T = TypeVar("T")

_EXIT_SECONDS = 5.0
_MOST_WORDS = 500


class Server:
    """One server. It is ended when nothing refers to it any more, and when the process ends.

    Args:
        spec: How it is reached.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._lock = asyncio.Lock()  # one connects at a time
        self._held: list[Link] = []
        weakref.finalize(self, _release, self._held).atexit = False

    async def link(self, *, sure: bool = False) -> Link:
        """A connection; on the loop of the connections only.

        Args:
            sure: Only one over which the server has just answered.

        Raises:
            Lost: There can be none.
        """
        async with self._lock:
            link = self._held[0] if self._held else None
            if link and not link.ending and not link.calls and (sure or link.suspect):
                await asyncio.shield(link.check())
            if link and link.ending and self.spec.transport == "stdio":
                # Its process is gone before another one wants the same files.
                await asyncio.wait({link.owner})
            if link is None or link.ending:
                link = Link(self.spec)
                self._held[:] = [link]
        await link.session()
        return link

    async def call(self, name: str, arguments: Mapping[str, Any], *, repeatable: bool) -> CallToolResult:
        """Call a tool; on the loop of the connections only.

        Args:
            name: The server's own name for it.
            arguments: Its arguments.
            repeatable: Whether a call may be made twice. If not, one that may have reached a server is not repeated.

        Raises:
            ToolError: There is no answer; the message says why and what is known of it.
        """
        problem = ""
        for last in (False, True):
            try:
                link = await self.link(sure=not repeatable)
            except Lost as lost:
                problem = f"The MCP server {self.spec.name} can't be used now: {lost.why}. Do without it."
                break
            try:
                return await link.call(name, arguments)
            except Lost as lost:
                if last or (lost.sent and not repeatable):
                    outcome = "Whether the call took effect is unknown. " if lost.sent else "The call was not made. "
                    problem = (
                        f"The MCP server {self.spec.name} was lost: {lost.why}. {outcome}"
                        "A further call connects to it again."
                    )
                    break
            except McpError as error:
                problem = f"The MCP server {self.spec.name} refused the call: {self._words(error.error.message)}"
                break
            except RuntimeError:
                problem = (
                    f"{name} was called, but what the MCP server {self.spec.name} answered is not of the form that it "
                    "promises, so it is not shown."
                )
                break
        raise ToolError(problem)  # out of every handler: the texts of other exceptions may hold secrets

    def stop(self) -> None:
        """End the connection; a further call makes another."""
        _release(self._held)

    def _words(self, text: str) -> str:
        return redact(self.spec.secrets.hide(" ".join(text.split())))[:_MOST_WORDS]


def _release(held: list[Link]) -> None:
    links, held[:] = list(held), []
    for link in links:
        _LOOP.tell(link)


class _Loop:
    """The event loop of the connections, in a thread that starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="taograph-mcp", daemon=True).start()
                atexit.register(self._end)
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def tell(self, link: Link) -> None:
        """End a connection, from any thread; the garbage collector's included, so nothing is waited for."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended, and every connection with it
                self._loop.call_soon_threadsafe(link.stop)

    def _end(self) -> None:
        """End every connection, so that no server outlives the process."""
        with contextlib.suppress(TimeoutError, RuntimeError):
            self.submit(_end_all()).result(_EXIT_SECONDS)


async def _end_all() -> None:
    owners = {link.owner for link in LINKS}
    for link in list(LINKS):
        link.stop()
    if owners:
        await asyncio.wait(owners)


_LOOP = _Loop()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of the connections, from synchronous code."""
    return _LOOP.submit(coroutine).result()


async def on_their_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of the connections, from another one; cancelled together with it."""
    return await asyncio.wrap_future(_LOOP.submit(coroutine))
