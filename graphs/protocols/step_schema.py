"""One step as a JSON object, for servers that hold replies to a schema: the schema, and reading what comes of it.

``{"thought": …, "step": {"action": …, "action_input": {…}}}`` or ``{"thought": …, "step": {"final_answer": …}}``: the
alternatives stand one level down because OpenAI takes none at the top.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from taograph.graphs.protocols.text_tools import OfferedTool

_SIMPLE = ("string", "integer", "number", "boolean", "null")


class _TooFreeError(Exception):
    """A schema says less, or more, than OpenAI's strict form can."""


def step_schema(
    tools: Sequence[OfferedTool], choice: str | None = None, *, strict: bool = False, thoughts: bool = True
) -> dict[str, Any]:
    """The JSON schema of one step.

    Args:
        tools: The tools that may be called.
        choice: As :func:`taograph.graphs.protocols.step_grammar.step_grammar`.
        strict: In OpenAI's strict form, in which nothing can be left out: an optional argument may be null. Of a
            tool whose arguments have no such form, only that they are an object is said, and
            :func:`is_strict` tells.
        thoughts: Whether there is a thought.
    """
    steps = [] if choice == "none" else [_call(tool, strict) for tool in tools if choice in (None, "any", tool.name)]
    if choice in (None, "none"):
        steps.append(_closed({"final_answer": {"type": "string"}}))
    thought = {"thought": {"type": "string"}} if thoughts else {}
    return _closed({**thought, "step": {"anyOf": steps}})


def is_strict(schema: Any) -> bool:
    """Whether a schema is in OpenAI's strict form, as far as :func:`step_schema` makes it."""
    if isinstance(schema, list):
        return all(is_strict(part) for part in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    return all(is_strict(part) for part in schema.values())


def flattened(text: str, tools: Mapping[str, OfferedTool]) -> str:
    """A step of this schema as the parser knows steps in JSON: in one level, without what was left out as null.

    Args:
        text: The reply; anything else is given back as it is.
        tools: The tools, by name.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(said, dict) or not isinstance(said.get("step"), dict):
        return text
    step = dict(said["step"])
    tool = tools.get(str(step.get("action")))
    given = step.get("action_input")
    if tool is not None and isinstance(given, dict):
        needed = tool.parameters.get("required") or ()
        step["action_input"] = {name: value for name, value in given.items() if value is not None or name in needed}
    return json.dumps({"thought": said.get("thought") or "", **step}, ensure_ascii=False)


def json_note(choice: str | None, language: str, *, thoughts: bool = True) -> str:
    """What a model is told of the form, behind all else: the instructions and the conversation have labels."""
    thought = '"thought": "…", ' if thoughts else ""
    action = f'{{{thought}"step": {{"action": "…", "action_input": {{…}}}}}}'
    final = f'{{{thought}"step": {{"final_answer": "…"}}}}'
    forms = {None: (action, final), "none": (final,)}.get(choice, (action,))
    words, either = _NOTES[language]
    return f"{words} {either.join(forms)}"


_NOTES = {
    "en": ("Write this reply as one JSON object in place of the labels:", " or "),
    "zh": ("这次回复不用标签，只写一个 JSON 对象：", " 或 "),
    "de": ("Schreibe diese Antwort statt mit Labels als ein JSON-Objekt:", " oder "),
    "pl": ("Zamiast etykiet zapisz tę odpowiedź jako jeden obiekt JSON:", " albo "),
}


def _call(tool: OfferedTool, strict: bool) -> dict[str, Any]:
    return _closed({"action": {"type": "string", "enum": [tool.name]}, "action_input": _arguments(tool, strict)})


def _arguments(tool: OfferedTool, strict: bool) -> dict[str, Any]:
    try:
        properties = {name: _value(part) for name, part in (tool.parameters.get("properties") or {}).items()}
        if tool.parameters.get("additionalProperties") not in (None, False):
            raise _TooFreeError
    except (_TooFreeError, AttributeError, TypeError):
        return {"type": "object"}
    needed = set(tool.parameters.get("required") or ())
    if strict:
        return _closed({name: part if name in needed else _or_null(part) for name, part in properties.items()})
    return {**_closed(properties), "required": [name for name in properties if name in needed]}


def _value(schema: Any) -> dict[str, Any]:
    """A value in the words that every server knows; what they leave out is checked when the tool is called."""
    if not isinstance(schema, Mapping) or schema.keys() & {"$ref", "allOf", "oneOf", "not", "if"}:
        raise _TooFreeError
    told = {"description": schema["description"]} if schema.get("description") else {}
    if choices := schema.get("enum"):
        return {"enum": list(choices), **_kind_of(choices), **told}
    if "const" in schema:
        return {"enum": [schema["const"]], **_kind_of([schema["const"]]), **told}
    if options := schema.get("anyOf"):
        return {"anyOf": [_value(option) for option in options], **told}
    kind = schema.get("type")
    if isinstance(kind, list):
        return {"anyOf": [_value({**schema, "type": one}) for one in kind]}
    if kind in _SIMPLE:
        return {"type": kind, **told}
    if kind == "array" and "items" in schema:
        return {"type": "array", "items": _value(schema["items"]), **told}
    closed = schema.get("additionalProperties") in (None, False)
    properties = schema.get("properties") or {}
    if kind == "object" and properties and closed and set(properties) == set(schema.get("required") or ()):
        return {**_closed({name: _value(part) for name, part in properties.items()}), **told}
    raise _TooFreeError


def _kind_of(choices: Sequence[Any]) -> dict[str, Any]:
    """The type of some values, where they have one."""
    return {"type": "string"} if all(isinstance(choice, str) for choice in choices) else {}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
