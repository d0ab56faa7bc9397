"""A folder that is entered one name at a time, so that no name leads out of it.

:class:`_ByDescriptor` holds an open folder and reaches what is in it relative to that, without following a link
at any step. What somebody does to the names meanwhile does not matter: a folder that is held stays the folder
that it was. Where the system can't do so (Windows), :class:`_ByPath` compares, before and after each step, where
a path really leads. Who can change the folder between the two may still deceive it: there, give only folders
that nobody else can write to.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from taograph.tools.engines.file_names import FileError

BY_DESCRIPTOR = (
    {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.link} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
)
_CLOSED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED | _NO_LINK
READ = os.O_RDONLY | _CLOSED | _NO_LINK | _NO_WAIT
"""For reading what should be a file: opening a pipe does not wait for its other end."""
CHANGE = os.O_WRONLY | _CLOSED | _NO_LINK | _NO_WAIT
"""For writing a file that is there."""
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOSED | _NO_LINK
"""For writing a file that isn't there yet."""

MOST_ENTRIES = 20_000
_NO_HARD_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)


class Folder(Protocol):
    """A folder that was entered. Every name is one of its own entries, and links are never followed."""

    def status(self, name: str) -> os.stat_result:
        """What an entry is; a link itself, not what it leads to."""

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """The entries with what they are, :data:`MOST_ENTRIES` at most."""

    def open(self, name: str, flags: int) -> int:
        """Open a file: :data:`READ`, :data:`CHANGE` or :data:`MAKE`."""

    def make_folder(self, name: str) -> None:
        """Make a folder in it."""

    def remove(self, name: str) -> None:
        """Remove a file."""

    def replace(self, name: str, target: str) -> None:
        """Give a file another name; what had that is gone."""

    def place(self, name: str, target: str) -> bool:
        """Give a file another name that nothing has yet; False where the file system can't do so at one stroke.

        Raises:
            FileExistsError: Something has the name.
        """

    def enter(self, name: str) -> Folder:
        """Enter a folder in it.

        Raises:
            OSError: It is none.
        """

    def close(self) -> None:
        """Leave it."""


@contextmanager
def entered(root: Path, names: tuple[str, ...] = (), *, make: bool = False) -> Iterator[Folder]:
    """The folder that some names lead to from the root.

    Args:
        root: The folder to stay within; with no link in its path.
        names: From there on.
        make: Whether to make folders that are not there.

    Raises:
        FileError: One of the names is no folder, or a link.
        OSError: The system refuses.
    """
    folder: Folder = _ByDescriptor.of(root) if BY_DESCRIPTOR else _ByPath(root)
    try:
        for number, name in enumerate(names):
            folder = _stepped(folder, name, "/".join(names[: number + 1]), make=make)
        yield folder
    finally:
        folder.close()


def _stepped(folder: Folder, name: str, shown: str, *, make: bool) -> Folder:
    """The folder within, with this one closed."""
    if make:
        with suppress(FileExistsError):
            folder.make_folder(name)
    try:
        inner = folder.enter(name)
    except FileNotFoundError:
        raise FileError(f"There is no folder {shown!r}. list_files shows what there is.") from None
    except OSError:
        with suppress(OSError):
            mode = folder.status(name).st_mode
            if stat.S_ISLNK(mode):
                raise FileError(
                    f"{shown!r} is a link. Links are not followed: name what you look for itself."
                ) from None
            if not stat.S_ISDIR(mode):
                raise FileError(f"{shown!r} is no folder.") from None
        raise
    folder.close()
    return inner


class _ByDescriptor:
    def __init__(self, descriptor: int) -> None:
        self._at = descriptor

    @classmethod
    def of(cls, root: Path) -> _ByDescriptor:
        return cls(os.open(root, _FOLDER))

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._at, follow_symlinks=False)

    def entries(self) -> list[tuple[str, os.stat_result]]:
        return _listed(self._at)

    def open(self, name: str, flags: int) -> int:
        return os.open(name, flags, 0o666, dir_fd=self._at)

    def make_folder(self, name: str) -> None:
        os.mkdir(name, dir_fd=self._at)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._at)

    def replace(self, name: str, target: str) -> None:
        os.rename(name, target, src_dir_fd=self._at, dst_dir_fd=self._at)

    def place(self, name: str, target: str) -> bool:
        try:
            os.link(name, target, src_dir_fd=self._at, dst_dir_fd=self._at, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise
        self.remove(name)
        return True

    def enter(self, name: str) -> Folder:
        return _ByDescriptor(os.open(name, _FOLDER, dir_fd=self._at))

    def close(self) -> None:
        os.close(self._at)


class _ByPath:
    """What there is without descriptors of folders; see the module for how far it holds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._check(path)

    def status(self, name: str) -> os.stat_result:
        return os.lstat(self._path / name)

    def entries(self) -> list[tuple[str, os.stat_result]]:
        self._check(self._path)
        return _listed(self._path)

    def open(self, name: str, flags: int) -> int:
        self._check(self._path)
        path = self._path / name
        if not flags & os.O_CREAT:
            self._check(path)
        descriptor = os.open(path, flags, 0o666)
        try:
            self._check(path)
            if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                raise FileError(f"{name!r} was changed while it was opened. Try again.")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def make_folder(self, name: str) -> None:
        self._check(self._path)
        os.mkdir(self._path / name)

    def remove(self, name: str) -> None:
        self._check(self._path)
        os.unlink(self._path / name)

    def replace(self, name: str, target: str) -> None:
        self._check(self._path)
        os.replace(self._path / name, self._path / target)

    def place(self, name: str, target: str) -> bool:
        self._check(self._path)
        if os.name == "nt":  # there a rename never replaces anything
            os.rename(self._path / name, self._path / target)
            return True
        try:
            os.link(self._path / name, self._path / target, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise
        self.remove(name)
        return True

    def enter(self, name: str) -> Folder:
        self._check(self._path)
        path = self._path / name
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return _ByPath(path)

    def close(self) -> None:
        pass

    def _check(self, path: Path) -> None:
        """Refuse a path that leads elsewhere than it says: by a link, a junction, or another name of the same."""
        real = os.path.realpath(path, strict=True)
        if os.path.normcase(real) != os.path.normcase(path):
            raise FileError(f"{path.name!r} is a link. Links are not followed: name what you look for itself.")


def _listed(where: int | Path) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(where) as entries:
        for entry in entries:
            if len(found) == MOST_ENTRIES:
                break
            with suppress(FileNotFoundError):  # gone since
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda each: each[0])
