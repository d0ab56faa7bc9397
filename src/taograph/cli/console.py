"""The consoles, and what is told on stderr so that stdout stays the run's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


def on_terminal(stream: TextIO) -> bool:
    """Whether a live view can be shown there."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def console(*, stderr: bool = False) -> Console:
    """A console that prints texts as they are: no markup, no emoji codes, no guessed highlights."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if on_terminal(stream):
        return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    # Not wrapped at 80 where nobody looks, and no escape sequences whatever the environment says.
    return Console(
        stderr=stderr, markup=False, emoji=False, highlight=False, force_terminal=False, no_color=True, width=160
    )


def show(what: RenderableType) -> None:
    """Print a table or the like on stdout; without trailing spaces where it goes to a file or a pipe."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as shown:
        out.print(what)
    print("\n".join(line.rstrip() for line in shown.get().splitlines()))


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def status(text: str) -> Iterator[None]:
    """Say what takes its time: a spinner on a terminal, which goes away; a line elsewhere."""
    if not on_terminal(sys.stderr):
        say(text)
        yield
        return
    with console(stderr=True).status(text):
        yield


def table(*columns: str) -> Table:
    """A table without frames; its last column takes the room that is left."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column is columns[0])
    return made
