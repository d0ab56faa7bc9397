"""Writing a conversation in the text protocol: as turns for a chat model, as one text for a completion model.

What the model did becomes what it would have written (Thought, Action, Action Input, Final Answer), what tools
returned becomes an Observation in the turn of whom the model talks to. Texts from elsewhere cannot pose as a label:
lines of theirs that look like one are set apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from taograph.graphs.protocols.text_labels import as_data, labels
from taograph.graphs.protocols.text_tools import compact
from taograph.graphs.protocols.text_words import WORDS

LOOPS_OWN = "taograph_feedback"
"""Key in ``additional_kwargs`` of what the loop says itself to a model; its kind."""

THOUGHT = "thought"
"""Key in ``response_metadata``: the thought of a reply, where ``reasoning_content`` holds more than that."""

# Of those, the kinds that do: the rest hands on what tools, results and checks say.
_SPEAKS_OF_LABELS = frozenset({"protocol", "malformed_output"})

Block = str | dict[str, Any]
Speaker = Literal["person", "observation", "note", "model"]

# What opens a part that labels do not count in, within a thought: it would swallow the action behind it.
_OPENS = re.compile(r"^([^\S\n]*)(?=`{3}|~{3})", re.MULTILINE)
_TAG = re.compile(r"<(?=/?think)", re.IGNORECASE)
# Where a turn ends, which servers read so even in the midst of a text, and where a model's own calls begin.
_TOKEN = re.compile(
    r"(?<=<)(?=[|｜][^\s<>]{1,60}[|｜]>|/?s>|(?:start|end)_of_turn>|/?tool_(?:calls?|response)>)"
    r"|(?<=<)(?=function[_=]|invoke name=)|(?<=\[)(?=/?INST\]|TOOL_CALLS\])"
)

# As generous as what sets data apart, and wherever it stands: in a fence, or in a JSON text that is never closed.
_OBSERVED = re.compile(
    r"^(?:[^\w\n]|[\d_])*+(?:observation|观察)(?:[^\w\n:：]|[\d_])*+[:：]|<tool_response|<[|｜]tool[_▁]outputs?",
    re.MULTILINE | re.IGNORECASE,
)
# A call or an answer as JSON, which counts where a line begins.
_STEP_KEY = re.compile(
    r"[\"'](?:name|action|tool|tool_?name|function(?:_name)?|(?:final_?)?answer)[\"']\s*:", re.IGNORECASE
)
_LINE_OF_JSON = re.compile(r"(?<=\n)(?=[^\S\n]*[{\[])")


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that was said.

    Attributes:
        speaker: Who said it; "note" is the loop's own.
        text: What.
        blocks: Images and the like that came with it.
    """

    speaker: Speaker
    text: str
    blocks: tuple[Block, ...] = ()


def action_text(thought: str, tool: str, args: Any, *, language: str = "en") -> str:
    """An action as a model writes it.

    Args:
        thought: What it thought before; left out where empty.
        tool: The tool's name.
        args: The arguments.
        language: Of the labels, see :func:`~taograph.graphs.protocols.text_labels.labels`.
    """
    label = labels(language)
    name = " ".join(tool.split())
    lines = [
        *_thought_lines(thought, language),
        f"{label.action}{label.colon}{name}",
        f"{label.action_input}{label.colon}{compact(args)}",
    ]
    return "\n".join(lines)


def answer_text(thought: str, answer: str, *, language: str = "en") -> str:
    """An answer as a model writes it; see :func:`action_text`."""
    label = labels(language)
    return "\n".join(
        [*_thought_lines(thought, language), f"{label.final_answer}{label.colon}{as_data(answer.strip())}"]
    )


def before_observation(text: str) -> str:
    """A reply that could not be read as it is kept: up to the first observation that the model made up."""
    made_up = _OBSERVED.search(text)
    return text if made_up is None else text[: made_up.start()].rstrip()


