"""Asking a person, inside a graph that stops and goes on."""

import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from taograph.tools.person import ask_person
from taograph.tools.policy import ToolError, policy_of


class State(TypedDict, total=False):
    answer: str


def ask(state: State) -> State:
    return {"answer": ask_person.invoke({"question": " Which size? "})}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("large", "large"),
        ({"answer": " large "}, "large"),
        ({"size": "large", "count": 2}, '{"size": "large", "count": 2}'),
        (42, "42"),
        (["å", "b"], '["å", "b"]'),
        ("", "The person gave no answer."),
    ],
)
def test_the_run_waits_and_the_answer_comes_back_as_text(given: Any, read: str) -> None:
    graph = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    waiting = graph.invoke({}, config)
    (stop,) = waiting["__interrupt__"]
    assert stop.value == {"type": "question", "question": "Which size?"}
    json.dumps(stop.value)
    assert graph.invoke(Command(resume=given), config)["answer"] == read


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(ToolError, match="empty"):
        ask_person.invoke({"question": "  "})


def test_waiting_is_not_tool_time() -> None:
    assert policy_of(ask_person).timeout is None
