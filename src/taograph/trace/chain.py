"""The chain: each event carries the hash of the one before it, so that nobody can change the record unseen.

An event's hash is the SHA-256 of its header in canonical JSON (RFC 8785). The header has the hash of the event's
content, salted with 16 random bytes that are kept beside the content; so content can be erased, salt and all, and the
chain still holds and says nothing of what was there. Traces are chained, too: in the log, where every beginning and
every end of a trace is a record with the number of its events and its last hash. With a key, each hash is signed
(HMAC-SHA256): who can write to the database and has no key cannot make a chain anew.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import rfc8785

VERSION = 1
"""Version of the schema of events; it is a part of every header."""
GENESIS = "0" * 64
"""What stands in the place of the hash before the first event of a chain."""

# JSON's numbers are doubles: whole numbers beyond this are written as text.
_EXACT = 2**53 - 1

LogKind = Literal["opened", "closed", "erased", "purged"]


def now() -> str:
    """The time, as it is stored."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is to be written.

    Attributes:
        trace: The trace that it belongs to: one call of a graph.
        type: What happened, see :mod:`taograph.trace.events`.
        time: When: ISO 8601, UTC.
        content: What is to be known of it: redacted, plain values.
        thread: The thread, if there is one.
        user: Who the run was for, if it is known.
        run: The run: the same in every call that goes on with it.
        step: The turn, from 1; 0 before the first.
    """

    trace: str
    type: str
    time: str
    content: Mapping[str, Any]
    thread: str | None = None
    user: str | None = None
    run: str = ""
    step: int = 0

    @property
    def told(self) -> dict[str, Any]:
        """All that is hashed as content: what rows are found by, too."""
        return {"thread": self.thread, "user": self.user, "run": self.run, "step": self.step, **self.content}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event as it is stored.

    Attributes:
        trace: The trace.
        seq: Its number in the trace, from 1.
        type: What happened.
        time: When.
        content: What is known of it; None where it was erased.
        salt: In hex; None where the content was erased.
        content_hash: SHA-256 of salt and content, in hex.
        prev: Hash of the event before it.
        hash: SHA-256 of the header.
        signature: HMAC of the hash; None without a key.
    """

    trace: str
    seq: int
    type: str
    time: str
    content: Mapping[str, Any] | None
    salt: str | None
    content_hash: str
    prev: str
    hash: str
    signature: str | None = None

    @property
    def header(self) -> dict[str, Any]:
        """What is hashed."""
        return {
            "v": VERSION,
            "trace": self.trace,
            "seq": self.seq,
            "type": self.type,
            "time": self.time,
            "content": self.content_hash,
            "prev": self.prev,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A line of the log of traces.

    Attributes:
        n: Its number, from 1.
        kind: What became of a trace: opened, closed (its run ended or waits), erased, purged.
        time: When.
        trace: The trace.
        count: Events that it had.
        head: Hash of the last of them.
        prev: Hash of the record before.
        hash: SHA-256 of the header.
        signature: HMAC of the hash; None without a key.
    """

    n: int
    kind: LogKind
    time: str
    trace: str
    count: int
    head: str
    prev: str
    hash: str
    signature: str | None = None

    @property
    def header(self) -> dict[str, Any]:
        """What is hashed."""
        return {
            "v": VERSION,
            "n": self.n,
            "kind": self.kind,
            "time": self.time,
            "trace": self.trace,
            "count": self.count,
            "head": self.head,
            "prev": self.prev,
        }


@dataclass(frozen=True, slots=True)
class Sealer:
    """Makes entries and records.

    Attributes:
        key: What hashes are signed with; None signs nothing.
    """

    key: bytes | None = field(default=None, repr=False)

    def entry(self, draft: Draft, seq: int, prev: str) -> Entry:
        """An event as it is stored.

        Args:
            draft: The event.
            seq: Its number in the trace.
            prev: Hash of the event before it; :data:`GENESIS` for the first.
        """
        salt, content = secrets.token_hex(16), plain(draft.told)
        made = Entry(
            draft.trace, seq, draft.type, draft.time, content, salt, hash_of_content(salt, content), prev, hash=""
        )
        digest = hash_of(made.header)
        return replace(made, hash=digest, signature=self.sign(digest))

    def record(self, kind: LogKind, trace: str, time: str, at: tuple[int, str], after: tuple[int, str]) -> Record:
        """A record as it is stored.

        Args:
            kind: What became of the trace.
            trace: The trace.
            time: When.
            at: Number and hash of the trace's last event.
            after: Number and hash of the record before.
        """
        made = Record(after[0] + 1, kind, time, trace, *at, after[1], hash="")
        digest = hash_of(made.header)
        return replace(made, hash=digest, signature=self.sign(digest))

    def sign(self, digest: str) -> str | None:
        """The signature of a hash, in hex; None without a key."""
        return None if self.key is None else hmac.new(self.key, digest.encode(), sha256).hexdigest()


def hash_of(header: Mapping[str, Any]) -> str:
    """SHA-256 of canonical JSON, in hex."""
    return sha256(canonical(dict(header))).hexdigest()


def hash_of_content(salt: str, content: Any) -> str:
    """SHA-256 of a salt and canonical JSON, in hex."""
    return sha256(bytes.fromhex(salt) + canonical(content)).hexdigest()


def canonical(value: Any) -> bytes:
    """Canonical JSON (RFC 8785) of plain values.

    Where the standard library writes the same, it does: it is ten times as fast.
    """
    return _encode(value).encode() if _is_simple(value) else rfc8785.dumps(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False).encode


def _is_simple(value: Any) -> bool:
    """Whether Python writes a value as RFC 8785 has it: numbers as ECMAScript does, names in the order of UTF-16."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii() or _whole(value) is value)
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_simple(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_simple, value))
    if kind is float:  # 0.1 is the same in both; 1.0, 1e-05 and 1e+16 are not
        return bool(1e-4 <= abs(value) < 1e15 and value % 1)
    if kind is int:
        return bool(-_EXACT <= value <= _EXACT)
    return value is None or kind is bool


def _whole(text: str) -> str:
    """A text without halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def plain(value: Any) -> Any:
    """A value as canonical JSON has it: what is no JSON as its text, numbers that a double does not hold as text."""
    match value:
        case None | bool():
            return value
        case str():
            return value if value.isascii() else _whole(value)
        case int():
            return int(value) if -_EXACT <= value <= _EXACT else str(value)
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case Mapping():
            return {plain(str(key)): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return plain(str(value))
