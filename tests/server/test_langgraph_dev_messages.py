"""Messages of a thread on `langgraph dev`, edited as Studio does it: what is read back is what was live."""

from __future__ import annotations

from typing import Any

from driving import ask, model, new_thread, question, texts, values
from fake_openai_server import FakeOpenAI
from langgraph_sdk.client import LangGraphClient


def said(state: Any) -> list[tuple[str, str]]:
    return [(message["id"], message["content"]) for message in state["messages"]]


def gone(id: str) -> dict[str, Any]:
    return {"type": "remove", "id": id, "content": ""}


async def test_messages_that_are_added_changed_removed_and_replaced_by_hand(client: LangGraphClient) -> None:
    thread = await new_thread(client)

    async def edit(messages: Any, **given: Any) -> Any:
        made = await client.threads.update_state(thread, {"messages": messages}, as_node="finish", **given)
        before = await values(client, thread, checkpoint=made["checkpoint"])
        assert before == await values(client, thread, checkpoint=made["checkpoint"]), "ids stay"
        return before

    with FakeOpenAI(["One.", "Two.", "Three.", "Four."]) as fake:
        for text in ("First?", "Second?"):
            live = await ask(client, thread, "react", input=question(text), context=model(fake))
            assert said(await values(client, thread)) == said(live)
        assert texts(live) == ["First?", "One.", "Second?", "Two."]
        ids = [message["id"] for message in live["messages"]]
        history = await client.threads.get_history(thread, limit=50)

        changed = await edit([{"type": "ai", "id": ids[1], "content": "Won."}, gone(ids[2])])
        assert said(changed) == [(ids[0], "First?"), (ids[1], "Won."), (ids[3], "Two.")]
        added = await edit([{"role": "user", "content": "By hand"}])
        assert texts(added) == ["First?", "Won.", "Two.", "By hand"]
        assert said(added)[:3] == said(changed)
        kept = [{"type": "human", "id": "kept", "content": "All there is"}]
        assert said(await edit({"__overwrite__": kept})) == [("kept", "All there is")]
        live = await ask(client, thread, "react", input=question("Third?"), context=model(fake))
        assert texts(live) == ["All there is", "Third?", "Three."]
        emptied = await edit([gone("__remove_all__"), {"role": "user", "content": "Anew"}])
        assert texts(emptied) == ["Anew"]

        # The past is what it was, and another branch begins there.
        for state in history:
            again = await values(client, thread, checkpoint=state["checkpoint"])
            assert said({"messages": [], **again}) == said({"messages": [], **state["values"]})
        branch = await client.threads.update_state(
            thread, {"messages": [gone(ids[0])]}, checkpoint=history[0]["checkpoint"], as_node="finish"
        )
        assert said(await values(client, thread, checkpoint=branch["checkpoint"])) == [
            (ids[1], "One."),
            (ids[2], "Second?"),
            (ids[3], "Two."),
        ]
        live = await ask(client, thread, "react", input=question("Fourth?"), context=model(fake))
        assert texts(live) == ["One.", "Second?", "Two.", "Fourth?", "Four."]
        assert said(await values(client, thread)) == said(live)


async def test_a_long_thread_is_read_back_whole(client: LangGraphClient) -> None:
    """Longer than what is merged before the whole list is stored again."""
    thread = (await client.threads.create(graph_id="react"))["thread_id"]
    for number in range(130):
        message = {"role": "user", "content": f"Note {number}"}
        await client.threads.update_state(thread, {"messages": [message]}, as_node="finish")
    state = await values(client, thread)
    assert texts(state) == [f"Note {number}" for number in range(130)]
    assert said(state) == said(await values(client, thread))
    history = await client.threads.get_history(thread, limit=200)
    assert [len(found["values"].get("messages", [])) for found in history] == list(range(130, 0, -1))
