"""A reply held to one step: every text that the grammar or the schema admits is read as a step that fits."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import jsonschema
import pytest
from gbnf import Grammar

from taograph.graphs.protocols import parse_step
from taograph.graphs.protocols.argument_grammar import literal
from taograph.graphs.protocols.step_grammar import step_grammar
from taograph.graphs.protocols.step_schema import flattened, is_strict, json_note, step_schema
from taograph.graphs.protocols.text_labels import LABELS
from taograph.graphs.protocols.text_tools import OfferedTool, offered_tool

ODD = {
    "title": "odd",
    "description": "Odd.",
    "type": "object",
    "properties": {
        'a "quoted" \\ näme': {"enum": ["x", 1, None]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "any": True,
    },
    "required": ["number"],
}


def search(query: str, limit: int = 3) -> str:
    """Search."""
    return query


def clock() -> str:
    """The time."""
    return "now"


TOOLS = [offered_tool(search), offered_tool(clock), offered_tool(ODD)]
BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.mark.parametrize("language", list(LABELS))
@pytest.mark.parametrize("choice", [None, "any", "none", "odd"])
@pytest.mark.parametrize(("one_line", "begun"), list(itertools.product([False, True], repeat=2)))
def test_every_text_it_admits_is_a_step(language: str, choice: str | None, one_line: bool, begun: bool) -> None:
    grammar = Grammar(step_grammar(TOOLS, choice, language=language, one_line=one_line, begun=begun))
    label = LABELS[language]  # type: ignore[index]
    kinds = set()
    for _ in range(60):
        text = grammar.sample()
        if begun:
            text = f"{label.thought}{label.colon.rstrip()}{text}"
        for strict in (False, True):
            step = parse_step(text, tools=BY_NAME, strict=strict)
            kinds.add(step.kind)
            if step.kind == "final":
                assert step.answer, text
                assert choice in (None, "none"), text
            else:
                assert step.kind == "action", (text, step.detail)
                assert choice != "none", text
                assert step.tool in ([choice] if choice == "odd" else BY_NAME), text
                assert not step.repaired, text
                assert not step.truncated, text
                _fits(step.args, BY_NAME[step.tool or ""], text)
    assert kinds == {None: {"action", "final"}, "none": {"final"}}.get(choice, {"action"})


def _fits(args: Any, tool: OfferedTool, text: str) -> None:
    """Names, simple types and required arguments are the schema's."""
    assert isinstance(args, dict), text
    properties = tool.parameters.get("properties") or {}
    if properties:
        assert list(args) == [name for name in properties if name in args] or tool.name == "odd", text
        assert args.keys() <= properties.keys(), text
    assert set(tool.parameters.get("required") or ()) <= args.keys(), text
    for name, value in args.items():
        spec = properties.get(name)
        if isinstance(spec, dict) and ("enum" in spec or spec.get("type") not in (None, "array")):
            jsonschema.validate(value, {key: spec[key] for key in ("enum", "type") if key in spec})


def test_no_newline_is_forced_at_the_end() -> None:
    grammar = step_grammar(TOOLS)
    assert 'step ::= (action | final) "\\n"?' in grammar


def test_every_rule_that_is_used_is_there() -> None:
    for choice, one_line, begun in itertools.product([None, "any", "none", "odd"], [False, True], [False, True]):
        grammar = step_grammar(TOOLS, choice, one_line=one_line, begun=begun)
        bare = re.sub(r'"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]|\{[0-9,]+\}', " ", grammar)
        used = set(re.findall(r"[a-z][a-z0-9-]*", bare))
        assert used <= set(re.findall(r"^([a-z0-9-]+) ::=", grammar, re.MULTILINE))


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="tools is empty"):
        step_grammar([])
    with pytest.raises(ValueError, match="choice='fly'"):
        step_grammar(TOOLS, "fly")
    with pytest.raises(ValueError, match="language='xx'"):
        step_grammar(TOOLS, language="xx")


SAID = [
    {"thought": "Hm.", "step": {"action": "search", "action_input": {"query": "Final Answer: 5", "limit": None}}},
    {"thought": "", "step": {"action": "clock", "action_input": {}}},
    {"thought": "Action: send", "step": {"final_answer": "Thought: no\nAction: x\n```"}},
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("space", [None, 2])
def test_a_step_in_json_is_read_as_it_is_meant(said: dict[str, Any], space: int | None) -> None:
    jsonschema.validate(said, step_schema(TOOLS[:2], strict=True))
    step = parse_step(flattened(json.dumps(said, indent=space), BY_NAME), tools=BY_NAME, strict=True)
    meant = said["step"]
    if "action" in meant:
        assert (step.kind, step.tool) == ("action", meant["action"])
        assert step.args == {name: value for name, value in meant["action_input"].items() if value is not None}
    else:
        assert (step.kind, step.answer) == ("final", meant["final_answer"])
    assert step.thought == said["thought"]


def test_the_strict_form_is_strict() -> None:
    schema = step_schema(TOOLS[:2], strict=True)
    assert is_strict(schema)
    (searching, _, _) = schema["properties"]["step"]["anyOf"]
    given = searching["properties"]["action_input"]
    assert given["required"] == ["query", "limit"]
    assert {"type": "null"} in given["properties"]["limit"]["anyOf"]
    loose = step_schema(TOOLS[:2])["properties"]["step"]["anyOf"][0]["properties"]["action_input"]
    assert loose["required"] == ["query"]
    assert loose["properties"]["limit"]["type"] == "integer"


def test_arguments_without_a_strict_form_are_an_object() -> None:
    schema = step_schema(TOOLS, "odd", strict=True)
    assert not is_strict(schema)
    (odd,) = schema["properties"]["step"]["anyOf"]
    assert odd["properties"]["action_input"] == {"type": "object"}


@pytest.mark.parametrize(
    "text", ["", "null", "[1]", "3", '{"step": 4}', "{", "Thought: x\nFinal Answer: 5", "[" * 9999]
)
def test_what_is_no_such_object_stays_as_it_is(text: str) -> None:
    assert flattened(text, BY_NAME) == text


def test_a_null_that_is_meant_stays() -> None:
    tool = OfferedTool("set", "", {"properties": {"to": {}, "by": {}}, "required": ["to"]})
    said = {"thought": "", "step": {"action": "set", "action_input": {"to": None, "by": None}}}
    assert json.loads(flattened(json.dumps(said), {"set": tool}))["action_input"] == {"to": None}


@pytest.mark.parametrize("language", list(LABELS))
def test_the_note_shows_what_is_wanted(language: str) -> None:
    assert "action_input" in json_note(None, language)
    assert "final_answer" in json_note(None, language)
    assert "final_answer" not in json_note("any", language)
    assert "action" not in json_note("none", language)


def test_a_literal_has_only_escapes_that_gbnf_knows() -> None:
    assert literal('a\bc\\b "x"\f\n\x01é') == r'"a\x08c\\b \"x\"\x0c\n\u0001é"'
    assert Grammar("root ::= " + literal("a\bc\\b")).sample() == "a\bc\\b"
