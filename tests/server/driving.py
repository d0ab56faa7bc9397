"""How the tests of this folder drive a server, and what they expect of it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

from fake_openai_server import FakeOpenAI, Reply
from langgraph_sdk.client import LangGraphClient

QUESTION = "What is 17 times 3?"
SECONDS = 30.0


def question(text: str = QUESTION) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def model(fake: FakeOpenAI) -> dict[str, Any]:
    """The context that names a scripted endpoint."""
    return {"model": f"{fake.url}#fake"}


def multiplying() -> FakeOpenAI:
    """A model that calculates and answers, in two requests a run."""
    return FakeOpenAI([Reply("I calculate.", calls=[("calculator", {"expression": "17*3"})]), "It is 51."])


def kinds(result: dict[str, Any]) -> list[str]:
    return [message["type"] for message in result["messages"]]


def texts(result: dict[str, Any]) -> list[str]:
    return [message["content"] for message in result["messages"]]


def assert_acceptable(request: dict[str, Any]) -> None:
    """A provider's rule: each call has its result right behind it, and each result its call."""
    waiting: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, request["messages"]
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, request["messages"]
            waiting = [call["id"] for call in message.get("tool_calls") or []]
    assert not waiting, request["messages"]


async def new_thread(client: LangGraphClient) -> str:
    return (await client.threads.create())["thread_id"]


async def assistant_of(client: LangGraphClient, graph: str = "react") -> str:
    return (await client.assistants.search(graph_id=graph))[0]["assistant_id"]


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, SECONDS), "it did not happen"


async def ask(client: LangGraphClient, thread: str | None, graph: str = "react", **given: Any) -> dict[str, Any]:
    """Run to the end; the values of the state, or what went wrong."""
    return cast(dict[str, Any], await client.runs.wait(thread, graph, **given))


async def values(client: LangGraphClient, thread: str, **given: Any) -> dict[str, Any]:
    """The values of a thread's state."""
    return cast(dict[str, Any], (await client.threads.get_state(thread, **given))["values"])
