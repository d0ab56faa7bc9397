"""Actors that try, note and try again, for the tests of ``reflexion``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from support import CLOSING, asks

from taograph.models import ScriptedModel

REFLECTING, SAMPLING = "An attempt at a task", "Answer the question from what stands above"


def last_text(messages: list[BaseMessage]) -> str:
    return str(messages[-1].text)


def trial_of(messages: list[BaseMessage]) -> int:
    """Which trial a request of the actor belongs to, by what it is told of those before."""
    told = "\n".join(str(m.text) for m in messages if isinstance(m, HumanMessage))
    return max((int(n) for n in re.findall(r"^- Trial (\d+):", told, re.MULTILINE)), default=0) + 1


def tries(*answers: Any, sample: Callable[[], str] | None = None, **options: Any) -> ScriptedModel:
    """A model that looks a name up in each trial and then gives the answer of that trial, and notes "Lesson n".

    Args:
        answers: By trial; the last one again for more. A reply that is no text is given at once, without a look.
        sample: What the samples say.
    """
    notes = 0

    def reply(messages: list[BaseMessage]) -> Any:
        nonlocal notes
        said = last_text(messages)
        if said.startswith(REFLECTING):
            notes += 1
            return f"Lesson {notes}."
        if CLOSING in said:
            return "So far: …"
        number = trial_of(messages)
        if SAMPLING in said:
            assert sample is not None
            return f"Final Answer: {sample()}"
        answer = answers[min(number, len(answers)) - 1]
        if not isinstance(answer, str) or isinstance(messages[-1], ToolMessage):
            return answer(messages) if callable(answer) else answer
        return asks(f"n{number}")

    return ScriptedModel(replies=[reply], repeat=True, **options)


def kinds_of(model: ScriptedModel) -> list[str]:
    """What each request was for."""
    found = []
    for request in model.requests:
        said = last_text(request.messages)
        kind = next(
            (
                name
                for name, words in (("reflect", REFLECTING), ("sample", SAMPLING), ("close", CLOSING))
                if words in said
            ),
            f"trial {trial_of(request.messages)}",
        )
        found.append(kind)
    return found


def good(question: str, answer: str, trajectory: Any) -> bool | str:
    return "good" in answer or f"{answer} is not good"


def verdicts(result: dict[str, Any]) -> list[str]:
    return [trial["verdict"] for trial in result["trials"]]
