"""What the graph gives to tools, and what tools give back to it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, StructuredTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from support import (
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

from taograph import Context, create_react_graph, tool
from taograph.models import ScriptedModel, call


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
