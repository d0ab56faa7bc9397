"""A run as it reads in the paper's figures: Thought 1, Action 1, Observation 1, and what stands between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from taograph.trace.chain import Entry
from taograph.trace.reading import number_in, step_of, text_of

_Told = Mapping[str, Any]
_Said = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a trajectory.

    Attributes:
        label: What it is: "Thought 1".
        text: What it says; may have several lines of its own.
        depth: How deep it is nested.
        kind: The type of the event; "block" for the head of a nested run.
    """

    label: str
    text: str
    depth: int = 0
    kind: str = ""


@dataclass
class _Block:
    """A run, outermost or nested, with the nested ones where they begin."""

    path: tuple[str, ...]
    run: str
    items: list[Entry | _Block] = field(default_factory=list)


def lines(events: Iterable[Entry], *, verbose: bool = False) -> Iterator[Line]:
    """The trajectory of a run.

    Events of a nested run stand together where it began, whatever ran beside it.

    Args:
        events: Its events, in their order.
        verbose: Tell calls of models, too.
    """
    yield from _Teller(verbose).block(_nest(events), 0)


def _nest(events: Iterable[Entry]) -> _Block:
    root = _Block((), "")
    blocks: dict[tuple[tuple[str, ...], str], _Block] = {}
    latest: list[_Block] = [root]
    for event in events:
        told = event.content or {}
        path = _path(told)
        if not path:  # the outermost graph is one block, whatever its run was called before that was known
            block = root
        else:
            key = path, str(told.get("run"))
            found = blocks.get(key)
            if found is None:
                found = blocks[key] = _Block(*key)
                around = next(each for each in reversed(latest) if _is_around(each.path, path))
                around.items.append(found)
            block = found
        if latest[-1] is not block:
            latest = [*(each for each in latest if each is not block), block]
        block.items.append(event)
    return root


