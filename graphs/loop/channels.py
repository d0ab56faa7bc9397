"""The channel of ``messages``: what is stored grows with the conversation, not with its square.

LangGraph's usual channel for messages stores the whole list at every step. ``DeltaChannel`` stores what a step
wrote, and the list only now and then; the list at any step is the last stored one with the writes since then
put in again. It is in beta, so everything that we need of its inside is in this module.

What is kept to here:

- **Reload equals live.** A write means the same when the run makes it and when it is read back, in batches of
  any size: writes are merged one after the other, each as ``add_messages`` merges it, and an id that a message
  needs is stored with it, or follows from what is stored.
- **Linear growth.** The list is stored whenever as many steps have written as make up half of it, so all stored
  lists together are at most about twice the last one, and half of it is at most what a reload has to merge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Annotated, Any, Self
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels import DeltaChannel
from langgraph.channels.binop import _get_overwrite  # the three ways in which an Overwrite may be written
from langgraph.graph import message as langgraph_message
from langgraph.graph.message import REMOVE_ALL_MESSAGES

_LEAST_UPDATES = 50
_SHARE = 2


def merged(messages: Sequence[Any], writes: Iterable[Any], *, again: bool = False) -> list[AnyMessage]:
    """Messages with some writes merged in, one after the other, each as LangGraph's ``add_messages`` does it.

    Args:
        messages: The messages so far; left as they are.
        writes: Each a message or a list of messages, in any form that LangChain takes.
        again: The writes were merged before, so one that removes what is not there is no mistake.

    Raises:
        ValueError: Something that is no message, or the removal of a message that is not there; the message
            says how one is written.
    """
    with _saying_how():
        merge = _Merge(messages)
        for write in writes:
            merge.add(write, again=again)
        return merge.messages


def check_input(given: Any) -> None:
    """Refuse what is no message in the input of a graph: LangGraph reads dicts before the channel sees them.

    Raises:
        ValueError: As :func:`merged` does.
    """
    messages = given.get("messages") if isinstance(given, dict) else None
    if isinstance(messages, list):
        with _saying_how():
            for message in messages:
                if isinstance(message, dict):
                    _as_messages([message])


@contextmanager
def _saying_how() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        why = " ".join(str(error).partition("For troubleshooting")[0].split())
        raise ValueError(f'messages: {why} Write {{"messages": [("user", "your question")]}}') from error


class _Merge:
    """Messages that writes are merged into.

    Args:
        messages: The messages so far; left as they are.

    Attributes:
        messages: The messages with what was added: another list after each write.
    """

    def __init__(self, messages: Sequence[Any]) -> None:
        self._made: tuple[AnyMessage, ...] = ()
        self._set(_as_messages(list(messages)))

    def made(self) -> list[AnyMessage]:
        """The messages, to be known again."""
        self._made = tuple(self.messages)
        return self.messages

    def into(self, messages: list[AnyMessage]) -> _Merge:
        """The same for a copy of the list."""
        new = _Merge(())
        new.messages, new._places, new._made = messages, self._places.copy(), self._made
        return new

    def is_of(self, messages: Any) -> bool:
        """Whether a list is the one that it made, with the same messages in it: a node is given the list itself."""
        return messages is self.messages and len(messages) == len(self._made) and all(map(is_, messages, self._made))

    def _set(self, messages: list[Any]) -> None:
        self.messages: list[AnyMessage] = messages
        self._places: dict[str | None, int] = {}
        for place, message in enumerate(messages):
            self._named(message)
            self._places[message.id] = place

    def _named(self, message: BaseMessage) -> None:
        """Give a message without an id one that is the same whenever the same is merged."""
        number = len(self.messages)
        while message.id is None:
            made = str(uuid5(NAMESPACE_OID, json.dumps([number, message.type, message.content], default=repr)))
            number += 1
            if made not in self._places:
                message.id = made

    def add(self, write: Any, *, again: bool) -> None:
        if write is None:
            raise ValueError("None is no message.")
        given = _as_messages(write if isinstance(write, list) else [write])
        cleared = [place for place, message in enumerate(given) if message.id == REMOVE_ALL_MESSAGES]
        if cleared and isinstance(given[cleared[-1]], RemoveMessage):
            self._set(given[cleared[-1] + 1 :])
            return
        gone: set[str | None] = set()
        self.messages = self.messages.copy()
        for message in given:
            self._named(message)
            place = self._places.get(message.id)
            if isinstance(message, RemoveMessage):
                if place is not None:
                    gone.add(message.id)
                elif not again:
                    raise ValueError(f"There is no message with the id {message.id!r} to be removed.")
            elif place is not None:
                gone.discard(message.id)
                self.messages[place] = message
            else:
                self._places[message.id] = len(self.messages)
                self.messages.append(message)
        if gone:
            self._set([message for message in self.messages if message.id not in gone])


def _as_messages(given: list[Any]) -> list[Any]:
    if all(issubclass(kind, BaseMessage) and not issubclass(kind, BaseMessageChunk) for kind in set(map(type, given))):
        return given
    return [
        message_chunk_to_message(message) if isinstance(message, BaseMessageChunk) else message
        for message in convert_to_messages(given)
    ]


# LangGraph stores every write to a channel that has this reducer with ids for its messages, those that were given
# as text or tuples too. Without it (it is private) they get ids that follow from what is stored, see _Merge.
_WITH_IDS: Callable[[Any, Sequence[Any]], Any] = getattr(langgraph_message, "_messages_delta_reducer", merged)


class MessagesChannel(DeltaChannel[list[AnyMessage]]):
    """A ``DeltaChannel`` that holds messages.

    Args:
        reducer: For LangGraph, which makes channels of the same kind; leave it.
        typ: The same.
        snapshot_frequency: Steps that write, at least, before the whole list is stored again.
    """

    __slots__ = ("_least", "_merge")

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any] = _WITH_IDS,
        typ: type[Any] | None = None,
        *,
        snapshot_frequency: int = _LEAST_UPDATES,
    ) -> None:
        self._least = snapshot_frequency
        # What the value was merged with last: from step to step, only what is new is looked at.
        self._merge: _Merge | None = None
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)

    @property
    def snapshot_frequency(self) -> int:
        """After how many steps that write the list is stored again, as things stand."""
        held = self.value
        return max(self._least, len(held) // _SHARE) if isinstance(held, list) else self._least

    @snapshot_frequency.setter
    def snapshot_frequency(self, value: int) -> None:
        self._least = value

    def copy(self) -> Self:
        """A channel with the same messages."""
        new = super().copy()
        new._least = self._least
        if (merge := self._merged_into()) is not None:
            new._merge = merge.into(new.value)
        return new

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """A channel with what is stored, in this channel's form or in that of ``add_messages``."""
        new = super().from_checkpoint(checkpoint)
        new._least = self._least
        new.value = merged(new.value, ())
        return new

    def update(self, values: Sequence[Any]) -> bool:
        """Merge what the tasks of a step wrote; an ``Overwrite`` stands for all of it."""
        if not values:
            return False
        overwrites = [place for place, value in enumerate(values) if _get_overwrite(value)[0]]
        merge, self._merge = self._merged_into(), None
        with _saying_how():
            if merge is None:
                merge = _Merge(self.value if isinstance(self.value, list) else ())
            for value in values[: overwrites[0]] if overwrites else values:
                merge.add(value, again=False)
            if overwrites:
                super().update(values)  # refuses a second one
                merge = _Merge(self.value)
        self.value, self._merge = merge.made(), merge
        return True

    def _merged_into(self) -> _Merge | None:
        """What the value was merged with, unless somebody has changed the list since."""
        return self._merge if self._merge is not None and self._merge.is_of(self.value) else None

    def replay_writes(self, writes: Sequence[tuple[str, str, Any]]) -> None:
        """Merge what steps since the stored list wrote, oldest first."""
        start, base = 0, self.value
        for place, (_, _, value) in enumerate(writes):
            overwrites, given = _get_overwrite(value)
            if overwrites:
                start, base = place + 1, merged(given or (), ())
        self.value = merged(base, (value for _, _, value in writes[start:]), again=True)


Messages = Annotated[list[AnyMessage], MessagesChannel()]
"""The type of ``messages`` in a state, wherever it is ours."""
