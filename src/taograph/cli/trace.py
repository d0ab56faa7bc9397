"""`tao trace list`, `show` and `export`: what runs were recorded, and what they did."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from taograph.cli import kept
from taograph.cli.console import console, on_terminal, say, show, table
from taograph.cli.errors import CommandError
from taograph.cli.text import one_line
from taograph.cli.trace_store import (
    NothingRecorded,
    OfGraph,
    OfThread,
    Since,
    Url,
    opened,
    runs_named,
    since_when,
)
from taograph.cli.trace_text import Trajectory, outcome
from taograph.cli.words import count

if TYPE_CHECKING:
    from taograph.trace.reading import Run, Summary

_MOST = 20
_Run = Annotated[
    str | None,
    typer.Argument(metavar="RUN", help='How the id of a run or of a trace begins, or "last".', show_default="last"),
]


def trace_list(  # noqa: PLR0917 - Typer calls it by keyword
    every: Annotated[bool, typer.Option("--all", "-a", help="All of them, not the last 20.")] = False,
    thread: OfThread = None,
    graph: OfGraph = None,
    since: Since = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """List the runs that were recorded, the last one first.

    \b
    tao trace list
    tao trace list --thread ada
    tao trace list --all --since 7d --json | jq -r 'select(.state == "failed") | .run'
    """
    try:
        with opened(trace) as store:
            from taograph.trace.reading import entries, runs, summarize

            there = runs(store, thread=thread, graph=graph, since=since_when(since))
            shown = there[::-1] if every else there[::-1][:_MOST]
            found = [(run, summarize(entries(store, run))) for run in shown]
    except NothingRecorded as nothing:
        if not json:
            say(f"No run has been recorded yet: {nothing.fixes[0]}.")
        return 0
    if json:
        for run, summary in found:
            typer.echo(dumps({**_head(run), **summary.to_dict()}))
        return 0
    if not found:
        typer.echo("No run is recorded there.")
        return 0
    _show(found, [run.id for run in there])
    if len(there) > len(found):
        typer.echo(f"\n{count(len(there) - len(found), 'more run')}: tao trace list --all")
    return 0


def trace_show(  # noqa: PLR0917 - Typer calls it by keyword
    run: _Run = None,
    thread: OfThread = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, on a terminal too.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show texts whole, and every call of the model.")
    ] = False,
) -> int:
    """Show what a run thought, did and saw, and what it cost; nested runs are indented.

    Where a step has several calls they are 1a, 1b and so on. A run that went on after an approval is shown whole; by
    the id of one of its traces, that part of it.

    \b
    tao trace show                       the last run
    tao trace show 70823d0e
    tao trace show --thread ada          all runs of a thread
    tao trace show last --json | jq '.events[] | select(.type == "action")'
    """
    with opened(trace) as store:
        from taograph.trace.exporting import event_dict
        from taograph.trace.reading import entries, summarize

        for place, each in enumerate(runs_named(store, run, thread=thread)):
            events = [*entries(store, each)]
            if json:
                told = {**_head(each), **summarize(events).to_dict(), "events": [event_dict(event) for event in events]}
                typer.echo(dumps({**told, "event_count": len(events)}))
                continue
            if place:
                typer.echo("")
            Trajectory(wraps=on_terminal(sys.stdout) and not plain, verbose=verbose).tell(each, events)
    return 0


def trace_export(  # noqa: PLR0917 - Typer calls it by keyword
    run: _Run = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="NAME",
            help='"jsonl", an event a line, "markdown", a report, or "otel", spans in OTLP/JSON.',
        ),
    ] = "jsonl",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; no file is overwritten."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", "-a", help="All runs, the oldest first.")] = False,
    thread: OfThread = None,
    graph: OfGraph = None,
    since: Since = None,
    trace: Url = None,
) -> int:
    """Write runs as JSON lines, with all that it takes to verify them, as a report in Markdown, or as spans.

    With --all, --graph or --since all those runs are written; else one, or those of --thread.

    \b
    tao trace export last > run.jsonl
    tao trace export 70823d0e --format markdown -o report.md
    tao trace export last -f otel | curl -H 'Content-Type: application/json' -d @- http://localhost:4318/v1/traces
    tao trace export --all --since 30d | gzip > november.jsonl.gz
    """
    many = every or graph is not None or since is not None
    if many and run is not None:
        raise typer.BadParameter("give a run, or --all, --graph or --since, not both", param_hint="RUN")
    with opened(trace) as store:
        from taograph.trace.exporting import FORMATS
        from taograph.trace.reading import runs

        if format not in FORMATS:
            raise typer.BadParameter(f"{format!r} is none: one of {', '.join(FORMATS)}", param_hint="--format")
        found = (
            runs(store, thread=thread, graph=graph, since=since_when(since))
            if many
            else runs_named(store, run, thread=thread)
        )
        with _output(output) as out:
            for each in found:
                for part in FORMATS[format](store, each):
                    out.write(part)
    if output is not None:
        say(f"{count(len(found), 'run')} written to {output}.")
    return 0


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """Where an export goes; a file is for its owner only, as the trace is."""
    if path is None:
        yield sys.stdout
        return
    try:
        file = os.open(path.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CommandError(f"{path} is there already", fixes=("name another with --output",), code=2) from None
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror or error}") from error
    with open(file, "w", encoding="utf-8") as out:
        yield out


def _head(run: Run) -> dict[str, Any]:
    first, last = run.traces[0], run.traces[-1]
    return {
        "run": run.id,
        "traces": [each.trace for each in run.traces],
        "graph": run.graph,
        "thread": run.thread,
        "user": run.user,
        "started": first.started,
        "last": last.last,
        "delete_on": max((each.delete_on for each in run.traces if each.delete_on), default=None),
    }


def _show(found: list[tuple[Run, Summary]], everything: list[str]) -> None:
    """A run a line; on a terminal, questions are cut to the room that is left."""
    narrow = on_terminal(sys.stdout)
    short = kept.shortened(everything) if narrow else {}
    names = ("run", "began", "graph", "steps", "outcome", "question")
    rows = [
        (
            one_line(short.get(run.id, run.id), 80),
            f"{datetime.fromisoformat(run.started).astimezone():{'%m-%d %H:%M' if narrow else '%Y-%m-%d %H:%M'}}",
            one_line(run.graph, 40),
            f"{summary.steps:,}",
            outcome(summary),
        )
        for run, summary in found
    ]
    taken = sum(2 + max(map(len, column)) for column in zip(names, *rows, strict=False))
    room = max(10, console().width - taken - 2) if narrow else 160
    shown = table(*names)
    for row, (_, summary) in zip(rows, found, strict=True):
        shown.add_row(*row, one_line(summary.question, room))
    show(shown)
