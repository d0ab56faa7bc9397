"""What a site's robots.txt lets a program read (RFC 9309)."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

import httpx
from protego import Protego

from taograph.tools.engines.web_errors import WebError

TOKEN = "taograph"  # noqa: S105 - the product token of RFC 9309
MOST_BYTES = 512_000
"""What is read of a robots.txt; the rest is left out, as the RFC allows from 500 KiB on."""
_SECONDS = 3600.0
_SECONDS_OUT_OF_ORDER = 60.0
_MOST_SITES = 500


@dataclass(frozen=True, slots=True)
class RobotsReply:
    """What a site answered for its robots.txt.

    Attributes:
        status: The HTTP status of the last answer, redirects followed.
        body: Its body where the status is 200, unpacked; at most :data:`MOST_BYTES` are used.
    """

    status: int
    body: bytes = b""


class Robots:
    """The rules of the sites that were read from lately."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sites: OrderedDict[str, tuple[float, Protego | int | None]] = OrderedDict()

    async def check(self, url: httpx.URL, fetch: Callable[[httpx.URL], Awaitable[RobotsReply]]) -> None:
        """Refuse a page that its site wants no programs to read.

        Args:
            url: The page.
            fetch: Gets a robots.txt. What it raises is raised: the site can't be reached, or may not be.

        Raises:
            WebError: The page may not be read, or what may be can't be known now.
        """
        site = str(url.copy_with(raw_path=b"/"))
        async with self._locks.setdefault(site, asyncio.Lock()):  # pages opened at once ask for it once
            until, rules = self._sites.get(site, (0.0, None))
            if until < time.monotonic():
                reply = await fetch(url.copy_with(raw_path=b"/robots.txt"))
                rules, seconds = await asyncio.to_thread(_read, reply)  # up to a second of work for a long one
                self._sites[site] = (time.monotonic() + seconds, rules)
                while len(self._sites) > _MOST_SITES:
                    self._sites.popitem(last=False)
        if isinstance(rules, int):
            raise WebError(
                "robots",
                f"{url.host} was not read: whether programs may read it can't be known, since its robots.txt is out "
                f"of order (status {rules}). Use another source.",
                status=rules,
            )
        if rules is not None and not rules.can_fetch(str(url), TOKEN):
            raise WebError(
                "robots", f"{url.host} lets no programs read this page (its robots.txt says so). Use another source."
            )


def _read(reply: RobotsReply) -> tuple[Protego | int | None, float]:
    """The rules, None where everything is allowed, or the status where nothing can be known; and for how long."""
    if reply.status == 429 or reply.status >= 500:
        return reply.status, _SECONDS_OUT_OF_ORDER
    if reply.status != 200:
        return None, _SECONDS
    text = reply.body[:MOST_BYTES].decode("utf-8-sig", errors="replace")
    return Protego.parse(_ours(text)), _SECONDS


def _ours(text: str) -> str:
    """A robots.txt in which every agent that is neither ours nor ``*`` has one name.

    The parser's work grows with agents times rules, so a file with ten thousand of each would take it minutes.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        agent = re.match(r"\s*user[ -]?agent\b\s*:?([^#]*)", line, re.IGNORECASE)
        name = agent[1].partition("/")[0].strip().lower() if agent else ""
        if name:
            lines[number] = f"User-agent: {name if name in ('*', TOKEN) else 'another'}"
    return "\n".join(lines)
