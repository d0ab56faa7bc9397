"""Every way of running gives the same: invoke, stream, batch, in a pipe, in threads and on an event loop."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from support import (
    Counting,
    asks,
    assert_ended,
    lookup,
    python_process,
    question,
    thread,
)

from taograph import Context, create_react_graph, tool
from taograph.models import ScriptedModel, call


@tool(effects="none")
async def alookup(name: str) -> str:
    """Look a name up, the async way.

    Args:
        name: What to look up.
    """
    await asyncio.sleep(0)
    return f"{name} is in the other book."


def make_model() -> ScriptedModel:
    return ScriptedModel(
        replies=[asks("Ada", call("alookup", {"name": "Ada"}), text="Both books."), "Page 3."], usage=(50, 5)
    )


def make_graph(**options: Any) -> Any:
    return create_react_graph(make_model(), [lookup, alookup], **options)


def same(result: dict[str, Any]) -> None:
    """The one result that every way of running has to give."""
    assert_ended(result, "final")
    assert result["answer"] == "Page 3."
    assert result["stop"]["step"] == 2
    spent = {k: v for k, v in result["spent"].items() if k != "seconds"}
    assert spent == {
        "model_calls": 2,
        "tool_calls": 2,
        "input_tokens": 100,
        "output_tokens": 10,
        "cached_tokens": 0,
        "cost": 0.0,
    }
    assert [(m.type, m.text) for m in result["messages"]] == [
        ("human", "What is it?"),
        ("ai", "Both books."),
        ("tool", "Ada is in the book on page 3."),
        ("tool", "Ada is in the other book."),
        ("ai", "Page 3."),
    ]


def last_values(graph: Any, mode: Any, **options: Any) -> dict[str, Any]:
    """The last state of a stream of several modes."""
    state = None
    for found, part in graph.stream(question(), stream_mode=mode, **options):
        state = part if found == "values" else state
    assert state is not None
    return state


async def alast_values(graph: Any, mode: Any, **options: Any) -> dict[str, Any]:
    state = None
    async for found, part in graph.astream(question(), stream_mode=mode, **options):
        state = part if found == "values" else state
    assert state is not None
    return state


ALL_MODES = ["values", "updates", "messages", "custom", "tasks", "debug", "checkpoints"]


def v2(graph: Any) -> dict[str, Any]:
    values = [
        part["data"]
        for part in graph.stream(question(), stream_mode=ALL_MODES[:-1], version="v2")
        if part["type"] == "values"
    ]
    return values[-1]


async def av2(graph: Any) -> dict[str, Any]:
    values = [
        part["data"]
        async for part in graph.astream(question(), stream_mode=ALL_MODES[:-1], version="v2")
        if part["type"] == "values"
    ]
    return values[-1]


WAYS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "invoke": lambda g: g.invoke(question()),
    "ainvoke": lambda g: asyncio.run(g.ainvoke(question())),
    "invoke v2": lambda g: g.invoke(question(), version="v2").value,
    "ainvoke v2": lambda g: asyncio.run(g.ainvoke(question(), version="v2")).value,
    "stream": lambda g: last_values(g, ["values"]),
    "astream": lambda g: asyncio.run(alast_values(g, ["values"])),
    "stream of all modes": lambda g: last_values(g, ALL_MODES, subgraphs=False),
    "astream of all modes": lambda g: asyncio.run(alast_values(g, ALL_MODES)),
    "stream v2": v2,
    "astream v2": lambda g: asyncio.run(av2(g)),
    "batch": lambda g: g.batch([question()])[0],
    "abatch": lambda g: asyncio.run(g.abatch([question()]))[0],
    "pipe": lambda g: (RunnableLambda(lambda t: question(t)) | g).invoke("What is it?"),  # noqa: PLW0108
    "apipe": lambda g: asyncio.run((RunnableLambda(lambda t: question(t)) | g).ainvoke("What is it?")),  # noqa: PLW0108
    "with context": lambda g: g.invoke(question(), context=Context(steps=9)),
    "with a thread": lambda g: g.invoke(question(), thread()),
    "within a running loop": lambda g: asyncio.run(_invoke_on_loop(g)),
}


async def _invoke_on_loop(graph: Any) -> dict[str, Any]:
    return graph.invoke(question())


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_gives_the_same(name: str, saved: bool) -> None:
    graph = make_graph(**({"checkpointer": InMemorySaver()} if saved else {}))
    if saved:
        graph = graph.with_config(thread("t9"))
    same(WAYS[name](graph))


def test_the_parts_of_a_stream() -> None:
    graph = make_graph()
    updates = list(graph.stream(question(), stream_mode="updates"))
    assert [next(iter(part)) for part in updates] == ["reason", "act", "act", "reason"]
    tokens = [chunk.text for chunk, _ in make_graph().stream(question(), stream_mode="messages")]
    assert "".join(tokens).startswith("Both books.")
    custom = [
        part["taograph"]["type"] for part in make_graph().stream(question(), stream_mode="custom") if "taograph" in part
    ]
    assert custom[0] == "run_started"
    assert custom[-1] == "answer"


def test_a_batch_keeps_the_runs_apart() -> None:
    def reply(messages: list[Any]) -> AIMessage | str:
        name = str(messages[0].text)
        return f"{name} was seen: {messages[-1].text}" if messages[-1].type == "tool" else asks(name)

    graph = create_react_graph(ScriptedModel(replies=[reply], repeat=True), [lookup])
    names = [f"name{n}" for n in range(12)]
    for results in (
        graph.batch([question(n) for n in names], {"max_concurrency": 4}),
        asyncio.run(graph.abatch([question(n) for n in names], {"max_concurrency": 4})),
    ):
        assert [r["answer"] for r in results] == [f"{n} was seen: {n} is in the book on page {len(n)}." for n in names]
        for result in results:
            assert_ended(result, "final")
            assert result["spent"]["model_calls"] == 2


async def test_a_sync_tool_does_not_block_the_loop() -> None:
    beats: list[float] = []

    @tool(effects="none")
    def slow(name: str) -> str:
        """Take a while.

        Args:
            name: Anything.
        """
        time.sleep(0.5)
        return name

    async def heart() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.02)

    graph = create_react_graph(ScriptedModel(replies=[asks(call("slow", {"name": "x"})), "Done."]), [slow])
    beating = asyncio.create_task(heart())
    assert_ended(await graph.ainvoke(question()), "final")
    beating.cancel()
    assert len(beats) > 5, "the loop stood still while the tool ran"


def test_no_blocking_call_on_the_loop() -> None:
    """With the guard that ``langgraph dev`` sets, in a process of its own."""
    code = """
        import asyncio
        from langchain_core.messages import AIMessage
        from blockbuster import blockbuster_ctx
        from langgraph.checkpoint.memory import InMemorySaver
        from taograph import Limits, astream_steps, create_react_graph, tool
        from taograph.models import ScriptedModel, call
        import time

        @tool
        def slow(x: str) -> str:
            "Take a while."
            time.sleep(0.05)
            return x

        @tool
        async def aslow(x: str) -> str:
            "Take a while."
            await asyncio.sleep(0.05)
            return x

        def make(**options):
            both = AIMessage("", tool_calls=[call("slow", {"x": "1"}), call("aslow", {"x": "1"}), call("no")])
            model = ScriptedModel(replies=[both, "Done."])
            return create_react_graph(model, [slow, aslow], checkpointer=InMemorySaver(), **options)

        async def main():
            given, config = {"messages": [("user", "Go.")]}, {"configurable": {"thread_id": "1"}}
            await make().ainvoke(given, config)  # imports are done
            with blockbuster_ctx():
                result = await make(limits=Limits(tokens=10**6)).ainvoke(given, config)
                events = [e["type"] async for e in astream_steps(make(), given, config)]
                structured = make(verify=lambda a, t: None)
                verified = await structured.ainvoke(given, config)
            print(result["stop"]["reason"], verified["stop"]["reason"], events[-1])

        asyncio.run(main())
    """
    done = python_process(code)
    assert done.stdout.strip() == "final final answer", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_process_that_was_forked_runs_graphs_too() -> None:
    """As servers that load the graph once and fork their workers do."""
    code = """
        import os, warnings
        from langchain_core.messages import AIMessage
        from taograph import Limits, create_react_graph, tool
        from taograph.models import ScriptedModel, call

        @tool
        def look(x: str) -> str:
            "Look."
            return x

        @tool
        async def alook(x: str) -> str:
            "Look."
            return x

        def ask():
            both = AIMessage("", tool_calls=[call("look", {"x": "1"}), call("alook", {"x": "2"})])
            limits = Limits(seconds=10, reserve_seconds=1)
            graph = create_react_graph(ScriptedModel(replies=[both, "Done."]), [look, alook], limits=limits)
            result = graph.invoke({"messages": [("user", "Go.")]})
            return result["stop"]["reason"], [m.text for m in result["messages"] if m.type == "tool"]

        assert ask() == ("final", ["1", "2"])
        warnings.simplefilter("ignore")  # newer Pythons warn of forking with threads
        child = os.fork()
        if child == 0:
            print(*ask(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """
    done = python_process(code)
    assert done.stdout.strip() == "final ['1', '2']", done.stderr


def test_every_state_loads_under_strict_msgpack(tmp_path: Path) -> None:
    """Nothing in a checkpoint needs more than LangGraph's safe types."""
    code = f"""
        import logging, sys, warnings
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        from langchain_core.messages import AIMessage
        from langgraph.types import Command
        from pydantic import BaseModel
        from taograph import Limits, checkpoints, create_react_graph, tool
        from taograph.models import ScriptedModel, call
        from taograph.tools.person import ask_person

        class Place(BaseModel):
            "A place."
            page: int

        @tool(max_chars=200)
        def long(what: str = "") -> str:
            "Return much."
            return "word " * 500

        config = {{"configurable": {{"thread_id": "1"}}}}
        replies = [
            AIMessage("", tool_calls=[call("ask_person", {{"question": "Which?"}}), call("long"), call("no")]),
            AIMessage("", tool_calls=[call("read_result", {{"handle": "call_1_1"}})]),
            "Page 3.",
            AIMessage("", tool_calls=[call("Place", {{"page": 3}})]),
        ]
        model = ScriptedModel(replies=replies)
        for given in ({{"messages": [("user", "Where?")]}}, Command(resume="that one")):
            with checkpoints.open("sqlite:///{tmp_path}/t.db") as saver:
                graph = create_react_graph(model, [ask_person, long], checkpointer=saver, response_format=Place,
                                           limits=Limits(tokens=10**6))
                result = graph.invoke(given, config)
        with checkpoints.open("sqlite:///{tmp_path}/t.db") as saver:
            graph = create_react_graph(model, [ask_person, long], checkpointer=saver, response_format=Place)
            states = list(graph.get_state_history(config))
            for state in states:
                for message in state.values.get("messages", []):
                    assert type(message).__module__.startswith("langchain_core.messages"), message
                for task in state.tasks:
                    for interrupt in task.interrupts:
                        assert type(interrupt).__name__ == "Interrupt"
            assert states[0].values["answer"] == "Page 3.", states[0].values
            assert states[0].values["structured"] == {{"page": 3}}
            print(len(states), result["stop"]["reason"])
    """
    done = python_process(code, LANGGRAPH_STRICT_MSGPACK="true")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "final"
    assert done.stderr == ""


def test_a_graph_may_be_run_by_many_threads_at_once() -> None:
    import threading

    counting = Counting(same=True)

    def reply(messages: list[Any]) -> AIMessage | str:
        return f"Done: {messages[0].text}" if messages[-1].type == "tool" else asks(call("count", {"what": "x"}))

    graph = create_react_graph(
        ScriptedModel(replies=[reply], repeat=True, delay=0.01), [counting.tool], checkpointer=InMemorySaver()
    )
    answers: dict[int, str] = {}

    def one(n: int) -> None:
        answers[n] = graph.invoke(question(f"q{n}"), thread(f"t{n}"))["answer"]

    threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == {n: f"Done: q{n}" for n in range(20)}
    assert len(counting.calls) == 20


def test_the_graph_can_be_drawn_and_described() -> None:
    graph = make_graph(name="helper")
    assert graph.name == "helper"
    assert set(graph.get_graph().nodes) == {"__start__", "reason", "act", "finish", "__end__"}
    graph.get_input_jsonschema()
    assert {"messages", "answer", "stop", "spent"} <= set(graph.get_output_jsonschema()["properties"])
    assert "steps" in json.dumps(graph.get_context_jsonschema())
