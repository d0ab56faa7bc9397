"""Arithmetic as people and models write it, turned into the plain expression that is evaluated.

``17% of 2,340`` becomes ``percent ( N0 ) * N1`` with ``N0 = 17`` and ``N1 = 2340``. Numbers leave the text
as exact values, so that no literal passes through a float, and whatever is not arithmetic (quotes, dots,
colons) stops here, before any parser of Python sees it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from taograph.tools.policy import ToolError

MAX_LENGTH = 1000
"""Characters of an expression. Everything below is at worst quadratic in this."""
MAX_EXPONENT = 3000
"""The largest power of ten in a number such as 1e3000."""

_SYMBOLS = str.maketrans(
    {
        **dict.fromkeys("×·⋅∗✕", "*"),
        **dict.fromkeys("÷∕⁄", "/"),
        **dict.fromkeys("−–—", "-"),
        **dict.fromkeys("$€£¥", " "),
        **dict.fromkeys("[{", "["),
        **dict.fromkeys("]}", "]"),
        "^": "**",
        "²": "**2",
        "³": "**3",
        "π": " pi ",
        "≤": "<=",
        "≥": ">=",
        "≠": "!=",
    }
)
_ASKING = re.compile(r"^\s*(?:what\s+is|what's|calculate|compute|evaluate|=)\s+", re.IGNORECASE)
_TRAILING = re.compile(r"[\s=?.]+$")
_ROOT_OF_NUMBER = re.compile(r"√\s*(\d+(?:\.\d+)?)")
_TIMES_LETTER = re.compile(r"(?<=[\d.)%])(?:\s+x\s*|(?<!\b0)x\s*)(?=[\w.(+-])", re.IGNORECASE)
_WORDS = {
    "of": "*",
    "times": "*",
    "plus": "+",
    "minus": "-",
    "mod": "modulo",
    "percent": "%",
}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+(?!\d)|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<symbol>\*\*|//|<=|>=|==|!=|[-+*/%!°(),<>\[\]])
    )""",
    re.VERBOSE,
)
_GROUP = re.compile(r"\d{3}(?:\.\d*)?(?:[eE][+-]?\d+)?")
_POSTFIX = {"!": "factorial", "°": "radians"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Comma:
    """A comma between arguments: whether it could be inside a number, and what speaks for that."""

    groups: bool
    zero: bool
    spaced: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression ready to be evaluated.

    Attributes:
        source: Names, operators, brackets and commas only.
        numbers: The value of each number, by the name that stands for it in the source.
    """

    source: str
    numbers: dict[str, Fraction]


def read_expression(text: str, *, functions: Collection[str], one_argument: Collection[str]) -> Expression:
    """Read arithmetic in its everyday spellings.

    Args:
        text: What the model wrote.
        functions: The names that may be called.
        one_argument: Of these, those with one argument: a comma in them can only be part of a number.

    Raises:
        ToolError: The text is too long or no arithmetic; the message says what to write.
    """
    if len(text) > MAX_LENGTH:
        raise ToolError(
            f"The expression has {len(text)} characters; at most {MAX_LENGTH} are read. Split it into smaller steps."
        )
    tokens = _tokens(_plain(text))
    if not tokens:
        raise ToolError('The expression is empty. Write arithmetic, for example "12% of 450".')
    return _rewrite(_join_thousands(tokens, functions, one_argument), functions)


def _plain(text: str) -> str:
    text = _ROOT_OF_NUMBER.sub(r"sqrt(\1)", text).replace("√", " sqrt ")
    text = unicodedata.normalize("NFKC", text.translate(_SYMBOLS))
    text = _TRAILING.sub("", _ASKING.sub("", text))
    text = re.sub(r"\bdivided\s+by\b", "/", text, flags=re.IGNORECASE)
    text = re.sub(r"\bmath\.", "", text)
    return _TIMES_LETTER.sub(" * ", text)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            if not text[at:].strip():
                break
            unread = text[at:].split(maxsplit=1)[0][:20]
            hint = " To compare, write ==." if unread.startswith("=") else ""
            raise ToolError(
                f"Can't read {unread!r}. Use only numbers, + - * / ^ %, brackets and functions such as sqrt.{hint}"
            )
        kind = str(found.lastgroup)
        word = found.group(kind)
        start, at = found.start(kind), found.end(kind)
        if kind == "name":
            word = word.lower()
            if word in _WORDS:
                kind, word = "symbol", _WORDS[word]
        tokens.append(_Token(kind, word, start, at))
    return tokens


def _join_thousands(tokens: list[_Token], functions: Collection[str], one_argument: Collection[str]) -> list[_Token]:
    """Make one number of ``1,234,567.8``; inside a function of several arguments a comma parts arguments.

    ``max(1,234)`` is read as two numbers. Where the spacing or a group such as ``000`` speaks for the other
    reading, both are possible and neither is guessed.
    """
    joined: list[_Token] = []
    calls: list[str | None] = []  # for each open bracket: the function it belongs to
    commas: list[list[_Comma]] = []  # and its commas
    at = 0
    while at < len(tokens):
        token = tokens[at]
        inside = calls[-1] if calls else None
        if token.text in ("(", "["):
            before = joined[-1] if joined else None
            named = before.text if before and before.kind == "name" and before.text in functions else None
            calls.append(inside if token.text == "[" and before and before.text == "(" else named)
            commas.append([])
        elif token.text in (")", "]") and calls:
            _refuse_ambiguous(commas.pop(), calls.pop())
        elif token.text == "," and inside is not None and inside not in one_argument:
            commas[-1].append(_comma(tokens, at))
        elif (
            token.kind == "number"
            and re.fullmatch(r"\d{1,3}", token.text)
            and (inside is None or inside in one_argument)
        ):
            last = at
            while last + 2 < len(tokens) and "." not in tokens[last].text and _comma(tokens, last + 1).groups:
                last += 2
            digits = "".join(part.text for part in tokens[at : last + 1 : 2])
            joined.append(_Token("number", digits, token.start, tokens[last].end))
            at = last + 1
            continue
        joined.append(token)
        at += 1
    return joined


def _comma(tokens: list[_Token], at: int) -> _Comma:
    """What speaks for the comma at an index being part of a number."""
    if tokens[at].text != "," or not 0 < at < len(tokens) - 1:
        return _Comma(groups=False, zero=False, spaced=False)
    before, after = tokens[at - 1], tokens[at + 1]
    tight = before.end == tokens[at].start and tokens[at].end == after.start
    group = (
        tight
        and before.kind == after.kind == "number"
        and bool(re.fullmatch(r"\d{1,3}", before.text))
        and bool(_GROUP.fullmatch(after.text))
    )
    return _Comma(groups=group, zero=group and after.text.startswith("0"), spaced=not tight)


def _refuse_ambiguous(commas: list[_Comma], function: str | None) -> None:
    if any(comma.groups for comma in commas) and any(comma.zero or comma.spaced for comma in commas):
        raise ToolError(
            f"The commas inside {function}(…) can be read in two ways. "
            "Write numbers there without thousands separators: 1234, not 1,234."
        )


def _rewrite(tokens: list[_Token], functions: Collection[str]) -> Expression:
    out: list[str] = []
    numbers: dict[str, Fraction] = {}
    brackets: list[tuple[int, str, bool]] = []  # where the operand begins, the closing bracket, is a list in a call
    operand = 0  # where the operand just written begins
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text if at else ""
        if token.kind == "number":
            operand = len(out)
            name = f"N{len(numbers)}"
            numbers[name] = _number(token.text)
            out.append(name)
        elif token.kind == "name":
            operand = len(out)
            out.append(token.text)
        elif token.text in ("(", "["):
            called = before in functions
            listed = token.text == "[" and before == "("
            brackets.append((len(out) - called, ")" if token.text == "(" else "]", listed))
            out += [] if listed else ["("]
        elif token.text in (")", "]"):
            if not brackets or brackets[-1][1] != token.text:
                raise ToolError(f"The brackets don't match: a {token.text} has no partner.")
            operand, _, listed = brackets.pop()
            out += [] if listed else [")"]
        elif token.text in _POSTFIX or (token.text == "%" and _is_percent(tokens, at)):
            if not _ends_operand(tokens, at - 1):
                raise ToolError(f"Write a number before {token.text!r}.")
            out[operand:] = [_POSTFIX.get(token.text, "percent"), "(", *out[operand:], ")"]
        elif token.text == "," and not brackets:
            raise ToolError("Can't read the comma. Write decimals with a point (0.17) and thousands as 1234 or 1,234.")
        else:
            out.append("%" if token.text == "modulo" else token.text)
    if brackets:
        raise ToolError(f"The brackets don't match: {len(brackets)} not closed.")
    return Expression(" ".join(out), numbers)


def _ends_operand(tokens: list[_Token], at: int) -> bool:
    return at >= 0 and (tokens[at].kind != "symbol" or tokens[at].text in (")", "]", "!", "%", "°"))


def _is_percent(tokens: list[_Token], at: int) -> bool:
    """Whether the % at an index says "percent"; otherwise it asks for the remainder."""
    if at + 1 == len(tokens):
        return True
    after = tokens[at + 1]
    if after.kind != "symbol" or after.text in ("(", "["):
        return False
    if after.text in ("+", "-") and at + 2 < len(tokens):
        # "10 % -3" asks for a remainder, "10% - 3" and "10%-3" do not: the sign belongs to what it touches.
        apart = at > 0 and tokens[at - 1].end < tokens[at].start
        return not (apart and tokens[at].end < after.start and after.end == tokens[at + 2].start)
    return True


def _number(text: str) -> Fraction:
    text = text.replace("_", "")
    if text[:2].lower() in ("0x", "0b"):
        return Fraction(int(text, 0))
    exponent = re.search(r"[eE]([+-]?\d+)$", text)
    if exponent and (len(exponent[1]) > 6 or abs(int(exponent[1])) > MAX_EXPONENT):
        raise ToolError(f"The number {text[:20]} is out of range: powers of ten go up to {MAX_EXPONENT}.")
    return Fraction(text)
