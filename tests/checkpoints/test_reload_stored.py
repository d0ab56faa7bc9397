"""Reload equals live on what is opened from a URL, with and without a key; a copy that is pruned lives on the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from message_threads import LEFT_BY_LANGGRAPH, SCRIPTS, Twins, scripted_graph

from taograph import checkpoints
from taograph.checkpoints.retention import shorten

SETTINGS = settings(
    max_examples=8,
    stateful_step_count=8,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


class Stored(Twins):
    """Threads in databases; one of the two is pruned now and then, as a copy."""

    free: list[checkpoints.Checkpoints]

    def make_saver(self) -> checkpoints.Checkpoints:  # type: ignore[override]
        saver = self.free[len(self.used)]
        self.used.append(saver)
        saver.delete_thread("t")
        return saver

    def close_savers(self) -> None:
        self.used: list[checkpoints.Checkpoints] = []

    @rule(script=SCRIPTS)
    def prune_a_copy(self, script: Any) -> None:
        channel, saver = self.savers[1]
        assert isinstance(saver, checkpoints.Checkpoints)

        def lives(thread: str) -> Any:
            config = {"configurable": {"thread_id": thread}}
            graph = scripted_graph(channel, saver)

            def state() -> Any:
                held = graph.get_state(config)
                return [m.id for m in held.values.get("messages") or ()], held.next, len(held.interrupts)

            given = {"messages": [("user", "x")], "script": script, "at": 0}
            before = self._outcome(state)
            return before, self._outcome(lambda: self.invoke(graph, given, config, "sync"))

        for copy in ("whole", "pruned"):
            saver.delete_thread(copy)
            saver.copy_thread("t", copy)
        shorten(saver, "pruned")
        whole, pruned = lives("whole"), lives("pruned")
        assert whole[0] == pruned[0], "the state that is kept"
        assert whole[1] == pruned[1], "what becomes of it"


@pytest.fixture(params=["sync, plain", "async, encrypted"])
def stored(request: pytest.FixtureRequest, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stored]]:
    way, _, kind = request.param.partition(", ")
    if kind == "encrypted":
        monkeypatch.setenv("LANGGRAPH_AES_KEY", "k" * 16)
    with ExitStack() as stack:
        savers = [stack.enter_context(checkpoints.open(url))]
        if url.startswith("sqlite"):
            savers.append(stack.enter_context(checkpoints.open(f"{url}2")))
        else:
            import psycopg

            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE SCHEMA second")
            savers.append(stack.enter_context(checkpoints.open(f"{url}?options=-csearch_path%3Dsecond")))
        yield type("StoredHere", (Stored,), {"free": savers, "asynchronous": way == "async"})


@LEFT_BY_LANGGRAPH
def test_nothing_that_is_done_to_a_thread_reads_back_differently(stored: type[Stored]) -> None:
    run_state_machine_as_test(stored, settings=SETTINGS)
