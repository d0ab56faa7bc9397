"""The graph on `langgraph dev`, driven as a client of the server drives it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from dev_server import DevServer
from fake_openai_server import FakeOpenAI, Hang, Reply
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import StreamPart

from taograph import Context
from taograph.graphs.loop.streaming import StepReader

QUESTION = "What is 17 times 3?"
SECONDS = 30.0


def question(text: str = QUESTION) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def model(fake: FakeOpenAI) -> dict[str, Any]:
    """The context that names a scripted endpoint."""
    return {"model": f"{fake.url}#fake"}


def multiplying() -> FakeOpenAI:
    """A model that calculates and answers, in two requests a run."""
    return FakeOpenAI([Reply("I calculate.", calls=[("calculator", {"expression": "17*3"})]), "It is 51."])


def kinds(result: dict[str, Any]) -> list[str]:
    return [message["type"] for message in result["messages"]]


def texts(result: dict[str, Any]) -> list[str]:
    return [message["content"] for message in result["messages"]]


def assert_acceptable(request: dict[str, Any]) -> None:
    """A provider's rule: each call has its result right behind it, and each result its call."""
    waiting: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, request["messages"]
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, request["messages"]
            waiting = [call["id"] for call in message.get("tool_calls") or []]
    assert not waiting, request["messages"]


async def new_thread(client: LangGraphClient) -> str:
    return (await client.threads.create())["thread_id"]


async def assistant_of(client: LangGraphClient, graph: str = "react") -> str:
    return (await client.assistants.search(graph_id=graph))[0]["assistant_id"]


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, SECONDS), "it did not happen"


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
    shown = schemas["context_schema"]["properties"]
    assert set(shown) == {field.name for field in fields(Context)}
    for field in fields(Context):
        assert shown[field.name]["description"] == field.metadata["description"]
    assert list(schemas["input_schema"]["properties"]) == ["messages"]
    assert {"messages", "answer", "stop", "spent"} <= set(schemas["output_schema"]["properties"])


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
    events = [event for part in data for event in reader.read((), "custom", part)]
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


