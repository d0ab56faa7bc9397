"""A recorded run as a replay needs it: its calls of the graph one after the other, each with what happened where."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from taograph.trace.reading import Run, is_shape, runs
from taograph.trace.stores import Kept, Store

Task = tuple[str, ...]


class CannotReplayError(ValueError):
    """A run cannot be replayed; the message says why, and what would help."""


@dataclass(frozen=True)
class Happened:
    """An event.

    Attributes:
        type: What happened.
        content: What is known of it.
        place: Its place among the events of its call of the graph.
    """

    type: str
    content: Mapping[str, Any]
    place: int

    @property
    def task(self) -> Task:
        """The nodes that it happened in."""
        return tuple(self.content.get("task") or ())

    @property
    def step(self) -> int:
        """The turn."""
        return int(self.content.get("step") or 0)


@dataclass(frozen=True)
class Exchange:
    """A call of a model.

    Attributes:
        asked: How it was asked.
        outcome: How it replied or failed; None where neither is recorded.
        place: Its place among those of its task.
    """

    asked: Happened
    outcome: Happened | None
    place: int

    @property
    def request(self) -> str:
        """The hash of what it was asked."""
        return str(self.asked.content["request"])


@dataclass(frozen=True)
class Phase:
    """One call of the graph.

    Attributes:
        trace: The trace's id.
        run: The run's id.
        events: What happened.
    """

    trace: str
    run: str
    events: Sequence[Happened]

    def __contains__(self, event: Happened) -> bool:
        """Whether an event is of this call."""
        return event.place < len(self.events) and self.events[event.place] is event

    @cached_property
    def start(self) -> Mapping[str, Any]:
        """What is known of its beginning."""
        return next((e.content for e in self.events if e.type == "run_started" and not e.content.get("path")), {})

    @cached_property
    def status(self) -> str:
        """How it ended; "open" where no end was recorded."""
        ended = next((e for e in reversed(self.events) if e.type == "run_ended"), None)
        return "open" if ended is None else str(ended.content["status"])

    @property
    def breaks_off(self) -> bool:
        """Whether it was ended from outside, in the midst of whatever it did."""
        return self.status in ("open", "cancelled", "drained")

    @cached_property
    def exchanges(self) -> Mapping[Task, Sequence[Exchange]]:
        """The calls of models by their tasks, in order."""
        ends = {e.content["call"]: e for e in self.events if e.type in ("model_replied", "model_failed")}
        found: dict[Task, list[Exchange]] = defaultdict(list)
        for event in self.events:
            if event.type == "model_asked":
                outcome = ends.get(event.content["call"])
                if outcome is not None and self._went_on(event, outcome):
                    outcome = None
                found[event.task].append(Exchange(event, outcome, len(found[event.task])))
        return found

    def _went_on(self, asked: Happened, outcome: Happened) -> bool:
        """Whether the run did not wait for a reply, which came too late."""
        between = self.events[asked.place + 1 : outcome.place]
        level = asked.task[:-1]
        return any(
            e.task == asked.task or (e.task[:-1] == level and (e.type == "stop" or e.task[-1] == "finish"))
            for e in between
            if e.task
        )

    @cached_property
    def observations(self) -> Sequence[tuple[Happened, Happened]]:
        """The tool calls that have a result, each with it."""
        actions: dict[tuple[Task, str], list[Happened]] = defaultdict(list)
        found = []
        for event in self.events:
            if event.type == "action":
                actions[event.task[:-1], str(event.content["id"])].append(event)
            elif event.type == "observation":
                asked = actions[event.task[:-1], str(event.content["id"])]
                found.append((asked.pop(0) if asked else event, event))
        return found

    def of_level(self, level: Task, after: int = -1) -> Iterator[Happened]:
        """The events of one graph of it, without those of the graphs within.

        Args:
            level: The graph.
            after: The place after which they are wanted.
        """
        there = self._levels.get(level, ())
        return islice(there, bisect_right(there, after, key=lambda event: event.place), None)

    @cached_property
    def _levels(self) -> Mapping[Task, Sequence[Happened]]:
        found: dict[Task, list[Happened]] = defaultdict(list)
        for event in self.events:
            if event.task:
                found[event.task[:-1]].append(event)
        return found

    @cached_property
    def observations_by_id(self) -> Mapping[str, Sequence[tuple[Happened, Happened]]]:
        """The same as :attr:`observations`, by the ids of the calls."""
        found: dict[str, list[tuple[Happened, Happened]]] = defaultdict(list)
        for pair in self.observations:
            found[str(pair[0].content["id"])].append(pair)
        return found

    @cached_property
    def edited(self) -> Mapping[str, str]:
        """The arguments that a person let calls run with, by the ids of the calls."""
        answered = (event.content for event in self.events if event.type == "approval_answered")
        return {str(told["id"]): canonical(told["args"]) for told in answered}


@dataclass(frozen=True)
class Recorded:
    """A run, and what came before it on its thread.

    Attributes:
        id: The run's id.
        graph: The graph's name.
        thread: The thread.
        before: The calls of the graph on the same thread that came before it.
        phases: Its own.
    """

    id: str
    graph: str
    thread: str | None
    before: Sequence[Phase]
    phases: Sequence[Phase]
    lost: int = field(default=0)

    @cached_property
    def calls(self) -> int:
        """Calls of models."""
        return sum(len(lane) for phase in self.phases for lane in phase.exchanges.values())

    @cached_property
    def turns(self) -> int:
        """Turns of the outermost graph."""
        return max((e.step for phase in self.phases for e in phase.events if not e.content.get("path")), default=0)


def read(store: Store, run: Run) -> Recorded:
    """Read a run, and those before it on its thread.

    Args:
        store: Where it is kept.
        run: The run.

    Raises:
        CannotReplayError: Its content was erased, or was not recorded.
    """
    whole = [trace for trace in _whole(store, run) if trace.started <= run.traces[-1].started]
    earlier = [trace for trace in whole if trace.run != run.id and trace.started < run.traces[0].started]
    mine = [trace for trace in whole if trace.run == run.id] or list(run.traces)
    phases = [_phase(store, trace) for trace in mine]
    lost = sum(int(e.content.get("lost") or 0) for phase in phases for e in phase.events if e.type == "gap")
    if lost:
        raise CannotReplayError(f"{lost} events of run {run.id} could not be written when it ran")
    return Recorded(
        run.id, run.graph, run.thread, [_phase(store, trace) for trace in earlier if not trace.is_erased], phases, lost
    )


def _whole(store: Store, run: Run) -> Sequence[Kept]:
    if run.thread is None:
        return run.traces
    return sorted((t for r in runs(store, thread=run.thread) for t in r.traces), key=lambda trace: trace.started)


def _phase(store: Store, trace: Kept) -> Phase:
    events: list[Happened] = []
    for entry in store.entries(trace.trace):
        if entry.content is None:
            raise CannotReplayError(f"the content of trace {trace.trace} was erased, so there is nothing to replay")
        events.append(Happened(entry.type, entry.content, len(events)))
    phase = Phase(trace.trace, trace.run, events)
    if any(is_shape(value) for event in events for value in event.content.values()):
        raise CannotReplayError(
            f"the content of trace {trace.trace} was not recorded (content=False): only its shapes and hashes are there"
        )
    return phase


def canonical(value: Any) -> str:
    """A value as text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def first(events: Iterable[Happened], *types: str) -> Happened | None:
    """The first event of these types."""
    return next((event for event in events if event.type in types), None)
