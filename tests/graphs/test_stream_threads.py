"""A stream waits in one of the threads that ``max_concurrency`` leaves for the work: with one, there are two."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from stream_support import Streams, of
from support import asks, question
from vote_support import Script, waves

from taograph import create_react_graph, tool
from taograph.graphs.hybrid import create_hybrid_graph
from taograph.graphs.self_consistency import create_self_consistency_graph
from taograph.models import ScriptedModel, call

ONE = {"max_concurrency": 1}


@pytest.mark.parametrize("bound", [False, True])
def test_one_at_a_time_is_not_none_at_all(steps: Streams, bound: bool) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    @tool(effects="none")
    def look(name: str) -> str:
        """Look.

        Args:
            name: At what.
        """
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1
        return name

    calls = [call("look", {"name": name}) for name in "abc"]
    graph: Any = create_react_graph(ScriptedModel(replies=[asks(*calls), "Done."]), [look])
    graph, config = (graph.with_config(ONE), None) if bound else (graph, ONE)
    events = steps(graph, question(), config)
    assert of(events, "answer")[0]["text"] == "Done."
    assert len(of(events, "observation")) == 3
    assert most <= 2  # one more than it says, between two waits for the stream


@pytest.mark.parametrize("mode", ["values", "updates", "custom", "messages", ["updates", "custom"]])
def test_in_every_mode(mode: Any) -> None:
    graph = create_react_graph(ScriptedModel(replies=["Done."]))
    assert list(graph.stream(question(), ONE, stream_mode=mode))


def test_samples_and_nested_graphs_too(steps: Streams) -> None:
    events = steps(create_self_consistency_graph(Script().model(), samples=5), question(), ONE)
    assert waves(events) == [3]
    events = steps(create_hybrid_graph(Script().model(), react_steps=1, samples=3), question(), ONE)
    assert of(events, "answer")
