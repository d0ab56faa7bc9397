"""Replaying a recorded run: the graph runs again, and models and tools are answered from the record.

Nothing is asked and nothing is called: no model, no tool, no address. What comes of it is the same, or there is a
first difference, as where the code or the prompt changed since. With a change the replay shows what would have
happened, as far as the record can tell: to the first request that no model was ever sent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import Pregel

from taograph.graphs.loop.internals import OwnLimitGraph
from taograph.models.replay import NotRecordedError
from taograph.trace.chain import Entry
from taograph.trace.reading import Run, find, runs
from taograph.trace.replays.changes import Change, read_changes
from taograph.trace.replays.comparing import Difference, first_difference, plain_of
from taograph.trace.replays.instead import instead
from taograph.trace.replays.player import Player, RecordEndsError, Uncovered
from taograph.trace.replays.rebuilding import Given, context_for, given, input_of, prepared, rebuilt
from taograph.trace.replays.recorded import CannotReplayError, Happened, Phase, Recorded, canonical, first, read
from taograph.trace.stores import Store

__all__ = ["CannotReplayError", "Change", "Difference", "Replay", "Uncovered", "areplay", "replay"]

_FROM_A_TO_Z = "replay"
_OWN_ENDS = (NotRecordedError.__name__, RecordEndsError.__name__)


@dataclass(frozen=True)
class Replay:
    """What came of a replay.

    Attributes:
        run: The run's id.
        graph: The graph's name.
        changes: What was otherwise.
        difference: The first difference; None where there is none.
        uncovered: Where the record ended before the replay did; None where it did not.
        recorded: Calls of models that are recorded.
        used: Those of them that the replay used.
        turns: Turns of the outermost graph that are recorded.
        covered: Those of them that are as recorded or follow from a change.
        events: What happened in the replay.
        stop: Why it ended, with reason and detail, as far as that was decided; None where the graph does not tell it.
        answer: Its answer; empty where it came to none.
        notes: What else is to be known.
    """

    run: str
    graph: str
    changes: Sequence[Change]
    difference: Difference | None
    uncovered: Uncovered | None
    recorded: int
    used: int
    turns: int
    covered: int
    events: Sequence[Happened] = field(repr=False)
    stop: Mapping[str, Any] | None
    answer: str
    notes: Sequence[str] = ()

    @property
    def same(self) -> bool:
        """Whether everything is as it was recorded."""
        return self.difference is None and self.uncovered is None

    @property
    def outcome(self) -> Literal["same", "differs"]:
        """The same in a word."""
        return "same" if self.same else "differs"

    def entries(self) -> list[Entry]:
        """What happened in the replay, in the form of a store; there is no chain of it."""
        return [
            Entry(self.run, place, e.type, "", e.content, None, content_hash="", prev="", hash="")
            for place, e in enumerate(self.events, 1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        end = self.uncovered
        return {
            "run": self.run,
            "graph": self.graph,
            "outcome": self.outcome,
            "changes": [str(change) for change in self.changes],
            "difference": None if self.difference is None else self.difference.to_dict(),
            "uncovered": None if end is None else {"step": end.step, "why": end.why, "task": list(end.task)},
            "model_calls": {"recorded": self.recorded, "used": self.used},
            "turns": {"recorded": self.turns, "covered": self.covered},
            "stop": None if self.stop is None else dict(self.stop),
            "answer": self.answer,
            "notes": list(self.notes),
            "events": [{"type": e.type, "step": e.step, "task": list(e.task), **plain_of(e)} for e in self.events],
        }


def replay(store: Store, run: str | Run, *, graph: Given = None, changes: Iterable[str | Change] = ()) -> Replay:
    """Replay a run.

    Args:
        store: Where it is recorded, see :func:`taograph.trace.open_store`.
        run: The run; or how its id begins, or "last".
        graph: The graph, where the record does not say what it is made of: one that is not of taograph, or one with
            functions among its options. Or a function that makes it, of nothing or of a model and tools that stand in
            for the recorded ones. Left out, the graph is made from the record.
        changes: What is to be otherwise, as ``limits.steps=5``; see ``docs/trace.md``.

    Raises:
        CannotReplayError: The run cannot be replayed; the message says why, and what would help.
        ValueError: There is no such run; or a change cannot be read, or made.
    """
    steps = _replaying(store, run, graph, changes)
    player = next(steps)
    with instead(player):  # type: ignore[arg-type]
        sent: Any = None
        while True:
            try:
                asked: Any = steps.send(sent)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            sent = asked.make()


async def areplay(store: Store, run: str | Run, *, graph: Given = None, changes: Iterable[str | Change] = ()) -> Replay:
    """As :func:`replay`, by the async way of the graph; the record is read in a thread."""
    from taograph.calls import TOOL_THREADS, Call, Steps, adrive

    steps = _replaying(store, run, graph, changes)

    def begin() -> Steps[Player]:
        return (yield Call(lambda: next(steps), None, None, TOOL_THREADS))  # type: ignore[no-any-return]

    player = await adrive(begin())
    with instead(player):
        sent: Any = None
        while True:
            try:
                asked: Any = steps.send(sent)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            sent = await asked.amake()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of the graph that is to be made; what it raises is what comes of it."""

    graph: Runnable[Any, Any]
    inputs: Any
    config: Any
    context: dict[str, Any] | None
    player: Player

    def make(self) -> Any:
        with self.player.cancel:
            try:
                return self.graph.invoke(self.inputs, self.config, **self._options)
            except Exception as error:  # noqa: BLE001 - what the graph fails with is compared, too
                return error

    async def amake(self) -> Any:
        with self.player.cancel:
            try:
                return await self.graph.ainvoke(self.inputs, self.config, **self._options)
            except Exception as error:  # noqa: BLE001
                return error

    @property
    def _options(self) -> dict[str, Any]:
        return {} if self.context is None else {"context": self.context}


