"""What is to be otherwise in a replay than it was."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage

from taograph.graphs.loop.fitting import check_window
from taograph.graphs.loop.limits import LIMIT_NAMES

_FORMS = (
    "limits.NAME=VALUE, system_prompt=TEXT, window=TOKENS, observation:CALL_ID=TEXT, observation:STEP.N=TEXT, "
    "reply:STEP=TEXT or model.OPTION=VALUE"
)
Kind = Literal["limit", "context", "observation", "reply", "model"]


@dataclass
class Change:
    """One thing that is otherwise.

    Attributes:
        kind: "limit", "context" (the system prompt, the window), "observation", "reply", or "model" (an option of it).
        name: Which: the limit, the call or its place, the step, the option.
        text: What it is now, as it was written.
        value: The same, read.
        is_used: Whether it came into play.
    """

    kind: Kind
    name: str
    text: str
    value: Any = None
    is_used: bool = field(default=False, compare=False)

    def used(self) -> bool:
        """It comes into play now."""
        self.is_used = True
        return True

    def __str__(self) -> str:
        prefix = {"limit": "limits.", "model": "model.", "observation": "observation:", "reply": "reply:"}
        return f"{prefix.get(self.kind, '')}{self.name}={self.text}"


def read_change(said: str) -> Change:
    """Read a change as it is written: ``limits.steps=5``.

    Raises:
        ValueError: It is none; the message says what is.
    """
    left, equals, text = said.partition("=")
    left = left.strip()
    if not equals or not left:
        raise ValueError(f"{said!r}: write {_FORMS}")
    if left.startswith("limits."):
        name = left.removeprefix("limits.")
        if name not in LIMIT_NAMES:
            raise ValueError(f"{said!r}: there is no limit {name!r}; there are {', '.join(LIMIT_NAMES)}")
        if name in ("seconds", "reserve_seconds"):
            raise ValueError(f"{said!r}: a replay takes no time, so its time cannot be changed")
        return Change("limit", name, text, _value(text, said))
    if left == "system_prompt":
        return Change("context", left, text, text)
    if left == "window":
        window = _value(text, said)
        check_window(window)
        return Change("context", left, text, window)
    for kind in ("observation", "reply"):
        if left.startswith(f"{kind}:") and left.removeprefix(f"{kind}:"):
            name = left.removeprefix(f"{kind}:")
            if kind == "reply" and not name.isdecimal():
                raise ValueError(f"{said!r}: a reply is named by its step, as in reply:2=TEXT")
            return Change(kind, name, text, text)
    if left == "model" or left.startswith("model."):
        return Change("model", left.removeprefix("model.") if "." in left else "name", text, text)
    raise ValueError(f"{said!r}: {left!r} cannot be changed: write {_FORMS}")


def read_changes(said: Sequence[str | Change]) -> list[Change]:
    """Read several."""
    return [one if isinstance(one, Change) else read_change(one) for one in said]


def reply_of(text: str, id: str) -> AIMessage:
    """A reply that was written by hand: an answer, or a call as ``{"tool": "search", "args": {…}}``."""
    try:
        call = json.loads(text)
    except ValueError:
        return AIMessage(text)
    if not isinstance(call, dict) or set(call) != {"tool", "args"} or not isinstance(call["args"], dict):
        return AIMessage(text)
    return AIMessage("", tool_calls=[{"type": "tool_call", "id": id, "name": str(call["tool"]), "args": call["args"]}])


def _value(text: str, said: str) -> Any:
    if text.strip().lower() in ("none", "null"):
        return None
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{said!r}: give a number, or none for no limit") from None
    if not math.isfinite(number):
        raise ValueError(f"{said!r}: give a number, or none for no limit")
    return int(number) if number == int(number) and "." not in text else number
