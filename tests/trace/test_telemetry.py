"""Telemetry as it is turned on, or is not: by variables and in code, to servers that are there or are not."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI
from recording_support import QUESTION, look, says

from taograph import create_react_graph
from taograph.trace import telemetry

pytest.importorskip("openinference.instrumentation.langchain", reason="needs taograph[otel]")

from otel_support import Collector

ROOT = Path(__file__).parents[2]
_FOREIGN = ("OTEL_", "TAOGRAPH_", "LANGSMITH_", "LANGCHAIN_", "OPENAI_")


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
    yield
    telemetry.disable()
    telemetry._said.clear()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server


@pytest.fixture
def closed() -> str:
    """An address that nobody listens at."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{reserved.getsockname()[1]}"


def run() -> Any:
    return create_react_graph(says("The answer"), [look]).invoke(QUESTION)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, by anybody."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# By variables


def test_the_standard_variables_say_where_to(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_OTEL", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=graphs")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,openinference.project.name=shop")
    run()
    telemetry.flush()
    assert [span.name for span in collector.spans] == ["react", "reason", "ScriptedModel"]
    assert collector.requests[0][1]["x-team"] == "graphs"
    assert collector.spans[0].resource["service.name"] == "shop"
    assert collector.spans[0].resource["openinference.project.name"] == "shop"


def test_content_and_redaction_follow_the_variables_of_the_trace(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAOGRAPH_OTEL", "1")
    monkeypatch.setenv("TAOGRAPH_TRACE_CONTENT", "0")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
    run()
    telemetry.flush()
    assert collector.spans
    assert b"The answer" not in collector.bytes


@pytest.mark.parametrize("said", [None, "", "0", "off", "false"])
def test_nothing_is_on_unless_it_is_asked_for(
    said: str | None, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said is not None:
        monkeypatch.setenv("TAOGRAPH_OTEL", said)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    run()
    telemetry.flush()
    assert collector.requests == []
    assert not telemetry._state.on


def test_without_variables_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        tried.append(address)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    assert run()["answer"] == "The answer"
    assert tried == []


def test_the_command_sends_spans_before_it_ends(collector: Collector, tmp_path: Path) -> None:
    with FakeOpenAI(["Four."]) as model:
        done = tao(tmp_path, model.url, TAOGRAPH_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    assert done.returncode == 0
    assert "Four." in done.stdout
    (graph,) = [span for span in collector.spans if span.parent is None]
    assert graph.attributes["taograph.stop_reason"] == "final"
    (asked,) = [span for span in collector.spans if span.attributes["openinference.span.kind"] == "LLM"]
    assert asked.attributes["gen_ai.provider.name"] == "openai"
    assert asked.attributes["gen_ai.usage.input_tokens"] > 0


def tao(home: Path, model: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A run by the command, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return subprocess.run(
        [sys.executable, "-m", "taograph.cli", "run", "What is 2 and 2?", "-m", f"{model}#fake"],
        env=kept | {"TAOGRAPH_DATA": str(home), "TAOGRAPH_CACHE": str(home)} | variables,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


# What goes wrong is said once, and no run fails


def test_an_endpoint_that_is_down(closed: str, caplog: pytest.LogCaptureFixture) -> None:
    assert telemetry.enable(endpoint=f"{closed}/v1/traces")
    for _ in range(3):
        assert run()["answer"] == "The answer"
        telemetry.flush()
    (said,) = warnings(caplog)
    assert said.startswith(f"spans can't be sent to {closed}: ")
    assert said.endswith(". Runs go on without them")


def test_an_endpoint_that_takes_no_spans(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.answer = 404
    assert telemetry.enable(endpoint=f"{collector.url}/v1/traces")
    for _ in range(3):
        assert run()["answer"] == "The answer"
        telemetry.flush()
    (said,) = warnings(caplog)
    assert "404" in said
    assert len(collector.requests) == 1, "what fails is not tried again with every run"


def test_a_run_does_not_wait_for_a_server_that_hangs() -> None:
    answered = threading.Event()

    class Hanging(Collector):
        def reply(self, path: str) -> tuple[str, bytes]:
            assert answered.wait(60)
            return super().reply(path)

    with Hanging() as server:
        assert telemetry.enable(endpoint=f"{server.url}/v1/traces")
        for _ in range(40):  # more spans than a batch: they are sent at once
            assert run()["answer"] == "The answer"
        assert not server.arrived.is_set(), "all runs have ended, and no batch was taken yet"
        answered.set()


def test_a_process_ends_though_the_server_is_down(closed: str, tmp_path: Path) -> None:
    with FakeOpenAI(["Four."]) as model:
        done = tao(tmp_path, model.url, TAOGRAPH_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=closed)
    assert done.returncode == 0
    assert "Four." in done.stdout
    assert done.stderr.count("spans can't be sent") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "OTEL_EXPORTER_OTLP_ENDPOINT='localhost:4318': write a URL"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT='ftp://x': write a URL"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL='grpc': only http/protobuf is sent"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "no spans are made: "),
        ("OTEL_SDK_DISABLED", "true", "no spans are made: OTEL_SDK_DISABLED is set"),
        ("TAOGRAPH_TRACE_DAYS", "soon", "no spans are made: TAOGRAPH_TRACE_DAYS='soon'"),
    ],
)
def test_a_variable_that_is_wrong(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TAOGRAPH_OTEL", "1")
    monkeypatch.setenv(name, value)
    for _ in range(3):
        assert run()["answer"] == "The answer"
    (text,) = warnings(caplog)
    assert said in text


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "openinference.instrumentation", None)
    monkeypatch.setenv("TAOGRAPH_OTEL", "1")
    for _ in range(2):
        assert run()["answer"] == "The answer"
    (text,) = warnings(caplog)
    assert text.startswith("no spans are made: openinference")
    assert text.endswith("is not installed: pip install 'taograph[otel]'")


def test_a_password_in_the_address_is_not_told(closed: str, caplog: pytest.LogCaptureFixture) -> None:
    place = closed.replace("://", "://user:hunter2hunter2@")
    assert telemetry.enable(endpoint=f"{place}/v1/traces")
    run()
    telemetry.flush()
    (said,) = warnings(caplog)
    assert "hunter2" not in said
