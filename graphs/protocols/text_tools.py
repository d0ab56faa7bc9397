"""Tools as the text protocol offers them: read from every form that LangChain takes, and listed for a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_function

from taograph.graphs.protocols.sample_schema import Schema, alternatives, as_schema, joined, kinds, merged, target_of
from taograph.graphs.protocols.text_labels import as_data
from taograph.tools.policy import Effects, ToolExample, policy_of
from taograph.tools.results import frame
from taograph.tools.schemas import complaints, fault_of_references

ToolSource = BaseTool | type | Callable[..., Any] | Mapping[str, Any]

_NOTES = (
    "format", "pattern", "minLength", "maxLength", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
    "multipleOf", "minItems", "maxItems", "default",
)  # fmt: skip
_MOST_CHOICES = 30
_DEEPEST = 5
_BREAKS = re.compile(r"[\x7f-\x9f\u2028\u2029]")  # line breaks to some, and JSON leaves them


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the text protocol offers it.

    Attributes:
        name: What the model has to write behind Action.
        description: What it does, in its author's words.
        parameters: The JSON schema of its arguments.
        effects: What calling it does; ``"once"`` where nobody said.
        examples: Worked uses whose arguments fit the schema.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effects: Effects = "once"
    examples: tuple[ToolExample, ...] = ()


def offered_tool(source: ToolSource | OfferedTool) -> OfferedTool:
    """Read a tool from any form that a chat model's ``bind_tools`` takes.

    Args:
        source: A LangChain tool, a function, a pydantic class, a TypedDict, or a dict: OpenAI's form, with or
            without the outer ``function``, Anthropic's, Bedrock's, MCP's, or a JSON schema with a title.

    Raises:
        ValueError: It is none of these, or nothing that a model can call by writing its name.
    """
    if isinstance(source, OfferedTool):
        return source
    function = convert_to_openai_function(_plain(source) if isinstance(source, Mapping) else source)
    name = function.get("name")
    if not isinstance(name, str) or name.splitlines() != [name.strip()]:
        raise ValueError(
            f"tool name {name!r}: a model has to write it behind a label. Give one line, without blanks around"
        )
    parameters = dict(function.get("parameters") or {"type": "object", "properties": {}})
    tool = OfferedTool(name, (function.get("description") or "").strip(), parameters)
    if not isinstance(source, BaseTool):
        return tool
    policy = policy_of(source)
    # Observations look as they will in the run: a frame that no example has is copied as if it were the answer.
    shown = [
        one if policy.trusted else replace(one, observation=frame(one.observation, name)) for one in policy.examples
    ]
    # Nothing is looked up elsewhere to check them; what refers elsewhere is taken as it is.
    checked = fault_of_references(parameters) is None
    fitting = tuple(one for one in shown if not (checked and complaints(parameters, dict(one.args), most=1)))
    return replace(tool, effects=policy.effects, examples=fitting)


def argument_lines(parameters: Schema, *, required: str, optional: str) -> list[str]:
    """The arguments of a tool, a line for each, those within objects indented below.

    A list and not the schema itself: small models answer a schema with a schema.

    Args:
        parameters: The schema.
        required: The word for an argument that must be given.
        optional: The word for one that need not be.
    """
    try:
        return list(_Lister(parameters, required, optional).lines(parameters, "", ()))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):  # no valid schema, but all there is
        return [compact(parameters)]


def compact(value: Any) -> str:
    """A value as JSON on one line, as a model is to write it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _plain(source: Mapping[str, Any]) -> dict[str, Any]:
    """A tool given as a dict, without what only says how it is given."""
    inner = source.get("function")
    plain = dict(inner) if isinstance(inner, Mapping) else dict(source)
    if "inputSchema" in plain:
        plain["input_schema"] = plain.pop("inputSchema")
    described = plain.keys() & {"parameters", "input_schema", "toolSpec", "description"}
    if plain is not inner and plain.get("type") not in (None, "function", "object") and not described:
        raise ValueError(
            f"tool of type {plain['type']!r}: it runs at a provider, and a model that writes its calls as text cannot "
            "call it. Leave it out, or give a tool with a name and parameters"
        )
    return plain


