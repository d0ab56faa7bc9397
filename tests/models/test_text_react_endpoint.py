"""``TextReAct`` over an endpoint: what goes over the wire, stop texts that are ignored or refused, usage, tokens."""

from __future__ import annotations

from typing import Any

import pytest
from fake_openai_server import Fail, FakeOpenAI, Hang, Reply, Scripted
from openai import AuthenticationError, BadRequestError
from text_support import ACTION, ANSWER, RAMBLING, every_way, lookup, said_by

from taograph.models import TextReAct

REFUSED = Fail(400, "Unsupported parameter: 'stop' is not supported with this model.", "unsupported_parameter")


def refusing_stop(reply: str) -> Scripted:
    return lambda body: REFUSED if "stop" in body else Reply(reply)


def model_at(server: FakeOpenAI, **options: Any) -> TextReAct:
    return TextReAct(f"{server.url}#fake", **options)


@every_way
def test_what_goes_over_the_wire(way: str) -> None:
    with FakeOpenAI([ACTION]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
    assert message.tool_calls
    (body,) = server.requests
    assert body["stop"] == ["\nObservation:", "\n[You get]"]
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert not body.keys() & {"tools", "tool_choice", "functions", "response_format", "taograph"}


@every_way
def test_usage_is_reported_once(way: str) -> None:
    with FakeOpenAI([Reply(ANSWER, usage=(120, 12, 100))]) as server:
        usage = said_by(way, model_at(server).bind_tools([lookup])).usage_metadata
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (120, 12, 132)
    assert usage["input_token_details"]["cache_read"] == 100


@every_way
def test_usage_of_all_requests_is_summed(way: str) -> None:
    with FakeOpenAI(["Thought: hm", "Thought: hm", ANSWER]) as server:
        usage = said_by(way, model_at(server).bind_tools([lookup])).usage_metadata
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"]) == (300, 30)


@every_way
def test_a_provider_that_ignores_stop_is_cut_here(way: str) -> None:
    with FakeOpenAI([RAMBLING]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
    assert message.content == "I need Ada."
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    assert message.response_metadata["truncated"] is True


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_connection_is_closed_where_the_model_makes_things_up(way: str) -> None:
    with FakeOpenAI([Hang(f"{RAMBLING} and")]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
        assert message.tool_calls
        assert server.left.wait(10), "the server still streams"


@every_way
def test_a_provider_that_refuses_stop_is_asked_without_from_then_on(way: str) -> None:
    with FakeOpenAI(default=refusing_stop(RAMBLING)) as server:
        model = model_at(server)
        for _ in range(3):
            assert said_by(way, model.bind_tools([lookup])).tool_calls
    assert ["stop" in body for body in server.requests] == [True, False, False, False]


def test_what_was_learned_holds_for_copies() -> None:
    with FakeOpenAI(default=refusing_stop(ACTION)) as server:
        model = model_at(server)
        model.bind_tools([lookup]).invoke("Where?")
        model.model_copy(update={"on_malformed": "return"}).bind_tools([lookup]).invoke("Where?")
    assert ["stop" in body for body in server.requests] == [True, False, False]


def test_stop_texts_of_the_caller_hold_where_the_provider_refuses_them() -> None:
    with FakeOpenAI(default=refusing_stop("Final Answer: one END two")) as server:
        assert model_at(server).bind_tools([lookup]).invoke("Say", stop=["END"]).content == "one"
    assert server.requests[0]["stop"][0] == "END"


@every_way
def test_other_errors_are_not_taken_for_that(way: str) -> None:
    with FakeOpenAI([Fail(400, "messages: the first message must be of the user")]) as server:
        with pytest.raises(BadRequestError, match="first message"):
            said_by(way, model_at(server).bind_tools([lookup]))
        assert len(server.requests) == 1
    with FakeOpenAI([Fail(401, "stop right there: wrong key")]) as server:
        with pytest.raises(AuthenticationError):
            said_by(way, model_at(server).bind_tools([lookup]))
        assert len(server.requests) == 1


def test_a_refusal_of_stop_that_comes_with_another_fault_is_not_learned() -> None:
    with FakeOpenAI([REFUSED, Fail(400, "no such model"), ACTION]) as server:
        model = model_at(server).bind_tools([lookup])
        with pytest.raises(BadRequestError, match="no such model"):
            model.invoke("Where?")
        assert model.invoke("Where?").tool_calls
    assert ["stop" in body for body in server.requests] == [True, False, True]


@every_way
def test_a_reply_that_the_length_limit_cut(way: str) -> None:
    with FakeOpenAI([Reply("Thought: x\nAction: lookup\nAction Input: Ada Lov", finish="length"), ACTION]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
    assert message.tool_calls[0]["args"] == {"name": "Ada"}, "asked again, and not called with half a name"
    assert len(server.requests) == 2


@every_way
def test_a_refusal_of_the_provider(way: str) -> None:
    with FakeOpenAI([Reply("", refusal="I must not.", finish="content_filter")]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
        assert len(server.requests) == 1
    assert message.response_metadata["finish_reason"] == "content_filter"
    assert not message.tool_calls


def test_an_answer_that_must_fit_a_schema_is_asked_for_in_words() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "Page", "schema": {"title": "Page", "type": "object"}}}
    with FakeOpenAI(['Thought: x\nFinal Answer: {"number": 3}', '{"number": 3}']) as server:
        model = model_at(server)
        assert model.bind_tools([lookup], response_format=form).invoke("Where?").content == '{"number": 3}'
        model.bind(response_format=form).invoke("Where?")
    with_tools, without = server.requests
    assert "response_format" not in with_tools
    assert '"title": "Page"' in with_tools["messages"][0]["content"]
    assert without["response_format"] == form
