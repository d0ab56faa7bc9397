"""The commands of `tao` and their help."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

# By group: name, where the function is below taograph.cli, what the group's help says of it.
COMMANDS = {
    "": (
        ("run", "run:run", "Ask a question and watch the answer being found."),
        ("resume", "resume:resume", "Go on with a thread: answer what it waits for, raise its limit."),
        ("replay", "replay:replay", "Run a recorded run again on what was recorded, also with a change."),
        ("graphs", "listing:graphs", "List the strategies."),
        ("doctor", "doctor:doctor", "Say what is missing and how to mend it."),
        ("index", "index:index", "Make a folder of documents searchable."),
    ),
    "threads": (
        ("list", "threads:threads_list", "List them."),
        ("show", "showing:threads_show", "Show what is in one."),
        ("resume", "resume:resume", "Go on with one: the same as `tao resume`."),
        ("fork", "threads:threads_fork", "Copy one, as it was at an earlier step."),
        ("prune", "threads:threads_prune", "Delete those that were not used for long."),
        ("delete", "threads:threads_delete", "Delete some."),
    ),
    "trace": (
        ("list", "trace:trace_list", "List the runs."),
        ("show", "trace:trace_show", "Show what a run thought, did and saw."),
        ("diff", "trace_compare:trace_diff", "Lay two runs beside each other."),
        ("stats", "trace_compare:trace_stats", "Figures over many runs."),
        ("verify", "trace_keep:trace_verify", "Find out whether the record was changed."),
        ("purge", "trace_keep:trace_purge", "Delete the traces whose date has come."),
        ("erase", "trace_keep:trace_erase", "Erase what was recorded of a run, a thread or a user."),
        ("export", "trace:trace_export", "Write runs as JSON lines or as a report."),
    ),
    "tools": (("new", "new_tool:new_tool", "Write the beginnings of a tool and its test."),),
    "model": (
        ("pull", "model:model_pull", "Fetch a local model."),
        ("list", "model:model_list", "List the local models."),
    ),
}
_Help = Annotated[bool, typer.Option("--help", "-h", help="Show this message and exit.")]


def app_for(args: Collection[str]) -> typer.Typer:
    """The app.

    Args:
        args: The command line. Commands that it does not name are listed in the help of their group, and not loaded.
    """
    # The options for help and completion that Typer adds to a group import pydantic for any command at all.
    app = typer.Typer(
        add_completion=False,
        add_help_option=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_tao)
    _add(app, "", args)
    for name, callback, short_help in (
        ("threads", _threads, "List, show, copy and delete threads."),
        ("trace", _trace, "List, show, compare, verify and delete what was recorded of runs."),
        ("tools", _tools, "List the tools, or begin one of your own."),
        ("model", _model, "Get and list local models."),
    ):
        group = typer.Typer(add_help_option=False, rich_markup_mode=None)
        group.callback(invoke_without_command=True)(callback)
        _add(group, name, args)
        app.add_typer(group, name=name, short_help=short_help)
    return app


def _add(app: typer.Typer, group: str, args: Collection[str]) -> None:
    for name, home, short_help in COMMANDS[group]:
        # A command that is carried out is named, as it is here: an abbreviation is refused.
        app.command(name, short_help=short_help)(_loaded(home) if name in args else _not_named)


def _loaded(home: str) -> Callable[..., Any]:
    module, _, function = home.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"taograph.cli.{module}"), function)
    return found


def _not_named() -> None:
    """In the place of a command that is not carried out."""


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


def _model(context: typer.Context, help_: _Help = False) -> None:
    """Get and list local models, which need no key and no account."""
    _help_or_command(context, wanted=help_)


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
        from taograph.cli import kept
        from taograph.cli.threads import threads_list

        threads_list(checkpoints=os.environ.get(kept.VARIABLE) or None)
    else:
        return
    raise typer.Exit


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
        from taograph.cli.trace import trace_list
        from taograph.cli.trace_store import VARIABLE

        trace_list(trace=os.environ.get(VARIABLE) or None)
    else:
        return
    raise typer.Exit


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
        from taograph.cli.listing import tools

        tools(mcp)
    else:
        return
    raise typer.Exit


def _help_or_command(context: typer.Context, *, wanted: bool) -> None:
    if wanted or context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
