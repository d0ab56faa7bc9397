"""The scripted model: it says what it is told to, by every way of calling, and records what it was asked."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.tool import invalid_tool_call
from pydantic import BaseModel

from taograph import tool
from taograph.models import ScriptedModel, call


@tool(effects="none")
def lookup(name: str) -> str:
    """Look a name up.

    Args:
        name: The name.
    """
    return name


def whole(chunks: list[Any]) -> AIMessageChunk:
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert isinstance(total, AIMessageChunk)
    return total


def said_by(way: str, model: ScriptedModel) -> AIMessage:
    match way:
        case "invoke":
            return model.invoke("Hi")
        case "ainvoke":
            return asyncio.run(model.ainvoke("Hi"))
        case "stream":
            return whole(list(model.stream("Hi")))
        case _:

            async def read() -> list[Any]:
                return [chunk async for chunk in model.astream("Hi")]

            return whole(asyncio.run(read()))


ways = pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])


@ways
def test_it_plays_its_replies_in_order(way: str) -> None:
    model = ScriptedModel(replies=["One  and\nmore.", "Two."])
    assert said_by(way, model).text == "One  and\nmore."
    assert said_by(way, model).text == "Two."
    with pytest.raises(IndexError, match="2 replies"):
        said_by(way, model)
    assert len(model.requests) == 3


@ways
def test_it_can_repeat_its_last_reply(way: str) -> None:
    model = ScriptedModel(replies=["One.", "Two."], repeat=True)
    assert [said_by(way, model).text for _ in range(4)] == ["One.", "Two.", "Two.", "Two."]


@ways
def test_it_raises_what_it_is_told_to(way: str) -> None:
    with pytest.raises(RuntimeError, match="down"):
        said_by(way, ScriptedModel(replies=[RuntimeError("down")]))


@ways
def test_calls_come_out_by_every_way_and_get_ids(way: str) -> None:
    reply = AIMessage("Look.", tool_calls=[call("lookup", {"name": "Ada"}), call("lookup", {"name": "Bo"}, id="own")])
    model = ScriptedModel(replies=[reply, reply])
    first, second = said_by(way, model), said_by(way, model)
    assert first.text == "Look."
    assert [c["args"] for c in first.tool_calls] == [{"name": "Ada"}, {"name": "Bo"}]
    assert first.tool_calls[1]["id"] == "own"
    assert first.tool_calls[0]["id"] != second.tool_calls[0]["id"], "an id is not used twice"
    assert reply.tool_calls[0]["id"] is None, "the script is not changed"


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_broken_calls_come_out(way: str) -> None:
    broken = invalid_tool_call(name="lookup", args="{nonsense", id="b", error=None)
    message = said_by(way, ScriptedModel(replies=[AIMessage("", invalid_tool_calls=[broken])]))
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == "{nonsense"


@ways
def test_blocks_reasoning_and_endings_come_out(way: str) -> None:
    reply = AIMessage(
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}],
        additional_kwargs={"reasoning_content": "More."},
        response_metadata={"finish_reason": "length"},
    )
    message = said_by(way, ScriptedModel(replies=[reply]))
    assert message.text == "Yes."
    assert message.content[0] == {"type": "reasoning", "reasoning": "Hm."}
    assert message.additional_kwargs["reasoning_content"] == "More."
    assert message.response_metadata["finish_reason"] == "length"


@ways
def test_usage_is_reported_once(way: str) -> None:
    message = said_by(way, ScriptedModel(replies=["A few words here."], usage=(30, 4)))
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (30, 4)
    assert said_by(way, ScriptedModel(replies=["A few words here."])).usage_metadata is None


def test_a_text_streams_word_by_word() -> None:
    chunks = [str(c.text) for c in ScriptedModel(replies=["one two three"]).stream("Hi") if c.text]
    assert chunks == ["one ", "two ", "three"]


def test_a_reply_can_be_a_function_of_what_it_was_asked() -> None:
    def echo(messages: list[BaseMessage]) -> str:
        return f"You said: {messages[-1].content}"

    model = ScriptedModel(replies=[echo], repeat=True)
    assert model.invoke("Hi").text == "You said: Hi"
    assert model.invoke([HumanMessage("Ho")]).text == "You said: Ho"


def test_requests_show_messages_tools_and_options() -> None:
    class Answer(BaseModel):
        """An answer."""

        text: str

    model = ScriptedModel(replies=["x"], repeat=True)
    model.bind_tools([lookup, Answer], tool_choice="lookup").invoke("Hi", stop=["\n"])
    model.invoke("Ho")
    first, second = model.requests
    assert [m.content for m in first.messages] == ["Hi"]
    assert first.tools == ["lookup", "Answer"]
    assert first.options["tool_choice"] == "lookup"
    assert second.tools == []


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
def test_it_waits(way: str) -> None:
    begun = time.monotonic()
    said_by(way, ScriptedModel(replies=["x"], delay=0.1))
    assert time.monotonic() - begun >= 0.1


def test_a_call_for_a_script() -> None:
    assert call("lookup") == {"name": "lookup", "args": {}, "id": None, "type": "tool_call"}
