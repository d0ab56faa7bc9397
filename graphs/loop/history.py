"""What a run knows of its messages, kept from turn to turn.

A turn adds a few messages to a history that may have thousands. What it needs of all of them (whether a provider would
accept them, which call ids are used, where the user's last message stands, how the last steps went) is read once a
message, so that a turn costs the same at the end of a long run as at its beginning. What is kept lives as long as the
``invoke`` or ``stream`` it was read in, or as long as its run where that is shorter, and holds for the very same
messages only: where one is another object than at the turn before (it was changed by hand, or by a tool), or was given
another content or other calls, all are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter, is_

from langchain_core.messages import AIMessage, AnyMessage, ToolCall
from langchain_core.runnables import RunnableConfig

from taograph.graphs.loop.internals import Control, invocation_of
from taograph.graphs.loop.repair import Soundness
from taograph.graphs.loop.trajectory import Step, Trajectory, asked, is_turn, read_trajectory
from taograph.graphs.loop.window import COMPOSED

_content, _tool_calls = attrgetter("content"), attrgetter("tool_calls")


class History:
    """The messages of a thread, and what is read from them.

    Args:
        tools: Names of the tools there are.

    Attributes:
        turn: The place of the user's last message; None where there is none.
        composed: Whether an answer among them was put together by the loop.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)
        self._last = 0
        self._forget()

    def _forget(self) -> None:
        self.turn: int | None = None
        self.composed = False
        self._messages: list[AnyMessage] = []
        self._contents: list[object] = []
        self._replies: list[AIMessage] = []
        self._calls: list[list[ToolCall]] = []
        self._soundness = Soundness(self._tools)
        self._steps: tuple[Step, ...] = ()
        self._from = self._to = 0  # where the last of the steps begins, and up to where they were read

    def read(self, messages: Sequence[AnyMessage]) -> None:
        """Take in what is new."""
        known = self._messages
        if len(messages) < len(known) or not all(map(is_, known, messages)) or self._changed():
            self._forget()
        for place in range(len(self._messages), len(messages)):
            message = messages[place]
            self._soundness.add(message)
            self.composed = self.composed or COMPOSED in message.additional_kwargs
            if is_turn(message):
                self.turn = place
            if isinstance(message, AIMessage):
                self._replies.append(message)
                self._calls.append([*message.tool_calls])
            self._contents.append(message.content)
        self._messages = list(messages)

    def _changed(self) -> bool:
        """Whether a message was changed in place, as tools can that are given the state."""
        same = all(map(is_, self._contents, map(_content, self._messages)))
        return not same or [*map(_tool_calls, self._replies)] != self._calls

    def is_for(self, tools: Collection[str]) -> bool:
        """Whether it was read for tools of these names."""
        return self._tools == frozenset(tools)

    @property
    def sound(self) -> bool:
        """Whether a provider would accept them, as :func:`~taograph.graphs.loop.repair.is_sound` has it."""
        return self._soundness.holds

    @property
    def call_ids(self) -> set[str]:
        """The ids of the calls."""
        return self._soundness.used

    @property
    def question(self) -> str:
        """What the user asked."""
        return "" if self.turn is None else asked(self._messages[self.turn])

    def trajectory(self, last: int) -> Trajectory:
        """The question, and so many of the last steps since, without their thoughts."""
        if last > self._last:
            self._last, self._steps, self._from, self._to = last, (), 0, 0
        messages, start = self._messages, self._from
        if self._to < len(messages):
            self._to = len(messages)
            fresh = read_trajectory(messages[start:], last=self._last, thoughts=False).steps
            if self.turn is None or self.turn < start:  # the first of them is the last one known, with what it saw
                fresh = (*self._steps[:-1], *fresh)
            self._steps = fresh[-self._last :]
            places = range(len(messages) - 1, start - 1, -1)
            self._from = next((place for place in places if isinstance(messages[place], AIMessage)), start)
        return Trajectory(self.question, self._steps[-last:])


def taken_history(config: RunnableConfig, run: str | None, tools: Collection[str]) -> History:
    """What is known of the messages of a run; a new one where nothing is.

    It is taken, so that two nodes at once never read into the same one, and nothing is left of a run that has ended.

    Args:
        config: Of the node.
        run: The run's id; None where it has none yet.
        tools: Names of the tools there are.
    """
    control = invocation_of(config)
    known = control.kept.pop(run, None) if isinstance(control, Control) else None
    # Another graph of the same invocation, with tools of its own, may go on with the run.
    return known if isinstance(known, History) and known.is_for(tools) else History(tools)


def keep_history(config: RunnableConfig, run: str, history: History) -> None:
    """Keep what is known for the next turn."""
    control = invocation_of(config)
    if isinstance(control, Control):
        control.kept[run] = history
