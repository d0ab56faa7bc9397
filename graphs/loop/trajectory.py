"""The domain of the loop: thoughts, actions, observations, read from the messages of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from taograph.graphs.protocols.native import thought_of
from taograph.tools.results import whole_text

REJECTED = "taograph_rejected"
"""Key in ``additional_kwargs`` of the observation of a call that a person rejected."""
_FEEDBACK = "taograph_feedback"
# Of a user's message that something was added to: how many characters of it are the user's.
_ASKED = "taograph_asked"


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call the model asked for."""

    id: str
    tool: str
    args: Mapping[str, Any]

    @property
    def canonical(self) -> str:
        """Tool and arguments as text that is equal for equal calls, whatever the order of the keys."""
        args = json.dumps(self.args, sort_keys=True, ensure_ascii=False, default=str)
        return f"{self.tool}({args})"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a call returned.

    Attributes:
        id: The call.
        tool: Its tool.
        text: What the model was shown.
        error: Whether it failed.
        whole: All that it returned, where the model was shown only a part; else the same text.
        rejected: "yes" if a person rejected the call, "stop" if they ended the run with it; else empty.
    """

    id: str
    tool: str
    text: str
    error: bool
    whole: str = ""
    rejected: Literal["", "yes", "stop"] = ""


@dataclass(frozen=True)
class Step:
    """One turn: a thought, its actions (none in a last step), and an observation for each that has one.

    ``truncated`` says that what the model wrote after the step was dropped, such as an observation it made up.
    """

    thought: str
    actions: tuple[Action, ...]
    observations: tuple[Observation, ...]
    truncated: bool = False

    @cached_property
    def signature(self) -> tuple[tuple[str, str], ...]:
        """Calls with their outcomes; equal for two steps that did the same and saw the same."""
        # Not the text that was shown: where it was cut, it names its own call.
        seen = {o.id: o.whole or o.text for o in self.observations}
        return tuple(sorted((a.canonical, seen.get(a.id, "")) for a in self.actions))

    def saw_as(self, other: Step) -> bool:
        """Whether another step may have the same signature: its one call had the same outcome, or it has several."""
        mine, theirs = self.observations, other.observations
        if len(mine) != 1 or len(theirs) != 1:
            return len(self.actions) == len(other.actions)
        return (mine[0].whole or mine[0].text) == (theirs[0].whole or theirs[0].text)

    @property
    def failed(self) -> bool:
        """Whether it acted and every call of it failed."""
        return bool(self.observations) and all(o.error for o in self.observations)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The question of a run and its steps, oldest first."""

    question: str
    steps: tuple[Step, ...]


def feedback(text: str, kind: str) -> HumanMessage:
    """A message of the loop's own to the model: a nudge, a hint, an objection. Not a turn of the user."""
    return HumanMessage(text, additional_kwargs={_FEEDBACK: kind})


def instructed(messages: Sequence[AnyMessage], text: str, kind: str, *, aside: bool = False) -> list[AnyMessage]:
    """A request whose last words are an instruction of the strategy's own.

    It stands in the user's last message where that is the last one: not every chat template takes two in a row.

    Args:
        messages: The conversation.
        text: The instruction.
        kind: What kind it is.
        aside: Whether it is no part of the question, for the graph that is given it: the question is the user's.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, HumanMessage):
        return [*messages, feedback(text, kind)]
    if isinstance(last.content, str):
        content: Any = f"{last.content}\n\n{text}"
    else:
        content = [*last.content, {"type": "text", "text": text}]
    extra = {**last.additional_kwargs, _ASKED: len(asked(last))} if aside else last.additional_kwargs
    return [*messages[:-1], last.model_copy(update={"content": content, "additional_kwargs": extra})]


def asked(message: BaseMessage) -> str:
    """What the user asked, without what was added to it."""
    text = str(message.text)
    size = message.additional_kwargs.get(_ASKED)
    return text[:size] if isinstance(size, int) else text


def mark(message: HumanMessage, kind: str) -> HumanMessage:
    """A message that was made in the user's name, as one that is not a turn of the user."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, _FEEDBACK: kind}})


def is_feedback(message: BaseMessage) -> bool:
    """Whether a message is the loop's own."""
    return _FEEDBACK in message.additional_kwargs


def is_turn(message: BaseMessage) -> bool:
    """Whether a message is the user's."""
    return isinstance(message, HumanMessage) and not is_feedback(message)


def _rejected(message: ToolMessage) -> Literal["", "yes", "stop"]:
    found = message.additional_kwargs.get(REJECTED)
    return "" if not isinstance(found, dict) else "stop" if found.get("stop") else "yes"


def feedback_kind(message: BaseMessage) -> str:
    """The kind of a message of the loop's own; empty for others."""
    return str(message.additional_kwargs.get(_FEEDBACK) or "")


def user_turn(messages: Sequence[BaseMessage]) -> int | None:
    """Index of the user's last message, or None where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if is_turn(messages[index]):
            return index
    return None


def read_trajectory(messages: Sequence[AnyMessage], *, last: int | None = None, thoughts: bool = True) -> Trajectory:
    """The steps since the user's last message.

    Args:
        messages: The messages of a thread.
        last: Read so many steps from the end only; the cost of a look at the tail does not grow with the run.
        thoughts: Whether thoughts are read, too.
    """
    steps: list[Step] = []
    results: dict[str, Observation] = {}
    question = ""
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            text = str(message.text)
            results[message.tool_call_id] = Observation(
                message.tool_call_id,
                message.name or "",
                text,
                message.status == "error",
                whole_text(message) or text,
                _rejected(message),
            )
        elif isinstance(message, AIMessage):
            actions = tuple(Action(c["id"] or "", c["name"], c["args"]) for c in message.tool_calls)
            seen = tuple(results[a.id] for a in actions if a.id in results)
            cut = bool(message.response_metadata.get("truncated"))
            steps.append(Step(thought_of(message) if thoughts else "", actions, seen, cut))
            results = {}
            if last is not None and len(steps) >= last:
                break
        elif is_turn(message):
            question = asked(message)
            break
    return Trajectory(question, tuple(reversed(steps)))
