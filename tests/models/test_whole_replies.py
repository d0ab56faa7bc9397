"""A server that answers a request for a stream with the whole reply is understood all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Raw

from taograph import astream_steps, create_react_graph, stream_steps
from taograph.graphs.loop.events import Event

QUESTION = {"messages": [("user", "How many days has a week, in hours?")]}


def double(x: int) -> int:
    """Double a number."""
    return 2 * x


def whole(**message: Any) -> Raw:
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    return Raw(json.dumps(body))


CALL = whole(
    reasoning_content="twice",
    tool_calls=[{"id": "c1", "type": "function", "function": {"name": "double", "arguments": '{"x": 84}'}}],
)
ANSWER = whole(content="168 hours.")


def at_once(graph: Any) -> list[Event]:
    return list(stream_steps(graph, QUESTION))


def on_a_loop(graph: Any) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in astream_steps(graph, QUESTION)]

    return asyncio.run(collect())


@pytest.mark.parametrize("events_of", [at_once, on_a_loop])
def test_the_reply_comes_in_one_piece(events_of: Callable[[Any], list[Event]]) -> None:
    with FakeOpenAI([CALL, CALL, ANSWER]) as server:  # the first is asked for twice, and counted twice
        events = events_of(create_react_graph(f"{server.url}#fake", [double]))
        asked = [bool(request.get("stream")) for request in server.requests]
    assert asked == [True, False, False]
    told = {event["type"]: event for event in events}
    assert told["observation"]["text"] == "168"  # type: ignore[typeddict-item]
    assert told["stop"]["reason"] == "final"  # type: ignore[typeddict-item]
    assert told["answer"]["text"] == "168 hours."  # type: ignore[typeddict-item]
    assert told["answer"]["spent"]["model_calls"] == 3  # type: ignore[typeddict-item]
    assert told["answer"]["spent"]["input_tokens"] == 14  # type: ignore[typeddict-item]
    assert "168 hours." in "".join(e["text"] for e in events if e["type"] == "thought_delta")


def test_an_error_that_came_with_status_200_is_told() -> None:
    with FakeOpenAI([], default=Raw('{"error": {"message": "the model is not loaded"}}')) as server:
        events = at_once(create_react_graph(f"{server.url}#fake", []))
    (stop,) = [event for event in events if event["type"] == "stop"]
    assert stop["reason"] == "model_error"
    assert "not loaded" in stop["detail"]
