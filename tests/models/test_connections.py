"""What is kept for an event loop goes with it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from wire_support import HISTORY, KEY, Recorder, at_once, by_name, on_a_loop, own

from taograph.models.resolving import resolve, safe_across_loops


@pytest.mark.parametrize("made", [own, by_name])
def test_loops_are_not_kept(made: Any) -> None:
    ended: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    with Recorder() as server:
        model = made(server)

        async def ask() -> None:
            ended.append(weakref.ref(asyncio.get_running_loop()))
            assert (await model.ainvoke(HISTORY)).text == "Hello."

        for _ in range(3):
            asyncio.run(ask())
        gc.collect()
        assert [loop() for loop in ended] == [None] * 3
        assert on_a_loop(model, HISTORY).text == "Hello."


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of loops that are closed without more
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_loops_that_never_shut_down_are_not_kept_beyond_the_next() -> None:
    ended: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    with Recorder() as server:
        model = by_name(server)
        for _ in range(3):
            loop = asyncio.new_event_loop()
            ended.append(weakref.ref(loop))
            assert loop.run_until_complete(model.ainvoke(HISTORY)).text == "Hello."
            loop.close()
            del loop
        assert on_a_loop(model, HISTORY).text == "Hello."
        gc.collect()
        assert [loop() for loop in ended] == [None] * 3


@pytest.mark.parametrize("ask", [at_once, on_a_loop])
def test_requests_go_by_way_of_the_environments_proxy(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "OPENAI_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Recorder() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("http_proxy", proxy.address)
        assert ask(resolve("http://model.example/v1#fake"), HISTORY).text == "Hello."
        assert [asked.path for asked in proxy.take()] == ["http://model.example/v1/chat/completions"]


def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such.pem")
    with pytest.raises(ValueError, match=r"SSL_CERT_FILE='/no/such.pem': there is no such file; name one"):
        resolve("https://model.example/v1#certified")


def test_a_callers_own_proxy_is_gone_by_on_every_loop() -> None:
    with Recorder() as proxy:
        settings = {"model": "fake", "base_url": "http://model.example/v1", "api_key": KEY, "max_retries": 0}
        model = safe_across_loops(ChatOpenAI(**settings, openai_proxy=proxy.address))
        for ask in (on_a_loop, at_once, on_a_loop, on_a_loop):
            assert ask(model, HISTORY).text == "Hello."
        assert [asked.path for asked in proxy.take()] == ["http://model.example/v1/chat/completions"] * 4
        model.root_client.close()