class _Lister:
    """Writes down what a schema's arguments are."""

    def __init__(self, root: Schema, required: str, optional: str) -> None:
        self._root = root
        self._words = {True: required, False: optional}

    def lines(self, schema: Schema, indent: str, seen: tuple[str, ...]) -> Iterator[str]:
        """The properties of an object."""
        schema, seen = self._open(schema, seen)
        required = schema.get("required") or ()
        for key, part in (schema.get("properties") or {}).items():
            shape, objects, inside = self._shape(as_schema(part), seen)
            opened, _ = self._open(as_schema(part), seen)
            notes = [shape, self._words[key in required], *_notes(_without_null(opened))]
            line = f"{indent}- {_key(key)} ({', '.join(notes)})"
            if text := str(opened.get("description") or "").strip():
                line += f": {as_data(text, indent=f'{indent}    ')}"
            yield line
            if len(objects) == 1 and len(indent) < 2 * _DEEPEST:
                yield from self.lines(objects[0], f"{indent}  ", inside)

    def _open(self, schema: Schema, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """A schema with its references followed and its ``allOf`` joined, and the references met on the way."""
        while True:
            reference = schema.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen = (*seen, reference)
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                try:
                    schema = merged(target_of(self._root, reference), rest)
                except (LookupError, TypeError):
                    return rest, seen
            elif "allOf" in schema:
                parts = [self._open(as_schema(part), seen)[0] for part in schema["allOf"]]
                schema = joined({**schema, "allOf": parts})
            else:
                return schema, seen

    def _shape(self, schema: Schema, seen: tuple[str, ...]) -> tuple[str, list[Schema], tuple[str, ...]]:
        """What a value looks like, the objects with properties in it, and the references met on the way."""
        schema, seen = self._open(schema, seen)
        if "$ref" in schema:  # it refers to where it stands
            return str(schema.get("title") or schema["$ref"].rsplit("/", 1)[-1]), [], seen
        if "const" in schema:
            return compact(schema["const"]), [], seen
        if isinstance(choices := schema.get("enum"), list):
            more = [" …"] if len(choices) > _MOST_CHOICES else []
            return " | ".join([*map(compact, choices[:_MOST_CHOICES]), *more]), [], seen
        options = [self._shape(option, seen) for option in alternatives(schema)]
        if options:
            objects = [found for _, inner, _ in options for found in inner]
            inside = tuple(dict.fromkeys(reference for *_, met in options for reference in met))
            if len(objects) > 1:  # written out in the line: lines below could not tell whose they are
                texts = [self._inline(option, seen) for option in alternatives(schema)]
                return " | ".join(dict.fromkeys(texts)), [], inside
            return " | ".join(dict.fromkeys(text for text, *_ in options)), objects, inside
        texts, objects = [], []
        for kind in kinds(schema) or ["any"]:
            text = kind
            if kind == "array":
                items = schema.get("items")
                inner, found, seen = self._shape(as_schema(items if isinstance(items, Mapping) else {}), seen)
                objects += found
                text = f"({inner})[]" if " | " in inner else f"{inner}[]"
            elif kind == "object" and schema.get("properties"):
                objects.append(schema)
            texts.append(text)
        return " | ".join(texts), objects, seen

    def _inline(self, schema: Schema, seen: tuple[str, ...], depth: int = 0) -> str:
        """What a value looks like, its properties included."""
        opened, seen = self._open(schema, seen)
        shape, objects, _ = self._shape(opened, seen)
        if shape != "object" or not objects or depth > _DEEPEST:
            return shape
        required = opened.get("required") or ()
        pairs = [
            f"{compact(key)}{'' if key in required else '?'}: {self._inline(as_schema(part), seen, depth + 1)}"
            for key, part in opened["properties"].items()
        ]
        return "{" + ", ".join(pairs) + "}"


def _without_null(schema: Schema) -> Schema:
    """The schema of a value that may also be null, for its notes; any other schema as it is."""
    options = [option for option in alternatives(schema) if kinds(option) != ["null"]]
    return options[0] if len(options) == 1 else schema


def _notes(schema: Schema) -> list[str]:
    """What else a value has to be, in the schema's own words, which models know."""
    found = [(key, schema[key]) for key in _NOTES if schema.get(key) not in (None, "", [], {})]
    return [f"{key} {value if key in ('format', 'pattern') else compact(value)}" for key, value in found]


def _key(name: str) -> str:
    return name if name.isidentifier() else compact(name)


def names_of(tools: Sequence[OfferedTool]) -> str:
    """The names of the tools in one line."""
    return ", ".join(tool.name for tool in tools)
