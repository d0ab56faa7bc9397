"""Rounds of a run as a summary: written by the model, or, where it cannot be asked, put together from what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from taograph.calls import Steps, TimedOut
from taograph.graphs.loop.condensing import cut_text
from taograph.graphs.loop.counting import text_tokens
from taograph.graphs.loop.trajectory import is_feedback
from taograph.graphs.protocols import prompts
from taograph.graphs.protocols.native import text_of, thought_of
from taograph.tools.results import split_frame

if TYPE_CHECKING:
    from taograph.graphs.loop.session import Session

# How much of each part of a message the record shows, where all of it would be too long.
_PART_CHARS = (4000, 2000, 1000, 500, 250, 120)
_LINE_CHARS = 160
_TASK_CHARS = 4000
# Below this a summary has no room to say anything: the digest is as good.
_LEAST_TOKENS = 80.0
_WORDS_PER_TOKEN = 0.6
_NOTHING = "(Nothing of note.)"
_LEFT_OUT = re.compile(r"\((\d+) earlier entries left out\)")


@dataclass(frozen=True, slots=True)
class Record:
    """What is to be summarized.

    Attributes:
        task: What the user asked, for the summary to keep to.
        before: The summary there was of what came before.
        by: Who wrote that.
        messages: The messages to be summarized.
    """

    task: str
    before: str
    by: Literal["model", "digest"]
    messages: Sequence[AnyMessage]


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.

    Attributes:
        text: What it says.
        by: "model", or "digest" where it was put together from the calls and their results.
        why: Why the model did not write it; empty where it did.
    """

    text: str
    by: Literal["model", "digest"]
    why: str = ""


def summarize(session: Session, record: Record, *, tokens: float, limit: float, scale: float) -> Steps[Summary]:
    """Summarize some rounds. It never fails: where the model cannot be asked, it is a digest, and says why.

    The model is asked once, without tools, within half of the time that is left; its tokens are the run's.

    Args:
        session: The run.
        record: The rounds.
        tokens: How long the summary may be, as ``counting.py`` counts.
        limit: How long a request may be, likewise.
        scale: The model's own tokens in one of those.
    """
    from taograph.graphs.loop.session import GaveUp

    prompt = _prompt(record, tokens, limit)
    left = session.seconds_left()
    why = "" if prompt else "there is no room for it in the window"
    if prompt and not _affordable(session, scale * text_tokens(prompt), scale * tokens):
        why = "what is left of the budget does not reach"
    elif left is not None and left <= 0:
        why = "no time is left"
    elif prompt:
        try:
            reply = yield from session.ask(
                session.bound.model,
                [HumanMessage(prompt)],
                reserve=0.0 if left is None else -left / 2,
                quiet=True,
            )
        except GaveUp as failure:
            why = failure.words
        except TimedOut:
            why = "the model took too long"
        else:
            text = text_of(reply)
            if text and not reply.tool_calls:
                return Summary(_fitted(text, tokens), "model")
            why = "the model's summary was empty"
    return Summary(digest(record, tokens), "digest", why)


def digest(record: Record, tokens: float) -> str:
    """A summary without a model: of each call its arguments and the first line of its result, the latest kept."""
    new = _digest_lines(record.messages)
    if record.by == "digest":
        return "\n".join(_latest([*record.before.splitlines(), *new], tokens)) or _NOTHING
    kept = [_fitted(record.before, tokens / 2)] if record.before else []
    room = tokens - sum(map(text_tokens, kept))
    return "\n".join([*kept, *_latest(list(new), room)]) or _NOTHING


