"""Where the commands of `tao trace` read, and which runs a person means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.errors import CommandError
from taograph.cli.text import one_line
from taograph.redaction import redact

if TYPE_CHECKING:
    from taograph.trace.reading import Run
    from taograph.trace.stores import Store

VARIABLE = "TAOGRAPH_TRACE"
Url = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="URL",
        envvar=VARIABLE,
        help='Where traces are kept: "sqlite:///path", "postgresql://…" or "jsonl:folder".',
        show_default="a file of your own",
    ),
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help='How the id of a run or of a trace begins, or "last".', show_default="last")
]
OfThread = Annotated[str | None, typer.Option("--thread", metavar="ID", help="The runs of this thread.")]
OfGraph = Annotated[str | None, typer.Option("--graph", "-g", metavar="NAME", help="The runs of graphs of this name.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="The runs that began since then: 2026-11-30, or an age: 12h, 7d, 2w."),
]
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)")
_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class NothingRecorded(CommandError):  # noqa: N818 - what it says is no fault
    """The user has no trace yet."""

    def __init__(self) -> None:
        super().__init__("no run has been recorded yet", fixes=('tao run "…" records each run',))


@contextmanager
def opened(url: str | None, *, writes: bool = False) -> Iterator[Store]:
    """The store.

    Args:
        url: Where traces are kept; None, or "none", for the user's own file.
        writes: Whether something is to be written; else another process is not held up.

    Raises:
        NothingRecorded: There is no file of the user's own.
        typer.BadParameter: The URL is none.
        CommandError: There is nothing, or it can't be opened.
    """
    from taograph.trace.configured import is_off, own_url
    from taograph.trace.stores import open_store

    own = url is None or is_off(url)
    where = own_url() if url is None or own else url
    try:
        store = open_store(where, read_only=True)  # it is not made by looking at it
        if writes:
            store.close()
            store = open_store(where)
    except FileNotFoundError:
        if own:
            raise NothingRecorded from None
        raise CommandError(f"there is no trace at {redact(where)}", fixes=("name another with --trace",)) from None
    except OSError as error:
        raise CommandError(f"the trace can't be read: {error}", fixes=("name another with --trace",)) from error
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--trace ({VARIABLE})") from error
    try:
        yield store
    finally:
        store.close()


@contextmanager
def own_unless_named() -> Iterator[None]:
    """Let ``TAOGRAPH_TRACE`` name the user's own file where it names nothing: deleted threads take traces along."""
    from taograph.trace.configured import own_url

    if os.environ.get(VARIABLE, "").strip():
        yield
        return
    os.environ[VARIABLE] = own_url()
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def run_named(store: Store, given: str, *, thread: str | None = None) -> Run:
    """The run that a person means.

    Raises:
        typer.BadParameter: There is none, or more than one.
    """
    from taograph.trace.reading import NotFoundError, find, runs

    there = runs(store, thread=thread)
    if thread is not None and not there:
        raise typer.BadParameter(f"no run of thread {thread!r} is recorded", param_hint="--thread")
    try:
        return find(there, given)
    except NotFoundError as error:
        some = ", ".join(one_line(id, 60) for id in error.found[:5])
        more = f": {some}" if some else "; `tao trace list` names them" if there else ""
        raise typer.BadParameter(f"{error}{more}", param_hint="RUN") from error


def runs_named(store: Store, given: str | None, *, thread: str | None) -> list[Run]:
    """The runs that a person means: one, or all of a thread where none is named.

    Raises:
        typer.BadParameter: There is none, or more than one may be meant.
    """
    from taograph.trace.reading import LAST, runs

    if given is None and thread is not None:
        found = runs(store, thread=thread)
        if not found:
            raise typer.BadParameter(f"no run of thread {thread!r} is recorded", param_hint="--thread")
        return found
    return [run_named(store, given or LAST, thread=thread)]


def since_when(given: str | None) -> datetime | None:
    """A day, a time or an age as a time.

    Raises:
        typer.BadParameter: It can't be read.
    """
    if given is None:
        return None
    if found := _AGE.fullmatch(given.strip()):
        return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: float(found[1])})
    try:
        return datetime.fromisoformat(given.strip()).astimezone()
    except ValueError:
        raise typer.BadParameter(
            f"{given!r} can't be read: write a day, 2026-11-30, or an age: 12h, 7d, 2w", param_hint="--since"
        ) from None
