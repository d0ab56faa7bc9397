"""A folder of files as a source of documents.

A file is read again only when its size or time of change differs and its content does too. One that can't be
read is kept in mind with the reason, so that it is named each time and tried again when that could help.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import time_ns

from taograph.tools.engines.document_index import IndexReport, IndexUnavailable, OnFile
from taograph.tools.engines.document_readers import MAX_FILE_BYTES, READERS, Unreadable, read_file
from taograph.tools.engines.document_store import Entry, Known, Stamp, Store
from taograph.tools.engines.passages import passages

_READING = "1:"
"""Begins every hash. Count up when files are read or cut differently, and every file is read again."""
_BATCH_FILES = 40
_BATCH_CHARS = 2_000_000
_CLOCK_NS = 2_000_000_000
"""The coarsest clock of a common file system: a file changed this recently may change again unseen."""


def database_name(root: Path) -> str:
    """The name of the index of a folder: readable, and different for each folder."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", root.name).strip("-")[:40] or "folder"
    return f"{readable}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}.sqlite"


@dataclass(slots=True)
class _Walk:
    """What a walk through the folder saw.

    Attributes:
        files: Each file that has a reader, by its name: where it is, its size and time of change.
        closed: Names of folders that could not be entered: nothing is known of what they hold.
        failed: Why something was not entered or followed.
    """

    files: dict[str, tuple[Path, int, int]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def may_hold(self, name: str) -> bool:
        """Whether a file may still be there, seen or not."""
        return name in self.files or any(name.startswith(f"{folder}/") for folder in self.closed)


@dataclass(frozen=True, slots=True)
class FolderSource:
    """The files below a folder that can be read; see :data:`taograph.tools.engines.document_readers.READERS`.

    Attributes:
        root: The folder, without links in its path.
    """

    root: Path

    def update(self, store: Store, on_file: OnFile | None = None, *, retry: bool = True) -> IndexReport:
        """Bring a store in line with the folder.

        Args:
            store: The index.
            on_file: Told of each file before it is read.
            retry: Whether to try once more what could not be read for want of a library or a permission.

        Raises:
            IndexUnavailable: The folder isn't there.
        """
        # What is known comes first: a file that another process indexes meanwhile is then never taken for gone.
        known = store.known()
        walk = _walk(self.root)
        failed = walk.failed
        stamps: dict[str, Stamp] = {}
        unread: list[str] = []
        unchanged = 0
        for name in walk.files:
            before = known.get(name)
            if before is None or (retry and before.passing) or not _same(walk.files[name], name, before, stamps):
                unread.append(name)
            elif before.problem:
                failed[name] = before.problem
            else:
                unchanged += 1
        gone = [name for name in known if not walk.may_hold(name)]
        if gone or stamps:
            store.write(stamps=stamps, gone=gone)
        added = updated = 0
        entries = (
            _read(walk.files[name], name, on_file and partial(on_file, name, number, len(unread)))
            for number, name in enumerate(unread, start=1)
        )
        for batch in _batches(entries):
            store.write(batch)
            for entry in batch:
                before = known.get(entry.name)
                if entry.problem:
                    failed[entry.name] = entry.problem
                elif before and not before.problem:
                    updated += 1
                else:
                    added += 1
        removed = sum(not known[name].problem for name in gone)
        return IndexReport(added, updated, removed, unchanged, tuple(sorted(failed.items())))


def _walk(root: Path) -> _Walk:
    if not root.is_dir():
        raise IndexUnavailable(f"the folder {root} isn't there: give one that exists")
    walk = _Walk()
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError as error:
            if folder == root:
                raise IndexUnavailable(f"the folder {root} can't be looked into: {error.strerror}") from error
            name = _name(root, folder)
            walk.closed.append(name)
            walk.failed[name] = "no permission to look into this folder"
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                # A link to a file within is found where that file is; one that leads out is never followed.
                if (path.suffix.lower() in READERS or path.is_dir()) and not _within(root, path):
                    walk.failed[_name(root, path)] = "a link that leads out of the folder: not followed"
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False) and path.suffix.lower() in READERS:
                with suppress(FileNotFoundError):  # it went away while we looked
                    status = entry.stat(follow_symlinks=False)
                    walk.files[_name(root, path)] = (path, status.st_size, status.st_mtime_ns)
    walk.files = dict(sorted(walk.files.items()))
    return walk


def _name(root: Path, path: Path) -> str:
    """The name of a document: its path below the folder, with characters that every database takes."""
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", errors="replace")


def _within(root: Path, link: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        return True


def _same(file: tuple[Path, int, int], name: str, before: Known, stamps: dict[str, Stamp]) -> bool:
    """Whether a file is as it was; notes a new stamp where only its times have changed."""
    path, size, modified = file
    stamp = before.stamp
    if not stamp.digest.startswith(_READING):
        return False
    if (size, modified) == (stamp.size, stamp.modified) and modified < stamp.checked - _CLOCK_NS:
        return True
    now = time_ns()
    if _digest(path, size) != stamp.digest:
        return False
    stamps[name] = Stamp(size, modified, now, stamp.digest)
    return True


def _digest(path: Path, size: int) -> str:
    """The hash of a file; empty for one that is too large or can't be opened, which has no text in the index."""
    if size > MAX_FILE_BYTES:
        return _READING
    try:
        with path.open("rb") as file:
            return _READING + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _READING


def _read(file: tuple[Path, int, int], name: str, before: Callable[[], None] | None) -> Entry:
    if before:
        before()
    path, size, modified = file
    # The time and the hash come before the reading: a change in between is then seen as one the next time.
    stamp = Stamp(size, modified, time_ns(), _digest(path, size))
    try:
        document = read_file(path)
    except Unreadable as error:
        return Entry(name, "", stamp, [], error.reason, error.passing)
    return Entry(name, document.title, stamp, passages(replace(document, keywords=name)))


def _batches(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    chars = 0
    for entry in entries:
        batch.append(entry)
        chars += sum(len(passage.text) for passage in entry.passages)
        if len(batch) >= _BATCH_FILES or chars >= _BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch
