"""The commands of `tao` and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taograph.cli.doctor import doctor
from taograph.cli.index import index
from taograph.cli.listing import graphs
from taograph.cli.listing import tools as list_tools
from taograph.cli.model import model_list, model_pull
from taograph.cli.new_tool import new_tool
from taograph.cli.run import run

# The options for help and completion that Typer adds to a group import pydantic for any command at all.
app = typer.Typer(
    add_completion=False,
    add_help_option=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
model = typer.Typer(add_help_option=False, rich_markup_mode=None)
tools = typer.Typer(add_help_option=False, rich_markup_mode=None)
_Help = Annotated[bool, typer.Option("--help", "-h", help="Show this message and exit.")]

app.command(short_help="Ask a question and watch the answer being found.")(run)
app.add_typer(tools, name="tools", short_help="List the tools, or begin one of your own.")
tools.command("new", short_help="Write the beginnings of a tool and its test.")(new_tool)
app.command(short_help="List the strategies.")(graphs)
app.command(short_help="Say what is missing and how to mend it.")(doctor)
app.command(short_help="Make a folder of documents searchable.")(index)
app.add_typer(model, name="model", short_help="Get and list local models.")
model.command("pull", short_help="Fetch a local model.")(model_pull)
model.command("list", short_help="List the local models.")(model_list)


@app.callback(invoke_without_command=True)
def _tao(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    help_: _Help = False,
) -> None:
    """Ask a question; watch a model think, act and observe its way to an answer.

    \b
    tao run "What is 17% of 2340?"          with whatever model is configured
    tao run "..." --model local             with the local model, no account needed
    tao run "..." --docs ~/notes            over your own documents
    tao doctor                              what is configured, what is missing
    """
    if version:
        from taograph import __version__

        typer.echo(f"taograph {__version__}")
        raise typer.Exit
    _help_or_command(context, wanted=help_)


@model.callback(invoke_without_command=True)
def _model(context: typer.Context, help_: _Help = False) -> None:
    """Get and list local models, which need no key and no account."""
    _help_or_command(context, wanted=help_)


@tools.callback(invoke_without_command=True)
def _tools(
    context: typer.Context,
    mcp: Annotated[
        Path | None,
        typer.Option("--mcp", metavar="FILE", envvar="TAOGRAPH_MCP", help="List those of these MCP servers too."),
    ] = None,
    help_: _Help = False,
) -> None:
    """List the tools: what each does, what it needs, whether it is ready; or begin one of your own.

    \b
    tao tools
    tao tools --mcp mcp.json
    tao tools new word_count
    """
    if help_:
        typer.echo(context.get_help())
    elif context.invoked_subcommand is None:
        list_tools(mcp)
    else:
        return
    raise typer.Exit


def _help_or_command(context: typer.Context, *, wanted: bool) -> None:
    if wanted or context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
