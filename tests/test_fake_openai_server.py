"""The scripted endpoint itself: what a real client reads from it."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import openai
import pytest
from fake_openai_server import Fail, FakeOpenAI, Hang, Reply
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr


def client(server: FakeOpenAI, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url, api_key=SecretStr("x"), model="fake", **{"max_retries": 0, **options})


def test_text_and_calls_plain_and_streamed_are_the_same() -> None:
    reply = Reply(
        "Let me  see.\n",
        calls=[("add", {"a": 1, "b": "zwei"}), ("now", {})],
        usage=(7, 5, 3),
        ids=["one", "two"],
    )
    with FakeOpenAI([reply, reply]) as server:
        plain = client(server).invoke("hi")
        whole: Any = None
        pieces = 0
        for chunk in client(server, stream_usage=True).stream("hi"):
            assert isinstance(chunk, AIMessageChunk)
            whole = chunk if whole is None else whole + chunk
            pieces += 1
    for message in (plain, whole):
        assert message.content == "Let me  see.\n"
        assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == [
            ("one", "add", {"a": 1, "b": "zwei"}),
            ("two", "now", {}),
        ]
        usage: Any = message.usage_metadata
        assert usage["input_tokens"] == 7
        assert usage["output_tokens"] == 5
        assert usage["input_token_details"]["cache_read"] == 3
        assert message.response_metadata["finish_reason"] == "tool_calls"
    assert pieces > 5
    assert [request.get("stream", False) for request in server.requests] == [False, True]
    assert server.headers[0]["authorization"] == "Bearer x"


def test_failures_statuses_drop_and_exhausted_script() -> None:
    replies = [Fail(429, "slow down", retry_after=1), Fail(drop=True)]
    with FakeOpenAI(replies) as server:
        with pytest.raises(openai.RateLimitError, match="slow down") as caught:
            client(server).invoke("hi")
        assert caught.value.response.headers["retry-after"] == "1"
        with pytest.raises(openai.APIConnectionError):
            client(server).invoke("hi")
        with pytest.raises(openai.InternalServerError, match="no reply for request 3"):
            client(server).invoke("hi")


def test_replies_may_depend_on_the_request_and_a_default_may_follow() -> None:
    def echo(body: dict[str, Any]) -> Reply:
        return Reply(body["messages"][-1]["content"].upper(), usage=None)

    with FakeOpenAI([echo], default="again") as server:
        answers = [client(server).invoke("hi").content for _ in range(3)]
        assert httpx.get(server.url + "/models").json()["data"][0]["id"] == "fake"
    assert answers == ["HI", "again", "again"]


def test_a_hang_ends_when_the_client_leaves() -> None:
    with FakeOpenAI([Hang("some words")]) as server:
        stream = client(server, timeout=30).stream("hi")
        seen = [next(stream).text, next(stream).text, next(stream).text]
        assert "".join(seen) == "some words"
        assert server.hanging.wait(5)
        assert not server.left.is_set()
        stream.close()  # type: ignore[attr-defined]
        assert server.left.wait(5)


def test_closing_the_server_frees_a_hanging_client() -> None:
    errors: list[Exception] = []

    def ask(server: FakeOpenAI) -> None:
        try:
            client(server, timeout=30).invoke("hi")
        except openai.APIConnectionError as error:
            errors.append(error)

    started = time.monotonic()
    with FakeOpenAI([Hang()]) as server:
        thread = threading.Thread(target=ask, args=(server,))
        thread.start()
        assert server.hanging.wait(5)
    thread.join(10)
    assert len(errors) == 1
    assert time.monotonic() - started < 20
