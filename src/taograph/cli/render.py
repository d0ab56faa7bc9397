"""Telling a run's events to the person at the terminal, to a file, or to a program.

A renderer has one method for each event type of :mod:`taograph.graphs.loop.events`. What models, tools and
pages wrote is printed as data: cleaned of control characters, never read as markup.
"""

from __future__ import annotations

import json
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from taograph.cli.text import clean, one_line, shorten
from taograph.cli.words import budget_line, call_line, cost_line, limits_line, seconds, stop_line
from taograph.redaction import redact

if TYPE_CHECKING:
    from taograph.graphs.loop.events import Event

_TYPES = frozenset(
    (
        "run_started",
        "thought_delta",
        "thought",
        "action",
        "observation",
        "retry",
        "approval",
        "approved",
        "rejected",
        "budget",
        "plan",
        "vote",
        "child",
        "stop",
        "answer",
    )
)
# How much of an observation a person is shown at once; -v shows all of it.
OBSERVATION_CHARS = 700
OBSERVATION_LINES = 10
# How many answers of a vote are shown.
_ANSWERS = 4


class Renderer:
    """Tells events as they come; used as a context manager around a run.

    Attributes:
        last_stop: The reason of the last ``stop`` event, which decides the exit status.
        last_budget: The last ``budget`` event: what the run has used, of what.
        priced: Whether the price of the model is known.
        waiting_for: What the first wait of the run is for.
    """

    def __init__(self) -> None:
        self.last_stop: str | None = None
        self.last_budget: Any = None
        self.priced = True
        self.waiting_for = "asking the model"

    def event(self, event: Event) -> None:
        """Tell one event; types that a later version adds are passed over."""
        self._note(event)
        if event["type"] in _TYPES:
            getattr(self, event["type"])(event)

    def _note(self, event: Event) -> None:
        """Remember what decides how the command ends."""
        if event["type"] == "stop":
            self.last_stop = event["reason"]
        elif event["type"] == "budget":
            self.last_budget = event

    def __enter__(self) -> Self:
        """Begin to show; again after each question to a person."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    def stopping(self, said: str) -> None:
        """The run was asked to stop. Called from a signal handler: no locks, no buffered output."""
        os.write(2, f"tao: {said}\n".encode())

    def run_started(self, event: Any) -> None:
        """The question and the limits."""

    def going_on(self, what: Any) -> None:
        """A run is gone on with: its question, its model, its tools, its limits and the steps it took."""

    def thought_delta(self, event: Any) -> None:
        """A piece of the model's text."""

    def thought(self, event: Any) -> None:
        """A complete thought."""

    def action(self, event: Any) -> None:
        """A call that is about to run."""

    def observation(self, event: Any) -> None:
        """What a call returned."""

    def retry(self, event: Any) -> None:
        """A turn is asked for again."""

    def approval(self, event: Any) -> None:
        """The run waits for a person; the conversation asks."""

    def approved(self, event: Any) -> None:
        """A person let a call run."""

    def rejected(self, event: Any) -> None:
        """A person did not let a call run."""

    def budget(self, event: Any) -> None:
        """What is spent so far."""

    def plan(self, event: Any) -> None:
        """A plan was made or changed."""

    def vote(self, event: Any) -> None:
        """How a vote among samples stands."""

    def child(self, event: Any) -> None:
        """An event of a nested graph."""

    def stop(self, event: Any) -> None:
        """Why the run ended."""

    def answer(self, event: Any) -> None:
        """The answer and what it cost."""


