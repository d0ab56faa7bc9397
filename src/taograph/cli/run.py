"""`tao run`: ask a question and watch the answer being found."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.console import console, on_terminal
from taograph.cli.conversation import Asked, carry_out

if TYPE_CHECKING:
    from taograph.cli.render import Renderer


def _at_least_one(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise typer.BadParameter(f"{value} is too few: give a whole number of at least 1")
    return value


def _above_zero(value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"{value:g} can't be used: give a number above 0")
    return value


def _a_name(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise typer.BadParameter("it is empty: give a name, or leave the option out")
    return value


def run(  # noqa: PLR0917 - Typer calls it by keyword
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help='What to find out; "-" or nothing reads it from stdin.', show_default=False
        ),
    ] = None,
    graph: Annotated[
        str, typer.Option("--graph", "-g", metavar="NAME", help="The strategy; see `tao graphs`.")
    ] = "react",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="SPEC",
            callback=_a_name,
            help='"openai:NAME", "local", "local:NAME", "http://host:port/v1#name", or the path of a .gguf file.',
        ),
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option("--tools", "-t", metavar="LIST", help="Tools by name, with commas; see `tao tools`."),
    ] = None,
    docs: Annotated[
        Path | None, typer.Option("--docs", metavar="FOLDER", help="Search the documents in this folder.")
    ] = None,
    mcp: Annotated[
        Path | None,
        typer.Option(
            "--mcp", metavar="FILE", envvar="TAOGRAPH_MCP", help="Add the tools of the MCP servers in this file."
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", callback=_at_least_one, help="Reasoning turns at most.")
    ] = 15,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="S",
            callback=_above_zero,
            show_default="300",
            help="Seconds at most; waiting for you does not count.",
        ),
    ] = 300.0,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", metavar="N", callback=_at_least_one, help="Tokens at most, both ways."),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option("--cost", metavar="USD", callback=_above_zero, help="US dollars at most."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="TEXT", help="Instructions that stand before the conversation."),
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(
            "--thread",
            metavar="ID",
            callback=_a_name,
            help="Keep the conversation under this name, and go on with it.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON event a line on stdout.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Fetch the local model without asking, if it is needed.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, on a terminal too.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show observations whole.")] = False,
) -> int:
    """Ask a question; thoughts, actions and observations are shown as they happen.

    Ctrl-C ends the run with what it has, a second one quits. Exit status: 0 answered, 3 stopped by a limit or
    by you, 2 wrong usage, 1 error.

    \b
    tao run "What is 17% of 2340?"
    tao run "Which contract ends first?" --docs ~/contracts --steps 8
    tao run "Summarize the case" --model openai:gpt-5-mini --cost 0.05
    tao run "Which orders are late?" --mcp mcp.json
    tao run "My name is Ada." --thread ada; tao run "What is my name?" --thread ada
    echo "What time is it in Lima?" | tao run --json | jq .type
    """
    if docs is not None and not docs.expanduser().is_dir():
        raise typer.BadParameter(f"{docs} is not a folder: give one that exists", param_hint="--docs")
    asked = Asked(
        question=_read(question, thread),
        graph=graph,
        model=model,
        tools=tools,
        docs=docs.expanduser() if docs else None,
        mcp=mcp.expanduser() if mcp else None,
        limits={"steps": steps, "seconds": seconds, "tokens": tokens, "cost": cost},
        system=system,
        thread=thread,
        yes=yes,
    )
    return carry_out(asked, _renderer(json=json, plain=plain, verbose=verbose))


def _read(question: str | None, thread: str | None) -> str:
    """The question, from the arguments or from stdin; empty only where a thread may have something open."""
    if question is None and sys.stdin.isatty():
        text = ""
    elif question is None or question == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        text = question
    if not text.strip() and thread is None:
        raise typer.BadParameter('there is none: tao run "What is 17% of 2340?", or pipe it in', param_hint="QUESTION")
    return text.strip()


def _renderer(*, json: bool, plain: bool, verbose: bool) -> Renderer:
    from taograph.cli.render import JsonRenderer, PlainRenderer

    if json:
        return JsonRenderer()
    if plain or not on_terminal(sys.stdout):
        return PlainRenderer(verbose=verbose)
    from taograph.cli.terminal import TerminalRenderer

    return TerminalRenderer(console(), verbose=verbose)
