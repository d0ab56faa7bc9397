"""Several threads, tasks and processes on one database; connections that break; clocks that differ."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from taograph import checkpoints, create_react_graph, tool
from taograph.graphs.loop.channels import Messages
from taograph.models import ScriptedModel, call


@tool(effects="none")
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One number.
        b: Another.
    """
    return a + b


def model() -> ScriptedModel:
    """Calls the tool twice in each run, then answers."""

    def reply(messages: list[BaseMessage]) -> Any:
        results = 0
        for message in reversed(messages):
            if message.type == "human":
                break
            results += message.type == "tool"
        return AIMessage("", tool_calls=[call("add", {"a": results, "b": 1})]) if results < 2 else "Two."

    return ScriptedModel(replies=[reply], repeat=True)


def at(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}}


ASKED = {"messages": [("user", "How many?")]}


def test_threads_of_a_process_share_a_saver(url: str) -> None:
    with checkpoints.open(url) as saver, ThreadPoolExecutor(12) as pool:
        graph = create_react_graph(model(), [add], checkpointer=saver)
        answers = list(pool.map(lambda n: graph.invoke(ASKED, at(str(n)))["answer"], range(24)))
        assert answers == ["Two."] * 24
        assert all(len(graph.get_state(at(str(n))).values["messages"]) == 6 for n in range(24))


async def test_tasks_of_a_loop_share_a_saver_opened_either_way(url: str) -> None:
    async def use(saver: Any, name: str) -> None:
        graph = create_react_graph(model(), [add], checkpointer=saver)
        results = await asyncio.gather(*(graph.ainvoke(ASKED, at(f"{name}{n}")) for n in range(12)))
        assert [result["answer"] for result in results] == ["Two."] * 12
        state = await graph.aget_state(at(f"{name}0"))
        assert len(state.values["messages"]) == 6
        assert len([s async for s in graph.aget_state_history(at(f"{name}0"))]) > 5

    async with checkpoints.aopen(url) as saver:
        await use(saver, "a")
    with checkpoints.open(url) as saver:
        await use(saver, "b")
        assert len(checkpoints.threads(saver)) == 24


async def test_what_is_being_stored_is_stored_though_the_task_is_cancelled(url: str) -> None:
    async with checkpoints.aopen(url) as saver:
        put, begun = saver.put, asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(*args: Any) -> Any:
            loop.call_soon_threadsafe(begun.set)
            time.sleep(0.3)
            return put(*args)

        saver.put = slow  # type: ignore[method-assign]
        checkpoint: Any = {
            "v": 4,
            "id": "1",
            "ts": "",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
        }
        where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        task = asyncio.create_task(saver.aput(where, checkpoint, {}, {}))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with checkpoints.aopen(url) as saver:
        assert await saver.aget_tuple(where) is not None


