"""What LangSmith is sent by its own client, to a server that runs here."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import langsmith.utils
import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage
from langsmith import run_trees
from langsmith.env import get_langchain_env_var_metadata
from recording_support import QUESTION, asks, broken, look, says

from taograph import Limits, create_react_graph, tool
from taograph.graphs import STRATEGIES
from taograph.models import call
from taograph.trace import otel_labels, telemetry

pytest.importorskip("opentelemetry.proto", reason="needs taograph[otel]")

from otel_support import Collector, Server

PROJECT = "00000000-0000-0000-0000-000000000001"
INFO = {
    "version": "0.13.0",
    "batch_ingest_config": {
        "use_multipart_endpoint": False,
        "size_limit": 100,
        "size_limit_bytes": 20_000_000,
        "scale_up_nthreads_limit": 4,
        "scale_up_qsize_trigger": 1000,
    },
}
EMAIL, KEY = "anna.kowalska@example.com", "sk-proj-a1b2c3d4e5f6g7h8i9j0"
THREAD: dict[str, Any] = {"configurable": {"thread_id": "t1"}}


class LangSmith(Server):
    """What of LangSmith's server the client asks for."""

    def reply(self, path: str) -> tuple[str, bytes]:
        about: dict[str, Any] = {"id": PROJECT, "tenant_id": PROJECT, "name": "shop", "reference_dataset_id": None}
        about |= {"start_time": "2026-01-01T00:00:00"}
        found = INFO if path.endswith("/info") else [about] if "/sessions" in path else {}
        return "application/json", json.dumps(found).encode()

    def runs(self) -> dict[str, dict[str, Any]]:
        """The runs by their names, as they were in the end."""
        made: dict[str, dict[str, Any]] = {}
        for line, _, body in self.requests:
            if line == "POST /runs/batch":
                batch = json.loads(body)
                for run in (*batch.get("post", ()), *batch.get("patch", ())):
                    made.setdefault(run["id"], {}).update(run)
        return {run["name"]: run for run in made.values()}

    def feedback(self) -> dict[str, dict[str, Any]]:
        """What was given as feedback, by its key."""
        given = [json.loads(body) for line, _, body in self.requests if line == "POST /feedback"]
        return {each["key"]: each for each in given}


