"""Comparing a replay with its record: event by event, each task for itself, since tasks run side by side."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taograph.trace.replays.recorded import Happened, Phase, Task, canonical
from taograph.trace.settings import hide_secrets

# Calls of models are compared by their requests, when they are made; failures of tools by what the model was shown.
_NOT_COMPARED = frozenset(("run_started", "model_asked", "model_replied", "model_failed", "tool_failed", "gap"))
_CALLS = ("action", "observation", "approval_answered")
# fmt: off
_NOT_SAID = frozenset((
    "thread", "user", "run", "path", "task", "at", "seconds", "size", "call", "handle", "numbers", "input_tokens",
    "output_tokens", "cached_tokens", "cost", "model_calls", "tool_calls",
))
# fmt: on
_CLOCK = re.compile(r"[\d.]+ of ([\d.]+) seconds used")
_COUNTED = ("model_calls", "tool_calls", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Difference:
    """The first thing that is not as it was recorded.

    Attributes:
        step: The turn.
        type: The type of the event.
        field: The field of it that differs; empty where the event is on one side only.
        recorded: What is recorded; None where there is nothing.
        replayed: What the replay has; None where there is nothing.
        task: Where it happened.
    """

    step: int
    type: str
    field: str
    recorded: Any
    replayed: Any
    task: Task = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "step": self.step,
            "type": self.type,
            "field": self.field,
            "recorded": self.recorded,
            "replayed": self.replayed,
            "task": list(self.task),
        }


def first_difference(
    phases: Sequence[Phase], replayed: Sequence[Sequence[Happened]], *, is_whole: bool
) -> Difference | None:
    """The first difference, in the order of the record.

    Args:
        phases: The record.
        replayed: The events of the replay, by phases.
        is_whole: Whether the replay went on to its end; if not, what it did not come to is no difference.
    """
    done: set[str] = set()
    for number, phase in enumerate(phases):
        here = replayed[number] if number < len(replayed) else ()
        last = number >= len(replayed) - 1
        found = _in_phase(phase, here, is_whole=is_whole or not last, done=done)
        # What was done when a call was ended from outside may be told once more by the next, or not.
        done = {str(seen.content["id"]) for _, seen in phase.observations} if phase.breaks_off else set()
        if found is not None:
            return found
        if number >= len(replayed) and is_whole:
            event = next(e for e in phase.events)
            return Difference(event.step, event.type, "", _field(event, ""), None, event.task)
    return None


def _in_phase(
    phase: Phase, replayed: Sequence[Happened], *, is_whole: bool, done: Collection[str]
) -> Difference | None:
    ended = is_whole and not phase.breaks_off
    there, here = _lanes(phase.events, ended=ended), _lanes(replayed, ended=ended)
    found: list[tuple[float, Difference]] = []
    for task in {**there, **here}:
        if task[:1] == ("call",) and task[1] in done and (task not in there or task not in here):
            continue
        difference = _in_lane(there.get(task, []), here.get(task, []), ended, phase.breaks_off)
        if difference is not None:
            found.append(difference)
    return min(found, key=lambda one: one[0])[1] if found else None


def _in_lane(
    there: list[Happened], here: list[Happened], is_whole: bool, breaks_off: bool
) -> tuple[float, Difference] | None:
    for recorded, replayed in zip(there, here, strict=False):
        field = _differs(recorded, replayed)
        if field is not None:
            old, new = (_field(event, field) for event in (recorded, replayed))
            return recorded.place, Difference(recorded.step, recorded.type, field, old, new, recorded.task)
    if len(here) > len(there):
        more = here[len(there)]
        if breaks_off or (not is_whole and not there):
            return None
        place = there[-1].place + 0.5 if there else more.place + 0.5
        return place, Difference(more.step, more.type, "", None, _field(more, ""), more.task)
    if is_whole and len(there) > len(here):
        fewer = there[len(here)]
        return fewer.place, Difference(fewer.step, fewer.type, "", _field(fewer, ""), None, fewer.task)
    return None


def _lanes(events: Sequence[Happened], *, ended: bool) -> Mapping[Task, list[Happened]]:
    """The events by what is done one after the other: each task, each call of a task, its plan."""
    found: dict[Task, list[Happened]] = defaultdict(list)
    asked = [event for event in events if event.type == "approval_asked"]
    for event in sorted(asked, key=lambda event: canonical(plain_of(event))):  # asked side by side, in no order
        found["?", *event.task].append(event)
    plans: dict[tuple[Task, int], Happened] = {}
    for event in events:
        if event.type in _CALLS:
            found["call", str(event.content.get("id")), *event.task].append(event)
        elif event.type == "plan":  # how far it is depends on what was quicker; what it came to does not
            plans[event.task, event.step] = event
        elif (
            event.type not in _NOT_COMPARED and event.type != "approval_asked" and (ended or event.type != "run_ended")
        ):
            found[event.task].append(event)
    if not ended and plans:
        plans.popitem()
    for (task, _), event in plans.items():
        found["plan", *task].append(event)
    return found


def _differs(recorded: Happened, replayed: Happened) -> str | None:
    """The field that differs; empty where they are not of one type, None where they are the same."""
    if recorded.type != replayed.type:
        return ""
    old, new = plain_of(recorded), plain_of(replayed)
    return next((name for name in {**old, **new} if not _is_same(old.get(name), new.get(name))), None)


def _is_same(recorded: Any, replayed: Any) -> bool:
    # What is put together of parts that were redacted may hold what no part held by itself.
    return bool(recorded == replayed or recorded == hide_secrets(replayed))


def _field(event: Happened, name: str) -> Any:
    return plain_of(event).get(name) if name else {"type": event.type, **plain_of(event)}


def plain_of(event: Happened) -> dict[str, Any]:
    """What is compared of an event: no ids that each run has anew, and nothing of the clock."""
    made: dict[str, Any] = _timeless({name: value for name, value in event.content.items() if name not in _NOT_SAID})
    match event.type:
        case "approval_asked":
            made = {"value": _without(event.content.get("value"), "hash", "thread")}
        case "retry" if made.get("reason") == "model_error":  # it says where the endpoint is, which the record does not
            made.pop("detail", None)
        case "run_ended":
            made = {"status": made["status"], **({"error": made["error"]} if "error" in made else {})}
    return made


def _timeless(value: Any) -> Any:
    match value:
        case str():
            return _CLOCK.sub(r"so many of \1 seconds used", value)
        case list():
            return [_timeless(item) for item in value]
        case Mapping():
            return {k: _counted(v) if k == "spent" else _timeless(v) for k, v in value.items()}
        case _:
            return value


def _counted(spent: Any) -> Any:
    """What was used, without what it took and what it cost."""
    return {name: spent[name] for name in _COUNTED if name in spent} if isinstance(spent, Mapping) else spent


def _without(value: Any, *names: str) -> Any:
    return {k: v for k, v in value.items() if k not in names} if isinstance(value, Mapping) else value
