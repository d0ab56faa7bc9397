"""Arguments that a tool's schema accepts, as few as it allows: the form of a call, for a tool without examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

import jsonschema

from taograph.graphs.protocols.sample_pattern import matching
from taograph.graphs.protocols.sample_schema import Schema, alternatives, as_schema, joined, kinds, merged, target_of
from taograph.tools.schemas import fault_of_references

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "PT30M",
    "email": "name@example.org",
    "idn-email": "name@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org",
    "uri-reference": "https://example.org",
    "iri": "https://example.org",
    "url": "https://example.org",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "json-pointer": "/name",
    "regex": "[a-z]+",
    "binary": "",
    "byte": "dGV4dA==",
}
_NOTHING: Final = object()
_TRIES = 48
_MOST = 4000
_DEEPEST = 24
_LONGEST = 1000


def sample_arguments(parameters: Schema) -> dict[str, Any] | None:
    """The least a tool can be called with: required arguments only, placeholders where the schema gives no value.

    Args:
        parameters: The schema of the tool's arguments.

    Returns:
        Arguments that are valid against the schema; None where it refers out of itself, contradicts itself, or
        asks for what is not found within some thousand tries. The same schema always gives the same arguments.
    """
    if fault_of_references(parameters):
        return None
    try:
        found = _Sampler(parameters).first({"type": "object", **parameters}, "", ())
    except Exception:  # noqa: BLE001 - any author's schema: unknown references, patterns that are none, endless ones
        return None
    return found if isinstance(found, dict) else None


def validator_of(schema: Schema) -> Any:
    """The class that checks values against a schema: of the draft it names, else of the newest that it is valid in.

    Raises:
        jsonschema.SchemaError: It is valid in none.
    """
    if "$schema" in schema:
        return jsonschema.validators.validator_for(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError:
        for older in (jsonschema.Draft7Validator, jsonschema.Draft4Validator):
            if older(older.META_SCHEMA).is_valid(schema):
                return older
        raise
    return jsonschema.Draft202012Validator


class _GivenUpError(Exception):
    """The search has taken too long."""


class _Sampler:
    """Finds values for the parts of one schema: likely ones are proposed, and the first valid one is taken."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._validator = validator_of(root)(root)
        self._spent = 0

    def first(self, schema: Schema, name: str, within: tuple[str, ...]) -> Any:
        """The first valid value for a part of the schema, or ``_NOTHING``."""
        return next(self.some(schema, name, within), _NOTHING)

    def _spend(self) -> None:
        """Count a piece of work.

        Raises:
            _GivenUpError: It is more than any schema should need.
        """
        self._spent += 1
        if self._spent > _MOST:
            raise _GivenUpError

    def some(self, schema: Schema, name: str, within: tuple[str, ...]) -> Iterator[Any]:
        """Valid values for a part of the schema, the likeliest first."""
        valid = self._validator.evolve(schema=schema)
        for value in islice(self._proposed(schema, name, within), _TRIES):
            self._spend()
            if valid.is_valid(value):
                yield value

    def _proposed(self, schema: Schema, name: str, within: tuple[str, ...]) -> Iterator[Any]:
        """Values that may be valid.

        Args:
            schema: What they are for.
            name: The argument's name, for placeholders.
            within: The references that led here.
        """
        self._spend()
        if "const" in schema:
            yield schema["const"]
            return
        if isinstance(schema.get("enum"), list):
            yield from sorted(schema["enum"], key=lambda value: value is None)
            return
        given = schema.get("examples")
        yield from given if isinstance(given, list) else ()
        if schema.get("default") not in (None, "", [], {}):
            yield schema["default"]
        if isinstance(reference := schema.get("$ref"), str):
            if within.count(reference) > 1 or len(within) > _DEEPEST:
                return
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            within = (*within, reference)
            yield from self._proposed(merged(target_of(self._root, reference), rest), name, within)
            return
        if "allOf" in schema:
            yield from self._proposed(self._joined(schema), name, within)
            return
        options = list(alternatives(schema))
        # Null says little of the form, and what refers to where it stands would go on without end.
        options.sort(key=lambda option: 2 * (kinds(option) == ["null"]) + (option.get("$ref") in within))
        for option in options:
            yield from islice(self._proposed(option, name, within), _TRIES // len(options) + 1)
        if not options:
            yield from self._of_kinds(schema, name, within)

    def _joined(self, schema: Schema) -> Schema:
        """A schema with its ``allOf`` put into it, one step of references followed on the way."""
        parts = []
        for part in map(as_schema, schema["allOf"]):
            rest = {key: value for key, value in part.items() if key != "$ref"}
            parts.append(merged(target_of(self._root, part["$ref"]), rest) if "$ref" in part else part)
        return joined({**schema, "allOf": parts})

    def _of_kinds(self, schema: Schema, name: str, within: tuple[str, ...]) -> Iterator[Any]:
        for kind in sorted(kinds(schema) or ["string"], key=lambda kind: kind == "null"):
            match kind:
                case "string":
                    yield from _texts(schema, name)
                case "integer":
                    yield from _numbers(schema, whole=True)
                case "number":
                    yield from _numbers(schema, whole=False)
                case "boolean":
                    yield from (True, False)
                case "null":
                    yield None
                case "array":
                    yield from self._arrays(schema, name, (*within, ""))
                case "object":
                    yield from self._objects(schema, (*within, ""))

    def _arrays(self, schema: Schema, name: str, within: tuple[str, ...]) -> Iterator[list[Any]]:
        items = schema.get("items", True)
        fixed = schema.get("prefixItems") or (items if isinstance(items, list) else [])
        items = schema.get("additionalItems", True) if isinstance(items, list) else items
        start = [self.first(as_schema(part), name, within) for part in fixed[: schema.get("maxItems")]]
        if _NOTHING not in start and len(within) <= _DEEPEST:
            least = max(int(schema.get("minItems", 0)), 0 if fixed else 1) - len(start)
            most = schema.get("maxItems", math.inf) - len(start)
            wanted = int(min(max(least, 0), most, _TRIES))
            more: Iterator[Any] = iter(()) if not wanted else self.some(as_schema(items), name, within)
            if "contains" in schema:
                more = chain(self.some(as_schema(schema["contains"]), name, within), more)
            pool = list(islice(more, wanted))
            while pool and len(pool) < wanted:
                pool.append(pool[-1])
            yield [*start, *pool]
        yield []

    def _objects(self, schema: Schema, within: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        properties = schema.get("properties") or {}
        required = [key for key in properties if key in (schema.get("required") or ())]
        required += [key for key in schema.get("required") or () if key not in properties]
        if len(within) > _DEEPEST:
            return
        made: dict[str, Any] = {}
        for key in required:
            made[key] = self.first(self._property(schema, key), key, within)
            if made[key] is _NOTHING:
                return
        if not properties and isinstance(schema.get("additionalProperties"), Mapping):
            yield from self._with_own_keys(schema, made, 1, within)
        yield dict(made)
        for key in required:  # where one rules out another: each in its other values
            for value in islice(self.some(self._property(schema, key), key, within), 1, 6):
                yield {**made, key: value}
        more = dict(made)
        for key in (key for key in properties if key not in made):
            value = self.first(self._property(schema, key), key, within)
            if value is not _NOTHING:
                yield {**made, key: value}
                more[key] = value
                yield dict(more)
        yield from self._with_own_keys(schema, more, int(schema.get("minProperties", 0)) - len(more), within)

    def _with_own_keys(
        self, schema: Schema, made: dict[str, Any], count: int, within: tuple[str, ...]
    ) -> Iterator[dict[str, Any]]:
        """An object with keys that the schema does not name."""
        names = {"type": "string", **as_schema(schema.get("propertyNames", True))}
        made = dict(made)
        for key in islice(self.some(names, "name", within), max(count, 0)):
            value = self.first(self._property(schema, str(key)), "value", within)
            if value is _NOTHING:
                return
            made[str(key)] = value
        yield made

    def _property(self, schema: Schema, key: str) -> Schema:
        properties = schema.get("properties") or {}
        return as_schema(properties[key] if key in properties else schema.get("additionalProperties", True))


def _texts(schema: Schema, name: str) -> Iterator[str]:
    word = name or "text"
    proposed = [f"<{word}>", "text", *(f"<{word} {number}>" for number in range(2, _TRIES))]
    if (known := _FORMATS.get(str(schema.get("format")))) is not None:
        proposed.insert(0, known)
    if isinstance(pattern := schema.get("pattern"), str) and (fitting := matching(pattern)) is not None:
        proposed.insert(2, fitting)
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    for text in proposed:
        yield text
        if len(text) < least <= _LONGEST:
            inner = text.strip("<>")
            yield f"<{' '.join([inner] * (least // (len(inner) + 1) + 1))}>"
            yield text + text[-1:] * (least - len(text))
        if most is not None and len(text) > most:
            yield text.strip("<>")[: int(most)]


def _numbers(schema: Schema, *, whole: bool) -> Iterator[int | float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if not whole:
        yield 1.5
    yield from (1, 2, 3)
    step = schema.get("multipleOf") or 1
    bounds = [bound for bound in (low, high, above, below) if isinstance(bound, int | float)]
    for bound in bounds:
        nearest = math.floor(bound / step)
        yield from (_plain(number * step) for number in (nearest, nearest + 1, nearest - 1, math.ceil(bound / step)))
    if len(bounds) > 1 and not whole:
        yield (min(bounds) + max(bounds)) / 2
    start = math.floor(min(bounds, default=0) / step)
    yield from (_plain((start + number) * step) for number in range(_TRIES))


def _plain(number: float) -> int | float:
    return int(number) if isinstance(number, float) and number.is_integer() else number
