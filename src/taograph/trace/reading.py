"""Traces as a person asks for them: the runs, found by how their ids begin, and what each came to.

A run may have several traces: one for each call of the graph that goes on with it, as after an approval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from taograph.trace.chain import Entry
from taograph.trace.stores import Kept, Store

LAST = "last"
# Ids of traces begin with their time; fewer characters than this are more likely a slip than a choice.
LEAST = 4

State = Literal["answered", "stopped", "waiting", "drained", "failed", "cancelled", "ended", "open", "erased"]


class NotFoundError(ValueError):
    """No run is called so, or more than one may be meant.

    Attributes:
        found: Ids of those that may be meant.
    """

    def __init__(self, message: str, found: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.found = tuple(found)


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as the store knows it.

    Attributes:
        id: Its id; the trace's where the run is not known, as after an erasure.
        traces: Its traces, the oldest first.
    """

    id: str
    traces: tuple[Kept, ...]

    @property
    def started(self) -> str:
        """When it began."""
        return self.traces[0].started

    @property
    def graph(self) -> str:
        """The graph's name."""
        return self.traces[0].graph

    @property
    def thread(self) -> str | None:
        """Its thread."""
        return self.traces[0].thread

    @property
    def user(self) -> str | None:
        """Who it was for."""
        return self.traces[0].user


@dataclass
class Summary:
    """What a run came to, by its events.

    Attributes:
        state: How it stands.
        question: What was asked.
        models: Names of the models that were asked.
        answer: The answer.
        reason: Why it ended, where the graph tells it.
        detail: The same in words.
        steps: Turns of the outermost graph.
        spent: Calls, tokens, dollars and seconds of all of it.
        tools: Calls by the name of the tool.
        failures: Failures of models and tools by their type.
        events: How many there are.
        lost: Events that could not be written.
    """

    state: State = "open"
    question: str = ""
    models: list[str] = field(default_factory=list)
    answer: str = ""
    reason: str = ""
    detail: str = ""
    steps: int = 0
    spent: dict[str, float] = field(default_factory=dict)
    tools: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    events: int = 0
    lost: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "state": self.state,
            "question": self.question,
            "models": list(self.models),
            "answer": self.answer,
            "reason": self.reason,
            "detail": self.detail,
            "steps": self.steps,
            "spent": dict(self.spent),
            "tools": dict(self.tools),
            "failures": dict(self.failures),
            "events": self.events,
            "lost": self.lost,
        }


_SPENT = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "cached_tokens", "cost", "seconds")


def runs(
    store: Store, *, thread: str | None = None, graph: str | None = None, since: datetime | None = None
) -> list[Run]:
    """The runs that a store has, the oldest first.

    Args:
        store: The store.
        thread: Only those of this thread.
        graph: Only those of graphs of this name.
        since: Only those that began then or later.
    """
    found: dict[str, list[Kept]] = {}
    for kept in store.traces(thread=thread):
        found.setdefault(kept.run or kept.trace, []).append(kept)
    made = (Run(id, tuple(traces)) for id, traces in found.items())
    return [
        run
        for run in made
        if (graph is None or run.graph == graph) and (since is None or datetime.fromisoformat(run.started) >= since)
    ]


def find(there: Sequence[Run], given: str) -> Run:
    """The run that is meant.

    Args:
        there: The runs, the oldest first.
        given: "last", or how the id of a run or of one of its traces begins. By a trace's id, that trace is meant.

    Raises:
        NotFoundError: There is none, or more than one.
    """
    wanted = given.strip().rstrip("…")
    if not there:
        raise NotFoundError("no run is recorded there")
    if wanted == LAST:
        return there[-1]
    exact = [run for run in there if run.id == wanted]
    if exact:
        return exact[0]
    if len(wanted) < LEAST:
        raise NotFoundError(f"{given!r} is too short: give {LEAST} characters of the id, or more")
    by_run = [run for run in there if run.id.startswith(wanted)]
    names = {run.id for run in by_run}
    by_trace = [
        Run(kept.trace, (kept,))
        for run in there
        for kept in run.traces
        if kept.trace.startswith(wanted) and run.id not in names
    ]
    found = [*by_run, *by_trace]
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFoundError(f"{given!r} may be any of {len(found)} runs", [run.id for run in found])
    raise NotFoundError(f"no run is called {given!r}")


