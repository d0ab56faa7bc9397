"""The folders of a user that taograph keeps things in."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """For what can be made or fetched again: ``TAOGRAPH_CACHE``, or the user's cache."""
    if named := os.environ.get("TAOGRAPH_CACHE", "").strip():
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("taograph", appauthor=False)


def data_folder() -> Path:
    """For what is the user's own: ``TAOGRAPH_DATA``, or where the system keeps such things."""
    if named := os.environ.get("TAOGRAPH_DATA", "").strip():
        return Path(named).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("taograph", appauthor=False)
