"""A thread lived twice, on LangGraph's channel for messages and on ours: what it holds must never differ.

Each step does one thing to both threads: run, run on, answer questions, edit the state, go back in time, branch
off. Afterwards what the run gave, what is read back and the whole history are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import EmptyInputError, InvalidUpdateError
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, Send, interrupt
from message_writes import Write, merges, overwrites, seen, written
from typing_extensions import TypedDict

from taograph.graphs.loop.channels import MessagesChannel

# LangGraph leaves the threads of a run that had nothing to do to the garbage collector. Where that works in one of
# them, Python says that a thread cannot wait for itself.
LEFT_BY_LANGGRAPH = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <generator object get_executor_for_config:pytest.PytestUnraisableExceptionWarning"
)

THEIRS = Annotated[list[AnyMessage], add_messages]
# A short cadence: lists that are stored and lists that are put together again, within a few steps.
OURS = Annotated[list[AnyMessage], MessagesChannel(snapshot_frequency=3)]


class Branch(TypedDict):
    """What one of the tasks of a step does."""

    asks: bool
    writes: list[Write]


_writes = st.one_of(merges, merges, merges, overwrites)
_branch = st.fixed_dictionaries(
    {"asks": st.sampled_from([False] * 4 + [True]), "writes": st.lists(_writes, min_size=1, max_size=2)}
)
SCRIPTS = st.lists(st.lists(_branch, max_size=3), max_size=4)
_durability = st.sampled_from(["sync", "async", "exit"])
_back = st.integers(0, 8)


def scripted_graph(channel: Any, saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph that does what its input says: each step is a number of parallel tasks."""
    schema = TypedDict("schema", {"messages": channel, "script": list[Any], "at": int})  # type: ignore[misc]  # noqa: UP013

    def hub(state: Any) -> Any:
        return {"at": state.get("at", 0) + 1}

    def work(branch: Branch) -> Any:
        if branch["asks"]:
            interrupt("?")
        return [Command(update={"messages": written(write)}) for write in branch["writes"]]

    def route(state: Any) -> Any:
        script, at = state.get("script") or [], state.get("at", 0)
        if not 0 < at <= len(script):
            return END
        return [Send("work", branch) for branch in script[at - 1]] or "hub"

    return (
        StateGraph(schema)
        .add_node("hub", hub)
        .add_node("work", work)
        .add_edge(START, "hub")
        .add_conditional_edges("hub", route, ["work", "hub", END])
        .add_edge("work", "hub")
        .compile(checkpointer=saver)
    )


