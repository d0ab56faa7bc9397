"""A completion model that says what was recorded, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LLM

_SHOWN = 200


class NotRecordedError(LookupError):
    """Something was asked that the record does not hold; the run that is replayed went another way.

    Raised by a replayed model or environment. It ends the run: no loop may take it for an error of the model.

    Attributes:
        asked: What was asked.
    """

    taograph_fatal: ClassVar[bool] = True

    def __init__(self, message: str, asked: str) -> None:
        super().__init__(message)
        self.asked = asked


class ReplayLLM(LLM):
    """Answers a prompt with what was recorded for this very prompt, character for character.

    Attributes:
        record: Prompt → reply.

    Raises:
        NotRecordedError: When called with a prompt that is not in the record. It says where the prompt leaves
            what was recorded.
    """

    record: Mapping[str, str]

    @property
    def _llm_type(self) -> str:
        return "replay"

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        reply = self.record.get(prompt)
        if reply is None:
            raise NotRecordedError(_where(prompt, self.record), prompt)
        return reply


def _where(prompt: str, record: Mapping[str, str]) -> str:
    """How a prompt differs from the recorded one that is most like it."""
    said = f"This model call is not in the record of {len(record)} calls. The prompt ends: {prompt[-_SHOWN:]!r}"
    nearest = max(record, key=lambda one: _shared(one, prompt), default="")
    same = _shared(nearest, prompt)
    if not same:
        return said
    here, there = (one[same : same + 60] for one in (prompt, nearest))
    return (
        f"{said}. It is as recorded up to character {same} of {len(prompt)}; then "
        f"{f'it has {here!r}' if here else 'it ends'} where the record {f'has {there!r}' if there else 'ends'}"
    )


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