def _prompt(record: Record, tokens: float, limit: float) -> str:
    """The request for a summary, with as much of each message as there is room for; empty where there is none."""
    if tokens < _LEAST_TOKENS:
        return ""
    before = prompts.SUMMARY_BEFORE.format(summary=record.before) if record.before else ""
    words = int(tokens * _WORDS_PER_TOKEN)
    task = cut_text(record.task, _TASK_CHARS)
    for chars in _PART_CHARS:
        told = "\n".join(_record_lines(record.messages, chars))
        prompt = prompts.SUMMARIZE.format(words=words, task=task, before=before, record=told)
        if text_tokens(prompt) <= limit:
            return prompt
    # Older rounds in one line each, the latest as they are.
    chars = _PART_CHARS[-1]
    for parts in (2, 4, 8):
        at = len(record.messages) - len(record.messages) // parts
        older = digest(Record(record.task, record.before, record.by, record.messages[:at]), limit / 3)
        told = "\n".join(_record_lines(record.messages[at:], chars))
        before = prompts.SUMMARY_BEFORE.format(summary=older)
        prompt = prompts.SUMMARIZE.format(words=words, task=cut_text(record.task, chars), before=before, record=told)
        if text_tokens(prompt) <= limit:
            return prompt
    return ""


def _record_lines(messages: Sequence[AnyMessage], chars: int) -> Iterator[str]:
    for message in messages:
        if isinstance(message, AIMessage):
            thought = thought_of(message)
            if thought:
                yield f"Thought: {cut_text(thought, chars)}"
            yield from (f"Call: {_call(call['name'], call['args'], chars)}" for call in message.tool_calls)
            if not message.tool_calls and (said := text_of(message)):
                yield f"Answer: {cut_text(said, chars)}"
        elif isinstance(message, ToolMessage):
            failed = " (failed)" if message.status == "error" else ""
            yield f"Result of {message.name or 'a tool'}{failed}: {cut_text(_seen(message), chars)}"
        else:
            yield f"{'Note' if is_feedback(message) else 'The user'}: {cut_text(str(message.text), chars)}"


def _digest_lines(messages: Sequence[AnyMessage]) -> Iterator[str]:
    calls: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            calls = {c["id"] or "": _call(c["name"], c["args"], _LINE_CHARS) for c in message.tool_calls}
            if not calls and (said := text_of(message)):
                yield f"- answered: {_line(said)}"
        elif isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id) or message.name or "a tool"
            failed = "failed: " if message.status == "error" else ""
            yield f"- {call}: {failed}{_line(_seen(message))}"
        elif not is_feedback(message):
            yield f"- the user: {_line(str(message.text))}"


def _seen(message: ToolMessage) -> str:
    return split_frame(str(message.text))[1].strip()


def _call(name: str, args: object, chars: int) -> str:
    try:
        told = json.dumps(args, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        told = "…"
    return f"{name}({cut_text(told, chars)})"


def _line(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return cut_text(" ".join(first.split()), _LINE_CHARS)


def _latest(lines: Sequence[str], tokens: float) -> list[str]:
    """The last lines that fit, with a note on how many were left out, now or before."""
    gone, kept = 0, list[str]()
    for line in reversed(lines):
        noted = _LEFT_OUT.fullmatch(line)
        tokens -= text_tokens(line) + 1
        if noted is not None:
            gone += int(noted[1])
        elif gone or tokens < 0:
            gone += 1
        else:
            kept.append(line)
    return [*([f"({gone} earlier entries left out)"] if gone else []), *reversed(kept)]


def _fitted(text: str, tokens: float) -> str:
    """A text that is not much longer than it may be."""
    size = text_tokens(text)
    return text if size <= tokens * 1.2 else cut_text(text, int(len(text) * tokens / size / 1.5))


def _affordable(session: Session, sent: float, received: float) -> bool:
    """Whether the budget reaches for a summary, and for a turn and a closing answer after it."""
    limits, spent, price = session.limits, session.spent, session.bound.price
    used = spent["input_tokens"] + spent["output_tokens"]
    if limits.tokens is not None and used + 3 * sent + received > limits.tokens:
        return False
    if limits.cost is None or price is None:
        return True
    return spent["cost"] + 3 * price.dollars(int(sent), int(received), 0) <= limits.cost
