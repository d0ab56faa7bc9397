"""Reading, listing and writing the files of one folder, and never of another."""

from __future__ import annotations

import difflib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from taograph.tools.engines.file_folder import CHANGE, MAKE, MOST_ENTRIES, READ, Folder, entered
from taograph.tools.engines.file_names import MAX_DEPTH, FileError, Pattern, is_hidden, split_path

Mode = Literal["create", "overwrite", "append"]

_MOST_SECONDS = 8.0
_TEMPORARY = ".taograph-"

_locks: dict[Path, threading.Lock] = {}


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of a file.

    Attributes:
        data: Its bytes, from the beginning on.
        size: How many bytes the file has.
    """

    data: bytes
    size: int

    @property
    def cut(self) -> bool:
        """Whether there is more in the file."""
        return self.size > len(self.data)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the folder.

    Attributes:
        path: From the folder on.
        kind: What it is.
        size: Bytes, of a file.
        changed: When it was changed last, in seconds since 1970.
    """

    path: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    changed: float


@dataclass(frozen=True, slots=True)
class Listing:
    """What a pattern means.

    Attributes:
        entries: In order, as many as were asked for.
        total: How many there are.
        whole: Whether all of the folder was looked through.
        closed: Folders that could not be looked into.
        of_folder: Whether it is all that is in a folder that was named.
    """

    entries: list[Entry]
    total: int
    whole: bool
    closed: list[str]
    of_folder: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a file.

    Attributes:
        path: From the folder on.
        did: What was done.
        size: Bytes it has now.
        before: Bytes it had; None if it is new.
    """

    path: str
    did: Literal["created", "replaced", "appended"]
    size: int
    before: int | None


@dataclass(frozen=True, slots=True)
class FileStore:
    """The files of one folder.

    Attributes:
        root: The folder, with no link in its path.
        hidden: Whether names that begin with a dot are open.
    """

    root: Path
    hidden: bool

    def read(self, path: str, most: int) -> Content:
        """Read a file.

        Args:
            path: From the folder on.
            most: Bytes to read at most.

        Raises:
            FileError: It can't be read.
        """
        names = self._names(path)
        with _told(path), entered(self.root, names[:-1]) as folder:
            status = _status(folder, names[-1])
            if status is None:
                raise FileError(f"There is no file {path!r}. {_near(folder, names, self.hidden)}")
            _check_file(status, path)
            return _read(folder, names[-1], path, most)

    def list(self, pattern: str, most: int) -> Listing:
        """What a pattern means: files, folders and links.

        Args:
            pattern: From the folder on; a folder without a pattern means what is in it.
            most: How many to tell at most.

        Raises:
            FileError: The pattern can't be one of this folder.
        """
        names = split_path(pattern or "*", hidden=self.hidden)
        of_folder = not names or names == ("*",) or self._is_folder(names)
        if names != ("*",) and (of_folder or pattern.strip().endswith("/")):
            names = (*names, "*")
        walk = _Walk(Pattern(names), self.hidden, most)
        with _told(pattern), entered(self.root) as folder:
            walk.through(folder, (), walk.pattern.start)
        return Listing(walk.entries, walk.total, not walk.stopped, walk.closed, of_folder)

    def write(self, path: str, content: bytes, mode: Mode, most: int) -> Written:
        """Write a file at one stroke: whoever reads it meanwhile sees it as it was, or as it is then.

        Args:
            path: From the folder on; folders in it are made.
            content: What to write.
            mode: Whether it may be there already, and what becomes of what is in it.
            most: Bytes it may have then.

        Raises:
            FileError: It can't be written, and nothing was changed.
        """
        names = self._names(path)
        with _told(path), self._lock(), entered(self.root, names[:-1], make=True) as folder:
            name = names[-1]
            before = _status(folder, name)
            if before is not None:
                if mode == "create":
                    raise FileError(
                        f'The file {path!r} exists. Choose another name, or use mode="overwrite" or mode="append".'
                    )
                _check_file(before, path)
                # What takes its place is a new file, for which rights over the folder would do. Its own count too.
                os.close(folder.open(name, CHANGE))
            old = b""
            if mode == "append" and before is not None:
                held = _read(folder, name, path, most)
                _check_text(held, path)
                old = held.data
            if len(old) + len(content) > most:
                raise FileError(f"The file {path!r} would have more than {most:,} bytes. Write to another one.")
            _put(folder, name, old + content, before, path)
            did: Literal["created", "replaced", "appended"] = (
                "created" if before is None else "replaced" if mode == "overwrite" else "appended"
            )
            return Written(path, did, len(old) + len(content), before.st_size if before else None)

    def _names(self, path: str) -> tuple[str, ...]:
        names = split_path(path, hidden=self.hidden)
        if not names:
            raise FileError("The path is empty. Name a file; list_files shows what there is.")
        return names

    def _is_folder(self, names: tuple[str, ...]) -> bool:
        if any(char in name for name in names for char in "*?["):
            return False
        with suppress(FileError, OSError), entered(self.root, names):
            return True
        return False

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One writer at a time within this process: calls of one turn run side by side."""
        with _locks.setdefault(self.root, threading.Lock()):
            yield


