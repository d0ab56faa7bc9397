"""Getting a page: where it may be had from, within limits of time and size, redirects followed one by one."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from dataclasses import dataclass
from functools import lru_cache

import httpcore
import httpx

from taograph.tools.engines.http import user_agent
from taograph.tools.engines.web_addresses import AddressRules, check_url
from taograph.tools.engines.web_bodies import accepted, unpack
from taograph.tools.engines.web_connection import CheckedNetwork, CheckedTransport, Resolve, system_resolve
from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_robots import MOST_BYTES as ROBOTS_BYTES
from taograph.tools.engines.web_robots import Robots, RobotsReply

_REDIRECTS = 5
_TRIES = 2
_PASSING = frozenset({429, 500, 502, 503, 504})
_SILENCE_SECONDS = 10.0
"""How long one read may wait, where the whole is allowed longer."""
_RETRY_SECONDS = 0.5
_GOOD = (200, 203)
_BINARY = re.compile(
    r"(?:image/(?!svg)|audio/|video/|font/|application/(?:zip|gzip|zstd|x-(?:tar|7z|rar|bzip|gzip|msdownload|shockwave)"
    r"|vnd\.(?:ms-|rar|android|apple|oasis|debian|openxmlformats-officedocument\.(?:spreadsheet|presentation))))"
)
"""Types of content that no text is had from: not even loaded."""
_TIMEOUTS = (httpcore.TimeoutException, httpx.TimeoutException)
_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, httpx.InvalidURL, OSError)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server sent as a page.

    Attributes:
        url: Where it was in the end, redirects followed.
        content_type: As the server said; empty where it did not.
        body: Unpacked.
    """

    url: str
    content_type: str
    body: bytes


