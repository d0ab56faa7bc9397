"""The node ``reason``: one turn of the model, and what its reply means for the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig

from taograph.calls import Cancelled, Steps, TimedOut
from taograph.cancel import current_cancellation
from taograph.graphs.loop.agent import Agent, Bound
from taograph.graphs.loop.clock import DEADLINES
from taograph.graphs.loop.effects import left_open
from taograph.graphs.loop.finishing import closing_of, conclude
from taograph.graphs.loop.internals import invocation_of, saver_of
from taograph.graphs.loop.repair import close_calls, is_sound, repair
from taograph.graphs.loop.session import GaveUp, Session, bind
from taograph.graphs.loop.state import State
from taograph.graphs.loop.stopping import Progress, Stop, StopReason, decide, nudge, tail_needed
from taograph.graphs.loop.trajectory import feedback, read_trajectory, user_turn
from taograph.graphs.loop.verifying import objection
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.acceptable import filled, is_blank
from taograph.graphs.protocols.native import DROPPED, Reply, read_reply, text_of, thought_of
from taograph.models.failures import is_malformed, refusal_text, refuses_tools
from taograph.tools.running import check_arguments

# `verify` may send the loop on so often; then the answer stands, and the result says that it objected.
OBJECTIONS = 2
# Endings that are not the answer's: such a run goes on where nothing new is asked on its thread.
GOES_ON = frozenset(
    {"step_limit", "tool_call_limit", "deadline", "token_limit", "cost_limit", "cancelled", "model_error"}
)
# Supersteps that must be left after a turn for its calls to be run and looked at.
_FOR_ACT = 3


def reason(agent: Agent) -> Callable[[State, RunnableConfig], Steps[dict[str, Any]]]:
    """The core of the node for a loop."""

    def core(state: State, config: RunnableConfig) -> Steps[dict[str, Any]]:
        if state["remaining_steps"] < 1:
            raise ValueError(
                f"recursion_limit={config.get('recursion_limit')} is too small: a run takes 2 at least. "
                "Leave it out (limits.steps bounds the run) or set it higher; the model was not asked"
            )
        bound = yield from bind(agent, config)
        known = yield from left_open(state.get("messages") or [], state.get("run"), agent.by_name, config)
        turn = Turn(agent, state, config, bound, known)
        stop = yield from turn.take()
        return (yield from turn.close(stop))

    return core


class Turn:
    """One turn of the model within a run.

    Args:
        agent: What the loop is made of.
        state: The channels.
        config: Of the node.
        bound: The model with the tools.
        known: What is known of calls that were left open, by their ids.
    """

    def __init__(
        self, agent: Agent, state: State, config: RunnableConfig, bound: Bound, known: Mapping[str, ToolMessage]
    ) -> None:
        self.agent = agent
        self.state = state
        self.room = state["remaining_steps"]
        history = state.get("messages") or []
        self.goes_on = _goes_on(state, history)
        new_turn = None if self.goes_on else _new_turn(state, history)
        self.session = Session.open(agent, state, config, bound, new_turn=new_turn)
        self.answer: str | None = None
        if self.goes_on:
            self.session.run["done"] = False
            closing = closing_of(history)
            self.session.removed = [message.id for message in closing if message.id]
            history = history[: len(history) - len(closing)]
        if is_sound(history, agent.by_name):
            self.history: Sequence[AnyMessage] = history
        else:
            # Stored too: what comes out of the run has to be acceptable, whatever went in.
            self.history = repair(history, agent.by_name, known)
            self.session.messages += self.history
            self.session.replaces = True
            self.session.teller.tell("retry", reason="repair", detail="the history was made acceptable to providers")
        self._stored = len(self.session.messages)

    @property
    def conversation(self) -> list[AnyMessage]:
        """The history with what this turn added."""
        return [*self.history, *self.session.messages[self._stored :]]

    def take(self) -> Steps[Stop | None]:
        """Ask the model, unless the run is over; returns why it ends, or None if it goes on."""
        session, run = self.session, self.session.run
        if session.is_new:
            if self.agent.approvals and saver_of(session.config) is None:
                raise ValueError(
                    "approve: a run that waits for a person has to be stored, and there is no checkpointer. Give one "
                    "(checkpointer=, see taograph.checkpoints.open) and a thread_id; the model was not asked"
                )
            session.teller.tell(
                "run_started",
                question=read_trajectory(self.history).question,
                limits=session.limits.to_dict(),
                tools=list(self.agent.by_name),
                model=session.bound.name,
                protocol=session.bound.protocol,
                protocol_reason=session.bound.why,
            )
        cancel = current_cancellation()
        if cancel is not None and cancel.reason is not None:
            return self._stop("cancelled", cancel.reason)
        direct = self._direct_answer()
        if direct is not None:
            return (yield from self._answered(direct, "a tool answered directly"))
        progress = self._progress()
        stop = decide(progress)
        if stop is not None and self.goes_on:
            raise ValueError(
                f"the run ended with {stop['reason']} ({stop['detail']}), and the limit is the same: raise it to go "
                "on, as in context=Context(steps=30), or ask something new; the model was not asked"
            )
        if stop is not None:
            return stop
        hint = nudge(progress)
        if hint is not None:
            run["nudged"] = True
            self._send_back(hint, "repeated_action")
        run["steps"] += 1
        run["refused"] = {}
        session.teller.turn(run["steps"])
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
            return self._stop("cancelled", cut.reason)
        except TimedOut:
            return self._stop(
                "deadline", f"the model had not replied when {session.limits.seconds:g} seconds were over"
            )
        except GaveUp as failure:
            return self._failed(failure)
        spent = session.spent
        run["turn_tokens"] = spent["input_tokens"] + spent["output_tokens"] - before[0]
        run["turn_cost"] = spent["cost"] - before[1]
        stop = yield from self._read(read_reply(reply, self.agent.by_name, self._call_ids()))
        session.budget()
        return stop

    def close(self, stop: Stop | None) -> Steps[dict[str, Any]]:
        """What the node writes; the run is concluded here where no superstep is left for ``finish``."""
        session = self.session
        update: dict[str, Any] = {"stop": stop}
        if session.is_new or self.goes_on:
            update["answer"] = ""
            if self.state.get("structured") is not None:
                update["structured"] = None
        if stop is not None:
            self._close_calls(prompts.NOT_RUN.format(why=stop["detail"]))
            if self.room < 2 or (self.answer is not None and self.agent.structure is None):
                update |= yield from conclude(session, self.conversation, stop, self.answer)
            elif self.answer is not None:
                update["answer"] = self.answer
        else:
            run = session.run
            run["left"] = session.seconds_left()
            DEADLINES.set(run["id"], run["steps"], within=invocation_of(session.config))
        return {**session.update(self.state), **update}

    def _read(self, reply: Reply) -> Steps[Stop | None]:
        match reply.kind:
            case "action":
                return self._acted(reply)
            case "final":
                return (yield from self._answered(reply))
            case "refusal":
                words = reply.text or "The model refused to answer."
                self.session.messages.append(reply.message if text_of(reply.message) else filled(reply.message, words))
                return self._stop("refusal", f"the model refused: {reply.text[:200] or 'no words were given'}")
            case _:
                return self._unusable(reply)

    def _acted(self, reply: Reply) -> Stop | None:
        session, run = self.session, self.session.run
        run["unusable"] = 0
        run["refused"] = dict(reply.refused)
        session.messages.append(reply.message)
        self._tell_thought(reply.message)
        self._tell_repairs(reply)
        runnable = [call for call in reply.message.tool_calls if call["id"] not in reply.refused]
        limit = session.limits.tool_calls
        if limit is not None:
            left = limit - session.spent["tool_calls"]
            if left <= 0:
                return self._stop("tool_call_limit", f"{session.spent['tool_calls']} of {limit} tool calls made")
            for call in runnable[left:]:
                run["refused"][call["id"] or ""] = prompts.NOT_RUN.format(why=f"only {limit} tool calls are allowed")
            runnable = runnable[:left]
        run["called"] = sorted({*run["called"], *(call["name"] for call in runnable if self._fits(call))})
        if self.room < _FOR_ACT:
            return self._stop("step_limit", self._recursion_detail())
        return None

    def _fits(self, call: ToolCall) -> bool:
        """Whether a call will reach its tool: one that does not has not called it."""
        tool = self.agent.by_name.get(call["name"])
        return tool is not None and check_arguments(tool, call["args"]) is None

    def _direct_answer(self) -> Reply | None:
        """What the tools of the last turn gave, where all of them have LangChain's ``return_direct``."""
        steps = () if self.session.is_new else read_trajectory(self.history, last=1).steps
        if not steps or not steps[-1].actions:
            return None
        tools = [self.agent.by_name.get(action.tool) for action in steps[-1].actions]
        observed = steps[-1].observations
        if not all(tool is not None and tool.return_direct for tool in tools) or any(o.error for o in observed):
            return None
        text = "\n".join(o.whole for o in observed)
        return Reply("final", AIMessage(text), text)

    def _answered(self, reply: Reply, how: str = "the model answered") -> Steps[Stop | None]:
        session, run = self.session, self.session.run
        session.messages.append(reply.message)
        self._tell_thought(reply.message)
        self._tell_repairs(reply)
        missing = [name for name in self.agent.require if name not in run["called"]]
        if missing and not run["reminded"] and self._has_turn():
            run["reminded"] = True
            self._send_back(prompts.missing_tools(missing), "required_tool")
            return None
        notes = [f"{name} was required and was not called" for name in missing]
        if self.agent.verify is not None:
            found = yield from objection(session, self.agent.verify, reply.text, self.conversation)
            if found.text and run["objections"] < OBJECTIONS and self._has_turn():
                run["objections"] += 1
                self._send_back(prompts.OBJECTION.format(objection=found.text), "verify")
                return None
            notes += [note for note in (found.note, found.text and f"verify still objects: {found.text}") if note]
        self.answer = reply.text
        return self._stop("final", "; ".join([how, *notes]))

    def _unusable(self, reply: Reply) -> Stop | None:
        """A reply that is empty, cut off, or whose calls cannot be read: asked for again, a bounded number of times."""
        session, run = self.session, self.session.run
        run["unusable"] += 1
        run["refused"] = dict(reply.refused)
        self._tell_thought(reply.message)
        if DROPPED in reply.repairs:
            session.teller.tell("retry", reason="truncated", detail=DROPPED)
        if reply.message.tool_calls or reply.text:
            session.messages.append(reply.message)
        reason: StopReason = "empty_output" if reply.kind == "empty" else "malformed_output"
        what = {
            "empty": "an empty reply",
            "cut": "a reply cut off at the length limit",
        }.get(reply.kind, "a step that cannot be read" if reply.hint else "calls that cannot be read")
        if run["unusable"] > session.limits.malformed or not self._has_turn():
            return self._stop(reason, f"{what}, {run['unusable']} times in a row")
        if reply.message.tool_calls:
            # What is wrong with a call is told as its observation.
            session.teller.tell("retry", reason=reason, detail=what)
            if self.room < _FOR_ACT:
                self._close_calls(prompts.BROKEN)
            return None
        otherwise = {"empty": prompts.EMPTY, "cut": prompts.CUT}.get(reply.kind, prompts.BROKEN)
        self._send_back(reply.hint or otherwise, reason, f"{what}: {reply.fault}" if reply.fault else what)
        return None

    def _failed(self, failure: GaveUp) -> Stop | None:
        session, run = self.session, self.session.run
        refused = refusal_text(failure.error)
        if refused is not None:
            session.messages.append(AIMessage(refused))
            return self._stop("refusal", f"the model refused: {refused[:200]}")
        if not is_malformed(failure.error):
            refused_tools = self.agent.protocol == "native" and refuses_tools(failure.error)
            advice = '. With protocol="auto" or "text" it need not call functions' if refused_tools else ""
            return self._stop("model_error", failure.words + advice)
        run["unusable"] += 1
        if run["unusable"] > session.limits.malformed or not self._has_turn():
            return self._stop("malformed_output", failure.words)
        self._send_back(prompts.BROKEN, "malformed_output", failure.words)
        return None

    def _send_back(self, text: str, kind: str, detail: str = "") -> None:
        self.session.messages.append(feedback(text, kind))
        self.session.teller.tell("retry", reason=kind, detail=detail or text)

    def _has_turn(self) -> bool:
        """Whether another turn of the model would be allowed after this one."""
        steps = self.session.limits.steps
        return (steps is None or self.session.run["steps"] < steps) and self.room >= 2

    def _stop(self, reason: StopReason, detail: str) -> Stop:
        return Stop(reason=reason, detail=detail, step=self.session.run["steps"])

    def _recursion_detail(self) -> str:
        limit = self.session.config.get("recursion_limit")
        return f"recursion_limit={limit} leaves no room for another step after {self.session.run['steps']}"

    def _close_calls(self, why: str) -> None:
        """Give a result to every call of the last reply that has none."""
        pending = open_calls(self.conversation)
        self.session.messages += close_calls(pending, why)

    def _tell_repairs(self, reply: Reply) -> None:
        for made in reply.repairs:
            self.session.teller.tell("retry", reason="truncated" if made == DROPPED else "repair", detail=made)

    def _tell_thought(self, message: AIMessage) -> None:
        thought = thought_of(message)
        if thought:
            self.session.teller.tell("thought", text=thought)

    def _progress(self) -> Progress:
        session, run = self.session, self.session.run
        return Progress(
            trajectory=read_trajectory(self.history, last=tail_needed(session.limits)),
            limits=session.limits,
            spent=session.spent,
            steps=run["steps"],
            turn_tokens=run["turn_tokens"],
            turn_cost=run["turn_cost"],
            nudged=run["nudged"],
        )

    def _call_ids(self) -> set[str]:
        told = [*self.session.bound.examples, *self.history]
        return {call["id"] or "" for m in told if isinstance(m, AIMessage) for call in m.tool_calls}


def open_calls(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of the last reply that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.type == "tool":
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        else:
            break
    return []


def _goes_on(state: State, history: Sequence[AnyMessage]) -> bool:
    """Whether a run that a limit, a cancellation or a failing endpoint ended is to go on: nothing new was asked."""
    run, stop = state.get("run"), state.get("stop")
    if run is None or stop is None or stop["reason"] not in GOES_ON:
        return False
    place = user_turn(history)
    return place is not None and (history[place].id or "") == run["turn"]


def _new_turn(state: State, history: Sequence[AnyMessage]) -> str | None:
    """Id of the user's message where a new run begins; None where one goes on.

    A run is over once it has a stop; one that waits for a person, or was left by a crash, is not, unless the
    user has said something new.
    """
    place = user_turn(history)
    if place is None:
        raise ValueError(
            'messages: there is no message of the user to answer. Give {"messages": [("user", "your question")]}'
        )
    asked = history[place]
    if is_blank(asked.content):
        raise ValueError("messages: the last message of the user is empty. Write the question in it")
    turn = asked.id or ""
    run = state.get("run")
    return turn if run is None or state.get("stop") is not None or run["turn"] != turn else None