READERS: dict[str, Callable[[list[Any]], None]] = {
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
def test_a_run_streamed_in_each_mode(streams: dict[str, list[StreamPart]], mode: str) -> None:
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


# Tools


async def test_documents_are_searched_off_the_event_loop(client: LangGraphClient) -> None:
    with FakeOpenAI([Reply(calls=[("search_documents", {"query": "rent due"})]), "On the fifth."]) as fake:
        result = await client.runs.wait(None, "react", input=question("When is the rent due?"), context=model(fake))
    assert result["answer"] == "On the fifth."
    assert "fifth of each month" in texts(result)[2]


async def test_plain_tools_may_block_and_async_ones_are_caught(client: LangGraphClient) -> None:
    both = Reply(calls=[("nap", {}), ("stall", {})])
    with FakeOpenAI([both, "Done."]) as fake:
        result = await client.runs.wait(None, "special", input=question(), context=model(fake))
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
        runs = [client.runs.wait(None, "react", input=question(), context=model(fake)) for _ in range(4)]
        results = await asyncio.gather(*runs)
    assert [result["answer"] for result in results] == ["We met."] * 4


# Interrupt and resume


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_person_is_asked_and_the_run_goes_on(client: LangGraphClient, by_id: bool) -> None:
    thread = await new_thread(client)
    asked = Reply(calls=[("ask_person", {"question": "Which color?"}), ("calculator", {"expression": "1+1"})])
    with FakeOpenAI([asked, "Blue it is."]) as fake:
        waiting = await client.runs.wait(thread, "react", input=question("Paint it."), context=model(fake))
        (interrupt,) = waiting["__interrupt__"]
        assert interrupt["value"] == {"type": "question", "question": "Which color?"}
        assert (await client.threads.get(thread))["status"] == "interrupted"
        state = await client.threads.get_state(thread)
        assert [i["id"] for task in state["tasks"] for i in task["interrupts"]] == [interrupt["id"]]
        answer = {interrupt["id"]: "blue"} if by_id else "blue"
        events = [
            part.data["taograph"]
            async for part in client.runs.stream(
                thread, "react", command={"resume": answer}, context=model(fake), stream_mode="custom"
            )
            if part.event == "custom" and "taograph" in part.data
        ]
        done = (await client.threads.get_state(thread))["values"]
    assert done["answer"] == "Blue it is."
    assert {m["name"]: m["content"] for m in done["messages"] if m["type"] == "tool"} == {
        "ask_person": "blue",
        "calculator": "2",
    }
    assert "run_started" not in [event["type"] for event in events], "the run began anew"
    assert done["spent"]["tool_calls"] == 2
    assert (await client.threads.get(thread))["status"] == "idle"


async def test_a_new_question_while_a_person_is_asked(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    asked = Reply(calls=[("ask_person", {"question": "Which color?"})])
    with FakeOpenAI([asked, "Never mind then."]) as fake:
        await client.runs.wait(thread, "react", input=question("Paint it."), context=model(fake))
        done = await client.runs.wait(thread, "react", input=question("Forget it."), context=model(fake))
    assert_acceptable(fake.requests[-1])
    assert done["answer"] == "Never mind then."


# History and forks


async def test_history_and_a_fork_from_an_earlier_checkpoint(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    replies = [Reply(calls=[("calculator", {"expression": "17*3"})]), "It is 51.", "Again 51.", "It is 100."]
    with FakeOpenAI(replies) as fake:
        await client.runs.wait(thread, "react", input=question(), context=model(fake))
        history = await client.threads.get_history(thread, limit=20)
        assert [state["next"] for state in history] == [[], ["reason"], ["act"], ["reason"], ["__start__"]]

        # Replay: from after the observation, the model is asked again and nothing else is done again.
        replayed = await client.runs.wait(
            thread, "react", input=None, checkpoint=history[1]["checkpoint"], context=model(fake)
        )
        assert replayed["answer"] == "Again 51."
        assert replayed["spent"]["tool_calls"] == 1

        # Fork: another argument for the call that was made.
        before = history[2]
        reply = before["values"]["messages"][-1]
        reply["tool_calls"][0]["args"] = {"expression": "10*10"}
        fork = await client.threads.update_state(
            thread, {"messages": [reply]}, checkpoint=before["checkpoint"], as_node="reason"
        )
        forked = await client.runs.wait(thread, "react", input=None, checkpoint=fork["checkpoint"], context=model(fake))
    assert forked["answer"] == "It is 100."
    assert texts(forked)[2] == "100"
    assert fake.requests[-1]["messages"][-1]["content"] == "100"
    assert_acceptable(fake.requests[-1])
    # The first branch is still there.
    old = await client.threads.get_state(thread, checkpoint=history[0]["checkpoint"])
    assert old["values"]["answer"] == "It is 51."


# Cancelling


async def start_hanging(client: LangGraphClient, thread: str, fake: FakeOpenAI, text: str = "Think.") -> str:
    run = await client.runs.create(thread, "react", input=question(text), context=model(fake))
    await until(fake.hanging)
    return run["run_id"]


async def test_a_run_is_cancelled_and_the_thread_goes_on(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([Hang("Let me"), "Here I am."]) as fake:
        run = await start_hanging(client, thread, fake)
        await client.runs.cancel(thread, run, wait=True, action="interrupt")
        assert (await client.runs.get(thread, run))["status"] == "interrupted"
        await until(fake.left)  # the request to the model was cut, not left to run
        done = await client.runs.wait(thread, "react", input=question("Still there?"), context=model(fake))
    assert done["answer"] == "Here I am."
    assert kinds(done) == ["human", "human", "ai"]


async def test_a_run_cancelled_within_a_tool_leaves_a_thread_that_a_provider_accepts(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([Reply(calls=[("wait_for_ever", {}), ("nap", {})]), "Let's go on."]) as fake:
        acting = asyncio.Event()

        async def watch() -> str:
            run = ""
            async for part in client.runs.stream(
                thread, "special", input=question(), context=model(fake), stream_mode="custom"
            ):
                run = run or part.data.get("run_id", "")
                if part.data.get("taograph", {}).get("type") == "observation":
                    acting.set()  # nap is done, wait_for_ever is not
                    await client.runs.cancel(thread, run, action="interrupt")
            return run

        run = await asyncio.wait_for(watch(), SECONDS)
        assert acting.is_set()
        assert (await client.runs.join(thread, run)) is not None
        assert (await client.runs.get(thread, run))["status"] == "interrupted"
        done = await client.runs.wait(thread, "special", input=question("Go on."), context=model(fake))
    assert_acceptable(fake.requests[-1])
    assert done["answer"] == "Let's go on."
    found = {m["name"]: m for m in done["messages"] if m["type"] == "tool"}
    assert found["wait_for_ever"]["status"] == "error"


async def test_a_cancelled_run_is_rolled_back(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI(["One.", Hang(), "Three."]) as fake:
        await client.runs.wait(thread, "react", input=question("First."), context=model(fake))
        run = await start_hanging(client, thread, fake, "Second.")
        await client.runs.cancel(thread, run, wait=True, action="rollback")
        assert run not in [kept["run_id"] for kept in await client.runs.list(thread)]
        assert texts((await client.threads.get_state(thread))["values"]) == ["First.", "One."]
        done = await client.runs.wait(thread, "react", input=question("Third."), context=model(fake))
    assert texts(done) == ["First.", "One.", "Third.", "Three."]


async def test_a_client_that_leaves_ends_the_model_call(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([Hang("Once upon a")]) as fake:
        stream = client.runs.stream(
            thread,
            "react",
            input=question(),
            context=model(fake),
            stream_mode="messages-tuple",
            on_disconnect="cancel",
        )
        async for part in stream:
            if part.event == "messages":
                break
        await stream.aclose()
        await until(fake.left)


# Assistants


async def test_assistants_differ_by_their_context(client: LangGraphClient) -> None:
    work = Reply(calls=[("calculator", {"expression": "1+1"})])
    with FakeOpenAI(["Aye."]) as pirate, FakeOpenAI([work, "Out of steps, but it is 2."]) as short:
        first = await client.assistants.create(
            "react", context={**model(pirate), "system_prompt": "You are a pirate."}, name="pirate"
        )
        second = await client.assistants.create("react", context={**model(short), "steps": 1}, name="short")
        said, stopped = await asyncio.gather(
            client.runs.wait(None, first["assistant_id"], input=question("Ready?")),
            client.runs.wait(None, second["assistant_id"], input=question("1+1?")),
        )
    assert said["answer"] == "Aye."
    assert pirate.requests[0]["messages"][0] == {"role": "system", "content": "You are a pirate."}
    assert stopped["stop"]["reason"] == "step_limit"
    assert stopped["answer"] == "Out of steps, but it is 2."
    assert short.requests[0]["messages"][0]["role"] == "user"


async def test_an_assistant_can_be_changed(client: LangGraphClient) -> None:
    with FakeOpenAI(["One.", "Two."]) as fake:
        made = await client.assistants.create("react", context={**model(fake), "system_prompt": "Be brief."})
        await client.runs.wait(None, made["assistant_id"], input=question())
        await client.assistants.update(
            made["assistant_id"], context={**model(fake), "system_prompt": "Be long-winded."}
        )
        await client.runs.wait(None, made["assistant_id"], input=question())
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
        client.runs.wait(None, "react", input=input, context=context, raise_error=False)
        for context, input, _, _ in WRONG
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
        done = await client.runs.wait(thread, "react", input=question("Hello again."), context=model(fake))
    assert done["answer"] == "Hello."


async def test_a_model_that_is_down_is_an_answer_not_an_error(client: LangGraphClient) -> None:
    result = await client.runs.wait(None, "react", input=question(), context={"model": NOWHERE})
    assert result["stop"]["reason"] == "model_error"
    assert QUESTION in result["answer"]


async def test_nothing_blocked_the_event_loop(server: DevServer) -> None:
    blamed = [line for line in server.log.splitlines() if "BlockingError" in line and "stall" not in line]
    assert not blamed
