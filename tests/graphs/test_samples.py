"""Calls made from a tool's schema: always valid against it, always the same, and no more than it asks for."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.utils.function_calling import convert_to_openai_function
from pydantic import BaseModel, Field

from taograph.graphs.protocols.sample_pattern import matching
from taograph.graphs.protocols.samples import sample_arguments, validator_of
from taograph.tools.catalog import default_tools

Json = dict[str, Any]


def one(schema: Any, **around: Any) -> Any:
    """The sample of a single required argument ``a``."""
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"], **around}
    made = sample_arguments(parameters)
    assert made is not None, schema
    validator_of(parameters)(parameters).validate(made)
    return made["a"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "<a>"),
        ({}, "<a>"),
        (True, "<a>"),
        ({"enum": [None, "slow", "fast"]}, "slow"),
        ({"const": {"x": 1}}, {"x": 1}),
        ({"type": "string", "examples": ["Rome", "Oslo"]}, "Rome"),
        ({"type": "string", "examples": [7, "Oslo"]}, "Oslo"),
        ({"type": "string", "default": "Oslo"}, "Oslo"),
        ({"type": "string", "default": ""}, "<a>"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "format": "email", "minLength": 5}, "name@example.org"),
        ({"type": "string", "format": "unheard-of"}, "<a>"),
        ({"type": "string", "maxLength": 1}, "a"),
        ({"type": "string", "maxLength": 0}, ""),
        ({"type": "string", "minLength": 9}, "<a a a a a>"),
        ({"type": "string", "minLength": 9, "maxLength": 9}, "<a>>>>>>>"),
        ({"type": "string", "pattern": r"^[A-Z]{2}-\d{4}$"}, "AA-1111"),
        ({"type": "string", "pattern": "^<"}, "<a>"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 18}, 18),
        ({"type": "integer", "exclusiveMinimum": 18}, 19),
        ({"type": "integer", "maximum": -4}, -4),
        ({"type": "integer", "minimum": -9, "maximum": -4}, -9),
        ({"type": "integer", "minimum": 7.2, "maximum": 8.9}, 8),
        ({"type": "integer", "multipleOf": 5, "minimum": 12}, 15),
        ({"type": "number"}, 1.5),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
        ({"type": "number", "minimum": 90}, 90),
        ({"type": "number", "multipleOf": 0.25, "maximum": 0.3, "minimum": 0.1}, 0.25),
        ({"type": "boolean"}, True),
        ({"type": "boolean", "enum": [False]}, False),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]}, 3),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1.5),
        ({"oneOf": [{"type": "integer"}, {"type": "number", "maximum": 9}], "minimum": 10}, 10),
        ({"anyOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": {"x": False}}, {"y": "<y>"}),
        ({"type": "array"}, ["<a>"]),
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 3}, [1, 2, 3]),
        ({"type": "array", "items": {"const": 4}, "minItems": 3}, [4, 4, 4]),
        ({"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True, "minItems": 2}, ["x", "y"]),
        ({"type": "array", "maxItems": 0}, []),
        ({"type": "array", "items": False}, []),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False}, [1.5, "<a>"]),
        ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}}, [5]),
        ({"type": "object"}, {}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"<name>": 1}),
        ({"type": "object", "properties": {"x": {}, "y": {}}, "minProperties": 1}, {"x": "<x>"}),
        ({"type": "object", "minProperties": 2}, {"<name>": "<value>", "text": "<value>"}),
        ({"type": "object", "propertyNames": {"pattern": "^[a-z]$"}, "minProperties": 1}, {"a": "<value>"}),
        ({"properties": {"x": {"properties": {"y": {}}, "required": ["y"]}}, "required": ["x"]}, {"x": {"y": "<y>"}}),
        (
            {"allOf": [{"properties": {"x": {}}, "required": ["x"]}, {"properties": {"y": {}}, "required": ["y"]}]},
            {"x": "<x>", "y": "<y>"},
        ),
        ({"allOf": [{"minimum": 3}, {"type": "integer"}, {"minimum": 5, "maximum": 9}]}, 5),
        ({"type": "string", "not": {"const": "<a>"}}, "text"),
        (
            {
                "properties": {"kind": {"enum": ["make", "drop"]}, "size": False},
                "required": ["kind"],
                "if": {"properties": {"kind": {"const": "make"}}},
                "then": {"required": ["size"]},
            },
            {"kind": "drop"},
        ),
        (
            {
                "properties": {"kind": {"enum": ["make"]}, "size": {"type": "integer"}},
                "required": ["kind"],
                "if": {"properties": {"kind": {"const": "make"}}},
                "then": {"required": ["size"]},
            },
            {"kind": "make", "size": 1},
        ),
        (
            {"properties": {"x": {}, "y": {}}, "required": ["x"], "dependentRequired": {"x": ["y"]}},
            {"x": "<x>", "y": "<y>"},
        ),
    ],
)  # fmt: skip
def test_one_argument(schema: Any, value: Any) -> None:
    assert one(schema) == value


PARTS: Json = {
    "Unit": {"enum": ["m", "km"]},
    "Place": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "near": {"$ref": "#/$defs/Place"}},
        "required": ["name"],
    },
    "List": {
        "properties": {"head": {"type": "integer"}, "tail": {"anyOf": [{"$ref": "#/$defs/List"}, {"type": "null"}]}},
        "required": ["head", "tail"],
    },
    "Tree": {
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["children"],
    },
    "Alias": {"$ref": "#/$defs/Unit"},
    "a/b~c d": {"type": "boolean"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/Unit"}, "m"),
        ({"$ref": "#/$defs/Alias"}, "m"),
        ({"$ref": "#/$defs/Unit", "not": {"const": "m"}}, "km"),
        ({"allOf": [{"$ref": "#/$defs/Unit"}], "description": "As pydantic 1 writes it."}, "m"),
        ({"$ref": "#/$defs/Place"}, {"name": "<name>"}),
        ({"$ref": "#/$defs/a~1b~0c%20d"}, True),
        ({"type": "array", "items": {"$ref": "#/$defs/Place"}}, [{"name": "<name>"}]),
        ({"anyOf": [{"$ref": "#/$defs/Place"}, {"$ref": "#/$defs/Unit"}]}, {"name": "<name>"}),
    ],
)
def test_references(schema: Any, value: Any) -> None:
    assert one(schema, **{"$defs": PARTS}) == value


@pytest.mark.parametrize("name", ["List", "Tree"])
def test_schemas_that_refer_to_themselves_end(name: str) -> None:
    made = one({"$ref": f"#/$defs/{name}"}, **{"$defs": PARTS})
    assert len(json.dumps(made)) < 100


def test_drafts_of_old() -> None:
    assert one({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}) == [1, "<a>"]
    assert one({"type": "number", "minimum": 1.5, "exclusiveMinimum": True}) not in (None, 1.5)
    assert one({"$ref": "#/definitions/U"}, definitions={"U": {"enum": [3]}}) == 3
    assert one({"type": "integer"}, **{"$schema": "http://json-schema.org/draft-07/schema#"}) == 1


NONE: dict[str, Json] = {
    "contradiction": {"properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}, "required": ["a"]},
    "forbidden and required": {"properties": {"a": False}, "required": ["a"]},
    "without end": {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "required": ["a"],
        "$defs": {"A": {"properties": {"b": {"$ref": "#/$defs/A"}}, "required": ["b"]}},
    },
    "reference to nothing": {"properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"]},
    "reference to itself": {"properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]},
    "reference elsewhere": {"properties": {"a": {"$ref": "http://127.0.0.1/schema.json"}}, "required": ["a"]},
    "no pattern": {"properties": {"a": {"type": "string", "pattern": "("}}, "required": ["a"]},
    "no schema": {"properties": ["a"], "required": "a"},
    "no object": {"type": "string"},
}  # fmt: skip


@pytest.mark.parametrize("why", NONE)
def test_none_where_none_can_be_found(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert sample_arguments(NONE[why]) is None


def test_a_schema_made_to_take_for_ever_does_not() -> None:
    parts: Json = {"0": {"type": "integer", "minimum": 2, "maximum": 1}}
    for depth in range(1, 12):
        below = {"$ref": f"#/$defs/{depth - 1}"}
        parts[str(depth)] = {"anyOf": [{"properties": {key: below}, "required": [key]} for key in "abcdef"]}
    assert sample_arguments({"properties": {"a": {"$ref": "#/$defs/11"}}, "required": ["a"], "$defs": parts}) is None


def test_the_schema_is_not_changed() -> None:
    schema = {"properties": {"a": {"allOf": [{"$ref": "#/$defs/Place"}]}}, "required": ["a"], "$defs": PARTS}
    before = json.dumps(schema)
    assert sample_arguments(schema) == {"a": {"name": "<name>"}}
    assert json.dumps(schema) == before


# Tools as they are met


class Line(BaseModel):
    text: str = Field(min_length=3, max_length=80)
    children: list[Line] = Field(default_factory=list)


class Order(BaseModel):
    """Order something."""

    id: str = Field(pattern=r"^ORD-\d{6}$")
    amount: float = Field(gt=0, le=500)
    lines: list[Line] = Field(min_length=1)
    colors: set[str] = Field(min_length=2)
    pair: tuple[int, str]
    tags: dict[str, int]
    note: str | None
    gift: bool = False


def test_a_pydantic_class() -> None:
    parameters = convert_to_openai_function(Order)["parameters"]
    assert "gift" in parameters["properties"]
    for schema in (parameters, Order.model_json_schema()):
        made = sample_arguments(schema)
        assert made is not None
        assert "gift" not in made
        Order.model_validate(made)


@pytest.mark.parametrize("tool", default_tools(), ids=lambda tool: tool.name)
def test_our_own_tools(tool: Any) -> None:
    parameters = convert_to_openai_function(tool)["parameters"]
    made = sample_arguments(parameters)
    assert made is not None
    assert set(made) == set(parameters.get("required", ()))
    tool.tool_call_schema.model_validate(made)


# Any schema


def bounds(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """One or both bounds, the lower not above the higher."""
    both = st.tuples(values, values).map(sorted).map(lambda pair: {low: pair[0], high: pair[1]})
    return st.just({}) | both | values.map(lambda value: {low: value}) | values.map(lambda value: {high: value})


SMALL = st.integers(0, 6)
INTEGERS = bounds("minimum", "maximum", st.integers(-(10**9), 10**9)).map(lambda found: {"type": "integer", **found})
NUMBERS = bounds("minimum", "maximum", st.floats(-1e9, 1e9)).map(lambda found: {"type": "number", **found})
TEXTS = bounds("minLength", "maxLength", st.integers(0, 60)).map(lambda found: {"type": "string", **found})
CHOICES = st.lists(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5), min_size=1, max_size=4)
LEAVES = (
    INTEGERS
    | NUMBERS
    | TEXTS
    | CHOICES.map(lambda choices: {"enum": choices})
    | st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"$ref": "#/$defs/Unit"}, {"$ref": "#/$defs/Place"}])
)
NAMES = st.sampled_from(["name", "place", "a b", "größe", "x"]) | st.text(min_size=1, max_size=4)


def objects(parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    def made(properties: Json, which: list[bool], closed: bool) -> Json:
        required = [key for key, needed in zip(properties, which, strict=False) if needed]
        found: Json = {"type": "object", "properties": properties, "required": required}
        return {**found, "additionalProperties": False} if closed else found

    some = st.dictionaries(NAMES, parts, max_size=4)
    return st.builds(made, some, st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())


def arrays(parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    sizes = bounds("minItems", "maxItems", SMALL)
    return st.builds(lambda items, size: {"type": "array", "items": items, **size}, parts, sizes)


def unions(parts: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(parts, min_size=1, max_size=3).map(lambda options: {"anyOf": options})


SCHEMAS = objects(st.recursive(LEAVES, lambda parts: objects(parts) | arrays(parts) | unions(parts), max_leaves=12))


@given(SCHEMAS)
def test_a_sample_is_valid_and_holds_what_is_required_alone(schema: Json) -> None:
    schema = {**schema, "$defs": PARTS}
    made = sample_arguments(schema)
    assert made is not None
    jsonschema.Draft202012Validator(schema).validate(made)
    assert set(made) == set(schema["required"])
    assert sample_arguments(schema) == made
    json.dumps(made, allow_nan=False)


KEYWORDS = ("type", "properties", "required", "items", "anyOf", "allOf", "$ref", "enum", "minimum", "pattern", "a")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_given_for_a_schema_gives_a_valid_sample_or_none(schema: Any) -> None:
    made = sample_arguments(schema if isinstance(schema, dict) else {"properties": {"a": schema}})
    assert made is None or isinstance(made, dict)


# Patterns


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\d{3}-[A-Z]+$", "111-A"),
        (r"^(cat|dog)s?$", "cat"),
        (r"^[^a-z]\w\s\S\D$", "Aa aa"),
        (r"^([ab])\1$", "aa"),
        (r"^(?P<x>z)(?P=x)\.$", "zz."),
        (r"^.{2}$", "aa"),
        (r"(?i)^v\d+(\.\d+)*$", "v1"),
        (r"", ""),
    ],
)
def test_a_text_for_a_pattern(pattern: str, text: str) -> None:
    assert matching(pattern) == text
    assert re.search(pattern, text)


@pytest.mark.parametrize("pattern", ["(", r"^a{5000}$", r"^(a{100}){100}$", r"(?P<x>a)(?(x)b|c)"])
def test_patterns_that_are_too_hard(pattern: str) -> None:
    assert matching(pattern) is None


@given(st.text(alphabet=r"ab01.\^$*+?{}[]()|,-dwsDWS", max_size=12))
def test_no_pattern_fails(pattern: str) -> None:
    text = matching(pattern)
    assert text is None or len(text) <= 200
