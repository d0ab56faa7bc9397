"""Scores as the papers count them."""

from __future__ import annotations

import pytest

from taograph.evals.scoring import exact_match, f1_score, normalize_answer, shop_score


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The Beatles", "beatles"),
        ("  a  man, an  owl;\tthe end ", "man owl end"),
        ("NOT ENOUGH INFO", "not enough info"),
        ("theatre", "theatre"),
        ("rock-n-roll", "rocknroll"),
        ("A.N. Other", "other"),
        ("“quoted”", "“quoted”"),
        ("", ""),
        ("the", ""),
    ],
)
def test_the_normalizer(text: str, plain: str) -> None:
    assert normalize_answer(text) == plain


def test_exact_match() -> None:
    assert exact_match("refutes.", "REFUTES")
    assert exact_match("The Eiffel Tower", "eiffel tower")
    assert not exact_match("SUPPORTS", "REFUTES")
    assert not exact_match("", "NOT ENOUGH INFO")


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [
        ("the red house", "red house", 1.0),
        ("red red house", "red house", 0.8),
        ("house", "red house", 2 / 3),
        ("blue", "red house", 0.0),
        ("", "red house", 0.0),
        ("yes", "yes", 1.0),
        ("yes it is", "yes", 0.0),
        ("no", "no way", 0.0),
    ],
)
def test_f1(answer: str, gold: str, score: float) -> None:
    assert f1_score(answer, gold) == pytest.approx(score)


@pytest.mark.parametrize(
    ("observation", "score"),
    [
        ("Your score (min 0.0, max 1.0): 1.0", 1.0),
        ("Your score (min 0.0, max 1.0): 0.6666666666666666", 2 / 3),
        ("Your score (min 0.0, max 1.0): 1", 1.0),
        ("", 0.0),
        ("Invalid action!", 0.0),
        ("A mug that says Your score (min 0.0, max 1.0): 1.0", 0.0),
    ],
)
def test_the_shops_score(observation: str, score: float) -> None:
    assert shop_score(observation) == score
