"""The parsers that are measured: their environments, asking one with a time-out, and when it has met a case."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

HERE = Path(__file__).parent
ROOT = HERE.parent
CASE_FILES = {
    "shared": ROOT.parent / "shared" / "cases" / "parser_cases.json",
    "own": ROOT / "tests" / "graphs" / "parser_cases.json",
}
OURS = {"lenient": "taograph, lenient", "strict": "taograph, strict"}
RIVALS = {
    "LangChain ReAct": "langchain-classic==1.0.8",
    "LangChain ReAct JSON": "langchain-classic==1.0.8",
    "LangChain structured chat": "langchain-classic==1.0.8",
    "LangChain JSON": "langchain-classic==1.0.8",
    "LlamaIndex ReAct": "llama-index-core==0.14.25",
    "crewAI": "crewai==1.15.30",
}
_START_SECONDS = 600.0
_CLOCK = 12 if hasattr(signal, "SIGXCPU") else 1
_OUT_OF_TIME = -signal.SIGXCPU if hasattr(signal, "SIGXCPU") else None
"""How a process ends that has used up its CPU time."""


def environments(folder: Path | None) -> dict[str, Path]:
    """The Python of every rival's environment, made where it is missing; one environment for each pinned package."""
    return {name: environment(folder, pin.replace("==", "-"), pin) for name, pin in RIVALS.items()}


def environment(folder: Path | None, name: str, *pins: str) -> Path:
    """The Python of an environment that has these packages; it is made where it is missing or has others.

    Args:
        folder: Where environments are kept; by default in the user's cache.
        name: What it is called there.
        pins: The packages, with their versions.
    """
    home = (folder or user_cache_path("taograph") / "bench") / f"{name}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done, wanted = home / "installed", "\n".join(pins)
    if not done.exists() or done.read_text("utf-8") != wanted:
        print(f"making an environment with {', '.join(pins)} …", file=sys.stderr, flush=True)
        install(home, python, *pins)
        done.write_text(wanted, "utf-8")
    return python


def install(home: Path, python: Path, *pins: str) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *pins], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *pins], check=True)


@dataclass
class Worker:
    """What is measured, in a process of its own. A question that takes too long ends it; the next one starts another.

    Attributes:
        name: Of :data:`parser_worker.PARSERS`, or what another script knows.
        python: The interpreter that has it.
        timeout: CPU seconds that one call may take; by the clock, several times that.
        script: What the process runs: it says its versions, and answers a line of JSON with another.
        environment: Variables that it has beside ours.
        versions: What is measured, package by package; known once a question was asked.
    """

    name: str
    python: Path
    timeout: float
    script: Path = HERE / "parser_worker.py"
    environment: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[str] | None = None
    _lines: queue.Queue[str] = field(default_factory=queue.Queue)

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where there was none in time. A process that died is ``{"kind": "crash"}``."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**request, "timeout": self.timeout}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.close()
            return {"kind": "crash"}
        return self._answer(self.timeout * _CLOCK)

    def _answer(self, timeout: float) -> dict[str, Any] | None:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self.close()
            return None
        if not line:
            return None if self.close() == _OUT_OF_TIME else {"kind": "crash"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        self._lines = queue.Queue()
        process = subprocess.Popen(
            [str(self.python), "-W", "ignore", str(self.script), self.name],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._process = process
        threading.Thread(target=_pump, args=(process, self._lines), daemon=True).start()
        ready = self._answer(_START_SECONDS)
        if not ready or "versions" not in ready:
            raise SystemExit(f"{self.name} could not be loaded by {self.python}")
        self.versions = ready["versions"]
        return process

    def close(self) -> int | None:
        """Ends the process, if there is one, and says with which status it ended; it may have ended before."""
        if self._process is None:
            return None
        # A process whose output or input has ended is about to; only one that still works is killed.
        with contextlib.suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            status = self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._process = None
        return status


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def read_cases(which: str) -> list[dict[str, Any]]:
    """The cases of a file; none, with the reason printed, where it is not there."""
    path = CASE_FILES[which]
    if not path.exists():
        print(f"{which} cases left out: there is no {path.name} in {path.parent.name}/", file=sys.stderr)
        return []
    cases: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def passed_by_ours(workers: dict[str, Worker], cases: list[dict[str, Any]]) -> list[str]:
    """The ids that we meet: every field that is asserted, in every mode that the case is for."""
    met = []
    for case in cases:
        modes = ("lenient", "strict") if case["mode"] == "any" else (case["mode"],)
        wanted = case["expected"] or {}
        if all(_exact(workers[mode].ask(_question(case)), wanted) for mode in modes):
            met.append(case["id"])
    return met


def passed_by_rival(worker: Worker, cases: list[dict[str, Any]]) -> list[str]:
    """The ids that a rival meets, by the rules that ``docs/benchmarks.md`` states."""
    answers = {case["input"]: worker.ask(_question(case)) for case in cases}
    met_inputs = {
        (case["input"], case["mode"]) for case in cases if _fair(answers[case["input"]], case["expected"] or {})
    }
    either = {text for text, mode in met_inputs if mode != "any"}
    return [
        case["id"]
        for case in cases
        if (case["input"], case["mode"]) in met_inputs or (case["mode"] != "any" and case["input"] in either)
    ]


def _question(case: dict[str, Any]) -> dict[str, Any]:
    return {"text": case["input"], "tools": case.get("tools", [])}


def _exact(answer: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    if answer is None:
        return False
    answer = answer | {"code": answer.get("error")}
    return all(_json(answer.get(name)) == _json(value) for name, value in wanted.items() if value is not None)


def _fair(answer: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Kind, and tool and arguments or the answer; thought and error code are not asked of a rival."""
    if answer is None or answer["kind"] != wanted.get("kind"):
        return False
    if answer["kind"] == "action":
        tool_right = wanted["tool"] is None or answer["tool"] == wanted["tool"]
        return tool_right and (wanted["args"] is None or _same_args(answer["args"], wanted["args"]))
    if answer["kind"] == "final" and wanted["answer"] is not None:
        return bool(str(answer["answer"]).strip() == wanted["answer"])
    return True


def _same_args(got: Any, wanted: Any) -> bool:
    if isinstance(got, str):
        if isinstance(wanted, str):
            return got.strip() == wanted
        if wanted == {} and not got.strip():
            return True
        try:
            got = json.loads(got, strict=False)
        except (ValueError, RecursionError):
            return False
    return _json(got) == _json(wanted)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
