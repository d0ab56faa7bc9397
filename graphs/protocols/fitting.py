"""Arguments that a model wrote as text or a list, put under the parameter that they are meant for."""

from __future__ import annotations

import json
from typing import Any

from taograph.graphs.protocols.arguments import loads
from taograph.graphs.protocols.sample_schema import Schema, alternatives, as_schema, kinds, merged, target_of

_DEEPEST = 8


class UnfitArgumentsError(ValueError):
    """Arguments that belong to no parameter; the text names the parameters, in words for the model."""


def fit_arguments(args: Any, parameters: Schema, tool: str) -> dict[str, Any]:
    """The arguments of a call as an object.

    Args:
        args: What the model wrote: an object, which is taken as it is, a list, a text, or another JSON value.
        parameters: The JSON schema of the tool's arguments.
        tool: The tool's name, for the error.

    Returns:
        The object; anything else stands under the tool's only parameter, or its only required one. A text for a
        parameter that takes none is decoded if it is JSON; whether it fits is for the tool layer to say.

    Raises:
        UnfitArgumentsError: There is no such parameter, or it takes no list.
    """
    if isinstance(args, dict):
        return {str(key): value for key, value in args.items()}
    if args is None or args == "":
        return {}
    properties = parameters.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = [name for name in names if name in (parameters.get("required") or ())]
    chosen = names if len(names) == 1 else required
    if len(chosen) != 1:
        raise UnfitArgumentsError(_fault(args, names, tool))
    taken = _kinds_of(as_schema(parameters["properties"][chosen[0]]), parameters)
    if isinstance(args, list) and taken and "array" not in taken:
        raise UnfitArgumentsError(_fault(args, names, tool))
    return {chosen[0]: _value(args, taken)}


def fit_value(text: str, schema: Any, root: Schema) -> Any:
    """A text as the value of a parameter: decoded if it is JSON and the parameter takes no text.

    Args:
        text: The text.
        schema: The parameter's JSON schema.
        root: The schema that it is a part of.
    """
    return _value(text, _kinds_of(as_schema(schema), root))


def _value(args: Any, taken: frozenset[str]) -> Any:
    """A value as its parameter takes it, where the schema says what that is."""
    if isinstance(args, str):
        if not taken or "string" in taken:
            return args
        try:
            return loads(args)
        except ValueError:
            return args
    if "string" in taken and len(taken - {"null"}) == 1 and not isinstance(args, list):
        return json.dumps(args)
    return args


def _kinds_of(schema: Schema, root: Schema, depth: int = 0) -> frozenset[str]:
    """The JSON types that a value may have; none where the schema does not say."""
    if depth > _DEEPEST:
        return frozenset()
    if isinstance(reference := schema.get("$ref"), str):
        try:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return _kinds_of(merged(target_of(root, reference), rest), root, depth + 1)
        except (LookupError, TypeError):
            return frozenset()
    options = [_kinds_of(as_schema(option), root, depth + 1) for option in alternatives(schema)]
    if options:
        return frozenset().union(*options) if all(options) else frozenset()
    return frozenset(kinds(schema))


def _fault(args: Any, names: list[str], tool: str) -> str:
    what = "a list" if isinstance(args, list) else "text"
    if not names:
        return f"The Action Input of {tool} is {what}, but {tool} takes no arguments. Write {{}}."
    listed = ", ".join(names)
    return (
        f"The Action Input of {tool} is {what}, and it does not say which parameter is meant: {listed}. "
        f"Write a JSON object with {'this key' if len(names) == 1 else 'these keys'}."
    )
