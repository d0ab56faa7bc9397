"""What a local server is started with, and the record by which processes find the one that runs."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

ChatTemplate = Literal["bare_json", "plain", "own", "auto"]
# Part of every server's identity: raised when client and server would no longer understand each other.
_PROTOCOL = 3
# A server that finds another one holding its place leaves with this status.
ALREADY_RUNNING = 3


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A model file and how it is served. Equal specs share one server.

    Attributes:
        model: The GGUF file.
        run_dir: The folder of records, locks and logs.
        context: Tokens of the context window.
        threads: Threads that compute.
        template: ``"bare_json"``: taograph's own chat template; ``"plain"``: its template for base models;
            ``"own"``: the file's; ``"auto"``: the file's where it knows tools, else ``"bare_json"``.
        linger: Seconds the server stays when the last process that used it has gone.
        command: What starts the server process; the spec as JSON is added as the last argument.
    """

    model: Path
    run_dir: Path
    context: int = 8192
    threads: int = 1
    template: ChatTemplate = "auto"
    linger: float = 2.0
    command: tuple[str, ...] = (sys.executable, "-m", "taograph.models.local_server")

    @property
    def digest(self) -> str:
        """Names this server's files. Another file, engine, template or setting is another server."""
        found = self.model.stat()
        parts = [_PROTOCOL, str(self.model), found.st_size, found.st_mtime_ns, self.context, self.threads]
        parts += [self.template, template_text(self.template), _engine_version()]
        return sha256(json.dumps(parts).encode()).hexdigest()[:24]

    def file(self, kind: str) -> Path:
        """The path of one of this server's files: ``"json"`` its record, ``"log"``, and two locks."""
        return self.run_dir / f"{self.digest}.{kind}"

    def to_json(self) -> str:
        """For the command line of the server process."""
        return json.dumps({**asdict(self), "model": str(self.model), "run_dir": str(self.run_dir)})

    @classmethod
    def from_json(cls, text: str) -> ServerSpec:
        """The reverse of :meth:`to_json`."""
        given: dict[str, Any] = json.loads(text)
        given["command"] = tuple(given["command"])
        return cls(**{**given, "model": Path(given["model"]), "run_dir": Path(given["run_dir"])})


@dataclass(frozen=True, slots=True)
class Record:
    """A running server, as its record file says it. Only the user may read the file: it holds the key.

    Attributes:
        pid: The server process.
        url: Where it answers, ``http://127.0.0.1:port``.
        lease: The port on which a process says that it uses the server.
        key: What both ask for.
        template: The chat template in use, ``"bare_json"``, ``"plain"`` or ``"own"``.
    """

    pid: int
    url: str
    lease: int
    key: str
    template: str

    def write(self, path: Path) -> None:
        """Put the record in its place, whole or not at all."""
        scratch = path.with_suffix(f".{self.pid}.tmp")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)
        os.replace(scratch, path)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """The record at a path; None where there is none that can be read."""
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def template_text(template: str) -> str:
    """One of taograph's chat templates: calls are bare JSON objects, asked for and shown alike."""
    if template == "own":
        return ""
    name = "plain.jinja" if template == "plain" else "bare_json.jinja"
    return files("taograph.models").joinpath(name).read_text("utf-8")


def default_threads() -> int:
    """``TAOGRAPH_LOCAL_THREADS``, or half the cores this process may use, at least 1 and at most 8.

    On a machine of one or two cores, or where other work runs, a second thread waits for the first and the
    model gets slower, not faster.
    """
    if named := os.environ.get("TAOGRAPH_LOCAL_THREADS", "").strip():
        if not named.isdecimal() or int(named) < 1:
            raise ValueError(f"TAOGRAPH_LOCAL_THREADS={named!r}: give a whole number of threads from 1")
        return int(named)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores // 2))


def _engine_version() -> str:
    try:
        return version("xllamacpp")
    except PackageNotFoundError:
        return "none"
