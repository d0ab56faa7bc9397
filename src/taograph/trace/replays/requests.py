"""How a request differs from the recorded one, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN, _BEFORE = 120, 30


def difference_of(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """How a request differs from the recorded one, in words."""
    if recorded["tools"] != asked["tools"]:
        return f"the tools offered are {_list(asked['tools'])}, and were {_list(recorded['tools'])}"
    old, new = list(recorded["new"]), list(asked["new"])
    place = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    there, here = old[place:], new[place:]
    gone, come = bool(there) and there[0] not in here, bool(here) and here[0] not in there
    if gone and come and there[0]["type"] == here[0]["type"]:
        same = _shared(_text(here[0]), _text(there[0]))
        return f"{_whose(here[0])} is {_said(here[0], same)}, and was {_said(there[0], same)}"
    if come:
        return f"{_whose(here[0])} was not sent: {_said(here[0])}"
    if gone:
        return f"{_whose(there[0])} was sent, and is not now: {_said(there[0])}"
    if recorded["messages"] != asked["messages"]:
        return f"it has {asked['messages']} messages, and had {recorded['messages']}"
    return "what it repeats of earlier calls and results is not what was recorded"


def _whose(message: Mapping[str, Any]) -> str:
    return f"a message of the {'user' if message['type'] == 'human' else message['type']}"


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _said(message: Mapping[str, Any], begin: int = 0) -> str:
    """A message, or a part of it around a place."""
    text = _text(message)
    begin = 0 if len(text) <= _SHOWN else max(0, begin - _BEFORE)
    part = text[begin : begin + _SHOWN]
    return repr(f"{'…' if begin else ''}{part}{'…' if begin + _SHOWN < len(text) else ''}")


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
