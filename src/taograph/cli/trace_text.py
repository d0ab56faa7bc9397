"""A recorded run as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from taograph.cli.console import console
from taograph.cli.render import OBSERVATION_CHARS, OBSERVATION_LINES
from taograph.cli.text import clean, one_line, shorten
from taograph.cli.words import STOPPED, cost_line, count, limits_line

if TYPE_CHECKING:
    from taograph.trace.chain import Entry
    from taograph.trace.reading import Run, Summary

_STATES = {"open": "no end recorded", "waiting": "waits for a person", "drained": "to be gone on with"}
_OPEN = "without an end: it runs, or was cut off"
# What is shown whole, however long it is.
_WHOLE = frozenset(("answer", "stop", "plan", "vote", "block"))


def outcome(summary: Summary) -> str:
    """How a run stands, in a few words."""
    match summary.state:
        case "stopped":
            return one_line(summary.reason, 40).replace("_", " ")
        case "failed":
            return f"failed: {one_line(summary.reason, 60)}"
        case state:
            return _STATES.get(state, state)


class Trajectory:
    """Prints a run: what is known of it, its steps, what it cost.

    Every line of a text but its first is indented, so that no text can pass for a line of ours.

    Args:
        wraps: Break long lines where the terminal ends, with their indentation, and set labels off.
        verbose: Show texts whole, and every call of the model.
    """

    def __init__(self, *, wraps: bool, verbose: bool) -> None:
        self._wraps, self._verbose = wraps, verbose

    def tell(self, run: Run, events: Sequence[Entry]) -> None:
        """Print it.

        Args:
            run: The run.
            events: All its events.
        """
        from taograph.trace.reading import summarize

        summary = summarize(events)
        for label, text in _head(run, summary, events):
            self._line(label, text)
        if summary.state == "erased":
            self._line("Erased", f"what {count(len(events), 'event')} said; that they were, and when, is left")
            return
        self.tell_steps(events, summary)
        if summary.state == "open":
            self._line("Stop", _OPEN)
        if events:
            self._line("Cost", cost_line(summary.spent, priced=bool(summary.spent["cost"]) or None))

    def tell_steps(self, events: Sequence[Entry], summary: Summary) -> None:
        """Print the steps alone.

        Args:
            events: The events.
            summary: What they came to.
        """
        from taograph.trace.showing import lines

        for line in lines(events, verbose=self._verbose):
            label = f"↳ {line.label}" if line.kind == "block" else line.label
            text = line.text
            if line.kind == "stop" and not line.depth:
                text = _stop(summary)
            elif not self._verbose and line.kind not in _WHOLE:
                text = _shortened(text)
            self._line(label, text, line.depth)

    def _line(self, label: str, text: str, depth: int = 0) -> None:
        first, *rest = clean(text).strip("\n").split("\n")
        indent = "  " * depth
        said = [f"{label}: {first}" if first or rest else label, *rest]
        if not self._wraps:
            print("\n".join(f"{indent}{'    ' if place else ''}{each}".rstrip() for place, each in enumerate(said)))
            return
        from rich.text import Text

        out = console()
        narrow = max(20, out.width - len(indent) - 4)
        for place, each in enumerate(said):
            whole = Text(each)
            if not place:
                whole.stylize("bold", 0, len(label))
            for number, part in enumerate(whole.wrap(out, narrow)):
                hang = "    " if place or number else ""
                out.print(Text(indent + hang).append_text(part), soft_wrap=True)


def _head(run: Run, summary: Summary, events: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    began = f"{datetime.fromisoformat(run.started).astimezone():%Y-%m-%d %H:%M:%S}"
    graph = [one_line(run.graph, 60)] if run.graph else []
    yield "Run", " · ".join([run.id, *graph, outcome(summary), count(summary.steps, "step"), began])
    whose = [f"{name} {one_line(value, 80)}" for name, value in (("thread", run.thread), ("user", run.user)) if value]
    if whose:
        yield "Of", " · ".join(whose)
    if summary.models:
        yield "Model", ", ".join(one_line(name, 200) for name in summary.models)
    start = next((event.content for event in events if event.type == "run_started" and event.content), {})
    limits: Any = start.get("limits")
    if isinstance(limits, Mapping):  # numbers, in a record that nobody changed
        yield "Limits", limits_line({name: value for name, value in limits.items() if isinstance(value, int | float)})


def _stop(summary: Summary) -> str:
    said = STOPPED.get(summary.reason, one_line(summary.reason, 40).replace("_", " ")) + f" at step {summary.steps}"
    return said if summary.reason == "final" else f"{said}: {one_line(summary.detail, 300)}"


def _shortened(text: str) -> str:
    head, cut = shorten(text, chars=OBSERVATION_CHARS, lines=OBSERVATION_LINES)
    return f"{head}\n(… {len(text):,} characters in all; -v shows them)" if cut else text
