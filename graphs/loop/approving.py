"""A person's word before an action: asked for with ``interrupt``, bound to the call, used for nothing else.

What is asked about is the call as it is stored: its tool, its arguments, and a hash of both. Calls of one turn are
asked about together, each in its own task, and answered in any order. The answer comes with ``Command(resume=…)``:

- ``"approve"`` or ``True``: run it;
- ``{"decision": "edit", "args": {…}}``: run it with these arguments, which have to be valid for the tool;
- ``{"decision": "reject", "reason": "…", "by": "…"}``, ``"reject"`` or ``False``: do not run it, and tell the model
  who said so and why; with ``"stop": True`` the run ends with the reason ``rejected``.

An answer may carry the ``hash`` it was given; one that belongs to another call is refused. What cannot be used is an
error that names the field (``pydantic.ValidationError``), nothing is stored, and the question stands. LangChain's
``{"decisions": [{"type": "approve"}]}`` is understood, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from taograph.checkpoints.ledger import hash_of
from taograph.graphs.loop.trajectory import REJECTED, Trajectory
from taograph.tools.outcome import ToolRun
from taograph.tools.policy import policy_of
from taograph.tools.running import check_arguments

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


def ask(call: ToolCall, tool: BaseTool, thread: str | None) -> Verdict:
    """Ask a person about a call; the run waits until they answer.

    Raises:
        GraphInterrupt: There is no answer yet.
        pydantic.ValidationError: The answer cannot be used; the question stands.
    """
    described = (tool.description or "").strip().partition("\n")[0]
    asked = {
        "type": "approval",
        "call": call["id"],
        "tool": call["name"],
        "args": dict(call["args"]),
        "hash": hash_of(call["name"], call["args"]),
        "thread": thread,
        "question": f"Run {call['name']}? {described}".strip(),
        "answers": ["approve", "edit", "reject"],
    }
    answer: _Answer = interrupt(asked, response_schema=_answer_to(call, tool))
    args = dict(call["args"]) if answer.args is None else answer.args
    return Verdict(answer.decision, args, answer.reason.strip(), answer.by.strip(), answer.stop)


def rejected(call: ToolCall, verdict: Verdict) -> ToolRun:
    """The observation of a call that a person did not let run."""
    who = f" by {verdict.by}" if verdict.by else ""
    why = f": {verdict.reason}" if verdict.reason else ", without a reason"
    text = f"A person rejected this call{who}{why}. It was not run. Do not try it again; find another way, or answer."
    message = ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status="error")
    message.additional_kwargs[REJECTED] = {"by": verdict.by, "reason": verdict.reason, "stop": verdict.stop}
    return ToolRun(message, ran=False, size=len(text))


def noted(done: ToolRun, call: ToolCall) -> ToolRun:
    """The observation of a call whose arguments a person changed: the model has to know with which it ran."""
    args = json.dumps(call["args"], ensure_ascii=False)
    text = f"[A person changed the arguments; this ran with {args}.]\n"
    message = done.message
    content: Any = message.content
    content = text + content if isinstance(content, str) else [{"type": "text", "text": text}, *content]
    changed = message.model_copy(update={"content": content})
    return replace(done, message=changed, size=done.size + len(text))


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
