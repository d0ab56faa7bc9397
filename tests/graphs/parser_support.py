"""Cases of the text protocol's parser, and what it means to meet one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taograph.graphs.protocols import ParsedStep

OWN_CASES = Path(__file__).with_name("parser_cases.json")
SHARED_CASES = Path(__file__).parents[3] / "shared" / "cases" / "parser_cases.json"
MODES = {"any": (False, True), "lenient": (False,), "strict": (True,)}


@dataclass(frozen=True)
class Case:
    """One reply, read in one mode, and what must come of it; a value of None is not asserted."""

    name: str
    text: str
    strict: bool
    tools: tuple[str, ...]
    expected: dict[str, Any]
    note: str


def read_cases(path: Path) -> list[Case]:
    """The cases of a file, those for both modes once for each; none where there is no such file."""
    if not path.exists():
        return []
    entries = json.loads(path.read_text(encoding="utf-8"))
    return [
        Case(
            name=f"{entry['id']}-{'strict' if strict else 'lenient'}",
            text=entry["input"],
            strict=strict,
            tools=tuple(entry.get("tools", ())),
            expected=entry["expected"] or {},
            note=entry.get("note", ""),
        )
        for entry in entries
        for strict in MODES[entry["mode"]]
    ]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and True are three values."""
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)


def differences(step: ParsedStep, expected: dict[str, Any]) -> list[str]:
    """What a step has other than expected, in words; empty where nothing."""
    got = {
        "kind": step.kind,
        "thought": step.thought,
        "tool": step.tool,
        "args": step.args,
        "answer": step.answer,
        "code": step.error,
        "truncated": step.truncated,
        "repaired": step.repaired,
    }
    return [
        f"{field}: expected {wanted!r}, got {got[field]!r}"
        for field, wanted in expected.items()
        if wanted is not None and not same(wanted, got[field])
    ]
