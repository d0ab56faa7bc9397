"""Messages are merged as add_messages does it, in batches of any size, with ids that stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage
from langgraph.errors import InvalidUpdateError
from langgraph.graph import add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite
from message_writes import Write, merges, overwrites, seen, written

from taograph.graphs.loop.channels import MessagesChannel, merged


@settings(max_examples=200, deadline=None)
@given(st.lists(merges, max_size=8))
def test_merging_is_what_add_messages_does_step_by_step(writes: list[Write]) -> None:
    theirs: Any = []
    ours: list[AnyMessage] = []
    for write in writes:
        try:
            theirs = add_messages(theirs, written(write))
        except ValueError:
            with pytest.raises(ValueError, match="removed"):
                merged(ours, [written(write)])
            continue
        before = list(ours)
        after = merged(ours, [written(write)])
        assert ours == before, "what a node was given stays as it is"
        ours = after
        assert seen(ours) == seen(theirs)
        assert all(message.id for message in ours)


@settings(max_examples=200, deadline=None)
@given(st.lists(merges, max_size=8), st.data())
def test_batches_of_any_size_give_the_same_with_the_same_ids(writes: list[Write], data: st.DataObject) -> None:
    def merge(batches: list[list[Write]]) -> list[AnyMessage]:
        messages: list[AnyMessage] = []
        for batch in batches:
            messages = merged(messages, [written(write) for write in batch], again=True)
        return messages

    at_once = merge([writes])
    assert merge([[write] for write in writes]) == at_once
    cut = data.draw(st.integers(0, len(writes)))
    assert merge([writes[:cut], writes[cut:]]) == at_once
    assert all(message.id for message in at_once)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(merges, merges, overwrites), max_size=8), st.integers(1, 4))
def test_a_channel_read_back_holds_what_it_held(writes: list[Write], every: int) -> None:
    live = MessagesChannel(snapshot_frequency=every).from_checkpoint(None)
    stored: Any = None
    since: list[tuple[str, str, Any]] = []
    for write in writes:
        value = written(write)
        try:
            live.update([value])
        except ValueError:
            continue  # the step failed: it has no checkpoint
        since.append(("task", "messages", value))
        if len(since) >= live.snapshot_frequency:
            stored, since = list(live.get()), []
        again = MessagesChannel().from_checkpoint(stored)
        again.replay_writes(since)
        assert again.get() == live.get()


def test_a_second_overwrite_in_a_step_is_refused() -> None:
    channel = MessagesChannel().from_checkpoint(None)
    with pytest.raises(InvalidUpdateError):
        channel.update([Overwrite([]), Overwrite([])])
    assert channel.get() == []


def test_an_overwrite_stands_for_all_that_the_step_wrote() -> None:
    channel = MessagesChannel().from_checkpoint([HumanMessage("old", id="a")])
    assert channel.update([[HumanMessage("b")], Overwrite([("user", "new")]), [HumanMessage("c")]])
    assert [m.text for m in channel.get()] == ["new"]
    assert channel.update([Overwrite(None)])
    assert channel.get() == []


def test_chunks_are_stored_as_messages() -> None:
    (message,) = merged((), [AIMessageChunk("Hi", id="a")])
    assert type(message) is AIMessage


def test_the_same_text_twice_is_two_messages_when_no_id_is_given() -> None:
    messages = merged((), ["Hello", "Hello", [("user", "Hello")]])
    messages = merged(messages, [RemoveMessage(id=str(messages[0].id)), "Hello"])
    assert len({message.id for message in messages}) == len(messages) == 3


@pytest.mark.parametrize("given", [42, [("alien", "Hello")], [{"role": "user"}], None, [RemoveMessage(id="gone")]])
def test_what_is_no_message_is_told_with_how_one_is_written(given: Any) -> None:
    with pytest.raises(ValueError, match=r"messages: .*\(\"user\", \"your question\"\)"):
        merged([HumanMessage("One")], [given])


def test_the_list_is_stored_after_as_many_updates_as_make_up_half_of_it() -> None:
    channel = MessagesChannel().from_checkpoint(None)
    assert channel.snapshot_frequency == 50
    channel.update([[HumanMessage(str(n)) for n in range(1000)]])
    assert channel.snapshot_frequency == 500
    assert channel.copy().snapshot_frequency == 500
    channel.update([[RemoveMessage(id=REMOVE_ALL_MESSAGES), HumanMessage("summary")]])
    assert channel.snapshot_frequency == 50
    long = MessagesChannel().from_checkpoint([HumanMessage(str(n)) for n in range(300)])
    assert long.snapshot_frequency == 150
    assert long.copy().from_checkpoint(None).snapshot_frequency == 50


def test_a_long_conversation_is_merged_in_linear_time_per_step() -> None:
    """Counted, not timed: merging looks at each held message a fixed number of times."""
    looked = 0

    class Counted(HumanMessage):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looked
            looked += name == "id"
            return super().__getattribute__(name)

    held = [Counted(str(n), id=str(n)) for n in range(1000)]
    looked = 0
    merged(held, [HumanMessage(f"new {n}") for n in range(500)])
    assert looked < 10 * len(held)
