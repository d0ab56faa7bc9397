"""Calls that survive a crash: what has finished is never run again, what must not be repeated is never repeated.

Every call of a run with one of our checkpointers goes through the ledger (:mod:`taograph.checkpoints.ledger`). With
another checkpointer there is none: LangGraph's own promise holds then, which is that a call whose result was stored
is not run again, and that one whose result was not is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import BaseModel, Field, model_validator

from taograph.calls import Cancelled, Pause, Steps, refuse_if_cancelled
from taograph.checkpoints.ledger import CallKey, Entry, Ledger, hash_of, ledger_of
from taograph.graphs.loop.internals import place_of, saver_of, storable
from taograph.graphs.loop.interrupts import (
    answer,
    ask,
    is_resumed,
    is_stored_at_exit,
    last_question,
    question,
    task_of,
    unsure_places,
)
from taograph.graphs.loop.repair import close_calls
from taograph.graphs.loop.state import Bookkeeping
from taograph.models.streamed import StreamedCalls
from taograph.tools.idempotency import under_key
from taograph.tools.outcome import ToolRun, failed
from taograph.tools.policy import ToolPolicy, policy_of

log = logging.getLogger("taograph.graphs")
# A step that is not stored within half a minute is not going to be.
_LOOKS, _BETWEEN_LOOKS, _FIRST_PAUSE = 1500, 0.02, 0.001


def once(
    call: ToolCall, policy: ToolPolicy, run: str, config: RunnableConfig, carry_out: Callable[[], Steps[ToolRun]]
) -> Steps[ToolRun]:
    """Run a call unless the ledger says that it finished, or may have taken effect.

    Args:
        call: The call, with the arguments it is run with.
        policy: Of its tool.
        run: The run it belongs to.
        config: Of the node.
        carry_out: The call.

    Raises:
        GraphInterrupt: Nobody knows whether it took effect, and a person has not said what to do.
    """
    place = place_of(config)
    if place is None:
        return (yield from carry_out())
    key = CallKey(*place, run, call["id"] or "", hash_of(call["name"], call["args"]))
    ledger = ledger_of(saver_of(config))
    if ledger is None:
        with under_key(key.idempotency):
            return (yield from carry_out())
    reads, known = policy.effects == "none", None
    if not reads:
        yield from _found_again(ledger, call["name"], policy, config)
        known = yield ledger.doing(lambda: ledger.begin(key, call["name"]))
    elif is_resumed(config):
        known = yield ledger.doing(lambda: ledger.find(key))
    if known is not None and known.state == "finished":
        return _finished(call, known)
    if known is not None:
        settled = yield from _unsettled(call, policy, known, config)
        if settled is not None:
            yield ledger.doing(lambda: ledger.finish(key, call["name"], _plain(settled, config), keep=True))
            return settled
        yield ledger.doing(lambda: ledger.again(key))
    try:
        with under_key(key.idempotency):
            done = yield from carry_out()
    except GraphBubbleUp:  # it waits for a person, and is run from its top when they have answered
        yield ledger.doing(lambda: ledger.wait(key))
        raise
    yield ledger.doing(lambda: ledger.finish(key, call["name"], _plain(done, config), keep=not reads))
    return done


def _found_again(ledger: Ledger, tool: str, policy: ToolPolicy, config: RunnableConfig) -> Steps[None]:
    """See to it that a process that goes on after a crash will find the call: what it belongs to has to be stored.

    With ``durability="sync"`` it is; with ``"async"`` it may still be on its way, for a step of a graph around ours,
    too. With ``"exit"`` it never is while the run lasts, and nothing can be done about it here.
    """
    if is_stored_at_exit(config):
        if policy.effects == "once":
            _warn_of_exit(tool)
        return
    places, place = unsure_places(config), place_of(config)
    if not places or place is None:
        return
    pause, looks = _FIRST_PAUSE, 0
    while looks < _LOOKS:
        if ledger.saver.stored.has(place[0], places):
            return
        if pause >= _BETWEEN_LOOKS:  # it may have been stored by somebody else
            looks += 1
            if (yield ledger.doing(lambda: ledger.has_stored(place[0], places))):
                return
        yield Pause(pause)
        pause = min(pause * 2, _BETWEEN_LOOKS)
    log.warning("tool %s is run, though the step that it belongs to is not stored yet", tool)


@cache
def _warn_of_exit(tool: str) -> None:
    log.warning(
        'tool %s must not be repeated, and its run is stored only when it ends (durability="exit"): after a crash '
        'nobody will know of the call; run the outermost graph with durability="sync"',
        tool,
    )


class PaidReply:
    """The reply of a model, which was paid for: kept until the step is stored, and not paid twice after a crash.

    Args:
        config: Of the node.
        number: Which request of the node's it is.
        request: The messages.
    """

    def __init__(self, config: RunnableConfig, number: int, request: Sequence[BaseMessage]) -> None:
        place, self._ledger, self._config = place_of(config), ledger_of(saver_of(config)), config
        self._key = None
        if place is not None and self._ledger is not None:
            # What it is told follows from the task, but for what the caller has set anew since.
            about = {"messages": len(request), "last": [(m.type, str(m.content)) for m in request[-2:]]}
            self._key = CallKey(*place, task_of(config), f"reply {number}", hash_of("model", about))

    def recall(self) -> Steps[AIMessage | None]:
        """The reply, where it came and the process died before it was stored with the run."""
        if self._key is None or self._ledger is None or not is_resumed(self._config):
            return None
        ledger, key = self._ledger, self._key
        known: Entry | None = yield ledger.doing(lambda: ledger.find(key))
        return known.result if known is not None and isinstance(known.result, AIMessage) else None

    def keep(self, reply: AIMessage, *, only: bool = True) -> Steps[None]:
        """Write the reply down.

        Args:
            reply: The reply.
            only: Whether what came before it is stored with the run, and need not be kept any longer.
        """
        if self._key is None or self._ledger is None:
            return
        ledger, key = self._ledger, self._key
        yield ledger.doing(lambda: ledger.finish(key, "model", reply, keep=False, only=only))

    def arrived(self, streamed: StreamedCalls) -> Callable[[Any], Awaitable[None]] | None:
        """What writes down a reply that comes while its task is cancelled; None where nothing is kept.

        Args:
            streamed: What has watched the call.
        """
        if self._key is None or self._ledger is None:
            return None
        ledger, key = self._ledger, self._key

        async def write(said: Any) -> None:
            reply = streamed.checked(as_ai(said))
            await ledger.saver.store(lambda: ledger.finish(key, "model", reply, keep=False))

        return write


def as_ai(reply: Any) -> AIMessage:
    """A reply as it is, or made of another kind of message, which some integrations return."""
    return reply if isinstance(reply, AIMessage) else AIMessage(reply.content, id=reply.id)


def left_open(
    messages: Sequence[AnyMessage],
    run: Bookkeeping | None,
    tools: Mapping[str, BaseTool],
    config: RunnableConfig,
) -> Steps[dict[str, ToolMessage]]:
    """What to tell the model of calls that a crash or a wait for a person left open, and that the user went past.

    Args:
        messages: The messages of the thread.
        run: The bookkeeping of the run before.
        tools: The tools by name.
        config: Of the node.

    Returns:
        An observation by the id of the call: what it returned, where the ledger has it; that it was not run; or
        that nobody knows whether it took effect. Nothing where there is no ledger.
    """
    place, ledger = place_of(config), ledger_of(saver_of(config))
    calls = _without_result(messages)
    if not calls or run is None or place is None or ledger is None:
        return {}
    known: dict[str, Entry] = yield ledger.doing(lambda: ledger.left(*place, run["id"], list(calls)))
    return {
        id: _left(call, known.get(id), run["refused"].get(id), tools.get(call["name"])) for id, call in calls.items()
    }


def _left(call: ToolCall, known: Entry | None, refused: str | None, tool: BaseTool | None) -> ToolMessage:
    name = call["name"]
    if known is not None and known.state == "finished":
        return _finished(call, known).message
    if known is not None and known.state == "begun":
        why = (
            f"{name} was begun, and the process ended before it returned. Whether it took effect is unknown. Find out "
            "with another tool before it is done again, or say that it is uncertain."
        )
    elif known is not None:
        why = f"{name} was not carried out: it waited for an answer of a person, who went on with something else."
    elif refused is None and tool is not None and policy_of(tool).effects == "none":
        why = f"{name} gave no result before the user went on with something else. It only reads."
    else:
        why = refused or f"{name} was not run: the user went on with something else before it was allowed or begun."
    return close_calls([call], why)[0]


def _without_result(messages: Sequence[AnyMessage]) -> dict[str, ToolCall]:
    """The calls of the last reply that have no result, by id, whatever came after it."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return {call["id"] or "": call for call in message.tool_calls if call["id"] not in answered}
    return {}


