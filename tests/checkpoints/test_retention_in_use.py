"""A thread that a run of another process has is neither deleted nor cut under it."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from writer_support import Worker

from taograph import checkpoints, create_react_graph
from taograph.models import ScriptedModel
from taograph.writers import ThreadBusyError

NOW = timedelta(0)


def done(coroutine: Any, way: str) -> Any:
    return asyncio.run(coroutine) if way == "async" else coroutine


# Each database and each way; what is between them does not know of the other, and the other pairs are slow.
PAIRS = [
    pytest.param(url, way, marks=() if (url, way) in (("sqlite", "sync"), ("postgres", "async")) else pytest.mark.slow)
    for url, way in itertools.product(("sqlite", "postgres"), ("sync", "async"))
]


@pytest.mark.parametrize(("url", "way"), PAIRS, indirect=True)
def test_deleting_is_refused_and_pruning_goes_past(url: str, way: str) -> None:
    delete: Any = checkpoints.adelete if way == "async" else checkpoints.delete
    prune: Any = checkpoints.aprune if way == "async" else checkpoints.prune
    with checkpoints.open(url) as saver, Worker(url) as worker:
        worker.reads("ready")
        graph = create_react_graph(ScriptedModel(replies=[AIMessage("Hello.")], repeat=True), [], checkpointer=saver)
        for thread in ("held", "free"):
            for _ in range(60):  # more than the last state needs
                graph.invoke({"messages": [("user", "Hi")]}, {"configurable": {"thread_id": thread}})
        size = {thread.id: thread.size for thread in checkpoints.threads(saver)}
        worker.holds("held")
        with pytest.raises(ThreadBusyError) as refused:
            done(delete(saver, "held"), way)
        assert refused.value.thread == "held"
        assert refused.value.pid == worker.process.pid
        shortened = done(prune(saver, NOW, keep_latest=True), way)
        assert (shortened.shortened, shortened.busy) == (("free",), ("held",))
        pruned = done(prune(saver, NOW), way)
        assert (pruned.deleted, pruned.busy) == (("free",), ("held",))
        (left,) = checkpoints.threads(saver)
        assert left.size >= size["held"]
        worker.goes_on()
        assert worker.answers()["stop"] == "final"
        assert len(graph.get_state({"configurable": {"thread_id": "held"}}).values["messages"]) == 2 * 60 + 4
        assert done(delete(saver, "held"), way)
        assert checkpoints.threads(saver) == []
