"""How a command that runs something ends: its exit status, and what a person can do next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taograph.cli.ask import Unanswered
from taograph.cli.console import say
from taograph.cli.errors import CommandError
from taograph.cli.kept import command
from taograph.cli.standing import RAISES
from taograph.cli.waiting import in_words, listing, ways

if TYPE_CHECKING:
    from taograph.writers import ThreadBusyError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is kept.

    Attributes:
        thread: The thread's id.
        url: Where threads are kept, as it was said; None for the user's own file.
        kept: Whether it is kept at all.
    """

    thread: str
    url: str | None
    kept: bool = True


EXIT_FINAL, EXIT_ERROR, EXIT_STOPPED, EXIT_WAITS, EXIT_BUSY, EXIT_DRAINED = 0, 1, 3, 4, 5, 143


def exit_code(reason: str | None) -> int:
    """The exit status for a stop reason; None where the run told none."""
    if reason == "final":
        return EXIT_FINAL
    return EXIT_ERROR if reason in (None, "model_error") else EXIT_STOPPED


def say_what_waits(place: Place, unanswered: Unanswered) -> int:
    """Say what stays open and how it can be answered; returns the exit status."""
    waiting = unanswered.waiting
    how = "Left open" if unanswered.left else "Nobody can answer here"
    say(f"{how}: thread {place.thread!r} waits for {in_words(waiting)}.")
    for line in listing(waiting):
        say(line)
    say("To answer:")
    for way in ways(place.thread, waiting, place.url):
        say(f"  {way}")
    return 128 + unanswered.signal if unanswered.signal else EXIT_WAITS


def say_drained(place: Place) -> int:
    """Say that all is kept, and how to go on; returns the exit status."""
    say(f"Stopped by SIGTERM. All that was done is kept. To go on: {command('resume', place.thread, url=place.url)}")
    return EXIT_DRAINED


def say_how_to_go_on(place: Place, reason: str | None, budget: Mapping[str, Any] | None) -> None:
    """After a run that was stopped, and can be gone on with.

    Args:
        place: Where it is kept.
        reason: Why it was stopped.
        budget: Its last ``budget`` event.
    """
    from taograph.graphs.loop.beginning import GOES_ON

    if reason not in GOES_ON:
        return
    raised: tuple[str, ...] = ()
    if budget is not None and reason in RAISES:
        raised = raise_of(RAISES[reason], budget["limits"], budget["spent"], budget["steps"])
    say(f"To go on: {command('resume', place.thread, *raised, url=place.url)}")


def option_of(limit: str) -> str:
    """The option that sets a limit."""
    return "--" + limit.replace("_", "-")


def raise_of(limit: str, limits: Mapping[str, Any], spent: Mapping[str, Any], steps: int) -> tuple[str, str]:
    """The option that raises a limit, with a value that is enough for as much again."""
    used = {
        "steps": steps,
        "tool_calls": spent["tool_calls"],
        "seconds": spent["seconds"],
        "tokens": spent["input_tokens"] + spent["output_tokens"],
        "cost": spent["cost"],
    }[limit]
    enough = 2 * max(limits.get(limit) or 0, used)
    if isinstance(enough, float):
        digits = 3 - math.ceil(math.log10(enough)) if enough > 0 else 0
        enough = math.ceil(enough * 10**digits) / 10**digits
    return option_of(limit), f"{enough:.10g}"


def in_use(error: ThreadBusyError, *, waits: bool = True) -> CommandError:
    """What to say where another run has the thread.

    Args:
        error: Which.
        waits: Whether the command can wait for that run, or end it.
    """
    who = f"process {error.pid} on {error.host}" if error.pid else "another run"
    since = f", since {error.since.astimezone():%Y-%m-%d %H:%M:%S}" if error.since else ""
    return CommandError(
        f"thread {error.thread!r} is in use by {who}{since}",
        fixes=(
            "wait until that run has ended, or let this one wait: --if-busy enqueue",
            "--if-busy interrupt ends that run with what it has, then does this",
        )
        if waits
        else ("wait until that run has ended, or end it",),
        code=EXIT_BUSY,
    )
