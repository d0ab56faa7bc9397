"""Scores as the papers count them.

The normalizer is that of SQuAD (Rajpurkar et al., arXiv 1606.05250), which HotpotQA, FEVER as ReAct ran it, and
most that followed use.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WHOLE = ("yes", "no", "noanswer")
_SHOP_SCORE = re.compile(r"Your score \(min 0\.0, max 1\.0\): (\d*\.?\d+)")


def normalize_answer(text: str) -> str:
    """An answer in lower case, without ASCII punctuation, articles and extra blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


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