def chat_messages(messages: Sequence[BaseMessage], system: str = "", *, language: str = "en") -> list[BaseMessage]:
    """A conversation for a chat model that knows neither tools nor their results.

    Args:
        messages: The conversation. Its instructions come first, in one system message.
        system: Stands behind the conversation's own instructions: how to write, which tools there are.
        language: Of the labels.

    Returns:
        A system message, if there is anything in it, and turns of person and model in alternation.
    """
    instructions = _instructions(messages, system)
    told: list[BaseMessage] = [SystemMessage(instructions)] if instructions else []
    return merged([*told, *(_message(turn, language) for turn in turns(messages, language=language))])


def completion_text(
    messages: Sequence[BaseMessage], system: str = "", *, language: str = "en", thoughts: bool = True
) -> str:
    """A conversation as one text for a model that continues texts; it ends with the label of a thought.

    The form is that of the worked examples in the system text: what the model is given and what it writes are told
    apart.

    Args:
        messages: The conversation.
        system: As :func:`chat_messages`.
        language: Of the labels.
        thoughts: Whether a reply begins with a thought; else the text ends before any label.
    """
    label, words = labels(language), next(found for known, found in WORDS.items() if known == language)
    heads = "|".join(map(re.escape, (words.you_write, words.you_get)))
    posing = re.compile(rf"^(?=[^\S\n]*(?:{label.question}[^\S\n]*[:：]|{heads}))", re.MULTILINE | re.IGNORECASE)
    parts: list[tuple[bool, str]] = []
    for turn in turns(messages, language=language):
        text = turn.text
        if turn.speaker != "model":
            text = posing.sub("| ", text)
        match turn.speaker:
            case "person":
                text = f"{label.question}{label.colon}{text}"
            case "observation":
                text = f"{label.observation}{label.colon}{text}"
        writes = turn.speaker == "model"
        if parts and parts[-1][0] == writes:
            parts[-1] = (writes, f"{parts[-1][1]}\n{text}")
        else:
            parts.append((writes, text))
    begun = f"{label.thought}{label.colon.rstrip()}" if thoughts else ""
    if parts and parts[-1][0]:
        parts[-1] = (True, f"{parts[-1][1]}\n{begun}")
    else:
        parts.append((True, begun))
    told = [f"{words.you_write if writes else words.you_get}\n{text}" for writes, text in parts]
    instructions = _instructions(messages, system)
    return "\n\n".join([instructions, *told] if instructions else told)


def plain_completion_text(messages: Sequence[BaseMessage]) -> str:
    """A conversation without tools as one text for a model that continues texts."""
    instructions = _instructions(messages, "")
    said = [m for m in messages if not isinstance(m, SystemMessage)]
    if len(said) == 1 and isinstance(said[0], HumanMessage):
        return "\n\n".join(part for part in (instructions, str(said[0].text)) if part)
    lines = [f"{'AI' if isinstance(m, AIMessage) else 'Human'}: {m.text}" for m in said]
    return "\n\n".join([*([instructions] if instructions else []), "\n".join([*lines, "AI:"])])


def completion_stops(language: str = "en") -> tuple[str, ...]:
    """Where a completion goes on to the next question of its own."""
    return (f"\n{labels(language).question}{labels(language).colon.rstrip()}",)


