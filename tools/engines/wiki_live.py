"""Pages from a wiki that runs MediaWiki with the extension TextExtracts: every Wikipedia, and many others.

A title is found as MediaWiki's own search box finds it: as it is written or by a redirect, else by a title that
differs in case and the like only. The API's manners are kept: a name of our own, ``maxlag``, ``Retry-After``.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic import BaseModel, ValidationError

from taograph.tools.engines.http import ServiceError, get_json
from taograph.tools.engines.wiki_text import SIMILAR, Missing, Page, lists_meanings

# What a title can't hold: such a text is searched for, never asked for as a title.
_NO_TITLE = re.compile(r"[#<>\[\]{}|\x00-\x1f\x7f]")
_MOST = 255
"""Bytes of a title; the search takes 300 characters."""
_HEADING = re.compile(r"=+ .* =+$")
_SENTENCE = re.compile("[。！？।۔።]")
_BUSY = re.compile(r"maxlag|ratelimited|readonly|cirrussearch-.*|internal_api_error_.*")
_CODE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_PAGE: dict[str, str | int] = {
    "prop": "extracts|info|pageprops",
    "explaintext": 1,
    "exsectionformat": "wiki",
    "exlimit": 1,
    "ppprop": "disambiguation",
    "redirects": 1,
}
_ALWAYS: dict[str, str | int] = {"action": "query", "format": "json", "formatversion": 2, "maxlag": 5}


class _Found(BaseModel):
    title: str
    missing: bool = False
    invalid: bool = False
    lastrevid: int = 0
    extract: str | None = None
    pageprops: Mapping[str, Any] = {}


class _Hit(BaseModel):
    title: str


class _Query(BaseModel):
    pages: list[_Found] = []
    search: list[_Hit] = []


class _Problem(BaseModel):
    code: str


class _Reply(BaseModel):
    query: _Query = _Query()
    error: _Problem | None = None


class MediaWiki:
    """A wiki, by its API. Safe to use from any thread."""

    def __init__(self, endpoint: str, *, service: str, seconds: float) -> None:
        """Name the wiki; nothing is asked yet.

        Args:
            endpoint: The address of its ``api.php``.
            service: What the model is to read as its name.
            seconds: For one search or reading, all requests and retries included.

        Raises:
            ValueError: The address is none.
        """
        try:
            address = httpx.URL(endpoint)
        except httpx.InvalidURL as error:
            raise ValueError(f"base_url={endpoint!r} is no address: {error}") from error
        if address.scheme not in ("http", "https") or not address.host:
            raise ValueError("base_url must be the http(s) address of a wiki's api.php")
        self.key = address.host
        self._endpoint = endpoint
        self._service = service
        self._seconds = seconds

    def search(self, entity: str) -> Page | Missing:
        """The page of that title, or the titles like it.

        Raises:
            ServiceError: The wiki gave no usable answer.
        """
        until = time.monotonic() + self._seconds
        if not _NO_TITLE.search(entity) and len(entity.encode()) <= _MOST:
            page = self._page(self._ask({"titles": entity, **_PAGE}, until))
            if page is not None:
                return self._with_meaning(page, entity, until)
        near = {"generator": "search", "gsrwhat": "nearmatch", "gsrsearch": entity}
        reply = self._ask({**_PAGE, **near, "gsrlimit": 1, **_similar(entity)}, until)
        page = self._page(reply)
        if page is not None:
            return self._with_meaning(page, entity, until)
        return Missing(tuple(hit.title for hit in reply.search[:SIMILAR]))

    def read(self, title: str, revision: str) -> Page | None:
        """A page by its title, of that revision while it is at hand, else as it is now.

        Raises:
            ServiceError: The wiki gave no usable answer.
        """
        kept = _PAGES.get(self._endpoint, title, revision)
        return kept or self._page(self._ask({"titles": title, **_PAGE}, time.monotonic() + self._seconds))

    def _with_meaning(self, page: Page, entity: str, until: float) -> Page | Missing:
        if not page.meanings:
            return page
        hits = self._ask(_similar(entity), until).search
        others = [hit.title for hit in hits if hit.title != page.title]
        return Missing(tuple(others[:SIMILAR]), meanings=True)

    def _page(self, reply: _Query) -> Page | None:
        for found in reply.pages:
            if found.missing or found.invalid or not found.lastrevid:
                continue
            if found.extract is None and not found.pageprops:
                raise ServiceError(f"{self._service} gives no plain text of its pages (no TextExtracts).", status=200)
            text = running_text(found.extract or "")
            meanings = "disambiguation" in found.pageprops or lists_meanings(text)
            page = Page(found.title, str(found.lastrevid), text, meanings)
            _PAGES.put(self._endpoint, page)
            return page
        return None

    def _ask(self, params: Mapping[str, str | int], until: float) -> _Query:
        raw = get_json(
            self._endpoint,
            {**_ALWAYS, **params},
            service=self._service,
            timeout=max(0.1, until - time.monotonic()),
            busy=_busy,
        )
        try:
            reply = _Reply.model_validate(raw)
        except ValidationError as error:
            raise ServiceError(f"{self._service} answered in a form that is not known.", status=200) from error
        if reply.error is not None:
            code = reply.error.code if _CODE.fullmatch(reply.error.code) else "no code"
            raise ServiceError(f"{self._service} did not take the request ({code}). Try another name.", status=200)
        return reply.query


def _similar(entity: str) -> dict[str, str | int]:
    # One more than is shown: a page of meanings finds itself.
    return {"list": "search", "srsearch": entity, "srlimit": SIMILAR + 1, "srprop": "", "srinfo": ""}


def _busy(raw: Any) -> str | None:
    error = raw.get("error") if isinstance(raw, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) and _BUSY.fullmatch(code) and _CODE.fullmatch(code) else None


def running_text(extract: str) -> str:
    """The paragraphs and list items of an extract: no headings, nor what is one or two words, as in the paper."""
    kept = []
    for line in extract.split("\n"):
        words = line.split()
        if (len(words) > 2 or _SENTENCE.search(line)) and not _HEADING.match(line):
            kept.append(" ".join(words))
    return "\n".join(kept)


class _PageCache:
    """The pages read last, up to so many characters: a look-up need not fetch again what a search has just read."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self._held = 0
        self._pages: OrderedDict[tuple[str, str, str], Page] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, endpoint: str, title: str, revision: str) -> Page | None:
        with self._lock:
            page = self._pages.get((endpoint, title, revision))
            if page is not None:
                self._pages.move_to_end((endpoint, title, revision))
            return page

    def put(self, endpoint: str, page: Page) -> None:
        key = (endpoint, page.title, page.revision)
        with self._lock:
            if key not in self._pages:
                self._held += len(page.text)
            self._pages[key] = page
            self._pages.move_to_end(key)
            while self._held > self._chars:
                self._held -= len(self._pages.popitem(last=False)[1].text)


_PAGES = _PageCache(4_000_000)