def _unsettled(call: ToolCall, policy: ToolPolicy, known: Entry, config: RunnableConfig) -> Steps[ToolRun | None]:
    """What becomes of a call that was begun and not finished; None where it is to be run again."""
    if policy.effects != "once":
        return None
    if policy.on_unknown == "tell":
        return _unknown(call)
    asked = question(config, _question(call, known), known.tries)
    given = answer(config, asked, (yield from last_question(config)), _Answer)
    if given is None:
        try:
            refuse_if_cancelled()
        except Cancelled:
            return _unknown(call)
        ask(asked, _Answer)
    match given.decision:
        case "repeat":
            return None
        case "done":
            text = given.result.strip() or "It took effect; what it returned was lost."
            return _said(call, f"[A person said of this call, which a crash interrupted:] {text}", "success")
        case _:
            return _unknown(call)


def _question(call: ToolCall, known: Entry) -> dict[str, Any]:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(known.since))
    return {
        "type": "unfinished_call",
        "call": call["id"],
        "tool": call["name"],
        "args": dict(call["args"]),
        "hash": hash_of(call["name"], call["args"]),
        "try": known.tries,
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


def _plain(done: ToolRun, config: RunnableConfig) -> dict[str, Any]:
    """What came of a call as values that can be stored."""
    return {
        "message": storable(done.message, config),
        "ran": done.ran,
        "size": done.size,
        "handle": done.handle,
        "commands": [{"update": c.update, "goto": c.goto, "graph": c.graph} for c in done.commands],
        "told": done.told,
    }


def _finished(call: ToolCall, known: Entry) -> ToolRun:
    """What came of a call in the process that died before it was stored with the run."""
    kept = known.result
    if not isinstance(kept, dict):
        text = f"{call['name']} was carried out, and what it returned was lost in a crash."
        return failed(call, text)
    commands = tuple(Command(**command) for command in kept["commands"])
    return ToolRun(
        kept["message"],
        ran=kept["ran"],
        size=kept["size"],
        handle=kept["handle"],
        commands=commands,
        told=kept["told"],
    )
