"""What is bound to a model in the text protocol: tools in OpenAI's form, with what our own say besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema

from taograph.graphs.protocols.text_tools import OfferedTool, offered_tool
from taograph.tools.policy import ToolExample

_MORE = "taograph"
"""Key of a bound tool beside OpenAI's own: effects and examples. It is sent nowhere."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a request offers to a model.

    Attributes:
        tools: The tools it may call, by name.
        choice: None: it decides; "any": it must call one; "none": it must answer; else the name of the tool to call.
        answer_schema: A JSON schema that the answer has to fit, if there is one.
    """

    tools: Mapping[str, OfferedTool]
    choice: str | None = None
    answer_schema: Mapping[str, Any] | None = None

    @property
    def must_act(self) -> bool:
        """Whether an answer is not wanted."""
        return self.choice not in (None, "none")


def as_bound(sources: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools in any form as they are bound: as traces, and others who look at a bound model, know them.

    Raises:
        ValueError: One is no tool, or two that differ have the same name.
    """
    return [_bound(tool) for tool in _read_all(sources).values()]


def choice_of(given: Any, tools: Sequence[Any]) -> str | None:
    """A choice in any form, as :class:`Offer` has it.

    Raises:
        ValueError: It is no choice, or no tool has the name.
    """
    if isinstance(given, Mapping):
        inner = given.get("function")
        named = inner.get("name") if isinstance(inner, Mapping) else given.get("name")
        given = named or given.get("type")
    match given:
        case None | "auto":
            return None
        case "any" | "required" | True:
            return "any"
        case "none" | False:
            return "none"
    names = list(_read_all(tools))
    if given not in names:
        listed = ", ".join(names) or "there is none"
        raise ValueError(f'tool_choice={given!r}: use "auto", "any", "none" or the name of a tool: {listed}')
    return str(given)


def offer_of(options: Mapping[str, Any]) -> Offer:
    """What the keywords of a call offer.

    Raises:
        ValueError: As :func:`as_bound` and :func:`choice_of`.
    """
    sources = options.get("tools") or ()
    tools = _read_all(sources)
    choice = choice_of(options.get("tool_choice"), sources) if tools else None
    return Offer(tools, choice, _schema(options.get("response_format")) if tools else None)


def _read_all(sources: Sequence[Any]) -> dict[str, OfferedTool]:
    tools: dict[str, OfferedTool] = {}
    for source in sources:
        tool = _read(source)
        if _arguments(tools.setdefault(tool.name, tool)) != _arguments(tool):
            raise ValueError(f"two tools are named {tool.name!r}: rename one, since a call could mean either")
    return tools


def _arguments(tool: OfferedTool) -> set[str]:
    """What two forms of one tool have in common, whatever titles and descriptions they have."""
    return set(tool.parameters.get("properties") or ())


def _read(source: Any) -> OfferedTool:
    more = source.get(_MORE) if isinstance(source, Mapping) else None
    if not isinstance(more, Mapping):
        return offered_tool(source)
    tool = offered_tool({key: value for key, value in source.items() if key != _MORE})
    examples = tuple(ToolExample(**example) for example in more["examples"])
    return replace(tool, effects=more["effects"], examples=examples)


def _bound(tool: OfferedTool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    more = {"effects": tool.effects, "examples": [asdict(example) for example in tool.examples]}
    return {"type": "function", "function": function, _MORE: more}


def _schema(form: Any) -> Mapping[str, Any] | None:
    """The JSON schema of a ``response_format``, which the model is told of in words."""
    if form is None:
        return None
    if isinstance(form, Mapping):
        inner = form.get("json_schema")
        if isinstance(inner, Mapping):
            return dict(inner.get("schema") or {})
        if form.get("type") in ("json_object", "text"):
            return {"type": "object"} if form["type"] == "json_object" else None
    return convert_to_json_schema(form)
