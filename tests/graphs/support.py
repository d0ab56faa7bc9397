"""What the tests of the loop share: tools, scripted replies, ways of running, and what a provider accepts."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from taograph import tool
from taograph.models import ScriptedModel, call

Way = Literal["invoke", "ainvoke"]
both_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])

_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
# OpenAI takes 40 characters at most; Anthropic these characters only.
_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


@tool(effects="none")
def lookup(name: str) -> str:
    """Look a name up.

    Args:
        name: What to look up.
    """
    return f"{name} is in the book on page {len(name)}."


@tool(effects="none")
def broken(name: str) -> str:
    """Fail at whatever it is given.

    Args:
        name: Anything.
    """
    raise RuntimeError(f"internal trouble with {name}")


class Counting:
    """A tool that counts its calls and gives another result each time; ``same=True``: always the same."""

    def __init__(self, name: str = "count", *, same: bool = False) -> None:
        self.calls: list[str] = []

        @tool(name=name, effects="none")
        def count(what: str = "") -> str:
            """Count the calls.

            Args:
                what: A label for the call.
            """
            self.calls.append(what)
            return "counted" if same else f"call number {len(self.calls)}"

        self.tool: BaseTool = count


def asks(*calls: ToolCall | str, text: str = "", **more: Any) -> AIMessage:
    """A reply that calls tools; a name alone is a call of ``lookup`` with it."""
    made = [call("lookup", {"name": c}) if isinstance(c, str) else c for c in calls]
    return AIMessage(text, tool_calls=made, **more)


def asks_for_ever(name: str = "lookup", key: str = "name", *, parallel: int = 1, text: str = "") -> ScriptedModel:
    """A model that never finishes: each turn has a new argument, and every call without tools is answered."""
    turn = 0

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        turn += 1
        return asks(*(call(name, {key: f"n{turn}_{i}"}) for i in range(parallel)), text=text)

    return ScriptedModel(replies=[closes_or(reply)], repeat=True)


def closes_or(
    reply: Callable[[list[BaseMessage]], AIMessage | str] | AIMessage | str, closing: str = "So far: …"
) -> Any:
    """A scripted reply that answers the loop's closing request, and is ``reply`` otherwise."""

    def say(messages: list[BaseMessage]) -> AIMessage | str:
        last = messages[-1]
        if isinstance(last, HumanMessage) and "The run ends here" in str(last.content):
            return closing
        return reply(messages) if callable(reply) else reply

    return say


def question(text: str = "What is it?") -> dict[str, Any]:
    """An input with one message of the user."""
    return {"messages": [("user", text)]}


def thread(name: str = "t1", **more: Any) -> dict[str, Any]:
    """A config with a thread id; other keys stand beside ``configurable``."""
    return {"configurable": {"thread_id": name}, **more}


def run(way: Way, graph: Any, given: Any, config: Any = None, **options: Any) -> dict[str, Any]:
    """Run a graph the sync or the async way, from a sync test."""
    if way == "invoke":
        return graph.invoke(given, config, **options)
    return asyncio.run(graph.ainvoke(given, config, **options))


def assert_acceptable(messages: Sequence[BaseMessage]) -> None:
    """What OpenAI and Anthropic require of a history; written from their rules, not from the loop's own repair.

    Every call has a unique id and an acceptable name and an object of arguments; its result stands right behind
    the reply it belongs to, exactly once; no result without a call; no reply that says nothing; the system
    message first.
    """
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        where = f"message {place} ({message.type}: {str(message.content)[:80]!r})"
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting, f"{where}: a result of no open call: {message.tool_call_id!r}"
            waiting.remove(message.tool_call_id)
            assert message.status in ("success", "error"), where
            _assert_content(message.content, where)
            continue
        assert not waiting, f"{where}: stands between calls and their results {waiting}"
        if isinstance(message, SystemMessage):
            assert place == 0, f"{where}: a system message that is not the first"
        elif isinstance(message, AIMessage):
            assert not message.invalid_tool_calls, f"{where}: broken calls were kept"
            raw = message.additional_kwargs
            assert "function_call" not in raw, where
            _assert_says_the_same(raw.get("tool_calls"), message, where)
            assert message.tool_calls or _says_something(message.content), f"{where}: an empty reply"
            for one in message.tool_calls:
                assert one["id"], f"{where}: a call without an id"
                assert _ID.match(one["id"]), f"{where}: the id {one['id']!r}"
                assert one["id"] not in seen, f"{where}: the id {one['id']!r} is used twice"
                assert _NAME.match(one["name"]), f"{where}: the tool name {one['name']!r}"
                assert isinstance(one["args"], dict), where
                json.dumps(one["args"])
                seen.add(one["id"])
                waiting.append(one["id"])
        elif isinstance(message, HumanMessage):
            _assert_content(message.content, where)
        else:
            raise AssertionError(f"{where}: a message of type {type(message).__name__}")
    assert not waiting, f"calls without a result at the end: {waiting}"


