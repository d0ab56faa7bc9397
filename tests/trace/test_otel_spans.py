"""Runs as spans, at a collector that runs here: how they nest, what they say, what never leaves."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from recording_support import QUESTION, broken, look, says

from taograph import create_react_graph, tool
from taograph.graphs import STRATEGIES
from taograph.models import ScriptedModel, call
from taograph.trace import Settings, telemetry
from taograph.trace.redaction import Redactor

pytest.importorskip("openinference.instrumentation.langchain", reason="needs taograph[otel]")

from otel_support import Collector, Told, tree

EMAIL, PHONE, IBAN = "anna.kowalska@example.com", "+48 512 345 678", "DE89370400440532013000"
KEY = "sk-proj-a1b2c3d4e5f6g7h8i9j0"
THREAD: dict[str, Any] = {"configurable": {"thread_id": "t1"}}


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    telemetry.disable()
    telemetry._said.clear()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server


def sent(collector: Collector, graph: Any, given: Any = QUESTION, **options: Any) -> list[Told]:
    """The spans of a run."""
    assert telemetry.enable(endpoint=f"{collector.url}/v1/traces", **options)
    graph.invoke(given, THREAD)
    telemetry.flush()
    return collector.spans


def named(spans: list[Told], name: str) -> Told:
    return next(span for span in spans if span.name == name)


def two_tools() -> Any:
    both = AIMessage("I look", tool_calls=[call("look", {"name": "a"}, id="a"), call("broken", {"name": "b"}, id="b")])
    return create_react_graph(says(both, "The answer"), [look, broken])


LOOP = ["react", [["reason", ["ScriptedModel"]], ["act", ["look"]], ["act", ["broken"]], ["reason", ["ScriptedModel"]]]]


def test_a_run_is_one_trace_that_nests_as_the_graph_does(collector: Collector) -> None:
    spans = sent(collector, two_tools())
    assert sorted(map(str, tree(spans)[0][1])) == sorted(map(str, LOOP[1]))
    assert len({span.trace for span in spans}) == 1
    assert all(span.began <= span.ended for span in spans)


async def test_an_async_run_nests_alike(collector: Collector) -> None:
    assert telemetry.enable(endpoint=f"{collector.url}/v1/traces")
    await two_tools().ainvoke(QUESTION, THREAD)
    telemetry.flush()
    assert sorted(map(str, tree(collector.spans)[0][1])) == sorted(map(str, LOOP[1]))
    assert len({span.trace for span in collector.spans}) == 1


def test_a_model_call_has_the_attributes_of_the_genai_conventions(collector: Collector) -> None:
    model = named(sent(collector, two_tools()), "ScriptedModel").attributes
    assert model["gen_ai.operation.name"] == "chat"
    assert model["gen_ai.request.model"] == "scripted"
    assert model["gen_ai.provider.name"] == "scriptedmodel"
    assert (model["gen_ai.usage.input_tokens"], model["gen_ai.usage.output_tokens"]) == (10, 2)
    assert model["gen_ai.conversation.id"] == "t1"
    assert json.loads(model["gen_ai.input.messages"])[0]["parts"][0]["content"] == "What is in a and b?"
    (reply,) = json.loads(model["gen_ai.output.messages"])
    assert [part.get("name") for part in reply["parts"]] == [None, "look", "broken"]
    assert model["openinference.span.kind"] == "LLM"
    assert model["llm.token_count.total"] == 12


def test_the_graph_is_an_agent_that_says_how_it_ended(collector: Collector) -> None:
    graph = named(sent(collector, two_tools()), "react").attributes
    assert graph["openinference.span.kind"] == "AGENT"
    assert graph["gen_ai.operation.name"] == "invoke_agent"
    assert graph["gen_ai.agent.name"] == "react"
    assert graph["taograph.strategy"] == "react"
    assert graph["taograph.protocol"] == "native"
    assert graph["taograph.stop_reason"] == "final"
    assert graph["taograph.limits.steps"] == 15
    assert graph["taograph.spent.model_calls"] == 2
    assert graph["taograph.run"]


def test_a_tool_that_fails_is_an_error(collector: Collector) -> None:
    spans = sent(collector, two_tools())
    bad = named(spans, "broken")
    assert (bad.status, bad.said) == ("ERROR", "RuntimeError('internal trouble')")
    ((event, told),) = bad.events
    assert (event, told["exception.type"], told["exception.message"]) == (
        "exception",
        "RuntimeError",
        "internal trouble",
    )
    assert bad.attributes["gen_ai.operation.name"] == "execute_tool"
    assert [span.name for span in spans if span.status != "OK"] == ["broken"]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_sub_runs_stand_within_the_run(collector: Collector, way: str) -> None:
    replies = ["Answer: 7", "Answer: 8", "Answer: 7"]
    graph = STRATEGIES["self_consistency"](says(*replies), samples=3)
    assert telemetry.enable(endpoint=f"{collector.url}/v1/traces")
    if way == "sync":
        graph.invoke(QUESTION)
    else:
        await graph.ainvoke(QUESTION)
    telemetry.flush()
    spans = collector.spans
    by_id = {span.id: span for span in spans}
    assert len({span.trace for span in spans}) == 1
    assert [span.name for span in spans if span.parent is None] == ["self_consistency"]
    models = [span for span in spans if span.name == "ScriptedModel"]
    assert len(models) == 3
    nodes = {span.parent for span in models}
    assert len(nodes) == 3, "each sample is a step of its own"
    assert {by_id[str(node)].parent for node in nodes} == {spans[0].id}


def test_a_graph_within_a_graph_says_what_it_is(collector: Collector) -> None:
    graph = STRATEGIES["reflexion"](says("The loop answers"), [look], evaluate=lambda *judged: True)
    spans = sent(collector, graph)
    outer, inner = (span for span in spans if span.attributes["openinference.span.kind"] == "AGENT")
    by_id = {span.id: span for span in spans}
    assert outer.parent is None
    assert by_id[str(inner.parent)].parent == outer.id
    assert (outer.attributes["taograph.strategy"], inner.attributes["taograph.stop_reason"]) == ("reflexion", "final")


# What never leaves


@tool(effects="none")
def read_file(name: str) -> str:
    """Read a file.

    Args:
        name: Which.
    """
    return f"owner: {EMAIL}, phone {PHONE}; api_key={KEY}"


@tool(effects="none")
def fails_loudly(name: str) -> str:
    """Fail.

    Args:
        name: Anything.
    """
    raise RuntimeError(f"401 for {EMAIL} with Authorization: Bearer {KEY}")


def leaky() -> Any:
    calls = [
        call("read_file", {"name": f"/home/{EMAIL}"}, id="a"),
        call("fails_loudly", {"name": f"{IBAN} password: hunter2hunter2"}, id="b"),
    ]
    replies = [AIMessage(f"I think of {EMAIL}", tool_calls=calls), f"Mail {EMAIL} or call {PHONE}. Key {KEY}"]
    return create_react_graph(says(*replies), [read_file, fails_loudly], system_prompt=f"The key is {KEY}.")


PLANTED: dict[str, Any] = {"messages": [("user", f"My IBAN is {IBAN}, my mail {EMAIL}; the key: {KEY}")]}
PERSONAL = (EMAIL, "anna.kowalska", "512 345 678", IBAN)


def test_secrets_and_personal_data_do_not_leave(collector: Collector) -> None:
    spans = sent(collector, leaky(), PLANTED)
    everything = collector.bytes
    assert [one for one in (*PERSONAL, KEY, "hunter2hunter2") if one.encode() in everything] == []
    assert "<EMAIL>" in named(spans, "ScriptedModel").attributes["gen_ai.input.messages"]
    assert "<EMAIL>" in named(spans, "fails_loudly").said
    assert "<EMAIL>" in named(spans, "fails_loudly").events[0][1]["exception.stacktrace"]


def test_without_a_redactor_secrets_are_taken_out_all_the_same(collector: Collector) -> None:
    sent(collector, leaky(), PLANTED, settings=Settings())
    assert KEY.encode() not in collector.bytes
    assert b"hunter2hunter2" not in collector.bytes
    assert EMAIL.encode() in collector.bytes


SECRETS = [
    "sk-ant-api03-a1b2c3d4e5f6g7h8",
    "ghp_0123456789abcdefghij",
    "AKIA0123456789ABCDEF",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "lsv2_pt_0123456789abcdef",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_each_kind_of_secret(collector: Collector, secret: str) -> None:
    graph = create_react_graph(says(f"It is {secret}"), [])
    sent(collector, graph, {"messages": [("user", f"Keep this: {secret}")]}, settings=Settings())
    assert secret.encode() not in collector.bytes
    assert collector.spans


def test_content_stays_at_home_where_it_is_to(collector: Collector) -> None:
    spans = sent(collector, leaky(), PLANTED, settings=Settings(redactor=Redactor(), content=False))
    texts = [*PERSONAL, KEY, "I think of", "My IBAN", "The key is", "owner:", "Mail ", "401 for", "read a file"]
    assert [text for text in texts if text.encode() in collector.bytes] == []
    model = named(spans, "ScriptedModel").attributes
    assert model["gen_ai.request.model"] == "scripted"
    assert model["gen_ai.usage.input_tokens"] == 10
    assert named(spans, "react").attributes["taograph.stop_reason"] == "final"
    bad = named(spans, "fails_loudly")
    assert (bad.status, bad.said) == ("ERROR", "")
    assert bad.events[0][1]["exception.type"] == "RuntimeError"


def test_a_redactor_that_fails_lets_nothing_out(collector: Collector) -> None:
    def redactor(value: Any) -> Any:
        raise RuntimeError("broken")

    sent(collector, leaky(), PLANTED, settings=Settings(redactor=redactor))
    assert [one for one in (*PERSONAL, KEY, "I think of") if one.encode() in collector.bytes] == []


# The application's own provider


def app_provider() -> tuple[Any, Any]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_the_provider_of_the_application_is_used_and_nested_in() -> None:
    provider, exporter = app_provider()
    assert telemetry.enable(provider=provider)
    with provider.get_tracer("app").start_as_current_span("request"):
        leaky().invoke(PLANTED)
    spans = exporter.get_finished_spans()
    request = next(span for span in spans if span.name == "request")
    graph = next(span for span in spans if span.name == "react")
    assert graph.parent is not None
    assert graph.parent.span_id == request.context.span_id
    assert graph.attributes["openinference.span.kind"] == "AGENT"
    written = "".join(span.to_json() for span in spans)
    assert [one for one in (*PERSONAL, KEY, "hunter2hunter2") if one in written] == []
    assert "<EMAIL>" in written
    assert [span.name for span in spans if not span.status.is_ok] == ["fails_loudly"]


def test_a_second_call_changes_nothing(collector: Collector) -> None:
    assert telemetry.enable(endpoint=f"{collector.url}/v1/traces")
    assert telemetry.enable(endpoint="http://127.0.0.1:9/v1/traces")
    create_react_graph(ScriptedModel(replies=["The answer"]), []).invoke(QUESTION)
    telemetry.flush()
    assert len(collector.spans) == 3


def test_who_makes_spans_already_is_not_doubled(caplog: pytest.LogCaptureFixture) -> None:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    provider, exporter = app_provider()
    LangChainInstrumentor().instrument(tracer_provider=provider)
    try:
        with caplog.at_level(logging.WARNING, "taograph.telemetry"):
            assert not telemetry.enable(provider=provider)
            assert not telemetry.enable(provider=provider)
        create_react_graph(ScriptedModel(replies=["The answer"]), []).invoke(QUESTION)
    finally:
        LangChainInstrumentor().uninstrument()
    assert len(exporter.get_finished_spans()) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "no spans are made: the application has OpenInference make them already, without our redaction"
    ]
