"""Where the command keeps a user's threads."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder of the user's own data: ``TAOGRAPH_DATA``, or where the system keeps such things."""
    if named := os.environ.get("TAOGRAPH_DATA", "").strip():
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("taograph", appauthor=False)


def threads_file() -> Path:
    """The database of the threads of ``tao run --thread``; its folder is made, for this user alone."""
    folder = data_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / "threads.sqlite"
