"""The label words of the text protocol, and telling data apart from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh", "de", "pl"]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the parts of a step are called.

    Attributes:
        thought: Before what the model thinks.
        action: Before the name of a tool.
        action_input: Before the arguments.
        observation: Before what a tool returned.
        final_answer: Before the answer.
        question: Before a question, where a model takes one text instead of turns. Not part of a step.
        colon: What stands between a label and its text.
    """

    thought: str
    action: str
    action_input: str
    observation: str
    final_answer: str
    question: str
    colon: str = ": "


# German and Polish keep the English words: they are what models have seen, and the parser knows no others.
_STEP = ("Thought", "Action", "Action Input", "Observation", "Final Answer")
LABELS: dict[Language, Labels] = {
    "en": Labels(*_STEP, "Question"),
    "zh": Labels("思考", "行动", "行动输入", "观察", "最终答案", "问题", "："),
    "de": Labels(*_STEP, "Frage"),
    "pl": Labels(*_STEP, "Pytanie"),
}

# More generous than the parser: a line too many set apart costs nothing, one too few is an injected label.
_LABEL = re.compile(
    r"""
    [\W\d_]*+
    (?: thought | action [\s\d_-]* (?:input)? | observation | (?:final [\s_-]*)? answer
      | 思考 | (?:行动|动作) \s* (?:输入)? | 观察 | (?:最终)? (?:答案|回答) )
    [\W\d_]*? [:：]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_APART = "| "


def labels(language: str = "en") -> Labels:
    """The label words of a language.

    Raises:
        ValueError: There are none for it.
    """
    for known, found in LABELS.items():
        if known == language:
            return found
    raise ValueError(f"language={language!r}: use one of {', '.join(map(repr, LABELS))}")


def as_data(text: str, *, indent: str = "", first: bool = False) -> str:
    """A text from elsewhere, in which no line can be taken for a label.

    Args:
        text: Whatever a tool, its author or a person wrote.
        indent: What every line but the first begins with.
        first: Whether the first line begins a line too; by default it stands behind a label.
    """
    lines = text.splitlines() or [""]
    kept = [_set_apart(line) if first or number else line for number, line in enumerate(lines)]
    return f"\n{indent}".join(kept)


def _set_apart(line: str) -> str:
    return _APART + line if _LABEL.match(line) else line
