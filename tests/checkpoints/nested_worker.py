"""Runs one of our graphs as a node of a graph that is none of ours, in a process of its own, to be killed there.

The protocol, the model and the tools are those of ``tests/crash/worker.py``. The outer graph brings the checkpointer
and says the durability; it has a node before ours and one after it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

import worker
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from worker import QUESTION, STEPS, Job, say

import taograph.checkpoints.postgres
import taograph.checkpoints.sqlite
from taograph import Limits, checkpoints, create_react_graph
from taograph.graphs.loop.repair import is_sound
from taograph.models import ScriptedModel

LATE_SECONDS = 0.3


class Nested(Job):
    """What a child is to do.

    Args:
        given: As for ``Job``; besides ``durability``, ``form`` ("node", or "function": called in one) and ``late``
            (steps of the outer graph are stored with some delay).
    """

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.durability: Any = given["durability"]
        self.form: str = given.get("form", "node")
        self.late: bool = given.get("late", False)

    def watch(self) -> None:
        """Say what has been stored, and store late."""
        super().watch()
        for kind in (taograph.checkpoints.sqlite.SqliteCheckpoints, taograph.checkpoints.postgres.PostgresCheckpoints):
            self._delay(kind)

    def _delay(self, kind: Any) -> None:
        job, put = self, kind.put

        def stored(self: Any, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            outer = not config["configurable"].get("checkpoint_ns")
            if outer and job.late:
                time.sleep(LATE_SECONDS)
            made = put(self, config, checkpoint, metadata, versions)
            if outer:
                job.at(f"outer step {metadata['step']} stored")
            return made

        kind.put = stored


def make_graph(job: Nested, saver: Any) -> Any:
    """The outer graph."""
    model = ScriptedModel(replies=[job.reply], repeat=True)
    inner = create_react_graph(model, job.tools(), limits=Limits(steps=STEPS), approve=job.approve)

    def before(state: MessagesState) -> dict[str, Any]:
        job.at("before ran")
        return {"messages": []}

    def after(state: MessagesState) -> dict[str, Any]:
        job.at("after ran")
        return {"messages": [HumanMessage("Thanks.")]}

    def called(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": inner.invoke({"messages": state["messages"]}, config)["messages"]}

    async def acalled(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": (await inner.ainvoke({"messages": state["messages"]}, config))["messages"]}

    agent: Any = inner if job.form == "node" else called if job.way == "sync" else acalled
    graph = StateGraph(MessagesState).add_node("before", before).add_node("agent", agent).add_node("after", after)
    graph.add_edge(START, "before").add_edge("before", "agent").add_edge("agent", "after").add_edge("after", END)
    return graph.compile(checkpointer=saver)


def run_sync(job: Any) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": job.thread}}
    with checkpoints.open(job.url) as saver:
        graph = make_graph(job, saver)
        given = input_of(job, graph.get_state(config))
        say({"started": True})
        result = graph.invoke(given, config, durability=job.durability)
        return result_of(result)


async def run_async(job: Any) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": job.thread}}
    async with checkpoints.aopen(job.url) as saver:
        graph = make_graph(job, saver)
        given = input_of(job, await graph.aget_state(config))
        say({"started": True})
        result = await graph.ainvoke(given, config, durability=job.durability)
        return result_of(result)


def input_of(job: Nested, state: Any) -> Any:
    """What the run goes on with: nothing, an answer, or the question where it was never stored."""
    if job.resume is not None:
        return Command(resume=job.resume)
    return None if state.created_at else {"messages": [HumanMessage(QUESTION)]}


def result_of(result: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [[m.type, m.text.rpartition(":] ")[2]] for m in result["messages"]],  # as a person put it, or not
        "sound": is_sound(result["messages"]),
        "asked": [{"id": one.id, **one.value} for one in result.get("__interrupt__", ())],
    }


if __name__ == "__main__":
    worker.Job, worker._sync, worker._async = Nested, run_sync, run_async  # type: ignore[misc]
    worker.main()
