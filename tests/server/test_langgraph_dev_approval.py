"""Approval on `langgraph dev`, by the interrupts of its API: what `langgraph_sdk`, Studio and chat pages send."""

from __future__ import annotations

from typing import Any

import pytest
from driving import ask, assert_acceptable, model, new_thread, question, values
from fake_openai_server import FakeOpenAI, Reply
from langgraph_sdk.client import LangGraphClient

LETTER = Reply(calls=[("send", {"to": "Ann"})])
LETTERS = Reply(calls=[("send", {"to": "Ann"}), ("nap", {}), ("send", {"to": "Bob"})])


def told(result: dict[str, Any]) -> list[str]:
    return [message["content"] for message in result["messages"] if message["type"] == "tool"]


async def open_questions(client: LangGraphClient, thread: str) -> dict[str, str]:
    """Ids of the interrupts of a thread by whom the letter is for, as a page finds them that was opened later."""
    state = await client.threads.get_state(thread)
    found = [one for task in state["tasks"] for one in task["interrupts"] if not task.get("result")]
    assert all(one["value"]["type"] == "approval" for one in found)
    return {one["value"]["args"]["to"]: one["id"] for one in found}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("approve", "sent to Ann"),
        ({"decision": "approve"}, "sent to Ann"),
        ({"decisions": [{"type": "approve"}]}, "sent to Ann"),
        ({"decision": "edit", "args": {"to": "Eve"}}, "sent to Eve"),
        ({"decision": "reject", "reason": "too late", "by": "the boss"}, "rejected this call by the boss: too late"),
    ],
    ids=str,
)
async def test_an_answer(client: LangGraphClient, answer: Any, text: str) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([LETTER, "Done."]) as fake:
        waiting = await ask(client, thread, "careful", input=question("Write."), context=model(fake))
        assert [one["value"]["args"] for one in waiting["__interrupt__"]] == [{"to": "Ann"}]
        assert (await client.threads.get(thread))["status"] == "interrupted"
        done = await ask(client, thread, "careful", command={"resume": answer}, context=model(fake))
    assert done["answer"] == "Done."
    assert len(told(done)) == 1
    assert text in told(done)[0]
    assert done["spent"]["model_calls"] == 2
    assert (await client.threads.get(thread))["status"] == "idle"


async def test_several_in_part_and_in_any_order(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([LETTERS, "Done."]) as fake:
        await ask(client, thread, "careful", input=question("Write."), context=model(fake))
        asked = await open_questions(client, thread)
        assert set(asked) == {"Ann", "Bob"}
        resume = {asked["Bob"]: {"decision": "reject", "reason": "moved away"}}
        waiting = await ask(client, thread, "careful", command={"resume": resume}, context=model(fake))
        assert [one["id"] for one in waiting["__interrupt__"]] == [asked["Ann"]]
        assert await open_questions(client, thread) == {"Ann": asked["Ann"]}
        done = await ask(client, thread, "careful", command={"resume": {asked["Ann"]: True}}, context=model(fake))
    assert told(done)[:2] == ["sent to Ann", "rested"]
    assert "moved away" in told(done)[2]
    assert_acceptable(fake.requests[-1])
    assert len(fake.requests) == 2


async def test_an_unusable_answer_leaves_the_question_open(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([LETTER, "Done."]) as fake:
        await ask(client, thread, "careful", input=question("Write."), context=model(fake))
        edit = {"decision": "edit", "args": {"to": 7}}
        failed = await ask(client, thread, "careful", command={"resume": edit}, context=model(fake), raise_error=False)
        assert "args" in str(failed["__error__"])
        assert set(await open_questions(client, thread)) == {"Ann"}
        done = await ask(client, thread, "careful", command={"resume": "approve"}, context=model(fake))
    assert told(done) == ["sent to Ann"]


async def test_an_answer_is_for_what_was_asked(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([LETTER, "Done."]) as fake:
        waiting = await ask(client, thread, "careful", input=question("Write."), context=model(fake))
        reply = waiting["messages"][-1]
        reply["tool_calls"][0]["args"] = {"to": "Eve"}
        await client.threads.update_state(thread, {"messages": [reply]}, as_node="reason")
        again = await ask(client, thread, "careful", command={"resume": "approve"}, context=model(fake))
        (asked,) = again["__interrupt__"]
        assert asked["value"]["args"] == {"to": "Eve"}
        done = await ask(client, thread, "careful", command={"resume": {asked["id"]: "reject"}}, context=model(fake))
    assert "rejected" in told(done)[0]


async def test_a_new_question_while_one_is_open(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI([LETTER, "Never mind then."]) as fake:
        waiting = await ask(client, thread, "careful", input=question("Write."), context=model(fake))
        done = await ask(client, thread, "careful", input=question("Forget it."), context=model(fake))
        assert_acceptable(fake.requests[-1])
        assert done["answer"] == "Never mind then."
        late = {waiting["__interrupt__"][0]["id"]: "approve"}
        await ask(client, thread, "careful", command={"resume": late}, context=model(fake))
        after = await values(client, thread)
    assert (after["answer"], told(after)) == (done["answer"], told(done))
    assert len(fake.requests) == 2
