"""A process's hold on the shared server of a local model: find it or start it, and keep it alive.

The hold is an open connection to the server's lease port. A server that has died, been killed or left is
noticed by it, and the next call starts another.
"""

from __future__ import annotations

import atexit
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taograph.models.local_spec import ALREADY_RUNNING, Record, ServerSpec

_START_SECONDS = 180.0
_HANDSHAKE_SECONDS = 5.0
_TELL_SECONDS = 10.0
_ERRORS_TOLD = 3
_ENGINE_ERROR = re.compile(r"[\d.]+ E (.+)")
_KEPT_SECONDS = 30 * 86400.0


class LocalServerError(RuntimeError):
    """Raised when the server of a local model cannot be started.

    Attributes:
        log: The server's log file, which the message names, with what it says of the cause.
    """

    def __init__(self, why: str, log: Path | None = None) -> None:
        """Say it."""
        self.log = log
        told = f" ({_cause(log)}). The whole log: {log}" if log else ""
        super().__init__(f"the local model's server did not start: {why}{told}")


class Lease:
    """Use of the one server of a spec by this process. Thread-safe; the server starts with the first use."""

    def __init__(self, spec: ServerSpec, start_seconds: float = _START_SECONDS) -> None:
        """Remember what to hold.

        Args:
            spec: The server.
            start_seconds: How long a start may take.
        """
        self.spec = spec
        self._start_seconds = start_seconds
        self._mutex = threading.Lock()
        self._connection: socket.socket | None = None
        self._record: Record | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        self.prefix = b""
        """What every request begins with, as the body that renders it. The server keeps it for the next one."""
        self._told = b""

    def record(self) -> Record:
        """The running server; found or started when it is not held, or has gone. Blocks meanwhile.

        Raises:
            LocalServerError: It cannot be started.
        """
        with self._mutex:
            if self._record is None or not self._held():
                self._drop()
                self._record = self._attach() or self._start()
            self._tell()
            return self._record

    def drop(self) -> None:
        """Let the server go. The next use takes hold of it, or of another, again."""
        with self._mutex:
            self._drop()

    def leave(self) -> None:
        """Let the server go for good, at the end of this process."""
        self.drop()
        for process in self._started:
            process.returncode = 0  # it outlives its starter on purpose: no warning about that

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._record = None
        self._told = b""
        # A server of ours that has ended should not stay a zombie.
        self._started = [process for process in self._started if process.poll() is None]

    def _tell(self) -> None:
        """Tell the prefix, and wait till the server has loaded what it kept of it."""
        if self._connection is None or self.prefix == self._told:
            return
        with suppress(OSError):  # it is for speed alone; a dead connection shows at the next use
            self._connection.settimeout(_TELL_SECONDS)
            self._connection.sendall(self.prefix + b"\n")
            self._told = self.prefix
            self._connection.recv(3)
        self._connection.setblocking(False)

    def _held(self) -> bool:
        """Whether the server still has the other end of our connection."""
        if self._connection is None:
            return False
        try:
            return self._connection.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _attach(self) -> Record | None:
        """Take hold of the server that the record names, where it lives."""
        record = Record.read(self.spec.file("json"))
        if record is None:
            return None
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(("127.0.0.1", record.lease), _HANDSHAKE_SECONDS)
            connection.sendall(f"{record.key}\n".encode())
            if connection.recv(3) != b"ok\n":
                raise ConnectionError("another program answers there")
        except OSError:
            if connection is not None:
                connection.close()
            return None
        connection.setblocking(False)
        self._connection = connection
        return record

    def _start(self) -> Record:
        from filelock import FileLock, Timeout

        _need_engine(self.spec)
        folder = self.spec.run_dir
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        deadline = time.monotonic() + self._start_seconds
        try:
            # Whoever comes second waits here and then finds the first one's server.
            with FileLock(self.spec.file("lock"), timeout=self._start_seconds):
                return self._attach() or self._launch(deadline)
        except Timeout:
            raise LocalServerError(f"another process has been starting it for {self._start_seconds:.0f} s") from None

    def _launch(self, deadline: float) -> Record:
        record, log = self.spec.file("json"), self.spec.file("log")
        record.unlink(missing_ok=True)  # what a killed server left
        _sweep(self.spec.run_dir)
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [*self.spec.command, self.spec.to_json()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.spec.run_dir,  # holds no modules that could stand before the real ones
                **_apart(),
            )
        self._started.append(process)
        while time.monotonic() < deadline:
            if found := self._attach():
                return found
            status = process.poll()
            # One that found another server at its place leaves; that other is about to write its record.
            if status is not None and status != ALREADY_RUNNING:
                if found := self._attach():
                    return found
                raise LocalServerError(_ended(status), log)
            time.sleep(0.05)
        process.kill()
        process.wait()
        raise LocalServerError(f"it was not ready after {self._start_seconds:.0f} s", log)


_leases: dict[str, Lease] = {}
_leases_mutex = threading.Lock()


def lease_for(spec: ServerSpec) -> Lease:
    """This process's one lease on the server of a spec."""
    with _leases_mutex:
        return _leases.setdefault(f"{spec.run_dir}/{spec.digest}", Lease(spec))


@atexit.register
def _leave() -> None:
    for lease in _leases.values():
        lease.leave()


def _apart() -> dict[str, Any]:
    """A session of its own: Ctrl-C in the terminal of one user of the server is not meant for it."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _sweep(folder: Path) -> None:
    """Delete what servers of earlier versions and models left behind."""
    oldest = time.time() - _KEPT_SECONDS
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest and path.suffix in (".slot", ".log"):
                path.unlink()


def _need_engine(spec: ServerSpec) -> None:
    if "taograph.models.local_server" in spec.command and find_spec("xllamacpp") is None:
        raise LocalServerError("its engine is not installed: pip install 'taograph[local]'")


def _ended(status: int) -> str:
    if status < 0:
        with suppress(ValueError):
            return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process ended with status {status}"


def _cause(log: Path) -> str:
    """The first errors of the engine, else the last line: of a traceback, the exception."""
    try:
        lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    errors = dict.fromkeys(found[1] for line in lines if (found := _ENGINE_ERROR.match(line)))
    return "; ".join(list(errors)[:_ERRORS_TOLD] or lines[-1:]) or "the log is empty"
