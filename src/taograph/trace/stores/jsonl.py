"""Traces in a folder of JSON lines: ``trace-<id>.jsonl`` for each, and ``log.jsonl``.

Every line is an event or a record with all its fields. What is written in several files at once is written down in
``pending.json`` first, so that it is in all of them or in none, whatever becomes of the process; a writer that finds
one finishes it. A line without an end is none: the machine stopped while it was written. It is set aside in a file
of the same name with ``.torn`` behind it, and the chain goes on from the line before.

A store for one machine and a moderate number of traces: to find one by its thread, the beginning and the end of
each file are read. Folders of network file systems are not for it, since their locks are not to be relied on.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from filelock import FileLock, Timeout

from taograph.trace.chain import Draft, Entry, LogKind, Record, Sealer
from taograph.trace.stores import Kept, Store
from taograph.trace.stores.batch import End, Mark, Tail, chained, content_of, seal, told
from taograph.trace.stores.files import PENDING, Change, apply, finish, identity, lines_of, read_ends, set_aside

log = logging.getLogger("taograph.trace")

LOG = "log.jsonl"
_BUSY_SECONDS = 30.0
_TAILS = 1000
_NAME = 200

L = TypeVar("L", Entry, Record)


class JsonlStore:
    """A store in a folder that other processes may use, too.

    Args:
        folder: The folder.
        limits: How far each file is read, in bytes; None for to its end.
    """

    def __init__(self, folder: Path, limits: dict[str, int] | None = None) -> None:
        self._folder, self._limits, self._identity = folder, limits, identity(folder)
        self._lock = threading.RLock()
        self._between = FileLock(folder / ".lock", timeout=_BUSY_SECONDS, mode=0o600)
        # Where traces and the log stand, with the size that their files have then.
        self._tails: dict[str, tuple[int, Tail]] = {}
        self._last: tuple[int, End] | None = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other writers out: two of them would fork the chain."""
        with self._lock:
            if identity(self._folder) != self._identity:  # what is written now would be a trace without its beginning
                raise OSError(f"trace: {self._folder} was moved or deleted")
            try:
                self._between.acquire()
            except Timeout:
                raise OSError(f"trace: {self._folder} is being written to for {_BUSY_SECONDS:g} seconds") from None
            try:
                finish(self._folder)
                yield
            finally:
                self._between.release()

    def append(self, drafts: Sequence[Draft], sealer: Sealer, *, delete_on: str | None = None) -> None:
        """As :meth:`Store.append`."""
        with self._alone():
            batch = seal(drafts, sealer, self._tail, delete_on)
            change = Change()
            for entry in batch.entries:
                change.append(self._file(entry.trace), _line(entry))
            last = self._log(change, batch.marks, sealer)
            apply(self._folder, change)
            for trace, tail in batch.tails.items():
                self._tails.pop(trace, None)
                self._tails[trace] = self._size(self._file(trace)), tail
            while len(self._tails) > _TAILS:
                del self._tails[next(iter(self._tails))]
            self._last = self._size(LOG), last

    def _log(self, change: Change, marks: Sequence[Mark], sealer: Sealer) -> End:
        """Have the log say something; returns where it stands then."""
        last = self._end_of_log()
        for record in chained(marks, sealer, last):
            change.append(LOG, _line(record))
            last = End(record.n, record.hash, record.signature is not None)
        return last

    def _end_of_log(self) -> End:
        if self._last is not None and self._last[0] == self._size(LOG):
            return self._last[1]
        set_aside(self._folder / LOG)
        _, line = read_ends(self._folder / LOG, None)
        if line is None:
            return End()
        record = _record(line)
        if record.n < 1:
            raise OSError(f"trace: the last line of {self._folder / LOG} can't be read; begin another folder")
        return End(record.n, record.hash, record.signature is not None)

    def _tail(self, trace: str) -> Tail | None:
        name = self._file(trace)
        known = self._tails.get(trace)
        if known is not None and known[0] == self._size(name):
            return known[1]
        set_aside(self._folder / name)
        tail = Tail()
        for entry in self.entries(trace):
            tail = tail.after(entry)
        return tail if tail.count else None

    def traces(self, *, thread: str | None = None, user: str | None = None, run: str | None = None) -> list[Kept]:
        """As :meth:`Store.traces`."""
        found = []
        for path in self._files():
            kept = self._kept(path)
            given = ((thread, kept.thread), (user, kept.user), (run, kept.run)) if kept else ()
            if kept is not None and all(wanted in (None, known) for wanted, known in given):
                found.append(kept)
        return sorted(found, key=lambda kept: (kept.started, kept.trace))

    def _kept(self, path: Path) -> Kept | None:
        first, last = (None if line is None else _entry(line) for line in read_ends(path, self._limit(path)))
        if first is None or last is None:
            return None
        is_open = last.type != "run_ended" and all(e.type != "run_ended" for e in self._entries(path))
        return Kept(
            first.trace or _named(path),
            told(first, "thread"),
            told(first, "user"),
            told(first, "run") or "",
            told(first, "graph") or "",
            first.time,
            last.time,
            told(first, "delete_on"),
            last.seq,
            last.hash,
            is_open,
            first.content is None,
        )

    def ids(self) -> list[str]:
        """As :meth:`Store.ids`."""
        first = ((path, read_ends(path, self._limit(path))[0]) for path in self._files())
        return [*dict.fromkeys(_entry(line).trace or _named(path) for path, line in first if line is not None)]

    def entries(self, trace: str) -> Iterator[Entry]:
        """As :meth:`Store.entries`."""
        return self._entries(self._folder / self._file(trace))

    def _entries(self, path: Path) -> Iterator[Entry]:
        return map(_entry, lines_of(path, self._limit(path)))

    def records(self) -> Iterator[Record]:
        """As :meth:`Store.records`."""
        path = self._folder / LOG
        return map(_record, lines_of(path, self._limit(path)))

    @contextmanager
    def snapshot(self) -> Iterator[Store]:
        """As :meth:`Store.snapshot`: files only grow, so their sizes are enough to know."""
        if not os.access(self._folder, os.W_OK):
            yield self
            return
        with self._alone():
            sizes = {path.name: path.stat().st_size for path in self._folder.glob("*.jsonl")}
        yield JsonlStore(self._folder, sizes)

    def erase(self, traces: Sequence[str], kind: LogKind, time: str, sealer: Sealer) -> None:
        """As :meth:`Store.erase`."""
        for trace in traces:
            with self._alone():
                tail = self._tail(trace)
                if tail is None or (kind == "erased" and tail.is_erased):
                    continue
                change, name = Change(), self._file(trace)
                last = self._log(change, [Mark(kind, trace, time, (tail.count, tail.head))], sealer)
                change.remove(f"{name}.torn")
                if kind == "purged":
                    change.remove(name)
                else:
                    bare = (_line(replace(entry, content=None, salt=None)) for entry in self.entries(trace))
                    change.replace(self._folder, name, bare)
                apply(self._folder, change)
                self._tails.pop(trace, None)
                self._last = self._size(LOG), last

    def close(self) -> None:
        """Nothing is held between two calls."""

    def _files(self) -> Iterable[Path]:
        """The files of the traces."""
        return sorted(p for p in self._folder.glob("trace-*.jsonl") if self._limits is None or p.name in self._limits)

    def _file(self, trace: str) -> str:
        name = quote(trace, safe=" ")
        return f"trace-{name if len(name) <= _NAME else sha256(trace.encode('utf-8', 'replace')).hexdigest()}.jsonl"

    def _limit(self, path: Path) -> int | None:
        return None if self._limits is None else self._limits.get(path.name, 0)

    def _size(self, name: str) -> int:
        try:
            return (self._folder / name).stat().st_size
        except FileNotFoundError:
            return 0