def entries(store: Store, run: Run) -> Iterator[Entry]:
    """The events of a run, in their order."""
    for kept in run.traces:
        yield from store.entries(kept.trace)


def summarize(events: Iterable[Entry]) -> Summary:
    """What a run came to.

    Args:
        events: All its events.
    """
    made = Summary(spent=dict.fromkeys(_SPENT, 0))
    known = results = 0
    for event in events:
        made.events += 1
        known += event.content is not None
        if event.content is not None and "unreadable" not in event.content:
            _count(made, event.type, event.content)
            # The end of a trace says how many calls were made; where there is none, their results do.
            results = 0 if event.type == "run_ended" else results + (event.type == "observation")
    made.spent["tool_calls"] += results
    if made.events and not known:
        made.state = "erased"
    return made


def _count(made: Summary, kind: str, told: Mapping[str, Any]) -> None:
    outermost = not told.get("path")
    if outermost:
        made.steps = max(made.steps, step_of(told))
        _tell_outermost(made, kind, told)
    match kind:
        case "model_asked":
            if (name := str(told.get("model") or "")) and name not in made.models:
                made.models.append(name)
            made.question = made.question or _asked(told.get("new"))
        case "model_replied":
            made.spent["model_calls"] += 1
            for name in ("input_tokens", "output_tokens", "cached_tokens", "cost"):
                made.spent[name] += number_in(told, name)
        case "model_failed":
            made.spent["model_calls"] += 1
            made.failures[str(told.get("error"))] += 1
        case "tool_failed":
            made.failures[str(told.get("error"))] += 1
        case "observation":
            made.tools[str(told.get("tool"))] += 1
        case "gap":
            made.lost += int(number_in(told, "lost"))


def _tell_outermost(made: Summary, kind: str, told: Mapping[str, Any]) -> None:
    match kind:
        case "run_started":
            made.state = "open"
            made.question = made.question or text_of(told.get("question"))
        case "stop":
            made.reason, made.detail = str(told.get("reason") or ""), text_of(told.get("detail"))
        case "answer":
            made.answer = text_of(told.get("text"))
        case "run_ended":
            made.spent["seconds"] += number_in(told, "seconds")
            made.spent["tool_calls"] += number_in(told, "tool_calls")
            made.state = _state(str(told.get("status")), made)
            if made.state == "failed":
                made.reason, made.detail = str(told.get("error") or ""), text_of(told.get("text"))


def _state(status: str, made: Summary) -> State:
    match status:
        case "waiting" | "drained" | "failed" | "cancelled":
            return status
        case _ if made.reason:
            return "answered" if made.reason == "final" else "stopped"
        case _:
            return "answered" if made.answer else "ended"


def _asked(new: Any) -> str:
    """The question, among the messages that were sent: the last one of a person."""
    given = [each for each in new if isinstance(each, Mapping)] if isinstance(new, list) else []
    people = [text_of(each.get("content")) for each in given if each.get("type") == "human"]
    return people[-1] if people else ""


def number_in(told: Mapping[str, Any], name: str) -> float:
    """A number of an event; 0 where there is none, as in a record that was changed."""
    value = told.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def step_of(told: Mapping[str, Any]) -> int:
    """The turn of an event; 0 before the first."""
    return int(number_in(told, "step"))


def is_shape(value: Any) -> bool:
    """Whether a value is what is recorded of another one where content is not."""
    if not isinstance(value, Mapping):
        return False
    if set(value) in ({"text", "hash"}, {"number", "hash"}, {"value", "hash"}):
        return isinstance(value["hash"], str) and len(value["hash"]) == 32
    return any(is_shape(item) for item in value.values())


def text_of(value: Any) -> str:
    """A value of an event as a person reads it: what was not recorded is told by its size."""
    match value:
        case None:
            return ""
        case str():
            return value
        case {"text": int(size), "hash": str()}:
            return f"[{size:,} characters, not recorded]"
        case {"number": int(), "hash": str()} | {"value": int(), "hash": str()}:
            return "[not recorded]"
        case {"type": "text", "text": str(text)}:
            return text
        case list():
            return "\n".join(filter(None, map(text_of, value)))
        case Mapping():
            return ", ".join(f"{name}: {text_of(item)}" for name, item in value.items())
        case _:
            return str(value)
