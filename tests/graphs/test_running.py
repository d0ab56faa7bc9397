"""Every way of running gives the same: invoke, stream, batch, in a larger graph, in a pipe, with any kind of tool."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from support import (
    Counting,
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    question,
    run,
    thread,
)
from typing_extensions import TypedDict

from taograph import Context, Limits, create_react_graph, tool
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


@both_ways
def test_as_a_node_with_the_same_messages(way: Way) -> None:
    model = make_model()
    inner = create_react_graph(model, [lookup, alookup])
    outer = (
        StateGraph(MessagesState)
        .add_node("before", lambda state: {"messages": []})
        .add_node("agent", inner)
        .add_node("after", lambda state: {"messages": [("user", "Thanks.")]})
        .add_edge(START, "before")
        .add_edge("before", "agent")
        .add_edge("agent", "after")
        .add_edge("after", END)
        .compile()
    )
    result = run(way, outer, question())
    assert [m.text for m in result["messages"]][-2:] == ["Page 3.", "Thanks."]
    assert_acceptable(result["messages"])
    assert len(result["messages"]) == 6


class Outer(TypedDict, total=False):
    """A larger graph's own state, with the result of ours beside it."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    stop: Any
    spent: Any
    note: str


@both_ways
def test_as_a_node_whose_result_the_outer_state_takes(way: Way) -> None:
    outer = (
        StateGraph(Outer)
        .add_node("agent", make_graph())
        .add_node("after", lambda state: {"note": f"{state['stop']['reason']}: {state['answer']}"})
        .add_edge(START, "agent")
        .add_edge("agent", "after")
        .compile()
    )
    result = run(way, outer, {**question(), "note": ""})
    assert result["note"] == "final: Page 3."
    assert result["spent"]["model_calls"] == 2


class Case(TypedDict):
    """A state with nothing of ours in it."""

    topic: str
    finding: str


@both_ways
def test_as_a_node_behind_a_function(way: Way) -> None:
    inner = make_graph()

    def sync_node(state: Case, config: RunnableConfig) -> dict[str, Any]:
        return {"finding": inner.invoke(question(state["topic"]), config)["answer"]}

    async def async_node(state: Case, config: RunnableConfig) -> dict[str, Any]:
        return {"finding": (await inner.ainvoke(question(state["topic"]), config))["answer"]}

    outer = (
        StateGraph(Case).add_node("ask", sync_node if way == "invoke" else async_node).add_edge(START, "ask").compile()
    )
    assert run(way, outer, {"topic": "Ada"}) == {"topic": "Ada", "finding": "Page 3."}


@both_ways
@pytest.mark.parametrize("limit", range(3, 12))
def test_within_a_graph_with_a_small_recursion_limit(way: Way, limit: int) -> None:
    from support import asks_for_ever

    inner = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=20))
    outer = StateGraph(Outer).add_node("agent", inner).add_edge(START, "agent").compile()
    result = run(way, outer, question(), {"recursion_limit": limit})
    assert_ended(result, "step_limit")


@both_ways
def test_two_agents_one_after_the_other(way: Way) -> None:
    """The second goes on from what the first left in the shared messages."""
    first = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup], name="first")
    model = ScriptedModel(replies=[asks("Grace"), "And page 5."])
    second = create_react_graph(model, [lookup], name="second")
    outer = (
        StateGraph(MessagesState)
        .add_sequence([("first", first), ("second", second)])
        .add_edge(START, "first")
        .compile()
    )
    result = run(way, outer, question())
    assert_acceptable(result["messages"])
    assert result["messages"][-1].text == "And page 5."
    for request in model.requests:
        assert_acceptable(request.messages)


@both_ways
def test_an_interrupt_in_a_node_of_a_larger_graph(way: Way) -> None:
    from taograph.tools.person import ask_person

    model = ScriptedModel(replies=[asks(call("ask_person", {"question": "Which?"}), "Ada"), "That one."])
    inner = create_react_graph(model, [ask_person, lookup])
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", inner)
        .add_edge(START, "agent")
        .compile(checkpointer=InMemorySaver())
    )
    result = run(way, outer, question(), thread())
    assert result["__interrupt__"][0].value["question"] == "Which?"
    result = run(way, outer, Command(resume="the red one"), thread())
    assert_acceptable(result["messages"])
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["the red one", "Ada is in the book on page 3."]
    assert len(model.requests) == 2


