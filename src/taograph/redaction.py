"""Keeping secrets out of texts that leave the process: errors, details, events.

Only what is surely a key is taken out: a text for the model has to keep the names of arguments, tables and
models that look a little like one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

_NAMED = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?$", re.IGNORECASE)
_SHAPES = re.compile(
    # By their prefix, also right after a Chinese sign, which is a letter to a plain \b. A digit or a star (a key that
    # was masked) tells a key from "sk-learn" or "hf-internal-testing".
    r"(?a:\b)(?:sk|pk|rk)-(?=[A-Za-z0-9_*-]{0,60}[0-9*])[A-Za-z0-9_*-]{8,}"
    r"|(?a:\b)(?:sk|pk|rk)-[A-Za-z]{16,}"
    r"|(?a:\b)sk-(?:proj|svcacct|admin|ant|or)-[A-Za-z0-9_*-]{16,}"
    r"|(?a:\b)hf_[A-Za-z]{30,}"  # many of these have no digit
    r"|(?a:\b)(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9*]{8,}"
    r"|(?a:\b)(?:gsk|gh[oprsu]|github_pat|lsv2|hf|npm|r8)_(?=[A-Za-z0-9_*]{0,60}[0-9*])[A-Za-z0-9_*]{16,}"
    r"|(?a:\b)(?:xai|glpat|tvly|pplx|nvapi|xox[abeprs])-(?=[A-Za-z0-9_*-]{0,60}[0-9*])[A-Za-z0-9_*-]{10,}"
    r"|(?a:\b)AKIA[0-9A-Z]{12,}"
    r"|(?a:\b)AIza[0-9A-Za-z_-]{20,}"
    r"|(?a:\b)eyJ[A-Za-z0-9_-]{8,1000}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,10000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
    # By their place.
    r"|(?<=://)(?!user:password@)[^/\s:@]{1,100}:[^/\s@]{1,100}(?=@)"
    r"|(?i:(?<=Bearer )|(?<=Authorization: Basic ))[^\s\"']+"
    r"|(?i:(?<=[?&]key=)|(?<=[?&]sig=)|(?<=[?&]token=))[^\s&\"'#]+"
)
# api_key=…, "api_key": "…", x-api-key: … A value without quotes behind a colon has to hold a digit: words that
# say what is wrong with an argument of that name stand there, too.
_ASSIGNED = re.compile(
    r"(?i)((?:api[-_]?key|access[-_]?key|secret[-_]?key|(?:access|auth|refresh)[-_]?token|client[-_]?secret|password)"
    r"(?:[\"']?\s{0,3}[:=]\s{0,3}[\"'](?=[^\s\"'])|=(?![\"'\s])|:\s{0,3}(?=[^\s\"',;&}]{0,200}[0-9])))"
    r"([^\s\"',;&}]+)"
)
HIDDEN = "[secret]"

# Whatever the patterns match holds one of these, in small letters: most texts hold none, and to see that takes a
# twentieth of the time.
_IN_SHAPES = (
    *("sk-", "pk-", "rk-", "hf_", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghr_", "ghs_", "ghu_", "github_pat_", "lsv2_"),
    *("npm_", "r8_", "xai-", "glpat-", "tvly-", "pplx-", "nvapi-", "xox", "akia", "aiza", "eyj", "-----begin ", "://"),
    *("bearer ", "authorization: basic ", "key=", "sig=", "token="),
)
_IN_ASSIGNED = ("key", "token", "secret", "password")
# What is none of these letters, and counts as one where a pattern is blind to capitals.
_LIKE_LETTERS = re.compile("[\u0130\u0131\u017f\u212a]")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without keys: those of the usual shapes, and the values of this process's secret variables.

    Args:
        text: Any text.
        secrets: Values to take out besides, such as a key that was given in code.
    """
    return without(text, {*named(), *filter(None, secrets)})


def without(text: str, values: Iterable[str]) -> str:
    """A text without these values, and without keys of the usual shapes.

    Args:
        text: Any text.
        values: What is secret, such as :func:`named` gives: for many texts it is looked up once.
    """
    # The longest first: a value that holds another would leave its rest behind.
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    shapes, assigned = _may_hold(text)
    if shapes:
        text = _SHAPES.sub(HIDDEN, text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text) if assigned or shapes else text


def find(text: str, secrets: Iterable[str] = ()) -> list[tuple[int, int]]:
    """Where keys of the usual shapes stand: start and end of each. They may overlap.

    Args:
        text: Any text.
        secrets: Values to find besides, such as :func:`named` gives.
    """
    shapes, assigned = _may_hold(text)
    found = [match.span() for match in _SHAPES.finditer(text)] if shapes else []
    if assigned:
        found += [match.span(2) for match in _ASSIGNED.finditer(text)]
    for value in secrets:
        at = text.find(value)
        while at >= 0:
            found.append((at, at + len(value)))
            at = text.find(value, at + len(value))
    return found


def _may_hold(text: str) -> tuple[bool, bool]:
    """Whether a key of a usual shape may be in a text, and whether one may be by its place."""
    if not text.isascii() and _LIKE_LETTERS.search(text):
        return True, True
    low = text.lower()
    return any(part in low for part in _IN_SHAPES), any(part in low for part in _IN_ASSIGNED)


def named() -> list[str]:
    """The values of this process's secret variables."""
    raw = getattr(os.environ, "_data", None)  # as the variables are kept: equal to a copy of then if none has changed
    seen, values = _seen[0]
    if raw is None or raw != seen:
        copy = None if raw is None else raw.copy()  # before they are read: what changes meanwhile is seen next time
        values = tuple(value for name, value in os.environ.items() if len(value) >= 8 and _NAMED.search(name))
        _seen[0] = copy, values
    return list(values)


_seen: list[tuple[Any, tuple[str, ...]]] = [(None, ())]
