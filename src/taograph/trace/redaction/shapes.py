"""What is known by its form alone: e-mail addresses, addresses of machines, dates of birth."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from taograph.trace.redaction import words
from taograph.trace.redaction.rules import LIKELY, SURE, UNSURE, Candidate

_LATIN = "À-ÖØ-öø-ɏ"
_LOCAL = re.compile(rf"[A-Za-z0-9{_LATIN}_+-](?:[A-Za-z0-9{_LATIN}.'%_+-]{{0,62}}[A-Za-z0-9{_LATIN}_+-])?\Z")
_DOMAIN = re.compile(
    rf"(?:[A-Za-z0-9{_LATIN}](?:[A-Za-z0-9{_LATIN}-]{{0,62}}[A-Za-z0-9{_LATIN}])?\.){{1,8}}[A-Za-z]{{2,24}}(?![A-Za-z0-9(])"
)
_AT = re.compile(r"@| ?[\[(] ?(?:at|AT|ät) ?[\])] ?")
# A picture for a dense screen (logo@2x.png) and a Git remote are no addresses.
_FILES = frozenset(
    (
        "png",
        "jpg",
        "jpeg",
        "gif",
        "svg",
        "webp",
        "ico",
        "css",
        "js",
        "mjs",
        "ts",
        "tsx",
        "json",
        "html",
        "py",
        "md",
        "txt",
    )
)

_IPV4 = re.compile(r"(?<![0-9A-Za-z.])(?<![A-Za-z]/)(?=((?:\d{1,3}\.){3}\d{1,3})(?![0-9A-Za-z])(?!\.\d))")
_DOTTED = re.compile(r"\d\.\d{1,3}\.\d{1,3}\.\d")  # is in each of them, and found ten times as fast
_IPV6 = re.compile(r"(?<![0-9A-Za-z.])(?=([0-9A-Fa-f:]{2,39}(?:(?:\d{1,3}\.){3}\d{1,3})?)(?![0-9A-Za-z:]))")
_HEX = re.compile(r"(?:(?:^|[^0-9A-Za-z])[0-9A-Fa-f]{1,4}|:):\Z")
_VERSION = re.compile(
    r"(?:version|wersj\w*|版本|release|build|==|>=|<=|~=|\bv|§|art|chapter|section|abschnitt|kapitel"
    r"|rozdzia\w*|modu\w*|kern|第|见)[ .:=]{0,3}\Z",
    re.IGNORECASE,
)
_MAC = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9A-F]{2}[:-])(?=((?:[0-9A-F]{2}([:-]))(?:[0-9A-F]{2}\2){4}[0-9A-F]{2}"
    r"|(?:[0-9A-F]{4}\.){2}[0-9A-F]{4})(?![0-9A-Za-z]|[:-][0-9A-F]))",
    re.IGNORECASE,
)

_MONTHS = (
    r"jan\w*|feb\w*|m[aä]r\w*|apr\w*|ma[iyj]\w*|june?|july?|juni|juli|aug\w*|sep\w*|o[ck]t\w*|nov\w*|de[cz]\w*"
    r"|stycz\w*|lut\w*|kwie\w*|czerw\w*|lip\w*|sierp\w*|wrze\w*|pa[zź]dz\w*|listop\w*|grud\w*"
)
_DATE = re.compile(
    r"(?<![0-9A-Za-z])(?=("
    r"(?:1[89]|20)\d\d(?:[-./]\d{1,2}[-./]\d{1,2}| ?年 ?\d{1,2} ?月 ?\d{1,2} ?[日号]?|[01]\d[0-3]\d)"
    r"|\d{1,2}[-./] ?\d{1,2}[-./] ?(?:(?:1[89]|20)\d\d|\d\d)"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?(?:{_MONTHS})\.?,? (?:1[89]|20)\d\d"
    rf"|(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?,? (?:1[89]|20)\d\d"
    r")(?![0-9A-Za-z]))",
    re.IGNORECASE,
)


def emails(text: str) -> Iterator[Candidate]:
    """E-mail addresses, from each @ outwards: so a long word without one costs nothing."""
    for sign in _AT.finditer(text):
        local = _LOCAL.search(text, max(0, sign.start() - 64), sign.start())
        domain = local and _DOMAIN.match(text, sign.end())
        if not local or not domain or domain[0].rsplit(".", 1)[1].lower() in _FILES:
            continue
        if local[0] != "git" or text[domain.end() : domain.end() + 1] != ":":
            yield Candidate(local.start(), domain.end(), "EMAIL", SURE, SURE)


def addresses(text: str) -> Iterator[Candidate]:
    """Addresses of machines in a network; not those that every machine has (127.0.0.1, 0.0.0.0, masks)."""
    if _DOTTED.search(text):
        for match in _IPV4.finditer(text):
            if _is_somebody(match[1], text, match.end(1)) and not _VERSION.search(
                text, max(0, match.start() - 16), match.start()
            ):
                yield Candidate(*match.span(1), "IP", LIKELY, SURE)
    if text.count(":") >= 2:
        for match in _IPV6.finditer(text):
            if match.start() and text[match.start() - 1] == ":" and _HEX.search(text, match.start() - 6, match.start()):
                continue  # within one; "ip:" before it is none of its groups
            address = match[1].rstrip(":") if not match[1].endswith("::") else match[1]
            named = address.count(":") >= 2 and (address.count(":") > 2 or len(address.split(":")[0]) > 2)
            if named and _is_somebody(address, text, match.start(1) + len(address)):
                yield Candidate(match.start(1), match.start(1) + len(address), "IP", LIKELY, SURE)


def _is_somebody(address: str, text: str, end: int) -> bool:
    if address.endswith((".0", "::")) and text[end : end + 1] == "/" and text[end + 1 : end + 2].isdigit():
        return False  # a network
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (ip.is_loopback or ip.is_unspecified or ip.is_multicast or str(ip).startswith("255."))


def macs(text: str) -> Iterator[Candidate]:
    """Addresses of network cards; not the one that means all of them, or none."""
    if max(text.count(":"), text.count("-")) < 5 and text.count(".") < 2:
        return
    for match in _MAC.finditer(text):
        if len(set(match[1].lower()) - set(":-.")) > 1:
            yield Candidate(*match.span(1), "MAC", LIKELY, SURE)


def dates(text: str) -> Iterator[Candidate]:
    """Dates that stand near a word for birth."""
    for start, end in words.around(text, "BIRTH_DATE", 80):
        for match in _DATE.finditer(text, start, end):
            yield Candidate(*match.span(1), "BIRTH_DATE", UNSURE, LIKELY)
