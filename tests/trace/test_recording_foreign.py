"""What is recorded of graphs and chains that are not ours, and tell nothing of their steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from recording_support import QUESTION, Recorded, asks, broken, content, look, of_type, recorded, says, told

__all__ = ["recorded"]

create_agent = pytest.importorskip("langchain.agents", reason="needs langchain").create_agent
LOOP = [
    "0 run_started",
    "1 model_asked",
    "1 model_replied",
    "1 thought",
    "1 action look",
    "1 action look",
    "1 observation look",
    "1 observation look",
    "2 model_asked",
    "2 model_replied",
    "2 answer",
    "0 run_ended ended",
]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
def test_create_agent(recorded: Recorded, way: str) -> None:
    graph = recorded.of(create_agent(says(asks("a", "b", text="I look at both."), "Both are there."), [look]))
    if way == "invoke":
        graph.invoke(QUESTION)
    elif way == "stream":
        list(graph.stream(QUESTION, stream_mode="messages"))
    else:
        asyncio.run(graph.ainvoke(QUESTION))
    found = recorded.one()
    assert told(found) == LOOP
    assert {content(e)["run"] for e in found} == {found[0].trace}, "it has no runs of its own"
    assert [a["id"] for a in of_type(found, "action")] == ["a", "b"]
    assert {o["id"]: o["text"] for o in of_type(found, "observation")} == {"a": "saw a", "b": "saw b"}
    assert of_type(found, "answer")[0]["text"] == "Both are there."
    assert content(found[-1])["tool_calls"] == 2
    assert of_type(found, "model_asked")[0]["tools"] == ["look"]


def test_a_tool_that_there_is_none_of(recorded: Recorded) -> None:
    recorded.of(create_agent(says(asks("a", tool="nope"), "Well."), [look])).invoke(QUESTION)
    found = recorded.one()
    assert told(found)[3:5] == ["1 action nope", "1 observation nope"]
    assert of_type(found, "observation")[0]["status"] == "error"


def test_a_tool_that_fails(recorded: Recorded) -> None:
    with pytest.raises(RuntimeError, match="internal trouble"):
        recorded.of(create_agent(says(asks("a", tool="broken"), "Well."), [broken])).invoke(QUESTION)
    found = recorded.one()
    assert told(found)[3:] == ["1 action broken", "1 tool_failed broken", "0 run_ended failed"]
    assert content(found[-1])["error"] == "RuntimeError"


def test_a_model_in_a_node(recorded: Recorded) -> None:
    model = says("One.", "Two.")

    def node(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState).add_node("one", node).add_node("two", node)
    recorded.of(builder.add_edge(START, "one").add_edge("one", "two").compile()).invoke(QUESTION)
    found = recorded.one()
    assert told(found) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 answer",
        "2 model_asked",
        "2 model_replied",
        "2 answer",
        "0 run_ended ended",
    ]
    assert [a["text"] for a in of_type(found, "answer")] == ["One.", "Two."]


@pytest.mark.parametrize("error", [ValueError("the node broke"), KeyboardInterrupt()])
def test_a_node_that_fails(recorded: Recorded, error: BaseException) -> None:
    def node(state: Any) -> Any:
        raise error

    graph = recorded.of(StateGraph(MessagesState).add_node("one", node).add_edge(START, "one").compile())
    with pytest.raises(type(error)):
        graph.invoke(QUESTION)
    status = "failed" if isinstance(error, Exception) else "cancelled"
    assert told(recorded.one()) == ["0 run_started", f"0 run_ended {status}"]


def test_a_question_to_a_person(recorded: Recorded) -> None:
    def node(state: Any) -> Any:
        return {"messages": [("ai", interrupt({"may": "I?"}))]}

    builder = StateGraph(MessagesState).add_node("one", node).add_edge(START, "one")
    graph = recorded.of(builder.compile(checkpointer=InMemorySaver()))
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke(QUESTION, config)
    graph.invoke(Command(resume="yes"), config)
    first, second = recorded.all()
    assert told(first) == ["0 run_started", "0 approval_asked", "0 run_ended waiting"]
    assert of_type(first, "approval_asked")[0]["value"] == {"may": "I?"}
    assert told(second) == ["0 run_started", "0 run_ended ended"]
    assert content(second[0])["resumes"] is True
    assert {content(e)["thread"] for e in first + second} == {"t"}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_chain(recorded: Recorded, way: str) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{what}")])
    chain = recorded.of(prompt | says("Well.") | StrOutputParser())
    given = {"what": "What is it?"}
    answer = chain.invoke(given) if way == "invoke" else asyncio.run(chain.ainvoke(given))
    assert answer == "Well."
    found = recorded.one()
    assert told(found) == ["0 run_started", "1 model_asked", "1 model_replied", "1 answer", "0 run_ended ended"]
    assert [(m["type"], m["content"]) for m in of_type(found, "model_asked")[0]["new"]] == [
        ("system", "Be brief."),
        ("human", "What is it?"),
    ]


def test_a_model_alone(recorded: Recorded) -> None:
    recorded.of(says("Well.")).invoke("What is it?")
    assert told(recorded.one()) == [
        "0 run_started",
        "1 model_asked",
        "1 model_replied",
        "1 answer",
        "0 run_ended ended",
    ]


def test_without_content(recorded: Recorded) -> None:
    graph = create_agent(says(asks("a", text="planted thought"), "planted answer"), [look])
    recorded.of(graph, content=False, key=b"sixteen bytes ok").invoke({"messages": [("user", "planted question")]})
    store = recorded.store()
    (kept,) = store.traces()
    found = list(store.entries(kept.trace))
    assert told(found)[-1] == "0 run_ended ended"
    assert "planted" not in str([e.content for e in found])
    assert "saw a" not in str([e.content for e in found])
    assert of_type(found, "observation")[0]["size"] == 5
    store.close()
