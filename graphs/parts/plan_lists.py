"""Reading a plan that a model wrote as text: a numbered list, bullets or JSON, with whatever stands around it.

Every pattern is bounded, so that the time to read a text grows with its length and not with what is in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from taograph.graphs.parts.plans import Listed

_DECODER = json.JSONDecoder(strict=False)
_MOST_TRIED = 10

_NUMBERED = re.compile(
    r"""
    (?P<indent>[ \t]{0,12})
    (?:[-*+•>][ \t]{1,3})?(?:\#{1,6}[ \t]{1,3})?(?:\[[ xX]?\][ \t]{1,3})?[*_]{0,3}   # bullet, heading, box, bold
    (?:
        (?:step|task)[ \t]{0,3}\#?(?P<named>\d{1,3})[*_]{0,3}[ \t]{0,3}(?:[.:：)–—-]|$)
      | 第[ \t]{0,2}(?P<step>\d{1,3})[ \t]{0,2}步[*_]{0,3}[ \t]{0,3}[.:：、]?
      | [#(\[]?(?P<number>\d{1,3})[.):\]、．：](?![\d/])
    )
    [*_]{0,3}[ \t]{0,4}
    (?P<task>.*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>[ \t]{0,12})(?:[-*+•][ \t]{1,3})(?:\[[ xX]?\][ \t]{1,3})?(?P<task>.*)")
_PLAN_LABEL = re.compile(
    r"^[ \t]{0,8}(?:\#{1,6}[ \t]{1,3})?[*_]{0,3}(?:new |revised )?plan[*_]{0,3}[ \t]{0,3}[:：]",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_LABEL = re.compile(
    r"^[ \t]{0,8}(?:\#{1,6}[ \t]{1,3})?[*_]{0,3}(?:verdict|(?:final )?answer)[*_]{0,3}[ \t]{0,3}[:：][*_]{0,3}",
    re.IGNORECASE | re.MULTILINE,
)
_OTHER_LABEL = re.compile(
    r"[ \t]{0,8}[*_#> ]{0,6}(?:verdict|(?:final )?answer|notes?|observation|thought|最终答案)[*_]{0,3}[ \t]{0,3}[:：]",
    re.IGNORECASE,
)
_ASKS = r"(?:needs?|requires?|depends[ \t]{1,3}on|dependenc(?:y|ies)|after[ \t]{1,3}(?=steps?\b))[ \t]{0,3}[:：]?"
_NEEDS_INSIDE = re.compile(rf"[ \t]{{0,3}}[(\[（][ \t]{{0,3}}{_ASKS}([^()\[\]（）]{{0,80}})[)\]）]", re.IGNORECASE)
_NEEDS_BEHIND = re.compile(rf"(?:^|[ \t.,;–—-])[ \t]{{0,3}}[*_]{{0,2}}{_ASKS}([^:()\[\]]{{0,80}})$", re.IGNORECASE)
_BOLD = re.compile(r"(?<![\w)*])\*\*(?=\S)([^*\n]{1,300})(?<=\S)\*\*(?![\w(*])")
_NUMBER = re.compile(r"(?:e|s)?(\d{1,3})", re.IGNORECASE)
_TOKEN = re.compile(r"\w+")
_JOINING = frozenset({"and", "step", "steps", "task", "tasks", "result", "results", "of", "the", "from", "no"})
_NOTHING = frozenset({"none", "nothing", "no", "na", "n", "a", "null", "nil", "无"})

_ID_KEYS = ("id", "number", "step", "index")
_TASK_KEYS = ("task", "description", "title", "action", "name", "step", "text")
_NEEDS_KEYS = ("needs", "depends_on", "dependencies", "requires")
_LIST_KEYS = ("steps", "plan", "tasks")


def read_steps(text: str) -> list[Listed]:
    """The steps of a plan in a text; none where there is no list in it.

    Numbered lines are steps, and bullets only where no line is numbered. What is indented below a step, and what goes
    on in the next line, belongs to it.

    Args:
        text: What the model wrote, without its reasoning.
    """
    found = _read_json(text)
    if found:
        return found
    lines = text.splitlines()
    return _read_lines(lines, _NUMBERED) or _read_lines(lines, _BULLET)


def is_labelled(text: str) -> bool:
    """Whether a text says that what it lists is a plan."""
    return bool(_PLAN_LABEL.search(text)) or bool(_read_json(text))


def read_answer(text: str) -> str:
    """The answer that a text gives under its label; empty where it gives none, or a plan first."""
    found, plan = _ANSWER_LABEL.search(text), _PLAN_LABEL.search(text)
    if found is None or (plan and plan.start() < found.start() and read_steps(text[plan.start() : found.start()])):
        return ""
    said = text[found.end() :]
    behind = _PLAN_LABEL.search(said)  # a small model may give both
    return (said[: behind.start()] if behind else said).strip()


def _read_lines(lines: list[str], pattern: re.Pattern[str]) -> list[Listed]:
    steps: list[Listed] = []
    outermost: int | None = None
    parts: list[str] = []
    number: int | None = None
    open_, blank = False, False

    def finish() -> None:
        nonlocal parts
        if open_:
            steps.append(_listed(number, parts))
        parts = []

    for line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            continue
        if not line.strip():
            blank = True
            continue
        match = pattern.match(line)
        indent = len(line) - len(line.lstrip())
        if match and (outermost is None or indent <= outermost + 1):
            finish()
            outermost = indent if outermost is None else min(outermost, indent)
            groups = match.groupdict()
            given = groups.get("named") or groups.get("step") or groups.get("number")
            number, parts, open_ = int(given) if given else None, [groups["task"]], True
        elif open_ and ((blank and not line[:1].isspace()) or _OTHER_LABEL.match(line)):
            finish()
            open_ = False
        elif open_:
            parts.append(line.strip())
        blank = False
    finish()
    return steps


def _listed(number: int | None, parts: list[str]) -> Listed:
    """A step from its lines; what it needs is taken out of its task."""
    needs: set[int] | None = None
    words: list[str] = []
    for part in parts:
        rest, found = _without_needs(_BOLD.sub(r"\1", part))
        if found is not None:
            needs = (needs or set()) | set(found)
        if rest.strip(" \t*_-•"):
            words.append(rest.strip())
    return Listed(number, " ".join(words), None if needs is None else tuple(sorted(needs)))


def _without_needs(line: str) -> tuple[str, tuple[int, ...] | None]:
    for pattern in (_NEEDS_INSIDE, _NEEDS_BEHIND):
        for match in pattern.finditer(line):
            needs = _numbers(match[1])
            if needs is not None:
                return (line[: match.start()] + line[match.end() :]).rstrip(" \t*_"), needs
    return line, None


def _numbers(text: str) -> tuple[int, ...] | None:
    """The numbers that a text names, if it names nothing else."""
    tokens = [token.lower() for token in _TOKEN.findall(text)]
    numbers = [_NUMBER.fullmatch(token) for token in tokens]
    found = tuple(int(match[1]) for match in numbers if match)
    others = {token for token, match in zip(tokens, numbers, strict=True) if not match}
    if found:
        return found if others <= _JOINING else None
    return () if others <= _NOTHING and text.strip(" \t:") else None


def _read_json(text: str) -> list[Listed]:
    for value in _values(text):
        items: Any = value
        if isinstance(value, Mapping):
            items = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)
        if isinstance(items, list) and items and all(isinstance(item, str | Mapping) for item in items):
            return [_from_json(item) for item in items]
    return []


def _values(text: str) -> Iterator[Any]:
    """JSON values that begin a line."""
    for match in islice(re.finditer(r"^[ \t]*(?=[\[{])", text, re.MULTILINE), _MOST_TRIED):
        try:
            yield _DECODER.raw_decode(text, match.end())[0]
        except (ValueError, RecursionError):
            continue


def _from_json(item: str | Mapping[str, Any]) -> Listed:
    if isinstance(item, str):
        read = _read_lines([item], _NUMBERED)
        return read[0] if len(read) == 1 else _listed(None, [item])
    number = next((found for key in _ID_KEYS if (found := whole_number(item.get(key))) is not None), None)
    task = next((str(item[key]) for key in _TASK_KEYS if isinstance(item.get(key), str) and item[key].strip()), "")
    key = next((key for key in _NEEDS_KEYS if key in item), None)
    if key is None:
        return Listed(number, task, None)
    return Listed(number, task, tuple(needed_numbers(item[key])))


def needed_numbers(value: Any) -> list[int]:
    """The numbers of the steps that a step needs, from what a model wrote; -1 for what names no step."""
    if isinstance(value, str):
        found = _numbers(value)
        return [-1] if found is None else list(found)
    given = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return [-1 if number is None else number for number in map(whole_number, given)]


def whole_number(value: Any) -> int | None:
    """A step's number from what a model wrote: 2, "2", "step 2", "#E2"."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\W{0,3}(?:step|task|e|s)?\W{0,3}(\d{1,3})\W{0,3}", str(value), re.IGNORECASE)
    return int(match[1]) if match else None
