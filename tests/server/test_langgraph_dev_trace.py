"""The graphs of langgraph.json under `langgraph dev`, recorded where TAOGRAPH_TRACE says."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from dev_server import ROOT, DevServer
from driving import multiplying, question
from fake_openai_server import FakeOpenAI, Reply
from langgraph_sdk import get_sync_client

from taograph.trace import Recorder, open_store
from taograph.trace.reading import entries, runs, summarize
from taograph.trace.verifying import verify

CONFIG: dict[str, Any] = {
    "dependencies": [str(ROOT)],
    "graphs": {"react": f"{ROOT}/graphs/react.py:graph", "hybrid": f"{ROOT}/graphs/hybrid.py:graph"},
}


SERVED = json.loads((ROOT / "langgraph.json").read_text("utf-8"))["graphs"]


@pytest.mark.parametrize("name", SERVED)
def test_every_served_graph_is_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, variable = SERVED[name]["path"].partition(":")
    monkeypatch.delitem(sys.modules, "langgraph_api", raising=False)  # no server is here
    for url, wanted in (("", 0), ("none", 0), (f"sqlite:///{tmp_path}/t.db", 1)):
        monkeypatch.setenv("TAOGRAPH_TRACE", url)
        spec = importlib.util.spec_from_file_location(f"served_{name}", ROOT / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # as the server does
        spec.loader.exec_module(module)
        callbacks = getattr(module, variable).config.get("callbacks") or []
        assert sum(isinstance(each, Recorder) for each in callbacks) == wanted
    assert not list(tmp_path.iterdir())


def multiplies(server: DevServer) -> None:
    """Ask something of the graph ``react``."""
    with get_sync_client(url=server.url) as client, multiplying() as fake:
        said: Any = client.runs.wait(
            None, "react", input=question(), context={"model": f"{fake.url}#fake"}, raise_error=False
        )
    assert said["answer"] == "It is 51.", said


def test_a_server_records_in_the_users_own_file(server: DevServer) -> None:
    before = server.log.count("Blocking")
    multiplies(server)
    assert server.log.count("Blocking") == before
    kept = server.folder / "data" / "traces.sqlite"
    deadline = time.monotonic() + 60
    while not kept.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    store = open_store(f"sqlite:///{kept}", read_only=True)
    while not (found := [one for one in store.traces() if one.graph == "react"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert found[0].graph == "react"
    store.close()


def test_a_server_that_is_told_not_to_records_nothing(tmp_path: Path) -> None:
    with DevServer(tmp_path, CONFIG, {"TAOGRAPH_TRACE": "none"}) as server:
        multiplies(server)
        assert "Blocking" not in server.log
    assert not (tmp_path / "data" / "traces.sqlite").exists()


def test_runs_are_recorded_with_their_thread_and_nothing_blocks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept/traces.sqlite"
    with DevServer(tmp_path, CONFIG, {"TAOGRAPH_TRACE": url}) as server, get_sync_client(url=server.url) as client:
        assert not (tmp_path / "kept").exists(), "nothing is opened by loading the graphs"
        thread = client.threads.create()["thread_id"]
        for graph in ("react", "hybrid"):
            with multiplying() as fake:
                said: Any = client.runs.wait(
                    thread, graph, input=question(), context={"model": f"{fake.url}#fake"}, raise_error=False
                )
            assert said["answer"] == "It is 51.", said
        assert "Blocking" not in server.log
    store = open_store(url, read_only=True)
    found = runs(store)
    assert [run.graph for run in found] == ["react", "hybrid"]
    assert {run.thread for run in found} == {thread}
    for run in found:
        summary = summarize(entries(store, run))
        assert (summary.state, summary.answer, summary.spent["model_calls"]) == ("answered", "It is 51.", 2)
    assert verify(store).ok
    store.close()


def test_a_run_that_waits_for_a_person_says_so(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from taograph import create_react_graph, tool\n"
        "from taograph.served import served\n"
        '@tool(effects="once")\n'
        "async def send(to: str) -> str:\n"
        '    """Send a letter.\n\n    Args:\n        to: To whom.\n    """\n'
        '    return f"sent to {to}"\n'
        'graph = served(create_react_graph(None, [send], approve="send"))\n'
    )
    url = f"jsonl:{tmp_path}/kept"
    config = {"dependencies": [str(ROOT)], "graphs": {"own": f"{tmp_path}/own.py:graph"}}
    with DevServer(tmp_path, config, {"TAOGRAPH_TRACE": url}) as server, get_sync_client(url=server.url) as client:
        thread = client.threads.create()["thread_id"]
        with FakeOpenAI([Reply("I send.", calls=[("send", {"to": "Ada"})]), "Sent."]) as fake:
            context: Any = {"model": f"{fake.url}#fake"}
            client.runs.wait(thread, "own", input=question("Send it."), context=context)
            given: Any = {"resume": {"decision": "approve", "by": "Eve"}}
            said: Any = client.runs.wait(thread, "own", command=given, context=context)
        assert said["answer"] == "Sent."
        assert "Blocking" not in server.log
    store = open_store(url, read_only=True)
    (run,) = runs(store)
    assert len(run.traces) == 2, "one for each call of the graph"
    kinds = [event.type for event in entries(store, run)]
    assert kinds.count("approval_asked") == kinds.count("approval_answered") == 1
    store.close()


def test_variables_that_cannot_be_read_are_told_and_fail_no_run(tmp_path: Path) -> None:
    env = {"TAOGRAPH_TRACE": f"sqlite:///{tmp_path}/t.db", "TAOGRAPH_TRACE_DAYS": "many"}
    with DevServer(tmp_path, CONFIG, env) as server, get_sync_client(url=server.url) as client:
        with multiplying() as fake:
            context: Any = {"model": f"{fake.url}#fake"}
            said: Any = client.runs.wait(None, "react", input=question(), context=context)
        assert said["answer"] == "It is 51."
        assert "runs of react are not recorded: TAOGRAPH_TRACE_DAYS" in server.log
    assert not (tmp_path / "t.db").exists()


def test_strictly_no_call_blocks_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blockbuster import blockbuster_ctx

    from taograph.graphs.react import create_react_graph
    from taograph.served import served
    from taograph.tools.catalog import default_tools

    url = f"sqlite:///{tmp_path}/traces.sqlite"
    monkeypatch.setenv("TAOGRAPH_TRACE", url)
    own = served(create_react_graph(None, default_tools()))
    assert not list(tmp_path.iterdir()), "nothing is opened before the first run"
    with multiplying() as fake:
        work = own.ainvoke(question(), context={"model": f"{fake.url}#fake"})
        with blockbuster_ctx():
            assert asyncio.run(work)["answer"] == "It is 51."
    store = open_store(url, read_only=True)
    assert [summarize(entries(store, run)).state for run in runs(store)] == ["answered"]
    store.close()
