"""The commands of `tao` and their help."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from taograph.cli import kept
from taograph.cli.doctor import doctor
from taograph.cli.index import index
from taograph.cli.listing import graphs
from taograph.cli.listing import tools as list_tools
from taograph.cli.model import model_list, model_pull
from taograph.cli.new_tool import new_tool
from taograph.cli.replay import replay
from taograph.cli.resume import resume
from taograph.cli.run import run
from taograph.cli.showing import threads_show
from taograph.cli.threads import threads_delete, threads_fork, threads_list, threads_prune
from taograph.cli.trace import trace_export, trace_list, trace_show
from taograph.cli.trace_compare import trace_diff, trace_stats
from taograph.cli.trace_keep import trace_erase, trace_purge, trace_verify
from taograph.cli.trace_store import VARIABLE as TRACE

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
threads = typer.Typer(add_help_option=False, rich_markup_mode=None)
trace = typer.Typer(add_help_option=False, rich_markup_mode=None)
_Help = Annotated[bool, typer.Option("--help", "-h", help="Show this message and exit.")]

app.command(short_help="Ask a question and watch the answer being found.")(run)
app.command(short_help="Go on with a thread: answer what it waits for, raise its limit.")(resume)
app.add_typer(threads, name="threads", short_help="List, show, copy and delete threads.")
threads.command("list", short_help="List them.")(threads_list)
threads.command("show", short_help="Show what is in one.")(threads_show)
threads.command("resume", short_help="Go on with one: the same as `tao resume`.")(resume)
threads.command("fork", short_help="Copy one, as it was at an earlier step.")(threads_fork)
threads.command("prune", short_help="Delete those that were not used for long.")(threads_prune)
threads.command("delete", short_help="Delete some.")(threads_delete)
app.command(short_help="Run a recorded run again on what was recorded, also with a change.")(replay)
app.add_typer(trace, name="trace", short_help="List, show, compare, verify and delete what was recorded of runs.")
trace.command("list", short_help="List the runs.")(trace_list)
trace.command("show", short_help="Show what a run thought, did and saw.")(trace_show)
trace.command("diff", short_help="Lay two runs beside each other.")(trace_diff)
trace.command("stats", short_help="Figures over many runs.")(trace_stats)
trace.command("verify", short_help="Find out whether the record was changed.")(trace_verify)
trace.command("purge", short_help="Delete the traces whose date has come.")(trace_purge)
trace.command("erase", short_help="Erase what was recorded of a run, a thread or a user.")(trace_erase)
trace.command("export", short_help="Write runs as JSON lines or as a report.")(trace_export)
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
    tao run "..." --thread ada              kept, to be gone on with: tao resume ada
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


@threads.callback(invoke_without_command=True)
def _threads(context: typer.Context, help_: _Help = False) -> None:
    """List, show, copy and delete threads: runs that were kept, as with `tao run --thread`.

    \b
    tao threads                              lists them
    tao threads show ada
    tao threads fork ada --step 3            as it was then, as a new thread
    tao threads prune --older-than 30d
    """
    if help_:
        typer.echo(context.get_help())
    elif context.invoked_subcommand is None:
        threads_list(checkpoints=os.environ.get(kept.VARIABLE) or None)
    else:
        return
    raise typer.Exit


@trace.callback(invoke_without_command=True)
def _trace(context: typer.Context, help_: _Help = False) -> None:
    """List, show, compare, verify and delete what was recorded of runs.

    `tao run` and `tao resume` record what they do: in a file of your own, unless --trace or TAOGRAPH_TRACE says where
    else, or "none". RUN is how the id of a run begins, or "last".

    \b
    tao trace                                lists the runs
    tao trace show                           the last one, step by step
    tao trace diff 70823d0e last
    tao trace stats --since 7d
    tao trace verify
    """
    if help_:
        typer.echo(context.get_help())
    elif context.invoked_subcommand is None:
        trace_list(trace=os.environ.get(TRACE) or None)
    else:
        return
    raise typer.Exit


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
