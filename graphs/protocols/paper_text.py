"""Writing a conversation in the format of the ReAct paper; see :mod:`taograph.graphs.protocols.paper`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from taograph.graphs.protocols.paper import ANY_ACTION, QUESTIONS, WRITTEN, PaperDialect
from taograph.graphs.protocols.samples import sample_arguments
from taograph.graphs.protocols.step import ParsedStep
from taograph.graphs.protocols.text import LOOPS_OWN, THOUGHT
from taograph.graphs.protocols.text_labels import as_data
from taograph.graphs.protocols.text_tools import OfferedTool, compact
from taograph.tools.outcome import NOTHING


@dataclass(frozen=True, slots=True)
class PaperPrompt:
    """A prompt for a completion.

    Attributes:
        text: The prompt; it ends with the label that the reply continues.
        number: Of the step that is asked for.
        stop: Where the reply has to end.
    """

    text: str
    number: int
    stop: tuple[str, ...]

    def again(self, thought: str) -> PaperPrompt:
        """The second call: the thought is there, and only the action is asked for."""
        return PaperPrompt(f"{self.text} {thought}\nAction {self.number}:", self.number, ("\n",))


def paper_instruction(tools: Sequence[OfferedTool], dialect: PaperDialect = QUESTIONS) -> str:
    """What a model is told before the conversation: how to write, and which actions there are.

    Args:
        tools: The tools it may call.
        dialect: Which of the formats.
    """
    parts = "a thought, an action and its observation" if dialect.has_thoughts else "an action and its observation"
    lines = [
        f"Solve the task in rounds of {parts}. The observation comes from outside: wait for it. Actions, one a round:",
        *(f"{_usage(tool)}: {as_data(tool.description, indent='    ')}" for tool in tools if tool.name != ANY_ACTION),
        "Finish[answer]: gives the answer and ends the task. Use it as soon as the observations tell the answer.",
    ]
    return "\n".join(lines)


def paper_choice(choice: str | None) -> str:
    """What a request says about which action is wanted.

    Args:
        choice: None: the model decides; "any": a tool; "none": the answer; else the name of a tool.

    Returns:
        One line, or an empty text where the model decides.
    """
    match choice:
        case None:
            return ""
        case "none":
            return "The next action must be Finish[answer], from what is known by now."
        case "any":
            return "The next action must not be Finish."
        case name:
            return f"The next action must be {_capital(name)}."


def paper_hint(step: ParsedStep) -> str:
    """What to tell a model whose reply could not be read."""
    return f"{step.detail}\nWrite the action as Name[input] on a line of its own, or Finish[answer] to answer."


def _usage(tool: OfferedTool) -> str:
    """How an action of a tool is written."""
    names = list(tool.parameters.get("properties") or {})
    inner = "" if not names else names[0]
    if len(names) > 1:
        inner = compact(sample_arguments(tool.parameters) or dict.fromkeys(names, "…"))
    return f"{_capital(tool.name)}[{inner}]"


def render_paper(
    messages: Sequence[BaseMessage],
    dialect: PaperDialect = QUESTIONS,
    *,
    instruction: str = "",
    strict_original: bool = False,
) -> PaperPrompt:
    """The prompt that asks for the next step.

    A message of the user begins a new question, with the numbers from 1; what the loop says itself, and what the
    user says in the middle of a run, is told like an observation. Calls made together become a round each.

    Args:
        messages: The conversation; a system message stands before everything.
        dialect: Which of the formats.
        instruction: Stands behind the system message: how to write, which tools there are.
        strict_original: Texts as they are; else lines in them that look like labels are marked as none.

    Raises:
        ValueError: ``dialect.max_chars`` leaves no room for the conversation.
    """
    told = [str(m.text) for m in messages if isinstance(m, SystemMessage)]
    head = "".join(f"{part}\n\n" for part in (*told, instruction) if part)
    writing = _Writing(dialect, strict_original)
    for message in messages:
        writing.add(message)
    text, number = writing.ended()
    if dialect.max_chars is not None:
        room = dialect.max_chars - len(head)
        if room <= 0:
            raise ValueError(
                f"max_chars={dialect.max_chars} of the dialect leaves no room behind {len(head)} characters of "
                "system prompt and instruction: shorten them, or set it higher"
            )
        text = text[-room:]
    return PaperPrompt(head + text, number, (f"\nObservation {number}:",) if dialect.has_thoughts else ("\n",))


@dataclass(slots=True)
class _Round:
    """A question, or a step with what was observed."""

    text: str
    observed: bool = False


class _Writing:
    """A conversation on its way to text."""

    def __init__(self, dialect: PaperDialect, strict: bool) -> None:
        self._dialect = dialect
        self._strict = strict
        self._rounds: list[_Round] = []
        self._number = 0
        self._answered = True
        self._open: dict[str, tuple[str, str]] = {}  # calls without a result: id → thought, action

    def add(self, message: BaseMessage) -> None:
        match message:
            case HumanMessage():
                self._close()
                asks = self._answered and LOOPS_OWN not in message.additional_kwargs
                (self._ask if asks else self._tell)(str(message.text))
            case ToolMessage():
                if message.tool_call_id in self._open:
                    self._act(*self._open.pop(message.tool_call_id))
                text = str(message.text)
                self._tell("" if text == NOTHING else text)  # the paper's environments may answer nothing
            case AIMessage():
                self._close()
                self._reply(message)

    def ended(self) -> tuple[str, int]:
        """The text up to the label of the next step, and its number."""
        self._close()
        number = self._number + 1
        label = self._label(number)
        return ("\n" if self._dialect.numbered else "\n\n").join([*(one.text for one in self._rounds), label]), number

    def _ask(self, text: str) -> None:
        gap = "\n" if self._rounds and self._dialect.numbered else ""
        self._rounds.append(_Round(f"{gap}{self._dialect.head}{self._plain(text)}", observed=True))
        self._number, self._answered = 0, False

    def _reply(self, message: AIMessage) -> None:
        said, kept = str(message.text), message.response_metadata.get(WRITTEN)
        kept = kept if isinstance(kept, dict) else {}
        self._answered = False
        if message.tool_calls:
            for place, call in enumerate(message.tool_calls):
                own = [kept.get("tool"), kept.get("args")] == [
                    call["name"],
                    call["args"],
                ]  # a person may have edited it
                action = str(kept["text"]) if own else _call_text(call)
                self._open[call["id"] or ""] = ("" if place else said, action)
        elif message.response_metadata.get("error"):  # a reply that could not be read, as it is
            self._number += 1
            self._rounds.append(_Round(f"{self._label(self._number)} {self._plain(said.strip())}"))
        else:
            thought = message.response_metadata.get(THOUGHT, message.additional_kwargs.get("reasoning_content"))
            action = str(kept["text"]) if kept.get("answer") == said else f"Finish[{said}]"
            self._act(thought if isinstance(thought, str) else "", action)
            self._answered = True

    def _act(self, thought: str, action: str) -> None:
        self._number += 1
        if self._dialect.has_thoughts:
            self._rounds.append(_Round(f"Thought {self._number}: {thought}\nAction {self._number}: {action}"))
        else:
            self._rounds.append(_Round(f"{self._label(self._number)} {action}"))

    def _label(self, number: int) -> str:
        """The label that a reply continues."""
        if not self._dialect.numbered:
            return "Action:"
        return f"Thought {number}:" if self._dialect.thoughts else f"Action {number}:"

    def _tell(self, text: str) -> None:
        """An observation, or what the loop or the user says: in its place, since the format has no other."""
        self._answered = False
        if not self._rounds:
            self._rounds.append(_Round("", observed=True))
        last = self._rounds[-1]
        shown = text.replace("\\n", "") if self._strict and self._dialect.numbered else self._plain(text)
        number = f" {self._number}" if self._dialect.numbered else ""
        last.text += f"\n{shown}" if last.observed else f"\nObservation{number}: {shown}"
        last.observed = True

    def _close(self) -> None:
        """A step for every call that has no result."""
        for thought, action in self._open.values():
            self._act(thought, action)
            self._tell("(There is no result.)")
        self._open = {}

    def _plain(self, text: str) -> str:
        """A text that cannot pose as a label."""
        return text if self._strict else as_data(text)


def _call_text(call: ToolCall) -> str:
    """A call in our words."""
    name, args = call["name"], call["args"]
    texts = [value for value in args.values() if isinstance(value, str)]
    if name == ANY_ACTION and len(texts) == 1:
        return texts[0]
    inner = texts[0] if len(texts) == len(args) == 1 else compact(args)
    return f"{_capital(name)}[{inner if args else ''}]"


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
