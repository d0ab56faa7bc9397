"""Arguments that are no object, put under the parameter that they are meant for."""

from __future__ import annotations

from typing import Any

import pytest

from taograph.graphs.protocols.fitting import UnfitArgumentsError, fit_arguments


def schema(**properties: Any) -> dict[str, Any]:
    required = [name for name, part in properties.items() if "default" not in part]
    return {"type": "object", "properties": properties, "required": required}


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


@pytest.mark.parametrize(
    ("args", "parameters", "fitted"),
    [
        ({"a": 1}, schema(q=TEXT), {"a": 1}),  # an object is the model's own affair
        ({1: "x"}, schema(q=TEXT), {"1": "x"}),
        ({}, schema(), {}),
        ("", schema(q=TEXT), {}),
        (None, schema(q=TEXT), {}),
        ("tea houses", schema(q=TEXT), {"q": "tea houses"}),
        ("42", schema(q=TEXT), {"q": "42"}),
        (42, schema(q=TEXT), {"q": "42"}),
        ("42", schema(n=NUMBER), {"n": 42}),
        (42, schema(n=NUMBER), {"n": 42}),
        ("true", schema(b={"type": "boolean"}), {"b": True}),
        ("4.5", schema(n={"type": "number"}), {"n": 4.5}),
        ("NaN", schema(n={"type": "number"}), {"n": "NaN"}),
        ("about four", schema(n=NUMBER), {"n": "about four"}),  # the tool layer says what is wrong with it
        ("42", schema(n={"type": ["string", "integer"]}), {"n": "42"}),
        ("42", schema(n={"anyOf": [NUMBER, {"type": "null"}]}), {"n": 42}),
        ("42", schema(n={"anyOf": [TEXT, {"type": "null"}]}), {"n": "42"}),
        ("42", schema(n={}), {"n": "42"}),  # who knows
        ("red", schema(c={"enum": ["red", "blue"]}), {"c": "red"}),
        ([1, 2], schema(n={"type": "array", "items": NUMBER}), {"n": [1, 2]}),
        ([1, 2], schema(n={}), {"n": [1, 2]}),
        ("[1, 2]", schema(n={"type": "array", "items": NUMBER}), {"n": [1, 2]}),
        ("tea", schema(q=TEXT, limit={**NUMBER, "default": 3}), {"q": "tea"}),
        ("42", {**schema(n={"$ref": "#/$defs/N"}), "$defs": {"N": NUMBER}}, {"n": 42}),
        ("42", {**schema(n={"$ref": "#/$defs/N"}), "$defs": {"N": {"$ref": "#/$defs/N"}}}, {"n": "42"}),
        ("42", schema(n={"$ref": "#/$defs/gone"}), {"n": "42"}),
    ],
)
def test_what_fits(args: Any, parameters: dict[str, Any], fitted: dict[str, Any]) -> None:
    made = fit_arguments(args, parameters, "find")
    assert made == fitted
    assert [type(value) for value in made.values()] == [type(value) for value in fitted.values()]


@pytest.mark.parametrize(
    ("args", "parameters", "message"),
    [
        ("tea", schema(), r"is text, but find takes no arguments\. Write \{\}\."),
        ("tea", {}, "takes no arguments"),
        ("tea", schema(q=TEXT, place=TEXT), "which parameter is meant: q, place"),
        ("tea", schema(q={**TEXT, "default": ""}, place={**TEXT, "default": ""}), "q, place"),
        ([1, 2], schema(q=TEXT), "is a list, and it does not say which parameter is meant: q"),
        ([1, 2], schema(q=TEXT, place=TEXT), "is a list"),
    ],
)
def test_what_does_not(args: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UnfitArgumentsError, match=message):
        fit_arguments(args, parameters, "find")
