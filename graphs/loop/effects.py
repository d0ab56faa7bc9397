"""Calls that survive a crash: what has finished is never run again, what must not be repeated is never repeated.

Every call of a run with one of our checkpointers goes through the ledger (:mod:`taograph.checkpoints.ledger`). With
another checkpointer there is none: LangGraph's own promise holds then, which is that a call whose result was stored
is not run again, and that one whose result was not is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field, model_validator

from taograph.calls import TOOL_THREADS, Call, Steps
from taograph.checkpoints.ledger import CallKey, Entry, Ledger, hash_of, ledger_of
from taograph.graphs.loop.internals import place_of, saver_of
from taograph.tools.idempotency import under_key
from taograph.tools.outcome import ToolRun, failed
from taograph.tools.policy import ToolPolicy

T = TypeVar("T")


def once(
    call: ToolCall, policy: ToolPolicy, step: int, config: RunnableConfig, run: Callable[[], Steps[ToolRun]]
) -> Steps[ToolRun]:
    """Run a call unless the ledger says that it finished, or may have taken effect.

    Args:
        call: The call, with the arguments it is run with.
        policy: Of its tool.
        step: The turn it belongs to.
        config: Of the node.
        run: The call.

    Raises:
        GraphInterrupt: Nobody knows whether it took effect, and a person has not said what to do.
    """
    place = place_of(config)
    if place is None:
        return (yield from run())
    key = CallKey(*place, call["id"] or "", hash_of(call["name"], call["args"]))
    ledger = ledger_of(saver_of(config))
    if ledger is None:
        with under_key(key.idempotency):
            return (yield from run())
    reads = policy.effects == "none"
    known: Entry | None = yield _write(ledger, lambda: ledger.find(key) if reads else ledger.begin(key, call["name"]))
    if known is not None and known.state == "finished":
        return _finished(call, known)
    if known is not None:
        settled = yield from _unsettled(call, policy, known, config)
        if settled is not None:
            yield _write(ledger, lambda: ledger.finish(key, call["name"], _plain(settled), step=step, keep=True))
            return settled
        yield _write(ledger, lambda: ledger.again(key))
    try:
        with under_key(key.idempotency):
            done = yield from run()
    except GraphBubbleUp:  # it waits for a person, and is run from its top when they have answered
        yield _write(ledger, lambda: ledger.release(key))
        raise
    yield _write(ledger, lambda: ledger.finish(key, call["name"], _plain(done), step=step, keep=not reads))
    return done


class PaidReply:
    """The reply of a model, which was paid for: kept until the step is stored, and not paid twice after a crash.

    Args:
        config: Of the node.
        turn: Id of the user's message that the run answers.
        number: Which call of the run it is.
        request: The messages.
    """

    def __init__(self, config: RunnableConfig, turn: str, number: int, request: Sequence[BaseMessage]) -> None:
        place, self._ledger, self._number = place_of(config), ledger_of(saver_of(config)), number
        self._key = None
        if place is not None and self._ledger is not None:
            # Enough to tell this request from one after an edit of the state; hashing all would grow with the run.
            about = {"messages": len(request), "last": [(m.type, str(m.content)) for m in request[-2:]]}
            self._key = CallKey(*place, f"model:{turn}:{number}", hash_of("model", about))

    def recall(self) -> Steps[AIMessage | None]:
        """The reply, where it came and the process died before it was stored with the run."""
        if self._key is None or self._ledger is None:
            return None
        ledger, key = self._ledger, self._key
        known: Entry | None = yield _write(ledger, lambda: ledger.find(key))
        return known.result if known is not None and isinstance(known.result, AIMessage) else None

    def keep(self, reply: AIMessage) -> Steps[None]:
        """Write the reply down."""
        if self._key is None or self._ledger is None:
            return
        ledger, key, number = self._ledger, self._key, self._number
        yield _write(ledger, lambda: ledger.finish(key, "model", reply, step=number, keep=False))


def settle(config: RunnableConfig) -> Callable[[], None] | None:
    """What is to be done when a run has ended and all of it is stored: forget what was kept for a crash.

    Returns:
        The work, which takes a transaction; None where there is nothing to do.
    """
    place, ledger = place_of(config), ledger_of(saver_of(config))
    return None if place is None or ledger is None else lambda: ledger.settle(*place)


def _write(ledger: Ledger, do: Callable[[], T]) -> Call:
    """A transaction of the ledger; it is made also in a run that is being cancelled."""
    return Call(do, lambda: ledger.saver.away(do), None, TOOL_THREADS, certain=True)


def _unsettled(call: ToolCall, policy: ToolPolicy, known: Entry, config: RunnableConfig) -> Steps[ToolRun | None]:
    """What becomes of a call that was begun and not finished; None where it is to be run again."""
    if policy.effects != "once":
        return None
    if policy.on_unknown == "tell":
        return _unknown(call)
    answer = _Answer(decision="unknown", result="")
    # Each try that was lost was asked about; only the last answer is new, and an old one is not used twice.
    for number in range(1, known.tries + 1):
        answer = interrupt(_question(call, known, number), response_schema=_Answer)
    yield from ()
    match answer.decision:
        case "repeat":
            return None
        case "done":
            text = answer.result.strip() or "It took effect; what it returned was lost."
            return _said(call, f"[A person said of this call, which a crash interrupted:] {text}", "success")
        case _:
            return _unknown(call)


def _question(call: ToolCall, known: Entry, number: int) -> dict[str, Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(known.since))
    return {
        "type": "unfinished_call",
        "call": call["id"],
        "tool": call["name"],
        "args": dict(call["args"]),
        "hash": hash_of(call["name"], call["args"]),
        "try": number,
        "question": (
            f"{call['name']} was begun ({since}) and the process ended before it returned. It must not be done twice, "
            "and nobody knows whether it took effect. Look, then say: repeat (it did not), done (it did; what it "
            "returned can be given), or unknown (the model is told)."
        ),
        "answers": ["repeat", "done", "unknown"],
    }


class _Answer(BaseModel):
    decision: Literal["repeat", "done", "unknown"]
    result: str = Field("", description="With done: what the call returned, for the model.")

    @model_validator(mode="before")
    @classmethod
    def _word(cls, given: Any) -> Any:
        return {"decision": given.strip().lower()} if isinstance(given, str) else given


def _unknown(call: ToolCall) -> ToolRun:
    return _said(
        call,
        f"{call['name']} was begun, and a crash interrupted it. Whether it took effect is unknown, so it was not "
        "repeated. Find out with another tool if you can, or say that it is uncertain.",
        "error",
    )


def _said(call: ToolCall, text: str, status: Literal["success", "error"]) -> ToolRun:
    message = ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status=status)
    return ToolRun(message, ran=False, size=len(text))


def _plain(done: ToolRun) -> dict[str, Any]:
    """What came of a call as values that can be stored."""
    commands = [{"update": c.update, "goto": c.goto, "graph": c.graph} for c in done.commands]
    return {"message": done.message, "size": done.size, "handle": done.handle, "commands": commands, "told": done.told}


def _finished(call: ToolCall, known: Entry) -> ToolRun:
    """What came of a call in the process that died before it was stored with the run."""
    kept = known.result
    if not isinstance(kept, dict):
        text = f"{call['name']} was carried out, and what it returned was lost in a crash."
        return failed(call, text)
    commands = tuple(Command(**command) for command in kept["commands"])
    return ToolRun(
        kept["message"], ran=True, size=kept["size"], handle=kept["handle"], commands=commands, told=kept["told"]
    )
