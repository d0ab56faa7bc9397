"""Checking values against JSON Schemas that others wrote: of MCP tools, of a required form of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import jsonschema


def fault_of(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be used; None if it can.

    A reference that leads out of the schema is a fault: nothing is fetched from the network to check a value.
    """
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"it is not a valid JSON Schema: {error.message}"
    return fault_of_references(schema)


def fault_of_references(schema: Mapping[str, Any]) -> str | None:
    """As :func:`fault_of`, for a schema of whatever draft: only whether it holds what it refers to."""
    import jsonschema  # noqa: F401 - values are checked against it in an event loop, which cannot wait for files

    for reference in _references(schema):
        if not _is_within(schema, reference):
            return f"it refers to {reference!r}, which is not in it. Put that under $defs, and refer to #/$defs/NAME"
    return None


def complaints(schema: Mapping[str, Any], value: Any, most: int = 8) -> list[str]:
    """What is wrong with a value, in words a model can act on.

    Args:
        schema: A schema without a fault.
        value: What has to fit it.
        most: How many complaints at most.
    """
    import jsonschema

    found = jsonschema.Draft202012Validator(schema).iter_errors(value)
    try:
        return [_located(error) for error in islice(found, most)]
    except Exception as error:  # noqa: BLE001 - a schema that refers to itself without end, a pattern that is none
        return [f"it could not be checked ({type(error).__name__})"]


def _located(error: jsonschema.ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    return f"{where}: {error.message}" if where else error.message


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for inner in schema.values():
            yield from _references(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _references(inner)


def _is_within(schema: Any, reference: str) -> bool:
    """Whether a JSON pointer ("#/$defs/Place") leads to a part of a schema."""
    start, *path = unquote(reference).split("/")
    for part in path:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
            schema = schema[int(key)]
        elif isinstance(schema, Mapping) and key in schema:
            schema = schema[key]
        else:
            return False
    return start == "#"
