"""Threads are listed, pruned and deleted; one that is kept is never broken, and space is given back."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from checkpoint_support import Stored
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from taograph import checkpoints, create_react_graph
from taograph.checkpoints import retention
from taograph.checkpoints.retention import goes_along, shorten
from taograph.graphs.loop.state import State
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person

DAY = timedelta(days=1)


def at(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


def graph_on(saver: Any, *replies: Any) -> Any:
    return create_react_graph(ScriptedModel(replies=list(replies), repeat=True), [ask_person], checkpointer=saver)


def talk(saver: Any, thread: str, turns: int = 1, text: str = "Hello.") -> Any:
    graph = graph_on(saver, text)
    for turn in range(turns):
        graph.invoke({"messages": [("user", f"Question {turn}")]}, at(thread))
    return graph


ASKS = AIMessage("", tool_calls=[call("ask_person", {"question": "Which?"})])


def history(saver: Any, thread: str) -> list[str]:
    return [found.checkpoint["id"] for found in saver.list(at(thread))]


# Listing


def test_threads_are_listed_with_how_they_stand(url: str) -> None:
    begun = datetime.now(UTC)

    def fail(state: Any) -> None:
        raise RuntimeError("broken")

    with checkpoints.open(url) as saver:
        assert checkpoints.threads(saver) == []
        talk(saver, "done", turns=3)
        graph_on(saver, ASKS).invoke({"messages": [("user", "Hi")]}, at("waiting"))
        failing = StateGraph(State).add_node("a", fail).add_edge(START, "a").compile(checkpointer=saver)
        with pytest.raises(RuntimeError):
            failing.invoke({"messages": []}, at("failed"))
        cut = graph_on(saver, "Hello.")
        next(
            iter(cut.stream({"messages": [("user", "Hi")]}, at("unfinished"), stream_mode="values", durability="sync"))
        )
        cut.update_state(at("edited"), {"messages": [("user", "Hi")]}, as_node="__start__")
        listed = checkpoints.threads(saver)
        ended = datetime.now(UTC)
        assert {thread.id: thread.state for thread in listed} == {
            "done": "done",
            "waiting": "waiting",
            "failed": "failed",
            "unfinished": "unfinished",
            "edited": "unfinished",
        }
        assert [thread.updated for thread in listed] == sorted((t.updated for t in listed), reverse=True)
        for thread in listed:
            assert begun <= thread.created <= thread.updated <= ended
            assert thread.size > 100
        by_name = {thread.id: thread for thread in listed}
        assert by_name["done"].steps == graph_on(saver, "").get_state(at("done")).metadata["step"]
        assert by_name["done"].size > by_name["waiting"].size
        graph_on(saver, "That one.").invoke(Command(resume="This"), at("waiting"))
        assert checkpoints.threads(saver)[0].state == "done"
        assert checkpoints.threads(saver)[0].id == "waiting"


@pytest.mark.parametrize("nodes", [("a",), ("a", "b"), ("a", "b", "c")])
def test_graphs_that_are_not_ours_stand_right_too(nodes: tuple[str, ...]) -> None:
    """Chains, and branches that meet: stopped before each node, and let go on to the end."""
    builder = StateGraph(State)
    for name in nodes:
        builder.add_node(name, lambda state: {"messages": []})
        builder.add_edge(START, name)
    builder.add_node("last", lambda state: {"answer": "y"})
    builder.add_edge(list(nodes), "last")
    with checkpoints.open("sqlite://") as saver:
        graph = builder.compile(checkpointer=saver, interrupt_before="*")
        graph.invoke({"messages": [("user", "Hi")]}, at("t"))
        while graph.get_state(at("t")).next:
            assert checkpoints.threads(saver)[0].state == "unfinished"
            graph.invoke(None, at("t"))
        assert checkpoints.threads(saver)[0].state == "done"


# Deleting


def test_a_thread_is_deleted_with_what_goes_along(url: str, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_ALONG", [])
    goes_along("beside")
    goes_along("not_there")
    with checkpoints.open(url) as saver:
        talk(saver, "one", text="tangerine")
        kept = talk(saver, "two").get_state(at("two")).values
        with saver.transaction() as execute:
            for table in ("beside", "taograph_of_another_process"):
                execute(f"CREATE TABLE {table} (thread_id TEXT, note TEXT)")
                execute(f"INSERT INTO {table} VALUES (?, ?), (?, ?)", "one", "tangerine", "two", "stays")
            execute("CREATE TABLE taograph_without_threads (id TEXT)")
        assert b"tangerine" in stored()
        assert checkpoints.delete(saver, "one") is True
        assert checkpoints.delete(saver, "one") is False
        assert b"tangerine" not in stored(), "gone from the disk, not only from the list"
        assert [thread.id for thread in checkpoints.threads(saver)] == ["two"]
        assert graph_on(saver, "").get_state(at("two")).values == kept
        with saver.transaction() as execute:
            assert execute("SELECT * FROM beside") == [("two", "stays")]
        saver.delete_thread("two")
        with saver.transaction() as execute:
            assert execute("SELECT * FROM beside") == execute("SELECT * FROM taograph_of_another_process") == []


# Pruning


def prune(way: str, saver: Any, *args: Any, **options: Any) -> checkpoints.Pruned:
    if way == "async":
        return asyncio.run(checkpoints.aprune(saver, *args, **options))
    return checkpoints.prune(saver, *args, **options)


def test_what_was_not_used_for_long_is_deleted(url: str, way: str) -> None:
    with checkpoints.open(url) as saver:
        talk(saver, "old")
        graph_on(saver, ASKS).invoke({"messages": [("user", "Hi")]}, at("old and waiting"))
        between = datetime.now(UTC)
        kept = talk(saver, "new").get_state(at("new")).values
        assert prune(way, saver, DAY) == checkpoints.Pruned((), (), 0)
        sizes = {thread.id: thread.size for thread in checkpoints.threads(saver)}
        done = prune(way, saver, between)
        assert set(done.deleted) == {"old", "old and waiting"}
        assert done.shortened == ()
        assert done.freed == sizes["old"] + sizes["old and waiting"]
        assert [thread.id for thread in checkpoints.threads(saver)] == ["new"]
        assert graph_on(saver, "").get_state(at("new")).values == kept
        assert prune(way, saver, DAY, now=datetime.now(UTC) + 2 * DAY).deleted == ("new",)
        assert checkpoints.threads(saver) == []


def test_the_last_state_can_be_kept(url: str, way: str) -> None:
    turns = 27
    with checkpoints.open(url) as saver:
        before = talk(saver, "t", turns).get_state(at("t"))
        (was,) = checkpoints.threads(saver)
        steps = len(history(saver, "t"))
        done = prune(way, saver, timedelta(0), keep_latest=True)
        assert done.shortened == ("t",)
        (now,) = checkpoints.threads(saver)
        assert done.freed == was.size - now.size > 0
        assert len(history(saver, "t")) < steps
        graph = graph_on(saver, "More.")
        after = graph.get_state(at("t"))
        assert (after.values, after.config, after.next) == (before.values, before.config, before.next)
        assert graph.invoke({"messages": [("user", "More?")]}, at("t"))["answer"] == "More."
        assert len(graph.get_state(at("t")).values["messages"]) == 2 * turns + 2
        talk(saver, "t", 25)  # and the chain beneath stays whole for whatever comes
        assert len(graph.get_state(at("t")).values["messages"]) == 2 * turns + 52


@pytest.mark.parametrize("nested", [False, True])
def test_a_question_to_a_person_stays_open(url: str, nested: bool) -> None:
    with checkpoints.open(url) as saver:

        def make(*replies: Any) -> Any:
            inner = create_react_graph(
                ScriptedModel(replies=list(replies)), [ask_person], checkpointer=None if nested else saver
            )
            if not nested:
                return inner
            outer = StateGraph(State).add_node("agent", inner).add_edge(START, "agent").add_edge("agent", END)
            return outer.compile(checkpointer=saver)

        for _ in range(26):
            make("One.").invoke({"messages": [("user", "Before")]}, at("t"))
        make(ASKS).invoke({"messages": [("user", "Hi")]}, at("t"))
        assert shorten(saver, "t") is True
        assert checkpoints.threads(saver)[0].state == "waiting"
        graph = make("The red one.")
        assert graph.get_state(at("t")).interrupts
        result = graph.invoke(Command(resume="red"), at("t"))
        assert [message.text for message in result["messages"]][-2:] == ["red", "The red one."]
        assert shorten(saver, "t") is nested
        with saver.transaction() as execute:
            spaces = {ns for (ns,) in execute("SELECT DISTINCT checkpoint_ns FROM checkpoints")}
        assert spaces == {""}, "nothing is left of calls of subgraphs that are over"


def test_a_short_thread_is_its_last_state_already(url: str) -> None:
    with checkpoints.open(url) as saver:
        before = talk(saver, "t", 3).get_state(at("t"))
        steps = history(saver, "t")
        assert checkpoints.prune(saver, timedelta(0), keep_latest=True) == checkpoints.Pruned((), (), 0)
        assert history(saver, "t") == steps
        assert graph_on(saver, "").get_state(at("t")) == before


def test_a_thread_that_is_used_meanwhile_is_left_as_it_is(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with checkpoints.open(url) as saver:
        talk(saver, "t", 3)
        find = retention._kept

        def while_it_runs(*args: Any) -> Any:
            found = find(*args)
            talk(saver, "t")
            return found

        monkeypatch.setattr(retention, "_kept", while_it_runs)
        steps = len(history(saver, "t"))
        assert shorten(saver, "t") is False
        assert len(history(saver, "t")) > steps
        look = retention._updated
        monkeypatch.setattr(retention, "_updated", lambda last: (look(last), talk(saver, "t"))[0])
        assert checkpoints.prune(saver, datetime.now(UTC)).deleted == ()
        assert len(graph_on(saver, "").get_state(at("t")).values["messages"]) >= 10


def test_rows_of_tasks_that_stored_before_their_checkpoint_stay(url: str) -> None:
    with checkpoints.open(url) as saver:
        talk(saver, "t", 26)
        id = "2" + history(saver, "t")[0][1:]
        later = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
        saver.put_writes(later, [("messages", "x")], "task")
        assert shorten(saver, "t")
        with saver.transaction() as execute:
            table = "writes" if "writes" in saver.tables else "checkpoint_writes"
            assert execute(f"SELECT count(*) FROM {table} WHERE task_id = ?", "task") == [(1,)]


# Space


def test_a_file_becomes_smaller(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with checkpoints.open(f"sqlite:///{path}") as saver:
        talk(saver, "small")
        talk(saver, "large", 30, text="x" * 20_000)
        full = path.stat().st_size + (tmp_path / "runs.db-wal").stat().st_size
        checkpoints.delete(saver, "large")
        assert path.stat().st_size + (tmp_path / "runs.db-wal").stat().st_size < full / 10


def test_a_file_that_was_made_elsewhere_becomes_smaller_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteSaver.from_conn_string(str(path)) as theirs:
        talk(theirs, "large", 10, text="tangerine" * 2000)
    full = path.stat().st_size
    with checkpoints.open(f"sqlite:///{path}") as saver:
        talk(saver, "small")
        reader = sqlite3.connect(path)
        list(reader.execute("BEGIN")), reader.execute("SELECT * FROM writes").fetchone()
        checkpoints.prune(saver, timedelta(0), keep_latest=True)  # somebody reads: the space has to wait
        reader.close()
        assert {thread.id for thread in checkpoints.threads(saver)} == {"large", "small"}
        checkpoints.delete(saver, "large")
        assert saver.conn.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    assert path.stat().st_size < full / 4
    assert b"tangerine" not in path.read_bytes()


def test_values_that_no_checkpoint_has_are_deleted_on_a_server(postgres_url: str) -> None:
    with checkpoints.open(postgres_url) as saver:
        talk(saver, "t", 26)

        def count() -> int:
            with saver.transaction() as execute:
                return int(execute("SELECT count(*) FROM checkpoint_blobs")[0][0])

        before = count()
        shorten(saver, "t")
        assert 0 < count() < before


# Mistakes


def test_mistakes_are_told(way: str) -> None:
    with checkpoints.open("sqlite://") as saver:
        with pytest.raises(ValueError, match="no zone"):
            prune(way, saver, datetime(2020, 1, 1))
        with pytest.raises(ValueError, match="negative"):
            prune(way, saver, -DAY)
        with pytest.raises(ValueError, match='"delete" or "keep_latest"'):
            saver.prune(["t"], strategy="all")
        talk(saver, "t")
        with pytest.raises(ValueError, match="there is a thread 't'"):
            saver.copy_thread("u", "t")
    with pytest.raises(TypeError, match=r"InMemorySaver .*taograph\.checkpoints\.open"):
        prune(way, InMemorySaver(), DAY)


async def test_the_async_twins(url: str) -> None:
    async with checkpoints.aopen(url) as saver:
        graph = graph_on(saver, "Hello.")
        runs = [graph.ainvoke({"messages": [("user", "Hi")]}, at(f"t{n}")) for n in range(8)]
        await asyncio.gather(*runs)
        assert len(await checkpoints.athreads(saver)) == 8
        assert await checkpoints.adelete(saver, "t0") is True
        assert len((await checkpoints.aprune(saver, timedelta(0))).deleted) == 7
        await saver.acopy_thread("t1", "t2")
        await saver.aprune(["t2"], strategy="keep_latest")
        await saver.adelete_thread("t2")