class Twins(RuleBasedStateMachine):
    """Two threads that are done the same to."""

    config = {"configurable": {"thread_id": "t"}}  # noqa: RUF012
    asynchronous = False

    @staticmethod
    def make_saver() -> BaseCheckpointSaver[Any]:
        """A saver of its own for a thread."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.savers: list[tuple[Any, BaseCheckpointSaver[Any]]] = []
        self._begin()

    def close_savers(self) -> None:
        """Close the connections of both savers, where they have any."""
        for _, saver in self.savers:
            if hasattr(saver, "conn"):
                saver.conn.close()

    def teardown(self) -> None:
        """The end of an example."""
        self.close_savers()

    def _begin(self) -> None:
        self.close_savers()
        self.savers = [(channel, self.make_saver()) for channel in (THEIRS, OURS)]

    def graphs(self) -> list[Any]:
        """Both graphs, compiled anew: nothing is left of what an earlier one had in memory."""
        return [scripted_graph(channel, saver) for channel, saver in self.savers]

    def invoke(self, graph: Any, given: Any, config: Any, durability: str) -> Any:
        """Run a graph, one of the two ways."""
        if self.asynchronous:
            return asyncio.run(graph.ainvoke(given, config, durability=durability))
        return graph.invoke(given, config, durability=durability)

    def history(self, graph: Any) -> list[Any]:
        """All states, newest first; with durability="exit" there may be a bare one beneath the first."""
        return [state for state in graph.get_state_history(self.config) if "source" in (state.metadata or {})]

    def at(self, graph: Any, back: int) -> Any:
        """The config of a state of the past; None where there is none."""
        states = self.history(graph)
        return states[min(back, len(states) - 1)].config if states else None

    def both(self, do: Callable[[Any], Any], durability: str = "sync") -> None:
        """Do the same to both threads and compare all that can be seen of them."""
        theirs, ours = (self._outcome(lambda graph=graph: do(graph)) for graph in self.graphs())
        assert theirs == ours, "what the run gave"
        if theirs == "refused" and durability == "exit":
            self._begin()  # LangGraph's channel then stores half of the step that failed; ours none of it
            return
        theirs, ours = (self._outcome(lambda g=graph: self._state(g)) for graph in self.graphs())
        assert theirs == ours, "what is read back"
        assert ours == "refused" or self._ids() == self._ids(), "ids stay"
        theirs, ours = (self._outcome(lambda g=graph: self._states(g)) for graph in self.graphs())
        assert theirs == ours, "what is read back of the past"

    def _outcome(self, do: Callable[[], Any]) -> Any:
        try:
            out = do()
        except EmptyInputError:
            return "nothing to do"
        except (ValueError, InvalidUpdateError):  # a removal of what is not there, or two overwrites in a step
            return "refused"
        return seen(out.get("messages") or []) if isinstance(out, dict) else out

    def _state(self, graph: Any) -> Any:
        state = graph.get_state(self.config)
        return seen(state.values.get("messages") or ()), state.next, len(state.interrupts)

    def _ids(self) -> list[str]:
        return [message.id for message in self.graphs()[1].get_state(self.config).values.get("messages") or ()]

    def _states(self, graph: Any) -> Any:
        return [
            (state.metadata["source"], state.metadata["step"], state.next, seen(state.values.get("messages") or ()))
            for state in self.history(graph)
        ]

    @rule(script=SCRIPTS, write=_writes, durability=_durability)
    def run(self, script: Any, write: Write, durability: str) -> None:
        given = {"script": script, "at": 0}
        self.both(lambda g: self.invoke(g, {**given, "messages": written(write)}, self.config, durability), durability)

    @rule(durability=_durability)
    def run_on(self, durability: str) -> None:
        self.both(lambda g: self.invoke(g, None, self.config, durability), durability)

    @rule(durability=_durability, write=st.one_of(st.none(), _writes), some=st.booleans())
    def answer(self, durability: str, write: Write | None, some: bool) -> None:
        def do(graph: Any) -> Any:
            asked = graph.get_state(self.config).interrupts
            if not asked:
                return None
            update = {} if write is None else {"update": {"messages": written(write)}}
            answers = {one.id: "!" for one in (asked[:1] if some else asked)}
            return self.invoke(graph, Command(resume=answers, **update), self.config, durability)

        self.both(do, durability)

    @rule(write=_writes, node=st.sampled_from(["hub", "work", None]), back=_back)
    def edit(self, write: Write, node: str | None, back: int) -> None:
        def do(graph: Any) -> None:
            config = self.at(graph, back) if back else None
            graph.update_state(config or self.config, {"messages": written(write)}, as_node=node)

        self.both(do)

    @rule(back=_back, durability=_durability)
    def go_back(self, back: int, durability: str) -> None:
        def do(graph: Any) -> Any:
            config = self.at(graph, back)
            return None if config is None else self.invoke(graph, None, config, durability)

        self.both(do, durability)

    @rule(back=_back, durability=_durability, script=SCRIPTS, write=_writes)
    def branch_off(self, back: int, durability: str, script: Any, write: Write) -> None:
        def do(graph: Any) -> Any:
            config = self.at(graph, back)
            given = {"messages": written(write), "script": script, "at": 0}
            return None if config is None else self.invoke(graph, given, config, durability)

        self.both(do, durability)
