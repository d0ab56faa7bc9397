"""What is recorded twice is told of once; and what a person is asked in the middle of a tool is one call of it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from recording_support import QUESTION, THREAD, Recorded, asks, content, look, of_type, recorded, run, says, told

from taograph import create_react_graph, tool, trace
from taograph.models import call
from taograph.trace.reading import entries, runs, summarize
from taograph.trace.showing import lines

__all__ = ["recorded"]

INNER = ["1 model_asked", "1 model_replied", "1 stop final", "1 answer"]


@tool(effects="none")
def ask(name: str) -> str:
    """Ask somebody.

    Args:
        name: What.
    """
    return f"they said {interrupt(name)}"


def around(inner: Any) -> Any:
    """A graph that is not ours, with one that is."""
    return StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").compile()


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_graph_that_is_recorded_twice(recorded: Recorded, way: str) -> None:
    graph = recorded.of(recorded.of(create_react_graph(says("Well."), [look])))
    run(way, graph)
    assert told(recorded.one()) == ["0 run_started", *INNER, "0 run_ended ended"]
    assert not any(writer.told for writer in trace._writers.values()), "nothing is remembered of it"


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_recorded_graph_in_a_recorded_graph(recorded: Recorded, way: str) -> None:
    run(way, recorded.of(around(recorded.of(create_react_graph(says("Well."), [look])))))
    nested = [f"{line} in agent" for line in ("0 run_started", *INNER)]
    assert told(recorded.one()) == ["0 run_started", *nested, "0 run_ended ended"], "its calls are paid for once"


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_nested_graph_that_is_recorded_elsewhere(recorded: Recorded, tmp_path: Path, way: str) -> None:
    elsewhere = Recorded(f"sqlite:///{tmp_path}/elsewhere.db")
    run(way, recorded.of(around(elsewhere.of(create_react_graph(says(asks("a"), "Well."), [look])))))
    found = elsewhere.one()
    assert told(found)[0] == "0 run_started"
    assert not any(content(event)["path"] for event in found), "it is the outermost there"
    assert content(found[0])["question"] == "What is in a and b?"
    assert content(found[1])["task"] == ["reason"]
    assert "0 run_started in agent" in told(recorded.one())


def spent(store: Any) -> list[tuple[float, dict[str, int]]]:
    """Calls of tools, by each run's end, and by its results."""
    made = [summarize(entries(store, each)) for each in runs(store)]
    return [(each.spent["tool_calls"], dict(each.tools)) for each in made]


def test_a_tool_that_asks_a_person_is_called_once(recorded: Recorded) -> None:
    graph = create_react_graph(says(asks("who", tool="ask"), "Well."), [ask], checkpointer=InMemorySaver())
    graph = recorded.of(graph)
    graph.invoke(QUESTION, THREAD)
    assert graph.invoke(Command(resume="Ada"), THREAD)["spent"]["tool_calls"] == 1
    recorded.all()
    assert spent(recorded.store()) == [(1, {"ask": 1})]


def test_what_a_person_answered_a_graph_that_is_not_ours(recorded: Recorded) -> None:
    create_agent = pytest.importorskip("langchain.agents", reason="needs langchain").create_agent
    graph = recorded.of(create_agent(says(asks("who", tool="ask"), "Well."), [ask], checkpointer=InMemorySaver()))
    graph.invoke(QUESTION, THREAD)
    graph.invoke(Command(resume="Ada"), THREAD)
    first, second = recorded.all()
    assert spent(recorded.store()) == [(0, {}), (1, {"ask": 1})]
    assert [(line.label, line.text) for line in lines(first)][-1] == ("Waits", "who")
    assert [(line.label, line.text) for line in lines(second)] == [
        ("Answered", "Ada"),
        ("Observation", "they said Ada"),
        ("Question", "What is in a and b?"),
        ("Answer", "Well."),
    ]


def test_without_content_no_hash_can_be_guessed(recorded: Recorded, tmp_path: Path) -> None:
    for place in (recorded, open_to_all := Recorded(f"sqlite:///{tmp_path}/content.db")):
        place.of(create_react_graph(says("Well."), [look]), content=place is open_to_all).invoke(QUESTION)
    guessed, kept = open_to_all.one(), recorded.one()
    for kind, name in (("run_started", "input"), ("model_asked", "request")):
        assert len(of_type(kept, kind)[0][name]) == 64
        assert of_type(kept, kind)[0][name] != of_type(guessed, kind)[0][name]


def test_no_message_is_held_on_to(recorded: Recorded) -> None:
    model = says("Well.")
    made = trace.handlers(recorded.url)
    create_react_graph(model, [look]).invoke(QUESTION, {"callbacks": list(made)})
    asked = [weakref.ref(message) for message in model.requests[0].messages]
    model.requests.clear()
    recorded.one()
    gc.collect()
    assert [each() for each in asked] == [None]


def test_without_content_keys_are_content_too(recorded: Recorded) -> None:
    model = says(AIMessage("", tool_calls=[call("look", {"name": {"Ada Lovelace": 1, "ada@example.org": 2}})]), "Well.")
    recorded.of(create_react_graph(model, [look]), content=False).invoke(QUESTION)
    (action,) = of_type(recorded.one(), "action")
    assert [*action["args"]] == ["name"]
    assert len(action["args"]["name"]) == 2
    assert "ada" not in str(action).lower()
