"""A person's word before an action: asked for with an interrupt, bound to the call, used for nothing else.

What is asked about is the call as it is stored: its tool, its arguments, and a hash of both. Calls of one turn are
asked about together, each in its own task, and answered in any order. The answer comes with ``Command(resume=…)``,
as ``{id of the interrupt: answer}`` or, where one question is open, alone:

- ``"approve"`` or ``True``: run it;
- ``{"decision": "edit", "args": {…}}``: run it with these arguments, which have to be valid for the tool;
- ``{"decision": "reject", "reason": "…", "by": "…"}``, ``"reject"`` or ``False``: do not run it, and tell the model
  who said so and why; with ``"stop": True`` the run ends with the reason ``rejected``.

An answer may carry the ``hash`` it was given; one that belongs to another call is refused. What cannot be used is an
error that names the field (``pydantic.ValidationError``), nothing is stored, and the question stands. LangChain's
``{"decisions": [{"type": "approve"}]}`` is understood, too.

With one of our checkpointers the word is written into the ledger before anything is done with it: it survives a
crash, and a call that was approved is not asked about again. What was asked needs its answer, whatever the caller's
function says the second time.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict, Field, model_validator

from taograph.calls import TOOL_THREADS, Call, Cancelled, Steps, refuse_if_cancelled
from taograph.checkpoints.ledger import CallKey, Entry, Ledger, hash_of, ledger_of
from taograph.graphs.loop.internals import place_of, read_messages, saver_of
from taograph.graphs.loop.interrupts import (
    answer,
    ask,
    ask_by_position,
    is_about,
    is_resumed,
    last_question,
    question,
    task_of,
)
from taograph.graphs.loop.trajectory import REJECTED, Trajectory, read_trajectory
from taograph.tools.outcome import ToolRun
from taograph.tools.policy import policy_of
from taograph.tools.running import check_arguments

log = logging.getLogger("taograph.approvals")

Approve = bool | str | Sequence[str] | Callable[[str, Mapping[str, Any], Trajectory], Any]
"""Which calls need a person: names of tools, True for all, or a function of (tool, arguments, trajectory)."""

_ALIKE = {
    **dict.fromkeys(("approve", "approved", "accept", "yes", "y", "true", "ok"), "approve"),
    **dict.fromkeys(("reject", "rejected", "no", "n", "false", "deny", "ignore"), "reject"),
    **dict.fromkeys(("edit", "edited"), "edit"),
}


@dataclass(frozen=True, slots=True)
class Approvals:
    """Which calls of a graph need a person's word.

    Attributes:
        names: The tools whose every call does.
        predicate: A function that tells it of a call, or None.
    """

    names: frozenset[str]
    predicate: Callable[[str, Mapping[str, Any], Trajectory], Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.names) or self.predicate is not None


def read_approve(approve: Approve | None, tools: Sequence[BaseTool]) -> Approvals:
    """What ``approve=`` and the policies of the tools say.

    Raises:
        ValueError: It names a tool there is not.
        TypeError: It is nothing of the kind.
    """
    known = {tool.name for tool in tools}
    own = {tool.name for tool in tools if policy_of(tool).approve}
    if approve is None or approve is False:
        return Approvals(frozenset(own))
    if approve is True:
        return Approvals(frozenset(known))
    if callable(approve) and not isinstance(approve, str):
        return Approvals(frozenset(own), approve)
    if not isinstance(approve, str | Collection) or not all(isinstance(name, str) for name in approve):
        raise TypeError(f"approve={approve!r}: give names of tools, True, or a function of (tool, args, trajectory)")
    names = {approve} if isinstance(approve, str) else set(approve)
    for name in sorted(names - known):
        raise ValueError(f"approve={name!r} is none of the tools: {', '.join(sorted(known)) or 'none'}")
    return Approvals(frozenset(names | own))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said about a call.

    Attributes:
        decision: Their word.
        args: The arguments to run it with.
        reason: Why, as they put it.
        by: Who they are, as they put it.
        stop: Whether the run is to end.
    """

    decision: Literal["approve", "edit", "reject"]
    args: dict[str, Any]
    reason: str = ""
    by: str = ""
    stop: bool = False


