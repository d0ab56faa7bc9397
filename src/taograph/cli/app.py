"""The commands of `tao` and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from taograph.cli.doctor import doctor
from taograph.cli.index import index
from taograph.cli.listing import graphs, tools
from taograph.cli.model import model_list, model_pull
from taograph.cli.run import run

app = typer.Typer(
    add_completion=False,  # its options would import pydantic for each `tao … --help`
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
model = typer.Typer(rich_markup_mode=None)

app.command(short_help="Ask a question and watch the answer being found.")(run)
app.command(short_help="List the tools.")(tools)
app.command(short_help="List the strategies.")(graphs)
app.command(short_help="Say what is missing and how to mend it.")(doctor)
app.command(short_help="Make a folder of documents searchable.")(index)
app.add_typer(model, name="model", short_help="Get and list local models.")
model.command("pull", short_help="Fetch a local model.")(model_pull)
model.command("list", short_help="List the local models.")(model_list)


@model.callback(invoke_without_command=True)
def _models(context: typer.Context) -> None:
    """Get and list local models, which need no key and no account."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.callback(invoke_without_command=True)
def tao(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
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
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
