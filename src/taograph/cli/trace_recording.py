"""Recording the runs of a command: on by default, quiet, and never in the way of the run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from taograph.cli.console import say
from taograph.cli.errors import CommandError
from taograph.cli.text import clean
from taograph.redaction import redact

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler

    from taograph.trace.configured import Configured

Option = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="URL",
        help='Where the trace is kept (TAOGRAPH_TRACE): "sqlite:///path", "postgresql://…", "jsonl:folder" or "none".',
        show_default="a file of your own",
    ),
]


@dataclass(frozen=True, slots=True)
class Recording:
    """What a command was told of it.

    Attributes:
        given: The option, if it was given.
        verbose: Say where the trace is kept.
    """

    given: str | None = None
    verbose: bool = False

    @contextmanager
    def handlers(self) -> Iterator[list[BaseCallbackHandler]]:
        """What records a run, for its config; afterwards, what could not be written is said.

        Raises:
            typer.BadParameter: The option is no URL.
            CommandError: A variable can't be read or an event can't be written, and ``TAOGRAPH_TRACE_ON_ERROR`` is
                "stop".
        """
        found = self._configured()
        if found is None:
            with _telemetry_told():
                yield []
            return
        from taograph import trace

        if self.verbose:
            say(f"Trace: {redact(found.url)}")
        made = list(trace.handlers(found.url, settings=found.settings))
        writers = [each.writer for each in made if isinstance(each, trace.Recorder)]
        heard = _Heard()
        logger = logging.getLogger("taograph.trace")
        logger.addHandler(heard)
        try:
            with _telemetry_told():
                yield made
            for writer in writers:
                writer.flush()
        except trace.TraceError as error:
            fixes = ("name another place with --trace", "TAOGRAPH_TRACE_ON_ERROR=warn lets the run go on without it")
            raise CommandError(str(error), fixes=fixes) from error
        finally:
            for writer in writers:
                writer.close()
            logger.removeHandler(heard)
            for text in heard.texts:
                say(f"tao: {text}")

    def _configured(self) -> Configured | None:
        from taograph.trace.configured import configuration, own_url, stops

        try:
            return configuration(self.given, default=own_url())
        except ValueError as error:
            if self.given is not None and str(error).startswith("trace:"):
                raise typer.BadParameter(str(error), param_hint="--trace") from error
            if stops():
                raise CommandError(f"the run can't be recorded: {error}") from error
            say(f"tao: this run is not recorded: {error}")
            return None


@contextmanager
def _telemetry_told() -> Iterator[None]:
    """Afterwards, what waits to be sent to OpenTelemetry is sent, and what went wrong with that is said."""
    try:
        yield
    finally:
        telemetry = sys.modules.get("taograph.trace.telemetry")  # loaded by the graph, where it is asked for
        if telemetry is not None:
            telemetry.disable()
            for text in telemetry.problems():
                say(f"tao: {clean(text)}")


class _Heard(logging.Handler):
    """Keeps what the trace has to say until the run's own view is over; each text once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a text."""
        self.texts[clean(redact(record.getMessage()))] = None