@pytest.mark.parametrize("key", ["", "k" * 16], ids=["plain", "encrypted"])
def test_a_list_can_be_left_and_used_while_it_is_read(url: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if key:
        monkeypatch.setenv("LANGGRAPH_AES_KEY", key)
    with checkpoints.open(url) as saver:
        create_react_graph(model(), [add], checkpointer=saver).invoke(ASKED, {**at("t"), "metadata": {"by": "me"}})
        for found in saver.list(at("t"), filter={"by": "me"}, limit=2):
            assert saver.get_tuple(found.config) == found  # a lock that was held for the list would wait for itself
        next(saver.list(None))
        assert saver.get_tuple(at("t")) is not None


def test_a_thread_may_have_a_number(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = create_react_graph(model(), [add], checkpointer=saver)
        graph.invoke(ASKED, {"configurable": {"thread_id": 7}})
        assert graph.get_state(at("7")).values["answer"] == "Two."
        assert [thread.id for thread in checkpoints.threads(saver)] == ["7"]


RUN = """
import sys, json
sys.path[:0] = json.loads(sys.argv[3])
from test_sharing import ASKED, add, at, model
from taograph import checkpoints, create_react_graph
with checkpoints.open(sys.argv[1]) as saver:
    graph = create_react_graph(model(), [add], checkpointer=saver)
    for n in range(5):
        graph.invoke(ASKED, at(sys.argv[2]))
    print(len(graph.get_state(at(sys.argv[2])).values["messages"]))
"""


def test_processes_share_a_database(url: str) -> None:
    path = json.dumps([folder for folder in sys.path if "tests" in folder])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, url, f"t{n}", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    said = [process.communicate() for process in started]
    assert [out.strip() for out, _ in said] == ["30"] * 3, said


def test_a_thread_goes_on_where_a_clock_is_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint is the one with the greatest id, and another machine's clock may be ahead."""
    now = time.time_ns()
    with checkpoints.open(url) as saver:
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        monkeypatch.setattr(checkpoint_ids.time, "time_ns", lambda: now + 3_600 * 10**9)
        graph = create_react_graph(model(), [add], checkpointer=saver)
        graph.invoke(ASKED, at("t"))
        # Another process, an hour behind.
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        monkeypatch.setattr(checkpoint_ids.time, "time_ns", lambda: now)
        graph.invoke(ASKED, at("t"))
        assert len(graph.get_state(at("t")).values["messages"]) == 12


@pytest.mark.slow  # the pool takes its time
def test_connections_that_the_server_ends_are_replaced(postgres_url: str) -> None:
    """A server that was restarted, or a firewall that forgot them."""
    import psycopg

    def cut() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    class State(TypedDict):
        messages: Messages

    def say(state: State) -> State:
        cut()
        return {"messages": [AIMessage(f"{len(state['messages'])}")]}

    # Not our loop: that would lose its hold on the thread with its connection, and end.
    builder = StateGraph(State).add_sequence([("one", say), ("two", say), ("three", say)]).add_edge(START, "one")
    with checkpoints.open(postgres_url) as saver:
        graph = builder.compile(checkpointer=saver)
        for _ in range(3):
            graph.invoke({"messages": [("user", "Go")]}, at("t"), durability="sync")
            cut()
        assert [m.text for m in graph.get_state(at("t")).values["messages"]][-4:] == ["Go", "9", "10", "11"]


def test_nothing_is_left_open(postgres_url: str) -> None:
    import psycopg

    with checkpoints.open(postgres_url) as saver, ThreadPoolExecutor(12) as pool:
        assert [*pool.map(saver.get_tuple, map(at, "abcdefghijkl"))] == [None] * 12
        assert checkpoints.threads(saver) == []
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for _ in range(100):
            left = other.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
            if left == (0,):
                return
            time.sleep(0.1)
    raise AssertionError("a session was left")


STRICT = """
import json, logging, sys
sys.path[:0] = json.loads(sys.argv[2])
warned = []
handler = logging.Handler()
handler.emit = lambda record: warned.append(record.getMessage())
logging.getLogger("langgraph").addHandler(handler)
from test_sharing import ASKED, add, at, model
from taograph import checkpoints, create_react_graph
from taograph.graphs.loop.channels import Messages
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person
from langchain_core.messages import AIMessage
from langgraph.types import Command
with checkpoints.open(sys.argv[1]) as saver:
    graph = create_react_graph(model(), [add], checkpointer=saver)
    result = graph.invoke(ASKED, at("t"))
    asks = ScriptedModel(replies=[AIMessage("", tool_calls=[call("ask_person", {"question": "Which?"})]), "That."])
    asking = create_react_graph(asks, [ask_person], checkpointer=saver)
    asking.invoke(ASKED, at("u"))
    assert asking.get_state(at("u")).interrupts[0].value["question"] == "Which?"
    assert asking.invoke(Command(resume="this"), at("u"))["answer"] == "That."
    state = graph.get_state(at("t")).values
    assert state["messages"] == result["messages"], (state, result)
    assert len(list(graph.get_state_history(at("t")))) > 5
print(json.dumps([type(m).__name__ for m in state["messages"]] + warned))
"""


@pytest.mark.parametrize("key", ["", "k" * 32], ids=["plain", "encrypted"])
def test_only_known_types_are_made_and_all_of_ours_are(url: str, key: str) -> None:
    path = json.dumps([folder for folder in sys.path if "tests" in folder])
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", **({"LANGGRAPH_AES_KEY": key} if key else {})}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STRICT, url, path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kinds = ["HumanMessage", "AIMessage", "ToolMessage", "AIMessage", "ToolMessage", "AIMessage"]
    assert json.loads(done.stdout) == kinds
