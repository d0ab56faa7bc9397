"""What an append writes, in every store: events behind the last ones, and what the log is to say of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from taograph.trace.chain import GENESIS, Draft, Entry, LogKind, Record, Sealer

_END = "run_ended"


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a trace stands.

    Attributes:
        count: Its events.
        head: Hash of the last one.
        time: When that was.
        is_ended: Whether its end is recorded.
        is_erased: Whether its content was erased.
    """

    count: int = 0
    head: str = GENESIS
    time: str = ""
    is_ended: bool = False
    is_erased: bool = False

    def after(self, entry: Entry) -> Tail:
        """Where it stands with one event more."""
        return replace(
            self,
            count=entry.seq,
            head=entry.hash,
            time=entry.time,
            is_ended=self.is_ended or entry.type == _END,
            is_erased=self.is_erased or entry.content is None,
        )


@dataclass(frozen=True, slots=True)
class Mark:
    """What the log is to say of a trace, see :class:`~taograph.trace.chain.Record`."""

    kind: LogKind
    trace: str
    time: str
    at: tuple[int, str]


@dataclass(slots=True)
class Batch:
    """What an append writes.

    Attributes:
        entries: The events.
        tails: Where each trace stands then.
        new: The first events of traces that are new.
        marks: What the log says then.
    """

    entries: list[Entry] = field(default_factory=list)
    tails: dict[str, Tail] = field(default_factory=dict)
    new: list[Entry] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def seal(
    drafts: Sequence[Draft], sealer: Sealer, tail_of: Callable[[str], Tail | None], delete_on: str | None
) -> Batch:
    """Put events behind the last ones of their traces.

    Args:
        drafts: The events.
        sealer: Makes the chain.
        tail_of: Where a trace stands; None for one that is not there.
        delete_on: As :meth:`Store.append` takes it.
    """
    made = Batch()
    for draft in drafts:
        tail = made.tails.get(draft.trace) or tail_of(draft.trace)
        is_new = tail is None
        tail = tail or Tail()
        if is_new and delete_on is not None:
            draft = replace(draft, content={**draft.content, "delete_on": delete_on})  # noqa: PLW2901
        entry = sealer.entry(draft, tail.count + 1, tail.head)
        if tail.is_erased:
            entry = replace(entry, content=None, salt=None)
        if is_new:
            made.new.append(entry)
            made.marks.append(Mark("opened", draft.trace, draft.time, (0, GENESIS)))
        made.entries.append(entry)
        made.tails[draft.trace] = tail.after(entry)
    # Also what comes late, as from a tool that was given up: the last record of the log covers all events.
    made.marks += [
        Mark("closed", t, tail.time, (tail.count, tail.head)) for t, tail in made.tails.items() if tail.is_ended
    ]
    return made


@dataclass(frozen=True, slots=True)
class End:
    """Where the log stands.

    Attributes:
        n: Number of its last record.
        hash: Hash of it.
        is_signed: Whether it is signed.
    """

    n: int = 0
    hash: str = GENESIS
    is_signed: bool = False


def chained(marks: Sequence[Mark], sealer: Sealer, after: End) -> Iterator[Record]:
    """Records for the log, behind the last one.

    Raises:
        ValueError: The log is signed, and there is no key: what is not signed could be anybody's.
    """
    if marks and after.is_signed and sealer.key is None:
        raise ValueError("trace: the record there is signed: give the key, key= or TAOGRAPH_TRACE_KEY")
    at = after.n, after.hash
    for mark in marks:
        made = sealer.record(mark.kind, mark.trace, mark.time, mark.at, at)
        yield made
        at = made.n, made.hash


def content_of(text: Any) -> dict[str, Any]:
    """The content of an event, from its JSON; what is none comes as ``{"unreadable": text}``."""
    try:
        made = json.loads(text, object_pairs_hook=_once)
    except (ValueError, TypeError, RecursionError):
        made = None
    return made if isinstance(made, dict) else {"unreadable": str(text)}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names are there once each: of two, readers would see this one or that."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name twice")
    return made


def told(entry: Entry, name: str) -> str | None:
    """A text that an event says of its trace: its thread, its user, its run, its graph, its date."""
    value = entry.content.get(name) if entry.content else None
    return None if value is None else str(value)
