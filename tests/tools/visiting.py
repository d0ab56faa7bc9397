"""Getting pages from local sites, and a network and a resolver that lead where a test wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore
import pytest
from fake_site import Site

from taograph.background import run_async
from taograph.tools.engines.web_addresses import AddressRules
from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_fetch import Fetched, Fetcher
from taograph.tools.engines.web_robots import Robots

PUBLIC = "198.41.0.4"


def fetcher(*sites: Site, robots: bool = False, seconds: float = 5.0, max_bytes: int = 100_000, **more: Any) -> Fetcher:
    rules = AddressRules([each.host for each in sites])
    return Fetcher(rules, robots=Robots() if robots else None, seconds=seconds, max_bytes=max_bytes, **more)


def get(url: str, *sites: Site, **more: Any) -> Fetched:
    return run_async(fetcher(*sites, **more).get(url))


def refusal(url: str, *sites: Site, within: float = 5.0, **more: Any) -> WebError:
    began = time.monotonic()
    with pytest.raises(WebError) as caught:
        get(url, *sites, **more)
    assert time.monotonic() - began < within
    return caught.value


class Network(httpcore.AsyncNetworkBackend):
    """Notes where it was asked to connect to, and leads to a local server whatever the address was."""

    def __init__(
        self, site: Site, peer: Callable[[str], str] = lambda address: address, own: str = "192.0.2.1"
    ) -> None:
        self.asked: list[tuple[str, int]] = []
        self._site, self._peer, self._own, self._real = site, peer, own, httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        self.asked.append((host, port))
        stream = await self._real.connect_tcp("127.0.0.1", self._site.port)
        found = {"server_addr": (self._peer(host), port), "client_addr": (self._own, 50000)}
        real = stream.get_extra_info
        stream.get_extra_info = lambda name: found.get(name) or real(name)  # type: ignore[method-assign]
        return stream

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("not asked for")


class Names:
    """A resolver that gives its answers in turn; the last one stays."""

    def __init__(self, *answers: Iterable[str]) -> None:
        self.asked: list[str] = []
        self._answers = [list(answer) for answer in answers]

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
