"""Changing several files as one: all of it is there afterwards, or nothing."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger("taograph.trace")

PENDING = "pending.json"
_BLOCK = 65536


@dataclass(slots=True)
class Change:
    """What is to be done with files of a folder.

    Attributes:
        appended: Lines that come behind what is there, by name.
        replaced: Names of files that another takes the place of, with its name.
        removed: Names of files that go.
    """

    appended: dict[str, list[str]] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def append(self, name: str, line: str) -> None:
        """Put a line behind what is there."""
        self.appended.setdefault(name, []).append(line)

    def replace(self, folder: Path, name: str, lines: Iterable[str]) -> None:
        """Put other lines in the place of all that is there. They are written at once, beside it."""
        beside = f".{name}.new"
        self.replaced[name] = beside
        try:
            with _open(folder / beside) as file:
                file.truncate()
                for line in lines:
                    file.write(f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            (folder / beside).unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        self.removed.append(name)


def apply(folder: Path, change: Change) -> None:
    """Make a change; what can't be made whole is undone.

    Raises:
        OSError: It could not be made.
    """
    sizes = {name: _size(folder / name) for name in change.appended}
    # A line in one file needs no plan: it is there whole, or it is no line.
    plan = folder / PENDING if len(sizes) > 1 or change.replaced or change.removed else None
    try:
        if plan is not None:
            texts = {
                name: [sizes[name], "".join(f"{line}\n" for line in lines)] for name, lines in change.appended.items()
            }
            told = {"append": texts, "replace": change.replaced, "remove": change.removed}
            beside = plan.with_suffix(".new")
            with _open(beside) as file:
                file.truncate()
                file.write(json.dumps(told).encode())
            beside.replace(plan)
        for name, lines in change.appended.items():
            _put(folder / name, sizes[name], "".join(f"{line}\n" for line in lines))
    except BaseException:
        with suppress(OSError):
            for name, size in sizes.items():
                if (folder / name).exists():
                    os.truncate(folder / name, size)
            for name in (*change.replaced.values(), PENDING, f"{Path(PENDING).stem}.new"):
                (folder / name).unlink(missing_ok=True)
        raise
    _swap(folder, change.replaced, change.removed)
    if plan is not None:
        plan.unlink()


def finish(folder: Path) -> None:
    """Finish the change that a process did not live to finish."""
    plan = folder / PENDING
    try:
        told = json.loads(plan.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:  # the machine stopped before it was on the disk: nothing was begun
        plan.unlink()
        return
    for name, (size, text) in told["append"].items():
        _put(folder / name, size, text)
    _swap(folder, told["replace"], told["remove"])
    plan.unlink()


def _swap(folder: Path, replaced: dict[str, str], removed: list[str]) -> None:
    for name, beside in replaced.items():
        with suppress(FileNotFoundError):  # done before
            (folder / beside).replace(folder / name)
    for name in removed:
        (folder / name).unlink(missing_ok=True)


def _put(path: Path, size: int, text: str) -> None:
    with _open(path) as file:
        file.truncate(size)
        file.seek(size)
        file.write(text.encode())


def _open(path: Path) -> BinaryIO:
    """A file to be read and written, made for its owner only."""
    return os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+b")


def lines_of(path: Path, limit: int | None) -> Iterator[bytes]:
    """The lines of a file that have an end.

    Args:
        path: The file; one that is not there has none.
        limit: How far it is read, in bytes; None for to its end.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        left = float("inf") if limit is None else limit
        for line in file:
            left -= len(line)
            if left < 0 or not line.endswith(b"\n"):
                return
            yield line[:-1]


def read_ends(path: Path, limit: int | None) -> tuple[bytes | None, bytes | None]:
    """The first and the last line of a file; None, None for one that has no line.

    Args:
        path: The file.
        limit: As :func:`lines_of` takes it.
    """
    first = next(lines_of(path, limit), None)
    if first is None:
        return None, None
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END) if limit is None else limit
        held = b""
        while end > 0 and held.count(b"\n") < 2 + (not held.endswith(b"\n")):
            begin = max(0, end - _BLOCK)
            file.seek(begin)
            held, end = file.read(end - begin) + held, begin
    *lines, _ = held.split(b"\n")  # what is behind the last end of a line is none
    return first, lines[-1]


def set_aside(path: Path) -> None:
    """Put a line that has no end aside, in a file beside it, and say so."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return
    with file:
        end = file.seek(0, os.SEEK_END)
        begin, torn = end, b""
        while begin > 0 and b"\n" not in torn:
            begin = max(0, begin - _BLOCK)
            file.seek(begin)
            torn = file.read(end - begin)
        torn = torn.rpartition(b"\n")[2]
        if not torn:
            return
        with _open(path.with_name(f"{path.name}.torn")) as aside:
            aside.seek(0, os.SEEK_END)
            aside.write(torn + b"\n")
        file.truncate(end - len(torn))
    log.warning("a line of %s was cut off as it was written; it is set aside in %s.torn", path, path.name)


def identity(path: Path) -> tuple[int, int] | None:
    """What a file or a folder is, whatever it is called; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
