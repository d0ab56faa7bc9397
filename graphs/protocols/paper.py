"""The format of the ReAct paper, as a dialect of the text protocol: rendering and reading it.

Two forms, as the paper's code has them (Yao et al., arXiv 2210.03629)::

    Question: …                     ← the question, with `PaperDialect.head` before it
    Thought 1: …
    Action 1: Search[x]             ← a tool of one text argument; several arguments are a JSON object: Book[{…}]
    Observation 1: …
    Thought 2:                      ← the prompt ends here; `Finish[answer]` gives the answer

and, with ``numbered=False``, the form of its shop and its households, where a thought is an action, too::

    …                               ← the task
    Action: think[…]
    Observation: OK.

    Action:                         ← the prompt ends here, and the reply is one line

How a chat model uses it: ``prompt = render_paper(messages, dialect)`` (in ``paper_text.py``); ask with its ``text``
and ``stop``; ``step = parse_paper_step(reply, number=prompt.number, dialect=dialect)``. Where ``step.asks_again``, the
thought came without an action: ask once more, with ``prompt.again(step.thought)``, and read that with
:func:`parse_paper_action`. :func:`resolve` then finds the tool that is meant. ``as_written(step, args)`` goes into the
message's ``response_metadata[WRITTEN]``, so that the model is shown its own words later, not ours.

``strict_original=True`` is the published code to the letter, with what it does not forgive: the reply has to
split in exactly two at ``"\\nAction 1: "``, the first character of an action is made lower case before blanks are
stripped (so that an extra blank before ``Finish`` makes it an unknown action), and lines of an observation that
look like labels are left as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from taograph.graphs.protocols.step import ParsedStep, StepError

ANY_ACTION = "any_action"
"""A tool of this name is called with every action that is no other tool's, as it was written.

The paper's environments answer any text ("Invalid action: …"). Without such a tool, an action that cannot be read
is an error, and an unknown name is passed on."""
WRITTEN = "paper_action"
"""Key in ``response_metadata``: the action in the model's own words, and what it was taken to mean."""

_QUOTED = 200
_AROUND = " \t\r\n`*"
_NAME = r"[^\W\d][\w.\-]*"
_BARE = re.compile(_NAME)
_CALLED = re.compile(rf"({_NAME})[ \t]*\[(.*)\]", re.DOTALL)
_OPEN = re.compile(rf"({_NAME})[ \t]*\[(.*)", re.DOTALL)
_CALLED_ORIGINAL = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
# No two neighbors in it match the same characters, so that it takes linear time.
_LABEL = re.compile(r"^[ \t>*#-]*(thought|action|observation)\**[ \t]*(?:\d+\**[ \t]*)?[:：]\**", re.I | re.M)
_DANGLING = re.compile(r"\n[ \t*]*action\**[ \t]*(?:\d+\**)?$", re.I)


@dataclass(frozen=True, slots=True)
class PaperDialect:
    """Which of the paper's formats is meant.

    Attributes:
        head: What stands before the question.
        numbered: ``Thought 1: / Action 1: / Observation 1:``; else ``Action: / Observation:`` alone.
        max_chars: The oldest of the conversation is cut so that the prompt has at most so many characters; None
            cuts nothing. The published code for the shop has 6400.
        thoughts: Whether a thought stands before each action, where it is numbered; without, it is the paper's "Act".
    """

    head: str = "Question: "
    numbered: bool = True
    max_chars: int | None = None
    thoughts: bool = True

    @property
    def has_thoughts(self) -> bool:
        """Whether a reply begins with a thought; where it is not numbered, a thought is an action."""
        return self.numbered and self.thoughts


QUESTIONS = PaperDialect()
"""HotpotQA."""
CLAIMS = PaperDialect(head="Claim: ")
"""FEVER."""
SHOPPING = PaperDialect(head="", numbered=False, max_chars=6400)
"""WebShop."""


@dataclass(frozen=True, slots=True)
class PaperStep(ParsedStep):
    """A step as the paper's format has it.

    Attributes:
        written: The action in the model's own words.
        inner: The text between its brackets.
    """

    written: str = ""
    inner: str = ""

    @property
    def asks_again(self) -> bool:
        """Whether there is no action yet, so that it is asked for alone."""
        return self.error in ("missing_action", "empty") and not self.written


