"""Parts of a JSON Schema as one thing: references followed, ``allOf`` and alternatives put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = Mapping[str, Any]

_OBJECT = ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "propertyNames")
_ARRAY = ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")
_STRING = ("pattern", "minLength", "maxLength", "format")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_IMPLIED = {"object": _OBJECT, "array": _ARRAY, "string": _STRING, "number": _NUMBER}


def target_of(root: Schema, reference: str) -> Schema:
    """The part of a schema that a reference within it leads to.

    Raises:
        LookupError: It leads nowhere.
    """
    start, *path = unquote(reference).split("/")
    if start != "#":
        raise LookupError(reference)
    found: Any = root
    for part in path:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) and key.isdecimal() else found[key]
    return as_schema(found)


def as_schema(found: Any) -> Schema:
    """A schema as an object: ``true`` allows everything, ``false`` nothing."""
    if isinstance(found, Mapping):
        return found
    return {} if found is True else {"not": {}}


def merged(first: Schema, second: Schema) -> Schema:
    """Two schemas that hold at once, as one; the second is the more special. Never allows less than both do."""
    both = {**first, **second}
    if "properties" in first and "properties" in second:
        ours, theirs = first["properties"], second["properties"]
        shared = {key: merged(as_schema(ours[key]), as_schema(theirs[key])) for key in ours.keys() & theirs.keys()}
        both["properties"] = {**ours, **theirs, **shared}
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    for key, stricter in (("minimum", max), ("maximum", min), ("minLength", max), ("maxLength", min)):
        if key in first and key in second:
            both[key] = stricter(first[key], second[key])
    return both


def joined(schema: Schema) -> Schema:
    """A schema with its ``allOf`` put into it."""
    while parts := schema.get("allOf"):
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        for part in parts:
            rest = dict(merged(as_schema(part), rest))
        schema = rest
    return schema


def alternatives(schema: Schema) -> Iterator[Schema]:
    """What a schema's ``anyOf``, ``oneOf`` and ``if`` leave open, each put together with the rest of it."""
    for key in ("anyOf", "oneOf"):
        if options := schema.get(key):
            rest = {name: value for name, value in schema.items() if name != key}
            for option in options:
                yield merged(rest, as_schema(option))
            return
    if "if" in schema:
        rest = {name: value for name, value in schema.items() if name not in ("if", "then", "else")}
        yield merged(rest, as_schema(schema.get("then", True)))
        yield merged(rest, as_schema(schema.get("else", True)))


def kinds(schema: Schema) -> list[str]:
    """The JSON types that a schema speaks of; where it names none, those that its keywords imply."""
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [kind for kind in named if isinstance(kind, str)]
    return [kind for kind, keywords in _IMPLIED.items() if any(keyword in schema for keyword in keywords)]
