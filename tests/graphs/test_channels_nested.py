"""The loop within larger graphs: messages of the graphs above and below are read back as they were live."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, Overwrite
from support import Way, asks, both_ways, lookup, question, run, thread
from typing_extensions import TypedDict

from taograph import checkpoints, create_react_graph
from taograph.graphs.loop.channels import Messages
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person

ASKS = asks("Ada", call("ask_person", {"question": "Which?"}))


def nest(model: ScriptedModel, channel: Any, saver: Any, *, own: bool = False, depth: int = 1) -> Any:
    """The loop as a node of a graph with its own ``messages``, and that as a node of another, so often."""
    schema = TypedDict("schema", {"messages": channel})  # type: ignore[misc]  # noqa: UP013
    graph: Any = create_react_graph(model, [lookup, ask_person], checkpointer=True if own else None)
    for level in range(depth):
        builder = (
            StateGraph(schema)
            .add_node("agent", graph)
            .add_node("note", lambda state: {"messages": [("user", "Noted.")]})
            .add_edge(START, "agent")
            .add_edge("agent", "note")
            .add_edge("note", END)
        )
        graph = builder.compile(checkpointer=saver if level == depth - 1 else None)
    return graph


def said(state: Any) -> list[tuple[str, str]]:
    return [(message.id, message.text) for message in state["messages"]]


CHANNELS = [Annotated[list[AnyMessage], add_messages], Messages]


@pytest.mark.parametrize("channel", CHANNELS, ids=["add_messages", "ours"])
@pytest.mark.parametrize("depth", [1, 2])
@both_ways
def test_a_question_within_and_the_past(channel: Any, depth: int, way: Way) -> None:
    with checkpoints.open("sqlite://") as saver:
        graph = nest(ScriptedModel(replies=["One.", ASKS, "Two.", "Three."]), channel, saver, depth=depth)
        first = run(way, graph, question("First?"), thread())
        stopped = run(way, graph, question("Second?"), thread())
        assert stopped["__interrupt__"]
        inner = graph.get_state(thread(), subgraphs=True)
        for _ in range(depth):
            inner = inner.tasks[0].state
        assert [m.type for m in inner.values["messages"]][-3:] == ["human", "ai", "tool"]
        assert said(inner.values)[: len(first["messages"])] == said(first)

        done = run(way, graph, Command(resume="this"), thread())
        again = nest(ScriptedModel(replies=["Another."]), channel, saver, depth=depth)
        assert said(again.get_state(thread()).values) == said(done)
        states = list(again.get_state_history(thread()))
        for state in states:
            assert said({"messages": [], **again.get_state(state.config).values}) == said(
                {"messages": [], **state.values}
            )

        # Back to the end of the first run, and on from there.
        end = next(s for s in states if not s.next and said(s.values) == said(first))
        other = run(way, again, question("Instead?"), end.config)
        assert said(other)[: len(first["messages"])] == said(first)
        assert [m.text for m in other["messages"]][len(first["messages"]) :][:2] == ["Instead?", "Another."]
        assert said(again.get_state(thread()).values) == said(other)
        assert said(again.get_state(states[0].config).values) == said(done)


@pytest.mark.parametrize("channel", CHANNELS, ids=["add_messages", "ours"])
@both_ways
def test_a_loop_that_keeps_its_state_between_calls(channel: Any, way: Way) -> None:
    saver = InMemorySaver()
    graph = nest(ScriptedModel(replies=["One.", "Two.", "Three."]), channel, saver, own=True)
    for text in ("First?", "Second?", "Third?"):
        live = run(way, graph, question(text), thread())
        assert said(graph.get_state(thread()).values) == said(live)
    assert [m.text for m in live["messages"] if m.type == "ai"] == ["One.", "Two.", "Three."]


@both_ways
def test_removals_and_overwrites_within_reach_the_graph_above(way: Way) -> None:
    class State(TypedDict):
        messages: Messages

    def shorten(state: State) -> Any:
        return {"messages": [RemoveMessage(id=str(state["messages"][0].id)), AIMessage("short", id="s")]}

    def replace(state: State) -> Any:
        return {"messages": Overwrite([("user", "only this")])}

    inner = StateGraph(State).add_node("shorten", shorten).add_edge(START, "shorten").compile()
    saver = InMemorySaver()
    graph = (
        StateGraph(State)
        .add_node("inner", inner)
        .add_node("replace", replace)
        .add_edge(START, "inner")
        .add_edge("inner", "replace")
        .compile(checkpointer=saver)
    )
    live = run(way, graph, {"messages": [("user", "a"), ("user", "b")]}, thread())
    assert [m.text for m in live["messages"]] == ["only this"]
    assert said(graph.get_state(thread()).values) == said(live)
    live = run(way, graph, {"messages": [("user", "c")]}, thread())
    assert said(graph.get_state(thread()).values) == said(live)
