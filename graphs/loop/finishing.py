"""The node ``finish``: whatever stopped the run, there is an answer, and it says what it rests on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig

from taograph.calls import Cancelled, Steps, TimedOut
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.allowance import SHARED
from taograph.graphs.loop.calling import bind
from taograph.graphs.loop.forms import Unformed, ask_form
from taograph.graphs.loop.session import GaveUp, Session
from taograph.graphs.loop.state import State
from taograph.graphs.loop.stopping import Stop, StopReason
from taograph.graphs.loop.structure import Structure
from taograph.graphs.loop.trajectory import feedback, feedback_kind, read_trajectory
from taograph.graphs.loop.window import COMPOSED
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.acceptable import without_calls
from taograph.graphs.protocols.native import text_of
from taograph.graphs.protocols.recover import recover_tool_calls

_SHOWN_OBSERVATIONS, _SHOWN_CHARS = 3, 600
_ECHO_CHARS = 24


def finish(agent: Agent) -> Callable[[State, RunnableConfig], Steps[dict[str, Any]]]:
    """The core of the node for a loop."""

    def core(state: State, config: RunnableConfig) -> Steps[dict[str, Any]]:
        session = Session.open(agent, state, config, (yield from bind(agent, config)), new_turn=None)
        stop = state["stop"]
        if stop is None:
            raise ValueError("finish was reached without a stop: the state was changed from outside")
        update = yield from conclude(session, state["messages"], stop, state.get("answer") or None)
        return {**session.update(state), **update}

    return core


def conclude(session: Session, messages: Sequence[AnyMessage], stop: Stop, answer: str | None) -> Steps[dict[str, Any]]:
    """Give the answer of a run.

    The model is asked once, without tools, to answer from the observations. Where it cannot be asked (no time,
    no money, it is down, the run was cancelled), the answer is composed from the last observations and says so.

    Args:
        session: The run.
        messages: Its conversation, every call with its result.
        stop: Why it ends.
        answer: The model's own answer, where it gave one.

    Returns:
        The update: ``answer``, ``stop``, and ``structured`` where a form was asked for.
    """
    update: dict[str, Any] = {}
    structure = session.agent.structure
    given = answer
    if structure is not None:
        value, stop = yield from _structured(session, messages, stop, structure)
        update["structured"] = value
        if answer is None and value is not None:
            answer = json.dumps(value, ensure_ascii=False)
    elif answer is None and _may_ask(session, stop):
        answer = yield from _closing(session, messages, stop)
    told: dict[str, Any] = {}
    if not answer:
        answer = compose(messages, stop)
        told = {COMPOSED: stop["reason"]}
    if answer != given and not _ends_with(session.messages, answer):
        session.messages.append(AIMessage(answer, additional_kwargs=told))
    session.run["done"] = True
    session.teller.tell("stop", reason=stop["reason"], detail=stop["detail"])
    extra = {"structured": update["structured"]} if structure is not None else {}
    session.teller.tell("answer", text=answer, spent=session.spent, **extra)
    return {**update, "answer": answer, "stop": stop}


def closing_of(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """What :func:`conclude` added at the end of a run that was stopped: the instruction and the closing answer."""
    last = messages[-1] if messages else None
    if not isinstance(last, AIMessage) or last.tool_calls:
        return ()
    if COMPOSED in last.additional_kwargs:
        return messages[-1:]
    before = messages[-2] if len(messages) > 1 else None
    return messages[-2:] if before is not None and feedback_kind(before) == "closing" else ()


def compose(messages: Sequence[AnyMessage], stop: Stop) -> str:
    """An answer without the model: what was asked, why there is no better one, and what was found."""
    trajectory = read_trajectory(messages)
    lines = [f"The run ended before an answer was complete: {stop['detail'].rstrip('.')}."]
    observed = [o for step in trajectory.steps for o in step.observations]
    found = [o for o in observed if not o.error] or observed
    if found:
        lines.append("Found so far:" if found is not observed else "The tools returned:")
        lines += [f"- {o.tool}: {_head(o.text)}" for o in found[-_SHOWN_OBSERVATIONS:]]
    texts = [text_of(m) for m in messages if isinstance(m, AIMessage) and not m.tool_calls]
    last = next((text for text in reversed(texts) if text), "")
    if stop["reason"] in ("refusal", "malformed_output") and last:
        lines.append(f"The model's last words: {_head(last)}")
    elif thoughts := [step.thought for step in trajectory.steps if step.thought]:
        lines.append(f"Last thought: {_head(thoughts[-1])}")
    if len(lines) == 1:
        lines.append(f"Nothing was found out yet about: {_head(trajectory.question)}")
    return "\n".join(lines)


def _may_ask(session: Session, stop: Stop) -> bool:
    """Whether the closing call can be made and paid."""
    if not session.limits.closing and stop["reason"] != "final":
        return False
    if SHARED.get(stop["reason"]) in session.narrowed:  # the parent's limit: it ends, too, and asks
        return False
    match stop["reason"]:
        case "model_error" | "cancelled":
            return False
        case "refusal" if not session.run["called"]:  # with nothing observed it would only refuse again
            return False
    return _unpaid(session) is None


def _unpaid(session: Session) -> StopReason | None:
    """The limit that one more call like the last turn would go beyond."""
    limits, spent, turn = session.limits, session.spent, session.run
    used = spent["input_tokens"] + spent["output_tokens"] + turn["turn_tokens"]
    if limits.tokens is not None and used > limits.tokens:
        return "token_limit"
    if limits.cost is not None and spent["cost"] + turn["turn_cost"] > limits.cost:
        return "cost_limit"
    return None


def _closing(session: Session, messages: Sequence[AnyMessage], stop: Stop) -> Steps[str | None]:
    instruction = feedback(prompts.CLOSING.format(why=stop["detail"]), "closing")
    reserve = session.limits.reserve_seconds
    try:
        reply = yield from session.ask_to_fit(session.bound.closing, [*messages, instruction], reserve=reserve)
    except (Cancelled, TimedOut):
        return None
    except GaveUp as failure:
        session.teller.tell("retry", reason="model_error", detail=f"no closing answer: {failure.words}")
        return None
    text = text_of(reply)
    # A call answers nothing, also one written as text, nor does our own instruction, which small models say again.
    calls = reply.response_metadata.get("error") or recover_tool_calls(text, session.agent.by_name)
    if not text or calls or _repeats(text, str(instruction.content)):
        return None
    session.messages += [instruction, without_calls(reply, text)]
    return text


def _repeats(text: str, instruction: str) -> bool:
    """Whether a reply begins with the instruction that it should follow."""
    said, told = (" ".join(one.split()).lower() for one in (text, instruction))
    return told.startswith(said[:_ECHO_CHARS].rstrip(".")) and len(said) >= _ECHO_CHARS // 2


def _structured(
    session: Session, messages: Sequence[AnyMessage], stop: Stop, structure: Structure
) -> Steps[tuple[Any, Stop]]:
    """The answer in the required form, or None and a stop that says why there is none."""
    if not _may_ask(session, stop):
        return None, _without_structure(stop, *_no_call_left(session))
    instruction = prompts.STRUCTURE.format(name=structure.name, schema=json.dumps(structure.schema, ensure_ascii=False))
    if stop["reason"] != "final":
        instruction = f"{prompts.CLOSING.format(why=stop['detail'])} {instruction}"
    talk = [*messages, feedback(instruction, "structure")]
    reserve = session.limits.reserve_seconds
    try:
        value = yield from ask_form(session, talk, structure, reserve=reserve, again=lambda: _may_ask(session, stop))
    except Unformed as wrong:
        if wrong.is_cut:
            why, limit = _no_call_left(session)
            return None, _without_structure(
                stop, f"{why}, after {wrong.tried} that did not fit: {wrong.problem}", limit
            )
        tries = f"the answer did not fit response_format in {wrong.tried} tries: {wrong.problem}"
        return None, _without_structure(stop, tries)
    except Cancelled as cut:
        why = f"cancelled before the required form was given: {cut.reason}"
        return None, _without_structure(stop, why, "cancelled")
    except TimedOut:
        return None, _without_structure(stop, "no time was left to give the required form", "deadline")
    except GaveUp as failure:
        return None, _without_structure(stop, failure.words, "model_error")
    return value, stop


def _no_call_left(session: Session) -> tuple[str, StopReason]:
    return "there was no call left to give the required form", _unpaid(session) or "malformed_output"


def _without_structure(stop: Stop, why: str, reason: StopReason = "malformed_output") -> Stop:
    """A run that was to end with an answer in a form did not; one that was stopped keeps its reason."""
    if stop["reason"] != "final":
        return Stop(**{**stop, "detail": f"{stop['detail']}; {why}"})
    return Stop(reason=reason, detail=why, step=stop["step"])


def _ends_with(messages: Sequence[AnyMessage], answer: str) -> bool:
    return bool(messages) and isinstance(messages[-1], AIMessage) and text_of(messages[-1]) == answer


def _head(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN_CHARS else f"{flat[:_SHOWN_CHARS]}…"