@both_ways
def test_as_a_tool_of_another(way: Way) -> None:
    inner = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup], name="inner")

    @tool(effects="none")
    def research(topic: str, config: RunnableConfig) -> str:
        """Research a topic.

        Args:
            topic: What to research.
        """
        return str(inner.invoke(question(topic), config)["answer"])

    model = ScriptedModel(replies=[asks(call("research", {"topic": "Ada"})), "It says page 3."])
    result = run(way, create_react_graph(model, [research]), question())
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == ["Page 3."]
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
    done = _python(code)
    assert done.stdout.strip() == "final final answer", done.stderr


def _python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parent,
        check=False,
        env={**os.environ, **env},
    )


@tool(effects="none")
def with_state(name: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Say how many messages there are.

    Args:
        name: Anything.
    """
    return f"{name}: {len(state['messages'])} messages"


@tool(effects="none")
def with_messages(name: str, messages: Annotated[list[Any], InjectedState("messages")]) -> str:
    """Say the last message's type.

    Args:
        name: Anything.
    """
    return f"{name}: {messages[-1].type}"


@tool(effects="none")
def with_store(name: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Remember a name.

    Args:
        name: What to remember.
    """
    store.put(("names",), name, {"seen": True})
    return f"{name}: {len(store.search(('names',)))} stored"


@tool(effects="none")
def with_runtime(name: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Say what the runtime knows.

    Args:
        name: Anything.
    """
    return f"{name}: {runtime.tool_call_id} {runtime.context.steps} {len(runtime.state['messages'])}"


@tool(effects="none")
async def with_async_runtime(name: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Say what the runtime knows, the async way.

    Args:
        name: Anything.
    """
    assert runtime.store is not None
    return f"{name}: {runtime.tool_call_id} {runtime.context.steps} {len(runtime.state['messages'])}"


@tool(effects="none")
def with_call_id(name: str, call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Say the call's id.

    Args:
        name: Anything.
    """
    return f"{name}: {call_id}"


@tool(effects="none")
def with_config(name: str, config: RunnableConfig) -> str:
    """Say the thread.

    Args:
        name: Anything.
    """
    return f"{name}: {config['configurable']['thread_id']}"


@both_ways
def test_what_the_graph_gives_to_tools(way: Way) -> None:
    tools = [with_state, with_messages, with_store, with_runtime, with_async_runtime, with_call_id, with_config]
    calls = [call(t.name, {"name": "x"}, id=f"c{n}") for n, t in enumerate(tools)]
    model = ScriptedModel(replies=[asks(*calls), "Done."])
    graph = create_react_graph(model, tools, store=InMemoryStore(), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread("t7"), context=Context(steps=5))
    assert_ended(result, "final", model)
    assert [m.text for m in result["messages"] if m.type == "tool"] == [
        "x: 2 messages",
        "x: ai",
        "x: 1 stored",
        "x: c3 5 2",
        "x: c4 5 2",
        "x: c5",
        "x: t7",
    ]
    schemas = {s["function"]["name"]: s["function"]["parameters"] for s in model.requests[0].options["tools"]}
    for one in tools:
        assert list(schemas[one.name]["properties"]) == ["name"], "what the graph gives is not asked of the model"


@both_ways
def test_a_model_cannot_supply_what_the_graph_gives(way: Way) -> None:
    forged = {"name": "x", "state": {"messages": [1, 2, 3, 4]}}
    model = ScriptedModel(replies=[asks(call("with_state", forged)), "Done."])
    result = run(way, create_react_graph(model, [with_state]), question())
    assert_ended(result, "final", model)
    observed = result["messages"][2]
    assert observed.status == "error" or observed.text == "x: 2 messages"


@both_ways
def test_a_tool_that_needs_a_store_where_there_is_none(way: Way) -> None:
    model = ScriptedModel(replies=[asks(call("with_store", {"name": "x"}), "Ada"), "Without it."])
    result = run(way, create_react_graph(model, [with_store, lookup]), question())
    assert_ended(result, "final", model)
    observed = [m for m in result["messages"] if m.type == "tool"]
    assert [m.status for m in observed] == ["error", "success"]


@tool(effects="none")
def commands(name: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Change the state.

    Args:
        name: Anything.
    """
    return Command(update={"messages": [ToolMessage(f"{name} was set", tool_call_id=call_id)]})


@tool(effects="none")
def commands_nothing(name: str) -> Command[Any]:
    """Return a command without a result.

    Args:
        name: Anything.
    """
    return Command(update={})


def _with_artifact(name: str) -> tuple[str, dict[str, Any]]:
    """Return a text and an artifact.

    Args:
        name: Anything.
    """
    return f"{name} found", {"rows": [1, 2, 3]}


with_artifact = StructuredTool.from_function(
    _with_artifact, name="with_artifact", description="Return an artifact.", response_format="content_and_artifact"
)


async def _remote(**arguments: Any) -> tuple[list[dict[str, Any]], Any]:
    return [{"type": "text", "text": f"remote {arguments['city']}"}], None


mcp_like = StructuredTool(
    name="remote_weather",
    description="The weather, far away.",
    args_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
    },
    coroutine=_remote,
    response_format="content_and_artifact",
)


@both_ways
def test_what_tools_return(way: Way) -> None:
    tools = [commands, commands_nothing, with_artifact, mcp_like]
    model = ScriptedModel(
        replies=[
            asks(
                call("commands", {"name": "x"}),
                call("with_artifact", {"name": "x"}),
                call("remote_weather", {"city": "Paris"}),
                call("commands_nothing", {"name": "x"}),
            ),
            "Done.",
        ]
    )
    graph = create_react_graph(model, tools, checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    observed = {m.name: m for m in result["messages"] if m.type == "tool"}
    assert observed["commands"].text == "x was set"
    assert observed["with_artifact"].text == "x found"
    assert observed["with_artifact"].artifact == {"rows": [1, 2, 3]}
    assert observed["remote_weather"].text == "remote Paris"
    assert "commands_nothing" in observed
    assert result["spent"]["tool_calls"] == 4


@both_ways
@pytest.mark.parametrize("beside", [False, True])
def test_a_tool_whose_result_is_the_answer(way: Way, beside: bool) -> None:
    """LangChain's ``return_direct``, with the meaning it has in ``create_agent``."""

    @langchain_tool(return_direct=True)
    def quote(name: str) -> str:
        """Quote someone."""
        if name == "nobody":
            raise RuntimeError
        return f"{name} said so."

    more = ["Ada"] if beside else []
    replies = [asks(call("quote", {"name": "nobody"})), asks(call("quote", {"name": "Grace"}), *more), "She did."]
    model = ScriptedModel(replies=[*replies, "Fine."])
    graph = create_react_graph(model, [quote, lookup], checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "final", model)
    assert result["answer"] == ("She did." if beside else "Grace said so.")
    assert len(model.requests) == (3 if beside else 2), "an error is not an answer"
    model._next = 3
    assert run(way, graph, question("And now?"), thread())["answer"] == "Fine."
    assert_acceptable(model.requests[-1].messages)


@both_ways
def test_a_direct_result_has_to_pass_the_checks(way: Way) -> None:
    @langchain_tool(return_direct=True)
    def quote(name: str) -> str:
        """Quote someone."""
        return f"{name} said so."

    model = ScriptedModel(replies=[asks(call("quote", {"name": "Eve"})), asks(call("quote", {"name": "Ada"})), "No."])
    graph = create_react_graph(model, [quote], verify=lambda answer, _: "Eve lies" if "Eve" in answer else None)
    result = run(way, graph, question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Ada said so."


@both_ways
def test_wrong_arguments_of_a_tool_with_a_json_schema(way: Way) -> None:
    model = ScriptedModel(
        replies=[
            asks(call("remote_weather", {"town": "Paris"}), call("remote_weather", {"city": "Paris", "days": "two"})),
            "Done.",
        ]
    )
    result = run(way, create_react_graph(model, [mcp_like]), question())
    assert_ended(result, "final", model)
    first, second = (m for m in result["messages"] if m.type == "tool")
    assert "'city' is a required property" in first.text
    assert "days: " in second.text
    assert first.status == second.status == "error"
    assert result["spent"]["tool_calls"] == 0


@both_ways
def test_a_tool_may_hand_over_to_the_larger_graph(way: Way) -> None:
    @tool(effects="none")
    def hand_over(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to a person."""
        return Command(
            graph=Command.PARENT,
            goto="person",
            update={
                "messages": [
                    AIMessage("", tool_calls=[call("hand_over", id=call_id)]),
                    ToolMessage("handed over", tool_call_id=call_id),
                ]
            },
        )

    inner = create_react_graph(ScriptedModel(replies=[asks(call("hand_over"))]), [hand_over])
    outer = (
        StateGraph(MessagesState)
        .add_node("agent", inner, destinations=("person",))
        .add_node("person", lambda state: {"messages": [("ai", "A person here.")]})
        .add_edge(START, "agent")
        .compile()
    )
    result = run(way, outer, question())
    assert result["messages"][-1].text == "A person here."


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
    done = _python(code, LANGGRAPH_STRICT_MSGPACK="true")
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
