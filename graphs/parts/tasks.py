"""LLMCompiler's plan: how it is asked for, and how it is read while it is still being written.

Kim et al., "An LLM Compiler for Parallel Function Calling", arXiv 2312.04511. A task is a line, its number counts up,
and a later one refers to its result::

    Thought: both heights are needed
    1. search("height of the Eiffel Tower")
    2. search("height of Big Ben")
    3. calculator("$1 / $2")
    4. join()

Arguments are values as Python or JSON write them, by place or by name. A reader belongs to one reply (the published
parser keeps its state in a class), and takes each character once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taograph.graphs.parts.call_arguments import ArgumentsError, read_call, short
from taograph.graphs.parts.planned import Parameters, Planned, planned

JOIN = "join"
"""What ends a plan, written as a call."""
MOST_TASKS = 100
_MOST_CHARS = 20_000

_NUMBERED = re.compile(
    r"[^\S\n]*(?:[-*•>][^\S\n]+)?(?:\*{1,2}|`)?\$?(?P<id>\d{1,6})[.):](?:\*{1,2})?[^\S\n]*(?:\*{1,2}|`)?"
)
_CALL = re.compile(r"`?(?P<tool>[^\W\d][\w.-]{0,127})`?[^\S\n]*\(")
_JOINS = re.compile(r"[^\S\n]*(?:`|\*{1,2})?(?:join[^\S\n]*\(|<END_OF_PLAN>)", re.IGNORECASE)
THOUGHT = re.compile(r"[^\S\n]*(?:\*{1,2})?(?:Thought|思考)(?:\*{1,2})?[:：](?:\*{1,2})?", re.IGNORECASE)


@dataclass
class PlanReader:
    """Reads a plan as it comes, a line at a time.

    Args:
        parameters: What the tools take that a task may name: arguments by place are put under their names.

    Attributes:
        joined: Whether the plan has come to its end; what is written behind it is left out.
        thought: What was thought since the last task.
        left_out: How many tasks were left out, since nobody means so many.
    """

    parameters: Parameters
    joined: bool = False
    thought: str = ""
    left_out: int = 0
    _line: str = ""
    _open: _Open | None = None
    _thinks: bool = False
    _numbered: int = 0

    def feed(self, text: str) -> list[Planned]:
        """Take what has come; returns the tasks that are complete by now."""
        if self.joined:
            return []
        *lines, rest = text.split("\n")
        found: list[Planned] = []
        for line in lines:
            found += self._take(self._line + line)
            self._line = ""
        self._line += rest
        return found

    def end(self) -> list[Planned]:
        """The reply is complete; returns the tasks that were not complete before."""
        found = self._take(self._line) if self._line and not self.joined else []
        self._line = ""
        return [*found, *self._broken()]

    def _take(self, line: str) -> list[Planned]:
        if self.joined or self._is_thinking(line):
            return []
        numbered = _NUMBERED.match(line)
        at = numbered.end() if numbered else 0
        if _JOINS.match(line, at):
            broken = self._broken()
            self.joined = True
            return broken
        if self._open is not None and (numbered is None or _CALL.match(line, at) is None):
            return self._closed(self._open.feed("\n" + line))
        found = self._broken()
        thought = THOUGHT.match(line)
        if thought is not None:
            self.thought = "\n".join(filter(None, (self.thought, line[thought.end() :].strip())))
        elif numbered is not None:
            self._numbered += 1
            if self._numbered > MOST_TASKS:
                self.left_out += 1
                return found
            call = _CALL.match(line, at)
            if call is None:
                fault = f"it cannot be read: {short(line)!r} is no call. Write {numbered['id']}. tool(arguments)."
                return [*found, self._task(int(numbered["id"]), "", {}, fault)]
            self._open = _Open(int(numbered["id"]), call["tool"])
            found += self._closed(self._open.feed(line[call.end() :]))
        return found

    def _is_thinking(self, line: str) -> bool:
        """Whether a line is a part of what a model thinks aloud before its reply."""
        if not self._thinks and line.lstrip().startswith("<think>"):
            self._thinks = True
        if self._thinks and "</think>" in line:
            self._thinks = False
            return True
        return self._thinks

    def _closed(self, closed: bool) -> list[Planned]:
        task = self._open
        if task is None or not closed:
            return []
        self._open = None
        try:
            args = named(*read_call(task.inside), self.parameters.get(task.tool))
        except ArgumentsError as error:
            return [self._task(task.id, task.tool, {}, f"its arguments cannot be read: {error} It was not run.")]
        return [self._task(task.id, task.tool, args)]

    def _broken(self) -> list[Planned]:
        """The task that was begun and not closed, as one that says so."""
        task, self._open = self._open, None
        if task is None:
            return []
        fault = f"its line breaks off: {short(task.inside)!r}. It was not run."
        return [self._task(task.id, task.tool, {}, fault)]

    def _task(self, id: int, tool: str, args: Any, fault: str = "") -> Planned:
        thought, self.thought = self.thought, ""
        return planned(id, tool, args, plan=thought, fault=fault)


class _Open:
    """A call whose bracket is not closed yet."""

    def __init__(self, id: int, tool: str) -> None:
        self.id, self.tool = id, tool
        self._pieces: list[str] = []
        self._size = 0
        self._depth, self._quote, self._escaped = 1, "", False

    @property
    def inside(self) -> str:
        """What stands in the bracket up to now."""
        return "".join(self._pieces)

    def feed(self, text: str) -> bool:
        """Take what comes next; returns whether the bracket is closed by now."""
        if self._size > _MOST_CHARS:  # nobody means a call of this size: it breaks off where the next one begins
            return False
        self._size += len(text)
        for place, character in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._quote:
                self._escaped = character == "\\"
                if character == self._quote:
                    self._quote = ""
            elif character in "\"'":
                self._quote = character
            elif character in "([{":
                self._depth += 1
            elif character in ")]}":
                self._depth -= 1
                if self._depth == 0:
                    self._pieces.append(text[:place])
                    return True
        self._pieces.append(text)
        return False


def read_plan(text: str, parameters: Parameters) -> tuple[list[Planned], PlanReader]:
    """The tasks of a whole plan, and the reader that has read it."""
    reader = PlanReader(parameters)
    return [*reader.feed(text), *reader.end()], reader


def named(placed: Sequence[Any], by_name: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Arguments under the names of the parameters.

    Args:
        placed: Those by place.
        by_name: Those by name.
        schema: What the tool takes; None where there is no such tool.

    Raises:
        ArgumentsError: There are too many, or one is given twice.
    """
    names = list((schema or {}).get("properties") or {})
    if schema is None:
        names = [f"argument_{number}" for number in range(1, len(placed) + 1)]
    if len(placed) == 1 and not by_name and isinstance(placed[0], dict) and set(placed[0]) <= set(names):
        return {str(key): value for key, value in placed[0].items()}  # all of them, as one object
    if len(placed) > len(names):
        raise ArgumentsError(f"there are {len(placed)}, and it takes {', '.join(names) or 'none'}.")
    args = dict(zip(names, placed, strict=False))
    twice = next((name for name in by_name if name in args), None)
    if twice is not None:
        raise ArgumentsError(f"{twice} is given twice.")
    return {**args, **by_name}
