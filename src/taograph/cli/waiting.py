"""What a run waits for, as a person at a terminal is told it: a call to approve, a question, a call cut off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from taograph.cli.kept import command
from taograph.cli.text import clean, one_line, shorten
from taograph.cli.words import call_line, count

Kind = Literal["approval", "unfinished_call", "question", "other"]

_CHARS, _LINES = 1200, 20
_ID_CHARS = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that a run waits for.

    Attributes:
        interrupt: Id of the interrupt: what an answer is given to.
        kind: What is wanted.
        value: The interrupt's value.
    """

    interrupt: str
    kind: Kind
    value: Any

    @classmethod
    def read(cls, interrupt: str, value: Any) -> Waiting:
        """An interrupt as what it asks for."""
        kind = value.get("type") if isinstance(value, Mapping) else None
        known: dict[Any, Kind] = {
            "approval": "approval",
            "unfinished_call": "unfinished_call",
            "question": "question",
        }
        return cls(interrupt, known.get(kind, "other"), value)

    @property
    def id(self) -> str:
        """What it is named by with ``--call``: the call's id, or the beginning of the interrupt's."""
        return str(self.value["call"]) if self.is_call and self.value.get("call") else self.interrupt[:_ID_CHARS]

    @property
    def is_call(self) -> bool:
        """Whether it is about a call of a tool."""
        return self.kind in ("approval", "unfinished_call")

    @property
    def tool(self) -> str:
        """The tool of the call; empty where it is about none."""
        return str(self.value.get("tool", "")) if self.is_call else ""

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of the call."""
        return dict(self.value.get("args") or {}) if self.is_call else {}

    def title(self, *, whole: bool = False) -> str:
        """What it is about: the call, or the question.

        Args:
            whole: Not cut, however long it is.
        """
        if self.is_call:
            text = call_line(self.tool, self.args)
        elif self.kind == "question":
            text = clean(str(self.value.get("question", ""))).strip()
        else:
            text = clean(json.dumps(self.value, ensure_ascii=False, default=str))
        shown, cut = (text, False) if whole else shorten(text, chars=_CHARS, lines=_LINES)
        return f"{shown} … ({len(text):,} characters in all)" if cut else shown

    def detail(self) -> str:
        """What else is to be known of it, in a sentence or two."""
        return one_line(str(self.value.get("question", "")), 600) if self.is_call else ""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"id": self.id, "kind": self.kind, "interrupt": self.interrupt, "value": self.value}

    def declined(self) -> Any:
        """An answer in the place of a person who gave none."""
        return {"approval": {"decision": "reject", "reason": "nobody answered"}, "unfinished_call": "unknown"}.get(
            self.kind, ""
        )


def in_words(waiting: Sequence[Waiting]) -> str:
    """What is waited for, counted: "approval of 2 calls", "an answer"."""
    said = []
    kinds = [each.kind for each in waiting]
    if calls := kinds.count("approval"):
        said.append(f"approval of {count(calls, 'call') if calls > 1 else 'a call'}")
    if calls := kinds.count("unfinished_call"):
        said.append(f"a word on {count(calls, 'call') if calls > 1 else 'a call'} cut off")
    if answers := kinds.count("question") + kinds.count("other"):
        said.append(f"{answers} answers" if answers > 1 else "an answer")
    return " and ".join(said)


def listing(waiting: Sequence[Waiting]) -> Iterable[str]:
    """What is waited for, each with the id that ``--call`` takes."""
    for number, each in enumerate(waiting, 1):
        lines = each.title().split("\n")
        many = len(waiting) > 1
        yield (f"  {number}. " if many else "  ") + lines[0]
        indent = "     " if many else "  "
        yield from (indent + line for line in lines[1:])
        if detail := each.detail():
            yield indent + detail
        if many:
            yield f"{indent}--call {each.id}"


def ways(thread: str, waiting: Sequence[Waiting], url: str | None) -> Iterable[str]:
    """How the answer can be given, as commands.

    Args:
        thread: The thread.
        waiting: What it waits for.
        url: Where threads are kept, where that was said with an option.
    """
    yield command("resume", thread, url=url) + "  asks you, in a terminal"
    first = waiting[0]
    call = ("--call", first.id) if len(waiting) > 1 else ()

    def resume(*words: str) -> str:
        return command("resume", thread, *call, *words, url=url)

    match first.kind:
        case "approval":
            yield resume("--approve")
            yield resume("--reject", "why not")
            yield resume("--edit", json.dumps(first.args, ensure_ascii=False))
            if len(waiting) > 1:
                yield command("resume", thread, "--call", "all", "--approve", url=url)
        case "unfinished_call":
            yield resume("--answer", "repeat") + "  it did not take effect"
            yield resume("--answer", "done: what it returned") + "  it did"
            yield resume("--answer", "unknown") + "  the model is told so"
        case _:
            yield resume("--answer", "…")