def _is_around(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    return len(outer) < len(inner) and inner[: len(outer)] == outer


class _Teller:
    """Tells events as lines: a method for each type that has something to tell.

    Args:
        verbose: Tell calls of models, too.
    """

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose
        self._told: set[tuple[Any, ...]] = set()

    def block(self, block: _Block, depth: int) -> Iterator[Line]:
        """The lines of a run and of those that are nested in it."""
        names = _Names(block)
        stop: Line | None = None
        for item in block.items:
            if isinstance(item, _Block):
                yield Line(" > ".join(item.path), _question(item), depth, "block")
                yield from self.block(item, depth + 1)
                continue
            for label, text in self._event(item, names):
                line = Line(label, text, depth, item.type)
                if item.type == "stop":  # comes before the answer, and is told after it
                    stop = line
                else:
                    yield line
            if item.type == "answer" and stop is not None:
                yield stop
                stop = None
        if stop is not None:
            yield stop

    def _event(self, event: Entry, names: _Names) -> Iterator[tuple[str, str]]:
        if event.content is None or "unreadable" in event.content:
            why = "was erased" if event.content is None else "can't be read any more"
            yield event.type.replace("_", " ").capitalize(), f"({why})"
        elif tell := getattr(self, event.type, None):
            names.time = event.time
            yield from tell(event.content, names)

    def run_started(self, told: _Told, names: _Names) -> _Said:
        """The question; or that the run goes on, in another call of the graph."""
        if names.began:
            time = names.time[:19].replace("T", " ")
            yield "Going on", f"{time} UTC" if time else "in another call"
        elif not told.get("path") and told.get("question") and not told.get("resumes"):
            yield "Question", text_of(told["question"])
        names.began = True
        if told.get("resume") is not None and not names.tells_answers:
            yield "Answered", text_of(told["resume"])

    def model_asked(self, told: _Told, names: _Names) -> _Said:
        """The question, where nothing else tells it; what else is sent, where that is wanted."""
        at, new = _at(told), told.get("new")
        for message in _list(new):
            if not isinstance(message, Mapping):
                continue
            text, kind = text_of(message.get("content")), text_of(message.get("type"))
            if kind == "human" and not names.asks:
                names.asks = True
                yield "Question", text
            elif self._verbose:
                yield f"Sent{at} ({kind})", text
        if self._verbose:
            sent = f"messages {told.get('messages')}, characters {number_in(told, 'chars'):,}"
            yield f"Model{at}", f"{told.get('model') or 'unnamed'}; {sent}, tools {len(_list(told.get('tools')))}"

    def model_replied(self, told: _Told, names: _Names) -> _Said:
        """The reply, where no other event tells it."""
        message = told.get("message")
        if isinstance(message, Mapping) and names.is_only_here(message, told):
            yield f"Reply{_at(told)}", _reply(message)
        if self._verbose:
            tokens = f"{number_in(told, 'input_tokens'):,} tokens in, {number_in(told, 'output_tokens'):,} out"
            cost = f", ${number_in(told, 'cost'):.6f}" if told.get("cost") else ""
            yield f"Model{_at(told)}", f"replied after {number_in(told, 'seconds'):.2f} s; {tokens}{cost}"

    def model_failed(self, told: _Told, names: _Names) -> _Said:
        """What the provider said."""
        yield f"Model failed{_at(told)}", f"{told.get('error')}: {text_of(told.get('text'))}"

    def thought(self, told: _Told, names: _Names) -> _Said:
        """The thought."""
        yield f"Thought{_at(told)}", text_of(told.get("text"))

    def action(self, told: _Told, names: _Names) -> _Said:
        """The call; once: it is told again when a person has answered."""
        key = str(told.get("run")), _path(told), step_of(told), str(told.get("id"))
        if key not in self._told:
            self._told.add(key)
            yield f"Action{names.call(told)}", call(told)

    def tool_failed(self, told: _Told, names: _Names) -> _Said:
        """What the tool raised, which the model was not shown."""
        yield f"Failed{names.call(told)}", f"{told.get('tool')}: {told.get('error')}: {text_of(told.get('text'))}"

    def observation(self, told: _Told, names: _Names) -> _Said:
        """What the model was shown."""
        failed = " (error)" if told.get("status") == "error" else ""
        text, size = text_of(told.get("text")), told.get("size")
        if told.get("handle") is not None and isinstance(size, int):
            text += f"\n(the model was shown a part of {size:,} characters)"
        yield f"Observation{names.call(told)}{failed}", text

    def approval_asked(self, told: _Told, names: _Names) -> _Said:
        """What a person is asked."""
        value = told.get("value")
        if not isinstance(value, Mapping):
            yield "Waits", text_of(value)
            return
        question = text_of(value.get("question"))
        asked = f"{question} {call(value)}" if isinstance(value.get("args"), Mapping) else question
        yield "Waits", asked.strip() or text_of(value)

    def approval_answered(self, told: _Told, names: _Names) -> _Said:
        """What a person said."""
        by = f" by {text_of(told['by'])}" if told.get("by") else ""
        why = f": {text_of(told['reason'])}" if told.get("reason") else ""
        match told.get("decision"):
            case "reject":
                yield f"Rejected{names.call(told)}", f"{told.get('tool')}{by}{why}"
            case "edit":
                yield f"Approved{names.call(told)}", f"{call(told)}, changed{by}{why}"
            case _:
                yield f"Approved{names.call(told)}", f"{call(told)}{by}{why}"

    def retry(self, told: _Told, names: _Names) -> _Said:
        """Why the model is asked again."""
        yield f"Again{_at(told)}", _because(told)

    def repair(self, told: _Told, names: _Names) -> _Said:
        """What was put right."""
        yield f"Repaired{_at(told)}", text_of(told.get("detail"))

    def truncation(self, told: _Told, names: _Names) -> _Said:
        """What was dropped."""
        yield f"Cut off{_at(told)}", text_of(told.get("detail"))

    def condensation(self, told: _Told, names: _Names) -> _Said:
        """What requests show in short from now on."""
        yield f"Shortened{_at(told)}", text_of(told.get("detail"))

    def plan(self, told: _Told, names: _Names) -> _Said:
        """The parts of the plan, one a line."""
        yield f"Plan{_at(told)}", "\n".join(_parts(told.get("plan")))

    def vote(self, told: _Told, names: _Names) -> _Said:
        """How the votes stand."""
        yield f"Votes{_at(told)}", _votes(told.get("votes"))

    def stop(self, told: _Told, names: _Names) -> _Said:
        """Why it ended."""
        yield "Stop", _because(told)

    def answer(self, told: _Told, names: _Names) -> _Said:
        """The answer."""
        yield "Answer", text_of(told.get("text"))
        if told.get("structured") is not None:
            yield "Structured", json.dumps(told["structured"], ensure_ascii=False)

    def gap(self, told: _Told, names: _Names) -> _Said:
        """That something is not told."""
        yield "Gap", f"{told.get('lost')} events before this one could not be written"

    def run_ended(self, told: _Told, names: _Names) -> _Said:
        """How it ended where that was no end of its own."""
        if told.get("status") in ("failed", "cancelled"):
            why = filter(None, (str(told.get("error") or ""), text_of(told.get("text"))))
            yield str(told["status"]).capitalize(), ": ".join(why)
        elif told.get("status") == "drained":
            yield "Drained", "it was told to stop there, and can be gone on with"


class _Names:
    """How the calls of a run are numbered: 1, or 1a, 1b where a step has several; and which replies nothing else tells.

    Args:
        block: The run.

    Attributes:
        asks: Whether the question is told.
        began: Whether the run has begun.
        tells_answers: Whether the graph tells what persons answered.
        time: Of the event at hand.
    """

    def __init__(self, block: _Block) -> None:
        self._calls: dict[int, list[Any]] = {}
        self._texts: set[str] = set()
        self._plans: set[int] = set()
        self.asks, self.began, self.time = bool(_question(block)), False, ""
        self.tells_answers = False
        for event in block.items:
            if isinstance(event, _Block) or event.content is None:
                continue
            told, step = event.content, step_of(event.content)
            self.tells_answers |= event.type == "run_started" and "question" in told
            if event.type in ("action", "observation"):
                calls = self._calls.setdefault(step, [])
                if told.get("id") not in calls:
                    calls.append(told.get("id"))
            elif event.type in ("thought", "answer"):
                self._texts.add(text_of(told.get("text")).strip())
            elif event.type == "plan":
                self._plans.add(step)

    def call(self, told: _Told) -> str:
        """The number of a call; nothing where the graph does not tell it, as when it goes on."""
        step = step_of(told)
        calls = self._calls.get(step, [])
        if len(calls) < 2 or not step or told.get("id") not in calls:
            return _at(told)
        return f" {step}{_letter(calls.index(told.get('id')))}"

    def is_only_here(self, message: _Told, told: _Told) -> bool:
        """Whether no thought, action, answer or plan tells what a model replied."""
        text = _reply(message).strip()
        if not text or message.get("tool_calls"):
            return False
        return text not in self._texts and step_of(told) not in self._plans


def _reply(message: _Told) -> str:
    """The text of a reply, and the calls in it that can't be read."""
    broken = message.get("invalid_tool_calls")
    calls = [f"{call.get('name')}({text_of(call.get('args'))})" for call in broken] if isinstance(broken, list) else []
    return "\n".join(filter(None, (text_of(message.get("content")), *calls)))


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f".{place + 1}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _path(told: _Told) -> tuple[str, ...]:
    return tuple(map(str, _list(told.get("path"))))


def _at(told: _Told) -> str:
    return f" {step_of(told)}" if step_of(told) else ""


def call(told: Mapping[str, Any]) -> str:
    """A call as a person reads it: ``look(x=1)``."""
    args = told.get("args")
    if not isinstance(args, Mapping):
        return f"{told.get('tool')}({text_of(args)})"
    return f"{told.get('tool')}({', '.join(f'{name}={_value(value)}' for name, value in args.items())})"


def _value(value: Any) -> str:
    match value:
        case {"text": int(), "hash": str()} | {"number": int(), "hash": str()} | {"value": int(), "hash": str()}:
            return text_of(value)
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _because(told: Mapping[str, Any]) -> str:
    reason, detail = str(told.get("reason") or "").replace("_", " "), text_of(told.get("detail"))
    return f"{reason}: {detail}" if detail else reason


def _parts(plan: Any) -> Iterator[str]:
    """The parts of a plan, one a line; strategies name their fields as they like."""
    for number, part in enumerate(_list(plan), 1):
        if not isinstance(part, Mapping):
            yield f"{number}. {text_of(part)}"
            continue
        named = ("task", "step", "text", "description", "tool")
        text = next((text_of(part[key]) for key in named if part.get(key)), "") or text_of(part)
        status = f"[{text_of(part['status'])}] " if part.get("status") else ""
        yield f"{number}. {status}{text}"


def _votes(votes: Any) -> str:
    """The answers, most votes first, one a line."""
    table = votes.get("table") if isinstance(votes, Mapping) else None
    if not isinstance(table, list) or not all(isinstance(each, Mapping) for each in table):
        return text_of(votes)
    drawn = f"of {votes.get('drawn')} drawn, {votes.get('samples')} at most"
    return "\n".join([drawn, *(f"{each.get('count')} for {text_of(each.get('answer'))}" for each in table)])


def _question(block: _Block) -> str:
    """What a nested run was asked."""
    for event in block.items:
        if isinstance(event, Entry) and event.type == "run_started" and event.content:
            return text_of(event.content.get("question"))
    return ""
