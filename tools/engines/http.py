"""Asking a service that speaks JSON over HTTP: bounded in time, size and tries.

Every failure is a :class:`ServiceError`, whose text is meant for the model and never holds an address, a
parameter or a header, because one of them may carry a key.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from taograph import __version__
from taograph.background import run_async
from taograph.tools.policy import ToolError

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed in a moment."""
_REDIRECTS = 3
_ERROR_BODY = 64_000
"""Bytes of an error's body that are looked at for a reason."""
_GO_ON = "Go on without it, or use another tool."
_BACKOFF = wait_random_exponential(multiplier=0.4, max=4)


class ServiceError(ToolError):
    """A service gave no usable answer.

    Attributes:
        status: The HTTP status, where there was one.
        payload: What an error's body held, where that was JSON: some services say their reason there.
        passing: Whether the same request may succeed later.
        wait: Seconds the service asked to wait before that.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        payload: Any = None,
        passing: bool = False,
        wait: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.payload = payload
        self.passing = passing
        self.wait = wait


@dataclass(frozen=True, slots=True)
class _Ask:
    method: str
    url: httpx.URL
    service: str
    headers: Mapping[str, str]
    content: bytes | None
    max_bytes: int
    busy: Callable[[Any], str | None] | None


def user_agent() -> str:
    """How this software names itself to the services it asks.

    ``TAOGRAPH_CONTACT`` (an e-mail address or a URL) says whom to turn to: Wikimedia and others ask for that,
    and limit clients that do not say it more strictly.
    """
    contact = " ".join(os.environ.get("TAOGRAPH_CONTACT", "").split())
    about = f"{contact}; " if contact.isascii() and contact.isprintable() and contact else ""
    return f"taograph/{__version__} ({about}agent tools) python-httpx/{httpx.__version__}"


def get_json(
    url: str,
    params: Mapping[str, str | int | float] | None = None,
    *,
    service: str = "",
    headers: Mapping[str, str] | None = None,
    timeout: float = 20.0,
    tries: int = 3,
    max_bytes: int = 4_000_000,
    busy: Callable[[Any], str | None] | None = None,
) -> Any:
    """Get JSON from a service.

    Too many requests, errors of the server, and connections that fail, break off or stay silent are tried
    again, as often as ``tries`` and ``timeout`` allow; a ``Retry-After`` is kept to.

    Args:
        url: Where, without the parameters.
        params: What is asked.
        service: What the model is to read as the service's name; its host when absent.
        headers: Further request headers. A redirect to another host is refused, so they stay with this one.
        timeout: Seconds for everything: name look-up, all tries, and the waits between them. One try may
            take half of it, so that one more can follow a silence.
        tries: Requests at most.
        max_bytes: Bytes of the unpacked body at most.
        busy: Tells by a reply of status 200 that it only says "try again"; returns the reason, else None.

    Raises:
        ServiceError: No usable answer.
    """
    asked = httpx.URL(url, params=params) if params else httpx.URL(url)
    ask = _Ask("GET", asked, service or asked.host, headers or {}, None, max_bytes, busy)
    return run_async(_tried(ask, timeout, tries))


def post_json(
    url: str,
    body: Any,
    *,
    service: str = "",
    headers: Mapping[str, str] | None = None,
    timeout: float = 20.0,
    tries: int = 3,
    max_bytes: int = 4_000_000,
) -> Any:
    """Get JSON from a service that wants to be asked with a JSON body; only for requests that change nothing.

    Args:
        url: Where.
        body: What is asked.
        service: As for :func:`get_json`; likewise the others.
        headers: Further request headers.
        timeout: Seconds for everything.
        tries: Requests at most.
        max_bytes: Bytes of the unpacked body at most.

    Raises:
        ServiceError: No usable answer.
    """
    content = json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    asked = httpx.URL(url)
    return run_async(_tried(_Ask("POST", asked, service or asked.host, sent, content, max_bytes, None), timeout, tries))


async def _tried(ask: _Ask, timeout: float, tries: int) -> Any:  # noqa: ASYNC109 - it bounds several tries
    until = time.monotonic() + timeout
    made = 0

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.wait if isinstance(error, ServiceError) else None
        return _BACKOFF(state) if asked is None else asked

    try:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ServiceError) and error.passing),
            stop=stop_after_attempt(max(1, tries)) | stop_before_delay(timeout),
            wait=wait,
            reraise=True,
        ):
            with attempt:
                made += 1
                seconds = min(timeout / 2 if tries > 1 else timeout, until - time.monotonic())
                return await _once(ask, seconds)
    except ServiceError as error:
        if made > 1:
            raise _asked_often(error, made) from error
        raise
    raise AssertionError("unreachable: the last failure is raised again")


def _asked_often(error: ServiceError, times: int) -> ServiceError:
    text = f"{str(error).removesuffix(_GO_ON)}It was asked {times} times. {_GO_ON}"
    return ServiceError(text, status=error.status, payload=error.payload, passing=error.passing, wait=error.wait)


async def _once(ask: _Ask, seconds: float) -> Any:
    name = ask.service
    try:
        # The client's own limits are for single reads: a body that drips in would never meet them.
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(verify=_certificates(), timeout=None) as client,  # noqa: S113
        ):
            response, body = await _fetched(ask, client)
    except TimeoutError as error:
        raise ServiceError(f"{name} did not answer in time ({seconds:.3g} s). {_GO_ON}", passing=True) from error
    except httpx.RemoteProtocolError as error:
        raise ServiceError(f"{name} broke off its answer. {_GO_ON}", passing=True) from error
    except httpx.DecodingError as error:
        raise ServiceError(f"{name} sent an answer that can't be unpacked. {_GO_ON}") from error
    except httpx.TransportError as error:
        passing = not isinstance(error, httpx.UnsupportedProtocol)
        raise ServiceError(f"{name} can't be reached. {_GO_ON}", passing=passing) from error
    if response.status_code != 200:
        raise _refusal(name, response, _json_or_none(body))
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "").partition(";")[0].strip() or "no type given"
        raise ServiceError(f"{name} did not answer with JSON ({kind[:50]}). {_GO_ON}", status=200) from error
    reason = ask.busy(found) if ask.busy else None
    if reason is not None:
        raise ServiceError(
            f"{name} is busy ({reason}). {_GO_ON}", status=200, payload=found, passing=True, wait=_wait(response)
        )
    return found


async def _fetched(ask: _Ask, client: httpx.AsyncClient) -> tuple[httpx.Response, bytes]:
    headers = {"user-agent": user_agent(), "accept": "application/json", **ask.headers}
    request = client.build_request(ask.method, ask.url, headers=headers, content=ask.content)
    for _ in range(_REDIRECTS + 1):
        response = await client.send(request, stream=True)
        try:
            if response.next_request is None:
                return response, await _body(ask, response)
        finally:
            await response.aclose()
        following = response.next_request
        if following.url.host != request.url.host or (request.url.scheme, following.url.scheme) == ("https", "http"):
            raise ServiceError(f"{ask.service} sends us to another address. {_GO_ON}", status=response.status_code)
        request = following
    raise ServiceError(f"{ask.service} redirects without an end. {_GO_ON}", status=response.status_code)


async def _body(ask: _Ask, response: httpx.Response) -> bytes:
    good = response.status_code == 200
    parts, size = [], 0
    async for part in response.aiter_bytes(65_536):
        size += len(part)
        if good and size > ask.max_bytes:
            raise ServiceError(
                f"{ask.service} answered with more than {ask.max_bytes} bytes. Ask for something narrower.",
                status=200,
            )
        parts.append(part)
        if not good and size > _ERROR_BODY:
            break
    return b"".join(parts)


def _refusal(name: str, response: httpx.Response, payload: Any) -> ServiceError:
    status, wait = response.status_code, _wait(response)
    if status == 429:
        asks = f" and asks to wait {wait:.0f} s" if wait else ""
        text = f"{name} gets too many requests{asks} (status 429)."
    elif status in (401, 403):
        text = f"{name} refused the request (status {status}); asking again will not help."
    elif status == 404:
        text = f"{name} has nothing there (status 404)."
    elif status >= 500:
        text = f"{name} is out of order (status {status})."
    else:
        text = f"{name} did not take the request (status {status})."
    return ServiceError(f"{text} {_GO_ON}", status=status, payload=payload, passing=status in _PASSING, wait=wait)


def _wait(response: httpx.Response) -> float | None:
    """Seconds from ``Retry-After``, which is a number or a date (RFC 9110, 10.2.3)."""
    said = response.headers.get("retry-after", "").strip()
    if not said:
        return None
    if said.isascii() and said.isdigit():
        return float(said[:9])
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return None
    if moment.tzinfo is None:  # "-0000": UTC
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """The trusted certificates, read once: that takes longer than many a request."""
    return httpx.create_ssl_context()
