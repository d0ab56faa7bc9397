"""``TextReAct``: what a reply becomes, by every way of calling, over chat and completion models."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from text_support import ACTION, ANSWER, RAMBLING, Completions, chat, essence, every_way, lookup, said_by, send

from taograph import tool
from taograph.models import MalformedStepError, ScriptedModel, TextReAct
from taograph.tools.policy import ToolPolicy, with_policy

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
    @tool(effects="none")
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
