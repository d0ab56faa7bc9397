"""Replays the published runs of ReAct through the whole graph, and prints what they score.

    python bench/paper_replays.py                     FEVER and WebShop, both readings
    python bench/paper_replays.py --only FEVER
    python bench/paper_replays.py --episodes 20       the first twenty of each

500 recorded episodes each, with GPT-3 (text-davinci-002): the model's replies and the observations are the recorded
ones, the rest is the graph's. A model call or an action that is not in the record ends the replay with an error.
"published" is what was published with the record, "strict_original" reads replies exactly as the published code does,
"tolerant" as the dialect does otherwise. Exit status 1 where strict_original does not give every episode the score it
was published with.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from taograph.evals.records import FEVER_FILE, WEBSHOP_FILE, Episode, load_fever, load_webshop
from taograph.evals.replays import Replay, replay_fever, replay_webshop
from taograph.models.replay import NotRecordedError

EPISODES = 500
DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Record:
    """A published record, how it is loaded and replayed, and what was published of it."""

    name: str
    file: str
    load: Callable[[Path], list[Episode]]
    replay: Callable[..., Replay]
    published: str


RECORDS = (
    Record("FEVER", FEVER_FILE, load_fever, replay_fever, "54.0 % (270/500)"),
    Record("WebShop", WEBSHOP_FILE, load_webshop, replay_webshop, "score .638, success rate .358"),
)


def figure(data: str, scores: Sequence[float]) -> str:
    """What episodes score, written as it was published."""
    mean, solved = sum(scores) / len(scores), sum(score == 1 for score in scores)
    if data == "FEVER":
        return f"{100 * mean:.1f} % ({solved}/{len(scores)})"
    score, rate = (f"{value:.3f}".removeprefix("0") for value in (mean, solved / len(scores)))
    return f"score {score}, success rate {rate}"


def progress(label: str) -> Callable[[int, int], None]:
    """Tells how far a replay is, on a terminal only."""

    def told(done: int, of: int) -> None:
        if sys.stderr.isatty() and (done % 10 == 0 or done == of):
            print(f"\r{label}: {done}/{of}", end="\n" if done == of else "", file=sys.stderr, flush=True)

    return told


def main() -> int:
    """Replay, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[record.name for record in RECORDS], help="one of the records")
    parser.add_argument("--episodes", type=int, metavar="N", help="the first N episodes of each")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help=f"where the records lie; {DATA}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write every outcome")
    options = parser.parse_args()
    if options.episodes is not None and options.episodes < 1:
        parser.error("--episodes: give 1 or more")

    chosen = [record for record in RECORDS if options.only in (None, record.name)]
    missing = [record.file for record in chosen if not (options.data / record.file).is_file()]
    if missing:
        print(
            f"{options.data} has no {' and no '.join(missing)}. The records are not part of this project: put them "
            "into the folder shared/data beside it, or name their folder with --data.",
            file=sys.stderr,
        )
        return 2

    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    rows, written, right = [], [], True
    for record in chosen:
        episodes = record.load(options.data / record.file)[: options.episodes]
        whole = len(episodes) == EPISODES
        wanted = record.published if whole else figure(record.name, [episode.score for episode in episodes])
        figures = []
        for strict in (True, False):
            name = "strict_original" if strict else "tolerant"
            began, cpu = time.perf_counter(), time.process_time()
            try:
                replay = record.replay(episodes, strict_original=strict, told=progress(f"{record.name}, {name}"))
            except NotRecordedError as error:
                print(f"{record.name}, {name}: {error}", file=sys.stderr)
                return 1
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            steps = sum(one.model_calls for one in replay.outcomes)
            scored = figure(record.name, [one.score for one in replay.outcomes])
            figures.append(f"{scored} | {seconds:.1f} s, {1000 * cpu / steps:.1f} ms of CPU a step")
            written.append(outcomes(replay))
            if strict:
                right = right and scored == wanted
                right = right and all(o.score == e.score for o, e in zip(replay.outcomes, episodes, strict=True))
        rows.append(f"| {record.name} | {len(episodes)} | {wanted} | {' | '.join(figures)} |")
    print("| data | episodes | published | strict_original | took | tolerant | took |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    if options.json:
        options.json.write_text(json.dumps(written, indent=1) + "\n", "utf-8")
    if not right:
        print("strict_original does not reproduce what was published", file=sys.stderr)
    return 0 if right else 1


def outcomes(replay: Replay) -> dict[str, Any]:
    """A replay as plain values, without the texts of the data."""
    kept = ("index", "score", "stop", "model_calls")
    return {
        "data": replay.data,
        "strict_original": replay.strict_original,
        "score": replay.score,
        "success_rate": replay.success_rate,
        "outcomes": [{key: asdict(one)[key] for key in kept} for one in replay.outcomes],
    }


if __name__ == "__main__":
    sys.exit(main())
