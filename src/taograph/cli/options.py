"""Options that more than one command has."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from taograph.cli.console import console, on_terminal

if TYPE_CHECKING:
    from taograph.cli.render import Renderer


def at_least_one(value: int | None) -> int | None:
    """Refuse numbers that a limit can't be."""
    if value is not None and value < 1:
        raise typer.BadParameter(f"{value} is too few: give a whole number of at least 1")
    return value


def above_zero(value: float | None) -> float | None:
    """Refuse numbers that a limit can't be."""
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"{value:g} can't be used: give a number above 0")
    return value


def a_name(value: str | None) -> str | None:
    """Refuse an empty name."""
    if value is not None and not value.strip():
        raise typer.BadParameter("it is empty: give a name, or leave the option out")
    return value


IfBusy = Annotated[
    Literal["reject", "enqueue", "interrupt", "rollback"],
    typer.Option(
        "--if-busy",
        metavar="WHAT",
        help='If another run has the thread: "reject" this one, "enqueue" it, or "interrupt" or "rollback" that one.',
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON event a line on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Fetch the local model without asking, if it is needed.")]
Plain = Annotated[bool, typer.Option("--plain", help="Plain lines, on a terminal too.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show observations whole.")]
ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="Its id, or how that begins; see `tao threads`.")]


def given_limits(**limits: Any) -> dict[str, Any]:
    """The limits that were said."""
    return {name: value for name, value in limits.items() if value is not None}


def folder(docs: Path | None) -> Path | None:
    """A folder of documents that is there."""
    if docs is not None and not docs.expanduser().is_dir():
        raise typer.BadParameter(f"{docs} is not a folder: give one that exists", param_hint="--docs")
    return docs.expanduser() if docs else None


def renderer_for(*, json: bool, plain: bool, verbose: bool) -> Renderer:
    """What tells the events, as it was asked for and as stdout allows."""
    from taograph.cli.render import JsonRenderer, PlainRenderer

    if json:
        return JsonRenderer()
    if plain or not on_terminal(sys.stdout):
        return PlainRenderer(verbose=verbose)
    from taograph.cli.terminal import TerminalRenderer

    return TerminalRenderer(console(), verbose=verbose)
