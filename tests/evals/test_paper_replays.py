"""The published runs of ReAct, all 500 episodes of each, through the whole graph: the published figures exactly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from taograph.evals.records import FEVER_FILE, WEBSHOP_FILE, Episode, load_fever, load_webshop
from taograph.evals.replays import Replay, replay_fever, replay_webshop

DATA = Path(__file__).parents[3] / "shared" / "data"


def record(name: str) -> Path:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the record {name} is not in ../shared/data, which is not part of this project")
    return path


@pytest.fixture(scope="module")
def claims() -> list[Episode]:
    return load_fever(record(FEVER_FILE))


@pytest.fixture(scope="module")
def purchases() -> list[Episode]:
    return load_webshop(record(WEBSHOP_FILE))


def scores(replay: Replay) -> dict[int, float]:
    return {one.index: one.score for one in replay.outcomes}


def test_the_record_of_claims_is_whole(claims: list[Episode]) -> None:
    assert (len(claims), sum(episode.score for episode in claims)) == (500, 270)
    steps = [(episode.index, step) for episode in claims for step in episode.steps]
    assert len(steps) == 1250
    blanks = Counter(index for index, step in steps if step.action.startswith(" "))
    assert blanks == {3522: 5, 565: 1}
    assert [index for index, step in steps if step.first_reply is not None] == [2817, 3991, 6626]


def test_claims_as_published(claims: list[Episode]) -> None:
    replay = replay_fever(claims, strict_original=True)
    assert (replay.solved, len(replay.outcomes), replay.score) == (270, 500, 0.54)
    assert scores(replay) == {episode.index: episode.score for episode in claims}
    assert [one.answer for one in replay.outcomes] == [episode.answer for episode in claims]
    assert [one.model_calls for one in replay.outcomes] == [len(episode.steps) for episode in claims]
    assert Counter(one.stop for one in replay.outcomes) == {"final": 491, "step_limit": 9}


def test_claims_read_tolerantly(claims: list[Episode]) -> None:
    """One claim more: five times an extra blank had made its answer an unknown action."""
    replay = replay_fever(claims, strict_original=False)
    assert (replay.solved, replay.score) == (271, 0.542)
    published = {episode.index: episode.score for episode in claims}
    assert {index for index, score in scores(replay).items() if score != published[index]} == {3522}


def test_purchases_as_published(purchases: list[Episode]) -> None:
    replay = replay_webshop(purchases, strict_original=True)
    assert (round(replay.score, 3), replay.success_rate) == (0.638, 0.358)
    assert scores(replay) == {episode.index: episode.score for episode in purchases}
    assert [one.model_calls for one in replay.outcomes] == [len(episode.steps) for episode in purchases]
    assert Counter(one.stop for one in replay.outcomes) == {"final": 465, "step_limit": 35}


@pytest.mark.slow
def test_purchases_read_tolerantly(purchases: list[Episode]) -> None:
    replay = replay_webshop(purchases, strict_original=False)
    assert scores(replay) == {episode.index: episode.score for episode in purchases}
