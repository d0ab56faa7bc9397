"""A strategy that runs others, on `langgraph dev`: streamed with its sub-runs, asked about and answered by the API."""

from __future__ import annotations

from typing import Any

from driving import ask, assert_acceptable, model, new_thread, question, values
from fake_openai_server import FakeOpenAI, Reply
from langgraph_sdk.client import LangGraphClient

from taograph.graphs.loop.streaming import StepReader

ASKED = "Tell Ann and Bob."
STEPS = [{"id": number, "task": f"Write to {name}.", "needs": []} for number, name in enumerate(("Ann", "Bob"), 1)]


def plays(body: dict[str, Any]) -> Reply:
    """A model that plans a letter to each, writes it in the step, and answers."""
    tools = {one["function"]["name"] for one in body.get("tools") or ()}
    if "Plan" in tools:
        return Reply(calls=[("Plan", {"steps": STEPS})])
    if "AnswerOrPlan" in tools:
        return Reply(calls=[("AnswerOrPlan", {"answer": "Both were told."})])
    if body["messages"][-1]["role"] == "tool":
        return Reply("It is done.")
    step = next(m["content"] for m in reversed(body["messages"]) if "Your step:" in str(m["content"]))
    return Reply(calls=[("send", {"to": "Ann" if "Your step: Write to Ann." in step else "Bob"})])


async def streamed(client: LangGraphClient, thread: str, **given: Any) -> list[tuple[str, Any]]:
    """A run with the streams of its sub-runs: what each part was called, and what it had."""
    run = client.runs.stream(thread, "planned", stream_mode=["updates", "custom"], stream_subgraphs=True, **given)
    return [(part.event, part.data) async for part in run]


def told(parts: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """The events of the run in its stream: the path to where each happened, and its kind."""
    reader, events = StepReader(), list[Any]()
    for event, data in parts:
        mode, *namespace = event.split("|")
        if mode == "custom":
            events += reader.read(tuple(namespace), "custom", data)
    return [(" ".join(event["path"]), event.get("event", event)["type"]) for event in events]


async def test_steps_are_streamed_and_each_of_their_calls_is_answered(client: LangGraphClient) -> None:
    thread = await new_thread(client)
    with FakeOpenAI(default=plays) as fake:
        parts = await streamed(client, thread, input=question(ASKED), context=model(fake))
        assert not [data for event, data in parts if event == "error"], parts
        events = told(parts)
        assert events[0] == ("", "run_started")
        assert events.count(("step", "run_started")) == 2
        assert events.count(("step", "action")) == 2
        assert ("", "answer") not in events
        assert (await client.threads.get(thread))["status"] == "interrupted"
        state = await client.threads.get_state(thread)
        asked = {
            one["value"]["args"]["to"]: one["id"]
            for task in state["tasks"]
            for one in task["interrupts"]
            if not task.get("result")
        }
        assert set(asked) == {"Ann", "Bob"}
        assert [part["status"] for part in state["values"]["plan"]] == ["running", "running"]
        resume = {asked["Ann"]: "approve"}
        waiting = await ask(client, thread, "planned", command={"resume": resume}, context=model(fake))
        assert [one["id"] for one in waiting["__interrupt__"]] == [asked["Bob"]]
        no = {asked["Bob"]: {"decision": "reject", "reason": "moved away"}}
        parts = await streamed(client, thread, command={"resume": no}, context=model(fake))
        done = await values(client, thread)
    assert told(parts)[-2:] == [("", "stop"), ("", "answer")]
    assert ("step", "rejected") in told(parts)
    assert (done["answer"], done["stop"]["reason"]) == ("Both were told.", "final")
    results = [message["content"] for message in done["messages"] if message["type"] == "tool"]
    assert "sent to Ann" in results
    assert any("moved away" in text for text in results)
    assert done["spent"]["model_calls"] == len(fake.requests) == 6
    assert done["spent"]["tool_calls"] == 1
    assert [child["about"] for child in done["children"]] == ["step 1: Write to Ann.", "step 2: Write to Bob."]
    assert [part["status"] for part in done["plan"]] == ["done", "done"]
    for request in fake.requests:
        assert_acceptable(request)


async def test_another_question_on_the_thread(client: LangGraphClient) -> None:
    """What a run before it planned and spent is not counted again."""
    thread = await new_thread(client)
    with FakeOpenAI(default=plays) as fake:
        for round_number in (1, 2):
            waiting = await ask(client, thread, "planned", input=question(ASKED), context=model(fake))
            resume = {one["id"]: "approve" for one in waiting["__interrupt__"]}
            done = await ask(client, thread, "planned", command={"resume": resume}, context=model(fake))
            assert done["answer"] == "Both were told."
            assert done["spent"]["model_calls"] == len(fake.requests) / round_number == 6
            assert len(done["children"]) == 2
