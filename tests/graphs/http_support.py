"""What the tests over real HTTP share: servers that end with the test, and two ways to make a model of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI
from langchain_core.language_models import BaseChatModel
from support import assert_acceptable

Made = Callable[[FakeOpenAI], str | BaseChatModel]


def by_address(server: FakeOpenAI) -> str:
    return f"{server.url}#fake"


def by_chat_openai(server: FakeOpenAI) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(base_url=server.url, api_key="x", model="fake", max_retries=0)


both_models = pytest.mark.parametrize("made", [by_address, by_chat_openai])
# Each way of making the model with one of the ways of running: the four together find no more.
both_pairs = pytest.mark.parametrize(("made", "way"), [(by_address, "invoke"), (by_chat_openai, "ainvoke")])


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeOpenAI]]:
    """Starts servers that play these replies."""
    servers: list[FakeOpenAI] = []

    def start(*replies: Any, **options: Any) -> FakeOpenAI:
        servers.append(FakeOpenAI(list(replies), **options).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__(None, None, None)


def assert_concluded(result: dict[str, Any], reason: str, server: FakeOpenAI) -> None:
    assert result["stop"]["reason"] == reason, result["stop"]
    assert result["answer"].strip()
    assert result["spent"]["model_calls"] == len(server.requests), "every request is counted, retries included"
    assert_acceptable(result["messages"])
