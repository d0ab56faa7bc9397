"""The graph on `langgraph dev`, driven as Studio and the SDK do it: schemas, streams, tools, assistants, errors."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from dev_server import DevServer
from driving import (
    QUESTION,
    SECONDS,
    ask,
    assistant_of,
    kinds,
    model,
    multiplying,
    new_thread,
    question,
    texts,
    values,
)
from fake_openai_server import FakeOpenAI, Reply
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import StreamMode, StreamPart

from taograph import Context
from taograph.graphs.loop.streaming import StepReader

# What Studio asks for


async def test_what_studio_asks_for_before_a_run(client: LangGraphClient) -> None:
    found = (await client.assistants.search(graph_id="react"))[0]
    assert found["name"] == "react"
    assert found["description"] == "the served graph"
    drawn = await client.assistants.get_graph(found["assistant_id"], xray=True)
    assert {node["id"] for node in drawn["nodes"]} == {"__start__", "reason", "act", "finish", "__end__"}
    edges = {(edge["source"], edge["target"]) for edge in drawn["edges"]}
    assert edges == {
        ("__start__", "reason"),
        ("reason", "act"),
        ("reason", "reason"),
        ("reason", "finish"),
        ("reason", "__end__"),
        ("act", "reason"),
        ("finish", "__end__"),
    }
    assert await client.assistants.get_subgraphs(found["assistant_id"]) == {}
    info = await client.http.get("/info")
    assert info["flags"]["assistants"] is True


async def test_schemas_show_the_context_with_its_descriptions(client: LangGraphClient) -> None:
    schemas = await client.assistants.get_schemas(await assistant_of(client))
    shown = (schemas["context_schema"] or {})["properties"]
    assert set(shown) == {field.name for field in fields(Context)}
    for field in fields(Context):
        assert shown[field.name]["description"] == field.metadata["description"]
    assert list((schemas["input_schema"] or {})["properties"]) == ["messages"]
    assert {"messages", "answer", "stop", "spent"} <= set((schemas["output_schema"] or {})["properties"])


# Streams


def read_values(data: list[Any]) -> None:
    assert data[-1]["answer"] == "It is 51."
    assert data[-1]["stop"] == {"reason": "final", "detail": "the model answered", "step": 2}
    assert kinds(data[-1]) == ["human", "ai", "tool", "ai"]
    assert data[-1]["spent"]["model_calls"] == 2


def read_updates(data: list[Any]) -> None:
    assert [next(iter(update)) for update in data] == ["reason", "act", "reason"]
    assert data[1]["act"]["messages"][0]["content"] == "51"


def read_messages(data: list[Any]) -> None:
    partial = [part[0] for part in data if isinstance(part, list)]
    assert partial[-1]["content"] == "It is 51."
    assert any(message["type"] == "tool" and message["content"] == "51" for message in partial)


def read_messages_tuple(data: list[Any]) -> None:
    chunks = [chunk for chunk, metadata in data if metadata["langgraph_node"] == "reason"]
    said: dict[str, str] = {}
    for chunk in chunks:
        said[chunk["id"]] = said.get(chunk["id"], "") + chunk["content"]
    assert list(said.values()) == ["I calculate.", "It is 51."]
    assert len(chunks) > 4, "the text came at once"


def read_custom(data: list[Any]) -> None:
    reader = StepReader()
    events: list[Any] = [event for part in data for event in reader.read((), "custom", part)]
    assert [event["type"] for event in events] == [
        "run_started",
        "thought",
        "budget",
        "action",
        "observation",
        "budget",
        "stop",
        "answer",
    ]
    assert events[0]["question"] == QUESTION
    assert events[3]["args"] == {"expression": "17*3"}
    assert events[4]["text"] == "51"
    assert events[-1]["text"] == "It is 51."
    assert {event["run"] for event in events} == {events[0]["run"]}
    assert all(event["thread"] for event in events)


def read_events(data: list[Any]) -> None:
    names = {event["event"] for event in data}
    assert {"on_chain_start", "on_chat_model_stream", "on_chat_model_end", "on_tool_end", "on_chain_end"} <= names
    assert data[-1]["data"]["output"]["answer"] == "It is 51."


def read_debug(data: list[Any]) -> None:
    assert {part["type"] for part in data} == {"checkpoint", "task", "task_result"}
    results = [part["payload"] for part in data if part["type"] == "task_result"]
    assert [result["name"] for result in results] == ["reason", "act", "reason"]


def read_tasks(data: list[Any]) -> None:
    assert [part["name"] for part in data if "input" in part] == ["reason", "act", "reason"]
    assert [part["name"] for part in data if "result" in part] == ["reason", "act", "reason"]
    assert all(not part.get("error") for part in data)


def read_checkpoints(data: list[Any]) -> None:
    assert [part["next"] for part in data] == [["__start__"], ["reason"], ["act"], ["reason"], []]
    assert data[-1]["values"]["answer"] == "It is 51."


READERS: dict[StreamMode, Callable[[list[Any]], None]] = {
    "values": read_values,
    "updates": read_updates,
    "messages": read_messages,
    "messages-tuple": read_messages_tuple,
    "custom": read_custom,
    "events": read_events,
    "debug": read_debug,
    "tasks": read_tasks,
    "checkpoints": read_checkpoints,
}


@pytest.fixture(scope="module")
def streams(server: DevServer) -> dict[str, list[StreamPart]]:
    """The same run in each mode: mode → what came."""

    async def stream(client: LangGraphClient, mode: Any) -> list[StreamPart]:
        with multiplying() as fake:
            given: dict[str, Any] = {"input": question(), "context": model(fake), "stream_mode": mode}
            return [part async for part in client.runs.stream(await new_thread(client), "react", **given)]

    async def stream_all() -> list[list[StreamPart]]:
        async with get_client(url=server.url) as client:
            return await asyncio.gather(*(stream(client, mode) for mode in READERS))

    return dict(zip(READERS, asyncio.run(stream_all()), strict=True))


@pytest.mark.parametrize("mode", READERS)
def test_a_run_streamed_in_each_mode(streams: dict[str, list[StreamPart]], mode: StreamMode) -> None:
    parts = streams[mode]
    assert parts[0].event == "metadata"
    assert not [part for part in parts if part.event == "error"], parts
    name = mode.partition("-")[0]
    READERS[mode]([part.data for part in parts if part.event.partition("/")[0] == name])


async def test_a_run_streamed_in_every_mode_at_once(client: LangGraphClient) -> None:
    thread, seen = await new_thread(client), set()
    with multiplying() as fake:
        async for part in client.runs.stream(
            thread, "react", input=question(), context=model(fake), stream_mode=list(READERS), stream_subgraphs=True
        ):
            seen.add(part.event.partition("/")[0])
    assert seen == {"metadata", *(mode.partition("-")[0] for mode in READERS)}


@pytest.mark.parametrize("mode", ["values", "events"])
async def test_the_server_does_not_shorten_a_run(client: LangGraphClient, mode: StreamMode) -> None:
    """LangChain's own bound of 25 supersteps, which the server passes on in one mode, is not the graph's."""
    count = itertools.count()

    def go_on(request: dict[str, Any]) -> Reply:
        calls = [("calculator", {"expression": f"1+{next(count)}"})] if request.get("tools") else ()
        return Reply("Still at it.", calls=calls)

    with FakeOpenAI(default=go_on) as fake:
        thread = await new_thread(client)
        given: dict[str, Any] = {"input": question(), "context": model(fake), "stream_mode": mode}
        _ = [part async for part in client.runs.stream(thread, "react", **given)]
        state = await values(client, thread)
    assert state["stop"]["detail"] == "15 of 15 steps used"
    assert len(fake.requests) == 16


# Tools


async def test_documents_are_searched_off_the_event_loop(client: LangGraphClient) -> None:
    with FakeOpenAI([Reply(calls=[("search_documents", {"query": "rent due"})]), "On the fifth."]) as fake:
        result = await ask(client, None, "react", input=question("When is the rent due?"), context=model(fake))
    assert result["answer"] == "On the fifth."
    assert "fifth of each month" in texts(result)[2]


async def test_plain_tools_may_block_and_async_ones_are_caught(client: LangGraphClient) -> None:
    both = Reply(calls=[("nap", {}), ("stall", {})])
    with FakeOpenAI([both, "Done."]) as fake:
        result = await ask(client, None, "special", input=question(), context=model(fake))
    found = {m["name"]: m["content"] for m in result["messages"] if m["type"] == "tool"}
    assert found["nap"] == "rested"
    assert "BlockingError" in found["stall"], "the server does not look for blocking calls: these tests prove nothing"
    assert result["answer"] == "Done."


async def test_runs_do_not_wait_for_each_other(client: LangGraphClient) -> None:
    together = threading.Barrier(4)

    def meet(_: dict[str, Any]) -> str:
        together.wait(SECONDS)  # each reply waits until four requests are there
        return "We met."

    with FakeOpenAI(default=meet) as fake:
        runs = [ask(client, None, "react", input=question(), context=model(fake)) for _ in range(4)]
        results = await asyncio.gather(*runs)
    assert [result["answer"] for result in results] == ["We met."] * 4


# Assistants


async def test_assistants_differ_by_their_context(client: LangGraphClient) -> None:
    work = Reply(calls=[("calculator", {"expression": "1+1"})])
    with FakeOpenAI(["Aye."]) as pirate, FakeOpenAI([work, "Out of steps, but it is 2."]) as short:
        first = await client.assistants.create(
            "react", context={**model(pirate), "system_prompt": "You are a pirate."}, name="pirate"
        )
        second = await client.assistants.create("react", context={**model(short), "steps": 1}, name="short")
        said, stopped = await asyncio.gather(
            ask(client, None, first["assistant_id"], input=question("Ready?")),
            ask(client, None, second["assistant_id"], input=question("1+1?")),
        )
    assert said["answer"] == "Aye."
    assert pirate.requests[0]["messages"][0] == {"role": "system", "content": "You are a pirate."}
    assert stopped["stop"]["reason"] == "step_limit"
    assert stopped["answer"] == "Out of steps, but it is 2."
    assert short.requests[0]["messages"][0]["role"] == "user"


async def test_an_assistant_can_be_changed(client: LangGraphClient) -> None:
    with FakeOpenAI(["One.", "Two."]) as fake:
        made = await client.assistants.create("react", context={**model(fake), "system_prompt": "Be brief."})
        await ask(client, None, made["assistant_id"], input=question())
        await client.assistants.update(
            made["assistant_id"], context={**model(fake), "system_prompt": "Be long-winded."}
        )
        await ask(client, None, made["assistant_id"], input=question())
    assert [request["messages"][0]["content"] for request in fake.requests] == ["Be brief.", "Be long-winded."]


# Errors


NOWHERE = "http://127.0.0.1:9/v1#x"
WRONG: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, question(), "NoModel", "set OPENAI_API_KEY"),
    ({"model": "http://127.0.0.1:9/v1"}, question(), "ValueError", "http://host:port/v1#name"),
    ({"model": "openai:gpt-5-mini"}, question(), "ValueError", "needs OPENAI_API_KEY"),
    ({"model": "local"}, question(), "ModelNotPulled", "tao model pull"),
    ({"model": "nowhere/tiny.gguf"}, question(), "ValueError", "no model file at nowhere/tiny.gguf"),
    ({"model": NOWHERE, "steps": 0}, question(), "ValueError", "limits.steps=0"),
    ({"model": NOWHERE, "cost": 1.0}, question(), "ValueError", "the price of 'x' is not known"),
    ({"model": NOWHERE}, {"messages": []}, "ValueError", "no message of the user"),
]


async def test_what_is_wrong_reaches_the_client_in_words(client: LangGraphClient) -> None:
    runs = [
        ask(client, None, "react", input=input, context=context, raise_error=False) for context, input, _, _ in WRONG
    ]
    for result, (context, _, kind, says) in zip(await asyncio.gather(*runs), WRONG, strict=True):
        error = result["__error__"]
        assert error["error"] == kind, (context, error)
        assert says in error["message"], (context, error)


async def test_a_thread_goes_on_after_an_error(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    parts = [part async for part in client.runs.stream(thread, "react", input=question("Hello?"), stream_mode="values")]
    assert parts[-1].event == "error"
    assert parts[-1].data["error"] == "NoModel"
    assert (await client.threads.get(thread))["status"] == "error"
    with FakeOpenAI(["Hello."]) as fake:
        done = await ask(client, thread, "react", input=question("Hello again."), context=model(fake))
    assert done["answer"] == "Hello."


async def test_a_model_that_is_down_is_an_answer_not_an_error(client: LangGraphClient) -> None:
    result = await ask(client, None, "react", input=question(), context={"model": NOWHERE})
    assert result["stop"]["reason"] == "model_error"
    assert QUESTION in result["answer"]


async def test_nothing_blocked_the_event_loop(server: DevServer) -> None:
    blamed = [line for line in server.log.splitlines() if "BlockingError" in line and "stall" not in line]
    assert not blamed