def parse_paper_step(
    text: str, *, number: int, strict_original: bool = False, dialect: PaperDialect = QUESTIONS
) -> PaperStep:
    """Read a reply.

    Args:
        text: The reply: what continues ``Thought 1:``, or ``Action:`` where the dialect has no thoughts.
        number: The number of the step that was asked for.
        strict_original: Read it exactly as the published code does.
        dialect: Which of the formats.

    Returns:
        The step; an action's tool has its first letter in lower case, its argument is text (or the object that
        its JSON says). Linear in the length of the text.
    """
    if not dialect.has_thoughts:
        return parse_paper_action(text, strict_original=strict_original, dialect=dialect)
    if strict_original:
        return _step_original(text, number)
    text = text.rstrip()
    begins = _without_think(text)
    if begins is None:
        return _error("incomplete", text)
    labels = list(_LABEL.finditer(text, begins))
    first = next((i for i, label in enumerate(labels) if label[1].lower() != "thought"), len(labels))
    thought = text[begins : labels[first].start() if first < len(labels) else len(text)]
    thought = _DANGLING.sub("", _LABEL.sub("", thought).rstrip()).strip()
    if first == len(labels) or labels[first][1].lower() == "observation":
        error: StepError = "missing_action" if thought else "empty"
        return _error(error, thought, thought=thought, truncated=first < len(labels))
    cut = first + 1 < len(labels)
    written = text[labels[first].end() : labels[first + 1].start() if cut else len(text)]
    return _action(written.removeprefix(" ").rstrip(), thought=thought, truncated=cut)


def parse_paper_action(
    text: str, *, thought: str = "", strict_original: bool = False, dialect: PaperDialect = QUESTIONS
) -> PaperStep:
    """Read a reply that is an action alone, on one line.

    Args:
        text: The reply: what continues ``Action 1:`` or ``Action:``.
        thought: The thought it belongs to.
        strict_original: Read it exactly as the published code does.
        dialect: Which of the formats.
    """
    if strict_original:
        line = text.partition("\n")[0]  # the server stops there, where it can
        return _action_original(line.strip(), thought=thought) if dialect.numbered else _shop_original(line.lstrip(" "))
    begins = _without_think(text)
    if begins is None:
        return _error("incomplete", text, thought=thought)
    text = text[begins:].strip()
    label = _LABEL.match(text)
    line, _, rest = text[label.end() if label else 0 :].strip().partition("\n")
    return _action(line, thought=thought, truncated=bool(rest))


def resolve(step: PaperStep, tools: Collection[str]) -> PaperStep:
    """The step with the tool that it means, of those there are.

    ``Search[x]`` is the tool ``search``, or ``Search`` where that is its name. What is none of them goes to the
    tool :data:`ANY_ACTION`, where there is one.
    """
    if step.kind == "final" or not step.written.strip() or step.tool in tools:
        return step
    called = _BARE.match(step.written.strip(_AROUND))
    if step.kind == "action" and called and called[0] in tools:
        return replace(step, tool=called[0])
    if ANY_ACTION in tools:
        return replace(step, kind="action", tool=ANY_ACTION, args=step.written, error=None, detail="")
    return step


def as_text_argument(step: PaperStep, parameters: Sequence[str]) -> PaperStep:
    """An action of a tool of one parameter, its argument under it: also an empty text, and JSON that is just data."""
    args = step.args
    meant = isinstance(args, dict) and (not args or not args.keys().isdisjoint(parameters))
    if step.kind != "action" or len(parameters) != 1 or meant:
        return step
    return replace(step, args={parameters[0]: step.inner if isinstance(args, dict) else args})


def as_written(step: PaperStep, args: Any) -> dict[str, Any]:
    """What is kept of an action's words, with the arguments of the call that was made of it."""
    return {"text": step.written, "tool": step.tool, "args": args, "answer": step.answer}


