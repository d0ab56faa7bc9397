"""Whether a record is whole: which event was changed, removed, inserted or moved, or cut off at the end.

What is looked at: every event against its hash, its content against the salted hash of it, each against the one
before; the log of traces in the same way; the log against the events (their number and the last hash at the end of
a run); the table of traces against both; and with a key, every signature.

What is found, and what is not. Without a key, the hashes hold against whoever changes a row, not against whoever
makes all hashes anew from there on, in the log, too: that is found only by ``head``, the log's last hash, noted
elsewhere before. With a key nobody without it can make a hash that verifies. In every case there are changes that
leave a record which could have come about so:

- the last events of a trace that is open (its process was killed, or it still runs) are cut off, in the table of
  traces, too: nothing says yet how many there are. With JSON lines there is no such table;
- the last traces are taken out whole, with all that the log says of them, and nothing of the log behind them is left:
  ``head`` finds it, if it was noted after them;
- a whole store is replaced by a copy of an earlier time: the same;
- what an erased or purged trace said cannot be known any more; that it was erased, and when, can;
- a lie that was recorded is a record of the lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from taograph.trace.chain import GENESIS, Entry, Record, Sealer
from taograph.trace.checking import Chain, Fault, What, content_fault
from taograph.trace.stores import Kept, Store
from taograph.trace.stores.batch import told

__all__ = ["Fault", "Notice", "Report", "verify"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is worth knowing and is no fault.

    Attributes:
        trace: The trace; empty for the store.
        text: What it is.
    """

    trace: str
    text: str

    def __str__(self) -> str:
        return f"{self.trace}: {self.text}" if self.trace else self.text


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        faults: The first fault of each trace, and of the log.
        notices: What is worth knowing besides.
        traces: Traces that are there: what was purged is not.
        events: Events of them.
        records: Records of the log.
        head: The log's last hash: note it elsewhere, and give it the next time.
    """

    faults: tuple[Fault, ...]
    notices: tuple[Notice, ...]
    traces: int
    events: int
    records: int
    head: str

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults


def verify(store: Store, key: bytes | None = None, head: str | None = None) -> Report:
    """Find out whether a record is whole. It is read in pieces: memory does not grow with the events.

    Args:
        store: The store.
        key: What the record is signed with; None does not look at signatures.
        head: The log's last hash as it was noted elsewhere earlier.
    """
    report = _look(store, key, head)
    # Of files that are erased while they are read, no moment is seen whole: what is a fault then is none the next time.
    return report if report.ok else _look(store, key, head)


def _look(store: Store, key: bytes | None, head: str | None) -> Report:
    with store.snapshot() as view:
        return _Verification(view, Sealer(key), head).report()


@dataclass(slots=True)
class _Known:
    """What the log says of a trace, as far as the log can be relied on.

    Attributes:
        marks: Events and last hash when something was said of it.
        end: Events at its end; 0 where none is recorded.
        since: Number of the record by which it was opened; 0 for none.
        is_erased: Whether its content was erased.
        is_purged: Whether all of it was.
    """

    marks: list[tuple[int, str]] = field(default_factory=list)
    end: int = 0
    since: int = 0
    is_erased: bool = False
    is_purged: bool = False


class _Verification:
    """One look at a store.

    Args:
        store: What it is at this moment.
        sealer: Signs, where there is a key.
        head: As :func:`verify` takes it.
    """

    def __init__(self, store: Store, sealer: Sealer, head: str | None) -> None:
        self._store, self._sealer, self._wanted = store, sealer, head
        self._faults: list[Fault] = []
        self._notices: list[Notice] = []
        self._known: dict[str, _Known] = {}
        self._records = self._events = 0
        self._head = GENESIS
        self._signed = False
        self._log_is_whole = True

    def report(self) -> Report:
        """Look at all of it."""
        self._log()
        kept = {each.trace: each for each in self._store.traces()}
        names = dict.fromkeys((*self._known, *kept, *self._store.ids()))
        for trace in names:
            fault = self._trace(trace, kept.get(trace))
            if fault is not None:
                self._faults.append(fault)
        if self._signed and self._sealer.key is None:
            self._notices.append(Notice("", "it is signed, and the signatures were not looked at: no key was given"))
        purged = sum(known.is_purged for known in self._known.values())
        erased = sum(known.is_erased and not known.is_purged for known in self._known.values())
        gone = [f"{number} {what}" for number, what in ((purged, "purged"), (erased, "erased")) if number]
        if gone:
            self._notices.append(Notice("", f"traces: {', '.join(gone)}; the log says when"))
        return Report(
            tuple(self._faults),
            tuple(self._notices),
            len(names) - purged,
            self._events,
            self._records,
            self._head,
        )

    def _log(self) -> None:
        """Look at the log, and learn what it says of each trace, up to where it can't be relied on."""
        chain: Chain[Record] = Chain("log", "", self._sealer)
        found = self._wanted in (None, GENESIS)
        fault: Fault | None = None
        for record in self._store.records():
            self._records += 1
            self._signed |= record.signature is not None
            self._head = record.hash
            found = found or record.hash == self._wanted
            chain.take(record)
            if chain.fault is None and fault is None:
                fault = self._learn(record)
        chain.end()
        fault = min((f for f in (chain.fault, fault) if f is not None), key=lambda f: f.number, default=None)
        if fault is None and not found:
            fault = Fault(
                *("log", "", self._records + 1, "truncated"),
                detail="the hash that was noted is not in it: it was cut off, or made anew",
            )
        if fault is not None:
            self._log_is_whole = False
            self._faults.append(fault)

    def _learn(self, record: Record) -> Fault | None:
        """What a record says of its trace; a fault where it can't follow on what was said before."""
        known = self._known.setdefault(record.trace, _Known())
        begins = record.kind == "opened"
        if not isinstance(record.count, int) or begins != (known.since == 0 or known.is_purged):
            detail = f"it says that trace {record.trace} is {record.kind}, which does not follow on what is said before"
            return Fault("log", "", record.n, "inserted", detail)
        if begins:
            self._known[record.trace] = _Known(since=record.n)
            return None
        known.marks.append((record.count, record.head))
        if record.kind == "closed":
            known.end = record.count
        elif record.kind == "erased":
            known.is_erased = True
        else:
            known.is_purged = True
        return None

    def _trace(self, trace: str, kept: Kept | None) -> Fault | None:
        known = self._known.get(trace)
        if known is None and self._log_is_whole:
            return Fault("log", trace, 0, "removed", "the log does not know of this trace")
        known = known or _Known()
        look = _Look(trace, known, self._sealer, trusted=self._log_is_whole)
        look.through(self._store.entries(trace), kept)
        self._events += look.count
        self._signed |= look.signed
        fault = look.fault(kept)
        if fault is None and not known.end and not known.is_purged and self._log_is_whole:
            self._notices.append(Notice(trace, "no end of it is recorded: it runs, or its process was killed"))
        return fault


