"""Messages as an endpoint reads them: each is converted and encoded once, and kept as long as it lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, overload
from weakref import ref

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

# Written as the openai package writes it, byte for byte.
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
UNENCODABLE = (TypeError, ValueError, RecursionError)
"""What :func:`encode` raises, ``str.encode`` included."""

_MadeOf = Callable[[dict[str, Any]], Any]
_COMMON = ("content", "name", "additional_kwargs")
_CALLING = itemgetter(*_COMMON, "tool_calls", "invalid_tool_calls")
# What the wire form is made of. Of a class that is not here nothing is kept: a user's own may make it of more.
_MADE_OF: dict[type[BaseMessage], _MadeOf] = {
    AIMessage: _CALLING,
    AIMessageChunk: _CALLING,
    HumanMessage: itemgetter(*_COMMON),
    SystemMessage: itemgetter(*_COMMON),
    FunctionMessage: itemgetter(*_COMMON),
    ToolMessage: itemgetter(*_COMMON, "tool_call_id"),
    ChatMessage: itemgetter(*_COMMON, "role"),
}

Copied = tuple[_MadeOf, Any]
"""How to read what a message's wire form is made of, and a copy of what was read."""


class EncodedMessages(Sequence[dict[str, Any]]):
    """Messages of a request in JSON, one piece each; to whom it reads them they are the dicts they stand for."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = tuple(pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [json.loads(piece) for piece in self.pieces[at]]
        made: dict[str, Any] = json.loads(self.pieces[at])
        return made

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(json.loads, self.pieces)


class WireForms:
    """The encoded wire forms of messages, by the message object.

    A form cannot go stale: it is taken only if the message is the same object and all that it was made of is
    equal to a copy of then, whether a field was assigned or something inside it was changed. It goes with its
    message, and costs about as much memory as the message's text. Threads may share it: each step is one
    operation on a dict, and two threads that meet the same new message only encode it twice.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[ref[BaseMessage], _MadeOf, Any, str | None, bytes]] = {}
        self._me = ref(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return WireForms, ()  # a copy, of a model say, begins anew

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, messages: Sequence[BaseMessage], model: str | None) -> list[bytes]:
        """The kept form of each message for a model of this name, or nothing."""
        pieces = []
        for message in messages:
            piece = b""
            if found := self._kept.get(id(message)):
                alive, made_of, copied, made_for, kept = found
                if alive() is message and made_of(vars(message)) == copied and made_for == model:
                    piece = kept
            pieces.append(piece)
        return pieces

    def keep(self, message: BaseMessage, model: str | None, copied: Copied | None, form: dict[str, Any]) -> bytes:
        """Encode a message's wire form, and keep it.

        Args:
            message: The message.
            model: The name of the model that it is made for.
            copied: What :func:`copied` gave before the form was made.
            form: The wire form.

        Raises:
            UNENCODABLE: It is no JSON.
        """
        piece = encode(form).encode()
        if copied is not None:
            alive = ref(message, partial(_forget, self._me, id(message)))
            self._kept[id(message)] = alive, *copied, model, piece
        return piece


def _forget(forms: ref[WireForms], key: int, gone: ref[BaseMessage]) -> None:
    holder = forms()
    if holder is not None:
        found = holder._kept.get(key)
        if found is not None and found[0] is gone:  # not another that lives at its address by now
            holder._kept.pop(key, None)


def copied(message: BaseMessage) -> Copied | None:
    """What a message's wire form is made of, copied to be compared with it later; None: that can't be told."""
    made_of = _MADE_OF.get(type(message))
    try:
        return made_of and (made_of, _copied(made_of(vars(message))))
    except (_Uncopied, KeyError, RecursionError):
        return None


class _Uncopied(Exception):  # noqa: N818 - no error
    pass


class _Number:
    """A number that equals only itself: to Python 1, 1.0 and True are the same, in JSON they are not."""

    __slots__ = ("said",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: float) -> None:
        self.said = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and repr(other) == self.said


def _copied(value: Any) -> Any:
    """A copy that no one else holds, to compare with; its texts are shared."""
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind is bool or kind is int or kind is float:
        return _Number(value)
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise _Uncopied
        return {key: _copied(inner) for key, inner in value.items()}
    if kind is list:
        return [_copied(inner) for inner in value]
    if kind is tuple:
        return tuple(map(_copied, value))
    raise _Uncopied
