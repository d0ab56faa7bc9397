"""The events of a trace: what happened in one call of a graph, in one vocabulary for any graph.

Every event has a header (``trace``, ``seq``, ``type``, ``time``, the hashes, see :mod:`taograph.trace.chain`) and a
content, which has the fields of :class:`Content` and those of its type. Version 1 of the schema; ``schema.json``
beside this module is the same as a JSON Schema.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from typing_extensions import TypedDict

EventType = Literal[
    "run_started",
    "model_asked",
    "model_replied",
    "model_failed",
    "thought",
    "action",
    "observation",
    "approval_asked",
    "approval_answered",
    "retry",
    "repair",
    "truncation",
    "condensation",
    "plan",
    "vote",
    "tool_failed",
    "stop",
    "answer",
    "gap",
    "run_ended",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)


class Content(TypedDict, total=False):
    """What every event says besides its header.

    Attributes:
        thread: The thread, if the run has one.
        user: Who the run was for, if it is known.
        run: The run: the same in every call that goes on with it, as after an approval.
        step: The turn, from 1; 0 before the first.
        path: Names of the nodes down to the graph that it happened in; empty for the outermost.
        task: The nodes that it happened in, from the outermost graph down; ``sample[2]`` is the third that was sent.
        at: Seconds since the trace began, by a clock that is never set.
        delete_on: In the first event: date from which on the trace is to be deleted, as 2026-12-31.
    """

    thread: str | None
    user: str | None
    run: str
    step: int
    path: list[str]
    task: list[str]
    at: float
    delete_on: str


FIELDS: dict[EventType, dict[str, str]] = {
    "run_started": {
        "graph": "its name",
        "version": "of taograph, LangGraph and LangChain",
        "question": "what was asked, where the graph tells it",
        "input": "hash of the input",
        "model": "the model's name, where the graph tells it",
        "protocol": "native or text, where the graph tells it",
        "limits": "what the run may use, where the graph tells it",
        "tools": "names of the tools, where the graph tells them",
        "resumes": "whether the call goes on with a run that was stored",
        "given": "the input, but for the answers that a run goes on with",
        "resume": "those answers",
        "context": "limits, prompt and the like that this call set with its context",
        "setup": "what the graph is made of, where it tells it: strategy, prompt, tools and their schemas",
    },
    "model_asked": {
        "call": "id of the call of the model",
        "model": "its name",
        "messages": "how many were sent",
        "chars": "characters of them",
        "request": "hash of them and of the tools that were offered",
        "new": "messages of the system and of the user that were not sent before",
        "tools": "names of the tools that were offered",
    },
    "model_replied": {
        "call": "as in model_asked",
        "model": "its name",
        "message": "the reply",
        "input_tokens": "sent",
        "output_tokens": "received",
        "cached_tokens": "of those sent, from the provider's cache",
        "cost": "US dollars; 0.0 where the price is not known",
        "seconds": "until the reply was complete",
    },
    "model_failed": {
        "call": "as in model_asked",
        "kinds": "what the failure means: malformed, overflow, refuses_tools, refusal, temperature, retryable",
        "code": "the HTTP status, where there is one",
        "error": "its type",
        "text": "what it said",
        "seconds": "until then",
    },
    "thought": {"text": "the thought"},
    "action": {"id": "of the call", "tool": "its name", "args": "the arguments"},
    "observation": {
        "id": "of the call",
        "tool": "its name",
        "text": "what the model was shown",
        "status": "success or error",
        "seconds": "that the call took",
        "size": "characters of the whole result",
        "handle": "what the whole result is kept under, where the model was shown a part of it",
    },
    "approval_asked": {"id": "of the question", "value": "what a person is asked"},
    "approval_answered": {
        "id": "of the call",
        "tool": "its name",
        "args": "the arguments it is run with",
        "decision": "approve, edit or reject",
        "reason": "why",
        "by": "who",
    },
    "retry": {"reason": "why the model is asked again", "detail": "the same in words"},
    "repair": {"reason": "repair", "detail": "what was put right"},
    "truncation": {"reason": "truncated", "detail": "what was dropped"},
    "condensation": {"reason": "condensed or summarized", "detail": "in words", "numbers": "sizes before and after"},
    "plan": {"plan": "the steps, each with its state"},
    "vote": {"votes": "how a vote among samples stands"},
    "tool_failed": {"id": "of the call", "tool": "its name", "error": "its type", "text": "what it said"},
    "stop": {"reason": "why the run ended", "detail": "the same in words"},
    "answer": {
        "text": "the answer",
        "spent": "what the run used",
        "structured": "the answer in the format that was asked for",
    },
    "gap": {"lost": "events that could not be written before this one"},
    "run_ended": {
        "status": "ended, waiting (for a person), drained (to be gone on with), failed, cancelled",
        "error": "type of the exception, where it failed",
        "text": "what it said",
        "seconds": "since the trace began",
        "model_calls": "of this call of the graph",
        "tool_calls": "likewise",
        "input_tokens": "likewise",
        "output_tokens": "likewise",
        "cached_tokens": "likewise",
        "cost": "likewise",
    },
}
"""What the content of each type says."""

# How an event of the loop's own vocabulary is called here, by its reason where it is a retry.
RETRIES: dict[str, EventType] = {
    "repair": "repair",
    "truncated": "truncation",
    "condensed": "condensation",
    "summarized": "condensation",
}
STEPS: dict[str, EventType] = {
    "thought": "thought",
    "action": "action",
    "observation": "observation",
    "approved": "approval_answered",
    "rejected": "approval_answered",
    "retry": "retry",
    "plan": "plan",
    "vote": "vote",
    "stop": "stop",
    "answer": "answer",
}
_HEADER = frozenset(("type", "step", "thread", "run", "time", "path"))


def of_step(event: dict[str, Any]) -> tuple[EventType, dict[str, Any]] | None:
    """Type and content of an event of the loop's own vocabulary; None for one that is not recorded."""
    kind = event["type"]
    found = RETRIES.get(event["reason"]) if kind == "retry" else None
    found = found or STEPS.get(kind)
    if found is None:
        return None
    return found, {name: value for name, value in event.items() if name not in _HEADER}