class _Walk:
    def __init__(self, pattern: Pattern, hidden: bool, most: int) -> None:
        self.pattern = pattern
        self.entries: list[Entry] = []
        self.total = 0
        self.closed: list[str] = []
        self.stopped = False
        self._hidden = hidden
        self._most = most
        self._left = MOST_ENTRIES
        self._until = time.monotonic() + _MOST_SECONDS

    def through(self, folder: Folder, names: tuple[str, ...], state: frozenset[int]) -> None:
        for name, status in folder.entries():
            self._left -= 1
            if self._left <= 0 or time.monotonic() > self._until:
                self.stopped = True
                return
            after = self.pattern.after(state, name)
            if not after or (is_hidden(name) and not self._hidden) or name.startswith(_TEMPORARY):
                continue
            if self.pattern.fits(after):
                self.total += 1
                if len(self.entries) < self._most:
                    self.entries.append(_entry((*names, name), status))
            if stat.S_ISDIR(status.st_mode) and len(names) < MAX_DEPTH:
                self._into(folder, (*names, name), after)
            if self.stopped:
                return

    def _into(self, folder: Folder, names: tuple[str, ...], state: frozenset[int]) -> None:
        try:
            inner = folder.enter(names[-1])
        except FileNotFoundError:
            return
        except (OSError, FileError):
            self.closed.append("/".join(names))
            return
        try:
            self.through(inner, names, state)
        finally:
            inner.close()


def _entry(names: tuple[str, ...], status: os.stat_result) -> Entry:
    mode = status.st_mode
    kind: Literal["file", "folder", "link", "other"] = "other"
    if stat.S_ISREG(mode):
        kind = "file"
    elif stat.S_ISDIR(mode):
        kind = "folder"
    elif stat.S_ISLNK(mode):
        kind = "link"
    return Entry("/".join(names), kind, status.st_size, status.st_mtime)


def _status(folder: Folder, name: str) -> os.stat_result | None:
    try:
        return folder.status(name)
    except FileNotFoundError:
        return None


def _check_file(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise FileError(f"{path!r} is a link. Links are not followed: name what you look for itself.")
    if stat.S_ISDIR(status.st_mode):
        raise FileError(f'{path!r} is a folder. list_files(pattern="{path.rstrip("/")}/*") shows what is in it.')
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path!r} is a device or a pipe, not a file. Name a file.")


def _read(folder: Folder, name: str, path: str, most: int) -> Content:
    descriptor = folder.open(name, READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _check_file(status, path)  # it may be another one than the one looked at before
        data = file.read(most)
        return Content(data, max(status.st_size, len(data)))


def _put(folder: Folder, name: str, data: bytes, before: os.stat_result | None, path: str) -> None:
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}.tmp"
    _write(folder, temporary, data, before)
    try:
        if before is None:
            try:
                if not folder.place(temporary, name):  # then it is at least never written over something
                    _write(folder, name, data, None)
                    folder.remove(temporary)
            except FileExistsError:
                raise FileError(f"The file {path!r} was made by somebody else just now. Read it first.") from None
            return
        now = _status(folder, name)
        if now is None or (now.st_ino, now.st_size, now.st_mtime_ns) != (
            before.st_ino,
            before.st_size,
            before.st_mtime_ns,
        ):
            raise FileError(f"The file {path!r} was changed by somebody else just now. Read it again first.")
        folder.replace(temporary, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(temporary)
        raise


def _write(folder: Folder, name: str, data: bytes, like: os.stat_result | None) -> None:
    descriptor = folder.open(name, MAKE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None and hasattr(os, "fchmod"):
                with suppress(OSError):  # only the owner's to keep; the rights follow all the same
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
            os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            folder.remove(name)
        raise


def _check_text(content: Content, path: str) -> None:
    try:
        content.data.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(f"The file {path!r} is no UTF-8 text, so nothing can be appended to it.") from None


def _near(folder: Folder, names: tuple[str, ...], hidden: bool) -> str:
    there = [name for name, _ in folder.entries() if hidden or not is_hidden(name)]
    lower = {name.casefold(): name for name in there}
    near = [lower[name] for name in difflib.get_close_matches(names[-1].casefold(), lower, n=3)]
    if not near:
        return "list_files shows what there is."
    return f"Near to it: {', '.join('/'.join((*names[:-1], name)) for name in near)}."


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of the system in words for the model, without where the folder lies."""
    known = {
        errno.EACCES: "there is no permission for it",
        errno.EPERM: "there is no permission for it",
        errno.EROFS: "the folder can only be read",
        errno.ENOSPC: "the disk is full",
        getattr(errno, "EDQUOT", errno.ENOSPC): "the disk is full",
        errno.ENAMETOOLONG: "a name in it is too long",
        errno.ELOOP: "a part of it is a link, and links are not followed",
        errno.ENOTDIR: "a part of it is no folder",
        errno.ENOENT: "it, or the folder itself, is gone",
    }
    try:
        yield
    except OSError as error:
        why = known.get(error.errno or 0) or error.strerror or type(error).__name__
        raise FileError(f"{path or 'The folder'!r} can't be used: {why}.") from error
