"""What a database holds grows with the conversation, not with its square."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langgraph.graph import START, StateGraph, add_messages
from typing_extensions import TypedDict

from taograph import checkpoints, create_react_graph, tool
from taograph.graphs.loop.channels import Messages
from taograph.models import ScriptedModel, call

WHERE: Any = {"configurable": {"thread_id": "t"}}
TURNS = (25, 50, 100)


@tool(effects="none")
def page(number: int) -> str:
    """Read a page.

    Args:
        number: Which.
    """
    return f"Page {number}. " + "It says a few things. " * 20


def model() -> ScriptedModel:
    def reply(messages: list[BaseMessage]) -> Any:
        if messages[-1].type == "tool":
            return "It says a few things."
        return AIMessage("", tool_calls=[call("page", {"number": len(messages)})])

    return ScriptedModel(replies=[reply], repeat=True)


def plain_graph(channel: Any) -> Callable[[Any], Any]:
    """A graph of one node, to see the channel alone."""
    schema = TypedDict("schema", {"messages": channel})  # type: ignore[misc]  # noqa: UP013

    def answer(state: Any) -> Any:
        return {"messages": [("ai", "It says a few things. " * 20)]}

    builder = StateGraph(schema).add_node("answer", answer).add_edge(START, "answer")
    return lambda saver: builder.compile(checkpointer=saver)


def sizes(saver: checkpoints.Checkpoints, graph: Any) -> list[int]:
    """Bytes that the thread takes after so many turns."""
    found = []
    for turn in range(1, TURNS[-1] + 1):
        graph.invoke({"messages": [("user", "What does the next page say?")]}, WHERE)
        if turn in TURNS:
            found.append(checkpoints.threads(saver)[0].size)
    return found


def test_twice_the_conversation_takes_twice_the_bytes(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = create_react_graph(model(), [page], checkpointer=saver)
        first, second, third = sizes(saver, graph)
        messages = graph.get_state(WHERE).values["messages"]
        assert len(messages) == 4 * TURNS[-1]
    said = sum(len(saver.serde.dumps_typed(message)[1]) for message in messages)
    assert second < 2.4 * first
    assert third < 2.4 * second
    # Each message once, whole lists of at most twice of all of them, and of the rest so much a step.
    assert third < 3 * said + 5 * TURNS[-1] * 6_000


def test_langgraphs_own_channel_grows_with_the_square() -> None:
    """What the measure above would show, were it for nothing."""
    with checkpoints.open("sqlite://") as theirs, checkpoints.open("sqlite://") as ours:
        plain = sizes(theirs, plain_graph(Annotated[list[AnyMessage], add_messages])(theirs))
        linear = sizes(ours, plain_graph(Messages)(ours))
    assert plain[2] > 3.5 * plain[1] > 3.5 * 3.5 * plain[0]
    assert linear[2] < 2.4 * linear[1] < 2.4 * 2.4 * linear[0]
    assert plain[2] > 10 * linear[2]


def test_the_file_is_as_small_as_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with checkpoints.open(f"sqlite:///{path}") as saver:
        taken = sizes(saver, create_react_graph(model(), [page], checkpointer=saver))[-1]
    assert path.stat().st_size < 2 * taken


@pytest.mark.parametrize("removes", [True, False])
def test_a_list_that_stays_short_is_stored_in_full_now_and_then(removes: bool) -> None:
    """Edits of one message, or of all: what is merged at a reload stays bounded too."""
    from langchain_core.messages import RemoveMessage
    from langgraph.graph.message import REMOVE_ALL_MESSAGES

    with checkpoints.open("sqlite://") as saver:
        graph = plain_graph(Messages)(saver)
        clear = [RemoveMessage(id=REMOVE_ALL_MESSAGES)] if removes else []
        for turn in range(120):
            graph.update_state(WHERE, {"messages": [*clear, AIMessage(f"{turn}", id="same")]}, as_node="answer")
        history = saver.get_delta_channel_history(config=WHERE, channels=["messages"])
        assert len(history["messages"]["writes"]) <= 50
        assert [m.text for m in graph.get_state(WHERE).values["messages"]] == ["119"]
