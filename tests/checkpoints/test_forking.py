"""Time travel: a copy of a thread at any of its checkpoints is that state, and repeats no effect."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from taograph import checkpoints, create_react_graph
from taograph.checkpoints.forking import afork, checkpoint_at, fork
from taograph.checkpoints.ledger import ledger_of
from taograph.models import ScriptedModel, call
from taograph.tools import tool

DONE: Counter[str] = Counter()


@tool(effects="once")
def send(to: str) -> str:
    """Send a letter.

    Args:
        to: Whom.
    """
    DONE[to] += 1
    return f"sent to {to}"


@tool(effects="once", approve=True)
def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: Whom.
    """
    DONE[to] += 1
    return f"paid {to}"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def sends(*names: str, tool: str = "send") -> AIMessage:
    calls = [{**call(tool, {"to": name}), "id": f"call_{name}"} for name in names]
    return AIMessage("", tool_calls=calls)


def graph_on(saver: Any, *replies: Any) -> Any:
    return create_react_graph(ScriptedModel(replies=list(replies)), [send, pay], checkpointer=saver)


def at(thread: str, checkpoint: str | None = None) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


def texts(state: Any) -> list[str]:
    return [str(message.text) for message in state.values.get("messages", ())]


def ids(saver: Any, thread: str) -> list[str]:
    return [found.checkpoint["id"] for found in saver.list(at(thread))]


