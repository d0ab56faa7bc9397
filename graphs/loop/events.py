"""The one vocabulary in which a run is told: to the terminal, to a page, to the trace.

An event is a plain dict (JSON-able as it is) with ``type`` and the fields of :class:`Header`. The nodes of
the loop emit them through LangGraph's custom stream, so every way of running carries them;
:func:`taograph.stream_steps` yields them and adds what only the stream knows.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class Spent(TypedDict):
    """What a run has used so far.

    Attributes:
        model_calls: Calls of the model, retries and the closing call included.
        tool_calls: Calls of tools that were run.
        input_tokens: Tokens sent, cached ones included.
        output_tokens: Tokens received.
        cached_tokens: Of the tokens sent, those that the provider took from its cache.
        cost: US dollars by the price table; 0.0 where the price is unknown or nothing is charged.
        seconds: Active time; waiting for a person does not count.
    """

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: float
    seconds: float


class Header(TypedDict):
    """What every event says.

    Attributes:
        step: The reasoning turn it belongs to, from 1; 0 before the first.
        thread: The thread id, or None where the run has none.
        run: An id of this run, the same in all its events and after a resume.
        time: When it happened: ISO 8601, UTC.
        path: Empty for the graph that is streamed; node names down to a nested graph's event.
    """

    step: int
    thread: str | None
    run: str
    time: str
    path: list[str]


class RunStarted(Header):
    """A run began: the question, and the limits it runs under (the fields of ``Limits``).

    ``protocol`` says how the model is asked, and ``protocol_reason`` why. Where an endpoint turns out to refuse tools,
    a ``retry`` with the reason "protocol" follows, and the run goes on in text.
    """

    type: Literal["run_started"]
    question: str
    limits: dict[str, Any]
    tools: list[str]
    model: str
    protocol: Literal["native", "text"]
    protocol_reason: str


class ThoughtDelta(Header):
    """A piece of the model's text as it comes.

    ``kind`` is "reasoning" for a reasoning block, else "text". Until the reply is complete nobody can know
    whether its text is a thought or the answer; the ``thought`` or ``answer`` event that follows says it.
    """

    type: Literal["thought_delta"]
    text: str
    kind: Literal["text", "reasoning"]


class ThoughtEvent(Header):
    """A complete thought."""

    type: Literal["thought"]
    text: str


class ActionEvent(Header):
    """A tool call that is about to run."""

    type: Literal["action"]
    id: str
    tool: str
    args: dict[str, Any]


class ObservationEvent(Header):
    """What a call returned, as the model sees it.

    ``handle`` names the whole text where the model was shown only a part of ``size`` characters.
    """

    type: Literal["observation"]
    id: str
    tool: str
    text: str
    status: Literal["success", "error"]
    seconds: float
    size: int
    handle: str | None


class RetryEvent(Header):
    """A turn is asked for again, or in another way: a broken or empty reply, a nudge, an objection, a provider's error.

    The reasons "condensed" and "summarized" say that requests show less of the history from now on; ``numbers`` has the
    size of the request before and after (``tokens_before``, ``tokens_after``), and up to which message of the thread
    the history is shown in short (``before_message``) or how many ``rounds`` were summarized.
    """

    type: Literal["retry"]
    reason: str
    detail: str
    numbers: NotRequired[dict[str, int]]


class ApprovalEvent(Header):
    """The run waits for a person. ``id`` is the interrupt to resume: ``Command(resume={id: answer})``."""

    type: Literal["approval"]
    id: str
    value: Any


class ApprovedEvent(Header):
    """A person let a call run, perhaps with other arguments, or rejected it. ``id`` is the call's."""

    type: Literal["approved", "rejected"]
    id: str
    tool: str
    args: dict[str, Any]
    decision: str
    reason: str
    by: str


class BudgetEvent(Header):
    """What was spent, after each step."""

    type: Literal["budget"]
    steps: int
    limits: dict[str, Any]
    spent: Spent


class PlanEvent(Header):
    """A plan was made, or something became of its steps, by strategies that plan.

    Each part has at least an ``id``, what it is (``task`` or ``tool``) and a ``status``. Those that changed may come
    alone, and each takes the place of the one with its id.
    """

    type: Literal["plan"]
    plan: list[dict[str, Any]]


class VoteEvent(Header):
    """How a vote among samples stands; the fields of ``Votes`` in ``graphs/parts/voting.py``."""

    type: Literal["vote"]
    votes: dict[str, Any]


class ChildEvent(Header):
    """An event of a nested graph, with its path."""

    type: Literal["child"]
    event: dict[str, Any]


class StopEvent(Header):
    """Why the run ended."""

    type: Literal["stop"]
    reason: str
    detail: str


class AnswerEvent(Header):
    """The answer, never empty, with what the run cost; ``structured`` where a format was asked for."""

    type: Literal["answer"]
    text: str
    spent: Spent
    structured: NotRequired[Any]


Event = (
    RunStarted
    | ThoughtDelta
    | ThoughtEvent
    | ActionEvent
    | ObservationEvent
    | RetryEvent
    | ApprovalEvent
    | ApprovedEvent
    | BudgetEvent
    | PlanEvent
    | VoteEvent
    | ChildEvent
    | StopEvent
    | AnswerEvent
)


_now: tuple[int, str] = (0, "")


def utc_now() -> str:
    """The time of an event: ISO 8601, UTC, to the millisecond."""
    global _now  # noqa: PLW0603 - a pair, so that threads cannot mix two
    millisecond = time.time_ns() // 1_000_000
    known, text = _now
    if known != millisecond:
        seconds, rest = divmod(millisecond, 1000)
        text = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000).isoformat(timespec="milliseconds")
        _now = (millisecond, text)
    return text
