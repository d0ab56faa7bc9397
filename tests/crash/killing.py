"""Starts runs in processes that are killed, and answers for the person who is asked about what was left open."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

SECONDS = 60.0


class Killed(Exception):  # noqa: N818 - what became of the process
    """The process was killed where it was told to stop, or after some time."""


class Worker:
    """The process that forks one for each job."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        )
        self._said: Queue[dict[str, Any]] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._next() == {"ready": True}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self._said.put(json.loads(line))
        self._said.put({"ended": None})

    def _next(self, seconds: float = SECONDS) -> dict[str, Any]:
        return self._said.get(timeout=seconds)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        self._process.stdout.close()

    def run(self, *, kill_after: float | None = None, **job: Any) -> dict[str, Any]:
        """Do a job in a process of its own.

        Args:
            kill_after: Kill it so many seconds after the graph was started.
            **job: See ``worker.Job``.

        Raises:
            Killed: It was killed, there or at ``stop``.
        """
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        child = self._next()["pid"]
        result: dict[str, Any] | None = None
        until: float | None = None
        end = time.monotonic() + SECONDS
        while True:
            left = (end if until is None else until) - time.monotonic()
            try:
                said = self._next(max(left, 0.0))
            except Empty:
                os.kill(child, signal.SIGKILL)
                assert until is not None, f"nothing came within {SECONDS} s: {job}"
                until, end = None, time.monotonic() + SECONDS
                continue
            if "at" in said:
                os.kill(child, signal.SIGKILL)
            elif "started" in said and kill_after is not None:
                until = time.monotonic() + kill_after
            elif "result" in said:
                result, until = said["result"], None
            elif "error" in said:
                raise AssertionError(said["error"])
            elif "ended" in said:
                break
        if result is not None:
            return result
        assert said["ended"] == -signal.SIGKILL, said
        raise Killed


@dataclass
class Story:
    """A thread whose processes die, until its run has ended.

    Attributes:
        worker: Starts them.
        job: What they have in common.
        log: What they did, line by line.
        kills: How many were killed.
        asked: The questions that a person was asked.
        cut: What was done last before each kill.
    """

    worker: Worker
    job: dict[str, Any]
    log: Path
    kills: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)

    def go(self, *, kill_after: float | None = None, **more: Any) -> dict[str, Any] | None:
        """Run, or go on; None where the process was killed."""
        try:
            return self.worker.run(kill_after=kill_after, log=str(self.log), **self.job, **more)
        except Killed:
            self.kills += 1
            self.cut.append(self.lines[-1] if self.lines else "nothing")
            return None

    def end(self) -> dict[str, Any]:
        """Go on until the run has ended, a person answering truthfully."""
        result = self.go()
        for _ in range(10):
            assert result is not None
            if not result["asked"]:
                return result
            result = self.go(resume=self.answers(result))
        raise AssertionError(f"the run did not end: {result}")

    def answers(self, result: dict[str, Any]) -> dict[str, Any]:
        """What a person says who looked at what was done."""
        given: dict[str, Any] = {}
        for asked in result["asked"]:
            self.asked.append(asked)
            assert asked["type"] == "unfinished_call", asked
            assert asked["tool"] == "pay", asked
            took_effect = any(line.startswith(f"{asked['call']} EFFECT") for line in self.lines)
            done = {"decision": "done", "result": f"receipt {asked['call']}"}
            given[asked["id"]] = done if took_effect else "repeat"
        return given

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def count(self, line: str) -> int:
        return sum(known == line or known.startswith(f"{line} ") for known in self.lines)

    def check(self, result: dict[str, Any], undisturbed: dict[str, Any]) -> None:
        """What holds whatever was killed."""
        assert result["answer"] == undisturbed["answer"]
        assert result["stop"] == undisturbed["stop"]
        assert result["sound"]
        words = [[m[0], m[1].rpartition(":] ")[2], *m[2:]] for m in result["messages"]]  # as a person put it, or not
        assert words == undisturbed["messages"]
        effects = Counter(line.partition(" EFFECT")[0] for line in self.lines if " EFFECT" in line)
        repeated = {call: times for call, times in effects.items() if call.startswith("pay") and times > 1}
        assert not repeated, f"repeated without a person's word: {repeated}"
        assert set(effects) == {"pay-1", "pay-2", "pay-3", "post-n", "post-m", "look-a", "look-b"}
        for name in ("post-n", "post-m"):
            assert len({line for line in self.lines if line.startswith(f"{name} EFFECT")}) == 1, "another key"
        assert not self.again(), "finished, and run again"

    def twice(self) -> set[str]:
        """What was done more than once: requests to the model, calls that a tool was run for, their effects."""
        things = [line.partition("EFFECT")[0] + "EFFECT" if "EFFECT" in line else line for line in self.lines]
        things = [line for line in things if line.endswith((" asked", " inside", " EFFECT"))]
        return {line for line, times in Counter(things).items() if times > 1}

    def again(self) -> list[str]:
        """What was done after it had been written down as finished."""
        kept: set[str] = set()
        found = []
        for line in self.lines:
            who, _, what = (
                line.rpartition(" ") if "EFFECT" not in line else (line.partition(" EFFECT")[0], "", "EFFECT")
            )
            if what in ("EFFECT", "inside", "asked") and who in kept:
                found.append(line)
            if what in ("kept", "stored"):
                kept.add(who)
        return found


@contextlib.contextmanager
def started() -> Iterator[Worker]:
    worker = Worker()
    try:
        yield worker
    finally:
        worker.close()