def decided(
    approvals: Approvals, call: ToolCall, tool: BaseTool, *, run: str, thread: str | None, config: RunnableConfig
) -> Steps[Verdict | None]:
    """What a person says about a call; the run waits until they do. None where nobody needs to be asked.

    Args:
        approvals: Which calls need a person's word.
        call: The call, with arguments that are valid.
        tool: Its tool.
        run: The run it belongs to.
        thread: The thread, for the question.
        config: Of the node.

    Raises:
        GraphInterrupt: There is no answer yet.
        Cancelled: There is none, and the run was cancelled.
        pydantic.ValidationError: The answer cannot be used; the question stands.
    """
    if not approvals:
        return None
    asked, form = question(config, _question(call, tool, thread)), _answer_to(call, tool)
    stored = yield from last_question(config)
    place, ledger = place_of(config), ledger_of(saver_of(config))
    if place is None or ledger is None:
        if not is_about(stored, asked):
            if not (yield from _is_needed(approvals, call, config)):
                return None
            refuse_if_cancelled()
        return _verdict(call, ask_by_position(config, asked, stored, form))
    key = CallKey(*place, task_of(config), call["id"] or "", hash_of(call["name"], call["args"]))
    word = yield from _word_of(ledger, key, config)
    given = answer(config, asked, stored, form)
    if given is None:
        if word is None and not asked.is_stored(stored) and not (yield from _is_needed(approvals, call, config)):
            return None
        if word is None:
            refuse_if_cancelled()
        return word or ask(asked, form)
    verdict = _verdict(call, given)
    if word is not None and (verdict == word or (yield from _is_begun(ledger, replace(key, scope=run), call, word))):
        return word  # what was begun on a person's word cannot be taken back
    yield ledger.doing(lambda: ledger.finish(key, call["name"], asdict(verdict), keep=False))
    return verdict


def rejected(call: ToolCall, verdict: Verdict) -> ToolRun:
    """The observation of a call that a person did not let run."""
    who = f" by {verdict.by}" if verdict.by else ""
    why = f": {verdict.reason}" if verdict.reason else ", without a reason"
    text = f"A person rejected this call{who}{why}. It was not run. Do not try it again; find another way, or answer."
    message = ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")
    message.additional_kwargs[REJECTED] = {"by": verdict.by, "reason": verdict.reason, "stop": verdict.stop}
    return ToolRun(message, ran=False, size=len(text))


_NOTE = "[A person changed the arguments; this ran with "


def noted(done: ToolRun, call: ToolCall) -> ToolRun:
    """The observation of a call whose arguments a person changed: the model has to know with which it ran."""
    args = json.dumps(call["args"], ensure_ascii=False)
    text = f"{_NOTE}{args}.]\n"
    message = done.message
    content: Any = message.content
    content = text + content if isinstance(content, str) else [{"type": "text", "text": text}, *content]
    changed = message.model_copy(update={"content": content})
    return replace(done, message=changed, size=done.size + len(text))


def without_note(text: str) -> str:
    """What a tool returned, without what :func:`noted` put before it."""
    return text.partition(".]\n")[2] if text.startswith(_NOTE) else text


def _question(call: ToolCall, tool: BaseTool, thread: str | None) -> dict[str, Any]:
    described = (tool.description or "").strip().partition("\n")[0]
    return {
        "type": "approval",
        "call": call["id"],
        "tool": call["name"],
        "args": dict(call["args"]),
        "hash": hash_of(call["name"], call["args"]),
        "thread": thread,
        "question": f"Run {call['name']}? {described}".strip(),
        "answers": ["approve", "edit", "reject"],
    }


