"""What is recorded where nobody says it in code: the variables ``TAOGRAPH_TRACE…``, read in one place.

=========================== ===========================================================================
``TAOGRAPH_TRACE``          Where traces are kept: ``sqlite:///path``, ``postgresql://…``, ``jsonl:folder``;
                            ``none`` records nothing.
``TAOGRAPH_TRACE_DAYS``     Days after which a trace is to be deleted; 190 by default, ``none`` for never.
``TAOGRAPH_TRACE_CONTENT``  ``0`` records shapes, sizes and hashes in the place of content.
``TAOGRAPH_TRACE_REDACT``   ``0`` takes out secrets only; by default personal data are taken out, too.
``TAOGRAPH_TRACE_KEY``      What the chain is signed with: 16 bytes or more.
``TAOGRAPH_TRACE_ON_ERROR`` ``warn`` (by default) or ``stop``: what happens where an event can't be written.
=========================== ===========================================================================
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from taograph import trace
from taograph.folders import data_folder
from taograph.trace.settings import Redact, Settings

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.runnables import Runnable

log = logging.getLogger("taograph.trace")

WHERE, DAYS, CONTENT, REDACT, KEY, ON_ERROR = (
    "TAOGRAPH_TRACE",
    "TAOGRAPH_TRACE_DAYS",
    "TAOGRAPH_TRACE_CONTENT",
    "TAOGRAPH_TRACE_REDACT",
    "TAOGRAPH_TRACE_KEY",
    "TAOGRAPH_TRACE_ON_ERROR",
)
_OFF = ("none", "off", "no", "0", "false")
_ON = ("1", "on", "yes", "true")

G = TypeVar("G", bound="Runnable[Any, Any]")


@dataclass(frozen=True, slots=True)
class Configured:
    """What is to be recorded.

    Attributes:
        url: Where to.
        settings: What, and how.
    """

    url: str
    settings: Settings

    def in_words(self) -> list[str]:
        """What is recorded, and how, in a few words each."""
        settings = self.settings
        days = settings.keep_days
        what = "without secrets" if settings.redactor is None else "without secrets and personal data"
        return [
            "kept for ever" if days is None else f"kept {days} days",
            what if settings.content else "sizes and hashes only",
            *(["signed"] if settings.key else []),
        ]


def configuration(given: str | None = None, *, default: str | None = None) -> Configured | None:
    """What is to be recorded; None for nothing.

    Args:
        given: Where traces are kept, or "none", where that was said with an option; else ``TAOGRAPH_TRACE`` says it.
        default: Where they are kept if nothing says it; None for nowhere.

    Raises:
        ValueError: A variable can't be read; the message names it.
    """
    said = (given or os.environ.get(WHERE, "")).strip()
    url = default if not said else None if is_off(said) else said
    if url is None:
        return None
    made = Configured(url, settings())
    trace.check_url(url)
    return made


def configured(given: str | None = None, *, default: str | None = None) -> Sequence[BaseCallbackHandler] | None:
    """What records a run, for ``config={"callbacks": […]}``; None for nothing. Nothing is opened yet.

    Args:
        given: As :func:`configuration`.
        default: As :func:`configuration`.

    Raises:
        ValueError: As :func:`configuration`.
    """
    found = configuration(given, default=default)
    return None if found is None else trace.handlers(found.url, settings=found.settings)


def recorded(graph: G, *, default: str | None = None) -> G:
    """A graph that a server loads: recorded where the variables say so, else as it is.

    Variables that can't be read are told once, and the graph is not recorded; where ``TAOGRAPH_TRACE_ON_ERROR`` is
    "stop", they keep the graph from being loaded.

    Args:
        graph: Any graph.
        default: As :func:`configuration`.

    Raises:
        ValueError: As said.
    """
    try:
        handlers = configured(default=default)
    except ValueError as error:
        if stops():
            raise
        log.warning("runs of %s are not recorded: %s", getattr(graph, "name", "a graph"), error)
        return graph
    if handlers is None:
        return graph
    made: G = graph.with_config({"callbacks": list(handlers)})  # type: ignore[assignment]
    return made


def is_off(said: str) -> bool:
    """Whether what says where traces are kept says that there are none."""
    return said.strip().lower() in _OFF


def stops() -> bool:
    """Whether a run is to be stopped that can't be recorded."""
    return os.environ.get(ON_ERROR, "").strip().lower() == "stop"


def own_url() -> str:
    """The user's own file of traces."""
    return f"sqlite:///{quote(str(data_folder() / 'traces.sqlite'), safe='/:' + os.sep)}"


def key() -> bytes | None:
    """What the chain is signed with.

    Raises:
        ValueError: It is too short.
    """
    said = os.environ.get(KEY, "").strip().encode()
    if said and len(said) < 16:
        raise ValueError(f"{KEY}: it has {len(said)} bytes: give 16 or more, as `openssl rand -hex 32` makes them")
    return said or None


def settings() -> Settings:
    """What is recorded, and how, by the variables.

    Raises:
        ValueError: One can't be read; the message names it.
    """
    on_error = os.environ.get(ON_ERROR, "").strip().lower() or "warn"
    if on_error not in ("warn", "stop"):
        raise ValueError(f'{ON_ERROR}={on_error!r}: write "warn" or "stop"')
    return Settings(
        redactor=_redactor() if _switch(REDACT, default=True) else None,
        content=_switch(CONTENT, default=True),
        keep_days=_days(),
        key=key(),
        on_error=on_error,  # type: ignore[arg-type]
    )


@cache
def _redactor() -> Redact:
    from taograph.trace.redaction import Redactor

    return Redactor()


def _days() -> int | None:
    said = os.environ.get(DAYS, "").strip().lower()
    if said in ("none", "never"):
        return None
    if said and not said.isdecimal():
        raise ValueError(f'{DAYS}={said!r}: write whole days, 0 or more, or "none" for never')
    return int(said) if said else Settings.keep_days


def _switch(name: str, *, default: bool) -> bool:
    said = os.environ.get(name, "").strip().lower()
    if said and said not in (*_ON, *_OFF):
        raise ValueError(f"{name}={said!r}: write 1 or 0")
    return said in _ON if said else default