def _replaying(
    store: Store, run: str | Run, graph: Given, changes: Iterable[str | Change]
) -> Generator[Player | _Asked, Any, Replay]:
    """Yields the player, then the calls of the graph; is sent what came of them."""
    otherwise = read_changes(list(changes))
    recorded = read(store, find(runs(store), run) if isinstance(run, str) else run)
    saver, notes = InMemorySaver(), list[str]()
    made = _graphs(recorded, graph, otherwise, saver, notes)
    before = len(made) - len(recorded.phases)
    player = Player([phase for phase, _ in made], otherwise, changed=before)
    yield player
    result: Any = None
    for number, (phase, (prepared_graph, context)) in enumerate(made):
        result = yield _call(phase, prepared_graph, context, player, number)
        if isinstance(result, NotRecordedError):
            break
        if isinstance(result, Exception) and not isinstance(result, RecordEndsError) and phase.status != "failed":
            break
    done = player.memories[before:]
    if not done and player.uncovered is not None:
        raise CannotReplayError(
            f"run {recorded.id} goes on with a thread whose earlier runs cannot be replayed: {player.uncovered.why}"
        )
    ended, end = not isinstance(result, NotRecordedError), player.uncovered
    if end is None and isinstance(result, NotRecordedError):
        end = Uncovered(str(result), 0, (), {})
    events = [event for memory in done for event in memory.events if not _is_ours(event, ended=ended)]
    stop = _stop(events, made[-1][1][0], player)
    notes += _notes(recorded, result, player, otherwise)
    return Replay(
        run=recorded.id,
        graph=recorded.graph,
        changes=otherwise,
        difference=first_difference(recorded.phases, [memory.events for memory in done], is_whole=ended),
        uncovered=end,
        recorded=recorded.calls,
        used=player.served,
        turns=recorded.turns,
        covered=_covered(events, end, stop),
        events=events,
        stop=stop,
        answer=next((str(e.content["text"]) for e in reversed(events) if e.type == "answer" and not e.task[1:]), ""),
        notes=notes,
    )


