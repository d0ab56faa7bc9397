"""The router's decisions as pure functions: rules, doubts, and what follows."""

from __future__ import annotations

import time
from typing import get_args

import pytest
from support import lookup

from taograph.graphs.loop.stopping import StopReason
from taograph.graphs.parts.routes import (
    DEFAULT_RULES,
    ESCALATIONS,
    Asked,
    Route,
    arithmetic,
    decide,
    doubt,
    following,
    without_confidence,
)

TOOLS = {"calculator": "Evaluate an arithmetic expression.", "search_documents": "Search the user's documents."}


def route_of(text: str, tools: dict[str, str] | None = None) -> str | None:
    found = decide(Asked(text, TOOLS if tools is None else tools), DEFAULT_RULES)
    return found.strategy if found else None


@pytest.mark.parametrize(
    "text",
    ["Hi!", "hello", "Good morning.", "Thanks a lot!", "Danke schön!", "¡Hola!", "merci", "Grazie mille", "谢谢"],
)
def test_greetings_and_thanks_are_answered_at_once(text: str) -> None:
    assert route_of(text) == "direct"


@pytest.mark.parametrize(
    "text", ["ok", "yes", "Hi, who built the bridge?", "Thanks, and now look at page 3", "Hello world in Rust?"]
)
def test_what_only_begins_with_a_greeting_is_not_decided_by_it(text: str) -> None:
    assert route_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "What does https://example.org/a say?",
        "Open www.example.org",
        "Use search_documents for the bridge.",
        "search documents: bridge",
        "Ask the calculator.",
        "What is in my notes about Ada?",
        "Look through our knowledge base.",
        "Summarize my meeting notes",
        "What is the weather in Rome?",
        "Who won yesterday?",
        "the latest Python release?",
        "What is 123*456?",
        "Compute (1234 - 56) * 3",
        "1,000,000 / 7",
        "3 + 4 + 5",
        "2.5 * 4",
    ],
)
def test_what_needs_a_tool_enters_the_loop(text: str) -> None:
    assert route_of(text) == "react"


@pytest.mark.parametrize(
    "text",
    [
        "Who wrote Faust?",
        "What is 2+2?",
        "Born 2024-05-01, died 2025/06/07?",
        "Call 555-1234.",
        "What happened between 1914-1918?",
        "Is 24/7 a good idea?",
        "Wer hat die Brücke gebaut?",
        "今天天气怎么样?",
        "The calculation is hard",
        "Is a company account taxed?",
    ],
)
def test_what_the_rules_do_not_know_is_left_to_the_model(text: str) -> None:
    assert route_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["Translate to German: good news today", 'Please rephrase "the weather is fine"', "Summarize the text below.\nA"],
)
def test_a_text_that_is_there_is_worked_on_at_once(text: str) -> None:
    assert route_of(text) == "direct"
    assert route_of(f"{text} https://example.org") == "react"


def test_without_tools_everything_is_direct() -> None:
    assert route_of("What is the weather today?", {}) == "direct"


def test_a_sum_is_no_matter_of_tools_that_cannot_compute() -> None:
    assert arithmetic(Asked("What is 123*456?", {"lookup": lookup.description})) is None


def test_the_first_rule_that_speaks_decides() -> None:
    rules = (lambda asked: None, lambda asked: Route("react", "one"), lambda asked: Route("direct", "two"))
    assert decide(Asked("?", TOOLS), rules) == Route("react", "one")
    assert all(rule.__doc__ for rule in DEFAULT_RULES)


@pytest.mark.parametrize("text", ["1" * 200_000, "1 + " * 50_000, "my " * 60_000, "Translate " * 20_000, "a" * 300_000])
def test_rules_take_no_time_with_long_texts(text: str) -> None:
    began = time.process_time()
    route_of(text)
    doubt(text, "")
    without_confidence(text)
    assert time.process_time() - began < 5, "a hundred times what it takes; not the square of the length"


@pytest.mark.parametrize(
    ("text", "rest", "word"),
    [
        ("Paris.\nConfidence: high", "Paris.", "high"),
        ("Paris.\n\n**Confidence:** Low (no source)", "Paris.", "low"),
        ("- confidence： medium\nParis", "Paris", "medium"),
        ("Paris. I have confidence in it.", "Paris. I have confidence in it.", ""),
        ("Confidence: low", "", "low"),
    ],
)
def test_the_line_of_confidence(text: str, rest: str, word: str) -> None:
    assert without_confidence(text) == (rest, word)


@pytest.mark.parametrize(
    ("answer", "doubted"),
    [
        ("I don't know: it needs a source.", True),
        ("I don’t have access to the file.", True),
        ("I'm unable to browse.", True),
        ("As of my last update it was 3.", True),
        ("Paris is the capital.", False),
        ("A long text. " * 60 + '"I don\'t know" is what he said.', False),
    ],
)
def test_what_counts_as_not_knowing(answer: str, doubted: bool) -> None:
    assert (doubt(answer, "") is not None) == doubted


def test_the_table_names_stop_reasons_and_strategies_that_there_are() -> None:
    assert set(ESCALATIONS) - {"doubt", "objection"} <= set(get_args(StopReason))
    for never in ("refusal", "rejected", "cancelled", "model_error", "deadline", "token_limit", "cost_limit", "final"):
        assert never not in ESCALATIONS
    assert {name for row in ESCALATIONS.values() for name in row} == {"react", "plan_execute", "reflexion"}


def test_what_follows_is_the_first_that_is_there_and_was_not_tried() -> None:
    every = ("direct", "react", "plan_execute", "reflexion")
    assert following("tool_errors", ["react"], every, ESCALATIONS) == "reflexion"
    assert following("tool_errors", ["react", "reflexion"], every, ESCALATIONS) == "plan_execute"
    assert following("tool_errors", ["react"], ("direct", "react"), ESCALATIONS) is None
    assert following("refusal", [], every, ESCALATIONS) is None
