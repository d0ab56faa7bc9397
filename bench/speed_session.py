"""What the parts of the speed benchmark share: the processes that do the work, their environments, the endpoint."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parser_rivals import HERE, ROOT, Worker, environment

OURS = "taograph"
LANGCHAIN = ("create_agent", "create_react_agent")
PEERS = (OURS, *LANGCHAIN, "raw_openai_loop", "pydantic_ai", "openai_agents", "smolagents", "llama_index")
SHARED = ROOT.parent / "shared" / "bench"
_CALL_SECONDS = 60.0
_START_SECONDS = 20.0


@dataclass
class Session:
    """One run of the benchmark.

    Attributes:
        shared: The folder with the endpoint and the peers.
        venvs: Where the rivals' environments are kept; None: in the user's cache.
        quick: Fewer rounds and smaller sizes, to see that everything works.
        versions: Package → version, of the processes that were asked.
    """

    shared: Path = SHARED
    venvs: Path | None = None
    quick: bool = False
    versions: dict[str, str] = field(default_factory=dict)

    def python(self, name: str) -> Path:
        """The interpreter that has a framework."""
        if name == OURS:
            return Path(sys.executable)
        which = "llama_index" if name == "llama_index" else "rivals"
        pins = (HERE / f"speed_{which}.txt").read_text("utf-8").split()
        return environment(self.venvs, f"speed-{which}", *pins)

    def rounds(self, number: int) -> int:
        """How often something is measured."""
        return 1 if self.quick else number

    @contextmanager
    def workers(self, names: Sequence[str]) -> Iterator[dict[str, Asked]]:
        """A fresh process for each framework."""
        made = {name: Worker(name, self.python(name), _CALL_SECONDS, HERE / "speed_worker.py") for name in names}
        try:
            yield {name: Asked(worker) for name, worker in made.items()}
            for worker in made.values():
                self.versions |= worker.versions
        finally:
            for worker in made.values():
                worker.close()

    @contextmanager
    def endpoint(self, latency: float = 0.0) -> Iterator[Served]:
        """The shared endpoint, in a process of its own."""
        with served(self.file("fake_openai.py"), str(latency)) as server:
            yield server

    def file(self, name: str) -> Path:
        """A file of the shared folder."""
        path = self.shared / name
        if not path.is_file():
            raise SystemExit(
                f"there is no {name} in {self.shared}: say with --shared DIR where fake_openai.py and peer.py are"
            )
        return path


@dataclass
class Asked:
    """A worker whose failures end the benchmark."""

    worker: Worker

    def ask(self, work: str, **about: Any) -> dict[str, Any]:
        """What came of some work."""
        answer = self.worker.ask({"work": work, **about})
        if answer is None or answer.get("kind") == "crash":
            raise SystemExit(f"{self.worker.name}: {work} {about} did not end, or its process died")
        if "failed" in answer:
            raise SystemExit(f"{self.worker.name}: {work} {about} failed:\n{answer['failed']}")
        return answer


@dataclass
class Served:
    """An endpoint.

    Attributes:
        url: Its base URL.
        pid: Its process.
    """

    url: str
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU that it has used; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(script: Path, *options: str) -> Iterator[Served]:
    """A script that serves on the port it is given first."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    # In a session of its own, so that Ctrl-C does not end it in the middle of an answer.
    command = [sys.executable, str(script), str(port), *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        answers(process, port)
        yield Served(f"http://127.0.0.1:{port}/v1", process.pid)
    finally:
        process.terminate()
        process.wait()


def answers(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until somebody listens."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the endpoint {process.args!r} did not start") from None
            time.sleep(0.02)
        else:
            return


def in_turn(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The least figure of each, taken A B C A B C …, so that the noise of the machine meets all."""
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, measure in ways.items():
            value = measure()
            least[name] = min(value, least.get(name, value))
    return least


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table; the first column is text."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def goals(rows: Sequence[tuple[str, float, float]]) -> str:
    """A table of goals: what is wanted, the figure, and the most that it may be."""
    lines = [[text, f"{value:.3g}", f"{most:.3g}", met(value, most)] for text, value, most in rows]
    return table(["Goal", "measured", "at most", ""], lines)


def met(value: float, most: float) -> str:
    """Whether a goal is met, in a word."""
    return "met" if value <= most else "**missed**"


def milliseconds(value: float | None) -> str:
    """A figure for a table."""
    if value is None:
        return "–"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


@dataclass(frozen=True)
class Part:
    """Something that is measured.

    Attributes:
        name: Of its section on the page, and for ``--only``.
        measure: Figures, as they are kept in JSON.
        tables: What the page says of them.
    """

    name: str
    measure: Callable[[Session], dict[str, Any]]
    tables: Callable[[dict[str, Any]], str]