def _is_needed(approvals: Approvals, call: ToolCall, config: RunnableConfig) -> Steps[bool]:
    """Whether a person has to say that a call may run; where the caller's function fails, they have to."""
    if call["name"] in approvals.names or approvals.predicate is None:
        return call["name"] in approvals.names
    decide, trajectory = approvals.predicate, read_trajectory(read_messages(config))

    def said() -> Any:
        return decide(call["name"], dict(call["args"]), trajectory)

    try:
        if inspect.iscoroutinefunction(decide) or inspect.iscoroutinefunction(getattr(decide, "__call__", None)):  # noqa: B004
            return bool((yield Call(None, said, None, TOOL_THREADS)))
        found = yield Call(said, None, None, TOOL_THREADS)
        if inspect.isawaitable(found):  # a plain function that hands on what an async one gave it
            found = yield Call(None, lambda: found, None, TOOL_THREADS)
        return bool(found)
    except Cancelled:
        return True
    except Exception as error:  # noqa: BLE001 - the caller's own function
        log.warning("approve= failed (%s): a person is asked", type(error).__name__)
        return True


def _word_of(ledger: Ledger, key: CallKey, config: RunnableConfig) -> Steps[Verdict | None]:
    """What a person said before the process died."""
    if not is_resumed(config):
        return None
    known: Entry | None = yield ledger.doing(lambda: ledger.find(key))
    return Verdict(**known.result) if known is not None and isinstance(known.result, dict) else None


def _is_begun(ledger: Ledger, key: CallKey, call: ToolCall, word: Verdict) -> Steps[bool]:
    """Whether a call was begun on a person's word."""
    if word.decision == "reject":
        return False
    with_args = replace(key, hash=hash_of(call["name"], word.args))
    known: Entry | None = yield ledger.doing(lambda: ledger.find(with_args))
    return known is not None and known.state != "waiting"


def _verdict(call: ToolCall, given: _Answer) -> Verdict:
    args = dict(call["args"]) if given.args is None else given.args
    return Verdict(given.decision, args, given.reason.strip(), given.by.strip(), given.stop)


class _Answer(BaseModel):
    """An answer in whatever form it came."""

    model_config = ConfigDict(extra="ignore")

    decision: Literal["approve", "edit", "reject"]
    args: dict[str, Any] | None = Field(None, description="With edit: the arguments to run it with.")
    reason: str = Field("", description="With reject: why, for the model.")
    by: str = Field("", description="Who decided.")
    stop: bool = Field(False, description="With reject: end the run.")
    hash: str | None = Field(None, description="The hash of the call, as it was asked; another one is refused.")

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: Any) -> Any:
        if isinstance(given, bool):
            return {"decision": "approve" if given else "reject"}
        if isinstance(given, str):
            return {"decision": _word(given)}
        if not isinstance(given, Mapping):
            return given
        found = dict(given)
        if isinstance(found.get("decisions"), list) and len(found["decisions"]) == 1:
            found = dict(found["decisions"][0])
        found.setdefault("decision", found.pop("type", None))
        if isinstance(found["decision"], str):
            found["decision"] = _word(found["decision"])
        edited = found.pop("edited_action", None)
        if isinstance(edited, Mapping):
            found.setdefault("args", edited.get("args"))
        message = found.pop("message", None)
        if isinstance(message, str):
            found.setdefault("reason", message)
        return found


def _answer_to(call: ToolCall, tool: BaseTool) -> type[_Answer]:
    """The answers that can be given to the question about a call."""
    wanted = hash_of(call["name"], call["args"])

    class Answer(_Answer):
        @model_validator(mode="after")
        def _fits(self) -> Answer:
            if self.hash is not None and self.hash != wanted:
                raise ValueError(f"hash: this answer is for another call than the one that waits ({call['name']})")
            if self.decision == "edit" and self.args is None:
                raise ValueError("args: an edit needs the arguments to run the call with")
            if self.decision == "edit" and (complaint := check_arguments(tool, self.args or {})):
                raise ValueError(f"args: {complaint}")
            if self.decision != "edit" and self.args is not None:
                raise ValueError('args: only an edit has arguments; write "decision": "edit" or leave them out')
            return self

    Answer.__name__ = Answer.__qualname__ = "ApprovalAnswer"
    return Answer


def _word(text: str) -> str:
    return _ALIKE.get(text.strip().lower(), text)
