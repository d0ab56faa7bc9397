"""The services that search the web, each behind the same call: words in, titles with URLs and snippets out.

One function makes one provider; :data:`SERVICES` is the list, so a further service is one function and one line.
"""

from __future__ import annotations

import html
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote_to_bytes

import httpx

from taograph.threads import ThreadPool
from taograph.tools.engines.http import ServiceError, get_json, post_json

SECONDS = 20.0
"""For a search with everything, of any service."""
_TITLE_CHARS = 200
_SNIPPET_CHARS = 400
_MOST_URL = 1000
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_THREADS = ThreadPool(8, "taograph-search")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One page that was found.

    Attributes:
        title: Its title.
        url: Its address, http or https.
        snippet: A few sentences of it; may be empty.
    """

    title: str
    url: str
    snippet: str


SearchProvider = Callable[[str, int], Sequence[SearchResult]]
"""Searches: takes the query and how many results are wanted, at most. Raises ``ToolError`` where it can't."""


@dataclass(frozen=True, slots=True)
class Service:
    """A search service that can be named.

    Attributes:
        make: Makes its provider from what the environment holds.
        variable: The environment variable with its key, or with its URL; empty where it needs none.
    """

    make: Callable[[], SearchProvider]
    variable: str = ""

    def ready(self) -> bool:
        """Whether it has what it needs."""
        return bool(_setting(self.variable)) if self.variable else find_spec("ddgs") is not None


def tavily(key: str, *, url: str = "https://api.tavily.com/search", seconds: float = SECONDS) -> SearchProvider:
    """Tavily, by key.

    Args:
        key: From its user's account.
        url: Where it is asked.
        seconds: For a search.

    Raises:
        ValueError: There is no key, or it can't be sent; likewise for the other services.
    """
    headers = {"authorization": f"Bearer {_sendable('TAVILY_API_KEY', key)}"}

    def search(query: str, most: int) -> Sequence[SearchResult]:
        body = {"query": query, "max_results": most}
        found = post_json(url, body, service="Tavily", headers=headers, timeout=seconds)
        return _results("Tavily", found, ("results",), ("title", "url", "content"))

    return search


def brave(
    key: str, *, url: str = "https://api.search.brave.com/res/v1/web/search", seconds: float = SECONDS
) -> SearchProvider:
    """Brave Search, by key; the arguments are those of :func:`tavily`."""
    headers = {"x-subscription-token": _sendable("BRAVE_SEARCH_API_KEY", key)}

    def search(query: str, most: int) -> Sequence[SearchResult]:
        params: dict[str, str | int] = {"q": query[:400], "count": most}
        found = get_json(url, params, service="Brave", headers=headers, timeout=seconds)
        return _results("Brave", found, ("web", "results"), ("title", "url", "description"))

    return search


def serper(key: str, *, url: str = "https://google.serper.dev/search", seconds: float = SECONDS) -> SearchProvider:
    """Serper, by key; the arguments are those of :func:`tavily`."""
    headers = {"x-api-key": _sendable("SERPER_API_KEY", key)}

    def search(query: str, most: int) -> Sequence[SearchResult]:
        found = post_json(url, {"q": query, "num": most}, service="Serper", headers=headers, timeout=seconds)
        return _results("Serper", found, ("organic",), ("title", "link", "snippet"))

    return search


def searxng(url: str, *, seconds: float = SECONDS) -> SearchProvider:
    """A SearXNG server of one's own, which needs ``json`` among its ``search: formats:``.

    Args:
        url: Its address, such as ``http://localhost:8888``.
        seconds: For a search.

    Raises:
        ValueError: That is no address.
    """
    try:
        base = httpx.URL(_sendable("SEARXNG_URL", url))
    except httpx.InvalidURL:
        base = httpx.URL()
    if base.scheme not in ("http", "https") or not base.host:
        raise ValueError("SEARXNG_URL is no URL: write it like http://localhost:8888")
    path = base.path.rstrip("/").removesuffix("/search")
    where = str(base.copy_with(path=f"{path}/search", userinfo=b"", query=None, fragment=None))
    # A password in the URL would stand in logs of requests; in a header it does not.
    login = b64encode(unquote_to_bytes(base.userinfo)).decode()
    headers = {"authorization": f"Basic {login}"} if login else {}

    def search(query: str, most: int) -> Sequence[SearchResult]:
        try:
            found = get_json(where, {"q": query, "format": "json"}, service="SearXNG", headers=headers, timeout=seconds)
        except ServiceError as error:
            if error.status == 403:
                text = "SearXNG gives no JSON: its owner has to list json under search: formats: in settings.yml."
                raise ServiceError(text, status=403) from error
            raise
        return _results("SearXNG", found, ("results",), ("title", "url", "content"))

    return search


