"""Asking the person who started the run."""

from __future__ import annotations

import json
from typing import Any

from langgraph.types import interrupt

from taograph.tools.policy import ToolError, tool


def _text(answer: Any) -> str:
    """What was answered, whichever way an interface wraps it."""
    if isinstance(answer, dict) and len(answer) == 1 and isinstance(next(iter(answer.values())), str):
        answer = next(iter(answer.values()))  # {"answer": "…"} and the like
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
    return text.strip() or "The person gave no answer."


# No effect in the world and no timeout: the run stops here, however long the answer takes, and the question
# that is asked again when it goes on is answered from what was given.
@tool(effects="none", timeout=None, max_chars=None)
def ask_person(question: str) -> str:
    """Ask the person for something that only they know or may decide, and wait for the answer.

    Args:
        question: One question, complete in itself.
    """
    if not question.strip():
        raise ToolError("The question is empty. Write what the person should answer.")
    return _text(interrupt({"type": "question", "question": question.strip()}))
