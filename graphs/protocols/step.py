"""One step of the text protocol, as :func:`taograph.graphs.protocols.parse_step` reads it from a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

StepKind = Literal["action", "final", "error"]
StepError = Literal[
    "empty",
    "missing_action",
    "missing_action_input",
    "empty_tool",
    "no_action",
    "action_and_answer",
    "bad_arguments",
    "incomplete",
]


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """What a reply in the text protocol says.

    Attributes:
        kind: "action": call a tool; "final": the answer; "error": neither could be read.
        thought: What the model thought before; empty where it wrote none.
        tool: The tool's name, of an action.
        args: Of an action: an object or a list where the input is JSON, else the trimmed text; ``{}`` for none.
        answer: The answer, of a final step.
        error: Why nothing could be read, of an error.
        truncated: Whether something after the step was dropped: an invented observation, further rounds.
        repaired: Whether the arguments were not valid JSON and had to be mended.
        detail: For an error, what is wrong and what to write instead, in words for the model, quoting the reply.
    """

    kind: StepKind
    thought: str = ""
    tool: str | None = None
    args: Any = None
    answer: str | None = None
    error: StepError | None = None
    truncated: bool = False
    repaired: bool = False
    detail: str = ""
