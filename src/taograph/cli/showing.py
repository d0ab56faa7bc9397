"""`tao threads show`: what is in a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taograph.cli import kept
from taograph.cli.console import show, table
from taograph.cli.endings import option_of
from taograph.cli.options import ThreadId, Verbose, renderer_for
from taograph.cli.reading import Reader
from taograph.cli.render import PlainRenderer
from taograph.cli.settings import Settings
from taograph.cli.standing import Standing
from taograph.cli.text import one_line
from taograph.cli.transcript import in_a_line, told
from taograph.cli.waiting import in_words, listing, ways
from taograph.cli.words import cost_line, count, stop_line
from taograph.redaction import redact

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot


def threads_show(  # noqa: PLR0917 - Typer calls it by keyword
    thread: ThreadId,
    history: Annotated[
        bool, typer.Option("--history", help="Its checkpoints instead: the steps that `tao threads fork` goes back to.")
    ] = False,
    checkpoints: kept.Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, on a terminal too.")] = False,
    verbose: Verbose = False,
) -> int:
    """Show a thread: its questions, thoughts, actions, observations and answers, and what it waits for.

    \b
    tao threads show ada
    tao threads show ada --history
    tao threads show ada --json | jq '.events[] | select(.type == "action")'
    """
    with kept.opened(checkpoints, must_exist=True) as saver:
        reader = Reader(saver)
        id = kept.thread_named(saver, thread)
        snapshot, standing, settings = reader.snapshot(id), reader.standing(id), reader.settings(id)
        states = [*reader.history(id)] if history else []
    events = [*told(snapshot.values.get("messages") or [])]
    if json:
        shown = {
            "thread": id,
            **standing.to_dict(),
            "checkpoint": _id(snapshot),
            "settings": settings.to_dict(),
            "events": events,
        }
        if history:
            shown["history"] = [_plain(state) for state in states]
        typer.echo(dumps(shown, default=str))
        return 0
    if history:
        _show_history(states)
        return 0
    renderer = renderer_for(json=False, plain=plain, verbose=verbose)
    assert isinstance(renderer, PlainRenderer)  # noqa: S101 - the only other one is for JSON
    _show(renderer, id, snapshot, standing, settings)
    for event in events:
        renderer.told(event)
    if standing.stop and standing.state != "answered":
        renderer.line("Stop", stop_line(standing.stop["reason"], redact(standing.stop["detail"]), standing.steps))
    if standing.spent:
        renderer.line("Cost", cost_line(standing.spent, priced=bool(standing.spent["cost"]) or None))
    for line in _next(id, standing, checkpoints):
        typer.echo(line)
    return 0


def _show(
    renderer: PlainRenderer, thread: str, snapshot: StateSnapshot, standing: Standing, settings: Settings
) -> None:
    used = f"used {_time(snapshot)}" if snapshot.created_at else "not used yet"
    renderer.line("Thread", f"{thread} · {standing.in_words()} · {count(standing.total, 'step')} · {used}")
    said = settings.to_dict()
    limits = said.pop("limits", {})
    given = [f"--{name} {value}" for name, value in said.items()]
    given += [f"{option_of(name)} {value}" for name, value in limits.items()]
    if given:
        renderer.line("Options", one_line(redact(" ".join(given)), 400))


def _next(thread: str, standing: Standing, url: str | None) -> Iterator[str]:
    """What can be done with a thread, as it stands."""
    if standing.waiting:
        yield f"\nIt waits for {in_words(standing.waiting)}:"
        yield from listing(standing.waiting)
        yield "To answer:"
        yield from (f"  {way}" for way in ways(thread, standing.waiting, url))
    elif standing.open:
        yield f"\nTo go on: {kept.command('resume', thread, url=url)}"


def _show_history(states: Sequence[StateSnapshot]) -> None:
    shown = table("step", "checkpoint", "time", "next", "what came last")
    for state in states:
        last = [*told((state.values.get("messages") or [])[-1:])]
        shown.add_row(
            f"{(state.metadata or {}).get('step', '')}",
            _id(state),
            _time(state),
            ", ".join(dict.fromkeys(state.next)).replace("__start__", "start") or "the end",
            one_line("; ".join(map(in_a_line, last)), 120),
        )
    show(shown)


def _plain(state: StateSnapshot) -> dict[str, Any]:
    metadata = state.metadata or {}
    return {
        "checkpoint": _id(state),
        "step": metadata.get("step"),
        "source": metadata.get("source"),
        "time": state.created_at,
        "next": list(state.next),
        "messages": len(state.values.get("messages") or []),
    }


def _id(state: StateSnapshot) -> str:
    return str(state.config["configurable"].get("checkpoint_id", ""))


def _time(state: StateSnapshot) -> str:
    return f"{datetime.fromisoformat(state.created_at or '').astimezone():%Y-%m-%d %H:%M:%S}"
