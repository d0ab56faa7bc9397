"""The default local model itself, where it has been pulled: `pytest -m slow`.

Outcomes are asserted, never wording: at temperature 0 the same machine repeats itself, another one may differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from local_support import alive, wait_for
from pydantic import BaseModel

from taograph import Limits, create_react_graph
from taograph.models import local_lease
from taograph.models.catalog import DEFAULT
from taograph.models.local import LocalChat, chat_model
from taograph.models.local_grammar import call_grammar
from taograph.models.pull import pulled
from taograph.tools.calculator import calculator
from taograph.tools.clock import current_time
from taograph.tools.documents import corpus_tools

WHY = (
    "the engine xllamacpp is not installed: pip install 'taograph[local]'"
    if find_spec("xllamacpp") is None
    else f"no model: tao model pull {DEFAULT.name}"
    if DEFAULT.name not in pulled()
    else ""
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.skipif(bool(WHY), reason=WHY)]


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


@pytest.fixture(scope="module")
def graph(model: LocalChat) -> Any:
    return create_react_graph(model, [calculator, *corpus_tools(), current_time], limits=Limits(steps=6, seconds=300.0))


@pytest.mark.parametrize(
    ("question", "tool_name", "figure"),
    [
        ("What is 17% of 2340?", "calculator", "397.8"),
        ("What is the capital of Mongolia?", "search_documents", "Ulaanbaatar"),
    ],
)
def test_it_answers_through_a_tool(graph: Any, question: str, tool_name: str, figure: str) -> None:
    result = graph.invoke({"messages": [("user", question)]})
    called = [call["name"] for m in result["messages"] if isinstance(m, AIMessage) for call in m.tool_calls]
    observed = [str(m.text) for m in result["messages"] if isinstance(m, ToolMessage)]
    assert called == [tool_name]
    assert figure in observed[0]
    assert figure in result["answer"]
    assert result["stop"]["reason"] == "final"


def test_a_question_beyond_it_ends_well(graph: Any) -> None:
    result = graph.invoke({"messages": [("user", "What is half the population of Angola?")]})
    assert result["answer"]
    assert result["stop"]["reason"] in ("final", "step_limit", "repeated_action", "tool_errors")


async def test_all_ways_of_asking_agree(model: LocalChat) -> None:
    from taograph.graphs.protocols.examples import worked_examples

    acting = model.bind_tools([calculator], tool_choice="required")
    request = [*worked_examples([calculator]), ("user", "How much is 38 times 41?")]
    messages = [acting.invoke(request), await acting.ainvoke(request)]
    for stream in (list(acting.stream(request)), [chunk async for chunk in acting.astream(request)]):
        whole = stream[0]
        for chunk in stream[1:]:
            whole = whole + chunk
        messages.append(whole)
    for message in messages:
        assert isinstance(message, AIMessage)
        assert [call["name"] for call in message.tool_calls] == ["calculator"]
        assert message.tool_calls[0]["args"] == {"expression": "38 * 41"}
        assert message.usage_metadata
        assert message.usage_metadata["input_tokens"] > 100
    assert messages[1].usage_metadata["input_token_details"]["cache_read"] > 100


def test_a_tool_that_must_be_called_is(model: LocalChat) -> None:
    message: Any = model.bind_tools([calculator, current_time], tool_choice="current_time").invoke("Good morning!")
    assert {call["name"] for call in message.tool_calls} == {"current_time"}


def test_structured_output_by_a_call(model: LocalChat) -> None:
    class City(BaseModel):
        """A city."""

        name: str
        country: str

    made = model.with_structured_output(City, method="function_calling").invoke("Lima is the capital of Peru.")
    assert isinstance(made, City)


def test_any_schema_makes_a_grammar_that_the_engine_takes(model: LocalChat) -> None:
    from test_local_grammar import ODD

    odd = {"type": "function", "function": {"name": "odd", "description": "Odd.", "parameters": ODD}}
    assert "näme" in call_grammar([odd])
    message: Any = model.invoke("Call the tool.", tools=[odd], tool_choice="required", max_tokens=200)
    assert message.tool_calls or message.response_metadata["finish_reason"] == "length"


def test_a_prompt_that_is_too_long(model: LocalChat) -> None:
    with pytest.raises(ContextOverflowError):
        model.invoke("word " * 9000)


def test_an_abandoned_stream_frees_the_server(model: LocalChat) -> None:
    stream = model.stream("Write a very long story about the sea.", max_tokens=2000)
    next(stream)
    next(stream)
    stream.close()
    began = time.monotonic()
    model.invoke("Say yes.", max_tokens=4)
    # The story would take minutes.
    assert time.monotonic() - began < 60


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Rain in {city}."


@pytest.mark.skipif("smollm2-135m" not in pulled(), reason="no model: tao model pull smollm2-135m")
def test_a_file_whose_template_has_no_tools_gets_ours() -> None:
    made = chat_model(str(pulled()["smollm2-135m"]))
    assert isinstance(made, LocalChat)
    assert made._lease is not None
    with_known = made._lease.spec
    made._lease.spec = type(with_known)(with_known.model, with_known.run_dir, template="auto")
    try:
        assert made._lease.record().template == "bare_json"
    finally:
        made._lease.leave()
