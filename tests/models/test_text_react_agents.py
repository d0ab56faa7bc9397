"""``TextReAct`` where chat models are used: LangChain's agent, a LangGraph graph of one's own, and our loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel
from text_support import ACTION, ANSWER, RAMBLING, Completions, lookup, send

from taograph import create_react_graph, stream_steps
from taograph.models import ScriptedModel, TextReAct

QUESTION = {"messages": [("user", "Where is Ada?")]}
both_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


def run(way: str, graph: Any, given: Any = QUESTION) -> dict[str, Any]:
    return graph.invoke(given) if way == "invoke" else asyncio.run(graph.ainvoke(given))


def kinds(messages: list[BaseMessage]) -> list[str]:
    return [message.type for message in messages]


class Page(BaseModel):
    """Where it stands."""

    number: int


@both_ways
@pytest.mark.parametrize("inner", [ScriptedModel, Completions])
def test_in_langchains_agent(way: str, inner: type) -> None:
    model = inner(replies=[RAMBLING, ANSWER])
    agent = create_agent(TextReAct(model), [lookup], system_prompt="Be brief.")
    messages = run(way, agent)["messages"]
    assert kinds(messages) == ["human", "ai", "tool", "ai"]
    assert messages[2].content == "Ada is on page 3."
    assert messages[-1].content == "Ada is\non page 3."
    assert "nowhere" not in str(messages).lower(), "what the model made up is not in the history"


def test_the_second_request_shows_the_first_step_as_text() -> None:
    inner = ScriptedModel(replies=[ACTION, ANSWER])
    create_agent(TextReAct(inner), [lookup], system_prompt="Be brief.").invoke(QUESTION)
    first, second = (request.messages for request in inner.requests)
    assert kinds(second) == ["system", "human", "ai", "human"]
    assert second[: len(first)] == first, "the prefix stays what it was"
    assert str(second[0].content).startswith("Be brief.\n\n")
    assert second[2].content == ACTION
    assert second[3].content == "Observation: Ada is on page 3."


def test_langchains_agent_streams_thoughts_and_answers() -> None:
    agent = create_agent(TextReAct(ScriptedModel(replies=[ACTION, ANSWER])), [lookup])
    chunks = [chunk for chunk, _ in agent.stream(QUESTION, stream_mode="messages") if isinstance(chunk, AIMessageChunk)]
    thoughts = [str(c.additional_kwargs.get("reasoning_content", "")) for c in chunks]
    assert "".join(thoughts) == "I need Ada.The book says it."
    assert [c.content for c in chunks if c.content] == ["I need Ada.", "Ada", " is", "\non page 3."]


@pytest.mark.parametrize("name", ["any-model", "gpt-4o"])
def test_langchains_agent_gives_structured_answers(name: str) -> None:
    """By a tool, or, for models that LangChain knows to take a schema, in the answer."""
    last = 'Final Answer: {"number": 3}' if name == "gpt-4o" else 'Action: Page\nAction Input: {"number": 3}'
    inner = ScriptedModel(replies=[ACTION, f"Thought: I know.\n{last}"], model_name=name)
    agent = create_agent(TextReAct(inner), [lookup], response_format=Page)
    assert agent.invoke(QUESTION)["structured_response"] == Page(number=3)


@both_ways
def test_in_a_graph_of_ones_own(way: str) -> None:
    inner = ScriptedModel(replies=[ACTION, "Action: send\nAction Input: Ada", ANSWER])
    tools = [lookup, send]
    model = TextReAct(inner).bind_tools(tools)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = (
        StateGraph(MessagesState)
        .add_node("ask", ask)
        .add_node("tools", ToolNode(tools))
        .add_edge(START, "ask")
        .add_conditional_edges("ask", tools_condition)
        .add_edge("tools", "ask")
        .compile()
    )
    messages = run(way, graph)["messages"]
    assert kinds(messages) == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert [m.content for m in messages if isinstance(m, ToolMessage)] == ["Ada is on page 3.", "sent"]


@both_ways
@pytest.mark.parametrize("inner", [ScriptedModel, Completions])
def test_in_our_loop(way: str, inner: type) -> None:
    result = run(way, create_react_graph(TextReAct(inner(replies=[RAMBLING, ANSWER])), [lookup]))
    assert result["answer"] == "Ada is\non page 3."
    assert result["stop"]["reason"] == "final"
    assert result["spent"]["tool_calls"] == 1
    assert kinds(result["messages"]) == ["human", "ai", "tool", "ai"]


def test_our_loop_tells_thoughts_once() -> None:
    graph = create_react_graph(TextReAct(ScriptedModel(replies=[ACTION, ANSWER])), [lookup])
    events: list[Any] = list(stream_steps(graph, QUESTION))
    assert [e["text"] for e in events if e["type"] == "thought"] == ["I need Ada.", "The book says it."]
    assert [e["text"] for e in events if e["type"] == "answer"] == ["Ada is\non page 3."]


def test_our_loop_counts_what_cannot_be_read_itself() -> None:
    inner = ScriptedModel(replies=["Thought: hm", ANSWER], usage=(30, 4))
    result = create_react_graph(TextReAct(inner), [lookup]).invoke(QUESTION)
    assert result["answer"] == "Ada is\non page 3."
    assert result["spent"]["model_calls"] == 2, "each request is one of the loop's own"


def test_a_history_of_native_calls_can_go_on_in_text() -> None:
    call = {"name": "lookup", "args": {"name": "Bo"}, "id": "1"}
    other = {"name": "lookup", "args": {"name": "Cy"}, "id": "2"}
    history = [
        HumanMessage("Where are Bo and Cy?"),
        AIMessage("Both at once.", tool_calls=[call, other]),
        ToolMessage("on page 2", tool_call_id="2"),
        ToolMessage("on page 1", tool_call_id="1"),
    ]
    inner = ScriptedModel(replies=[ANSWER])
    TextReAct(inner).bind_tools([lookup]).invoke(history)
    shown = [str(message.content) for message in inner.requests[0].messages[1:]]
    assert shown == [
        "Where are Bo and Cy?",
        'Thought: Both at once.\nAction: lookup\nAction Input: {"name": "Bo"}',
        "Observation: on page 1",
        'Action: lookup\nAction Input: {"name": "Cy"}',
        "Observation: on page 2",
    ]
