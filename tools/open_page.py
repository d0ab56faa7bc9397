"""Reading a web page.

Only public pages, unless its user allows more: see :mod:`taograph.tools.engines.web_addresses`. A site's
robots.txt is kept to, and requests name this software.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

import httpcore
from langchain_core.tools import BaseTool

from taograph.background import run_async
from taograph.tools.engines.passages import split
from taograph.tools.engines.web_addresses import AddressRules
from taograph.tools.engines.web_connection import Resolve, system_resolve
from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_fetch import Fetcher
from taograph.tools.engines.web_robots import Robots
from taograph.tools.engines.web_text import read_page
from taograph.tools.policy import ToolExample, tool

PAGE_CHARS = 6000
"""Characters of the text of one page of a long text."""
_READ_SECONDS = 15.0
_KEPT_SECONDS = 600.0
_KEPT_CHARS = 5_000_000
_SHOWN_URL = 500

_EXAMPLE = ToolExample(
    question="Until when is the city library of Example Town open on Fridays?",
    args={"url": "https://library.example.org/visit"},
    observation=(
        "Visit the library\nhttps://library.example.org/visit, page 1 of 1\n\n"
        "The reading rooms are open from 9 am to 6 pm on weekdays, and until 8 pm on Fridays."
    ),
    answer="It is open until 8 pm on Fridays (https://library.example.org/visit).",
)


def open_page_tool(
    *,
    allow_private: Iterable[str] = (),
    respect_robots: bool = True,
    timeout: float = 20.0,
    max_bytes: int = 8_000_000,
    user_agent: str | None = None,
    certificates: ssl.SSLContext | None = None,
    resolve: Resolve = system_resolve,
    network: httpcore.AsyncNetworkBackend | None = None,
) -> BaseTool:
    """The tool ``open_page``.

    Proxies named in the environment are not used: a proxy looks up names itself, so that private addresses
    could not be told from public ones.

    Args:
        allow_private: What may be read beside public pages at the usual ports: hosts and networks of one's
            own, such as ``["wiki.example", "10.1.0.0/16", "127.0.0.1:8000"]``. A network is open under every
            name that leads to it.
        respect_robots: Whether to keep to the robots.txt of sites.
        timeout: Seconds for getting a page with everything.
        max_bytes: Bytes of a page at most, unpacked.
        user_agent: How to name oneself; as ``taograph/…`` when absent.
        certificates: The certificates to trust; the usual ones when absent.
        resolve: How names are looked up.
        network: What makes the connections, once an address is checked.

    Raises:
        ValueError: An entry of ``allow_private`` can't be read, or a library is missing; it says the fix.
    """
    if not all(find_spec(name) for name in ("trafilatura", "protego")):
        raise ValueError("open_page reads pages with trafilatura and protego: pip install taograph[web]")
    fetcher = Fetcher(
        AddressRules(allow_private),
        robots=Robots() if respect_robots else None,
        seconds=timeout,
        max_bytes=max_bytes,
        agent=user_agent,
        certificates=certificates,
        resolve=resolve,
        network=network,
    )
    kept = _Kept()

    @tool(effects="none", timeout=timeout + _READ_SECONDS + 5.0, max_chars=None, trusted=False, examples=(_EXAMPLE,))
    def open_page(url: str, page: int = 1) -> str:
        """Read a web page or PDF as text. Example: open_page(url="https://example.org/about").

        Args:
            url: The address of the page, from a search result or the question.
            page: Which page of a long text to read, from 1.
        """
        if page < 1:
            raise WebError("page", f"There is no page {page}. Pages are counted from 1.")
        pages = kept.get(url) if page > 1 else None  # page 1 is always got anew: it may have changed
        if pages is None:
            fetched = run_async(fetcher.get(url))
            text = read_page(fetched, _READ_SECONDS)
            pages = _Pages(fetched.url, text.title, text.date, tuple(split(text.text, PAGE_CHARS)), text.cut)
            kept.put(url, pages)
        return _shown(url, pages, page)

    return open_page


@dataclass(frozen=True, slots=True)
class _Pages:
    url: str
    title: str
    date: str
    texts: tuple[str, ...]
    cut: bool


class _Kept:
    """The texts read last, for their further pages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, _Pages]] = OrderedDict()

    def get(self, url: str) -> _Pages | None:
        with self._lock:
            until, pages = self._kept.get(url, (0.0, None))
            return pages if until > time.monotonic() else None

    def put(self, url: str, pages: _Pages) -> None:
        with self._lock:
            self._kept.pop(url, None)
            self._kept[url] = (time.monotonic() + _KEPT_SECONDS, pages)
            size = sum(len(text) for _, each in self._kept.values() for text in each.texts)
            while size > _KEPT_CHARS:
                _, (_, dropped) = self._kept.popitem(last=False)
                size -= sum(map(len, dropped.texts))


def _shown(asked: str, pages: _Pages, number: int) -> str:
    count = len(pages.texts)
    if number > count:
        raise WebError("page", f"There is no page {number}: this text has {count} page{'s' if count > 1 else ''}.")
    dated = f", dated {pages.date}" if pages.date else ""
    head = f"{pages.title}\n" if pages.title else ""
    head += f"{pages.url[:_SHOWN_URL]}{dated}, page {number} of {count}"
    foot = f'\n\nGo on: open_page(url="{asked}", page={number + 1})' if number < count else ""
    if pages.cut and number == count:
        foot = "\n\nThe text is longer than can be read: its end is missing here."
    return f"{head}\n\n{pages.texts[number - 1]}{foot}"
