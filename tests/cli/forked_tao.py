"""Starts the command as a fork of a process that has its imports behind it: the same command, a second sooner.

The start of a process of its own (``cli_support.COMMAND``) is left to the tests that are about it, and to one test
of each kind of end.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO


class Forked:
    """A command that runs; the part of ``subprocess.Popen`` that the tests use.

    Args:
        args: The arguments of the command.
        env: Its environment.
        files: Its input, output and errors; they stay open here.
        terminal: Its input is a terminal, which is to be the one of its session.
    """

    def __init__(self, args: list[str], env: dict[str, str], files: tuple[int, int, int], terminal: bool) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        read, write = os.pipe()
        self._told = os.fdopen(read, "rb", buffering=0)
        asked = json.dumps({"args": args, "env": env, "cwd": os.getcwd(), "terminal": terminal}).encode()
        line = _line()
        socket.send_fds(line, [len(asked).to_bytes(8, "big")], [*files, write])
        line.sendall(asked)
        os.close(write)
        self.pid = int(self._told.readline())

    def poll(self) -> int | None:
        """The exit status, None where it has not ended."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit status."""
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Read all that it prints, and wait for the end."""
        until = time.monotonic() + timeout
        read: list[str] = ["", ""]

        def take(number: int, file: IO[str]) -> None:
            with file:
                read[number] = file.read()

        assert self.stdout is not None
        assert self.stderr is not None
        readers = [
            threading.Thread(target=take, args=one, daemon=True) for one in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(until - time.monotonic())
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout)
        self.wait(max(0.0, until - time.monotonic()))
        return read[0], read[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, where it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, where it has not ended."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode


def start(*args: str, env: dict[str, str]) -> Forked:
    """Start it with pipes for its output and nothing to read."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        made = Forked(list(args), env, (nothing, to_out, to_err), terminal=False)
    finally:
        for file in (nothing, to_out, to_err):
            os.close(file)
    made.stdout, made.stderr = open(out, encoding="utf-8"), open(err, encoding="utf-8")  # noqa: SIM115
    return made


@cache
def _line() -> socket.socket:
    """A socket to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking_tao.py")), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(60)

    atexit.register(end)
    return ours
