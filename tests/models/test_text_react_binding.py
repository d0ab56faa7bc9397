"""``TextReAct``: tools in every shape, choices, structured output, options, and what others ask of a model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr
from text_support import ACTION, ANSWER, chat, lookup, send
from typing_extensions import TypedDict

from taograph.models import FlatPrice, ScriptedModel, TextReAct, set_price
from taograph.models.prices import price_of
from taograph.tools.policy import ToolExample, ToolPolicy, with_policy

# Tools


class Lookup(BaseModel):
    """Look a name up."""

    name: str = Field(description="What to look up.")


class LookupDict(TypedDict):
    """Look a name up."""

    name: str


def plain(name: str) -> str:
    """Look a name up.

    Args:
        name: What to look up.
    """
    return name


PARAMETERS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SHAPES: dict[str, tuple[Any, str]] = {
    "tool": (lookup, "lookup"),
    "function": (plain, "plain"),
    "pydantic": (Lookup, "Lookup"),
    "typed dict": (LookupDict, "LookupDict"),
    "json schema": ({"title": "find", "description": "Find.", **PARAMETERS}, "find"),
    "openai": (
        {"type": "function", "function": {"name": "find", "description": "Find.", "parameters": PARAMETERS}},
        "find",
    ),
    "openai function": ({"name": "find", "description": "Find.", "parameters": PARAMETERS}, "find"),
    "anthropic": ({"name": "find", "description": "Find.", "input_schema": PARAMETERS}, "find"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tools_in_every_shape(shape: str) -> None:
    source, name = SHAPES[shape]
    model, inner = chat(f'Thought: x\nAction: {name}\nAction Input: {{"name": "Ada"}}')
    message = model.bind_tools([source]).invoke("Where?")
    assert message.tool_calls[0]["name"] == name
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    system = str(inner.requests[0].messages[0].content)
    assert f"## {name}" in system
    assert "name (string, required)" in system
    assert not inner.requests[0].tools, "the model behind gets no tools"


def test_tools_can_be_given_with_the_call() -> None:
    model, _ = chat(ACTION)
    assert model.invoke("Where?", tools=[lookup]).tool_calls
    assert model.bind(tools=[lookup]).invoke("Where?").tool_calls


def test_a_bound_model_shows_its_tools_as_others_do() -> None:
    bound: Any = chat(ACTION)[0].bind_tools([lookup])
    (shown,) = bound.kwargs["tools"]
    assert shown["function"]["name"] == "lookup"
    assert shown["function"]["parameters"]["properties"].keys() == {"name"}
    json.dumps(bound.kwargs)


def test_worked_examples_of_a_tool_reach_the_prompt() -> None:
    example = ToolExample("Where is Bo?", {"name": "Bo"}, "Bo is on page 9.", "On page 9.")
    shown = with_policy(lookup, ToolPolicy(effects="none", examples=(example,)))
    model, inner = chat(ACTION)
    model.bind_tools([shown]).invoke("Where?")
    assert "Observation: Bo is on page 9." in str(inner.requests[0].messages[0].content)


def test_two_tools_of_one_name_are_refused() -> None:
    other = {"name": "lookup", "description": "Other.", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(ValueError, match="two tools are named 'lookup'"):
        chat(ACTION)[0].bind_tools([lookup, other])


# Choices


@pytest.mark.parametrize("choice", ["any", "required", True])
def test_any_tool_must_be_called(choice: Any) -> None:
    inner = ScriptedModel(replies=["Final Answer: 4", ACTION])
    message = TextReAct(inner).bind_tools([lookup], tool_choice=choice).invoke("Where?")
    assert message.tool_calls
    first, second = inner.requests
    assert "must be an Action" in str(first.messages[-1].content)
    assert str(second.messages[-1].content).startswith("Your next reply must be an Action")


@pytest.mark.parametrize(
    "choice",
    ["send", {"type": "function", "function": {"name": "send"}}, {"type": "tool", "name": "send"}],
)
def test_a_named_tool_must_be_called(choice: Any) -> None:
    inner = ScriptedModel(replies=[ACTION, 'Thought: x\nAction: send\nAction Input: {"to": "Ada"}'])
    message = TextReAct(inner).bind_tools([lookup, send], tool_choice=choice).invoke("Write to Ada")
    assert message.tool_calls[0]["name"] == "send"
    assert len(inner.requests) == 2


@pytest.mark.parametrize("choice", ["none", False, {"type": "none"}])
def test_no_tool_may_be_called(choice: Any) -> None:
    inner = ScriptedModel(replies=[ACTION, ANSWER])
    message = TextReAct(inner).bind_tools([lookup], tool_choice=choice).invoke("Where?")
    assert message.content == "Ada is\non page 3."
    assert not message.tool_calls


def test_a_choice_leaves_the_beginning_of_the_prompt_as_it_is() -> None:
    """Else a provider's cache, and a small model's, would be of no use for the closing request of a run."""
    model, inner = chat(ANSWER)
    asked = [HumanMessage("Where?")]
    model.bind_tools([lookup]).invoke(asked)
    model.bind_tools([lookup], tool_choice="none").invoke(asked)
    free, closing = (request.messages for request in inner.requests)
    assert free[0] == closing[0]
    assert str(closing[1].content).startswith(str(free[1].content))


@pytest.mark.parametrize("choice", [None, "auto", {"type": "auto"}])
def test_the_model_may_decide(choice: Any) -> None:
    for reply in (ACTION, ANSWER):
        model, inner = chat(reply)
        model.bind_tools([lookup], tool_choice=choice).invoke("Where?")
        assert str(inner.requests[0].messages[-1].content) == "Where?"


def test_a_choice_that_is_none_of_the_tools_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tool_choice='fly': use .* the name of a tool: lookup"):
        chat(ACTION)[0].bind_tools([lookup], tool_choice="fly")


class Page(BaseModel):
    """Where something stands."""

    number: int
    book: str = "the book"


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_structured_output(method: str) -> None:
    model, _ = chat('Thought: x\nAction: Page\nAction Input: {"number": 3}')
    assert model.with_structured_output(Page, method=method).invoke("Where?") == Page(number=3)


def test_structured_output_is_asked_for_again() -> None:
    inner = ScriptedModel(replies=["It is page 3.", 'Action: Page\nAction Input: {"number": 3}'])
    assert TextReAct(inner).with_structured_output(Page).invoke("Where?") == Page(number=3)


# Options, and what others ask of a model


def test_options_are_passed_on() -> None:
    model, inner = chat(ACTION, temperature=0.1, max_tokens=50)
    model.bind_tools([lookup], parallel_tool_calls=False, strict=True, seed=7).invoke("Where?", temperature=0.2)
    assert inner.requests[0].options == {"temperature": 0.2, "max_tokens": 50, "seed": 7}


def test_stop_texts_of_the_caller() -> None:
    model, _ = chat("Thought: I know.\nFinal Answer: one two END three", stop=["END"])
    message = model.bind_tools([lookup]).invoke("Say")
    assert message.content == "one two"
    assert "truncated" not in message.response_metadata
    assert model.bind_tools([lookup]).invoke("Say", stop=["two"]).content == "one"


def test_a_template_and_a_language() -> None:
    model, inner = chat("思考：我知道。\n最终答案：第三页", language="zh", template="TOOLS {tools} {keep}")
    message = model.bind_tools([lookup]).invoke("在哪里？")
    assert message.content == "第三页"
    assert str(inner.requests[0].messages[0].content).startswith("TOOLS ## lookup")
    assert str(inner.requests[0].messages[0].content).endswith("{keep}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "fr"}, "language='fr': use one of"),
        ({"retries": -1}, "retries=-1: give 0 or more"),
        ({"template": "no tools here"}, r"template has no \{tools\}"),
        ({"on_malformd": "return"}, "on_malformd= is no option of TextReAct"),
        ({"on_malformed": "maybe"}, "on_malformed"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextReAct(ScriptedModel(replies=[]), **options)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="give a chat model, a completion model or a name"):
        TextReAct(42)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wrapped in TextReAct already"):
        TextReAct(TextReAct(ScriptedModel(replies=[])))


def test_the_model_behind_is_seen_through() -> None:
    model = TextReAct(ScriptedModel(replies=[], model_name="tiny-1"))
    set_price("tiny-1", FlatPrice(1.0, 2.0))
    assert model.model_name == "tiny-1"
    assert price_of(model) == FlatPrice(1.0, 2.0)
    assert not model.worked_examples
    assert not model.free_of_charge

    class Small(ScriptedModel):
        worked_examples: bool = True
        free_of_charge: bool = True

    small = TextReAct(Small(replies=[]))
    assert small.worked_examples
    assert price_of(small) == FlatPrice(0.0, 0.0)


def test_no_secret_is_shown() -> None:
    key = "sk-a-key-that-nobody-may-see-1234"
    inner = ChatOpenAI(
        model="any", api_key=SecretStr(key), base_url="http://127.0.0.1:9/v1", default_headers={"X-Key": key}
    )
    model = TextReAct(inner)
    bound = model.bind_tools([lookup])
    shown = [repr(model), str(model), dumps(model), dumps(bound), repr(bound), str(model.asdict())]
    assert not [text for text in shown if key in text]
    assert repr(model) == "TextReAct(model='ChatOpenAI(any)')"


def test_it_takes_over_what_is_set_on_the_model_behind() -> None:
    inner = ScriptedModel(replies=[ACTION], tags=["mine"], metadata={"team": "a"}, cache=False)
    model = TextReAct(inner)
    assert (model.tags, model.cache) == (["mine"], False)
    assert (model.metadata or {})["team"] == "a"
    assert TextReAct(inner, tags=["other"]).tags == ["other"]


def test_a_grammar_of_function_calls_is_left_out() -> None:
    class Local(ScriptedModel):
        constrain_calls: bool = True

    inner = Local(replies=[])
    model: Any = TextReAct(inner).model
    assert not model.constrain_calls
    assert inner.constrain_calls, "the model that was given stays as it is"


def test_a_profile_says_that_it_calls_tools() -> None:
    inner = ScriptedModel(replies=[], profile={"tool_calling": False, "max_input_tokens": 4096})
    profile = TextReAct(inner).profile
    assert profile is not None
    assert profile["tool_calling"] is True
    assert profile["max_input_tokens"] == 4096
    assert isinstance(TextReAct(inner), BaseChatModel)
