"""The JSON Schema of an exported event: every event of recorded runs is by it, and it names what there is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command

from taograph import create_react_graph, tool, trace
from taograph.graphs import STRATEGIES
from taograph.models import ScriptedModel, call
from taograph.trace import Recorder, open_store
from taograph.trace.events import EVENT_TYPES, FIELDS, Content
from taograph.trace.exporting import event_dict, schema

QUESTION: dict[str, Any] = {"messages": [("user", "What is 2+2?")]}


@tool(effects="none")
def look(x: int) -> str:
    """Look.

    Args:
        x: Where.
    """
    if x < 0:
        raise RuntimeError("not there")
    return "x" * x


@tool(effects="once")
def send(to: str) -> str:
    """Send a letter.

    Args:
        to: To whom.
    """
    return f"sent to {to}"


def script(*replies: Any) -> ScriptedModel:
    return ScriptedModel(replies=list(replies), usage=(30, 4))


LOOKS = AIMessage("I look.", tool_calls=[call("look", {"x": 1}), call("look", {"x": -1}), call("nothing", {})])
SENDS = AIMessage("I send.", tool_calls=[call("send", {"to": "Ada"})])


@pytest.fixture
def valid() -> Draft202012Validator:
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/traces.db"


def exported(url: str) -> Iterator[dict[str, Any]]:
    for writer in trace._writers.values():
        writer.flush()
    store = open_store(url, read_only=True)
    for kept in store.traces():
        for event in store.entries(kept.trace):
            yield json.loads(json.dumps(event_dict(event)))
    store.close()


def types_of(url: str, valid: Draft202012Validator) -> set[str]:
    """The types of all events, each of which is by the schema."""
    found = list(exported(url))
    for event in found:
        errors = [f"{event['type']}: {error.message}" for error in valid.iter_errors(event)]
        assert not errors, [errors, event]
    return {event["type"] for event in found}


def close(handlers: Any) -> None:
    for each in handlers:
        if isinstance(each, Recorder):
            each.writer.close()


def test_it_names_exactly_the_types_and_the_fields_that_there_are() -> None:
    defined = schema()["$defs"]
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema()["properties"]["type"]["enum"] == list(EVENT_TYPES)
    chosen = [each["if"]["properties"]["type"]["const"] for each in schema()["allOf"]]
    assert chosen == list(EVENT_TYPES)
    for kind in EVENT_TYPES:
        assert list(defined[kind]["properties"]) == list(FIELDS[kind]), kind
        assert defined[kind]["unevaluatedProperties"] is False
        assert set(defined[kind]["required"]) <= FIELDS[kind].keys()
    assert set(defined["common"]["properties"]) == set(Content.__annotations__)


def test_the_page_names_exactly_these_types_and_fields() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trace.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|`]+ \| (`.*) \|$", page, re.MULTILINE)
    named = {kind: re.findall(r"`(\w+)`", fields) for kind, fields in rows}
    assert list(named) == list(EVENT_TYPES)
    for kind in EVENT_TYPES:
        assert sorted(named[kind]) == sorted(FIELDS[kind]), kind


def test_events_that_are_not_as_they_should_be_are_refused(url: str, valid: Draft202012Validator) -> None:
    trace.record(create_react_graph(script("Yes."), []), to=url).invoke(QUESTION)
    events = list(exported(url))
    answer = next(event for event in events if event["type"] == "answer")
    assert valid.is_valid(answer)
    assert valid.is_valid({**answer, "content": None, "salt": None}), "erased"
    for wrong in (
        {"type": "guess"},
        {"v": 2},
        {"seq": 0},
        {"hash": "0"},
        {"more": 1},
        {"content": {**answer["content"], "surplus": 1}},
        {"content": {name: value for name, value in answer["content"].items() if name != "spent"}},
        {"content": {**answer["content"], "step": "two"}},
    ):
        assert not valid.is_valid({**answer, **wrong}), wrong


@pytest.mark.parametrize("content", [True, False])
def test_runs_of_the_loop(url: str, valid: Draft202012Validator, content: bool) -> None:
    replies = (LOOKS, "", AIMessage("", tool_calls=[call("look", {"x": 90_000})]), SENDS, "Sent.")
    handlers = trace.handlers(url, content=content, key=b"0123456789abcdef")
    graph = create_react_graph(script(*replies), [look, send], approve="send", checkpointer=InMemorySaver())
    config: Any = {"callbacks": handlers, "configurable": {"thread_id": "t"}, "metadata": {"user_id": "u"}}
    graph.invoke(QUESTION, config)
    graph.invoke(Command(resume={"decision": "edit", "args": {"to": "Bob"}, "by": "Eve"}), config)
    assert types_of(url, valid) >= {
        "run_started",
        "model_asked",
        "model_replied",
        "thought",
        "action",
        "observation",
        "tool_failed",
        "retry",
        "approval_asked",
        "approval_answered",
        "stop",
        "answer",
        "run_ended",
    }


def test_a_structured_answer_and_a_failing_model(url: str, valid: Draft202012Validator) -> None:
    from pydantic import BaseModel

    class Sum(BaseModel):
        """A sum."""

        value: int

    made = AIMessage("", tool_calls=[call("Sum", {"value": 4})])
    graph = create_react_graph(script("Four.", made), [look], response_format=Sum)
    trace.record(graph, to=url).invoke(QUESTION)
    failing = create_react_graph(script(RuntimeError("gone")), [look])
    trace.record(failing, to=url).invoke(QUESTION)
    assert types_of(url, valid) >= {"model_failed", "answer"}
    assert any(event["content"].get("structured") == {"value": 4} for event in exported(url))


@pytest.mark.parametrize("name", STRATEGIES)
def test_runs_of_every_strategy(name: str, url: str, valid: Draft202012Validator) -> None:
    plan = json.dumps({"steps": [{"task": "Add.", "tool": "look", "args": {"x": 1}}]})
    replies = [plan, LOOKS, *["I add. The answer is 4."] * 60]
    graph = STRATEGIES[name](script(*replies), [] if name in ("direct", "self_consistency") else [look])
    trace.record(graph, to=url).invoke(QUESTION)
    assert types_of(url, valid) >= {"run_started", "model_replied", "stop", "answer", "run_ended"}


def test_runs_of_graphs_that_are_not_ours(url: str, valid: Draft202012Validator) -> None:
    agent = trace.record(
        create_agent(script(AIMessage("I look.", tool_calls=[call("look", {"x": 1})]), "Yes."), [look]), to=url
    )
    agent.invoke(QUESTION)
    asyncio.run(trace.record(create_agent(script("Yes."), []), to=url).ainvoke(QUESTION))

    def fail(state: MessagesState) -> Any:
        raise ValueError("no")

    plain = StateGraph(MessagesState).add_node("fail", fail).add_edge(START, "fail").add_edge("fail", END).compile()
    with pytest.raises(ValueError, match="no"):
        trace.record(plain, to=url).invoke(QUESTION)
    assert types_of(url, valid) == {
        "run_started",
        "model_asked",
        "model_replied",
        "thought",
        "action",
        "observation",
        "answer",
        "run_ended",
    }


def test_a_run_that_is_drained_and_gone_on_with(url: str, valid: Draft202012Validator) -> None:
    control = RunControl()

    @tool(effects="none")
    def drain() -> str:
        """Stop behind this step."""
        control.request_drain("enough")
        return "told"

    replies = (AIMessage("", tool_calls=[call("drain", {})]), "Yes.")
    graph = trace.record(create_react_graph(script(*replies), [drain], checkpointer=InMemorySaver()), to=url)
    config: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(GraphDrained):
        graph.invoke(QUESTION, config, control=control)
    assert graph.invoke(None, config)["answer"] == "Yes."
    assert types_of(url, valid) >= {"run_ended"}
    ended = [event["content"]["status"] for event in exported(url) if event["type"] == "run_ended"]
    assert ended == ["drained", "ended"]


def test_what_the_redactor_could_not_look_at(url: str, valid: Draft202012Validator) -> None:
    def redactor(value: Any) -> Any:
        raise RuntimeError("no")

    trace.record(create_react_graph(script("Yes."), []), to=url, redactor=redactor).invoke(QUESTION)
    assert "answer" in types_of(url, valid)
    assert any("withheld" in event["content"] for event in exported(url))
