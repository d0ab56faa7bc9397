"""Telemetry under `langgraph dev`, where nothing may block the event loop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from dev_server import ROOT, DevServer
from fake_openai_server import FakeOpenAI
from langgraph_sdk import get_sync_client

pytest.importorskip("openinference.instrumentation.langchain", reason="needs taograph[otel]")

from otel_support import Collector, Told

CONFIG: dict[str, Any] = {
    "dependencies": [str(ROOT)],
    "graphs": {"react": f"{ROOT}/graphs/react.py:graph", "hybrid": f"{ROOT}/graphs/hybrid.py:graph"},
}


def roots(collector: Collector, count: int) -> list[Told]:
    """The outermost spans, as soon as there are so many."""
    deadline = time.monotonic() + 60
    while len(found := [span for span in collector.spans if span.parent is None]) < count:
        assert time.monotonic() < deadline, [span.name for span in collector.spans]
        time.sleep(0.1)
    return found


def test_runs_of_the_server_are_spans(tmp_path: Path) -> None:
    with Collector() as collector:
        env = {
            "TAOGRAPH_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with DevServer(tmp_path, CONFIG, env) as server, get_sync_client(url=server.url) as client:
            thread = client.threads.create()["thread_id"]
            given = {"messages": [{"role": "user", "content": "Who is anna@example.com?"}]}
            for graph in ("react", "hybrid"):
                with FakeOpenAI(["Anna."]) as fake:
                    said: Any = client.runs.wait(
                        thread, graph, input=given, context={"model": f"{fake.url}#fake"}, raise_error=False
                    )
                assert said["answer"] == "Anna.", said
            found = roots(collector, 2)
            assert "Blocking" not in server.log
        assert [span.name for span in found] == ["react", "hybrid"]
        assert {span.attributes["gen_ai.conversation.id"] for span in found} == {thread}
        assert {span.attributes["taograph.stop_reason"] for span in found} == {"final"}
        assert len({span.trace for span in collector.spans}) == 2
        assert b"anna@example.com" not in collector.bytes
