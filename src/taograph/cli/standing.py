"""How a thread stands: what was asked last, how that ended, and what it takes to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from taograph.cli.waiting import Waiting, in_words
from taograph.cli.words import STOPPED

if TYPE_CHECKING:
    from langgraph.types import StateSnapshot

State = Literal["new", "answered", "stopped", "waiting", "failed", "unfinished", "running"]

# What raises a limit, by the reason of the stop that it caused.
RAISES = {
    "step_limit": "steps",
    "tool_call_limit": "tool_calls",
    "deadline": "seconds",
    "token_limit": "tokens",
    "cost_limit": "cost",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """How a thread stands.

    Attributes:
        state: ``new``: nothing was asked; ``answered``; ``stopped`` by a limit and the like; ``waiting`` for a
            person; ``failed`` with an exception; ``unfinished``: cut off by a crash or a drain, or ``running``,
            which can't be told from the state.
        question: What was asked last.
        waiting: What it waits for.
        stop: Why it ended, where it did.
        spent: What it has used.
        run: What the loop remembers of the run.
        goes_on: Whether it can be gone on with, though it has ended.
        total: Steps of all its runs together.
    """

    state: State
    question: str
    waiting: tuple[Waiting, ...]
    stop: Mapping[str, Any] | None
    spent: Mapping[str, Any]
    run: Mapping[str, Any]
    goes_on: bool
    total: int

    @property
    def steps(self) -> int:
        """Steps that the run took."""
        return int(self.run.get("steps") or 0)

    @property
    def limits(self) -> Mapping[str, Any]:
        """What its context set of the limits."""
        return self.run.get("limits") or {}

    @property
    def open(self) -> bool:
        """Whether there is something to be gone on with."""
        return self.state in ("waiting", "failed", "unfinished") or self.goes_on

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "state": self.state,
            "goes_on": self.open,
            "question": self.question,
            "steps": self.total,
            "waiting": [each.to_dict() for each in self.waiting],
            "stop": None if self.stop is None else dict(self.stop),
            "spent": dict(self.spent),
        }

    def in_words(self) -> str:
        """The state as it stands in a list."""
        match self.state:
            case "waiting":
                return f"waits for {in_words(self.waiting)}"
            case "stopped" if self.stop:
                return STOPPED.get(self.stop["reason"], str(self.stop["reason"]).replace("_", " "))
            case "failed":
                return "failed with an error"
            case state:
                return state


def standing_of(snapshot: StateSnapshot) -> Standing:
    """How a thread stands, by its state as any of our graphs reads it."""
    from taograph.graphs.loop.beginning import GOES_ON
    from taograph.graphs.loop.trajectory import user_turn

    values = snapshot.values
    messages = values.get("messages") or []
    place = user_turn(messages)
    run, stop = values.get("run"), values.get("stop")
    run, stop = (each if isinstance(each, Mapping) else None for each in (run, stop))  # or it is not one of ours
    waiting = tuple(Waiting.read(each.id, each.value) for each in snapshot.interrupts)
    ended = stop if stop is not None and not snapshot.tasks else None
    return Standing(
        state=_state(snapshot, stop, waiting),
        question="" if place is None else str(messages[place].text),
        waiting=waiting,
        stop=ended,
        spent=values.get("spent") or {},
        run=run or {},
        goes_on=ended is not None and ended["reason"] in GOES_ON,
        total=sum(message.type == "ai" for message in messages),
    )


def _state(snapshot: StateSnapshot, stop: Any, waiting: tuple[Waiting, ...]) -> State:
    if waiting:
        return "waiting"
    if any(task.error is not None for task in snapshot.tasks):
        return "failed"
    if snapshot.tasks:  # `next` leaves out those that have ended, and are stored, in a step that is not
        return "unfinished"
    if stop is None:
        return "answered" if snapshot.values.get("messages") else "new"
    return "answered" if stop["reason"] == "final" else "stopped"
