"""Figures over many runs: how they ended, how long they took, what they cost, which tools they called."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from taograph.trace.chain import Entry
from taograph.trace.reading import Summary, number_in, summarize

_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")


@dataclass
class Tool:
    """A tool.

    Attributes:
        calls: How often it was called.
        errors: How often what it returned was an error.
        seconds: What each call took.
    """

    calls: int = 0
    errors: int = 0
    seconds: list[float] = field(default_factory=list)


@dataclass
class Stats:
    """Figures over runs.

    Attributes:
        runs: How many there are.
        erased: How many more there are of which nothing is known any more.
        states: How they stand.
        reasons: Why they ended, where the graph tells it.
        steps: Turns of each.
        seconds: Active seconds of each.
        dollars: Cost of each.
        tokens: Tokens of each, both ways.
        totals: Calls, tokens and dollars of all.
        model_seconds: What each reply took.
        models: Replies and failures by the model's name.
        tools: Figures of each tool.
        failures: Failures of models and tools by their type.
        lost: Events that could not be written.
    """

    runs: int = 0
    erased: int = 0
    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    dollars: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    model_seconds: list[float] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)
    tools: dict[str, Tool] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    lost: int = 0

    def add(self, events: Sequence[Entry]) -> None:
        """Count a run.

        Args:
            events: All its events.
        """
        summary = summarize(events)
        if summary.state == "erased":
            self.erased += 1
            return
        self.runs += 1
        self._add_summary(summary)
        for event in events:
            told = event.content
            if told is None:
                continue
            if event.type == "model_replied":
                self.models[str(told.get("model") or "unnamed")] += 1
                self.model_seconds.append(number_in(told, "seconds"))
            elif event.type == "observation":
                tool = self.tools.setdefault(str(told.get("tool")), Tool())
                tool.calls += 1
                tool.errors += told.get("status") == "error"
                tool.seconds.append(number_in(told, "seconds"))

    def _add_summary(self, summary: Summary) -> None:
        self.states[summary.state] += 1
        if summary.reason:
            self.reasons[summary.reason] += 1
        spent = summary.spent
        self.steps.append(summary.steps)
        self.seconds.append(spent["seconds"])
        self.dollars.append(spent["cost"])
        self.tokens.append(spent["input_tokens"] + spent["output_tokens"])
        for name in ("model_calls", "tool_calls", *_TOKENS):
            self.totals[name] += int(spent[name])
        self.failures.update(summary.failures)
        self.lost += summary.lost

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "runs": self.runs,
            "erased": self.erased,
            "states": dict(self.states),
            "reasons": dict(self.reasons),
            "steps": spread(self.steps),
            "seconds": spread(self.seconds),
            "tokens": spread(self.tokens),
            "cost": {**spread(self.dollars), "total": sum(self.dollars)},
            "totals": dict(self.totals),
            "models": dict(self.models),
            "model_seconds": spread(self.model_seconds),
            "tools": {
                name: {"calls": tool.calls, "errors": tool.errors, "seconds": spread(tool.seconds)}
                for name, tool in self.tools.items()
            },
            "failures": dict(self.failures),
            "lost": self.lost,
        }


def collect(runs: Iterable[Iterable[Entry]]) -> Stats:
    """Figures over runs; the events of one run at a time are held in memory.

    Args:
        runs: The events of each.
    """
    made = Stats()
    for events in runs:
        made.add([*events])
    return made


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """The median, the 95th percentile (between the nearest two, where it falls there) and the largest; None of none."""
    if not values:
        return {"median": None, "p95": None, "max": None}
    p95 = values[0] if len(values) == 1 else statistics.quantiles(values, n=20, method="inclusive")[-1]
    return {"median": statistics.median(values), "p95": p95, "max": max(values)}
