"""A run whose processes are killed at random moments, a hundred times in all. Takes some minutes:

    pytest tests/crash/test_random_kills.py -m slow -s --timeout 1800

``TAOGRAPH_KILLS`` sets another number, ``TAOGRAPH_SEED`` the seed that a failure printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from killing import Story, Worker
from postgres_server import PostgresServer

KILLS = int(os.environ.get("TAOGRAPH_KILLS", "100"))
SEED = int(os.environ.get("TAOGRAPH_SEED", str(random.randrange(10**6))))
PAUSE = 0.02

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_killed_at_random_moments(
    worker: Worker, server: PostgresServer, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    databases = {"sqlite": f"sqlite:///{tmp_path}/runs.db", "postgres": server.url()}
    jobs = [
        {"url": url, "way": way, "pause": PAUSE, "name": f"{kind} {way}"}
        for kind, url in databases.items()
        for way in ("sync", "async")
    ]
    long = {job["name"]: _seconds(worker, job, tmp_path) for job in jobs}
    kills, questions, runs, places = Counter[str](), 0, 0, Counter[str]()
    while sum(kills.values()) < KILLS:
        job = min(jobs, key=lambda job: kills[job["name"]])
        runs += 1
        story = Story(worker, _thread(job, f"random-{SEED}-{runs}"), tmp_path / f"log-{runs}")
        result: dict[str, Any] | None = None
        try:
            result = story.go(kill_after=chance.uniform(0, long[job["name"]]))
            while (result is None or result["asked"]) and chance.random() < 0.7:
                more = {"resume": story.answers(result)} if result else {}
                result = story.go(kill_after=chance.uniform(0, long[job["name"]] / 2), **more)
            story.check(story.end(), undisturbed)
        except BaseException:
            print(f"\nTAOGRAPH_SEED={SEED}, run {runs} on {job['name']}, killed {story.kills} times; it did:")
            print("\n".join(story.lines))
            raise
        kills[job["name"]] += story.kills
        questions += len(story.asked)
        places.update(_kind(line) for line in story.cut)
    print(
        f"\nseed {SEED}: {sum(kills.values())} kills in {runs} runs ({dict(kills)}), {questions} questions to a person"
    )
    print(f"what was done last before a kill: {dict(places.most_common())}")
    print("0 effects of `once` tools repeated, 0 finished calls run again, 0 runs lost, all answers as undisturbed")


def _seconds(worker: Worker, job: dict[str, Any], folder: Path) -> float:
    """How long the run takes that nobody kills."""
    story = Story(worker, _thread(job, f"long-{SEED}"), folder / f"log-{job['name']}")
    began = time.monotonic()
    story.end()
    return time.monotonic() - began


def _thread(job: dict[str, Any], thread: str) -> dict[str, Any]:
    return {"url": job["url"], "way": job["way"], "pause": job["pause"], "thread": f"{thread}-{job['name']}"}


def _kind(line: str) -> str:
    who, _, what = line.partition(" ")
    return f"{who.partition('-')[0]} {what}" if not what.startswith("EFFECT") else f"{who.partition('-')[0]} EFFECT"
