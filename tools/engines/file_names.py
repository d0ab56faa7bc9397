"""Which paths the file tools take, and which names a pattern means."""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from taograph.tools.engines.visible import JOINERS, seen, visible
from taograph.tools.policy import ToolError

MAX_PATH_CHARS = 1000
MAX_DEPTH = 30

# Windows opens devices under these names, whatever stands behind the dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_FROM_HERE = "Write the path from the folder on, such as notes/today.md"


class FileError(ToolError):
    """A file that can't be had; the text says what to change."""


def split_path(path: str, *, hidden: bool) -> tuple[str, ...]:
    """The names a path is made of; none for the folder itself.

    Args:
        path: As a model wrote it, with ``/`` between names.
        hidden: Whether names that begin with a dot are open.

    Raises:
        FileError: It could lead out of the folder, or is hard to see for what it is.
    """
    text = path.strip()
    if len(text) > MAX_PATH_CHARS:
        raise FileError(f"The path has {len(text):,} characters. Write one of {MAX_PATH_CHARS} at most.")
    if "\\" in text:
        raise FileError(f"The path {visible(text)!r} has a backslash. Write / between names.")
    if text.startswith(("/", "~")) or (os.name == "nt" and ":" in text):
        raise FileError(f"{visible(text)!r} is no path within the folder. {_FROM_HERE}.")
    names = tuple(name for name in text.split("/") if name not in ("", "."))
    if ".." in names:
        raise FileError(f"{visible(text)!r} leads up with .. out of a folder. {_FROM_HERE}.")
    if len(names) > MAX_DEPTH:
        raise FileError(f"The path leads through {len(names)} folders; {MAX_DEPTH} at most are taken.")
    for name in names:
        _check_name(name)
        if not hidden and is_hidden(name):
            raise FileError(f"{visible(name)!r} is hidden: names that begin with a dot are closed to this tool.")
    return names


def is_hidden(name: str) -> bool:
    """Whether a name begins with a dot, as some file systems see it: they skip joiners."""
    return name.lstrip(JOINERS).startswith(".")


def can_be_asked(name: str) -> bool:
    """Whether a name that was found in a folder can be a part of a path."""
    try:
        return split_path(name, hidden=True) == (name,)
    except FileError:
        return False


def _check_name(name: str) -> None:
    if not all(map(_plain, name)):
        raise FileError(f"The name {visible(name)!r} has a sign in it that can't be seen. Write it without.")
    if name != name.strip() or name.endswith("."):
        raise FileError(f"The name {name!r} begins or ends with a space, or ends with a dot. Write it without.")
    if os.name == "nt" and _DEVICES.fullmatch(name):
        raise FileError(f"{name!r} is the name of a device. Choose another one.")


def _plain(char: str) -> bool:
    return seen(char) and (char == " " or unicodedata.category(char) != "Zs")


class Pattern:
    """Which paths are meant: ``*``, ``?`` and ``[…]`` within a name, ``**`` for any number of folders.

    The paths are not matched as a whole but name by name on the way down, so that no folder is entered in vain:
    a state is the set of places in the pattern that a path so far may have come to.
    """

    def __init__(self, names: Sequence[str]) -> None:
        if names[-1] == "**":
            names = [*names, "*"]  # all that is in a folder, not the folder too
        self._names = [
            name for name, after in zip(names, [*names[1:], ""], strict=True) if (name, after) != ("**", "**")
        ]
        self.start = self._reached({0})

    def after(self, state: frozenset[int], name: str) -> frozenset[int]:
        """The state after one more name of a path; empty where nothing below it can be meant."""
        reached: set[int] = set()
        for place in state:
            if place == len(self._names):
                continue
            if self._names[place] == "**":
                reached.add(place)
            elif _regex(self._names[place]).match(name):
                reached.add(place + 1)
        return self._reached(reached)

    def fits(self, state: frozenset[int]) -> bool:
        """Whether the path is meant itself."""
        return len(self._names) in state

    def _reached(self, places: set[int]) -> frozenset[int]:
        """These places, and those behind each ``**`` that may stand for no folder at all."""
        reached = set(places)
        for place in sorted(places):
            while place < len(self._names) and self._names[place] == "**":
                place += 1  # noqa: PLW2901 - walks on from here
                reached.add(place)
        return frozenset(reached)


@lru_cache(maxsize=256)
def _regex(name: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(name))