def ddgs(
    *, region: str = "us-en", backend: str = "auto", seconds: float = SECONDS, library: Any = None
) -> SearchProvider:
    """Several public search engines at once, without a key, through the library ``ddgs``.

    Args:
        region: Country and language, as ``ddgs`` writes them.
        backend: The engines to ask, with commas between them.
        seconds: For a search.
        library: What to use in place of the module ``ddgs``.
    """

    def search(query: str, most: int) -> Sequence[SearchResult]:
        asked = (library or import_module("ddgs")).DDGS(timeout=max(1, min(5, int(seconds))))
        # Its engines are asked one after the other, each with a time of its own, so the whole has none.
        future = _THREADS.submit(lambda: asked.text(query, region=region, backend=backend, max_results=most))
        try:
            found = future.result(timeout=seconds)
        except TimeoutError as error:
            _THREADS.abandon(future)
            raise ServiceError(f"The search engines did not answer within {seconds:g} s. {_LATER}") from error
        except Exception as error:
            # Its texts name addresses and the query: not for the model. That nothing was found it also says where
            # the engines turned it away, so that is told as what is known.
            if "no results" in str(error).lower():
                text = "The search engines found nothing, or turned the request away. Search with other words"
                raise ServiceError(f"{text}, or go on without it.") from error
            raise ServiceError(f"The search engines can't be reached. {_LATER}", passing=True) from error
        return _results("ddgs", {"results": found}, ("results",), ("title", "href", "body"))

    return search


_LATER = "Search again once, or go on without it."

SERVICES: Mapping[str, Service] = {
    "tavily": Service(lambda: tavily(_setting("TAVILY_API_KEY")), "TAVILY_API_KEY"),
    "brave": Service(lambda: brave(_setting("BRAVE_SEARCH_API_KEY")), "BRAVE_SEARCH_API_KEY"),
    "serper": Service(lambda: serper(_setting("SERPER_API_KEY")), "SERPER_API_KEY"),
    "searxng": Service(lambda: searxng(_setting("SEARXNG_URL")), "SEARXNG_URL"),
    "ddgs": Service(ddgs),
}
"""In the order they are taken in where none is named."""


def _setting(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def _sendable(variable: str, value: str) -> str:
    """A key or URL, once it is there and can stand in a request."""
    value = value.strip()
    if not value:
        raise ValueError(f"{variable} is not set: put the service's key, or its URL, there")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"{variable} holds blanks or special characters, which no key or URL has: copy it again")
    return value


def _results(service: str, found: Any, path: Iterable[str], fields: tuple[str, str, str]) -> Sequence[SearchResult]:
    """The results in a service's reply, without those that are none.

    Args:
        service: Its name.
        found: The reply.
        path: Where in it they stand.
        fields: What title, URL and snippet are called there.
    """
    for key in path:
        if not isinstance(found, dict):
            raise ServiceError(f"{service} answered in a form that is not known. {_LATER}")
        found = found.get(key, {} if key == "web" else [])
    if isinstance(found, dict) and not found:  # Brave leaves out "web" where nothing was found
        return []
    if not isinstance(found, list):
        raise ServiceError(f"{service} answered in a form that is not known. {_LATER}")
    results: dict[str, SearchResult] = {}
    for each in found:
        if not isinstance(each, dict):
            continue
        title, url, snippet = (each.get(field) for field in fields)
        address = _line(url, _MOST_URL + 1)
        if re.match(r"https?://[^\s/]", address) and len(address) <= _MOST_URL:
            result = SearchResult(_line(title, _TITLE_CHARS), address, _line(snippet, _SNIPPET_CHARS))
            results.setdefault(address, result)
    return list(results.values())


def _line(value: Any, most: int) -> str:
    """One line of plain text from what a service gave: without tags, references and control characters."""
    text = value[: most * 10] if isinstance(value, str) else ""
    text = html.unescape(re.sub(r"</?(?:strong|b|em|i|mark|span|br)\b[^>]{0,200}>", "", text))
    text = " ".join(
        re.sub(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", " ", text).split()
    )
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