class JsonRenderer(Renderer):
    """One event a line, as it is; ASCII, so that no terminal and no encoding stands in the way.

    Args:
        out: Where the lines go.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__()
        self._out = out or sys.stdout

    def event(self, event: Event) -> None:
        """Write the event."""
        self._note(event)
        self._out.write(json.dumps(event, default=str) + "\n")
        self._out.flush()


class PlainRenderer(Renderer):
    """Plain lines for a pipe, a file or a screen reader; each is flushed.

    Every line of a text but its first is indented, so that no text can pass for a line of ours.

    Args:
        out: Where the lines go.
        verbose: Show observations whole.
    """

    def __init__(self, out: TextIO | None = None, *, verbose: bool = False) -> None:
        super().__init__()
        self._out = out or sys.stdout
        self._verbose = verbose
        self._path = ""
        self._stop = ""
        self._budget: Any = None
        self._actions: set[tuple[Any, ...]] = set()

    def event(self, event: Event) -> None:
        """Tell one event. The budget of a step comes before its actions and is told after them."""
        held = self._budget
        if event["type"] == "stop":
            self._budget = None  # the line of the costs says it all
        elif held is not None and (event["step"] != held["step"] or event["type"] in ("retry", "approval", "plan")):
            self._budget = None
            self._say_budget(budget_line(held["steps"], held["limits"], held["spent"]))
        super().event(event)

    def _say(self, label: str, text: str) -> None:
        body = clean(text).strip("\n").replace("\n", "\n    ")
        self._out.write(f"{self._path}{label}: {body}".rstrip() + "\n")
        self._out.flush()

    def line(self, label: str, text: str) -> None:
        """A line of the command's own among those of the run."""
        self._say(label, text)

    def told(self, event: Any) -> None:
        """Tell what is read back from a thread, see :mod:`taograph.cli.transcript`."""
        if event["type"] in ("question", "answer", "instructions"):
            self._say(event["type"].capitalize(), event["text"])
        else:
            getattr(self, event["type"])(event)

    def run_started(self, event: Any) -> None:
        """The question, and what it runs with; of a nested run, what it is to do, which stands last."""
        if self._path:
            self._say("Question", nested_question(event["question"]))
            self._say("Limits", limits_line(event["limits"]))
            return
        self._say("Question", event["question"])
        self._say("Model", one_line(redact(event["model"]), 200) or "unnamed")
        self._say("Tools", ", ".join(one_line(name, 60) for name in event["tools"]) or "none")
        self._say("Limits", limits_line(event["limits"]))

    def going_on(self, what: Any) -> None:
        """As :meth:`run_started`."""
        self.run_started(what)
        self._say("Going on", going_on_text(what))

    def thought(self, event: Any) -> None:
        """A thought, whole."""
        self._say("Thought", event["text"])

    def action(self, event: Any) -> None:
        """The call; once, also where it is told again when a person has answered."""
        if not self._is_new(event):
            return
        line, cut = shorten(call_line(event["tool"], event["args"]), chars=self._most(), lines=10**6)
        self._say("Action", line + (" …" if cut else ""))

    def observation(self, event: Any) -> None:
        """The result, shortened unless verbose, with the size of the whole."""
        shown, note = observation_text(event, verbose=self._verbose)
        label = "Observation" if event["status"] == "success" else "Observation (error)"
        self._say(label, "\n".join(filter(None, (shown, note))))

    def retry(self, event: Any) -> None:
        """Why a turn is asked for again."""
        self._say("Again", retry_text(event))

    def approved(self, event: Any) -> None:
        """A person let a call run, perhaps with other arguments."""
        self._say("Approved", approved_text(event))

    def rejected(self, event: Any) -> None:
        """A person did not let a call run."""
        self._say("Rejected", rejected_text(event))

    def budget(self, event: Any) -> None:
        """The budget line is kept until the step is over."""
        if not self._path:
            self._budget = event

    def _say_budget(self, line: str) -> None:
        self._say("Budget", line)

    def plan(self, event: Any) -> None:
        """The plan, a numbered line for each part."""
        self._say("Plan", "\n".join(plan_lines(event["plan"])))

    def vote(self, event: Any) -> None:
        """The answers with their votes, on one line."""
        self._say("Votes", vote_text(event["votes"]))

    def child(self, event: Any) -> None:
        """The nested event, with the path before it."""
        inner, outer, stop = event["event"], self._path, self._stop
        path = inner.get("path") or event["path"]
        self._path = one_line(" > ".join(map(str, path)), 80) + " > "
        try:
            if inner.get("type") in _TYPES:
                getattr(self, inner["type"])(inner)
        finally:
            self._path, self._stop = outer, stop

    def stop(self, event: Any) -> None:
        """The reason is kept for the line after the answer."""
        self._stop = stop_line(event["reason"], redact(event["detail"]), event["step"])
        if self._path:
            self._say("Stop", self._stop)

    def answer(self, event: Any) -> None:
        """The answer, why it ended, what it cost."""
        self._say("Answer", event["text"])
        if "structured" in event:
            self._say("Structured", json.dumps(event["structured"], ensure_ascii=False, default=str))
        if not self._path:
            self._say("Stop", self._stop)
            self._say("Cost", cost_line(event["spent"], priced=self.priced))

    def _most(self) -> int:
        return 10**9 if self._verbose else OBSERVATION_CHARS

    def _is_new(self, action: Any) -> bool:
        call = (action.get("run"), action["step"], action["id"])
        if call in self._actions:
            return False
        self._actions.add(call)
        return True


