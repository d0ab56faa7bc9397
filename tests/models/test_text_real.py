"""The text protocol with the default local model itself, where it has been pulled: `pytest -m slow`.

Outcomes are asserted, never wording.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from local_support import alive, wait_for

from taograph import Limits, create_react_graph
from taograph.graphs.protocols.examples import worked_examples
from taograph.models import TextReAct, local_lease
from taograph.models.catalog import DEFAULT
from taograph.models.local import LocalChat, chat_model
from taograph.models.pull import pulled
from taograph.tools.calculator import calculator
from taograph.tools.clock import current_time

WHY = (
    "the engine xllamacpp is not installed: pip install 'taograph[local]'"
    if find_spec("xllamacpp") is None
    else f"no model: tao model pull {DEFAULT.name}"
    if DEFAULT.name not in pulled()
    else ""
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.skipif(bool(WHY), reason=WHY)]
ASKED = [*worked_examples([calculator]), HumanMessage("What is 17% of 2340?")]
# What a schema can hold that is hard to write as a grammar.
ODD = {
    "title": "odd",
    "description": "Notes a number.",
    "type": "object",
    "properties": {
        "number": {"type": "number"},
        'a "quoted" \\ näme': {"enum": ["x", 1, None]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "list": {"type": "array"},
        "any": True,
    },
    "required": ["number"],
}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalChat]:
    made = chat_model(DEFAULT.name)
    assert isinstance(made, LocalChat)
    assert made._lease is not None
    yield made
    record = made._lease.record()
    local_lease._leases.clear()
    made._lease.leave()
    # Another process of the user may hold it too; ours must not.
    wait_for(lambda: not alive(record.pid), seconds=10)


@pytest.mark.parametrize("constrain", ["grammar", "json_schema", "auto"])
def test_a_step_in_every_way(model: LocalChat, constrain: Any) -> None:
    acting = TextReAct(model, constrain=constrain).bind_tools([calculator])
    message: Any = acting.invoke(ASKED)
    assert [call["name"] for call in message.tool_calls] == ["calculator"]
    taken = message.response_metadata.get("constrained", "none")
    if constrain in ("grammar", "auto"):
        assert taken == "grammar"
    else:  # whether a schema is taken depends on the engine's version and the template; what is not, is said
        assert (taken == constrain) != (message.response_metadata.get("refused") == [constrain])


async def test_all_ways_of_asking_agree(model: LocalChat) -> None:
    acting = TextReAct(model, constrain="grammar").bind_tools([calculator], tool_choice="calculator")
    messages: list[Any] = [acting.invoke(ASKED), await acting.ainvoke(ASKED)]
    for stream in (list(acting.stream(ASKED)), [chunk async for chunk in acting.astream(ASKED)]):
        whole = stream[0]
        for chunk in stream[1:]:
            whole = whole + chunk
        messages.append(whole)
    for message in messages:
        assert isinstance(message, AIMessage)
        assert [call["name"] for call in message.tool_calls] == ["calculator"]
        assert message.tool_calls[0]["args"].keys() == {"expression"}


def test_a_tool_that_must_be_called_is(model: LocalChat) -> None:
    acting = TextReAct(model, constrain="grammar").bind_tools([calculator, current_time], tool_choice="current_time")
    message: Any = acting.invoke("Good morning!")
    assert [call["name"] for call in message.tool_calls] == ["current_time"]


def test_the_engine_takes_any_schema(model: LocalChat) -> None:
    acting = TextReAct(model, constrain="grammar", max_tokens=200, on_malformed="return")
    message: Any = acting.bind_tools([ODD], tool_choice="odd").invoke("Note the number 17.5.")
    assert message.response_metadata["constrained"] == "grammar"
    assert message.tool_calls or message.response_metadata["finish_reason"] == "length"


def test_the_loop_answers_through_a_tool(model: LocalChat) -> None:
    wrapped = TextReAct(model, constrain="grammar")
    graph = create_react_graph(wrapped, [calculator, current_time], limits=Limits(steps=6, seconds=300.0))
    result = graph.invoke({"messages": [("user", "What is 348 times 27?")]})
    assert result["stop"]["reason"] == "final"
    assert "9396" in result["answer"].replace(",", "")
    acted = [m for m in result["messages"] if isinstance(m, AIMessage) and m.tool_calls]
    assert acted[0].tool_calls[0]["name"] == "calculator"
    assert acted[0].response_metadata["constrained"] == "grammar"


@pytest.mark.skipif("gemma-3-270m" not in pulled(), reason="no model: tao model pull gemma-3-270m")
def test_a_base_model_writes_steps() -> None:
    base = chat_model("local:gemma-3-270m")
    assert isinstance(base, LocalChat)
    assert base._lease is not None
    try:
        for constrain in ("none", "grammar"):
            acting = TextReAct(base, constrain=constrain, on_malformed="return").bind_tools([calculator])
            message: Any = acting.invoke(ASKED)
            assert [call["name"] for call in message.tool_calls] == ["calculator"]
            seen = [message, ToolMessage("397.8", tool_call_id=message.tool_calls[0]["id"])]
            answer: Any = acting.invoke([*ASKED, *seen])
            assert "397.8" in answer.content
            assert "error" not in answer.response_metadata
    finally:
        base._lease.leave()
