"""The grammar of a local model's replies: its rules, and that requests carry it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from taograph.models.local import LocalChat, chat_model
from taograph.models.local_grammar import call_grammar


@tool
def search(query: str, limit: int = 3) -> str:
    """Search."""
    return query


@tool
def clock() -> str:
    """The time."""
    return "now"


def offered(*tools: Any) -> list[dict[str, Any]]:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return [convert_to_openai_tool(tool) for tool in tools]


def rule(grammar: str, name: str) -> str:
    (found,) = re.findall(rf"^{re.escape(name)} ::= (.*)$", grammar, re.MULTILINE)
    return str(found)


def test_text_or_calls_of_the_tools() -> None:
    grammar = call_grammar(offered(search, clock))
    assert rule(grammar, "root") == "calls | prose"
    assert rule(grammar, "call") == "call-0 | call-1"
    assert rule(grammar, "call-0").startswith(r'"{\"name\": \"search\", \"arguments\": "')
    assert rule(grammar, "args-0") == r'"{" "\"query\": " string (", " "\"limit\": " integer)? "}"'
    assert rule(grammar, "args-1") == "object"


def test_optional_arguments_stand_once_and_in_order() -> None:
    parameters = {"properties": {name: {"type": "integer"} for name in "abc"}}
    grammar = call_grammar([{"function": {"name": "f", "parameters": parameters}}])
    a, b, c = (rf'"\"{name}\": " integer' for name in "abc")
    assert rule(grammar, "args-0") == (f'"{{" ({a} (", " {b})? (", " {c})? | {b} (", " {c})? | {c})? "}}"')


def test_every_rule_that_is_used_is_there() -> None:
    odd = {"type": "function", "function": {"name": "odd", "parameters": ODD}}
    for choice in (None, "auto", "required", "none", {"type": "function", "function": {"name": "odd"}}):
        grammar = call_grammar([odd, *offered(search)], choice)
        bare = re.sub(r'"(\\.|[^"\\])*"|\[(\\.|[^\]\\])*\]|\{[0-9,]+\}', " ", grammar)
        used = set(re.findall(r"[a-z][a-z0-9-]*", bare))
        assert used == set(re.findall(r"^([a-z0-9-]+) ::=", grammar, re.MULTILINE))


ODD = {
    "type": "object",
    "properties": {
        'a "quoted" \\ näme': {"enum": ["x", 1, None]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "flag": {"type": "boolean"},
        "list": {"type": "array"},
        "any": True,
    },
}


def test_the_choice_of_a_tool_is_kept() -> None:
    tools = offered(search, clock)
    assert rule(call_grammar(tools, "required"), "root") == "calls"
    assert rule(call_grammar(tools, "none"), "root") == "prose"
    assert rule(call_grammar([]), "root") == "prose"
    named = call_grammar(tools, {"type": "function", "function": {"name": "clock"}})
    assert rule(named, "root") == "calls"
    assert "search" not in named
    assert "{0,0}" in rule(named, "calls")


def payload(model: LocalChat, **options: Any) -> dict[str, Any]:
    bound: Any = model.bind_tools([search], **options)
    return model._get_request_payload("Where?", **bound.kwargs)


@pytest.fixture
def model(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalChat:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    made = chat_model(str(gguf), template="bare_json")
    assert isinstance(made, LocalChat)
    return made


def test_a_request_carries_the_grammar_in_place_of_the_tools(model: LocalChat) -> None:
    sent = payload(model)
    assert "tools" not in sent
    assert sent["extra_body"]["chat_template_kwargs"]["offered"] == offered(search)
    assert rule(sent["extra_body"]["grammar"], "root") == "calls | prose"
    assert "tool_choice" not in payload(model, tool_choice="any")
    assert rule(payload(model, tool_choice="any")["extra_body"]["grammar"], "root") == "calls"


def test_a_server_that_reads_calls_itself_gets_the_tools(gguf: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    made = chat_model(str(gguf), template="own")
    assert isinstance(made, LocalChat)
    assert payload(made)["tools"] == offered(search)
    assert "extra_body" not in payload(made)


def test_a_request_without_tools_or_with_a_format_is_left_alone(model: LocalChat) -> None:
    assert "extra_body" not in model._get_request_payload("Where?")
    sent = model._get_request_payload("Where?", tools=offered(search), response_format={"type": "json_object"})
    assert sent["tools"]
    assert "extra_body" not in sent


def test_a_grammar_of_the_callers_own_is_left_alone(model: LocalChat) -> None:
    own = "root ::= [a-z]+"
    assert model._get_request_payload("Where?", extra_body={"grammar": own})["extra_body"] == {"grammar": own}
    with_tools = model._get_request_payload("Where?", tools=offered(search), extra_body={"grammar": own})
    assert with_tools["extra_body"]["grammar"] == own
    assert "tools" not in with_tools, "the server takes them together with no grammar"
    held = {"response_format": {"type": "json_object"}}
    assert model._get_request_payload("Where?", tools=offered(search), extra_body=held)["extra_body"] == held


def test_a_base_model_stops_before_the_next_question(gguf: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path))
    made = chat_model(str(gguf), template="plain")
    assert isinstance(made, LocalChat)
    assert "\n" not in rule(made._get_request_payload("Where?")["extra_body"]["grammar"], "root")
    unheld = made.model_copy(update={"constrain_calls": False})
    sent = unheld._get_request_payload("Where?", stop=["\nObservation:"])
    assert sent["stop"] == ["\nObservation:", "\nQuestion:"]
    assert "grammar" not in sent["extra_body"]


def test_worked_examples_are_what_the_server_is_to_keep(model: LocalChat) -> None:
    from taograph.graphs.protocols.examples import worked_examples
    from taograph.tools.calculator import calculator

    shown = worked_examples([calculator])
    model._get_request_payload([*shown, HumanMessage("Where is my secret?")], tools=offered(calculator))
    assert model._lease is not None
    kept = json.loads(model._lease.prefix)
    assert len(kept["messages"]) == len(shown)
    assert kept["chat_template_kwargs"]["offered"] == offered(calculator)
    assert "secret" not in json.dumps(kept), "the question is nobody's to keep"
    before = model._lease.prefix
    model._get_request_payload("Hello", tools=offered(calculator))
    assert model._lease.prefix == before
