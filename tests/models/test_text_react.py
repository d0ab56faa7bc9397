"""``TextReAct``: what a reply becomes, by every way of calling, over chat and completion models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr
from text_support import ACTION, ANSWER, RAMBLING, Completions, essence, every_way, lookup, said_by, send
from typing_extensions import TypedDict

from taograph.models import FlatPrice, MalformedStepError, ScriptedModel, TextReAct, set_price
from taograph.models.prices import price_of
from taograph.tools.policy import ToolExample, ToolPolicy, with_policy


def chat(*replies: Any, **options: Any) -> tuple[TextReAct, ScriptedModel]:
    inner = ScriptedModel(replies=replies, repeat=True, usage=(30, 4))
    return TextReAct(inner, **options), inner


# What a reply becomes


@every_way
def test_an_action_is_a_call_with_the_thought_as_content(way: str) -> None:
    model, _ = chat(ACTION)
    message = said_by(way, model.bind_tools([lookup]))
    assert message.content == "I need Ada."
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("lookup", {"name": "Ada"})]
    assert message.tool_calls[0]["id"]
    assert message.response_metadata["protocol"] == "text"
    assert "truncated" not in message.response_metadata


@every_way
def test_an_answer_is_the_content_and_its_thought_stands_apart(way: str) -> None:
    model, _ = chat(ANSWER)
    message = said_by(way, model.bind_tools([lookup]))
    assert message.content == "Ada is\non page 3."
    assert message.additional_kwargs["reasoning_content"] == "The book says it."
    assert not message.tool_calls


@every_way
@pytest.mark.parametrize("inner", [ScriptedModel, Completions, FakeListLLM])
@pytest.mark.parametrize("reply", [ACTION, ANSWER, RAMBLING, "Final Answer: 4", "I only think.", ""])
def test_every_way_says_the_same(way: str, inner: type, reply: str) -> None:
    def make() -> TextReAct:
        said: dict[str, Any] = {"responses": [reply]} if inner is FakeListLLM else {"replies": [reply] * 3}
        return TextReAct(inner(**said), on_malformed="return")

    expected = make().bind_tools([lookup]).invoke("Where is Ada?")
    assert essence(said_by(way, make().bind_tools([lookup]))) == essence(expected)


def test_each_call_has_an_id_of_its_own() -> None:
    model, _ = chat(ACTION)
    ids = {model.bind_tools([lookup]).invoke("Where?").tool_calls[0]["id"] for _ in range(3)}
    assert len(ids) == 3


@every_way
def test_what_the_model_makes_up_is_dropped(way: str) -> None:
    model, _ = chat(RAMBLING)
    message = said_by(way, model.bind_tools([lookup]))
    assert "nowhere" not in str(message).lower()
    assert message.response_metadata["truncated"] is True


def test_an_unknown_tool_is_passed_on() -> None:
    model, _ = chat("Thought: x\nAction: fly\nAction Input: to Rome")
    assert model.bind_tools([lookup]).invoke("Go").tool_calls[0]["name"] == "fly"


def test_mended_arguments_are_told_of() -> None:
    model, _ = chat("Thought: x\nAction: lookup\nAction Input: {'name': 'Ada',}")
    message = model.bind_tools([lookup]).invoke("Where?")
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    assert message.response_metadata["repaired"] is True


@pytest.mark.parametrize(
    ("written", "args"), [("Ada", {"name": "Ada"}), ('"Ada"', {"name": "Ada"}), ("42", {"name": "42"})]
)
def test_text_goes_to_the_only_parameter(written: str, args: dict[str, Any]) -> None:
    model, _ = chat(f"Thought: x\nAction: lookup\nAction Input: {written}")
    assert model.bind_tools([lookup]).invoke("Where?").tool_calls[0]["args"] == args


def test_reasoning_of_the_model_itself_is_kept_with_the_thought() -> None:
    reply = AIMessage(ANSWER, additional_kwargs={"reasoning_content": "Long musings."})
    model, inner = chat(reply)
    message = model.bind_tools([lookup]).invoke("Where?")
    assert message.additional_kwargs["reasoning_content"] == "Long musings.\nThe book says it."
    model.bind_tools([lookup]).invoke([HumanMessage("Where?"), message, HumanMessage("And Bo?")])
    shown = inner.requests[-1].messages[2].content
    assert shown == "Thought: The book says it.\nFinal Answer: Ada is\non page 3.", "musings are not sent again"


# Replies that cannot be read


@every_way
def test_a_broken_format_is_asked_for_again_with_a_hint(way: str) -> None:
    inner = ScriptedModel(replies=["Thought: I wonder.", ACTION], usage=(30, 4))
    message = said_by(way, TextReAct(inner).bind_tools([lookup]))
    assert message.tool_calls
    assert message.response_metadata["unread_replies"] == 1
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (60, 8)
    again = inner.requests[1].messages
    assert [m.type for m in again] == ["system", "human", "ai", "human"]
    assert again[2].content == "Thought: I wonder."
    assert "I wonder." in str(again[3].content), "the hint quotes what was wrong"
    assert "Action Input" in str(again[3].content), "and shows the form"


@every_way
def test_after_so_many_retries_it_raises(way: str) -> None:
    inner = ScriptedModel(replies=["Thought: hm"] * 3, usage=(30, 4))
    with pytest.raises(MalformedStepError, match=r"3 times \(missing_action\)") as raised:
        said_by(way, TextReAct(inner).bind_tools([lookup]))
    assert len(inner.requests) == 3
    assert raised.value.step.error == "missing_action"
    assert raised.value.text == "Thought: hm"
    assert raised.value.usage_metadata is not None
    assert raised.value.usage_metadata["total_tokens"] == 3 * 34


def test_no_retries() -> None:
    model, inner = chat("Thought: hm", retries=0)
    with pytest.raises(MalformedStepError, match=r"could not be read \(missing_action\)"):
        model.bind_tools([lookup]).invoke("Where?")
    assert len(inner.requests) == 1


@every_way
def test_a_broken_reply_can_be_returned(way: str) -> None:
    model, inner = chat("Thought: hm\nAction: lookup", on_malformed="return")
    message = said_by(way, model.bind_tools([lookup]))
    assert message.content == "Thought: hm\nAction: lookup"
    assert message.response_metadata["error"] == "missing_action_input"
    assert "Action Input" in message.response_metadata["error_detail"]
    assert message.response_metadata["error_detail"][:20] in message.response_metadata["error_hint"]
    assert len(inner.requests) == 1


def test_an_empty_reply_is_not_shown_again() -> None:
    inner = ScriptedModel(replies=["", ANSWER])
    assert TextReAct(inner).bind_tools([lookup]).invoke("Where?").content == "Ada is\non page 3."
    assert [m.type for m in inner.requests[1].messages] == ["system", "human"], "providers refuse empty messages"


def test_a_very_long_broken_reply_is_not_sent_whole() -> None:
    inner = ScriptedModel(replies=["Thought: " + "so " * 50_000, ANSWER])
    TextReAct(inner).bind_tools([lookup]).invoke("Where?")
    assert len(str(inner.requests[1].messages[2].content)) < 5000


def test_arguments_that_fit_no_parameter_are_broken() -> None:
    @with_two
    def book(city: str, day: str) -> str:
        """Book a room.

        Args:
            city: Where.
            day: When.
        """
        return ""

    model, _ = chat("Thought: x\nAction: book\nAction Input: Rome", on_malformed="return")
    message = model.bind_tools([book]).invoke("Book")
    assert message.response_metadata["error"] == "bad_arguments"
    assert "city, day" in message.response_metadata["error_detail"]


def with_two(function: Any) -> Any:
    from taograph import tool

    return tool(effects="none")(function)


# Strictness


GUESSED = 'Thought: x\nAction: {name}\nAction Input: {{"to": "Ada", "text": "Hi'


def test_calls_with_effects_are_never_guessed() -> None:
    model, _ = chat(GUESSED.format(name="send"), on_malformed="return")
    message = model.bind_tools([send]).invoke("Write")
    assert not message.tool_calls
    assert message.response_metadata["error"] == "bad_arguments"
    harmless = with_policy(send, ToolPolicy(effects="none"))
    assert model.bind_tools([harmless]).invoke("Write").tool_calls


@pytest.mark.parametrize("form", ["dict", "function"])
def test_a_tool_that_says_nothing_of_its_effects_has_some(form: str) -> None:
    def send(to: str, text: str) -> str:
        """Send a letter."""
        return to + text

    schema = {
        "name": "send",
        "description": "Send a letter.",
        "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}},
    }
    model, _ = chat(GUESSED.format(name="send"), on_malformed="return")
    message = model.bind_tools([schema if form == "dict" else send]).invoke("Write")
    assert message.response_metadata["error"] == "bad_arguments"


def test_a_call_with_effects_beside_an_answer_is_not_run() -> None:
    both = 'Thought: x\nAction: send\nAction Input: {"to": "Ada"}\nFinal Answer: sent'
    model, _ = chat(both, on_malformed="return")
    assert model.bind_tools([send]).invoke("Write").response_metadata["error"] == "action_and_answer"


@pytest.mark.parametrize("written", ["Ada and all the others", '{"name": "Ada'])
@every_way
def test_an_action_that_the_length_limit_cut_is_not_run(way: str, written: str) -> None:
    reply = AIMessage(
        f"Thought: x\nAction: lookup\nAction Input: {written}", response_metadata={"finish_reason": "length"}
    )
    model, _ = chat(reply, on_malformed="return")
    message = said_by(way, model.bind_tools([lookup]))
    assert not message.tool_calls
    assert message.response_metadata["error"] in ("incomplete", "bad_arguments")
    assert message.response_metadata["finish_reason"] == "length"


def test_a_refusal_is_no_broken_step() -> None:
    reply = AIMessage("", additional_kwargs={"refusal": "I will not."}, response_metadata={"finish_reason": "stop"})
    model, inner = chat(reply)
    message = model.bind_tools([lookup]).invoke("Where?")
    assert message.additional_kwargs["refusal"] == "I will not."
    assert len(inner.requests) == 1


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


# Without tools


@every_way
@pytest.mark.parametrize("inner", [ScriptedModel, Completions])
def test_without_tools_nothing_is_said_of_the_protocol(way: str, inner: type) -> None:
    model = TextReAct(inner(replies=["  Just a reply.\n"]))
    message = said_by(way, model, "Say something.")
    assert str(message.content).strip() == "Just a reply."
    sent = model.model.prompts[0] if inner is Completions else model.model.requests[0].messages  # type: ignore[union-attr]
    assert sent == ("Say something." if inner is Completions else [HumanMessage("Say something.")])


@every_way
def test_without_tools_a_labelled_answer_is_unwrapped(way: str) -> None:
    model, _ = chat(ANSWER)
    assert said_by(way, model).content == "Ada is\non page 3."


@every_way
def test_without_tools_an_action_is_text(way: str) -> None:
    model, inner = chat(ACTION)
    message = said_by(way, model)
    assert message.content == ACTION
    assert not message.tool_calls
    assert len(inner.requests) == 1


def test_a_conversation_with_calls_is_rendered_without_tools_too() -> None:
    model, inner = chat("So it is.\nFinal Answer: page 3")
    call = {"name": "lookup", "args": {"name": "Ada"}, "id": "1"}
    asked = [HumanMessage("Where?"), AIMessage("Look.", tool_calls=[call]), ToolMessage("page 3", tool_call_id="1")]
    assert model.invoke([*asked, HumanMessage("Answer now.")]).content == "page 3"
    assert [m.type for m in inner.requests[0].messages] == ["human", "ai", "human"]
    assert inner.requests[0].messages[1].content.startswith("Thought: Look.\nAction: lookup")


# Completion models


def test_a_completion_model_continues_a_thought() -> None:
    inner = Completions(replies=[" I need Ada.\nAction: lookup\nAction Input: Ada\n"])
    message = TextReAct(inner).bind_tools([lookup]).invoke("Where is Ada?")
    assert message.content == "I need Ada."
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    assert inner.prompts[0].endswith("[You get]\nQuestion: Where is Ada?\n\n[You write]\nThought:")
    assert inner.stops[0] == ["\nObservation:", "\n[You get]", "\nQuestion:"]


@every_way
def test_a_completion_model_is_cut_where_it_asks_itself(way: str) -> None:
    inner = Completions(replies=[" I know it.\nFinal Answer: page 3\n\nQuestion: And Bo?\nThought: x"])
    message = said_by(way, TextReAct(inner).bind_tools([lookup]))
    assert message.content == "page 3"
    assert message.response_metadata["truncated"] is True


def test_a_completion_model_is_asked_again() -> None:
    inner = Completions(replies=[" hm", " I know it.\nFinal Answer: page 3"])
    assert TextReAct(inner).bind_tools([lookup]).invoke("Where?").content == "page 3"
    assert "[You write]\nhm\n\n[You get]\nYour last reply could not be read." in inner.prompts[1]
    assert inner.prompts[1].endswith("[You write]\nThought:")


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


def test_a_profile_says_that_it_calls_tools() -> None:
    inner = ScriptedModel(replies=[], profile={"tool_calling": False, "max_input_tokens": 4096})
    profile = TextReAct(inner).profile
    assert profile is not None
    assert profile["tool_calling"] is True
    assert profile["max_input_tokens"] == 4096
    assert isinstance(TextReAct(inner), BaseChatModel)