def sent() -> None:
    """Wait until the client has sent all."""
    otel_labels.wait_for_feedback(30)
    client = run_trees._CLIENT
    assert client is not None
    client.flush(timeout=10)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith(("LANGSMITH_", "LANGCHAIN_", "TAOGRAPH_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(run_trees, "_CLIENT", None)
    forget()
    yield
    client = run_trees._CLIENT
    if client is not None:
        client.cleanup()
    telemetry.disable()
    telemetry._said.clear()
    telemetry._once.said = False
    forget()


def forget() -> None:
    """What the client remembers of its variables."""
    langsmith.utils.get_env_var.cache_clear()
    langsmith.utils.get_tracer_project.cache_clear()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmith]:
    """A server that LangSmith's variables name."""
    with LangSmith() as started:
        configure(monkeypatch, started.url)
        yield started


def configure(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_pt_0123456789abcdef")
    monkeypatch.setenv("LANGSMITH_PROJECT", "shop")


def test_a_run_is_easy_to_find(server: LangSmith) -> None:
    create_react_graph(says(asks("a"), "The answer"), [look], limits=Limits(steps=7)).invoke(QUESTION, THREAD)
    sent()
    runs = server.runs()
    graph = runs["react"]
    assert graph["session_name"] == "shop"
    assert {"react", "native", "final"} <= set(graph["tags"])
    about = graph["extra"]["metadata"]
    assert about["thread_id"] == "t1"
    assert about["taograph_stop_reason"] == "final"
    assert about["taograph_limits"]["steps"] == 7
    assert about["taograph_spent"]["model_calls"] == 2
    assert about["taograph_run"]
    assert runs["look"]["trace_id"] == graph["id"]
    assert runs["ScriptedModel"]["run_type"] == "llm"
    assert server.feedback() == {}


async def test_an_async_run_and_one_that_was_stopped(server: LangSmith) -> None:
    graph = create_react_graph(says(asks("a"), "Not all of it"), [look], limits=Limits(steps=1), name="clerk")
    await graph.ainvoke(QUESTION, THREAD)
    sent()
    told = server.runs()["clerk"]
    assert {"react", "native", "step_limit"} <= set(told["tags"])
    assert told["extra"]["metadata"]["taograph_stop_reason"] == "step_limit"


def test_a_graph_within_a_graph_has_labels_of_its_own(server: LangSmith) -> None:
    STRATEGIES["reflexion"](says("The answer"), [look], evaluate=lambda *judged: True).invoke(QUESTION, THREAD)
    sent()
    runs = server.runs()
    assert "reflexion" in runs["reflexion"]["tags"]
    assert runs["react"]["extra"]["metadata"]["taograph_stop_reason"] == "final"
    assert runs["react"]["trace_id"] == runs["reflexion"]["id"]


def test_feedback_is_given_where_it_is_asked_for(server: LangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_LANGSMITH_FEEDBACK", "1")
    create_react_graph(says(asks("a"), "Not all of it"), [look], limits=Limits(steps=1)).invoke(QUESTION, THREAD)
    sent()
    given = server.feedback()
    assert given["answered"]["score"] == 0
    assert given["stop_reason"]["value"] == "step_limit"
    assert given["steps"]["score"] == 1
    assert {each["trace_id"] for each in given.values()} == {server.runs()["react"]["id"]}
    assert {each["session_id"] for each in given.values()} == {PROJECT}


@tool(effects="none")
def leaks(name: str) -> str:
    """Fail.

    Args:
        name: Anything.
    """
    raise RuntimeError(f"no access for {EMAIL} with api_key={KEY}")


def test_what_it_is_sent_is_redacted(server: LangSmith) -> None:
    replies = [AIMessage("", tool_calls=[call("leaks", {"name": EMAIL}, id="a")]), f"Ask {EMAIL}; key {KEY}"]
    given = {"messages": [("user", f"I am {EMAIL}, my key is {KEY}")]}
    # As functions: the client sends how the model is written, too, and this one is written with its replies.
    model = says(*[lambda messages, reply=reply: reply for reply in replies])
    create_react_graph(model, [leaks]).invoke(given, THREAD)
    sent()
    assert server.runs()["leaks"]["error"].startswith("RuntimeError('no access for <EMAIL>")
    assert EMAIL.encode() not in server.bytes
    assert KEY.encode() not in server.bytes


def test_content_can_stay_at_home(server: LangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_TRACE_CONTENT", "0")
    create_react_graph(says(lambda messages: "A rare word: quokka"), []).invoke(
        {"messages": [("user", "axolotl")]}, THREAD
    )
    sent()
    assert {"react", "native"} <= set(server.runs()["react"]["tags"])
    assert b"quokka" not in server.bytes
    assert b"axolotl" not in server.bytes


async def test_nothing_blocks_the_event_loop(server: LangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_LANGSMITH_FEEDBACK", "1")
    get_langchain_env_var_metadata.cache_clear()
    with Collector() as collector:
        monkeypatch.setenv("TAOGRAPH_OTEL", "1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        graph = create_react_graph(says(asks("b", tool="fails"), f"Ask {EMAIL}"), [fails])
        with blockbuster_ctx():
            assert (await graph.ainvoke(QUESTION, THREAD))["stop"]["reason"] == "final"
        telemetry.flush()
        spans = {span.name for span in collector.spans}
    sent()
    assert spans == set(server.runs()) == {"react", "reason", "act", "ScriptedModel", "fails"}
    assert server.runs()["fails"]["error"].startswith("RuntimeError('no access for <EMAIL>')")
    assert set(server.feedback()) == {"answered", "stop_reason", "steps"}


@tool(effects="none")
async def fails(name: str) -> str:
    """Fail.

    Args:
        name: Anything.
    """
    raise RuntimeError(f"no access for {EMAIL}")


@pytest.mark.slow  # the client tries for long
def test_a_server_that_is_down_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        configure(monkeypatch, f"http://127.0.0.1:{reserved.getsockname()[1]}")
        for _ in range(2):
            assert create_react_graph(says(asks("b", tool="broken"), "The answer"), [broken]).invoke(QUESTION)
            sent()
    said = [each.getMessage() for each in caplog.records if each.name.startswith("langsmith")]
    assert len([text for text in said if text.startswith("Failed to")]) == 1
    assert not [text for text in said if "lsv2_pt_0123456789abcdef" in text]


@pytest.mark.parametrize("value", [None, "false"])
def test_nothing_is_sent_unless_langsmiths_variables_say_so(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        tried.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_pt_0123456789abcdef")
    if value is not None:
        monkeypatch.setenv("LANGSMITH_TRACING", value)
    assert create_react_graph(says("The answer"), []).invoke(QUESTION)["answer"] == "The answer"
    assert tried == []
    assert run_trees._CLIENT is None


def test_a_wrong_variable_of_ours_is_told_and_fails_no_run(
    server: LangSmith, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TAOGRAPH_TRACE_DAYS", "soon")
    with caplog.at_level(logging.WARNING, "taograph.telemetry"):
        for _ in range(2):
            assert create_react_graph(says("The answer"), []).invoke(QUESTION)["answer"] == "The answer"
    told = [each.getMessage() for each in caplog.records if each.name == "taograph.telemetry"]
    assert len(told) == 1
    assert told[0].startswith("what LangSmith is sent is not labeled: TAOGRAPH_TRACE_DAYS='soon'")
    sent()  # the client tries for long where the server has gone