def _graphs(
    recorded: Recorded, graph: Given, changes: Sequence[Change], saver: InMemorySaver, notes: list[str]
) -> list[tuple[Phase, tuple[Runnable[Any, Any], dict[str, Any] | None]]]:
    """The calls of the graph, each with it and the context of its run."""
    found: list[tuple[Phase, tuple[Runnable[Any, Any], dict[str, Any] | None]]] = []
    of_run: dict[str, Runnable[Any, Any]] = {}
    meant = {phase.run for phase in recorded.phases}
    phases = [*recorded.before, *recorded.phases]
    for phase in phases:
        own = changes if phase.run in meant else ()
        if phase.run not in of_run:
            try:
                calls = [one for one in phases if one.run == phase.run]
                made = rebuilt(calls, own, notes) if graph is None else given(graph, phase)
            except CannotReplayError:
                if phase.run in meant:
                    raise
                notes.append("an earlier run on the thread cannot be replayed, so what it left there is missing")
                continue
            of_run[phase.run] = prepared(made, saver)
        found.append((phase, (of_run[phase.run], context_for(of_run[phase.run], phase, own))))
    return found


def _call(
    phase: Phase, graph: Runnable[Any, Any], context: dict[str, Any] | None, player: Player, number: int
) -> _Asked:
    answers = _same_questions(player, number)
    watch = player.begin()
    thread = {"configurable": {"thread_id": _FROM_A_TO_Z}} if isinstance(graph, Pregel) else {}
    config = {"callbacks": [watch], **thread}
    return _Asked(graph, input_of(phase, answers), config, context, player)


def _same_questions(player: Player, number: int) -> dict[str, str]:
    """Ids of the replay's questions to a person, by the ids of the recorded ones."""

    def asked(events: Sequence[Happened]) -> list[tuple[str, str]]:
        return [(canonical(plain_of(e)), str(e.content["id"])) for e in events if e.type == "approval_asked"]

    found: dict[str, str] = {}
    for phase, memory in zip(player.phases[:number], player.memories, strict=False):
        there, here = asked(phase.events), asked(memory.events)
        for said, id in there:
            same = next((pair for pair in here if pair[0] == said), None)
            if same is not None:
                here.remove(same)
                found[id] = same[1]
    return found


def _is_ours(event: Happened, *, ended: bool) -> bool:
    """Whether an event is of the replay's own end, and not of what would have happened."""
    if event.type == "run_ended":
        return not ended
    return event.type == "model_failed" and event.content["error"] in _OWN_ENDS


def _covered(events: Sequence[Happened], end: Uncovered | None, stop: Mapping[str, Any] | None) -> int:
    """Turns of the outermost graph that the replay has whole."""
    turns = max((e.step for e in events if not e.content.get("path")), default=0)
    is_over = end is None or stop is not None or len(end.task) > 1
    return turns if is_over or end is None else min(turns, max(0, end.step - 1))


def _stop(events: Sequence[Happened], graph: Runnable[Any, Any], player: Player) -> Mapping[str, Any] | None:
    told = first((e for e in reversed(events) if len(e.task) <= 1), "stop")
    if told is not None:
        return {"reason": told.content["reason"], "detail": told.content["detail"], "step": told.step}
    if player.uncovered is None or not isinstance(graph, OwnLimitGraph):
        return None
    # What was decided and not told yet: the closing answer comes first.
    found = graph.get_state({"configurable": {"thread_id": _FROM_A_TO_Z}}).values.get("stop")
    return dict(found) if isinstance(found, Mapping) else None


def _notes(recorded: Recorded, result: Any, player: Player, changes: Sequence[Change]) -> list[str]:
    notes = [f"{change} did not come into play" for change in changes if _is_idle(change)]
    if recorded.phases[-1].breaks_off:
        notes.append("the recorded run has no end: it is compared as far as it went")
    if isinstance(result, Exception) and not isinstance(result, NotRecordedError | RecordEndsError):
        notes.append(f"the replay failed with {type(result).__name__}: {result}")
    notes += [f"{what} was refused" for what in dict.fromkeys(player.refused)]
    return notes


def _is_idle(change: Change) -> bool:
    return change.kind in ("observation", "reply") and not change.is_used
