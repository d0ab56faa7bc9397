"""Writes to ``messages`` made up at random, as plain data: the same can be written to several graphs, made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Overwrite

IDS = ["a", "b", "c", "d"]
Item = tuple[str, str | None, str]
Write = tuple[str, list[Item]]

_MAKERS: dict[str, Callable[[str | None, str], Any]] = {
    "human": lambda id, text: HumanMessage(text, id=id),
    "ai": lambda id, text: AIMessage(text, id=id),
    "tool": lambda id, text: ToolMessage(text, tool_call_id="1", id=id),
    "chunk": lambda id, text: AIMessageChunk(text, id=id),
    "dict": lambda id, text: {"role": "user", "content": text} | ({"id": id} if id else {}),
    "text": lambda id, text: text,
    "tuple": lambda id, text: ("user", text),
    "remove": lambda id, text: RemoveMessage(id=str(id)),
    "remove all": lambda id, text: RemoveMessage(id=REMOVE_ALL_MESSAGES),
}

_ids = st.sampled_from(IDS)
_texts = st.sampled_from(["x", "y", "z"])
_messages: st.SearchStrategy[Item] = st.one_of(
    st.tuples(st.sampled_from(["human", "ai", "tool", "chunk", "dict"]), st.one_of(st.none(), _ids), _texts),
    st.tuples(st.sampled_from(["text", "tuple"]), st.none(), _texts),
)
_removals: st.SearchStrategy[Item] = st.one_of(
    st.tuples(st.just("remove"), _ids, st.just("")), st.tuples(st.just("remove all"), st.none(), st.just(""))
)
_items = st.one_of(_messages, _messages, _messages, _removals)
merges: st.SearchStrategy[Write] = st.one_of(
    st.tuples(st.just("list"), st.lists(_items, max_size=4)),
    st.tuples(st.just("one"), st.lists(_items, min_size=1, max_size=1)),
)
overwrites: st.SearchStrategy[Write] = st.tuples(st.just("overwrite"), st.lists(_messages, max_size=3))


def written(write: Write) -> Any:
    """A write, made anew."""
    kind, items = write
    made = [_MAKERS[name](id, text) for name, id, text in items]
    if kind == "overwrite":
        return Overwrite(made)
    # A checkpoint gives a tuple back as a list: alone it would be two messages, with add_messages at least.
    return made[0] if kind == "one" and not isinstance(made[0], tuple) else made


def seen(messages: Sequence[Any]) -> list[tuple[str, str, str]]:
    """What messages say, with the ids that were given; ``add_messages`` leaves an Overwrite as it was written."""
    plain = [message_chunk_to_message(m) if isinstance(m, BaseMessageChunk) else m for m in messages]
    return [(m.type, m.text, m.id if m.id in IDS else "made") for m in convert_to_messages(plain)]
