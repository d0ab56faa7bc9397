"""What happens where an event can't be written: it is told, it is in the record as a gap, or the run is stopped."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage
from postgres_server import PostgresServer, Unavailable, running
from trace_support import events, types
from writing_support import LONG, QUESTION, Disk, disk, file, flush, look, looks, quick, read

from taograph import create_react_graph, tool, trace
from taograph.models import ScriptedModel
from taograph.trace import Store, TraceError, open_store, writing
from taograph.trace.verifying import verify

__all__ = ["disk", "file", "quick"]


def test_a_full_disk_is_told_once_and_leaves_a_gap(
    disk: Disk, file: str, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    def before(turn: int) -> None:
        if turn == 2:
            disk.is_full()
        if turn == 4:
            disk.has_room()

    model = looks(before=before, turns=4)
    graph = trace.record(create_react_graph(model, [big]), to=file)
    model.replies = [_big(reply) for reply in model.replies]
    assert graph.invoke(QUESTION)["answer"] == "Turn 5."
    flush()
    store = read(file)
    found = events(store)
    assert types(found)[:2] == ["run_started", "model_asked"]
    assert types(found)[-1] == "run_ended"
    (gap,) = [e for e in found if e.type == "gap"]
    assert gap.content is not None
    (writer,) = trace._writers.values()
    assert gap.content["lost"] == writer.lost > 3
    assert gap.content["run"] == found[0].content["run"]  # type: ignore[index]
    assert verify(store).ok
    told = [r.getMessage() for r in caplog.records if r.name == "taograph.trace"]
    assert told == [
        "the trace can't be written: OperationalError: database or disk is full; events are lost",
        f"the trace is written again; {writer.lost} events were lost",
    ]
    store.close()


@tool(effects="none")
def big(name: str) -> str:
    """Look at a great deal.

    Args:
        name: What at.
    """
    return LONG + name


def _big(reply: Callable[[list[Any]], AIMessage]) -> Callable[[list[Any]], AIMessage]:
    def made(messages: list[Any]) -> AIMessage:
        said = reply(messages)
        return AIMessage(said.text, tool_calls=[{**c, "name": "big", "type": "tool_call"} for c in said.tool_calls])

    return made


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_run_is_stopped_before_the_next_model_call_is_paid(disk: Disk, file: str, quick: None, way: str) -> None:
    model = looks(before=lambda turn: disk.is_full() if turn == 2 else None, turns=9)
    model.replies = [_big(reply) for reply in model.replies]
    graph = trace.record(create_react_graph(model, [big]), to=file, on_error="stop")
    with pytest.raises(TraceError, match="the trace can't be written: OperationalError: database or disk is full"):
        graph.invoke(QUESTION) if way == "invoke" else asyncio.run(graph.ainvoke(QUESTION))
    assert len(model.requests) == 2, "the third was not paid for"
    disk.has_room()
    model.replies = ["Well."]
    assert graph.invoke(QUESTION)["answer"] == "Well."
    flush()
    store = read(file)
    first, second = store.traces()
    assert "gap" in types(events(store, first.trace))
    assert types(events(store, second.trace))[-1] == "run_ended"
    assert verify(store).ok
    store.close()


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_an_answer_that_is_not_on_the_record_is_not_returned(disk: Disk, file: str, quick: None, way: str) -> None:
    def reply(messages: list[Any]) -> AIMessage:
        disk.is_full()
        return AIMessage(LONG)

    graph = trace.record(create_react_graph(ScriptedModel(replies=[reply]), []), to=file, on_error="stop")
    with pytest.raises(TraceError, match="disk is full"):
        graph.invoke(QUESTION) if way == "invoke" else asyncio.run(graph.ainvoke(QUESTION))


def test_a_store_that_never_works_costs_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "text").write_text("no database" * 500)
    graph = trace.record(create_react_graph(looks(), [look]), to=f"sqlite:///{tmp_path}/text")
    assert graph.invoke(QUESTION)["answer"] == "Turn 3."
    assert graph.invoke(QUESTION)["answer"] == "Turn 3."
    (writer,) = trace._writers.values()
    writer.close()
    told = [r.getMessage() for r in caplog.records if r.name == "taograph.trace"]
    assert told == [
        f"the trace can't be written: ValueError: trace: {tmp_path}/text is no SQLite database; name another file; "
        "events are lost",
        f"the trace could not be written to the end: {writer.lost} events are lost",
    ]


def test_and_stops_one_before_anything_is_paid(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 500)
    model = looks()
    graph = trace.record(create_react_graph(model, [look]), to=f"sqlite:///{tmp_path}/text", on_error="stop")
    for _ in range(2):
        with pytest.raises(TraceError, match="is no SQLite database"):
            graph.invoke(QUESTION)
    assert model.requests == []


def test_a_store_that_does_not_answer_holds_a_run_up_once(
    file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers, waits, opened = threading.Event(), [], writing.open_store

    def hangs(url: str) -> Store:
        answers.wait(60)
        return opened(url)

    def counted(done: Any, timeout: float) -> Any:
        waits.append(timeout)
        return waiting(done, timeout)

    waiting = writing.wait
    monkeypatch.setattr(writing, "open_store", hangs)
    monkeypatch.setattr(writing, "wait", counted)
    monkeypatch.setattr(writing, "_WAIT_SECONDS", 0.05)
    graph = trace.record(create_react_graph(looks(), [look]), to=file)
    assert graph.invoke(QUESTION)["answer"] == "Turn 3."
    assert len(waits) > 10
    assert [seconds for seconds in waits if seconds] == [0.05]
    assert [r.getMessage() for r in caplog.records if r.name == "taograph.trace"] == [
        "the trace is not written yet after 30 seconds; the run goes on"
    ]
    answers.set()
    monkeypatch.setattr(writing, "_WAIT_SECONDS", 30.0)
    (writer,) = trace._writers.values()
    writer.close()
    store = read(file)
    assert types(events(store))[-1] == "run_ended", "nothing was lost"
    assert writer.lost == 0
    store.close()


# A real server that stops and comes back


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="needs taograph[postgres]")
    try:
        with running() as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


def test_a_server_that_stops_and_comes_back(
    own_server: PostgresServer, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    def before(turn: int) -> None:
        if turn == 2:
            own_server.stop()
        if turn == 3:
            own_server.start()

    url = own_server.url()
    graph = trace.record(create_react_graph(looks(before=before, turns=4), [look]), to=url)
    assert graph.invoke(QUESTION)["answer"] == "Turn 5."
    flush()
    store = read(url)
    found = events(store)
    gaps = [e.content["lost"] for e in found if e.type == "gap" and e.content]
    (writer,) = trace._writers.values()
    assert sum(gaps) == writer.lost > 0
    assert types(found)[-1] == "run_ended"
    assert verify(store).ok
    store.close()
    told = [r.getMessage() for r in caplog.records if r.name == "taograph.trace"]
    assert sum("events are lost" in line for line in told) == len(gaps)
    assert "correct-horse" not in caplog.text
    assert told[0].startswith("the trace can't be written: OSError: trace: the database failed: ")


def test_a_server_that_stops_ends_the_run(own_server: PostgresServer, quick: None) -> None:
    model = looks(before=lambda turn: own_server.stop() if turn == 2 else None, turns=9)
    graph = trace.record(create_react_graph(model, [look]), to=own_server.url(), on_error="stop")
    try:
        with pytest.raises(TraceError, match=r"nothing listens there|the database failed") as caught:
            graph.invoke(QUESTION)
    finally:
        own_server.start()
    assert "correct-horse" not in str(caught.value)
    assert len(model.requests) == 2
    flush()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_files_that_are_moved_away(tmp_path: Path, kind: str, quick: None, caplog: pytest.LogCaptureFixture) -> None:
    """As an administrator may, while a server runs: a new file is begun, and what is lost is told."""
    place = tmp_path / "there"
    url = f"sqlite:///{place}/t.db" if kind == "sqlite" else f"jsonl:{place}"

    def before(turn: int) -> None:
        if turn == 2:
            place.rename(tmp_path / "away")

    graph = trace.record(create_react_graph(looks(before=before), [look]), to=url)
    assert graph.invoke(QUESTION)["answer"] == "Turn 3."
    flush()
    old, new = read(url.replace("there", "away")), read(url)
    assert types(events(old))[0] == "run_started"
    assert types(events(new))[0] == "gap"
    assert types(events(new))[-1] == "run_ended"
    assert verify(old).ok
    assert verify(new).ok
    (writer,) = trace._writers.values()
    assert len(events(old)) + len(events(new)) - 1 + writer.lost == 16
    assert "events are lost" in caplog.text
    old.close()
    new.close()


# A real limit of the system on files


FULL = textwrap.dedent(
    """
    import resource, sys
    from taograph.trace import Sealer, TraceError, open_store
    sys.path.insert(0, sys.argv[2])
    from trace_support import draft, whole, write
    store = open_store(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
    failed = 0
    for number in range(100):
        try:
            store.append([draft("a", text="x" * 5000)], Sealer())
        except Exception as error:
            failed += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(store, whole("b"))
    store.close()
    print(failed)
    """
)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_files_that_may_not_grow(tmp_path: Path, kind: str) -> None:
    if not hasattr(resource, "RLIMIT_FSIZE"):
        pytest.skip("needs a limit of the size of files")
    url = f"sqlite:///{tmp_path}/t.db" if kind == "sqlite" else f"jsonl:{tmp_path}/t"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL, url, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failed = int(done.stdout)
    assert failed > 50
    store = open_store(url)
    report = verify(store)
    assert report.ok, report.faults
    assert len(events(store, "a")) == 100 - failed
    assert len(events(store, "b")) == 5
    store.close()


# Nothing waits where it must not


def test_the_event_loop_is_not_blocked(url: str, quick: None) -> None:
    create_agent = pytest.importorskip("langchain.agents", reason="needs langchain").create_agent
    options: Any = {"on_error": "stop", "key": b"sixteen bytes ok"}
    graphs = [
        trace.record(create_react_graph(looks(), [look]), to=url),
        trace.record(create_react_graph(looks(), [look]), to=url, content=False, **options),
        trace.record(create_agent(looks(), [look]), to=url, **options),
    ]

    async def run() -> list[Any]:
        return [await graph.ainvoke(QUESTION, {"configurable": {"thread_id": "t"}}) for graph in graphs]

    with blockbuster_ctx():
        results = asyncio.run(run())
    assert [result["messages"][-1].text for result in results] == ["Turn 3."] * 3
    flush()
    store = open_store(url, read_only=True)
    assert [types(events(store, kept.trace))[-1] for kept in store.traces()] == ["run_ended"] * 3
    assert [fault.what for fault in verify(store).faults] == []
    store.close()
