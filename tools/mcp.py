"""The tools of MCP servers (Model Context Protocol), as the ``mcp.json`` of other programs names them.

A server's tools are called ``server_tool``. They count as untrusted and as not to be repeated, unless the server
hints otherwise or the file says so under a key of ours, which other programs pass over::

    {"mcpServers": {
        "notes": {"command": "uvx", "args": ["mcp-server-notes"], "env": {"NOTES_TOKEN": "${NOTES_TOKEN}"}},
        "shop": {"url": "https://shop.example/mcp", "headers": {"Authorization": "Bearer ${SHOP_TOKEN}"},
                 "taograph": {"timeout": 120, "only": ["search"], "tools": {"search": {"effects": "none"}}}}}}
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool

from taograph.redaction import redact
from taograph.tools.engines.mcp_config import MissingSettingError, ServerSpec, full_name, read_config

if TYPE_CHECKING:
    from taograph.tools.engines.mcp_adapting import McpTool

Config = str | os.PathLike[str] | Mapping[str, Any]
OnFailure = Callable[[str, str], None]

log = logging.getLogger("taograph.tools")


def mcp_tools(
    config: Config, *, only: Collection[str] | None = None, on_failure: OnFailure | None = None
) -> list[BaseTool]:
    """The tools of MCP servers; the servers are started, and stay for as long as the tools are in use.

    In async code, :func:`amcp_tools` does the same without blocking the event loop.

    Args:
        config: The path of an ``mcp.json``, or what such a file holds.
        only: The names of servers, or of tools (``server_tool``), that are wanted; None for all. Others are not
            started.
        on_failure: Told the name of each server that can't be used, and why; the others' tools are returned. When
            absent, a warning is logged, and it is an error if no server can be used.

    Raises:
        ValueError: The configuration can't be used, two tools would have the same name, or there is nothing of a
            name in ``only``; the message says the fix.
    """
    loading = _Loading(config, only)
    from taograph.tools.engines.mcp_server import wait_for

    return loading.result(wait_for(loading.load()), on_failure)


async def amcp_tools(
    config: Config, *, only: Collection[str] | None = None, on_failure: OnFailure | None = None
) -> list[BaseTool]:
    """As :func:`mcp_tools`, on an event loop."""
    loading = await asyncio.to_thread(_Loading, config, only)
    from taograph.tools.engines.mcp_server import on_their_loop

    return loading.result(await on_their_loop(loading.load()), on_failure)


def close_mcp_tools(tools: Iterable[BaseTool]) -> None:
    """Begin to end the servers of these tools, without waiting; a further call starts its server again.

    There is seldom a need: they end when their tools are collected as garbage, and with the process.

    Args:
        tools: Any tools; those that belong to no server are passed over.
    """
    for tool in tools:
        server = getattr(tool, "server", None)
        if server is not None:
            server.stop()


class _Loading:
    """Starting servers and collecting their tools."""

    def __init__(self, config: Config, only: Collection[str] | None) -> None:
        self._only = None if only is None else tuple([only] if isinstance(only, str) else only)
        self._specs = {name: spec for name, spec in read_config(config).items() if self._wants_of(name)}
        if find_spec("langchain_mcp_adapters") is None:
            raise ValueError("MCP servers need a package that is not there: pip install taograph[mcp]")
        # Here and not on the loop of the connections: it takes its time, and must not stall them.
        from taograph.tools.engines import mcp_adapting  # noqa: F401

    async def load(self) -> dict[str, list[McpTool] | BaseException]:
        """The tools of each server, or what is wrong with it."""
        names = list(self._specs)
        found = await asyncio.gather(*(_load(self._specs[name]) for name in names), return_exceptions=True)
        return dict(zip(names, found, strict=True))

    def result(
        self, loaded: Mapping[str, list[McpTool] | BaseException], on_failure: OnFailure | None
    ) -> list[BaseTool]:
        """The tools of all servers, once those that failed are told of."""
        tools = [tool for each in loaded.values() if isinstance(each, list) for tool in each]
        try:
            failed = {name: _why(each) for name, each in loaded.items() if isinstance(each, BaseException)}
            if failed and len(failed) == len(loaded) and on_failure is None:
                said = "; ".join(f"{name}: {why}" for name, why in failed.items())
                raise ValueError(f"no MCP server can be used. {said}")
            self._refuse(tools, failed)
            for name, why in failed.items():
                (on_failure or _warn)(name, why)
        except BaseException:
            close_mcp_tools(tools)
            raise
        return [tool for tool in tools if self._wants(tool)]

    def _refuse(self, tools: list[McpTool], failed: Collection[str]) -> None:
        """Raise ValueError where a name means two tools, or none."""
        seen: dict[str, str] = {}
        for tool in tools:
            server = tool.server.spec.name
            if tool.name in seen:
                raise ValueError(
                    f"two tools would be named {tool.name!r}, of the MCP servers {seen[tool.name]!r} and {server!r}: "
                    'give one server another name, or leave one of the tools out with {"taograph": {"only": […]}}'
                )
            seen[tool.name] = server
        there = {*seen, *self._specs}
        for name in self._only or ():
            if name not in there and not any(name.startswith(full_name(server, "")) for server in failed):
                known = ", ".join(sorted(there)) or "none"
                raise ValueError(f"only={name!r} is neither an MCP server nor a tool of one; there are: {known}")

    def _wants_of(self, server: str) -> bool:
        return self._only is None or any(
            name == server or name.startswith(full_name(server, "")) for name in self._only
        )

    def _wants(self, tool: McpTool) -> bool:
        return self._only is None or tool.name in self._only or tool.server.spec.name in self._only


async def _load(spec: ServerSpec | MissingSettingError) -> list[McpTool]:
    from taograph.tools.engines.mcp_adapting import tools_of
    from taograph.tools.engines.mcp_secrets import guard_logs
    from taograph.tools.engines.mcp_server import Server

    if isinstance(spec, MissingSettingError):
        raise spec
    guard_logs(spec.secrets)
    server = Server(spec)
    try:
        return await tools_of(server)
    except BaseException:
        server.stop()
        raise


def _why(failure: BaseException) -> str:
    """Why a server can't be used; what is wrong with the file itself is raised instead."""
    from taograph.tools.engines.mcp_link import Lost

    match failure:
        case Lost():
            return f"{failure.why} (it said: {redact(failure.said)})" if failure.said else failure.why
        case MissingSettingError():
            return str(failure)
        case _:
            raise failure


def _warn(name: str, why: str) -> None:
    log.warning("the MCP server %s is left out: %s", name, why)