class Fetcher:
    """Gets pages.

    Args:
        rules: Where they may be had from.
        robots: What their sites let programs read; None to read all.
        seconds: For a page with everything: look-ups, robots.txt, redirects, retries.
        max_bytes: Of a page, unpacked.
        agent: The ``User-Agent``; this software's own name when absent.
        certificates: The certificates that are trusted; the usual ones when absent.
        resolve: How names are looked up.
        network: What makes a connection, once an address is checked.
    """

    def __init__(
        self,
        rules: AddressRules,
        *,
        robots: Robots | None,
        seconds: float,
        max_bytes: int,
        agent: str | None = None,
        certificates: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._network = CheckedNetwork(rules, resolve, network)
        self._robots = robots
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._agent = agent
        self._certificates = certificates

    async def get(self, address: str) -> Fetched:
        """Get a page.

        Raises:
            WebError: It can't be had, or may not be; the message says what to do.
        """
        url = check_url(address)
        until = time.monotonic() + self._seconds
        client = httpx.AsyncClient(
            transport=CheckedTransport(self._network, self._certificates or _usual_certificates()),
            headers={
                "user-agent": self._agent or user_agent(),
                "accept": "text/html,application/xhtml+xml,text/plain,application/json,application/pdf;q=0.9,*/*;q=0.5",
                "accept-language": "en;q=0.5,*;q=0.1",
                "accept-encoding": accepted(),
            },
            timeout=min(_SILENCE_SECONDS, self._seconds),
            trust_env=False,  # no credentials of a .netrc, no proxy
        )
        try:
            async with asyncio.timeout(self._seconds), client:
                return await self._page(client, url, until)
        except TimeoutError as error:
            raise _too_slow(url.host, self._seconds) from error

    async def _page(self, client: httpx.AsyncClient, url: httpx.URL, until: float) -> Fetched:
        seen = [url]
        while True:
            if self._robots is not None:
                await self._robots.check(url, lambda robots: self._robots_reply(client, robots, until))
            response, body = await self._answer(client, url, self._max_bytes, until)
            target = _redirect(response)
            if target is None:
                return self._accept(response, body)
            if target in seen:
                raise WebError("redirects", f"{url.host} redirects in a circle. Use another source.")
            if len(seen) > _REDIRECTS:
                raise WebError("redirects", f"{seen[0].host} redirects too often. Use another source.")
            seen.append(target)
            url = target

    async def _robots_reply(self, client: httpx.AsyncClient, url: httpx.URL, until: float) -> RobotsReply:
        for _ in range(_REDIRECTS + 1):
            response, body = await self._answer(client, url, ROBOTS_BYTES, until, cut=True)
            target = _redirect(response)
            if target is None:
                encoding = ",".join(response.headers.get_list("content-encoding"))
                plain = unpack(body, encoding, ROBOTS_BYTES) if response.status_code in _GOOD else b""
                return RobotsReply(response.status_code, plain)
            url = target
        return RobotsReply(404)  # RFC 9309, 2.3.1.2: as if there were none

    async def _answer(
        self, client: httpx.AsyncClient, url: httpx.URL, most: int, until: float, *, cut: bool = False
    ) -> tuple[httpx.Response, bytes]:
        """One answer, asked for again where that may help."""
        for attempt in range(1, _TRIES + 1):
            failure: WebError | None = None
            try:
                response, body = await self._once(client, url, most, cut)
            except _TIMEOUTS as error:
                raise _too_slow(url.host, min(_SILENCE_SECONDS, self._seconds)) from error
            except _FAILURES as error:
                failure, wait = _broken(url.host, error), _RETRY_SECONDS
            else:
                if response.status_code not in _PASSING:
                    return response, body
                wait = _asked_to_wait(response)
            if attempt == _TRIES or time.monotonic() + wait > until or (failure and failure.kind == "certificate"):
                break
            await asyncio.sleep(wait)
        if failure is not None:
            raise failure
        return response, body

    async def _once(
        self, client: httpx.AsyncClient, url: httpx.URL, most: int, cut: bool
    ) -> tuple[httpx.Response, bytes]:
        response = await client.send(client.build_request("GET", url), stream=True)
        try:
            if response.status_code not in _GOOD:
                return response, b""
            _refuse_binary(response)
            declared = response.headers.get("content-length", "")
            if not cut and declared.isdigit() and int(declared[:18]) > most:
                raise _too_large(url.host, most)
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > most:
                    if cut:
                        break
                    raise _too_large(url.host, most)
            return response, bytes(body)
        finally:
            await response.aclose()

    def _accept(self, response: httpx.Response, packed: bytes) -> Fetched:
        host = response.url.host
        if response.status_code not in _GOOD:
            raise _refused(host, response)
        body = unpack(packed, ",".join(response.headers.get_list("content-encoding")), self._max_bytes)
        if len(body) > self._max_bytes:
            raise _too_large(host, self._max_bytes)
        return Fetched(str(response.url), response.headers.get("content-type", ""), body)


def _redirect(response: httpx.Response) -> httpx.URL | None:
    """Where a redirect leads, checked like any URL; None where the answer is none."""
    if not response.has_redirect_location:
        return None
    host = response.url.host
    try:
        return check_url(str(response.url.join(response.headers["location"])))
    except (WebError, httpx.InvalidURL, ValueError) as error:
        raise WebError("redirects", f"{host} redirects to a URL that is not opened. Use another source.") from error


def _asked_to_wait(response: httpx.Response) -> float:
    said = response.headers.get("retry-after", "").strip()
    return float(said[:9]) if said.isascii() and said.isdigit() else _RETRY_SECONDS


def _refuse_binary(response: httpx.Response) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if _BINARY.match(kind):
        raise WebError("type", f"That is no page of text ({kind[:60]}), so it was not loaded. Use another source.")


def _refused(host: str, response: httpx.Response) -> WebError:
    status, wait = response.status_code, response.headers.get("retry-after", "").strip()
    if status in (404, 410):
        text = f"{host} has no such page (status {status}). Check the address, or search for the page."
    elif status in (401, 402, 403, 407, 451):
        text = f"{host} does not let this page be read (status {status}); asking again will not help."
    elif status == 429:
        asks = f" and asks to wait {wait} s" if wait.isdigit() and len(wait) < 7 else ""
        text = f"{host} gets too many requests{asks} (status 429). Use another source for now."
    elif status >= 500:
        text = f"{host} is out of order (status {status}). Use another source for now."
    else:
        text = f"{host} did not send the page (status {status}). Use another source."
    return WebError("status", text, status=status)


def _broken(host: str, error: Exception) -> WebError:
    # httpcore cuts the chain of causes, but an error it made of another has that as its argument.
    causes = [error, error.__context__, *error.args]
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return WebError(
            "certificate",
            f"{host} has no valid certificate, so another may be answering in its place. Use another source.",
        )
    if isinstance(error, (httpcore.ConnectError, httpcore.UnsupportedProtocol)):
        return WebError("connection", f"{host} can't be reached. Check the address, or use another source.")
    return WebError("connection", f"{host} broke off its answer, or sent what is none. Use another source.")


def _too_slow(host: str, seconds: float) -> WebError:
    return WebError("time", f"{host} did not send the page within {seconds:g} s. Use another source.")


def _too_large(host: str, most: int) -> WebError:
    return WebError("size", f"The page at {host} is larger than {most} bytes. Use another source.")


@lru_cache(maxsize=1)
def _usual_certificates() -> ssl.SSLContext:
    """Read once: that takes longer than many a request."""
    return httpx.create_ssl_context()
