"""Threads in a SQLite file: a lock of the operating system beside it, for each thread that has a run.

The folder ``<database>-writers`` holds, named by a hash of the thread:

- ``<thread>.lock``: locked by the process whose run has the thread, with the run's id, process, host and time in it.
  When a process dies, by whatever cause, the system lets go of its locks.
- ``<thread>.<time>.<run>.wait``: a run that waits; it touches its file as long as it does.
- ``<thread>.<run>.end``: asks that run to end.

All are gone when the run is. The file system has to know locks: most do, some network shares do not, and SQLite
does not work on those either.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from filelock import lock_descriptor, unlock_descriptor

from taograph.writers.holders import UNKNOWN, Ask, Holder
from taograph.writers.places import ThreadLock

STALE_SECONDS = 2.0
_LEFT_BEHIND_SECONDS = 600.0
_TRIES = 20
_SIZE = 1024


class FilesPlace:
    """The threads of a SQLite file.

    Args:
        database: Its path, absolute and without symbolic links.
    """

    def __init__(self, database: Path) -> None:
        self.key = ("file", str(database))
        self.folder = database.with_name(f"{database.name}-writers")

    def lock(self, thread: str, holder: Holder) -> FileThreadLock:
        """A run's hold on a thread, not taken yet."""
        return FileThreadLock(self.folder, sha256(thread.encode("utf-8", "surrogatepass")).hexdigest()[:32], holder)

    def look(self, locks: Sequence[ThreadLock]) -> dict[ThreadLock, Ask]:
        """What runs of other processes ask of those that have these locks."""
        mine = cast("Sequence[FileThreadLock]", locks)
        return {lock: ask for lock in mine if (ask := lock.asked()) is not None}

    def rest(self) -> None:
        """Nothing is kept open here."""


class FileThreadLock:
    """A run's hold on a thread, as a locked file.

    Args:
        folder: Where the files are.
        name: What stands for the thread in their names.
        holder: The run.
    """

    def __init__(self, folder: Path, name: str, holder: Holder) -> None:
        self.holder = holder
        self._folder = folder
        self._name = name
        self._path = folder / f"{name}.lock"
        self._end = folder / f"{name}.{holder.run}.end"
        self._mark: Path | None = None
        self._descriptor: int | None = None
        self._over = False
        self._mutex = threading.Lock()
        _OPEN.add(self)

    def take(self, *, wait: bool, ask: Ask | None) -> Holder | None:
        """Take the thread, if it is free and nobody has waited for it longer.

        Raises:
            OSError: The files can't be made, or the file system knows no locks.
        """
        with self._mutex:
            if self._over:
                return self.holder
            try:
                other = self._first_of_those_before() or self._lock()
                if other is None:
                    self._unmark()
                    return None
                if wait:
                    self._touch()
            except OSError as error:
                raise OSError(
                    f"the thread can't be locked beside its database, in {self._folder}: {error.strerror or error}. "
                    "The folder has to be writable, on a file system with locks"
                ) from error
            if ask is not None and other is not UNKNOWN:
                self._ask(other, ask)
            return other

    def release(self) -> None:
        """Give up the thread, or the place in the line."""
        with self._mutex:
            self._over = True
            _OPEN.discard(self)
            self._unmark()
            if (descriptor := self._descriptor) is None:
                return
            self._descriptor = None
            _remove(self._end)
            _remove(self._path)  # still locked: who opened it before finds that it is gone, and makes another
            with suppress(OSError):
                unlock_descriptor(descriptor)  # also for a child that has inherited it
            os.close(descriptor)

    def lost(self) -> str | None:
        """The system does not take a lock away."""
        return None

    def asked(self) -> Ask | None:
        """What another run asks of this one."""
        values = _read(self._end) if self._end.exists() else None
        if not isinstance(values, dict) or values.get("how") not in ("interrupt", "rollback"):
            return None
        return Ask(values["how"], str(values.get("by")))

    def forget(self) -> None:
        """In a process that was forked: the lock is the parent's, and goes on without this process."""
        self._over = True
        if (descriptor := self._descriptor) is not None:
            self._descriptor = None
            with suppress(OSError):
                os.close(descriptor)

    def _lock(self) -> Holder | None:
        """Lock the file and write the run into it; or who has it."""
        for _ in range(_TRIES):
            descriptor = self._open()
            try:
                if not lock_descriptor(descriptor, blocking=False):
                    return _holder_in(descriptor) or UNKNOWN
                if os.fstat(descriptor).st_nlink == 0:
                    continue  # the one before has removed it
                # The first byte is left alone: it is what Windows locks, and keeps from being read by others. What
                # a dead holder wrote is written over, since a file that is cut is flushed when it is closed.
                os.write(descriptor, f" {json.dumps(self.holder.to_dict())}".ljust(_SIZE).encode())
                self._descriptor, descriptor = descriptor, -1
                return None
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        raise OSError("the lock file is removed again and again")

    def _open(self) -> int:
        for last in (False, True):
            try:
                return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:
                if last:
                    raise
                self._folder.mkdir(mode=0o700, exist_ok=True)
        raise AssertionError

    def _first_of_those_before(self) -> Holder | None:
        """The run that has waited longest, if not this one."""
        marks = sorted(self._marks())
        if not marks or (self._mark is not None and marks[0] >= self._mark.name):
            return None
        return Holder.read(_read(self._folder / marks[0])) or UNKNOWN

    def _marks(self) -> Iterator[str]:
        """The files of runs that wait for this thread now; their names are in the order of their coming."""
        now = time.time()
        try:
            entries = [*os.scandir(self._folder)]
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.name.endswith((".wait", ".end")):
                continue
            try:
                age = now - entry.stat().st_mtime
            except FileNotFoundError:
                continue
            if entry.name.endswith(".wait") and age < STALE_SECONDS and entry.name.startswith(f"{self._name}."):
                yield entry.name
            elif age > _LEFT_BEHIND_SECONDS:  # by a process that has died
                _remove(Path(entry.path))

    def _touch(self) -> None:
        if self._mark is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            mark = self._folder / f"{self._name}.{time.time_ns():020d}.{self.holder.run}.wait"
            _write(mark, self.holder.to_dict())
            self._mark = mark
        else:
            try:
                os.utime(self._mark)
            except FileNotFoundError:  # this process slept for long
                _write(self._mark, self.holder.to_dict())

    def _unmark(self) -> None:
        if self._mark is not None:
            _remove(self._mark)
            self._mark = None

    def _ask(self, other: Holder, ask: Ask) -> None:
        path = self._folder / f"{self._name}.{other.run}.end"
        if not path.exists():
            with suppress(OSError):
                _write(path, {"how": ask.how, "by": ask.by})


_OPEN: set[FileThreadLock] = set()


def _forget_all() -> None:
    for lock in _OPEN:
        lock.forget()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _write(path: Path, values: dict[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, json.dumps(values).encode())
    finally:
        os.close(descriptor)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):  # gone, or not written to its end yet
        return None


def _remove(path: Path) -> None:
    with suppress(OSError):  # gone already, or (Windows) just being read
        path.unlink()


def _holder_in(descriptor: int) -> Holder | None:
    """Who has written into a lock file; it may be about to."""
    for _ in range(_TRIES):
        os.lseek(descriptor, 1, os.SEEK_SET)
        with suppress(ValueError):
            if (holder := Holder.read(json.loads(os.read(descriptor, 4096)))) is not None:
                return holder
        time.sleep(0.001)
    return None
