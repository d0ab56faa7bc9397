"""A process that records is killed at any moment: what is paid for is on the record, and the chain holds."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from taograph.trace import open_store
from taograph.trace.verifying import verify

KILLS = {"sqlite": 8, "jsonl": 6, "postgresql": 6}
"""20 in all; many times as many as a test that is ``slow``."""


@pytest.fixture(scope="module")
def worker() -> Iterator[subprocess.Popen[str]]:
    pytest.importorskip("psycopg", reason="needs taograph[postgres]")
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("recording_worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.communicate(timeout=60)


def run(worker: subprocess.Popen[str], kill_after: float | None, **job: str) -> int:
    """Record a run; returns how its process ended."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(json.dumps(job), file=worker.stdin, flush=True)
    child = int(worker.stdout.readline())
    said = json.loads(worker.stdout.readline())
    if said == "begins" and kill_after is not None:
        time.sleep(kill_after)
        with contextlib.suppress(ProcessLookupError):  # it had ended
            os.kill(child, signal.SIGKILL)
    if said == "begins":
        said = json.loads(worker.stdout.readline())
    code: int = said["ended"]
    return code


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_killed_at_any_moment(worker: subprocess.Popen[str], url: str, tmp_path: Path, times: int) -> None:
    kind = url.partition(":")[0]
    chance = random.Random(f"{kind} {times}")
    longest = 0.0
    for name in ("cold", "warm"):
        began = time.monotonic()
        assert run(worker, None, url=url, log=f"{tmp_path}/{name}.log", way="sync") == 0
        longest = 0.8 * (time.monotonic() - began)
    store = open_store(url)
    seen = {kept.trace for kept in store.traces()}
    store.close()
    ends, lost = Counter[str](), Counter[int]()
    for number in range(KILLS[kind] * times):
        log = tmp_path / f"{number}.log"
        way = ("sync", "async")[number % 2]
        code = run(worker, chance.uniform(0.0, longest), url=url, log=str(log), way=way)
        assert code in (0, -signal.SIGKILL)
        store = open_store(url)
        report = verify(store)
        assert report.ok, report.faults
        new = [kept for kept in store.traces() if kept.trace not in seen]
        seen |= {kept.trace for kept in new}
        stored = [entry.type for kept in new for entry in store.entries(kept.trace)]
        store.close()
        lines = log.read_text().splitlines()
        told = [line.removeprefix("told ") for line in lines if line.startswith("told ")]
        assert stored == told[: len(stored)] or told == stored[: len(told)], "in their order, with nothing left out"
        begun = [line for line in lines if line in ("model_asked", "action")]
        for what, times in Counter(begun).items():
            assert stored.count(what) >= times, f"{what}: {lines}"
        missing = max(0, len(told) - len(stored))
        assert way == "async" or missing <= 2, "at most the event in flight of each of two calls side by side"
        lost[missing] += 1
        ends["whole" if "whole" in lines else "killed"] += 1
        if "whole" in lines:
            assert stored[-1] == "run_ended"
    assert ends["killed"] > 0, ends
    print(kind, dict(ends), "events told and not stored:", dict(lost))