def open_jsonl(url: str, *, read_only: bool = False) -> JsonlStore:
    """Open a folder, or make it, for its owner only.

    Raises:
        ValueError: The URL is none.
        OSError: The folder can't be made.
    """
    given = url.removeprefix("jsonl:")
    if not given.strip("/"):
        raise ValueError("trace: this is no URL of a folder: write jsonl:folder")
    folder = Path(given).expanduser()
    if read_only:
        if not (folder / LOG).is_file():
            raise FileNotFoundError(f"trace: {folder} holds no traces")
        return JsonlStore(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"trace: {folder} can't be made: {error.strerror or error}") from error
    store = JsonlStore(folder)
    if (folder / PENDING).exists():
        with store._alone():
            pass
    return store


def _named(path: Path) -> str:
    """The trace that a file is named by, where its first line is no event."""
    return unquote(path.name.removeprefix("trace-").removesuffix(".jsonl"))


def _line(made: Entry | Record) -> str:
    return json.dumps(asdict(made), ensure_ascii=True)


def _entry(line: bytes) -> Entry:
    told = _fields(line, Entry)
    return Entry(**told) if told else Entry("", 0, "", "", {"unreadable": _decode(line)}, None, "", "", "")


def _record(line: bytes) -> Record:
    told = _fields(line, Record)
    return Record(**told) if told else Record(0, "opened", "", "", 0, "", "", "")


def _fields(line: bytes, kind: type[Entry] | type[Record]) -> dict[str, Any] | None:
    """What a line says; None where it is no event or no record."""
    made = content_of(_decode(line))
    if made.keys() != {field.name for field in fields(kind)}:
        return None
    is_one = all(type(value) in _TYPES.get(name, (str,)) for name, value in made.items())
    return made if is_one else None


_NONE = type(None)
_TYPES = {
    **dict.fromkeys(("seq", "n", "count"), (int,)),
    **dict.fromkeys(("salt", "signature"), (str, _NONE)),
    "content": (dict, _NONE),
}


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace")


__all__ = ["JsonlStore", "open_jsonl"]
