"""What a process has used: seconds of CPU, or instructions where the processor counts them and the system lets us."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import time
from collections.abc import Callable

VARIABLE = "TAOGRAPH_METER"
INSTRUCTIONS = "instructions"
_CALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_ATTRIBUTES = "IIQQQQQIIQ"
_INHERIT_USER_ONLY = 1 << 1 | 1 << 5 | 1 << 6  # threads and children too; not the kernel, which is the machine's
_HARDWARE, _COUNT_INSTRUCTIONS = 0, 1


def counter(kind: int = _HARDWARE, what: int = _COUNT_INSTRUCTIONS) -> Callable[[], float]:
    """What reads a counter of Linux's perf events, of this process and of all that it starts from now on.

    Raises:
        OSError: There is none here: another system, a virtual machine without one, or not permitted.
    """
    if platform.system() != "Linux" or platform.machine() not in _CALLS:
        raise OSError(errno.ENOSYS, "no perf events on this system")
    size = struct.calcsize(_ATTRIBUTES)
    about = ctypes.create_string_buffer(
        struct.pack(_ATTRIBUTES, kind, size, what, 0, 0, 0, _INHERIT_USER_ONLY, 0, 0, 0)
    )
    library = ctypes.CDLL(None, use_errno=True)
    file = library.syscall(_CALLS[platform.machine()], about, 0, -1, -1, 0)
    if file < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"perf events: {os.strerror(number)}")
    return lambda: float(struct.unpack("Q", os.read(file, 8))[0])


def chosen() -> Callable[[], float]:
    """What :data:`VARIABLE` asks for: seconds of CPU, unless it says instructions (then in billions)."""
    if os.environ.get(VARIABLE) != INSTRUCTIONS:
        return time.process_time
    count = counter()
    return lambda: count() / 1e9


used = chosen()
