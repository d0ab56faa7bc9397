"""Running the real command in a process of its own, with pipes or in a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import forked_tao

COMMAND = [sys.executable, "-m", "taograph.cli"]
# A terminal sends Ctrl-C to the session that it belongs to.
_IN_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from taograph.cli import main
sys.exit(main())
"""
# Generous: the machine may be busy with other tests.
PATIENCE = 40.0
_OURS = ("OPENAI_", "AZURE_", "ANTHROPIC_", "TAOGRAPH_", "LANGSMITH_", "LANGCHAIN_")
_VIEW = ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES")


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing is configured and nothing is written outside of ``home``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS) and name not in _VIEW}
    own = {"TAOGRAPH_DATA": str(home / "data"), "TAOGRAPH_CACHE": str(home / "cache"), "TERM": "xterm-256color"}
    return {**kept, **own, **more}


def start(*args: str, home: Path, fresh: bool = False) -> subprocess.Popen[str] | forked_tao.Forked:
    """Start ``tao`` with pipes for its output and nothing to read.

    Args:
        args: The arguments of the command.
        home: Where it may write.
        fresh: An interpreter is started for it, which imports everything anew.
    """
    if not fresh:
        return forked_tao.start(*args, env=environment(home))
    return subprocess.Popen(
        [*COMMAND, *args],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


class Terminal:
    """``tao`` in a terminal of its own, 100 columns wide.

    Args:
        args: The arguments of the command.
        home: Where it may write.
        fresh: An interpreter is started for it, which imports everything anew.
    """

    def __init__(self, *args: str, home: Path, fresh: bool = False) -> None:
        self._fd, inside = pty.openpty()
        env = environment(home, COLUMNS="100", LINES="40")
        self._process: subprocess.Popen[bytes] | forked_tao.Forked
        if fresh:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _IN_TERMINAL, *args],
                env=env,
                stdin=inside,
                stdout=inside,
                stderr=inside,
                start_new_session=True,
            )
        else:
            self._process = forked_tao.Forked(list(args), env, (inside, inside, inside), terminal=True)
        os.close(inside)
        self.output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    @property
    def text(self) -> str:
        """What was printed, without control sequences."""
        return re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", self.output).replace("\r", "")

    def wait_for(self, text: str) -> None:
        """Wait until a text has been printed."""
        self._read_until(lambda: text in self.text, f"{text!r} was not printed")

    def type(self, keys: str) -> None:
        """Press keys; "\\x03" is Ctrl-C."""
        os.write(self._fd, keys.encode())

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; the exit status."""
        self._read_until(self._ended, "the command did not end")
        return self._process.wait()

    def _ended(self) -> bool:
        if self._process.poll() is None:
            return False
        self._read(0.2)
        return True

    def _read_until(self, done: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                raise AssertionError(f"{complaint}; so far:\n{self.text}")
            self._read(0.05)

    def _read(self, seconds: float) -> None:
        while select.select([self._fd], [], [], seconds)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the other side is gone
                time.sleep(0.02)
                return
            if not data:
                return
            self.output += data.decode("utf-8", "replace")
