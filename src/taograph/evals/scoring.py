"""Scores as the papers count them."""

from __future__ import annotations

import re
from collections import Counter

from taograph.graphs.parts.answers import normalize_answer

__all__ = ["exact_match", "f1_score", "normalize_answer", "shop_score"]

_WHOLE = ("yes", "no", "noanswer")
_SHOP_SCORE = re.compile(r"Your score \(min 0\.0, max 1\.0\): (\d*\.?\d+)")


def exact_match(answer: str, gold: str) -> bool:
    """Whether an answer is the gold answer once both are normalized; FEVER's labels are compared like this, too."""
    return normalize_answer(answer) == normalize_answer(gold)


def f1_score(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall over the words; "yes", "no" and "noanswer" match whole or not."""
    said, wanted = normalize_answer(answer), normalize_answer(gold)
    if said != wanted and (said in _WHOLE or wanted in _WHOLE):
        return 0.0
    words, right = said.split(), wanted.split()
    common = (Counter(words) & Counter(right)).total()
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(right)
    return 2 * precision * recall / (precision + recall)


def shop_score(observation: str) -> float:
    """The score that WebShop gives a purchase, from 0 to 1; 0 where there was none."""
    found = _SHOP_SCORE.match(observation)
    return float(found[1]) if found else 0.0
