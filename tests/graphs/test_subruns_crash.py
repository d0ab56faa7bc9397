"""Sub-runs over crashes: no reply is paid twice, and what was used before is not used again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from subrun_support import Make, one_level, part_of, turns, two_levels
from support import Way, asks, asks_for_ever, assert_ended, both_ways, lookup, question, run, thread

from taograph import Limits, checkpoints
from taograph.calls import TOOL_THREADS, Call, Steps
from taograph.checkpoints.sqlite import SqliteCheckpoints
from taograph.graphs.loop.internals import node
from taograph.graphs.loop.options import agent_of, compiled
from taograph.graphs.loop.stage import Stage, stage
from taograph.graphs.loop.state import Input, StrategyOutput, StrategyState
from taograph.graphs.loop.subruns import Branch, branch
from taograph.graphs.loop.trajectory import feedback
from taograph.models import ScriptedModel

levels = pytest.mark.parametrize("make", [one_level, two_levels])


class Crash(Exception):  # noqa: N818 - what happens
    """The process dies."""

    taograph_fatal = True


def crashing_at(monkeypatch: pytest.MonkeyPatch, method: str, number: int) -> Callable[[], int]:
    """Let the process die before the saver does something for that time; returns how often it did it."""
    seen, lock, usual = 0, threading.Lock(), getattr(SqliteCheckpoints, method)

    def does(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal seen
        with lock:
            seen += 1
            dies = seen == number
        if dies:
            raise Crash
        return usual(self, *given, **more)

    monkeypatch.setattr(SqliteCheckpoints, method, does)
    return lambda: seen


def carried(
    way: Way, make: Callable[[Any], Any], path: Path, number: int, method: str = "put"
) -> tuple[dict[str, Any], int]:
    """A run that dies once and goes on; what came of it, and how often the saver was called in all."""
    with pytest.MonkeyPatch.context() as patch, checkpoints.open(f"sqlite:///{path / str(number)}.db") as saver:
        calls, graph = crashing_at(patch, method, number), make(saver)
        try:
            result = run(way, graph, question("it"), thread())
        except Crash:
            stored = graph.get_state(thread()).values
            result = run(way, graph, None if stored else question("it"), thread())
        return result, calls()


def answering() -> ScriptedModel:
    """Each part looks something up and answers."""

    def reply(messages: list[BaseMessage]) -> Any:
        return f"found by {part_of(messages)}" if messages[-1].type == "tool" else asks(part_of(messages))

    return ScriptedModel(replies=[reply], repeat=True, usage=(10, 5))


@both_ways
@levels
@pytest.mark.parametrize("method", ["put", "put_writes"])
def test_no_reply_is_paid_twice(way: Way, make: Make, method: str, tmp_path: Path) -> None:
    """Wherever the process dies: before a checkpoint is stored, or before what a task wrote is."""

    def dies(number: int) -> int:
        model = answering()
        result, calls = carried(way, lambda saver: make(model, [lookup], checkpointer=saver), tmp_path, number, method)
        assert_ended(result, "final")
        told = Counter((r.messages[0].text, len(r.messages)) for r in model.requests)
        # Under ainvoke the tasks beside the one that fails are cancelled: a reply that comes in that moment is lost,
        # as is one that is on its way when a process dies. There are three of them.
        lost = 3 if way == "ainvoke" and number else 0
        assert len(model.requests) - 8 <= lost, f"died at {method} {number}: {told}"
        assert len(told) == result["spent"]["model_calls"] == result["stop"]["step"] == 8
        assert result["spent"]["tool_calls"] == 4
        return calls

    for number in range(1, dies(0) + 1, 3 if make is one_level and way == "invoke" else 9):
        dies(number)


@levels
def test_steps_are_shared_over_a_crash(make: Make, tmp_path: Path) -> None:
    """What parts had used that the crash ended, too, is not there a second time."""
    steps = 6

    def dies(number: int) -> int:
        model = asks_for_ever()
        result, calls = carried(
            "invoke",
            lambda saver: make(model, [lookup], limits=Limits(steps=steps), checkpointer=saver),
            tmp_path,
            number,
        )
        assert_ended(result, "step_limit")
        assert turns(model) == result["stop"]["step"] == steps, f"died at checkpoint {number}"
        return calls

    for number in range(1, dies(0) + 1, 5):
        dies(number)


@both_ways
def test_replies_side_by_side_are_each_kept(way: Way, tmp_path: Path) -> None:
    """Three tasks of one superstep have their replies, and the process dies before any of them has written."""
    model, all_of_them, died = ScriptedModel(replies=["yes"], repeat=True), threading.Barrier(3, timeout=20), [False]
    agent = agent_of(model, (), {}, name="asking")

    def begin(here: Stage, state: Any) -> Steps[dict[str, Any]]:
        yield from ()
        return {}

    def ask(here: Branch, task: str) -> Steps[dict[str, Any]]:
        reply = yield from here.ask([HumanMessage(task)])
        if not died[0]:
            yield Call(all_of_them.wait, None, None, TOOL_THREADS)
            died[0] = True
            raise Crash
        return {"messages": [feedback(task, "question"), reply]}

    def end(here: Stage, state: Any) -> Steps[dict[str, Any]]:
        yield from ()
        here.session.messages.append(AIMessage("done"))
        return {"stop": here.stop("final", "all asked"), "answer": "done"}

    def route(state: Any) -> list[Send]:
        return [Send("ask", f"question {number}") for number in range(3)]

    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        builder = (
            StateGraph(StrategyState, input_schema=Input, output_schema=StrategyOutput)
            .add_node("begin", node("begin", stage(agent, begin, after=2)))
            .add_node("ask", node("ask", branch(agent, ask)))
            .add_node("end", node("end", stage(agent, end)))
            .add_edge(START, "begin")
            .add_conditional_edges("begin", route, ["ask"])
            .add_edge("ask", "end")
            .add_edge("end", END)
        )
        graph = compiled(builder, agent, {"checkpointer": saver})
        with pytest.raises(Crash):
            run(way, graph, question("it"), thread())
        result = run(way, graph, None, thread())
    assert_ended(result, "final")
    assert Counter(request.messages[-1].text for request in model.requests) == dict.fromkeys(
        ("question 0", "question 1", "question 2"), 1
    )
    assert result["spent"]["model_calls"] == 3