class _Look:
    """One look at the events of a trace.

    Args:
        trace: Its id.
        known: What the log says of it.
        sealer: Signs, where there is a key.
        trusted: Whether the log says all that it should.
    """

    def __init__(self, trace: str, known: _Known, sealer: Sealer, *, trusted: bool) -> None:
        self._trace, self._known, self._trusted = trace, known, trusted
        self._chain: Chain[Entry] = Chain("events", trace, sealer)
        self._first: Entry | None = None
        self._last: Entry | None = None
        self._ended_at = 0
        self._at_row = ""
        self._hashes = dict.fromkeys((count for count, _ in known.marks), "")
        self.count = 0
        self.signed = False

    def through(self, entries: Iterable[Entry], kept: Kept | None) -> None:
        """Look at each event."""
        for entry in entries:
            self.count += 1
            self.signed |= entry.signature is not None
            self._first, self._last = self._first or entry, entry
            fault = content_fault(self._trace, entry, is_erased=self._is_erased(kept))
            self._chain.take(entry, fault)
            if entry.type == "run_ended":
                self._ended_at = self.count
            if self.count in self._hashes:
                self._hashes[self.count] = entry.hash
            if kept is not None and self.count == kept.count:
                self._at_row = entry.hash
        heads = [head for count, head in self._known.marks if count == self.count]
        if kept is not None and kept.count == self.count:
            heads.append(kept.head)
        self._chain.end(heads)

    def _is_erased(self, kept: Kept | None) -> bool | None:
        """Whether there must be no content; None where nobody can tell."""
        if self._known.is_erased or self._trusted:
            return self._known.is_erased
        return None

    def fault(self, kept: Kept | None) -> Fault | None:
        """The first fault, after all events were taken."""
        return self._chain.fault or self._against_log() or self._against_row(kept)

    def _fault(self, number: int, what: What, detail: str) -> Fault:
        return Fault("events", self._trace, number, what, detail)

    def _against_log(self) -> Fault | None:
        known = self._known
        if known.is_purged:
            return self._fault(1, "inserted", "it is there, though it was purged") if self.count else None
        for count, head in known.marks:
            if count > self.count:
                gone = f"events {self.count + 1} to {count} are gone from the end"
                return self._fault(self.count + 1, "truncated", gone)
            if self._hashes[count] != head:
                return self._fault(count, "changed", "the log knows another: the chain was made anew up to here")
        if 0 < known.end < self.count and self._trusted:
            return self._fault(known.end + 1, "inserted", "it is behind the end that the log knows")
        if self._ended_at and not known.end and self._trusted:
            return Fault(
                "log", self._trace, self._ended_at, "removed", "its end is recorded, and the log does not say so"
            )
        return None

    def _against_row(self, kept: Kept | None) -> Fault | None:
        if self._known.is_purged:
            return None if kept is None else Fault("traces", self._trace, 0, "inserted", "it was purged")
        if kept is None:
            if self.count == 0:
                return self._fault(1, "removed", "all its events are gone")
            return Fault("traces", self._trace, 0, "removed", "it has events, and no row in the table of traces")
        number: object = kept.count  # a column of SQLite may hold anything
        if not isinstance(number, int):
            return Fault("traces", self._trace, 0, "changed", "count in the table of traces is no number")
        has_end = any(count == self.count for count, _ in self._known.marks)
        if not has_end and kept.count > self.count and (self._last is None or kept.head != self._last.hash):
            gone = f"events {self.count + 1} to {kept.count} are gone from the end"
            return self._fault(self.count + 1, "truncated", gone)
        if not has_end and 0 < kept.count < self.count and kept.head == self._at_row:
            return self._fault(kept.count + 1, "inserted", "it is behind the last one that the table of traces knows")
        if not has_end and kept.count == self.count and kept.head != self._at_row:
            return self._fault(self.count, "changed", "the table of traces knows another last event")
        wrong = [name for name, value in self._row().items() if getattr(kept, name) != value]
        if wrong:
            detail = f"{', '.join(wrong)} in the table of traces: not what the events say"
            return Fault("traces", self._trace, 0, "changed", detail)
        return None

    def _row(self) -> dict[str, object]:
        """What the table of traces should say."""
        first, last = self._first, self._last
        if first is None or last is None:
            return {"count": -1}
        return {
            **{name: told(first, name) for name in ("thread", "user", "delete_on")},
            **{name: told(first, name) or "" for name in ("run", "graph")},
            "started": first.time,
            "last": last.time,
            "count": self.count,
            "head": last.hash,
            "is_open": not self._ended_at,
            "is_erased": first.content is None,
        }
