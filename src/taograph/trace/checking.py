"""A chain looked at link by link: which of its items is the first that is not as it was written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from taograph.trace.chain import GENESIS, Entry, Record, Sealer, hash_of, hash_of_content

What = Literal["changed", "removed", "inserted", "reordered", "truncated", "unsigned"]

# What reading something that is not as it was written may end in.
_UNSOUND = (ValueError, TypeError, OverflowError, RecursionError)

Item = TypeVar("Item", Entry, Record)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it was written.

    Attributes:
        where: Among the events, in the log, or in the table of traces.
        trace: The trace; empty for the log as a whole.
        number: Of the event, or of the record in the log, that it begins at; 0 for none.
        what: What became of it.
        detail: The same in words.
    """

    where: Literal["events", "log", "traces"]
    trace: str
    number: int
    what: What
    detail: str

    def __str__(self) -> str:
        if self.where == "log" and not self.trace:
            return f"the log, record {self.number}: {self.what}: {self.detail}"
        event = f", event {self.number}" if self.number else ""
        return f"trace {self.trace}{event}: {self.what}: {self.detail}"


class Chain(Generic[Item]):
    """A chain of events or of records.

    Args:
        where: Whether it is of events, or the log.
        trace: The trace; empty for the log.
        sealer: Signs, where there is a key.

    Attributes:
        fault: The first fault; None as long as none is found.
    """

    def __init__(self, where: Literal["events", "log"], trace: str, sealer: Sealer) -> None:
        self._where, self._trace, self._sealer = where, trace, sealer
        self.fault: Fault | None = None
        self._place = 0
        self._before: Item | None = None
        # A link is broken between these two, each sound by itself: which of them it is, the next one says.
        self._broken: tuple[Item, Item] | None = None

    def take(self, item: Item, other: Fault | None = None) -> None:
        """Look at the next one.

        Args:
            item: The event or the record.
            other: A fault that it has besides.
        """
        self._place += 1
        if self.fault is not None:
            self._revise(item)
        elif self._broken is not None:  # does the second of them not hold on to this one either?
            self._blame(self._broken[item.prev != self._broken[1].hash])
        else:
            self.fault = self._of(item) or other
        self._before = item

    def end(self, heads: Collection[str] = ()) -> None:
        """There is no more.

        Args:
            heads: What is known of the hash of the last one.
        """
        if self.fault is None and self._broken is not None:
            self._blame(self._broken[bool(heads) and self._broken[1].hash not in heads])

    def _of(self, item: Item) -> Fault | None:
        number, before = _number(item), self._before
        is_sound = _is_sound(item, number)
        if number != self._place:
            if _is_more(number, self._place):
                return self._at(self._place, "removed", "it is not there")
            if is_sound:
                return self._at(self._place, "inserted", f"it is event {number} again, or one that was never there")
            return self._at(self._place, "changed", "its number is not the next one, and its hash does not fit it")
        if not is_sound:
            if _is_sound(item, number - 1):
                if before is not None and before.hash == item.hash:
                    return self._at(number, "inserted", "it is a copy of the one before")
                return self._at(number - 1, "inserted", "the one behind it had its number")
            if _is_sound(item, number + 1):
                return self._at(number, "removed", "the one behind it has its number")
            return self._at(number, "changed", "its hash does not fit it")
        if self._sealer.key is not None and item.signature != self._sealer.sign(item.hash):
            signed = "its signature is not made with this key" if item.signature else "it is not signed"
            return self._at(number, "unsigned", signed)
        if item.prev != (before.hash if before is not None else GENESIS):
            if before is None:
                return self._at(number, "changed", "it is not the first of a chain")
            self._broken = before, item
        return None

    def _blame(self, item: Item) -> None:
        number = _int(_number(item))
        self.fault = self._at(number, "changed", "the chain does not hold: another one was there, hashes and all")

    def _revise(self, item: Item) -> None:
        """What seemed to be removed is there, further on."""
        fault, number = self.fault, _number(item)
        if fault is None or fault.what != "removed":
            return
        behind = self._place == fault.number + 1 and _is_sound(item, fault.number)
        if (number == fault.number and _is_sound(item, number)) or behind:
            self.fault = self._at(fault.number, "reordered", "it is in another place")

    def _at(self, number: int, what: What, detail: str) -> Fault:
        return Fault(self._where, self._trace, number, what, detail)


def content_fault(trace: str, entry: Entry, *, is_erased: bool | None) -> Fault | None:
    """Whether the content of an event is not the one that was written.

    Args:
        trace: The trace.
        entry: The event.
        is_erased: Whether there must be none; None where nobody can tell.
    """
    detail = None
    if entry.trace != trace:
        detail = f"it is an event of trace {entry.trace}"
    elif entry.content is None or entry.salt is None:
        if entry.content is not None or entry.salt is not None:
            detail = "its content or its salt is gone"
        elif is_erased is False:
            detail = "its content is gone, and the log says nothing of an erasure"
    elif is_erased:
        detail = "it has content, though that was erased"
    elif not _has_content(entry):
        detail = "its content is not the one that was written"
    return None if detail is None else Fault("events", trace, entry.seq, "changed", detail)


def _has_content(entry: Entry) -> bool:
    try:
        return hash_of_content(str(entry.salt), entry.content) == entry.content_hash
    except _UNSOUND:
        return False


def _is_sound(item: Entry | Record, number: int) -> bool:
    """Whether the hash of an item fits it, had it this number."""
    try:
        return hash_of({**item.header, _NAMES[type(item)]: number}) == item.hash
    except _UNSOUND:
        return False


_NAMES: dict[type[Entry] | type[Record], str] = {Entry: "seq", Record: "n"}


def _number(item: Entry | Record) -> int:
    number: int = getattr(item, _NAMES[type(item)])
    return number


def _is_more(number: int, than: int) -> bool:
    return not isinstance(number, int) or number > than


def _int(number: int) -> int:
    return number if isinstance(number, int) else 0