def assert_ended(result: dict[str, Any], reason: str, model: ScriptedModel | None = None) -> None:
    """What every run owes: an answer, a true reason, an account, and a history that a provider accepts."""
    stop = result["stop"]
    assert stop["reason"] == reason, stop
    assert isinstance(stop["detail"], str)
    assert stop["detail"].strip()
    assert isinstance(result["answer"], str)
    assert result["answer"].strip()
    assert_acceptable(result["messages"])
    assert isinstance(result["messages"][-1], AIMessage), result["messages"][-1]
    if model is not None:
        assert result["spent"]["model_calls"] == len(model.requests), (result["spent"], len(model.requests))
        for request in model.requests:
            assert_acceptable(request.messages)


def _assert_says_the_same(raw: Any, message: AIMessage, where: str) -> None:
    if raw:
        assert {one.get("id") for one in raw} <= {one["id"] for one in message.tool_calls}, f"{where}: raw calls differ"


def _says_something(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return any(block.strip() if isinstance(block, str) else bool(block) for block in content)


def _assert_content(content: Any, where: str) -> None:
    assert isinstance(content, str | list), where
    assert _says_something(content), f"{where}: empty content"


def texts(messages: Iterable[BaseMessage]) -> list[str]:
    """The text of each message."""
    return [str(message.text) for message in messages]


def asks_a_person(*more: Any) -> ScriptedModel:
    """Asks a person another question every turn."""
    turns = itertools.count(1)

    def reply(messages: list[BaseMessage]) -> Any:
        return asks(call("ask_person", {"question": f"Question {next(turns)}?"}), *more)

    return ScriptedModel(replies=[closes_or(reply)], repeat=True)


def pending(result: dict[str, Any]) -> list[Any]:
    return list(result.get("__interrupt__", ()))


CLOSING = "The run ends here"


def second_turn(way: Way, graph: Any, model: ScriptedModel, *, tools: bool = True) -> None:
    """Another question on the thread is answered, and its request is one that a provider takes."""
    asked = len(model.requests)
    model.replies = [*model.replies[: model._next], *[""] * (model._next - len(model.replies)), "Fine."]
    model.repeat = True
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "Fine."
    assert result["stop"]["step"] == 1
    assert result["spent"]["model_calls"] == len(model.requests) - asked == 1
    request = model.requests[asked].messages
    assert_acceptable(request)
    assert request[-1].text == "And now?"


def is_closing(messages: list[BaseMessage]) -> bool:
    return CLOSING in str(messages[-1].content)


def nudges(model: ScriptedModel) -> list[tuple[int, str]]:
    """Which request each message of the loop's own came first with, and its text."""
    found: dict[str, int] = {}
    for number, request in enumerate(model.requests):
        for message in request.messages[1:]:
            if isinstance(message, HumanMessage) and CLOSING not in str(message.content):
                found.setdefault(str(message.id), number)
    by_id = {str(m.id): str(m.text) for r in model.requests for m in r.messages}
    return [(number, by_id[key]) for key, number in found.items()]


def python_process(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parent,
        check=False,
        env={**os.environ, **env},
    )
