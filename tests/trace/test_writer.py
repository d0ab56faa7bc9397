"""The writer by itself: many threads, a process that is forked or ends, events and redactors that fail."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from trace_support import draft, events, types, whole
from writing_support import LONG, QUESTION, Disk, disk, file, flush, look, looks, read

from taograph import create_react_graph, trace
from taograph.models import ScriptedModel, call
from taograph.trace import Sealer, Settings, Store, TraceError, writing
from taograph.trace.verifying import verify
from taograph.trace.writing import Writer

__all__ = ["disk", "file"]


def test_an_event_that_is_none_does_not_take_others_along(file: str, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer(file, Sealer(), "warn")
    deep: Any = "end"
    for _ in range(3000):
        deep = [deep]
    drafts = whole("a", 3)
    held, opened = threading.Event(), writing.open_store
    with pytest.MonkeyPatch.context() as patch:

        def waits(url: str) -> Store:
            held.wait(30)
            return opened(url)

        patch.setattr(writing, "open_store", waits)  # until all are given, so that they are one batch
        for each in (drafts[0], drafts[1], draft("a", deep=deep), drafts[2]):
            writer.write(each)
        held.set()
        writer.flush()
    writer.close()
    store = read(file)
    assert types(events(store, "a")) == ["run_started", "thought", "gap", "run_ended"]
    assert writer.lost == 1
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == [
        "the trace can't be written",
        "the trace is written again; 1 events were lost",
    ]
    store.close()


def test_many_threads_write_in_the_order_of_each(file: str) -> None:
    writer = Writer(file, Sealer(), "warn")

    def run(name: str) -> None:
        for each in whole(name, 30):
            writer.write(each, delete_on="2026-10-28" if name < "3" else None)

    workers = [threading.Thread(target=run, args=(str(n),)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    writer.flush()
    store = read(file)
    assert verify(store).ok
    for kept in store.traces():
        assert [e.content["step"] for e in store.entries(kept.trace) if e.content] == list(range(30))
        assert kept.delete_on == ("2026-10-28" if kept.trace < "3" else None)
    store.close()
    writer.close()
    writer.write(draft("late"))
    writer.close()
    again = read(file)
    assert "late" in again.ids(), "it begins anew"
    again.close()


def test_gaps_are_written_at_the_end_at_the_latest(file: str, disk: Disk) -> None:
    writer = Writer(file, Sealer(), "warn")
    writer.write(draft("a", "run_started"))
    writer.flush()
    disk.is_full()
    for _ in range(40):
        writer.write(draft("a", text=LONG))
    writer.write(draft("new", "run_started", text=LONG), delete_on="2026-10-28")
    writer.flush()
    disk.has_room()
    writer.close()
    store = read(file)
    (gap,) = [e for e in store.entries("a") if e.type == "gap"]
    assert gap.content is not None
    assert gap.content["lost"] == writer.lost - 1
    assert types(events(store, "new")) == ["gap"]
    assert [k.delete_on for k in store.traces()] == [None, "2026-10-28"]
    assert verify(store).ok
    store.close()


def test_a_process_that_was_forked_writes_too(file: str) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    script = textwrap.dedent(
        """
        import os, sys
        sys.path.insert(0, sys.argv[2])
        from trace_support import whole
        from taograph.trace import Sealer
        from taograph.trace.writing import Writer
        writer = Writer(sys.argv[1], Sealer(), "stop")
        for each in whole("before"):
            writer.write(each)
        writer.flush()
        child = os.fork()
        for each in whole("parent" if child else "child"):
            writer.write(each)
        writer.flush()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    command = [sys.executable, "-c", script, file, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    store = read(file)
    assert sorted(store.ids()) == ["before", "child", "parent"]
    assert verify(store).events == 15
    store.close()


def test_what_was_given_is_written_when_the_process_ends(file: str) -> None:
    script = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, sys.argv[2])
        from trace_support import whole
        from taograph.trace import Sealer
        from taograph.trace.writing import Writer
        writer = Writer(sys.argv[1], Sealer(), "warn")
        for each in whole("a", 400):
            writer.write(each)
        """
    )
    command = [sys.executable, "-W", "error", "-c", script, file, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    store = read(file)
    assert verify(store).events == 400
    store.close()


# Redaction that fails


def test_what_a_redactor_fails_at_is_not_written(file: str, caplog: pytest.LogCaptureFixture) -> None:
    def redactor(value: Any) -> Any:
        if "secret place" in str(value):
            raise KeyError("secret place")
        return value

    model = ScriptedModel(
        replies=[AIMessage("At the secret place.", tool_calls=[call("look", {"name": "1"})]), "Well."]
    )
    graph = trace.record(create_react_graph(model, [look]), to=file, redactor=redactor)
    assert graph.invoke(QUESTION)["answer"] == "Well."
    flush()
    store = read(file)
    found = events(store)
    assert "secret place" not in str([e.content for e in found])
    (reply,) = [e.content for e in found if e.type == "model_replied" and e.content and "withheld" in e.content]
    assert reply["withheld"] == "[withheld: the redactor failed with KeyError]"
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == [
        "the redactor failed with KeyError: what it was given is not recorded"
    ]
    store.close()


def test_or_stops_the_run(file: str) -> None:
    def redactor(value: Any) -> Any:
        raise KeyError("secret place")

    graph = trace.record(create_react_graph(looks(), [look]), to=file, redactor=redactor, on_error="stop")
    with pytest.raises(TraceError, match=r"^the trace can't be written: the redactor failed with KeyError$"):
        graph.invoke(QUESTION)


def test_values_that_are_no_json_are_searched_for_secrets() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd sk-1234567890abcdefgh12"

    told = Settings().of("action", {"args": {"x": Odd(), "y": {Odd()}}})
    assert told == {"args": {"x": "odd [secret]", "y": ["odd [secret]"]}}
