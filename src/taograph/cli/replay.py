"""`tao replay`: a recorded run once more, on what models and tools said then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taograph.cli.console import on_terminal
from taograph.cli.errors import CommandError, sentence
from taograph.cli.text import clean, one_line, shorten
from taograph.cli.trace_store import RunId, Url, opened, run_named
from taograph.cli.trace_text import Trajectory
from taograph.cli.words import STOPPED, count

if TYPE_CHECKING:
    from taograph.trace.replaying import Difference, Replay

EXIT_SAME, EXIT_DIFFERS, EXIT_CANNOT = 0, 1, 2
_CHARS, _LINES = 400, 6


def replay(  # noqa: PLR0917 - Typer calls it by keyword
    run: RunId = "last",
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            "-c",
            metavar="WHAT=VALUE",
            help="What is to be otherwise: limits.steps=5, system_prompt=…, window=…, observation:STEP.N=…, "
            "observation:CALL_ID=…, reply:STEP=…, model.OPTION=…; may be given several times.",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(
            "--graph",
            "-g",
            metavar="MODULE:OBJECT",
            help="The graph, or a function that makes it, where the record can't tell what it is made of.",
            show_default="made from the record",
        ),
    ] = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, on a terminal too.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what the replay did, and texts whole.")
    ] = False,
) -> int:
    """Run a recorded run again, on the recorded replies and results, and say whether all is the same.

    No model is asked, no tool is called, nothing leaves the machine. With --change it shows what would have happened,
    up to where the record no longer covers it.

    Exit status: 0 all is the same, 1 something differs, 2 it can't be replayed.

    \b
    tao replay last
    tao replay 70823d0e --change limits.steps=5
    tao replay 70823d0e --change "observation:2.1=no such page"
    tao replay 70823d0e --graph my_agent.py:graph
    """
    try:
        with opened(trace) as store:
            from taograph.trace import replaying

            given = None if graph is None else _graph(graph)
            try:
                found = replaying.replay(store, run_named(store, run), graph=given, changes=change or ())
            except replaying.CannotReplayError as error:
                raise CommandError(f"the run can't be replayed: {error}", code=EXIT_CANNOT) from error
            except ValueError as error:
                raise typer.BadParameter(sentence(error), param_hint="--change" if change else "RUN") from error
    except CommandError as error:
        error.code = EXIT_CANNOT
        raise
    if json:
        typer.echo(dumps(found.to_dict()))
    else:
        _show(found, wraps=on_terminal(sys.stdout) and not plain, verbose=verbose)
    return EXIT_SAME if found.same else EXIT_DIFFERS


def _graph(name: str) -> Any:
    from taograph.tools.catalog import load_object

    try:
        return load_object(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--graph") from error


def _show(found: Replay, *, wraps: bool, verbose: bool) -> None:
    print(f"Run: {found.run} · {one_line(found.graph, 60)}")
    for each in found.changes:
        print(f"Change: {one_line(str(each), 200)}")
    if found.changes or verbose:
        from taograph.trace.reading import summarize

        events = found.entries()
        Trajectory(wraps=wraps, verbose=verbose).tell_steps(events, summarize(events))
    for line in (*_verdict(found, whole=verbose), *(f"Note: {clean(note)}" for note in found.notes)):
        print(line)


def _verdict(found: Replay, *, whole: bool) -> Iterator[str]:
    used = f"{found.used} of {count(found.recorded, 'recorded reply').replace('replys', 'replies')} used"
    if found.same:
        what = "the change makes no difference" if found.changes else "nothing differs from the record"
        yield f"Same: {count(found.turns, 'step')}, {used}; {what}."
        return
    end = found.uncovered
    if found.difference is not None and not (found.changes and end is not None):
        yield from _difference(found.difference, whole=whole)
    if end is None:
        yield f"The record covers the whole of it: {used}."
        return
    turns = f"The record covers {found.covered} of the {count(found.turns, 'step')} ({used})"
    if found.stop is not None:
        why = STOPPED.get(str(found.stop["reason"]), str(found.stop["reason"]))
        yield f"The run would end there: {why} ({one_line(str(found.stop['detail']), 200)})."
        yield f"{turns}: its closing answer is not recorded, so what it would be is not known."
        return
    where = f" in {'/'.join(end.task)}" if len(end.task) > 1 else ""
    what = "it ends" if end.recorded is None else "the request differs"
    yield f"{turns}; at step {end.step}{where} {what}: {one_line(end.why, 600)}."


def _difference(found: Difference, *, whole: bool) -> Iterator[str]:
    where = f" in {'/'.join(found.task)}" if len(found.task) > 1 else ""
    what = f"{found.type.replace('_', ' ')}{f', {found.field}' if found.field else ''}"
    yield f"Differs first at step {found.step}{where}: {what}"
    for side, value in (("recorded", found.recorded), ("replayed", found.replayed)):
        yield f"  {side}: {_value(value, whole=whole)}"


def _value(value: Any, *, whole: bool) -> str:
    if value is None:
        return "nothing"
    text = clean(value if isinstance(value, str) else dumps(value, ensure_ascii=False))
    head, cut = (text, False) if whole else shorten(text, chars=_CHARS, lines=_LINES)
    return head.replace("\n", "\n    ") + (f" (… {len(text):,} characters in all; -v shows them)" if cut else "")
