"""`tao tools` and `tao graphs`: what there is to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from taograph.cli.console import show, table
from taograph.cli.servers import mcp_tools
from taograph.cli.text import one_line


def tools(mcp: Path | None = None) -> int:
    """List the tools: what each does, what it needs, whether it is ready.

    Args:
        mcp: A file that names MCP servers, whose tools are listed too.
    """
    from taograph.tools import catalog

    shown = table("tool", "ready", "what", "needs")
    for tool in catalog.available().values():
        what, needs = one_line(tool.description, 200), one_line(tool.needs, 200)
        shown.add_row(one_line(tool.name, 80), "yes" if tool.ready else "no", what, needs)
    served = mcp_tools(mcp) if mcp else ()
    for each in served:
        shown.add_row(one_line(each.name, 80), "yes", one_line(each.description, 200), "--mcp (TAOGRAPH_MCP)")
    show(shown)
    typer.echo("\nChoose with --tools NAME,NAME; one of your own is module:function or path.py:function.")
    if mcp is None:
        typer.echo("The tools of MCP servers come with --mcp mcp.json; to see them: tao tools --mcp mcp.json")
    return 0


def graphs() -> int:
    """List the strategies that --graph takes."""
    from taograph.graphs import STRATEGIES

    shown = table("strategy", "what")
    for name in STRATEGIES:
        shown.add_row(name, one_line(_docstring(f"taograph.graphs.{name}").split("\n\n")[0], 200))
    show(shown)
    return 0


def _docstring(module: str) -> str:
    """What a module says of itself. It is read and not imported: a strategy brings LangGraph with it."""
    import ast
    from importlib.util import find_spec

    spec = find_spec(module)
    loader: Any = spec.loader if spec else None
    source = loader.get_source(module) if loader else None  # None where only byte code is installed
    return ast.get_docstring(ast.parse(source or "")) or ""
