"""A recorded run as OTLP: what a collector makes of it."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from recording_support import QUESTION, asks, broken, look, pay, says

from taograph import create_react_graph, trace
from taograph.graphs import STRATEGIES
from taograph.models import call
from taograph.trace import open_store
from taograph.trace.exporting import FORMATS
from taograph.trace.reading import runs
from taograph.trace.redaction import Redactor
from taograph.trace.retention import erase

pytest.importorskip("opentelemetry.proto", reason="needs taograph[otel]")

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_support import Told, told, tree

IDS = ("traceId", "spanId", "parentSpanId")


@pytest.fixture
def where(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/traces.db"


def exported(where: str) -> str:
    """What is recorded there, as text."""
    for writer in trace._writers.values():
        writer.flush()
    store = open_store(where)
    try:
        return "".join(part for run in runs(store) for part in FORMATS["otel"](store, run))
    finally:
        store.close()


def spans(text: str) -> list[Told]:
    """The spans, as a collector reads them: by OTLP's own schema, which knows no other field."""
    found: list[Told] = []
    for line in text.splitlines():
        request = ExportTraceServiceRequest()
        json_format.Parse(json.dumps(_in_base64(json.loads(line))), request)
        found += told(request)
    return sorted(found, key=lambda span: span.began)


def _in_base64(value: Any) -> Any:
    """OTLP writes ids in hex, where JSON of protobuf has base64."""
    if isinstance(value, dict):
        return {
            key: b64encode(bytes.fromhex(inner)).decode() if key in IDS else _in_base64(inner)
            for key, inner in value.items()
        }
    return [_in_base64(each) for each in value] if isinstance(value, list) else value


def record(where: str, *replies: Any, **more: Any) -> Any:
    graph = create_react_graph(says(*replies), [look, broken, pay], **more)
    return trace.record(graph, to=where, redactor=Redactor())


BOTH = AIMessage("I look", tool_calls=[call("look", {"name": "a"}, id="a"), call("broken", {"name": "b"}, id="b")])


def test_a_run_becomes_spans_that_nest(where: str) -> None:
    record(where, BOTH, "The answer").invoke(QUESTION, {"configurable": {"thread_id": "t1"}})
    found = spans(exported(where))
    ((root, below),) = tree(found)
    assert root == "react"
    assert sorted(below) == ["chat scripted", "chat scripted", "execute_tool broken", "execute_tool look"]
    graph = next(span for span in found if span.parent is None)
    assert len({span.trace for span in found}) == 1
    assert (graph.attributes["gen_ai.operation.name"], graph.attributes["gen_ai.conversation.id"]) == (
        "invoke_agent",
        "t1",
    )
    assert (graph.attributes["taograph.stop_reason"], graph.attributes["output.value"]) == ("final", "The answer")
    assert {"thought", "stop", "answer"} <= {name for name, _ in graph.events}
    assert all(graph.began <= span.began <= span.ended <= graph.ended for span in found)


def test_calls_of_models_and_tools_have_their_attributes(where: str) -> None:
    record(where, BOTH, "The answer").invoke(QUESTION)
    found = spans(exported(where))
    first = next(span for span in found if span.name == "chat scripted")
    assert first.attributes["gen_ai.usage.input_tokens"] == 10
    assert first.attributes["gen_ai.usage.output_tokens"] == 2
    (reply,) = first.json("gen_ai.output.messages")
    assert [part.get("name") for part in reply["parts"]] == [None, "look", "broken"]
    look_span = next(span for span in found if span.name == "execute_tool look")
    assert look_span.json("gen_ai.tool.call.arguments") == {"name": "a"}
    assert look_span.attributes["gen_ai.tool.call.result"] == "saw a"
    assert [span.name for span in found if span.status == "ERROR"] == ["execute_tool broken"]
    failed = next(span for span in found if span.status == "ERROR")
    assert failed.said == "RuntimeError: internal trouble"


def test_sub_runs_stand_within_the_run(where: str) -> None:
    graph = STRATEGIES["reflexion"](says("The answer"), [look], evaluate=lambda *judged: True)
    trace.record(graph, to=where).invoke(QUESTION)
    ((root, (inner,)),) = tree(spans(exported(where)))
    assert root == "reflexion"
    assert inner[1] == ["chat scripted"]


def test_it_is_the_same_each_time(where: str) -> None:
    record(where, BOTH, "The answer").invoke(QUESTION)
    assert exported(where) == exported(where)


def test_a_run_that_went_on_after_an_approval_is_one_request(where: str) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    graph = record(where, asks("Ada", tool="pay"), "Paid.", approve=["pay"], checkpointer=InMemorySaver())
    config: dict[str, Any] = {"configurable": {"thread_id": "t1"}}
    (waiting,) = graph.invoke(QUESTION, config)["__interrupt__"]
    graph.invoke(Command(resume={waiting.id: "approve"}), config)
    text = exported(where)
    found = spans(text)
    assert len(text.splitlines()) == 1
    assert len({span.trace for span in found}) == 2
    assert len({span.attributes["taograph.run"] for span in found if span.parent is None}) == 1


def test_what_was_taken_out_stays_out(where: str) -> None:
    given = {"messages": [("user", "I am anna@example.com, key sk-proj-a1b2c3d4e5f6g7h8i9j0")]}
    record(where, asks("anna@example.com"), "Write to anna@example.com").invoke(given)
    text = exported(where)
    assert "anna@example.com" not in text
    assert "sk-proj-a1b2" not in text
    assert "<EMAIL>" in text


def test_what_was_erased_or_never_recorded(where: str) -> None:
    graph = create_react_graph(says(BOTH, "The answer"), [look, broken])
    trace.record(graph, to=where, content=False).invoke(QUESTION, {"configurable": {"thread_id": "t1"}})
    text = exported(where)
    assert "The answer" not in text
    assert spans(text)[0].name == "react"
    store = open_store(where)
    erase(store, thread="t1")
    store.close()
    for writer in trace._writers.values():
        writer.close()
    assert "internal trouble" not in exported(where)
    assert spans(exported(where))