def observation_text(event: Any, *, verbose: bool) -> tuple[str, str]:
    """What is shown of an observation, and a note on what is not and how long it took.

    Args:
        event: The ``observation`` event.
        verbose: Show all that the model sees.
    """
    text = clean(event["text"]).strip("\n")
    cut = False
    if not verbose:
        text, cut = shorten(text, chars=OBSERVATION_CHARS, lines=OBSERVATION_LINES)
    notes = []
    if cut:
        notes.append(f"… {len(event['text']):,} characters in all; -v shows them")
    if event["handle"] is not None:
        notes.append(f"the model was shown a part of {event['size']:,} characters")
    if event["seconds"] >= 0.1:
        notes.append(seconds(event["seconds"]))
    return text, f"({'; '.join(notes)})" if notes else ""


def going_on_text(what: Any) -> str:
    """From where a run is gone on with."""
    return f"after step {what['steps']}" if what["steps"] else "from the beginning"


def approved_text(event: Any) -> str:
    """What a person let run, in one line."""
    by = f" by {one_line(event['by'], 60)}" if event["by"] else ""
    if event["decision"] == "edit":
        return f"{call_line(event['tool'], event['args'])}, changed{by}"
    return f"{one_line(event['tool'], 60)}{by}"


def rejected_text(event: Any) -> str:
    """What a person did not let run, in one line."""
    by = f" by {one_line(event['by'], 60)}" if event["by"] else ""
    why = f": {one_line(event['reason'], 300)}" if event["reason"] else ""
    return f"{one_line(event['tool'], 60)}{by}{why}"


def nested_question(question: str) -> str:
    """What a nested run is to do, in one line: it stands last."""
    before, _, last = question.strip().rpartition("\n")
    return one_line(f"… {last}" if before else last, 300)


def retry_text(event: Any) -> str:
    """Why a turn is asked for again, in one line."""
    reason = one_line(event["reason"].replace("_", " "), 80)
    detail = one_line(redact(event["detail"]), 300)
    return f"{reason}: {detail}" if detail else reason


def vote_text(votes: dict[str, Any]) -> str:
    """The answers with the most votes, and how many samples there were."""
    answers = [f"{row['count']} for {one_line(str(row['answer']), 60)}" for row in votes["table"]]
    more = f", {len(answers) - _ANSWERS} other answers" if len(answers) > _ANSWERS else ""
    failed = f" ({votes['failed']} failed)" if votes["failed"] else ""
    said = ", ".join(answers[:_ANSWERS]) or "none"
    return f"{said}{more}, of {votes['drawn']} samples{failed}; {votes['samples']} at most"


def plan_lines(plan: list[dict[str, Any]]) -> list[str]:
    """The parts of a plan, one a line; strategies name their fields as they like."""
    lines = []
    for number, part in enumerate(plan, 1):
        text = next((str(part[key]) for key in ("task", "step", "text", "description") if part.get(key)), "")
        if not text and part.get("tool"):
            given = part.get("input")
            text = call_line(part["tool"], given if isinstance(given, dict) else {})
        status = f"[{part['status']}] " if part.get("status") else ""
        lines.append(one_line(f"{part.get('id', number)}. {status}{text or json.dumps(part, default=str)}", 303))
    return lines
