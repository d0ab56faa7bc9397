"""The node ``reason``: one turn of the model, and what its reply means for the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from taograph.calls import Cancelled, Steps, TimedOut
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.asking import Ended
from taograph.graphs.loop.session import GaveUp
from taograph.graphs.loop.stage import Stage, opened
from taograph.graphs.loop.state import State
from taograph.graphs.loop.stopping import Stop, StopReason, nudge
from taograph.graphs.loop.trajectory import feedback
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.acceptable import filled, without_thoughts
from taograph.graphs.protocols.native import DROPPED, Reply, read_reply, text_of
from taograph.models.failures import is_malformed, refusal_text, refuses_tools

# Supersteps that must be left after a turn for its calls to be run and looked at.
_FOR_ACT = 3


def reason(agent: Agent) -> Callable[[State, RunnableConfig], Steps[dict[str, Any]]]:
    """The core of the node for a loop."""

    def core(state: State, config: RunnableConfig) -> Steps[dict[str, Any]]:
        turn = Turn(agent, state, config, *(yield from opened(agent, state, config)))
        return (yield from turn.end((yield from turn.take())))

    return core


class Turn(Stage):
    """One turn of the model within a run.

    Attributes:
        answer: The model's answer, where it gave one.
    """

    answer: str | None = None

    def take(self) -> Steps[Stop | None]:
        """Ask the model, unless the run is over; returns why it ends, or None if it goes on."""
        session, run = self.session, self.session.run
        self.start()
        cancelled = self.over(())
        if cancelled is not None:
            return cancelled
        direct = self._direct_answer()
        if direct is not None:
            return (yield from self._answered(direct, "a tool answered directly"))
        stop = self.over()
        if stop is not None:
            return stop
        hint = nudge(self.progress())
        if hint is not None:
            run["nudged"] = True
            self.send_back(hint, "repeated_action")
        try:
            self.turn()
        except Ended as end:
            return end.stop
        before = (session.spent["input_tokens"] + session.spent["output_tokens"], session.spent["cost"])
        try:
            try:
                reply = yield from session.ask_to_fit(session.bound.acting, self.conversation)
            except GaveUp as failure:
                if not session.fall_back(failure):
                    raise
                reply = yield from session.ask_to_fit(session.bound.acting, self.conversation)
                session.keep_to_text()
        except Cancelled as cut:
            return self.stop("cancelled", cut.reason)
        except TimedOut:
            return self.out_of_time()
        except GaveUp as failure:
            return self._failed(failure)
        self.weigh(before)
        stop = yield from self._read(read_reply(reply, self.agent.by_name, self._call_ids()))
        session.budget()
        return stop

    def end(self, stop: Stop | None) -> Steps[dict[str, Any]]:
        """What the node writes."""
        update = yield from self.close(stop, self.answer)
        if stop is None:
            self.sends()
        return update

    def _read(self, reply: Reply) -> Steps[Stop | None]:
        if not self.agent.thoughts and reply.kind in ("action", "final", "malformed"):
            reply = _only_acting(reply)
        match reply.kind:
            case "action":
                return self._acted(reply)
            case "final":
                return (yield from self._answered(reply))
            case "refusal":
                words = reply.text or "The model refused to answer."
                self.session.messages.append(reply.message if text_of(reply.message) else filled(reply.message, words))
                return self.stop("refusal", f"the model refused: {reply.text[:200] or 'no words were given'}")
            case _:
                return self._unusable(reply)

    def _acted(self, reply: Reply) -> Stop | None:
        session, run = self.session, self.session.run
        run["unusable"] = 0
        run["refused"] = dict(reply.refused)
        session.messages.append(reply.message)
        self.tell_thought(reply.message)
        self._tell_repairs(reply)
        runnable = [call for call in reply.message.tool_calls if call["id"] not in reply.refused]
        try:
            left = self.calls_left(len(runnable))
        except Ended as end:
            return end.stop
        for call in runnable[left:]:
            why = f"only {session.spent['tool_calls'] + left} tool calls are allowed"
            run["refused"][call["id"] or ""] = prompts.NOT_RUN.format(why=why)
        self.called(runnable[:left])
        if self.room < _FOR_ACT:
            return self.stop("step_limit", self.recursion_detail())
        return None

    def _direct_answer(self) -> Reply | None:
        """What the tools of the last turn gave, where all of them have LangChain's ``return_direct``."""
        steps = () if self.session.is_new else self.read.trajectory(1).steps
        if not steps or not steps[-1].actions:
            return None
        tools = [self.agent.by_name.get(action.tool) for action in steps[-1].actions]
        observed = steps[-1].observations
        if not all(tool is not None and tool.return_direct for tool in tools) or any(o.error for o in observed):
            return None
        text = "\n".join(o.whole for o in observed)
        return Reply("final", AIMessage(text), text)

    def _answered(self, reply: Reply, how: str = "the model answered") -> Steps[Stop | None]:
        session = self.session
        session.messages.append(reply.message)
        self.tell_thought(reply.message)
        self._tell_repairs(reply)
        found = yield from self.objection_to(reply.text)
        if found.text:
            session.messages.append(feedback(found.text, found.kind))
            return None
        self.answer = reply.text
        return self.stop("final", "; ".join([how, *found.notes]))

    def _unusable(self, reply: Reply) -> Stop | None:
        """A reply that is empty, cut off, or whose calls cannot be read: asked for again, a bounded number of times."""
        session, run = self.session, self.session.run
        run["unusable"] += 1
        run["refused"] = dict(reply.refused)
        self.tell_thought(reply.message)
        if DROPPED in reply.repairs:
            session.teller.tell("retry", reason="truncated", detail=DROPPED)
        if reply.message.tool_calls or reply.text:
            session.messages.append(reply.message)
        reason: StopReason = "empty_output" if reply.kind == "empty" else "malformed_output"
        what = {
            "empty": "an empty reply",
            "cut": "a reply cut off at the length limit",
        }.get(reply.kind, "a step that cannot be read" if reply.hint else "calls that cannot be read")
        if run["unusable"] > session.limits.malformed or not self.has_turn():
            return self.stop(reason, f"{what}, {run['unusable']} times in a row")
        if reply.message.tool_calls:
            # What is wrong with a call is told as its observation.
            session.teller.tell("retry", reason=reason, detail=what)
            if self.room < _FOR_ACT:
                self.close_calls(prompts.BROKEN)
            return None
        otherwise = {"empty": prompts.EMPTY, "cut": prompts.CUT}.get(reply.kind, prompts.BROKEN)
        self.send_back(reply.hint or otherwise, reason, f"{what}: {reply.fault}" if reply.fault else what)
        return None

    def _failed(self, failure: GaveUp) -> Stop | None:
        session, run = self.session, self.session.run
        refused = refusal_text(failure.error)
        if refused is not None:
            session.messages.append(AIMessage(refused))
            return self.stop("refusal", f"the model refused: {refused[:200]}")
        if not is_malformed(failure.error):
            refused_tools = self.agent.protocol == "native" and refuses_tools(failure.error)
            advice = '. With protocol="auto" or "text" it need not call functions' if refused_tools else ""
            return self.stop("model_error", failure.words + advice)
        run["unusable"] += 1
        if run["unusable"] > session.limits.malformed or not self.has_turn():
            return self.stop("malformed_output", failure.words)
        self.send_back(prompts.BROKEN, "malformed_output", failure.words)
        return None

    def _send_back(self, text: str, kind: str, detail: str = "") -> None:
        self.session.messages.append(feedback(text, kind))
        self.session.teller.tell("retry", reason=kind, detail=detail or text)

    def _tell_repairs(self, reply: Reply) -> None:
        for made in reply.repairs:
            self.session.teller.tell("retry", reason="truncated" if made == DROPPED else "repair", detail=made)

    def _call_ids(self) -> set[str]:
        told = (m for m in self.session.bound.examples if isinstance(m, AIMessage))
        return self.read.call_ids.union(call["id"] or "" for message in told for call in message.tool_calls)


def _only_acting(reply: Reply) -> Reply:
    """A reply without its thoughts, where nobody asked for them."""
    kept = without_thoughts(reply.message)
    if kept.tool_calls:
        return replace(reply, message=kept, text="")
    if isinstance(kept.content, str) and reply.text:  # a <think> part goes
        kept = kept.model_copy(update={"content": reply.text})
    return replace(reply, message=kept)