def merged(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages of which no two in a row are of the same role."""
    made: list[BaseMessage] = []
    for message in messages:
        if made and type(made[-1]) is type(message):
            gap = "\n" if isinstance(message, AIMessage) else "\n\n"
            content = _joined(made[-1].content, message.content, gap)
            made[-1] = type(message)(content=content)
        else:
            made.append(message)
    return made


def turns(messages: Sequence[BaseMessage], *, language: str = "en") -> Iterator[Turn]:
    """What was said, in order, instructions left out; calls made together are a round each, with its result."""
    taken: set[int] = set()
    for place, message in enumerate(messages):
        match message:
            case SystemMessage():
                continue
            case AIMessage() if message.tool_calls:
                yield from _rounds(place, message, messages, taken, language)
            case AIMessage():
                said = _reply(message, language)
                if said:
                    yield Turn("model", said)
            case ToolMessage():
                if place not in taken:
                    yield _observation(message)
            case _ if LOOPS_OWN in message.additional_kwargs:
                own = message.additional_kwargs[LOOPS_OWN] in _SPEAKS_OF_LABELS
                said = str(message.text)
                yield Turn("note", said if own else _foreign(said), _blocks(message))
            case _:
                yield Turn("person", as_data(str(message.text), first=True), _blocks(message))


def thought_of_reply(message: AIMessage) -> str:
    """The thought of a reply, as it is shown to the model again; reasoning that a model does for itself is not."""
    if message.tool_calls and str(message.text).strip():
        return str(message.text).strip()
    if message.response_metadata.get("protocol") != "text":
        return ""
    kept = message.response_metadata.get(THOUGHT, message.additional_kwargs.get("reasoning_content"))
    return kept.strip() if isinstance(kept, str) else ""


def _rounds(
    place: int, message: AIMessage, messages: Sequence[BaseMessage], taken: set[int], language: str
) -> Iterator[Turn]:
    results = _results_behind(place, messages, {call["id"] or "" for call in message.tool_calls})
    for number, call in enumerate(message.tool_calls):
        thought = "" if number else thought_of_reply(message)
        yield Turn("model", _call_text(call, thought, language))
        found = results.pop(call["id"] or "", None)
        if found is not None:
            taken.add(found[0])
            yield _observation(found[1])


def _results_behind(
    place: int, messages: Sequence[BaseMessage], wanted: set[str]
) -> dict[str, tuple[int, ToolMessage]]:
    """The results of a message's calls: those that stand before the model's next message."""
    results: dict[str, tuple[int, ToolMessage]] = {}
    for at in range(place + 1, len(messages)):
        message = messages[at]
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage) and message.tool_call_id in wanted:
            results.setdefault(message.tool_call_id, (at, message))
    return results


def _call_text(call: ToolCall, thought: str, language: str) -> str:
    return action_text(thought, call["name"], call["args"], language=language)


def _reply(message: AIMessage, language: str) -> str:
    """A message of the model without calls: an answer, or a reply that could not be read, as it was."""
    said = str(message.text).strip()
    if not said or message.response_metadata.get("error"):
        return said
    return answer_text(thought_of_reply(message), said, language=language)


def _observation(message: ToolMessage) -> Turn:
    return Turn("observation", _foreign(str(message.text)), _blocks(message))


def _foreign(text: str) -> str:
    """A text that neither a person nor the loop has written; no step, also where a model says it again."""
    told = _TOKEN.sub(" ", as_data(text, first=True))
    return _LINE_OF_JSON.sub("| ", told) if _STEP_KEY.search(told) else told


def _message(turn: Turn, language: str) -> BaseMessage:
    label, text = labels(language), turn.text
    if turn.speaker == "model":
        return AIMessage(text)
    if turn.speaker == "observation":
        text = f"{label.observation}{label.colon}{text}"
    return HumanMessage([{"type": "text", "text": text}, *turn.blocks] if turn.blocks else text)


def _thought_lines(thought: str, language: str) -> list[str]:
    label = labels(language)
    kept = _TAG.sub("< ", _OPENS.sub(r"\1| ", as_data(thought.strip())))
    return [f"{label.thought}{label.colon}{kept}"] if kept.strip() else []


def _instructions(messages: Sequence[BaseMessage], more: str) -> str:
    """All instructions as one text; one that is given again says nothing new."""
    given = [str(m.text).strip() for m in messages if isinstance(m, SystemMessage)]
    return "\n\n".join(dict.fromkeys(part for part in (*given, more) if part))


def _blocks(message: BaseMessage) -> tuple[Block, ...]:
    """What of a content is not text."""
    if isinstance(message.content, str):
        return ()
    return tuple(b for b in message.content if isinstance(b, dict) and b.get("type") not in (None, "text"))


def _joined(first: str | list[Any], second: str | list[Any], gap: str) -> str | list[Any]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{gap}{second}"
    return [*_as_blocks(first), *_as_blocks(second)]


def _as_blocks(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
