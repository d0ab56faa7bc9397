"""`tao trace diff` and `stats`: two runs beside each other, and figures over many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taograph.cli.console import show, table
from taograph.cli.errors import CommandError
from taograph.cli.text import clean, one_line, shorten
from taograph.cli.trace_store import OfGraph, OfThread, Since, Url, opened, run_named, since_when
from taograph.cli.trace_text import outcome
from taograph.cli.words import count, money

if TYPE_CHECKING:
    from taograph.trace.aligning import Alignment, Difference, Pair
    from taograph.trace.reading import Run, Summary
    from taograph.trace.stats import Stats

EXIT_SAME, EXIT_DIFFERENT, EXIT_CANNOT = 0, 1, 2
_MOST = 1_000
_One = Annotated[str, typer.Argument(metavar="A", help='How the id of a run begins, or "last".', show_default=False)]
_Other = Annotated[str, typer.Argument(metavar="B", help="The other.", show_default=False)]


def trace_diff(  # noqa: PLR0917 - Typer calls it by keyword
    a: _One,
    b: _Other,
    thread: OfThread = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every step that is not the same.")] = False,
) -> int:
    """Lay two runs beside each other, step by step, by what they did, and show where they first differ.

    Ids, times and what was spent are no differences; thoughts, actions, observations, answers and stops are.

    Exit status: 0 they are the same, 1 they differ, 2 that can't be known.

    \b
    tao trace diff 70823d0e 4f11ab90
    tao trace diff 70823d0e last -v
    """
    try:
        with opened(trace) as store:
            from taograph.trace.aligning import align
            from taograph.trace.reading import entries

            runs = [run_named(store, given, thread=thread) for given in (a, b)]
            found = align(*(entries(store, run) for run in runs))
    except CommandError as error:
        error.code = EXIT_CANNOT
        raise
    if json:
        typer.echo(dumps({"runs": [run.id for run in runs], **found.to_dict()}))
    else:
        _show_diff(runs, found, verbose=verbose)
    return {True: EXIT_SAME, False: EXIT_DIFFERENT, None: EXIT_CANNOT}[found.same]


def trace_stats(
    thread: OfThread = None,
    graph: OfGraph = None,
    since: Since = None,
    trace: Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """Figures over the runs that were recorded: steps, tools, errors, stop reasons, tokens, cost and time.

    The time of a run is what it was active: waiting for a person does not count. 95% says below what 95 of 100 are.

    \b
    tao trace stats
    tao trace stats --since 7d --graph react
    tao trace stats --json | jq .tools
    """
    with opened(trace) as store:
        from taograph.trace.reading import entries, runs
        from taograph.trace.stats import collect

        there = runs(store, thread=thread, graph=graph, since=since_when(since))
        found = collect(entries(store, run) for run in there)
    if json:
        typer.echo(dumps(found.to_dict()))
    elif there:
        _show_stats(found)
    else:
        typer.echo("No such run is recorded there.")
    return 0


def _show_diff(runs: list[Run], found: Alignment, *, verbose: bool) -> None:
    for name, run, summary in zip("AB", runs, (found.a, found.b), strict=True):
        typer.echo(f"{name}: {run.id} · {one_line(run.graph, 40)} · {one_line(summary.question, 100)}")
    if found.same is None:
        typer.echo(f"\nWhether they are the same can't be known: {found.unknown}.")
    elif found.same:
        typer.echo(f"\nThe same, from the question to the end: {count(found.count('same'), 'step')}.")
    for first, said in zip(_first(found), ("First difference", "Then"), strict=False):
        what = "" if first.where == f"the {first.what}" else f", {first.what}"
        if first.what == "step":
            what = f", which only {'A' if first.b is None else 'B'} has"
        typer.echo(f"\n{said}: {first.where}{what}")
        for name, text in (("A", first.a), ("B", first.b)):
            typer.echo(f"  {name}: {_told(text)}")
    typer.echo("")
    if verbose:
        for pair in found.pairs:
            for line in _pair(pair):
                typer.echo(line)
        typer.echo("")
    shown = table("", "A", "B")
    for label, one, other in _figures(found.a, found.b):
        shown.add_row(label, one, other)
    show(shown)
    if found.first is not None:
        kinds = {"same": "the same", "changed": "changed", "only_a": "only in A", "only_b": "only in B"}
        counts = {words: found.count(how) for how, words in kinds.items()}  # type: ignore[arg-type]
        typer.echo("\nSteps: " + ", ".join(f"{number} {words}" for words, number in counts.items()) + ".")


def _first(found: Alignment) -> Iterator[Difference]:
    """The first difference; and where that is the question, the first in what was done about it, too."""
    from taograph.trace.aligning import QUESTION

    for each in found.differences:
        yield each
        if each.where != QUESTION:
            return


def _pair(pair: Pair) -> Iterator[str]:
    if pair.how == "same":
        return
    where = " / ".join(each.name for each in (pair.a, pair.b) if each)
    yield f"{where}: {pair.how.replace('_', ' ').replace(' a', ' in A').replace(' b', ' in B')}"
    for name, moment, other in (("A", pair.a, pair.b), ("B", pair.b, pair.a)):
        for said in moment.said if moment else ():
            if other is None or said not in other.said:
                yield f"  {name}: {_told(f'{said[0]}: {said[1]}')}"


def _told(text: str | None) -> str:
    if text is None:
        return "nothing"
    head, cut = shorten(clean(text).strip("\n"), chars=_MOST, lines=20)
    return (head + (" …" if cut else "")).replace("\n", "\n     ")


def _figures(a: Summary, b: Summary) -> Iterator[tuple[str, str, str]]:
    yield "outcome", outcome(a), outcome(b)
    yield "model", ", ".join(a.models), ", ".join(b.models)
    yield "steps", f"{a.steps}", f"{b.steps}"
    for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens"):
        yield name.replace("_", " "), f"{a.spent[name]:,}", f"{b.spent[name]:,}"
    yield "cost", money(a.spent["cost"]), money(b.spent["cost"])
    yield "seconds", f"{a.spent['seconds']:.2f}", f"{b.spent['seconds']:.2f}"
    yield "answer", one_line(a.answer, 200), one_line(b.answer, 200)


def _show_stats(found: Stats) -> None:
    told = found.to_dict()
    typer.echo(f"{count(found.runs, 'run')}: {_counted(told['states'])}")
    if found.erased:
        typer.echo(f"{count(found.erased, 'more run')}, erased")
    if told["reasons"]:
        typer.echo(f"Stopped by: {_counted(told['reasons'])}")
    if told["failures"]:
        typer.echo(f"Failures: {_counted(told['failures'])}")
    if found.lost:
        typer.echo(f"{count(found.lost, 'event')} could not be written")
    totals, cost = told["totals"], told["cost"]
    calls = f"{count(totals.get('model_calls', 0), 'model call')}, {count(totals.get('tool_calls', 0), 'tool call')}"
    tokens = f"{totals.get('input_tokens', 0):,} tokens in, {totals.get('cached_tokens', 0):,} of them cached"
    typer.echo(f"In all: {calls}, {tokens}, {totals.get('output_tokens', 0):,} out, {money(cost['total'])}")
    shown = table("of each run", "median", "95%", "most")
    for label, name, digits in (("steps", "steps", 0), ("tokens", "tokens", 0), ("seconds", "seconds", 2)):
        shown.add_row(label, *_spread(told[name], digits))
    if cost["total"]:
        shown.add_row("dollars", *_spread(cost, 6))
    shown.add_row("seconds of a reply", *_spread(told["model_seconds"], 2))
    typer.echo("")
    show(shown)
    if told["tools"]:
        shown = table("tool", "calls", "errors", "median s", "95% s", "most s")
        for name, tool in sorted(told["tools"].items(), key=lambda each: -each[1]["calls"]):
            shown.add_row(one_line(name, 60), f"{tool['calls']:,}", f"{tool['errors']:,}", *_spread(tool["seconds"], 3))
        typer.echo("")
        show(shown)


def _counted(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    return ", ".join(f"{number:,} {one_line(name, 60).replace('_', ' ')}" for name, number in ordered)


def _spread(spread: Mapping[str, Any], digits: int) -> list[str]:
    values = (spread["median"], spread["p95"], spread["max"])
    return ["" if value is None else f"{value:,.{digits}f}" for value in values]
