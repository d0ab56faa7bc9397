"""The argument of an action: JSON first, then what can be mended without guessing, then plain text.

Repairs in order: JSON; Python literals, comments, quotes and commas set right, by one reader that goes over the text
once; and, where a wrong guess does no harm, a repair library whose result counts only if every text in it stands in
the reply. What has no key and value is text, and is left as it is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

NOTHING = frozenset({"", "none", "null", "nil", "n/a", "na", "-", "无"})
"""How models write that there is nothing, in lower case."""

# The repair library is not linear; nobody means a broken argument of this size.
_MOST_REPAIRED, _MOST_PAIRS = 16_000, 250
_DEEPEST = 200

_PREFIX = re.compile(
    r"\s*+(?:[*_]{1,3}+\s*+)?+(?:(?P<fence>`{3,}+|~{3,}+)[\w+-]*+\s*+|`\s*+|json\b\s*+)?+"
    r"(?P<wrapped>(?:[^\W\d][\w.]*+)?+\(\s*+)?+(?=[{\[\"])"
)
_CLOSES = re.compile(r"\s*+\)")
_LINE_ENDS = re.compile(r"[^\S\n]*+(?:`++|\)?+)[^\S\n]*+(?:<[|｜]|$)", re.MULTILINE)
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# Ahead of a value: does this look like an object or a list that was meant as JSON?
_STRING = "|".join(
    (
        r"\"{3}(?:[^\"\\]|\\.|\"(?!\"{2}))*+\"{3}",
        r"'{3}(?:[^'\\]|\\.|'(?!'{2}))*+'{3}",
        r"\"(?:[^\"\\]|\\.)*+\"",
        r"'(?:[^'\\]|\\.)*+'",
        r"[“„][^”“]*+[”“]",
        r"‘[^’]*+’",
    )
)
_OBJECT = re.compile(
    rf"\{{\s*+(?:(?P<string>{_STRING})\s*+(?P<after>.)?|[\"'“„‘]|[\w$-]++\s*+[:=]|\}}|//|/\*|\#|$)", re.DOTALL
)
_LIST = re.compile(
    rf"\[\s*+(?:(?:{_STRING})\s*+(?:[,\]]|$)|[{{\[\"'“„]|(?:-?\d[\d.eE+-]*+|true|false|null|True|False|None)\s*+(?:[,\]]|$)|\]|$)"
)
_TOKEN = re.compile(
    rf"""
    (?P<string>{_STRING})
    | (?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/|\#[^\n]*+)
    | (?P<unclosed>/\*)
    | (?P<open>[{{\[(]) | (?P<close>[}}\])]) | (?P<comma>,)
    | (?P<number>[-+]?\d[\w.+-]*+)
    | (?P<word>[^\W\d][\w$-]*+(?:'\w++)*+)
    | (?P<other>[^"'“„‘/\#{{}}\[\](),A-Za-z_\s]++|\s++)
    | (?P<quote>["'“„‘]) | (?P<any>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_PAIRS = {"{": "}", "[": "]", "(": ")"}
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,300}(?:\.\d{1,300})?(?:[eE][+-]?\d{1,2})?(?![\w.])")
_ESCAPE = re.compile(
    r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(?:x([0-9a-fA-F]{2})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4}))|(\')|(.))|(")',
    re.DOTALL,
)


class BadArgumentsError(ValueError):
    """Arguments that were meant as JSON and cannot be read without guessing; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value in a reply: the value, where it and what wraps it end, and whether it had to be mended."""

    value: Any
    end: int
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments that were read: their value, whether they had to be mended, and what stood behind them."""

    value: Any
    repaired: bool = False
    rest: str = ""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number that JSON knows")
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


# Models put raw line breaks into strings; strict=False reads them.
DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_no_constant)


def decode_at(text: str, at: int) -> JsonValue | None:
    """The JSON object, list or text that begins at a place, behind stars, ticks, a fence or a name that wraps it.

    Args:
        text: The reply.
        at: Where the argument begins.

    Returns:
        None where there is none, not even as Python or sloppy JSON write it. A list or a text counts only if nothing
        follows it on its line.
    """
    prefix = _PREFIX.match(text, at)
    if prefix is None:
        return None
    first = prefix.end()
    if text[first] == '"' and prefix["wrapped"]:
        return None
    found = value_at(text, first)
    if found is None:
        return None
    end = found.end
    if prefix["wrapped"]:
        closing = _CLOSES.match(text, end)
        if closing is None:
            return None
        end = closing.end()
    if text[first] != "{" and not _LINE_ENDS.match(text, end):
        return None
    return replace(found, end=end)


def read_arguments(text: str, *, decoded: JsonValue | None, strict: bool, cut: bool) -> Arguments:
    """Read the argument of an action.

    Args:
        text: The argument as it stands in the reply, trimmed.
        decoded: The JSON value it begins with, where :func:`decode_at` found one; what follows it is in ``text``.
        strict: Refuse what only a guess could mend.
        cut: Whether the text ends at a label: a string left open would have held it.

    Raises:
        BadArgumentsError: It was meant as JSON, and cannot be read.
    """
    if decoded is not None:
        return Arguments(_unwrapped(decoded.value), decoded.repaired, rest=text)
    if text.lower() in NOTHING or text in ('""', "''"):
        return Arguments({})
    body = _bare(text)
    if body[:1] in "{[" and body:
        return _structured(body, text, strict=strict, cut=cut)
    if len(body) > 1 and body[0] == body[-1] == "'" and "'" not in body[1:-1] and "\\" not in body:
        return Arguments(body[1:-1])
    if re.match(r'"[^"\\\n]{1,64}"\s*+:', body):
        return _structured("{" + body.removesuffix("}") + "}", text, strict=strict, cut=cut)
    return Arguments(text)


def nothing_meant(text: str) -> bool:
    """Whether a text says that there is nothing."""
    return text.strip().strip("'\"`*.").lower() in NOTHING


def loads(text: str) -> Any:
    """A JSON value that makes up a whole text.

    Raises:
        ValueError: It is none.
    """
    try:
        return sound(DECODER.decode(text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _bare(text: str) -> str:
    """The argument without stars, ticks or a fence around what may be JSON; text is not touched."""
    prefix = re.match(r"(?:[*_]{1,3}+\s*+)?+(?:(?P<fence>`{3,}+|~{3,}+)[\w+-]*+\s*+|(?P<tick>`)\s*+)?+(?=[{\[])", text)
    if prefix is None:
        return text
    body = text[prefix.end() :]
    if prefix["fence"]:
        body = re.sub(rf"\n[^\S\n]*+{prefix['fence']}[^\S\n]*+$", "", body)
    return body.rstrip("` \t\n") if prefix["tick"] else body.rstrip()


def value_at(text: str, at: int) -> JsonValue | None:
    """The JSON value that begins at a place, or the object or list as Python or sloppy JSON write it, or None."""
    try:
        value, end = DECODER.raw_decode(text, at)
        return JsonValue(sound(value), end)
    except RecursionError:
        return None
    except ValueError:
        last, cleaned, _ = _relaxed(text, at) if text[at] in "{[" else (None, "", False)
    if last is None:
        return None
    try:
        return JsonValue(loads(cleaned), last, repaired=True)
    except ValueError:
        return None


def _structured(body: str, text: str, *, strict: bool, cut: bool) -> Arguments:
    """What was perhaps meant as an object or a list, and is not valid JSON."""
    if not _looks_meant(body):
        return Arguments(text)
    end, cleaned, open_string = _relaxed(body)
    rest = "" if end is None else body[end:].strip()
    if body[0] == "[" and rest.partition("\n")[0]:
        return Arguments(text)  # "[1] as the footnote says"
    if end is not None:
        try:
            value = loads(cleaned)
        except ValueError:
            pass
        else:
            return Arguments(value, repaired=True, rest=rest)
    if end is None and open_string and cut:
        raise BadArgumentsError("a text in the JSON is not closed")
    what = "it ends before it is complete" if end is None else "it is not valid JSON"
    if strict:
        raise BadArgumentsError(what)
    value = _guessed(body if end is None else body[:end])
    if value is None:
        raise BadArgumentsError(what)
    return Arguments(value, repaired=True, rest=rest)


def _looks_meant(body: str) -> bool:
    if body[0] == "[":
        return _LIST.match(body) is not None
    found = _OBJECT.match(body)
    # A text in braces alone is no pair of key and value.
    return found is not None and not (found["string"] and found["after"] in ("}", ","))


def _relaxed(body: str, at: int = 0) -> tuple[int | None, str, bool]:
    """Read a value as Python and sloppy JSON write it, once from left to right.

    Returns:
        Where it ends (None: it does not), the same as JSON, and whether a text in it is left open.
    """
    out: list[str] = []
    closers: list[str] = []
    comma = False
    while at < len(body):
        token = _TOKEN.match(body, at)
        if token is None:
            break
        at = token.end()
        kind, piece = token.lastgroup, token[0]
        if kind in ("quote", "unclosed"):  # an end that is not there is looked for once
            return None, "", kind == "quote"
        if kind == "comment" or (kind == "other" and piece.isspace()):
            out.append(" ")
            continue
        if comma and kind not in ("close", "comma"):
            out.append(",")
        comma = kind == "comma"
        if comma:
            continue
        if kind == "open":
            closers.append(_PAIRS[piece])
            out.append("[" if piece == "(" else piece)
        elif kind == "close":
            if not closers or closers.pop() != piece or len(closers) > _DEEPEST:
                return None, "", False
            out.append("]" if piece == ")" else piece)
            if not closers:
                return at, "".join(out), False
        elif kind == "string":
            out.append(_requoted(piece))
        else:
            out.append(f" {_PYTHON.get(piece, piece)} " if kind == "word" else piece)
    return None, "", False


def _requoted(piece: str) -> str:
    """A text in whatever quotes as JSON has it."""

    def escape(found: re.Match[str]) -> str:
        plain, hexed, long, apostrophe, other, quote = found.groups()
        if plain is not None:
            return found[0]
        if hexed is not None:
            return f"\\u00{hexed}"
        if long is not None:
            return chr(int(long, 16))
        if apostrophe is not None:
            return "'"
        return '\\"' if quote is not None else f"\\\\{other}"

    quotes = 3 if len(piece) >= 6 and piece[:3] in ('"""', "'''") else 1
    return f'"{_ESCAPE.sub(escape, piece[quotes:-quotes])}"'


def _guessed(body: str) -> Any:
    """What a repair library makes of it, if that is an object or a list and says nothing that the text does not."""
    if len(body) > _MOST_REPAIRED or body.count(",") > _MOST_PAIRS:
        return None
    from json_repair import repair_json  # a second to import, and seldom needed

    try:
        value = repair_json(body, return_objects=True, skip_json_loads=True)
        fits = isinstance(value, dict if body[0] == "{" else list) and value and _is_grounded(value, body)
        return sound(value) if fits else None
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError):
        return None


def _is_grounded(value: Any, body: str) -> bool:
    """Whether every leaf stands in the text, in this order."""
    said, at = _letters(body), 0
    written = set(_NUMBER.findall(body))
    numbers = {float(found) for found in written}
    for leaf in _leaves(value):
        if isinstance(leaf, str):
            wanted = _letters(leaf)
            if not wanted and not re.search(r"\"\s*\"|'\s*'", body):
                return False
        elif leaf is None or isinstance(leaf, bool):
            wanted = {None: "n", True: "true", False: "false"}[leaf]
        else:
            wanted = ""  # 1.50 is 1.5
            if str(leaf) not in written and not (isinstance(leaf, float) and leaf in numbers):
                return False
        at = said.find(wanted, at)
        if at < 0:
            return False
        at += len(wanted)
    return True


def _letters(text: str) -> str:
    return re.sub(r"[\s\"'\\“”„‘’`]++", "", text).lower()


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _unwrapped(value: Any) -> Any:
    """An object that was encoded twice, as itself; a text that says nothing, as no arguments."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() in NOTHING:
        return {}
    if value.lstrip()[:1] in "{[" and value.strip():
        try:
            inner = loads(value)
        except ValueError:
            return value
        return inner if isinstance(inner, dict | list) else value
    return value


def sound(value: Any) -> Any:
    """A value whose texts can be encoded: half of a surrogate pair, which JSON can write, is replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value) if not value.isascii() else value
    if isinstance(value, dict):
        return {sound(key): sound(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [sound(inner) for inner in value]
    return value
