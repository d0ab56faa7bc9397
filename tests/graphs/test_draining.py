"""Whoever asks a run to drain, and wherever: it ends after the step at hand, and whoever started it is told."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import MessagesState, StateGraph
from langgraph.runtime import RunControl, get_runtime
from support import Way, asks, both_ways, question, run, thread

from taograph import create_react_graph, tool
from taograph.models import ScriptedModel, call

WHY = "the machine is needed"


def runs(control: RunControl | None, *, parent: bool, saver: Any = None) -> tuple[Any, list[str]]:
    """A graph of which a tool asks to drain, by the control or by the runtime, and what was done after it."""
    after: list[str] = []

    @tool(effects="none")
    def drain(name: str) -> str:
        """Drain.

        Args:
            name: Anything.
        """
        found = control or get_runtime().control
        assert found is not None
        found.request_drain(WHY)
        return "asked"

    def answers(_messages: Any) -> str:
        after.append("model")
        return "done"

    model = ScriptedModel(replies=[asks(call("drain", {"name": "x"})), answers])
    inner = create_react_graph(model, [drain], checkpointer=None if parent else saver)
    if not parent:
        return inner, after
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner)
    outer.add_node("after", lambda _state: after.append("after") or {})
    outer.add_edge("__start__", "inner")
    outer.add_edge("inner", "after")
    return outer.compile(checkpointer=saver), after


@both_ways
@pytest.mark.parametrize("parent", [False, True], ids=["alone", "in a parent"])
@pytest.mark.parametrize("within", [False, True], ids=["from outside", "from within"])
def test_a_run_is_drained(way: Way, parent: bool, within: bool) -> None:
    control = RunControl()
    graph, after = runs(None if within else control, parent=parent, saver=InMemorySaver())
    with pytest.raises(GraphDrained, match=WHY):
        run(way, graph, question(), thread(), control=control)
    assert after == []
    assert (control.drain_requested, control.drain_reason) == (True, WHY)
    result = run(way, graph, None, thread())
    assert result["messages"][-1].content == "done", "it goes on where it was"
    assert after == (["model", "after"] if parent else ["model"])


@both_ways
def test_a_run_that_nobody_drains_tells_nobody(way: Way) -> None:
    control = RunControl()
    graph = create_react_graph(ScriptedModel(replies=["done"]), [])
    assert run(way, graph, question(), control=control)["answer"] == "done"
    assert not control.drain_requested
