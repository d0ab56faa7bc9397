"""When two answers are the same: the normalizer of the papers, and one under which numbers are equal by their value.

Also the answer that a text comes to where it has no label: as the examples of the papers end ("The answer is 8.") and
as models that were trained on mathematics do (``\\boxed{8}``).

The normalizer is that of SQuAD (Rajpurkar et al., arXiv 1606.05250), which HotpotQA, FEVER as ReAct ran it, and
most that followed use.
"""

from __future__ import annotations

import re
import string
from collections import deque

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# A number that stands alone: not part of a word, a version or a date; a minus is one only where nothing is before it.
_NUMBER = re.compile(
    r"(?<![\w.,])(?P<minus>(?<!\S)[-\u2212])?(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
    r"(?:\.(?P<part>[0-9]+))?(?![\w]|[.,][0-9])"
)
_CURRENCY = re.compile(r"(?<!\S)([-\u2212]?)[$€£¥][^\S\n]?(?=[0-9])")
# In a line; what is between "answer" and "is" may be the question again.
_ANSWER_IS = re.compile(
    r"\banswer\b(?:[^\n.:]{0,120}?\s)?(?:is|are)\b[ \t]*[:：]?[ \t]*(?P<said>[^\n]+)"
    r"|答案(?:是|为)[:：]?\s*(?P<zh>[^\n。]+)",
    re.IGNORECASE,
)
_SENTENCE_ENDS = re.compile(r"[.!?](?=\s|$)")
_BOXED = "\\boxed{"
_AROUND = " \t*_`\"'$“”「」\\()[]"
# Of a number, what the normalizer would take for punctuation.
_MINUS, _POINT = "\u2212", "\u00b7"


def normalize_answer(text: str) -> str:
    """An answer in lower case, without ASCII punctuation, articles and extra blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def told_answer(text: str) -> str:
    """The answer that a text comes to, where it says which: what it puts in a box last, or says that the answer is.

    Returns:
        The answer; empty where the text does not say.
    """
    boxed = _boxed(text)
    if boxed:
        return boxed
    found = deque(_ANSWER_IS.finditer(text), maxlen=1)
    said = (found[0]["said"] or found[0]["zh"]) if found else ""
    return _SENTENCE_ENDS.split(said, maxsplit=1)[0].strip(_AROUND)


def answer_key(text: str) -> str:
    """What is equal for answers that say the same: :func:`normalize_answer`, with numbers by their value.

    "1,000", "1000.0" and "The answer is $1000." are one answer; "-5" and "5", "3.5" and "35" are not. An answer of
    which nothing would be left is taken as it is.
    """
    text = told_answer(text) or text
    plain = _NUMBER.sub(_value, _CURRENCY.sub(r"\1", text))
    return normalize_answer(plain) or " ".join(text.lower().split())


def _value(number: re.Match[str]) -> str:
    whole = number["whole"].replace(",", "").lstrip("0") or "0"
    part = (number["part"] or "").rstrip("0")
    value = f"{whole}{_POINT}{part}" if part else whole
    return f"{_MINUS}{value}" if number["minus"] and value != "0" else value


def _boxed(text: str) -> str:
    """What is in the last box, braces within it included."""
    start = text.rfind(_BOXED)
    if start < 0:
        return ""
    start += len(_BOXED)
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place].strip()
    return ""