def _action(written: str, *, thought: str, truncated: bool) -> PaperStep:
    """An action, read tolerantly."""
    body = written.strip(_AROUND)
    line = body.partition("\n")[0].rstrip(_AROUND)
    if line != body and _CALLED.fullmatch(line) and line.count("[") == line.count("]"):
        body, truncated = line, True  # prose behind it
    elif (bare := body.rstrip(f"{_AROUND}.")).endswith("]"):
        body = bare
    called = _CALLED.fullmatch(body)
    if called is None:
        return _unclosed(written, body, thought=thought, truncated=truncated)
    name, inner = called[1], called[2].strip()
    if name.lower() != "finish":
        args = _args(inner)
        return PaperStep("action", thought, _lower_first(name), args, truncated=truncated, written=written, inner=inner)
    if not inner:
        return _error("missing_action_input", body, thought=thought, truncated=truncated, written=written)
    return PaperStep("final", thought, answer=inner, truncated=truncated, written=written)


def _unclosed(written: str, body: str, *, thought: str, truncated: bool) -> PaperStep:
    """An action that is not ``Name[input]``."""
    if not body:
        return _error("missing_action" if thought else "empty", body, thought=thought, truncated=truncated)
    if _BARE.fullmatch(body) and body.lower() != "finish":
        return PaperStep("action", thought, _lower_first(body), {}, truncated=truncated, written=written)
    opened = _OPEN.fullmatch(body)
    if opened and opened[1].lower() == "think":  # a thought that the length limit cut does no harm
        return PaperStep("action", thought, "think", opened[2].strip(), truncated=True, written=written)
    error: StepError = "incomplete" if opened and "]" not in opened[2] else "bad_arguments"
    return _error(error, body, thought=thought, truncated=truncated, written=written)


def _step_original(text: str, number: int) -> PaperStep:
    """A reply as the published code for questions and claims reads it."""
    text = text.partition(f"\nObservation {number}:")[0].strip()  # the server stops there, where it can
    parts = text.split(f"\nAction {number}: ")
    if len(parts) != 2:
        return _error("missing_action", text, thought=text.partition("\n")[0])
    return _action_original(parts[1], thought=parts[0])


def _action_original(action: str, *, thought: str) -> PaperStep:
    if not action:  # there it is an IndexError
        return _error("missing_action_input", "", thought=thought)
    called = _CALLED_ORIGINAL.fullmatch(_lower_first(action).strip())
    if called is None:
        return _error("bad_arguments", action, thought=thought, written=action)
    if called[1] == "finish":
        return PaperStep("final", thought, answer=called[2], written=action)
    return PaperStep("action", thought, called[1], called[2], written=action)


def _shop_original(action: str) -> PaperStep:
    """An action as the published code for the shop reads it: by its beginning, the last character unseen."""
    for name in ("think", "search", "click"):
        if action.startswith(f"{name}["):
            return PaperStep("action", tool=name, args=action[len(name) + 1 : -1], written=action)
    return _error("bad_arguments" if action else "missing_action_input", action, written=action)


def _args(inner: str) -> Any:
    if inner.startswith("{"):
        try:
            found = json.loads(inner)
        except (ValueError, RecursionError):
            return inner
        return found if isinstance(found, dict) else inner
    return inner


def _lower_first(text: str) -> str:
    return text[0].lower() + text[1:]


def _without_think(text: str) -> int | None:
    """Where a reply begins behind its ``<think>`` part; None where that is left open."""
    begins = len(text) - len(text.lstrip())
    if not text.startswith("<think>", begins):
        return begins
    closed = text.find("</think>", begins)
    return None if closed < 0 else closed + len("</think>")


def _error(
    error: StepError, quoted: str, *, thought: str = "", truncated: bool = False, written: str = ""
) -> PaperStep:
    shown = quoted if len(quoted) <= _QUOTED else f"{quoted[:_QUOTED]}…"
    said = {
        "empty": "The reply was empty.",
        "missing_action": f"There is no action in: {shown}",
        "missing_action_input": f"There is nothing between the brackets: {shown}" if shown else "The action is empty.",
        "incomplete": f"The end is missing: {shown}",
    }.get(error, f"This is no action: {shown}")
    return PaperStep("error", thought, error=error, truncated=truncated, detail=said, written=written)
