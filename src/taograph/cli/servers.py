"""The MCP servers that a command uses."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from taograph.cli.console import on_terminal, say, status
from taograph.cli.text import one_line

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


def mcp_tools(path: Path) -> list[BaseTool]:
    """The tools of the MCP servers in a file; a server that can't be used is named on stderr and left out.

    Args:
        path: The file, of the form of ``mcp.json``.

    Raises:
        typer.BadParameter: The file can't be used; the message says the fix.
    """
    failed: dict[str, str] = {}
    with status("Starting the MCP servers…") if on_terminal(sys.stderr) else ExitStack():
        from taograph.tools import mcp

        try:
            tools = mcp.mcp_tools(path, on_failure=failed.__setitem__)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--mcp (TAOGRAPH_MCP)") from error
    for name, why in failed.items():
        say(f"The MCP server {one_line(name, 80)} is left out: {one_line(why, 600)}.")
    return tools
