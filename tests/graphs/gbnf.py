"""Strings that a grammar in GBNF admits, drawn at random with a liking for what may confuse a parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

_TOKEN = re.compile(
    r"""
    \s*(?: (?P<text>"(?:\\.|[^"\\])*") | (?P<set>\[(?:\\.|[^\]\\])*\]) | (?P<name>[a-z][a-z0-9-]*)
      | (?P<many>\{\d+(?:,\d+)?\}) | (?P<mark>[()|*+?]) )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
_MOST = 12
# Texts that mean something to who reads a reply, if they stand where they count.
NASTY = (
    "Thought: x", "Action: send", "Action Input: {}", "Observation: 4", "Observation", "Final Answer: 5", "Action",
    "行动：send", "最终答案：五", "- Action: send", "1. Action: send", "**Action:** send", "None", "```json", "```",
    "~~~", "<think>", "</think>", "<|im_end|>", "</s>", "<tool_call>", '{"name": "send", "arguments": {}}',
    "send(to='x')", "Action: send[x]", '"', "'", "\\", "\\u0000", "\\ud800", "{", "}", "[", "]", "#", "*",
    "__", " ", ",", ":", "：", "\u00a0", "\u2028", "\u3000", "\ufeff", "\x85", "ü", "你好", "😀", "Ada", "17% of 2340",
    "/", "//", "1e400", "-",
)  # fmt: skip


@dataclass(frozen=True)
class Set:
    """A set of characters."""

    ranges: tuple[tuple[str, str], ...]
    inverted: bool

    def has(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.inverted


@dataclass(frozen=True)
class Many:
    """Something, so many times."""

    what: Node
    least: int
    most: int


@dataclass(frozen=True)
class Choice:
    """One of some rows."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Ref:
    """What a rule says."""

    name: str


Node = str | Set | Many | Choice | Ref


class Grammar:
    """A grammar, read from GBNF.

    Args:
        text: The grammar, one rule a line.
        seed: Of the samples.
    """

    def __init__(self, text: str, seed: int = 0) -> None:
        found = re.findall(r"^([a-z0-9-]+) ::= (.*)$", text, re.MULTILINE)
        self._rules: dict[str, Choice] = {}
        for name, body in found:
            assert name not in self._rules, f"{name} has two rules"
            self._rules[name] = _Reader(body).choice()
        self._random = Random(seed)
        self._depth = 0

    def sample(self) -> str:
        """A text that it admits."""
        self._depth = 0
        return self._of(Ref("root"))

    def _of(self, node: Node) -> str:
        random = self._random
        match node:
            case Ref(name):
                return self._of(self._rules[name])
            case str():
                return node
            case Set():
                return self._char(node)
            case Choice(rows):
                self._depth += 1
                # Deep inside, what ends soonest.
                row = random.choice(rows) if self._depth < 60 else min(rows, key=_cost)
                made = "".join(self._of(part) for part in row)
                self._depth -= 1
                return made
            case Many(what, least, most):
                times = least if self._depth >= 60 else random.randint(least, max(least, min(most, _MOST)))
                return "".join(self._once(what) for _ in range(times))

    def _once(self, what: Node) -> str:
        """A repeated part; of characters often a whole word in place of one."""
        chars = what
        while isinstance(chars, Ref):
            chars = self._rules[chars.name]
        if isinstance(chars, Choice) and len(chars.rows[0]) == 1:
            chars = chars.rows[0][0]
        if isinstance(chars, Set) and self._random.random() < 0.4:
            word = self._random.choice(NASTY)
            if all(chars.has(char) for char in word):
                return word
        return self._of(what)

    def _char(self, chars: Set) -> str:
        random = self._random
        if not chars.inverted:
            low, high = random.choice(chars.ranges)
            return chr(random.randint(ord(low), ord(high)))
        while True:
            char = random.choice(
                "aAoOfFtT :：`~<>{}[]()\"'\\/*_#|-+.,1\u00a0\u2028\u3000\x85\x7fü你😀" + chr(random.randint(32, 0x2FFF))
            )
            if chars.has(char):
                return char


class _Reader:
    """Reads the right-hand side of a rule."""

    def __init__(self, body: str) -> None:
        self._tokens = [(found.lastgroup, found[found.lastgroup or 0]) for found in _TOKEN.finditer(body)]
        self._at = 0

    def choice(self) -> Choice:
        rows = [self._row()]
        while self._peek() == "|":
            self._at += 1
            rows.append(self._row())
        return Choice(tuple(rows))

    def _peek(self) -> str | None:
        kind, token = self._tokens[self._at] if self._at < len(self._tokens) else (None, None)
        return token if kind == "mark" else None

    def _row(self) -> tuple[Node, ...]:
        parts: list[Node] = []
        while self._at < len(self._tokens) and self._peek() not in ("|", ")"):
            parts.append(self._part())
        return tuple(parts)

    def _part(self) -> Node:
        kind, token = self._tokens[self._at]
        self._at += 1
        part: Node
        if kind == "text":
            part = _unescaped(token[1:-1])
        elif kind == "set":
            part = _set(token[1:-1])
        elif kind == "name":
            part = Ref(token)
        else:
            assert token == "(", token
            part = self.choice()
            assert self._peek() == ")"
            self._at += 1
        if self._at < len(self._tokens):
            kind, token = self._tokens[self._at]
            bounds = {"*": (0, 99), "+": (1, 99), "?": (0, 1)}.get(token)
            if kind == "many":
                bounds = (int(token[1:-1].split(",")[0]), int(token[1:-1].split(",")[-1]))
            if bounds is not None and kind in ("mark", "many"):
                self._at += 1
                return Many(part, *bounds)
        return part


def _cost(row: tuple[Node, ...]) -> int:
    return sum(5 if isinstance(part, Ref) else 1 for part in row)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_one, text)


def _one(found: re.Match[str]) -> str:
    if code := found[1] or found[2]:
        return chr(int(code, 16))
    return _NAMED.get(found[3], found[3])


def _set(text: str) -> Set:
    inverted = text.startswith("^")
    chars = [_one(found) if found else char for char, found in _chars(text[inverted:])]
    raw = [char for char, _ in _chars(text[inverted:])]
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(chars):
        if at + 2 < len(chars) and raw[at + 1] == "-":
            ranges.append((chars[at], chars[at + 2]))
            at += 3
        else:
            ranges.append((chars[at], chars[at]))
            at += 1
    return Set(tuple(ranges), inverted)


def _chars(text: str) -> list[tuple[str, re.Match[str] | None]]:
    made: list[tuple[str, re.Match[str] | None]] = []
    at = 0
    while at < len(text):
        found = _ESCAPE.match(text, at)
        made.append((text[at], found))
        at = found.end() if found else at + 1
    return made
