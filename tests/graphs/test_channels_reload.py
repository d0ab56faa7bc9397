"""Reload equals live: runs, forks, time travel, parallel tasks, questions, edits, removals and overwrites."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from message_threads import LEFT_BY_LANGGRAPH, OURS, THEIRS, Twins, scripted_graph

from taograph.graphs.loop.channels import Messages

SETTINGS = settings(
    max_examples=25,
    stateful_step_count=8,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # an example has few steps; to make it shorter would take minutes
    suppress_health_check=[HealthCheck.too_slow],
)


class InMemory(Twins):
    make_saver = staticmethod(InMemorySaver)


class InMemoryAsync(InMemory):
    asynchronous = True


class InSqlite(Twins):
    @staticmethod
    def make_saver() -> SqliteSaver:
        return SqliteSaver(sqlite3.connect(":memory:", check_same_thread=False))


@LEFT_BY_LANGGRAPH
@pytest.mark.parametrize("twins", [InMemory, InMemoryAsync, InSqlite])
def test_nothing_that_is_done_to_a_thread_reads_back_differently(twins: type[Twins]) -> None:
    run_state_machine_as_test(twins, settings=SETTINGS)


def invoke(graph: Any, *texts: str) -> list[str]:
    script = [[{"asks": False, "writes": [("list", [("ai", None, text)])]}] for text in texts]
    config = {"configurable": {"thread_id": "t"}}
    result = graph.invoke({"messages": [HumanMessage("Go on")], "script": script, "at": 0}, config)
    return [message.text for message in result["messages"]]


@pytest.mark.parametrize("channel", [OURS, Messages])
@pytest.mark.parametrize("kind", [InMemory, InSqlite])
def test_a_thread_that_was_begun_on_langgraphs_channel_goes_on_with_ours(channel: Any, kind: type[Twins]) -> None:
    twins = kind()
    store = twins.savers[0][1]
    before = invoke(scripted_graph(THEIRS, store), "one", "two")
    config = {"configurable": {"thread_id": "t"}}
    old = list(scripted_graph(THEIRS, store).get_state_history(config))
    ours = scripted_graph(channel, store)
    assert [m.text for m in ours.get_state(config).values["messages"]] == before
    assert invoke(ours, "three", "four") == [*before, "Go on", "three", "four"]
    again = scripted_graph(channel, store)
    assert [m.text for m in again.get_state(config).values["messages"]] == [*before, "Go on", "three", "four"]
    for state in old:  # the past is still there, and can be gone on from
        read = again.get_state(state.config).values
        assert [m.id for m in read.get("messages", [])] == [m.id for m in state.values.get("messages", [])]
    fork = again.update_state(old[2].config, {"messages": [HumanMessage("another way")]})
    assert again.get_state(fork).values["messages"][-1].text == "another way"
    assert [m.id for m in again.get_state(old[0].config).values["messages"]] == [
        m.id for m in old[0].values["messages"]
    ]
