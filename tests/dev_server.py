"""`langgraph dev` on a free loopback port, in a folder of its own, driven over HTTP as Studio does it.

Blocking calls on its event loop are errors (it runs without ``--allow-blocking``), nothing outside the machine is
asked for, and what it is configured with is only what the test says: no key or model of the person who runs the
tests reaches it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

ROOT = Path(__file__).parents[1]
START_SECONDS = 90.0

_QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "NO_COLOR": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_FOREIGN = re.compile(r"^(TAOGRAPH|OPENAI|AZURE_OPENAI|ANTHROPIC|LANGSMITH|LANGCHAIN|LANGGRAPH|COV)_|_PROXY$", re.I)


class DevServer:
    """The server; use it as a context manager.

    Args:
        folder: Where it runs and keeps its files; must be empty but for what the configuration names.
        config: What ``langgraph.json`` says; None: the folder has one.
        env: Environment variables, beside those of the machine.

    Attributes:
        url: Its address.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any] | None, env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._log = folder / "server.log"
        if config is not None:
            (folder / "langgraph.json").write_text(json.dumps(config), "utf-8")
        kept = {name: value for name, value in os.environ.items() if not _FOREIGN.search(name)}
        # A cache of its own: a local model that was pulled on this machine is not what the tests run on.
        self._env = {**kept, **_QUIET, "TAOGRAPH_CACHE": str(folder / "cache"), "TAOGRAPH_DATA": str(folder / "data")}
        self._env |= env or {}
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
        self._command += ["--port", str(port), "--n-jobs-per-worker", "10"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What it printed so far."""
        return self._log.read_text("utf-8", "replace")

    def __enter__(self) -> Self:
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._stop()
                raise RuntimeError(f"langgraph dev did not start:\n{self.log[-4000:]}")
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ok", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, sign)
            try:
                process.wait(10)
                break
            except subprocess.TimeoutExpired:
                continue


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port
