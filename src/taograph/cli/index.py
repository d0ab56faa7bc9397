"""`tao index FOLDER`: make a folder's documents searchable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.console import console, on_terminal, say
from taograph.cli.errors import CommandError
from taograph.cli.text import one_line
from taograph.cli.words import count

if TYPE_CHECKING:
    from taograph.tools.engines.document_index import OnFile

# Where there is no terminal: a line for so many files.
_EVERY_FILES = 100


def index(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of documents.")],
) -> int:
    """Index a folder of documents (.md, .txt, .html, .pdf, .docx) for `tao run --docs FOLDER`.

    Only what has changed since the last time is read again. A file that can't be read is named and stops
    nothing. Exit status: 1 when no document could be read.

    \b
    tao index ~/notes
    """
    if not folder.expanduser().is_dir():
        raise typer.BadParameter(f"{folder} is not a folder: give one that exists", param_hint="FOLDER")
    from taograph.tools.documents import index_folder
    from taograph.tools.engines.document_index import IndexUnavailable

    try:
        with indexing() as on_file:
            report = index_folder(folder.expanduser(), on_file=on_file)
    except IndexUnavailable as error:
        raise CommandError(str(error)) from error
    parts = [f"{report.added:,} new", f"{report.updated:,} changed", f"{report.unchanged:,} unchanged"]
    if report.removed:
        parts.append(f"{report.removed:,} gone")
    there = report.added + report.updated + report.unchanged
    typer.echo(f"{count(there, 'document')} in the index: {', '.join(parts)}.")
    if report.failed:
        typer.echo(f"{count(len(report.failed), 'file')} could not be read:")
        for name, reason in report.failed:
            typer.echo(f"  {one_line(name, 200)}: {one_line(reason, 300)}")
    if not there:
        raise CommandError(
            f"there is nothing to search in {folder}",
            fixes=("put .md, .txt, .html, .pdf or .docx files there; `tao doctor` says which readers are missing",),
        )
    return 0


@contextmanager
def indexing() -> Iterator[OnFile]:
    """Show on stderr which file is being read."""
    if not on_terminal(sys.stderr):

        def line(name: str, number: int, total: int) -> None:
            if number == 1 or number % _EVERY_FILES == 0:
                say(f"reading file {number:,} of {total:,}")

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("Reading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}", markup=False),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None, name="")

        def show(name: str, number: int, total: int) -> None:
            bars.update(task, completed=number - 1, total=total, name=one_line(name, 60))

        yield show
