"""The system text of the text protocol: the tools, the form of a reply, the rules and worked examples.

Nothing in it changes between the steps of a run, and what a request asks for in particular stands at its end, so
that the same beginning is read from a provider's or a local model's cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from taograph.graphs.protocols.examples import EXAMPLE_ID
from taograph.graphs.protocols.samples import sample_arguments
from taograph.graphs.protocols.step import ParsedStep
from taograph.graphs.protocols.text_labels import Labels, Language, as_data, labels
from taograph.graphs.protocols.text_tools import (
    OfferedTool,
    ToolSource,
    argument_lines,
    compact,
    names_of,
    offered_tool,
)
from taograph.graphs.protocols.text_words import WORDS, Words
from taograph.tools.policy import ToolExample

__all__ = [
    "Labels",
    "Language",
    "OfferedTool",
    "ToolSource",
    "as_data",
    "choice_text",
    "default_template",
    "labels",
    "offered_tool",
    "retry_hint",
    "stop_texts",
    "system_text",
    "with_thoughts",
]

_EXAMPLES = 2
_INDENT = "  "
_SECTION_OF_EXAMPLES = re.compile(r"(?:\A|\n\n)#[^\n]*\n\n\{examples\}")


def system_text(
    tools: Sequence[OfferedTool],
    *,
    language: str = "en",
    template: str | None = None,
    choice: str | None = None,
    examples: bool = True,
    thoughts: bool = True,
) -> str:
    """What a model is told before the conversation.

    Args:
        tools: The tools it may call.
        language: ``"en"``, ``"zh"``, ``"de"`` or ``"pl"``.
        template: A text of your own in place of :func:`default_template`. ``{tools}``, ``{tool_names}``,
            ``{format}``, ``{rules}`` and ``{examples}`` are filled in; every other brace stays as it is.
        choice: As :func:`choice_text`.
        examples: Whether worked examples are part of it; not where they stand in the conversation as turns.
        thoughts: Whether a reply begins with a thought.

    Raises:
        ValueError: There are no tools, no such language, no ``{tools}`` in the template, or no tool of the name
            that ``choice`` gives.
    """
    words = _words(language, thoughts=thoughts)
    if not tools:
        raise ValueError("tools is empty: the text protocol is for calling tools. Give at least one")
    if template is not None and "{tools}" not in template:
        raise ValueError(
            "template has no {tools}: the model would not know what it can call. Put {tools} where the list belongs"
        )
    names = {"tool_names": names_of(tools)}
    if template is None:
        template = words.template if examples else _SECTION_OF_EXAMPLES.sub("", words.template)
    text = _filled(
        template,
        {
            **names,
            "tools": "\n\n".join(_tool(tool, words, labels(language)) for tool in tools),
            "format": _filled(words.format, names),
            "rules": words.rules,
            "examples": "\n\n".join(_examples(tools, words, labels(language))) if examples else "",
        },
    )
    wanted = choice_text(choice, [tool.name for tool in tools], language=language)
    return f"{text}\n\n{wanted}" if wanted else text


def default_template(language: str = "en") -> str:
    """The template that :func:`system_text` fills in where none is given; a start for one of your own.

    Raises:
        ValueError: There is none in this language.
    """
    return _words(language).template


def choice_text(choice: str | None, names: Sequence[str], *, language: str = "en") -> str:
    """What a request says about whether a tool is to be called.

    Args:
        choice: None or ``"auto"``: the model decides; ``"any"`` or ``"required"``: some tool must be called;
            ``"none"``: the answer must be given now; else the name of the tool to call.
        names: The names of the tools.
        language: As :func:`system_text`.

    Returns:
        One line, or an empty text where the model decides.

    Raises:
        ValueError: There is no tool of that name, or no such language.
    """
    words = _words(language)
    if choice in (None, "auto"):
        return ""
    if choice in ("any", "required"):
        return words.must_act
    if choice == "none":
        return words.must_answer
    if choice not in names:
        raise ValueError(f"choice={choice!r}: no tool has this name; there are {', '.join(names)}")
    return _filled(words.must_call, {"tool": choice})


def stop_texts(language: str = "en") -> tuple[str, ...]:
    """Where a reply goes on to what is not the model's to write: an observation, or the next turn of an example.

    Raises:
        ValueError: There is no such language.
    """
    words, label = _words(language), labels(language)
    return f"\n{label.observation}{label.colon.rstrip()}", f"\n{words.you_get}"


def retry_hint(step: ParsedStep, language: str = "en", *, thoughts: bool = True) -> str:
    """What to tell a model whose reply could not be read: what was wrong, and the form to reply in.

    Args:
        step: The reply as it was parsed, an error.
        language: As :func:`system_text`.
        thoughts: As :func:`system_text`.

    Raises:
        ValueError: The step is no error, or there is no such language.
    """
    words = _words(language, thoughts=thoughts)
    if step.error is None:
        raise ValueError(f"step is of kind {step.kind!r}: there is nothing to hint at. Give a step of kind 'error'")
    what, instead = words.faults[step.error]
    gap = "" if language == "zh" else " "
    detail = as_data(step.detail.strip())
    if language == "en":  # the language of details, which say the same and quote the reply
        lines = [gap.join(filter(None, [words.unreadable, detail or what, instead]))]
    else:
        lines = [gap.join(filter(None, [words.unreadable, what, instead])), *([f"({detail})"] if detail else [])]
    return "\n".join([*lines, words.again])


def _words(language: str, *, thoughts: bool = True) -> Words:
    labels(language)  # says which there are
    words = next(words for known, words in WORDS.items() if known == language)
    return words if thoughts else _only_acting(words, labels(language))


def _only_acting(words: Words, label: Labels) -> Words:
    """The words where replies have no thoughts: nothing speaks of them."""

    def without(text: str) -> str:
        return "\n".join(line for line in text.split("\n") if label.thought not in line)

    missing = words.faults["missing_action"][0], words.write_one
    return replace(
        words,
        format=without(words.format),
        rules=f"{words.only_act}\n{without(words.rules)}",
        again=without(words.again),
        faults={**words.faults, "missing_action": missing},
        before="",
        after="",
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled in. One pass: what is filled in is not looked through again."""
    return re.sub(rf"\{{({'|'.join(values)})\}}", lambda found: values[found[1]], text)


