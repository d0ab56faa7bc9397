"""What makes all tests quick: their files are in memory, if there is room, and properties are tried on fewer examples.

SQLite waits for the disk after each step that it keeps; that wait is most of what many tests do. Nothing that is
tested depends on it: a process that is killed leaves the same bytes in either place.

``pytest -m slow`` tries each property on all the examples that are given with it.
"""

from __future__ import annotations

import os
import shutil
import sys
from types import FunctionType

import pytest

_MEMORY = "/dev/shm"
_ROOM = 2 * 1024**3
_SHARE, _LEAST = 3, 60


def pytest_configure(config: pytest.Config) -> None:
    """Have temporary folders made in memory, unless the user says where (``--basetemp``, ``TMPDIR``)."""
    if config.option.basetemp is None and "TMPDIR" not in os.environ and _has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


def _has_room() -> bool:
    if sys.platform != "linux" or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return False
    if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:  # tests start programs that they write
        return False
    return shutil.disk_usage(_MEMORY).free > _ROOM


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cut the examples of properties to a third; all of them are for those who ask for what is slow."""
    chosen = str(config.option.markexpr).replace("not slow", "")
    cut: set[FunctionType] = set()
    for item in items:
        test = getattr(item, "obj", None)
        given = getattr(test, "_hypothesis_internal_use_settings", None)
        if given is None or not isinstance(test, FunctionType):
            continue
        if "slow" in chosen:
            item.add_marker("slow")
        elif test not in cut and given.max_examples > _LEAST:
            from hypothesis import settings

            cut.add(test)
            fewer = max(_LEAST, given.max_examples // _SHARE)
            test._hypothesis_internal_use_settings = settings(given, max_examples=fewer)  # type: ignore[attr-defined]
