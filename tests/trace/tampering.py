"""Ways to tamper with a record, and where each of them is to be found."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trace_support import Raw, Row, Tables

from taograph.trace import Entry, Record, Sealer
from taograph.trace.chain import hash_of, hash_of_content

Place = tuple[str, str, int]
"""Where a fault is: among what, of which trace, at which number."""


@dataclass
class Tampering:
    """One thing done to a record.

    Attributes:
        what: What was done.
        places: Where it may be found; empty where that is not defined.
    """

    what: str
    places: set[Place]


class Tamperer:
    """Tampers with the rows of a store.

    Args:
        raw: The store.
        whole: Its rows as they were.
        chance: Chooses.
        key: What the record is signed with; None for nothing.
    """

    def __init__(self, raw: Raw, whole: Tables, chance: random.Random, key: bytes | None) -> None:
        self.raw, self.chance, self.key = raw, chance, key
        self.tables = copy.deepcopy(whole)
        self.has_rows = bool(whole["traces"])
        self.events, self.log, self.rows = (self.tables[name] for name in ("events", "log", "traces"))
        closed = {r["trace"] for r in self.log if r["kind"] == "closed"}
        erased = {r["trace"] for r in self.log if r["kind"] == "erased"}
        self.traces = sorted({row["trace"] for row in self.events})
        self.plain = [t for t in self.traces if t not in erased]
        self.closed = [t for t in self.traces if t in closed]
        self.open = [t for t in self.traces if t not in closed]
        self.erased = [t for t in self.traces if t in erased]

    def tamper(self) -> Tampering:
        """Do one thing, and write it to the store."""
        done: Tampering | None = None
        while done is None:
            done = self.chance.choice(WAYS)(self)
        self.raw.save(self.tables)
        return done

    def of(self, trace: str) -> list[Row]:
        """The events of a trace."""
        return [row for row in self.events if row["trace"] == trace]

    def some(self, *, among: list[str] | None = None, start: int = 0, stop: int | None = None) -> tuple[str, int, Row]:
        """A trace, the number of an event of it, and its row."""
        trace = self.chance.choice(among or self.traces)
        row = self.chance.choice(self.of(trace)[start:stop])
        return trace, row["seq"], row

    def is_blind(self, trace: str, seq: int) -> bool:
        """Whether nothing tells of an event: the last of a trace that is open, where there is no table of traces."""
        return not self.has_rows and trace in self.open and seq == len(self.of(trace))

    def put(self, row: Row, new: Row) -> None:
        """Change a row of an event."""
        self.events[self.events.index(row)] = new

    def rehash(self, row: Row, *, prev: str | None = None) -> Row:
        """A row of an event whose hashes fit it, signed with another key if they are signed."""
        content = self.raw.content(row)
        made = {**row, "prev": prev or row["prev"]}
        if content is not None:
            made["content_hash"] = hash_of_content(row["salt"], content)
        made["hash"] = hash_of(Entry(**{**made, "content": None}).header)
        made["signature"] = self.forge(made["hash"])
        return made

    def forge(self, digest: str) -> str | None:
        """The best signature that can be made without the key."""
        return Sealer(b"another key, long").sign(digest) if self.key else None

    def sealed(self, record: Row) -> Row:
        """A record of the log whose hash fits it."""
        digest = hash_of(Record(**record).header)
        return {**record, "hash": digest, "signature": self.forge(digest)}

    def other(self, value: Any) -> Any:
        """Another value of the same kind."""
        match value:
            case bool():
                return not value
            case int():
                return value + self.chance.choice((1, 2, 7))
            case float():
                return value + 0.5
            case str() if value:
                at = self.chance.randrange(len(value))
                return value[:at] + ("0" if value[at] != "0" else "1") + value[at + 1 :]
            case _:
                return "something"

    def otherwise(self, content: Any) -> Any:
        """Content with one thing changed, anywhere in it."""
        if isinstance(content, dict) and content:
            name = self.chance.choice(list(content))
            match self.chance.randrange(4):
                case 0:
                    return {**content, "new": 1}
                case 1:
                    return {key: value for key, value in content.items() if key != name}
                case _:
                    return {**content, name: self.otherwise(content[name])}
        if isinstance(content, list) and content:
            return self.chance.choice((content[1:], [*content, 1], [self.otherwise(content[0]), *content[1:]]))
        return self.other(content) if content not in ({}, []) else None


def column(self: Tamperer) -> Tampering:
    names = ["type", "time", "content_hash", "prev", "hash", *(["signature"] if self.key else [])]
    trace, seq, row = self.some()
    name = self.chance.choice([*names, *(["salt"] if row["salt"] else [])])
    self.put(row, {**row, name: self.other(row[name])})
    return Tampering(f"changed {name} of {trace} {seq}", {("events", trace, seq)})


def unsigned(self: Tamperer) -> Tampering | None:
    if not self.key:
        return None
    trace, seq, row = self.some()
    self.put(row, {**row, "signature": None})
    return Tampering(f"took the signature of {trace} {seq}", {("events", trace, seq)})


def number(self: Tamperer) -> Tampering:
    trace, seq, row = self.some()
    self.put(row, {**row, "seq": len(self.of(trace)) + self.chance.choice((1, 5))})
    return Tampering(f"gave {trace} {seq} another number", {("events", trace, seq)})


def home(self: Tamperer) -> Tampering | None:
    trace, seq, row = self.some()
    if self.is_blind(trace, seq):
        return None
    self.put(row, {**row, "trace": "elsewhere"})
    return Tampering(f"moved {trace} {seq} to another trace", {("events", trace, seq)})


def content(self: Tamperer) -> Tampering:
    trace, seq, row = self.some(among=self.plain)
    self.put(row, self.raw.with_content(row, self.otherwise(self.raw.content(row))))
    return Tampering(f"changed the content of {trace} {seq}", {("events", trace, seq)})


def no_json(self: Tamperer) -> Tampering | None:
    if self.raw.kind == "jsonl":
        return None
    trace, seq, row = self.some(among=self.plain)
    text = row["content"]
    name = self.chance.choice(list(json.loads(text)))
    cut = f'{{"{name}": "another", {text[1:]}'  # the name twice: a reader may see this one
    self.put(row, {**row, "content": self.chance.choice((text[:-1], "", cut, f"[{text}", "[" * 5000))})
    return Tampering(f"made the content of {trace} {seq} no JSON", {("events", trace, seq)})


def emptied(self: Tamperer) -> Tampering:
    trace, seq, row = self.some(among=self.plain)
    self.put(row, {**row, "content": None, "salt": self.chance.choice((None, row["salt"]))})
    return Tampering(f"took the content of {trace} {seq}", {("events", trace, seq)})


def filled(self: Tamperer) -> Tampering:
    trace, seq, row = self.some(among=self.erased)
    self.put(row, self.raw.with_content({**row, "salt": "00" * 16}, {"text": "invented"}))
    return Tampering(f"gave {trace} {seq} content", {("events", trace, seq)})


def removed(self: Tamperer) -> Tampering | None:
    trace, seq, row = self.some()
    if self.is_blind(trace, seq):
        return None
    self.events.remove(row)
    return Tampering(f"removed {trace} {seq}", {("events", trace, seq)})


def closed_up(self: Tamperer) -> Tampering:
    trace, seq, row = self.some(stop=-1)
    self.events.remove(row)
    for later in self.of(trace)[seq - 1 :]:
        later["seq"] -= 1
    return Tampering(f"removed {trace} {seq} and counted anew", {("events", trace, seq)})


def inserted(self: Tamperer) -> Tampering:
    trace, seq, row = self.some(among=self.plain)
    forged = self.rehash(self.raw.with_content(row, {"text": "invented"}))
    for later in self.of(trace)[seq - 1 :]:
        later["seq"] += 1
    self.events.insert(self.events.index(row), forged)
    return Tampering(f"inserted before {trace} {seq}", {("events", trace, seq)})


def doubled(self: Tamperer) -> Tampering:
    trace, seq, row = self.some()
    for later in self.of(trace)[seq:]:
        later["seq"] += 1
    self.events.insert(self.events.index(row) + 1, {**row, "seq": seq + 1})
    return Tampering(f"inserted a copy of {trace} {seq} behind it", {("events", trace, seq + 1)})


def line(self: Tamperer) -> Tampering | None:
    """In a file, a line may be anywhere, whatever its number."""
    if self.raw.kind != "jsonl":
        return None
    trace, seq, row = self.some()
    at = self.chance.randrange(len(self.of(trace)))
    self.events.insert(self.events.index(self.of(trace)[at]), dict(row))
    place = max(at, seq) + 1 if at + 1 == seq else at + 1  # of two that are alike, the second is too many
    return Tampering(f"put the line of {trace} {seq} at {at + 1} again", {("events", trace, place)})


def behind(self: Tamperer) -> Tampering | None:
    trace = self.chance.choice(self.traces)
    last = self.of(trace)[-1]
    if self.is_blind(trace, last["seq"]) and not self.key:
        return None
    forged = self.rehash({**last, "seq": last["seq"] + 1}, prev=last["hash"])
    self.events.insert(self.events.index(last) + 1, forged)
    return Tampering(f"made one behind the end of {trace}", {("events", trace, last["seq"] + 1)})


def swapped(self: Tamperer) -> Tampering:
    trace = self.chance.choice(self.traces)
    first, second = sorted(self.chance.sample(self.of(trace), 2), key=lambda row: row["seq"])
    place = first["seq"]
    if self.raw.kind == "jsonl" and self.chance.random() < 0.5:
        i, j = self.events.index(first), self.events.index(second)
        self.events[i], self.events[j] = second, first
    else:
        first["seq"], second["seq"] = second["seq"], first["seq"]
        i, j = self.events.index(first), self.events.index(second)
        self.events[i], self.events[j] = second, first
    return Tampering(f"swapped {trace} {place} with a later one", {("events", trace, place)})


def cut(self: Tamperer) -> Tampering:
    trace, seq, _ = self.some(among=self.traces if self.has_rows else self.closed, start=1)
    for row in self.of(trace)[seq - 1 :]:
        self.events.remove(row)
    return Tampering(f"cut {trace} off before {seq}", {("events", trace, seq)})


def cut_well(self: Tamperer) -> Tampering:
    trace, seq, _ = self.some(among=self.closed, start=1)
    for row in self.of(trace)[seq - 1 :]:
        self.events.remove(row)
    last = self.of(trace)[-1]
    for row in self.rows:
        if row["trace"] == trace:
            row |= {"count": last["seq"], "head": last["hash"], "last": last["time"], "open": 1}
    return Tampering(f"cut {trace} off before {seq}, in the table of traces, too", {("events", trace, seq)})


def rehashed(self: Tamperer) -> Tampering | None:
    trace, seq, row = self.some(among=self.plain)
    if self.is_blind(trace, seq) and not self.key:
        return None
    changed = self.raw.with_content(row, {**self.raw.content(row), "text": "invented"})
    self.put(row, self.rehash(changed))
    return Tampering(f"changed {trace} {seq} with its hash", {("events", trace, seq)})


def made_anew(self: Tamperer) -> Tampering:
    """All from one event on, with the hashes, and the table of traces; what is left is the log."""
    trace, seq, row = self.some(among=[t for t in self.plain if t in self.closed])
    prev = row["prev"]
    for each in self.of(trace)[seq - 1 :]:
        new = self.rehash(self.raw.with_content(each, {**self.raw.content(each), "new": "invented"}), prev=prev)
        self.put(each, new)
        prev = new["hash"]
    for known in self.rows:
        if known["trace"] == trace:
            known["head"] = prev
    place = seq if self.key else len(self.of(trace))
    return Tampering(f"made {trace} anew from {seq}", {("events", trace, place)})


def row(self: Tamperer) -> Tampering | None:
    if not self.has_rows:
        return None
    known = self.chance.choice(self.rows)
    name = self.chance.choice([name for name in known if name != "trace"])
    value = 1 - known[name] if name in ("open", "erased") else self.other(known[name])
    known[name] = value
    trace, last = known["trace"], len(self.of(known["trace"]))
    places: set[Place] = {("traces", trace, 0)}
    if name in ("count", "head"):  # of a trace that is open, nobody can tell which of the two is right
        places |= {("events", trace, last), ("events", trace, last + 1)} if trace in self.open else set()
    return Tampering(f"changed {name} of {trace} in the table of traces", places)


def no_row(self: Tamperer) -> Tampering | None:
    if not self.has_rows:
        return None
    gone = self.chance.choice(self.rows)
    self.rows.remove(gone)
    return Tampering(f"removed {gone['trace']} from the table of traces", {("traces", gone["trace"], 0)})


def new_row(self: Tamperer) -> Tampering | None:
    if not self.has_rows:
        return None
    purged = next(r["trace"] for r in self.log if r["kind"] == "purged")
    name = self.chance.choice(("invented", purged))
    self.rows.append({**self.chance.choice(self.rows), "trace": name})
    places: set[Place] = {("log", name, 0)} if name == "invented" else {("traces", name, 0)}
    return Tampering(f"put {name} into the table of traces", places)


def gone(self: Tamperer) -> Tampering:
    trace = self.chance.choice(self.traces)
    for each in [*self.of(trace), *(r for r in self.rows if r["trace"] == trace)]:
        (self.events if each in self.events else self.rows).remove(each)
    return Tampering(f"removed {trace} whole", {("events", trace, 1)})


def renamed(self: Tamperer) -> Tampering:
    trace = self.chance.choice(self.traces)
    for each in [*self.of(trace), *(r for r in self.rows if r["trace"] == trace)]:
        each["trace"] = "elsewhere"
    return Tampering(f"gave {trace} another name", {("events", trace, 1)})


def erased(self: Tamperer) -> Tampering:
    trace = self.chance.choice(self.plain)
    for each in self.of(trace):
        each |= {"content": None, "salt": None}
    for each in self.rows:
        if each["trace"] == trace:
            each |= {"thread": None, "user": None, "run": "", "graph": "", "delete_on": None, "erased": 1}
    return Tampering(f"erased {trace} and did not say so", {("events", trace, 1)})


def log_column(self: Tamperer) -> Tampering:
    record = self.chance.choice(self.log)
    n = record["n"]
    names = ["n", "kind", "time", "trace", "count", "head", "prev", "hash", *(["signature"] if self.key else [])]
    name = self.chance.choice(names)
    record[name] = len(self.log) + 3 if name == "n" else self.other(record[name])
    return Tampering(f"changed {name} of record {n}", {("log", "", n)})


def log_removed(self: Tamperer) -> Tampering:
    record = self.chance.choice(self.log[:-1])
    self.log.remove(record)
    if self.chance.random() < 0.5:
        for later in self.log[record["n"] - 1 :]:
            later["n"] -= 1
    return Tampering(f"removed record {record['n']}", {("log", "", record["n"])})


def log_cut(self: Tamperer) -> Tampering:
    keep = self.chance.randrange(len(self.log))
    told = {record["trace"] for record in self.log[keep:]}
    del self.log[keep:]
    return Tampering(f"cut the log off behind {keep}: {sorted(told)}", set())


def log_swapped(self: Tamperer) -> Tampering:
    i, j = sorted(self.chance.sample(range(len(self.log)), 2))
    first, second = self.log[i], self.log[j]
    first["n"], second["n"] = second["n"], first["n"]
    self.log[i], self.log[j] = second, first
    return Tampering(f"swapped records {i + 1} and {j + 1}", {("log", "", i + 1)})


def log_inserted(self: Tamperer) -> Tampering:
    record = self.chance.choice(self.log)
    n = record["n"]
    forged = self.sealed({**record, "kind": "closed", "count": record["count"] + 1})
    for later in self.log[n - 1 :]:
        later["n"] += 1
    self.log.insert(n - 1, forged)
    return Tampering(f"inserted a record before {n}", {("log", "", n)})


def log_rehashed(self: Tamperer) -> Tampering:
    record = self.chance.choice(self.log)
    n = record["n"]
    self.log[n - 1] = self.sealed({**record, "count": record["count"] + 1})
    is_last = n == len(self.log) and not self.key
    return Tampering(f"changed record {n} with its hash", set() if is_last else {("log", "", n)})


WAYS: tuple[Callable[[Tamperer], Tampering | None], ...] = (
    *(column, unsigned, number, home, content, content, no_json, emptied, filled, removed, closed_up),
    *(inserted, doubled, line, behind, swapped, cut, cut_well, rehashed, made_anew, row, row, no_row, new_row),
    *(gone, renamed, erased, log_column, log_column, log_removed, log_cut, log_swapped, log_inserted, log_rehashed),
)