def _tool(tool: OfferedTool, words: Words, label: Labels) -> str:
    """A tool in the list: name, description, arguments, and how it is called."""
    lines = [f"## {tool.name}"]
    if tool.description:
        lines.append(_INDENT + as_data(tool.description, indent=_INDENT, first=True))
    arguments = argument_lines(tool.parameters, required=words.required, optional=words.optional)
    lines.append(_INDENT + (words.arguments if arguments else words.no_arguments))
    lines += [_INDENT + line for line in arguments]
    if tool.examples:
        lines += [words.call_example, _call(tool.name, tool.examples[0].args, label)]
    elif (made := sample_arguments(tool.parameters)) is not None:
        lines += [words.call_example if not made else words.call_form, _call(tool.name, made, label)]
    return "\n".join(lines)


def _call(name: str, args: Mapping[str, object], label: Labels) -> str:
    return f"{label.action}{label.colon}{name}\n{label.action_input}{label.colon}{compact(dict(args))}"


def _examples(tools: Sequence[OfferedTool], words: Words, label: Labels) -> list[str]:
    """One or two worked examples: the tools' own, of different tools; else the form alone."""
    # What is shown is done by some models, whatever was asked: better a tool that changes nothing.
    tools = sorted(tools, key=lambda tool: tool.effects != "none")
    own = [(tool.name, tool.examples[0]) for tool in tools if tool.examples][:_EXAMPLES]
    if own:
        return [_example(name, one, words.example, words, label) for name, one in own]
    callable_ = [(tool, made) for tool in tools if (made := sample_arguments(tool.parameters)) is not None]
    # A call with arguments shows more of the form than one without.
    for tool, made in sorted(callable_, key=lambda pair: not pair[1])[:1]:
        name = {"tool": tool.name}
        form = ToolExample(
            question=_filled(words.some_question, name),
            args=made,
            observation=_filled(words.some_result, name),
            answer=words.some_answer,
        )
        return [_example(tool.name, form, words.example_form, words, label)]
    return []


def _example(name: str, example: ToolExample, heading: str, words: Words, label: Labels) -> str:
    """A question, a call, its result and the answer, each under who writes it.

    What a model writes and what it is given are told apart, or it goes on to write its own observations.
    """

    def line(word: str, text: str) -> str:
        return f"{word}{label.colon}{text}"

    return "\n".join(
        [
            heading,
            "",
            words.you_get,
            line(label.question, as_data(example.question)),
            "",
            words.you_write,
            *([line(label.thought, _filled(words.before, {"tool": name}))] if words.before else []),
            _call(name, example.args, label),
            "",
            words.you_get,
            line(label.observation, as_data(example.observation)),
            "",
            words.you_write,
            *([line(label.thought, words.after)] if words.after else []),
            line(label.final_answer, as_data(example.answer)),
        ]
    )


def with_thoughts(messages: Sequence[BaseMessage], *, language: str = "en") -> list[BaseMessage]:
    """A conversation whose worked examples think before they act, as replies are to.

    They come without thoughts, since a model that calls functions is shown none. A model does as the turns before it
    do, whatever the instructions say.

    Args:
        messages: The conversation.
        language: As :func:`system_text`.
    """
    words = _words(language)
    made: list[BaseMessage] = []
    shown = False
    for message in messages:
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        update: dict[str, Any] = {}
        if calls:
            shown = (calls[0]["id"] or "").startswith(EXAMPLE_ID)
            if shown and not message.content:
                update = {"content": _filled(words.before, {"tool": calls[0]["name"]})}
        elif isinstance(message, AIMessage) and shown:
            shown = False
            told = {"reasoning_content": words.after}
            update = {"additional_kwargs": told, "response_metadata": {"protocol": "text"}}
        made.append(message.model_copy(update=update) if update else message)
    return made