def test_a_copy_at_any_checkpoint_has_the_state_of_it(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a", "b"), sends("c"), "Sent.", "And again.")
        for question in ("Send.", "And?"):
            graph.invoke({"messages": [("user", question)]}, at("t"))
        states = list(graph.get_state_history(at("t")))
        assert len(states) >= 8
        for number, state in enumerate(states):
            new = f"copy-{number}"
            fork(saver, "t", new, at=state.config["configurable"]["checkpoint_id"])
            copied = graph.get_state(at(new))
            assert copied.values == state.values
            assert copied.next == state.next
            assert copied.created_at == state.created_at
            assert [s.values for s in graph.get_state_history(at(new))] == [s.values for s in states[number:]]
        assert list(graph.get_state_history(at("t"))) == states, "the thread stays as it is"


def test_what_has_taken_effect_is_not_done_again_in_a_copy_from_before_it(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a", "b"), "Sent.", "Sent, as before.")
        graph.invoke({"messages": [("user", "Send.")]}, at("t"))
        fork(saver, "t", "copy", at=checkpoint_at(saver, "t", 1))
        assert graph.get_state(at("copy")).next == ("act", "act")
        result = graph.invoke(None, at("copy"))
        assert [message.text for message in result["messages"]][-3:] == ["sent to a", "sent to b", "Sent, as before."]
        assert DONE == {"a": 1, "b": 1}


def test_calls_that_the_state_does_not_hold_are_not_known_to_the_copy(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a"), sends("b"), "Sent.", sends("b"), "Sent again.")
        graph.invoke({"messages": [("user", "Send.")]}, at("t"))
        fork(saver, "t", "copy", at=checkpoint_at(saver, "t", 2))  # the next turn of the model is to come
        graph.invoke(None, at("copy"))
        assert DONE == {"a": 1, "b": 2}, "its model asks for b anew"


def test_an_open_approval_is_copied_and_answered_on_its_own(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a", "b", tool="pay"), "Paid a.", "Paid none.")
        graph.invoke({"messages": [("user", "Pay.")]}, at("t"))
        first, second = graph.get_state(at("t")).interrupts
        graph.invoke(Command(resume={first.id: "approve"}), at("t"))
        fork(saver, "t", "copy")
        assert [each.id for each in graph.get_state(at("copy")).interrupts] == [second.id]
        for thread in ("t", "copy"):
            graph.invoke(Command(resume={second.id: "reject"}), at(thread))
        assert texts(graph.get_state(at("copy")))[2] == "paid a"
        assert DONE == {"a": 1}


def test_a_copy_from_before_an_answer_asks_again_and_pays_once(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a", tool="pay"), "Paid.", "Paid, as before.")
        graph.invoke({"messages": [("user", "Pay.")]}, at("t"))
        graph.invoke(Command(resume="approve"), at("t"))
        fork(saver, "t", "copy", at=checkpoint_at(saver, "t", 1))
        assert graph.get_state(at("copy")).interrupts == ()
        asked = graph.invoke(None, at("copy"))["__interrupt__"]
        assert [each.value["tool"] for each in asked] == ["pay"]
        result = graph.invoke(Command(resume="approve"), at("copy"))
        assert result["answer"] == "Paid, as before."
        assert DONE == {"a": 1}


def test_a_call_that_was_cut_off_is_asked_about_in_the_copy_too(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, sends("a"), "Unknown.")
        stream = graph.stream({"messages": [("user", "Send.")]}, at("t"), stream_mode="updates", durability="sync")
        next(stream)
        stream.close()
        ledger = ledger_of(saver)
        assert ledger is not None
        from taograph.checkpoints.ledger import CallKey, hash_of

        ledger.begin(
            CallKey("t", "", graph.get_state(at("t")).values["run"]["id"], "call_a", hash_of("send", {"to": "a"})),
            "send",
        )
        fork(saver, "t", "copy")
        asked = graph.invoke(None, at("copy"))["__interrupt__"]
        assert [each.value["type"] for each in asked] == ["unfinished_call"]
        assert not DONE


def test_a_copy_lives_without_its_thread(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, *(f"Answer {n}." for n in range(30)), "More.")
        for number in range(30):
            graph.invoke({"messages": [("user", f"Question {number}")]}, at("t"))
        middle = list(graph.get_state_history(at("t")))[30]
        fork(saver, "t", "copy", at=middle.config["configurable"]["checkpoint_id"])
        assert checkpoints.delete(saver, "t")
        assert graph.get_state(at("copy")).values == middle.values
        checkpoints.retention.shorten(saver, "copy")
        assert graph.get_state(at("copy")).values == middle.values
        assert graph.invoke({"messages": [("user", "More?")]}, at("copy"))["answer"] == "More."


def test_steps_are_those_on_the_way_to_the_last_state(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = graph_on(saver, "One.", "Two.", "Three.")
        for question in ("1?", "2?"):
            graph.invoke({"messages": [("user", question)]}, at("t"))
        first = checkpoint_at(saver, "t", 1)
        graph.invoke({"messages": [("user", "3?")]}, at("t", first))  # a branch; the thread's state from now on
        assert checkpoint_at(saver, "t", 1) == first
        assert texts(graph.get_state(at("t", checkpoint_at(saver, "t", 4))))[-1] == "Three."
        fork(saver, "t", "copy", at=checkpoint_at(saver, "t", 3))
        assert texts(graph.get_state(at("copy"))) == ["1?", "One.", "3?"]
        assert not set(ids(saver, "copy")) - set(ids(saver, "t"))
        for step in (-2, 5):
            with pytest.raises(ValueError, match=rf"thread 't' has no step {step}; it has -1 to 4"):
                checkpoint_at(saver, "t", step)


def test_wrong_copies_are_refused_and_leave_nothing(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph_on(saver, "One.").invoke({"messages": [("user", "1?")]}, at("t"))
        for source, target, place, said in (
            ("no", "copy", None, "there is no thread 'no'"),
            ("t", "t", None, "there is a thread 't'; copy to a new one"),
            ("t", "copy", "1f0-none", "thread 't' has no checkpoint '1f0-none'"),
        ):
            with pytest.raises(ValueError, match=said):
                fork(saver, source, target, at=place)
        with pytest.raises(ValueError, match="there is no thread 'no'"):
            checkpoint_at(saver, "no", 1)
        assert [thread.id for thread in checkpoints.threads(saver)] == ["t"]
    with pytest.raises(TypeError, match=r"InMemorySaver can't be copied in; open it with taograph\.checkpoints"):
        fork(InMemorySaver(), "t", "copy")


def test_the_async_twin(url: str) -> None:
    async def main() -> list[str]:
        async with checkpoints.aopen(url) as saver:
            await graph_on(saver, "One.").ainvoke({"messages": [("user", "1?")]}, at("t"))
            await afork(saver, "t", "copy")
            with pytest.raises(TypeError, match="can't be copied in"):
                await afork(InMemorySaver(), "t", "copy")
            return [thread.id for thread in await checkpoints.athreads(saver)]

    assert set(asyncio.run(main())) == {"t", "copy"}
