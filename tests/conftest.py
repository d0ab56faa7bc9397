"""Where the tests keep their files: in memory, if this machine has room there.

SQLite waits for the disk after each step that it keeps; that wait is most of what many tests do. Nothing that is
tested depends on it: a process that is killed leaves the same bytes in either place.
"""

from __future__ import annotations

import os
import shutil
import sys

import pytest

_MEMORY = "/dev/shm"
_ROOM = 2 * 1024**3


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
