"""A graph of ours within a larger one, behind a function, and within a tool."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.types import Command
from support import (
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    question,
    run,
    thread,
)
from typing_extensions import TypedDict

from taograph import Limits, checkpoints, create_react_graph, tool
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person


@tool(effects="none")
async def alookup(name: str) -> str:
    """Look a name up, the async way.

    Args:
        name: What to look up.
    """
    await asyncio.sleep(0)
    return f"{name} is in the other book."


def make_model() -> ScriptedModel:
    return ScriptedModel(
        replies=[asks("Ada", call("alookup", {"name": "Ada"}), text="Both books."), "Page 3."], usage=(50, 5)
    )


def make_graph(**options: Any) -> Any:
    return create_react_graph(make_model(), [lookup, alookup], **options)


@both_ways
def test_as_a_node_with_the_same_messages(way: Way) -> None:
    model = make_model()
    inner = create_react_graph(model, [lookup, alookup])
    outer = (
        StateGraph(MessagesState)
        .add_node("before", lambda state: {"messages": []})
        .add_node("agent", inner)
        .add_node("after", lambda state: {"messages": [("user", "Thanks.")]})
        .add_edge(START, "before")
        .add_edge("before", "agent")
        .add_edge("agent", "after")
        .add_edge("after", END)
        .compile()
    )
    result = run(way, outer, question())
    assert [m.text for m in result["messages"]][-2:] == ["Page 3.", "Thanks."]
    assert_acceptable(result["messages"])
    assert len(result["messages"]) == 6


class Outer(TypedDict, total=False):
    """A larger graph's own state, with the result of ours beside it."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    stop: Any
    spent: Any
    note: str


@both_ways
def test_as_a_node_whose_result_the_outer_state_takes(way: Way) -> None:
    outer = (
        StateGraph(Outer)
        .add_node("agent", make_graph())
        .add_node("after", lambda state: {"note": f"{state['stop']['reason']}: {state['answer']}"})
        .add_edge(START, "agent")
        .add_edge("agent", "after")
        .compile()
    )
    result = run(way, outer, {**question(), "note": ""})
    assert result["note"] == "final: Page 3."
    assert result["spent"]["model_calls"] == 2


class Case(TypedDict):
    """A state with nothing of ours in it."""

    topic: str
    finding: str


@both_ways
def test_as_a_node_behind_a_function(way: Way) -> None:
    inner = make_graph()

    def sync_node(state: Case, config: RunnableConfig) -> dict[str, Any]:
        return {"finding": inner.invoke(question(state["topic"]), config)["answer"]}

    async def async_node(state: Case, config: RunnableConfig) -> dict[str, Any]:
        return {"finding": (await inner.ainvoke(question(state["topic"]), config))["answer"]}

    outer = (
        StateGraph(Case).add_node("ask", sync_node if way == "invoke" else async_node).add_edge(START, "ask").compile()
    )
    assert run(way, outer, {"topic": "Ada"}) == {"topic": "Ada", "finding": "Page 3."}


@both_ways
@pytest.mark.parametrize("limit", range(2, 12))
def test_within_a_graph_with_a_small_recursion_limit(way: Way, limit: int) -> None:
    from support import asks_for_ever

    inner = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=20))
    outer = StateGraph(Outer).add_node("agent", inner).add_edge(START, "agent").compile()
    result = run(way, outer, question(), {"recursion_limit": limit})
    assert_ended(result, "step_limit")


@both_ways
def test_two_agents_one_after_the_other(way: Way) -> None:
    """The second goes on from what the first left in the shared messages."""
    first = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup], name="first")
    model = ScriptedModel(replies=[asks("Grace"), "And page 5."])
    second = create_react_graph(model, [lookup], name="second")
    outer = (
        StateGraph(MessagesState)
        .add_sequence([("first", first), ("second", second)])
        .add_edge(START, "first")
        .compile()
    )
    result = run(way, outer, question())
    assert_acceptable(result["messages"])
    assert result["messages"][-1].text == "And page 5."
    for request in model.requests:
        assert_acceptable(request.messages)


@both_ways
def test_an_interrupt_in_a_node_of_a_larger_graph(way: Way) -> None:
    model = ScriptedModel(replies=[asks(call("ask_person", {"question": "Which?"}), "Ada"), "That one."])
    inner = create_react_graph(model, [ask_person, lookup])
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", inner)
        .add_edge(START, "agent")
        .compile(checkpointer=InMemorySaver())
    )
    result = run(way, outer, question(), thread())
    assert result["__interrupt__"][0].value["question"] == "Which?"
    result = run(way, outer, Command(resume="the red one"), thread())
    assert_acceptable(result["messages"])
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["the red one", "Ada is in the book on page 3."]
    assert len(model.requests) == 2


@both_ways
def test_an_interrupt_in_a_graph_within_a_tool(way: Way) -> None:
    """It goes up to the outer graph and comes back to where it was: nothing is done twice."""
    inner_model = ScriptedModel(replies=[asks("Ada"), asks(call("ask_person", {"question": "Which?"})), "The red one."])
    inner = create_react_graph(inner_model, [lookup, ask_person], name="inner")

    @tool(effects="none", timeout=None)
    def research(topic: str, config: RunnableConfig) -> str:
        """Research a topic.

        Args:
            topic: What to research.
        """
        return str(inner.invoke(question(topic), config)["answer"])

    model = ScriptedModel(replies=[asks(call("research", {"topic": "x"}), "Grace"), "It is red."])
    graph = create_react_graph(model, [research, lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert result["__interrupt__"][0].value["question"] == "Which?"
    result = run(way, graph, Command(resume="red"), thread())
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == [
        "The red one.",
        "Grace is in the book on page 5.",
    ]
    assert len(inner_model.requests) == 3
    assert len(model.requests) == 2


@both_ways
def test_as_a_tool_of_another(way: Way) -> None:
    inner = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup], name="inner")

    @tool(effects="none")
    def research(topic: str, config: RunnableConfig) -> str:
        """Research a topic.

        Args:
            topic: What to research.
        """
        return str(inner.invoke(question(topic), config)["answer"])

    model = ScriptedModel(replies=[asks(call("research", {"topic": "Ada"})), "It says page 3."])
    result = run(way, create_react_graph(model, [research]), question())
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["Page 3."]
    assert result["spent"]["model_calls"] == 2


@both_ways
def test_a_tool_may_hand_over_to_the_larger_graph(way: Way) -> None:
    @tool(effects="none")
    def hand_over(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to a person."""
        return Command(
            graph=Command.PARENT,
            goto="person",
            update={
                "messages": [
                    AIMessage("", tool_calls=[call("hand_over", id=call_id)]),
                    ToolMessage("handed over", tool_call_id=call_id),
                ]
            },
        )

    inner = create_react_graph(ScriptedModel(replies=[asks(call("hand_over"))]), [hand_over])
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", inner, destinations=("person",))
        .add_node("person", lambda state: {"messages": [("ai", "A person here.")]})
        .add_edge(START, "agent")
        .compile()
    )
    result = run(way, outer, question())
    assert result["messages"][-1].text == "A person here."


def test_no_tools_may_be_written_as_none() -> None:
    result = create_react_graph(ScriptedModel(replies=["Hello."]), None).invoke(question())
    assert result["answer"] == "Hello."


@pytest.mark.parametrize("url", ["sqlite:runs.db", "sqlite:/runs.db", "runs.db", "mysql://db/runs"])
def test_a_checkpointer_is_opened_from_no_other_url(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///path"), checkpoints.open(url):
        pass
