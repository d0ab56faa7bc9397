"""`tao trace verify`, `purge` and `erase`: whether the record is whole, and what of it is deleted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.console import say, show, table
from taograph.cli.errors import CommandError
from taograph.cli.options import a_name
from taograph.cli.text import one_line
from taograph.cli.trace_store import NothingRecorded, Url, opened, run_named
from taograph.cli.words import count

if TYPE_CHECKING:
    from taograph.trace.stores import Kept

EXIT_CHANGED = 3
_MOST = 50
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it; without this, only what would be done is shown.")]


def _a_hash(value: str | None) -> str | None:
    if value is not None and re.fullmatch("[0-9a-fA-F]{64}", value.strip()) is None:
        raise typer.BadParameter("it is no hash: give the 64 characters that `tao trace verify` printed as the head")
    return None if value is None else value.strip().lower()


def trace_verify(
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HASH", callback=_a_hash, help="The head of the log, as you noted it earlier."),
    ] = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Find out whether anything was changed, removed, inserted or moved since it was recorded, and what first.

    Looks at every event and at the log, and at the signatures if TAOGRAPH_TRACE_KEY is set. Prints the head of the
    log: note it where nobody can change it who can change the trace, and give it with --head later. Without it, who
    can write to the store and has no need of a key could make the whole record anew.

    Exit status: 0 nothing was changed, 3 something was, 2 wrong usage, 1 error.

    \b
    tao trace verify
    tao trace verify --head 5e7c…  (all 64 characters)
    """
    from taograph.trace.verifying import verify

    secret = _key()
    with opened(trace) as store:
        report = verify(store, secret, head)
    if json:
        faults = [
            {"where": each.where, "trace": each.trace, "number": each.number, "what": each.what, "detail": each.detail}
            for each in report.faults
        ]
        notices = [{"trace": each.trace, "text": each.text} for each in report.notices]
        counts = {"traces": report.traces, "events": report.events, "records": report.records}
        typer.echo(dumps({"ok": report.ok, **counts, "head": report.head, "faults": faults, "notices": notices}))
        return 0 if report.ok else EXIT_CHANGED
    looked = f"{count(report.events, 'event')} of {count(report.traces, 'trace')}"
    typer.echo(f"{looked}, {count(report.records, 'record')} of the log{', signatures too' if secret else ''}.")
    for fault in report.faults[:_MOST]:
        typer.echo(f"  ✗ {fault}")
    if len(report.faults) > _MOST:
        typer.echo(f"  and {len(report.faults) - _MOST:,} more; --json names them")
    for notice in report.notices[:_MOST]:
        typer.echo(f"  – {notice}")
    if len(report.notices) > _MOST:
        typer.echo(f"  and {len(report.notices) - _MOST:,} more of this kind; --json has them")
    typer.echo("Nothing was changed." if report.ok else "The record is not as it was written.")
    typer.echo(f"Head: {report.head}")
    if report.ok and head is None:
        say("Note the head elsewhere; later: tao trace verify --head HASH")
    return 0 if report.ok else EXIT_CHANGED


def trace_purge(yes: _Yes = False, trace: Url = None) -> int:
    """Delete the traces whose date has come. What is left of each is a line in the log: how many events, which hash.

    The date is set when a run begins: 190 days later, or TAOGRAPH_TRACE_DAYS. A run that may still go on is left to
    the next time. Run this every day.

    \b
    tao trace purge              which these are
    tao trace purge --yes        delete them
    """
    from taograph.trace.retention import purge

    try:
        with opened(trace, writes=yes) as store:
            found = purge(store, dry_run=not yes, key=_key())
    except NothingRecorded as nothing:
        say(f"No run has been recorded yet: {nothing.fixes[0]}.")
        return 0
    _tell(found, "purged" if yes else "", "would be deleted")
    return 0


def trace_erase(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="How the id of a run begins.", show_default=False),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", callback=a_name, help="All runs of this thread.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", callback=a_name, help="All runs that were for this user.")
    ] = None,
    yes: _Yes = False,
    trace: Url = None,
) -> int:
    """Erase what was recorded of a run, of a thread or of a user, as when a person asks for it.

    What was said, the thread and the user go; that so many events of these types happened, and when, stays, so that
    the record still verifies. What the runs of others say of a person is not found by this.

    \b
    tao trace erase --user 4711             which runs these are
    tao trace erase --user 4711 --yes       erase them
    tao trace erase 70823d0e --yes
    """
    from taograph.trace.retention import erase

    if run is None and thread is None and user is None:
        raise typer.BadParameter("say whose: a run, --thread ID or --user ID", param_hint="RUN")
    with opened(trace, writes=yes) as store:
        whole = run_named(store, run).traces[0].run if run is not None else None
        if run is not None and not whole:
            raise typer.BadParameter(f"what was recorded of {run!r} is erased already", param_hint="RUN")
        found = erase(store, thread=thread, user=user, run=whole, dry_run=not yes, key=_key())
    _tell(found, "erased" if yes else "", "would be erased")
    return 0


def _key() -> bytes | None:
    from taograph.trace.configured import key

    try:
        return key()
    except ValueError as error:
        raise CommandError(str(error), code=2) from error


def _tell(found: Sequence[Kept], done: str, would: str) -> None:
    """Say what was done, or what would be."""
    if not found:
        typer.echo("There is none.")
        return
    shown = table("trace", "began", "delete on", "events", "graph", "thread")
    for each in found[:_MOST]:
        began = f"{datetime.fromisoformat(each.started).astimezone():%Y-%m-%d %H:%M}"
        names = (one_line(each.graph, 40), one_line(each.thread or "", 80))
        shown.add_row(each.trace, began, each.delete_on or "never", f"{each.count:,}", *names)
    if not done:
        show(shown)
        if len(found) > _MOST:
            typer.echo(f"and {len(found) - _MOST:,} more")
        typer.echo("")
    typer.echo(
        f"{count(len(found), 'trace')} {done}." if done else f"{count(len(found), 'trace')} {would}; --yes does it."
    )
