"""Answers models and tools from the record, and says where it no longer covers what is asked."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.types import interrupt

from taograph.calls import Cancelled, TimedOut
from taograph.cancel import Cancellation
from taograph.models.replay import NotRecordedError
from taograph.tools.outcome import ToolRun
from taograph.trace.chain import plain
from taograph.trace.messages import message_of
from taograph.trace.replays.answers import RecordedFailure, failure_of, run_of, with_usage
from taograph.trace.replays.changes import Change, reply_of
from taograph.trace.replays.recorded import Exchange, Happened, Phase, Task, canonical
from taograph.trace.replays.requests import difference_of
from taograph.trace.replays.watching import Memory, Watch

_SECONDS = re.compile(r"([\d.]+) of [\d.]+ seconds used")
_QUESTIONS = ("approval", "unfinished_call")


class RecordEndsError(RuntimeError):
    """The recorded call of the graph was ended from outside, here."""

    taograph_fatal: ClassVar[bool] = True


@dataclass(frozen=True)
class Uncovered:
    """Where the record ends.

    Attributes:
        why: In words.
        step: The turn.
        task: Where it is asked.
        asked: What is asked: the event of the replay.
        recorded: What the record has in its place; None where it has nothing.
    """

    why: str
    step: int
    task: Task
    asked: Mapping[str, Any]
    recorded: Mapping[str, Any] | None = None


class Player:
    """Answers from one recorded call of a graph at a time.

    Args:
        phases: All of them, in order.
        changes: What is to be answered in the place of what is recorded.
        changed: The number of the first phase that the changes are for.

    Attributes:
        phases: All of them.
        watch: Records the replay.
        cancel: The switch that the replay listens to.
        uncovered: The first thing that the record has no answer to.
        served: Calls of models that were answered in the phases that count.
        refused: What tried to leave the machine.
    """

    def __init__(self, phases: Sequence[Phase], changes: Sequence[Change] = (), *, changed: int = 0) -> None:
        self.phases = phases
        self._changes, self._changed = changes, changed
        self._lock = threading.RLock()
        self._now = -1
        self.cancel = Cancellation()
        self.uncovered: Uncovered | None = None
        self.broke_off = False
        self.served = 0
        self.refused: list[str] = []
        self._memories: list[Memory] = []
        self.watch: Watch

    @property
    def memories(self) -> Sequence[Memory]:
        """What happened, by phases."""
        return self._memories

    @property
    def phase(self) -> Phase:
        """The call of the graph that is replayed now."""
        return self.phases[self._now]

    def begin(self) -> Watch:
        """The next call of the graph begins; returns what has to be among its callbacks."""
        with self._lock:
            self._now += 1
            self._used: dict[Task, int] = defaultdict(int)
            self._pointer: dict[Task, int] = defaultdict(lambda: -1)
            self._seen: set[int] = set()
            self._asked: set[int] = set()
            self.broke_off = False
            self.cancel = Cancellation()
            self._memories.append(Memory())
            self.watch = Watch(self._memories[-1], self.enters)
            return self.watch

    @property
    def counts(self) -> bool:
        """Whether the phase at hand is of the run that was asked for."""
        return self._now >= self._changed

    # Models

    def reply(self, run_id: UUID) -> AIMessage:
        """What a model replied when it was asked this.

        Args:
            run_id: Of the call; how it is asked was recorded by :attr:`watch` a moment ago.

        Raises:
            NotRecordedError: It was not asked this.
            RecordEndsError: The recorded call of the graph was ended here.
            TimedOut: It had not replied when the time was over.
            Cancelled: It had not replied when the run was cancelled.
            Exception: It failed.
        """
        asked = self._how(run_id)
        with self._lock:
            exchange = self._exchange(asked, (str(asked.content["request"]), self.watch.hidden(run_id)))
            outcome, task = exchange.outcome, exchange.asked.task
            self.served += self.counts
            self._pointer[task[:-1]] = max(self._pointer[task[:-1]], (outcome or exchange.asked).place)
        if outcome is None:
            raise self._cut(exchange)
        if outcome.type == "model_failed":
            raise (
                self._breaks_off() if self.phase.breaks_off and self._is_last(outcome) else failure_of(outcome.content)
            )
        made = message_of(dict(outcome.content["message"]))
        change = self._change("reply", task, str(exchange.asked.step))
        if change is not None:
            made = reply_of(change.text, f"changed_{exchange.asked.step}")
        return with_usage(made, outcome.content)

    def _how(self, run_id: UUID) -> Happened:
        memory = self._memories[-1]
        found = next((e for e in reversed(memory.events) if e.content.get("call") == str(run_id)), None)
        if found is None:
            raise NotRecordedError("a model is asked outside of what is replayed", "")
        return found

    def _exchange(self, asked: Happened, request: tuple[str, str]) -> Exchange:
        task = asked.task
        lane = self.phase.exchanges.get(task, ())
        place = self._used[task]
        model = next((c for c in self._changes if c.kind == "model"), None)
        if model is not None and self.counts:
            raise self._ends(f"what the model would have replied with {model.name}={model.text} is not recorded", asked)
        if place < len(lane) and lane[place].request in request:
            self._used[task] += 1
            return lane[place]
        before = self._before()
        if before is not None:
            # It was paid for, and the process died before the graph had stored it.
            paid = [e for e in before.exchanges.get(task, ())[-1:] if e.request in request]
            if paid and paid[0].outcome is not None:
                return paid[0]
        if place < len(lane):
            recorded = lane[place].asked
            raise self._ends(difference_of(recorded.content, asked.content), asked, recorded.content)
        if self.phase.breaks_off:
            raise self._breaks_off()
        raise self._ends("the recorded run did not ask the model once more there", asked)

    def _cut(self, exchange: Exchange) -> Exception:
        stop = self._stop_after(exchange.asked)
        if stop is not None and stop.content["reason"] == "deadline":
            return TimedOut()
        if stop is not None and stop.content["reason"] == "cancelled":
            self.cancel.request(str(stop.content["detail"]))
            return Cancelled(str(stop.content["detail"]))
        if self.phase.breaks_off:
            return self._breaks_off()
        return self._ends("no reply to this request is recorded", exchange.asked, exchange.asked.content)

    def _is_last(self, event: Happened) -> bool:
        """Whether nothing else is recorded of its graph."""
        return next(self.phase.of_level(event.task[:-1], event.place), None) is None

    def _stop_after(self, event: Happened) -> Happened | None:
        later = self.phase.of_level(event.task[:-1], event.place)
        return next((e for e in later if e.type == "stop"), None)

    # Tools

    def result(self, call: ToolCall, config: RunnableConfig) -> ToolRun:
        """What came of a tool call; for :data:`taograph.tools.running.STAND_IN`."""
        task = self.watch.task_of(getattr(config.get("callbacks"), "parent_run_id", None))
        return run_of(call, self.observed(task, call["name"], call["id"], call["args"]))

    def observed(self, task: Task, tool: str, id: str | None, args: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """What the model was shown of a tool call.

        Args:
            task: Where it is made.
            tool: The tool.
            id: Of the call.
            args: Its arguments; None where they cannot be compared.

        Raises:
            NotRecordedError: It was not made.
            RecordEndsError: The recorded call of the graph was ended before it returned.
        """
        with self._lock:
            found = self._observation(task, tool, id, args)
            if found is not None:
                action, seen = found
                if seen not in self.phase:  # of the call of the graph before
                    return seen.content
                self._seen.add(seen.place)
                level = seen.task[:-1]
                self._pointer[level] = max(self._pointer[level], seen.place)
                change = self._changed_result(action, seen)
                return seen.content if change is None else {**seen.content, "text": change.text, "handle": None}
            waits = self._question() if self.phase.status == "waiting" else None
        if waits is not None:
            interrupt(waits)  # the tool asked a person; when they have answered, its result is recorded
        asked = {"tool": tool, "args": args, "id": id}
        if self.phase.breaks_off:
            raise self._breaks_off()
        failed = next((e for e in self.phase.events if e.type == "tool_failed" and e.content["id"] == id), None)
        if failed is not None and failed.content["tool"] == tool:
            raise type(str(failed.content["error"]), (RecordedFailure,), {})(str(failed.content["text"]))
        where = Happened("action", {"task": list(task), "step": self._step(task), **asked}, 0)
        raise self._ends(f"a call {tool}({canonical(args or {})}) is not recorded", where)

    def _changed_result(self, action: Happened, seen: Happened) -> Change | None:
        if not any(change.kind == "observation" for change in self._changes):
            return None
        of_step = [a.place for a, o in self.phase.observations if o.step == seen.step and o.task[:-1] == seen.task[:-1]]
        nth = sorted(of_step).index(action.place) + 1
        return self._change("observation", seen.task, f"{seen.step}.{nth}", str(action.content["id"]))

    def _observation(
        self, task: Task, tool: str, id: str | None, args: Mapping[str, Any] | None
    ) -> tuple[Happened, Happened] | None:
        wanted = None if args is None else canonical(plain(args))

        def fits(pair: tuple[Happened, Happened]) -> bool:
            action, seen = pair
            known = action.content
            if seen.place in self._seen or seen.task[:-1] != task[:-1] or known["tool"] != tool:
                return False
            own = None if "args" not in known else canonical(known["args"])
            return wanted is None or own is None or wanted in (own, self.phase.edited.get(str(known["id"])))

        named = [pair for pair in self.phase.observations_by_id.get(str(id), ()) if fits(pair)]
        found = next((pair for pair in named if pair[1].task == task), None) or next(iter(named), None)
        if found is None:
            found = next((pair for pair in self.phase.observations if fits(pair)), None)
        before = self._before()
        if found is None and before is not None:
            # It was done, and the process died before the graph had stored it.
            done = (pair for pair in before.observations_by_id.get(str(id), ()) if pair[1].task == task)
            found = next(done, None)
        return found

    def _before(self) -> Phase | None:
        """The call of the graph before the one at hand, where that was ended from outside."""
        before = self.phases[self._now - 1] if self._now else None
        return before if before is not None and before.breaks_off else None

    def _question(self) -> Any:
        """A question that a tool asked a person in this call of the graph."""
        for event in self.phase.events:
            value = event.content.get("value")
            kind = value.get("type") if isinstance(value, Mapping) else None
            if event.type == "approval_asked" and event.place not in self._asked and kind not in _QUESTIONS:
                self._asked.add(event.place)
                return value
        return None

    def _step(self, task: Task) -> int:
        events = (e for e in reversed(self._memories[-1].events) if e.task[:-1] == task[:-1])
        return next((e.step for e in events), 0)

    # Time and cancellation

    def elapsed(self, session: Any) -> float:
        """The active seconds of a run: none, unless its time was over here; for ``graphs/loop/clock.py``."""
        task = self.watch.task_of(getattr(session.config.get("callbacks"), "parent_run_id", None))
        with self._lock:
            stop = self._next_stop(task, "deadline")
        told = None if stop is None else _SECONDS.search(str(stop.content["detail"]))
        if stop is None or told is None or stop.step != session.run["steps"]:
            return 0.0
        return float(told[1])

    def enters(self, task: Task) -> None:
        """A node of ours begins its work; where the recorded run was cancelled by then, this one is."""
        with self._lock:
            stop = self._next_stop(task, "cancelled") if task else None
        if stop is not None:
            self.cancel.request(str(stop.content["detail"]))

    def _next_stop(self, task: Task, reason: str) -> Happened | None:
        """The end of a graph, where nothing but its closing call is recorded before it."""
        for event in self.phase.of_level(task[:-1], self._pointer[task[:-1]]):
            if event.type in ("action", "observation") or (event.type == "model_asked" and event.task == task):
                return None
            if event.type == "stop":
                return event if event.content["reason"] == reason else None
        return None

    # What they have in common

    def _change(self, kind: str, task: Task, *names: str) -> Change | None:
        if not self.counts or len(task) > 1:
            return None
        return next((c for c in self._changes if c.kind == kind and c.name in names and c.used()), None)

    def _breaks_off(self) -> RecordEndsError:
        self.broke_off = True
        return RecordEndsError("the recorded call of the graph was ended here")

    def _ends(self, why: str, asked: Happened, recorded: Mapping[str, Any] | None = None) -> NotRecordedError:
        if self.uncovered is None:
            self.uncovered = Uncovered(why, asked.step, asked.task, asked.content, recorded)
        return NotRecordedError(why, why)
