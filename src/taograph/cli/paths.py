"""Where the command keeps a user's threads."""

from __future__ import annotations

from pathlib import Path

from taograph.folders import data_folder


def threads_file() -> Path:
    """The database of the threads of ``tao run --thread``; its folder is made, for this user alone."""
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / "threads.sqlite"
