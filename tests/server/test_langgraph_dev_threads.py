"""Threads on `langgraph dev`: interrupts, history, forks, cancelling."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from driving import (
    SECONDS,
    ask,
    assert_acceptable,
    kinds,
    model,
    new_thread,
    question,
    texts,
    until,
    values,
)
from fake_openai_server import FakeOpenAI, Hang, Reply, Scripted
from langgraph_sdk.client import LangGraphClient

# Interrupt and resume


@pytest.mark.parametrize("by_id", [True, False])
async def test_a_person_is_asked_and_the_run_goes_on(client: LangGraphClient, by_id: bool) -> None:
    thread = await new_thread(client)
    asked = Reply(calls=[("ask_person", {"question": "Which color?"}), ("calculator", {"expression": "1+1"})])
    with FakeOpenAI([asked, "Blue it is."]) as fake:
        waiting = await ask(client, thread, "react", input=question("Paint it."), context=model(fake))
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
        done = await values(client, thread)
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
        await ask(client, thread, "react", input=question("Paint it."), context=model(fake))
        done = await ask(client, thread, "react", input=question("Forget it."), context=model(fake))
    assert_acceptable(fake.requests[-1])
    assert done["answer"] == "Never mind then."


# History and forks


async def test_history_and_a_fork_from_an_earlier_checkpoint(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    replies: list[Scripted] = [
        Reply(calls=[("calculator", {"expression": "17*3"})]),
        "It is 51.",
        "Again 51.",
        "It is 100.",
    ]
    with FakeOpenAI(replies) as fake:
        await ask(client, thread, "react", input=question(), context=model(fake))
        history = await client.threads.get_history(thread, limit=20)
        assert [state["next"] for state in history] == [[], ["reason"], ["act"], ["reason"], ["__start__"]]

        # Replay: from after the observation, the model is asked again and nothing else is done again.
        replayed = await ask(
            client, thread, "react", input=None, checkpoint=history[1]["checkpoint"], context=model(fake)
        )
        assert replayed["answer"] == "Again 51."
        assert replayed["spent"]["tool_calls"] == 1

        # Fork: another argument for the call that was made.
        before: Any = history[2]
        reply = before["values"]["messages"][-1]
        reply["tool_calls"][0]["args"] = {"expression": "10*10"}
        fork = await client.threads.update_state(
            thread, {"messages": [reply]}, checkpoint=before["checkpoint"], as_node="reason"
        )
        forked = await ask(client, thread, "react", input=None, checkpoint=fork["checkpoint"], context=model(fake))
    assert forked["answer"] == "It is 100."
    assert texts(forked)[2] == "100"
    assert fake.requests[-1]["messages"][-1]["content"] == "100"
    assert_acceptable(fake.requests[-1])
    # The first branch is still there.
    old = await values(client, thread, checkpoint=history[0]["checkpoint"])
    assert old["answer"] == "It is 51."


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
        done = await ask(client, thread, "react", input=question("Still there?"), context=model(fake))
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
        done = await ask(client, thread, "special", input=question("Go on."), context=model(fake))
    assert_acceptable(fake.requests[-1])
    assert done["answer"] == "Let's go on."
    found = {m["name"]: m for m in done["messages"] if m["type"] == "tool"}
    assert found["wait_for_ever"]["status"] == "error"


async def test_a_cancelled_run_is_rolled_back(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI(["One.", Hang(), "Three."]) as fake:
        await ask(client, thread, "react", input=question("First."), context=model(fake))
        run = await start_hanging(client, thread, fake, "Second.")
        await client.runs.cancel(thread, run, wait=True, action="rollback")
        assert run not in [kept["run_id"] for kept in await client.runs.list(thread)]
        assert texts(await values(client, thread)) == ["First.", "One."]
        done = await ask(client, thread, "react", input=question("Third."), context=model(fake))
    assert texts(done) == ["First.", "One.", "Third.", "Three."]


async def test_a_client_that_leaves_ends_the_model_call(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([Hang("Once upon a")]) as fake:
        stream: Any = client.runs.stream(
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
        assert fake.left.is_set()
