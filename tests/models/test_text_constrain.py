"""Replies that a server holds to one step: what is asked of it, what is done where it refuses, how replies are read."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from fake_openai_server import Fail, FakeOpenAI, Reply, Scripted
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langchain_openai import OpenAI as Completing
from openai import BadRequestError
from pydantic import SecretStr
from text_support import ACTION, ANSWER, Completions, every_way, lookup, said_by, send

from taograph import create_react_graph
from taograph.models import ScriptedModel, TextReAct
from taograph.models.text_constrain import constraints_of
from taograph.models.text_offers import offer_of

JSON_ACTION = json.dumps({"thought": "I need Ada.", "step": {"action": "lookup", "action_input": {"name": "Ada"}}})
JSON_ANSWER = json.dumps({"thought": "It says so.", "step": {"final_answer": "Page 3."}})
FIELDS = {"grammar", "structured_outputs", "guided_json", "guided_grammar", "response_format"}


def model_at(server: FakeOpenAI, **options: Any) -> TextReAct:
    return TextReAct(f"{server.url}#fake", **options)


def refusing(*fields: str, reply: str, status: int = 400) -> Scripted:
    """A server that does not know some fields, and names the first that it meets."""

    def answer(body: dict[str, Any]) -> Fail | Reply:
        for field in fields:
            if field in body:
                return Fail(status, f"Unrecognized request argument supplied: {field}")
        return Reply(reply)

    return answer


def sent_fields(server: FakeOpenAI) -> list[set[str]]:
    return [FIELDS & body.keys() for body in server.requests]


@every_way
def test_nothing_is_asked_for_by_default(way: str) -> None:
    with FakeOpenAI([ACTION]) as server:
        message = said_by(way, model_at(server).bind_tools([lookup]))
    assert sent_fields(server) == [set()]
    assert "constrained" not in message.response_metadata


@every_way
def test_a_grammar_goes_to_llama_cpp(way: str) -> None:
    with FakeOpenAI([ACTION]) as server:
        message = said_by(way, model_at(server, constrain="grammar").bind_tools([lookup]))
    assert sent_fields(server) == [{"grammar"}]
    assert "call-0 ::= " in server.requests[0]["grammar"]
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    assert message.response_metadata["constrained"] == "grammar"
    assert "refused" not in message.response_metadata


@every_way
@pytest.mark.parametrize("constrain", ["json_schema", "guided"])
def test_a_json_step_is_read_like_any_other(way: str, constrain: str) -> None:
    with FakeOpenAI([JSON_ACTION, JSON_ANSWER]) as server:
        model = model_at(server, constrain=constrain).bind_tools([lookup])
        acted, answered = said_by(way, model), said_by(way, model)
    assert (acted.content, acted.tool_calls[0]["args"]) == ("I need Ada.", {"name": "Ada"})
    assert (answered.content, answered.tool_calls) == ("Page 3.", [])
    assert answered.additional_kwargs["reasoning_content"] == "It says so."
    assert answered.response_metadata["constrained"] == constrain
    assert "repaired" not in acted.response_metadata
    asked = server.requests[0]["messages"][-1]["content"]
    assert asked.startswith("Where is Ada?\n\nWrite this reply as one JSON object")


def test_the_fields_of_openai_and_of_vllm() -> None:
    with FakeOpenAI(default=JSON_ANSWER) as server:
        model_at(server, constrain="json_schema").bind_tools([lookup, send]).invoke("Hi")
        model_at(server, constrain="guided").bind_tools([lookup, send]).invoke("Hi")
    form = server.requests[0]["response_format"]
    assert (form["type"], form["json_schema"]["name"], form["json_schema"]["strict"]) == ("json_schema", "step", True)
    guided = server.requests[1]
    assert guided["structured_outputs"]["json"] == guided["guided_json"], "new and old versions of vLLM"
    for schema in (form["json_schema"]["schema"], guided["guided_json"]):
        jsonschema.Draft202012Validator.check_schema(schema)
        for said in (JSON_ACTION, JSON_ANSWER):
            jsonschema.validate(json.loads(said), schema)
        wrong = {"thought": "", "step": {"action": "lookup", "action_input": {"name": 1}}}
        assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_what_was_left_out_as_null_is_left_out() -> None:
    said = {"thought": "", "step": {"action": "send", "action_input": {"to": "Ada", "text": None}}}
    with FakeOpenAI([json.dumps(said)]) as server:
        message: Any = model_at(server, constrain="json_schema").bind_tools([send]).invoke("Hi")
    assert message.tool_calls[0]["args"] == {"to": "Ada"}
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    jsonschema.validate(said, schema)


@every_way
@pytest.mark.parametrize("status", [400, 422])
def test_auto_goes_on_without_what_is_refused_and_remembers(way: str, status: int) -> None:
    server_of_openai = refusing("grammar", "structured_outputs", reply=JSON_ACTION, status=status)
    with FakeOpenAI(default=server_of_openai) as server:
        model = model_at(server, constrain="auto").bind_tools([lookup])
        messages = [said_by(way, model) for _ in range(2)]
    assert sent_fields(server) == [{"grammar", "structured_outputs"}, {"response_format"}, {"response_format"}]
    for message in messages:
        assert message.tool_calls[0]["args"] == {"name": "Ada"}
        assert message.response_metadata["constrained"] == "json_schema"
        assert message.response_metadata["refused"] == ["grammar"]


@every_way
def test_where_all_is_refused_it_goes_on_unheld(way: str) -> None:
    with FakeOpenAI(default=refusing(*sorted(FIELDS), "stop", reply=ANSWER)) as server:
        model = model_at(server, constrain="auto").bind_tools([lookup])
        first, second = said_by(way, model), said_by(way, model)
    assert sent_fields(server)[-2:] == [set(), set()]
    assert "stop" not in server.requests[-1]
    assert "JSON object in place" not in str(server.requests[-1]["messages"]), "told what is not asked of it"
    for message in (first, second):
        assert message.content == "Ada is\non page 3."
        assert message.response_metadata["constrained"] == "none"
        assert message.response_metadata["refused"] == ["grammar", "json_schema"]
    assert len(server.requests) == 5, "each field is refused once"


def test_what_is_asked_for_by_name_is_dropped_too() -> None:
    with FakeOpenAI(default=refusing("grammar", reply=ACTION)) as server:
        message: Any = model_at(server, constrain="grammar").bind_tools([lookup]).invoke("Hi")
    assert sent_fields(server) == [{"grammar"}, set()]
    assert message.response_metadata["constrained"] == "none"


@every_way
def test_what_is_passed_over_shows_and_is_not_asked_again(way: str) -> None:
    prose = "I need Ada.\n" + ACTION
    with FakeOpenAI([prose, f"```json\n{JSON_ACTION}\n```", ACTION]) as server:
        model = model_at(server, constrain="auto").bind_tools([lookup])
        messages = [said_by(way, model) for _ in range(3)]
    assert sent_fields(server) == [{"grammar", "structured_outputs"}, {"response_format"}, set()]
    for message in messages:
        assert message.tool_calls[0]["args"] == {"name": "Ada"}
        assert message.response_metadata["constrained"] == "none"
    assert messages[0].response_metadata["refused"] == ["grammar"]
    assert messages[2].response_metadata["refused"] == ["grammar", "json_schema"]


@pytest.mark.parametrize("reply", [ACTION, ANSWER, f"  {ANSWER}", 'Action: lookup\nAction Input: {"name": "Ada"}'])
def test_what_may_be_held_is_taken_for_it(reply: str) -> None:
    with FakeOpenAI([reply]) as server:
        message = model_at(server, constrain="grammar").bind_tools([lookup]).invoke("Hi")
    assert message.response_metadata["constrained"] == "grammar"


@every_way
def test_other_errors_are_errors(way: str) -> None:
    with FakeOpenAI(default=Fail(400, "messages: too many images")) as server, pytest.raises(BadRequestError):
        said_by(way, model_at(server, constrain="auto").bind_tools([lookup]))
    assert len(server.requests) == 1


def test_a_choice_holds_for_the_constraint() -> None:
    with FakeOpenAI([ACTION, ANSWER, JSON_ACTION]) as server:
        model_at(server, constrain="grammar").bind_tools([lookup, send], tool_choice="lookup").invoke("Hi")
        model_at(server, constrain="grammar").bind_tools([lookup], tool_choice="none").invoke("Hi")
        model_at(server, constrain="json_schema").bind_tools([lookup], tool_choice="any").invoke("Hi")
    called, answers, acts = server.requests
    assert "step ::= (action)" in called["grammar"]
    assert "send" not in called["grammar"]
    assert "step ::= (final)" in answers["grammar"]
    assert "final_answer" not in json.dumps(acts["response_format"])
    assert '"final_answer"' not in acts["messages"][-1]["content"]


def test_without_tools_nothing_is_held() -> None:
    with FakeOpenAI(["Hello."]) as server:
        message = model_at(server, constrain="auto").invoke("Hi")
    assert sent_fields(server) == [set()]
    assert "constrained" not in message.response_metadata


def test_fields_of_the_users_own_are_kept() -> None:
    with FakeOpenAI(default=ACTION) as server:
        inner = ChatOpenAI(
            base_url=server.url, api_key=SecretStr("x"), model="fake", extra_body={"top_k": 5, "min_p": 0.1}
        )
        model = TextReAct(inner, constrain="grammar").bind_tools([lookup])
        model.invoke("Hi")
        model.bind(extra_body={"top_k": 7}).invoke("Hi")
        model.bind(extra_body={"grammar": "root ::= [a-z]+"}).invoke("Hi")
    first, second, third = server.requests
    assert (first["top_k"], first["min_p"]) == (5, 0.1)
    assert (second["top_k"], "call-0" in second["grammar"]) == (7, True)
    assert third["grammar"] == "root ::= [a-z]+"


def test_a_cut_off_json_step_is_no_step() -> None:
    with FakeOpenAI([Reply(JSON_ACTION[:-9], finish="length")]) as server:
        model = model_at(server, constrain="json_schema", on_malformed="return").bind_tools([lookup])
        message: Any = model.invoke("Hi")
    assert not message.tool_calls
    assert message.response_metadata["error"]


def test_in_the_loop() -> None:
    with FakeOpenAI(default=refusing("grammar", reply=JSON_ANSWER)) as server:
        graph = create_react_graph(model_at(server, constrain="auto"), [lookup])
        result = graph.invoke({"messages": [("user", "Where is Ada?")]})
    assert result["answer"] == "Page 3."
    assert result["messages"][-1].response_metadata["constrained"] == "json_schema"


def test_a_model_without_such_fields_is_left_alone() -> None:
    message: Any = TextReAct(ScriptedModel(replies=[ACTION]), constrain="auto").bind_tools([lookup]).invoke("Hi")
    assert message.tool_calls
    assert message.response_metadata["constrained"] == "none"


def test_a_completion_model_goes_on_where_the_prompt_ends() -> None:
    model = Completing(base_url="http://127.0.0.1:9/v1", api_key=SecretStr("x"))
    offer = offer_of({"tools": [lookup]})
    (held,) = constraints_of("auto", model, offer, {}, "en")
    grammar = held.options["extra_body"]["grammar"]
    assert grammar.startswith('root ::= " " line "\\n"')
    assert held.options["extra_body"]["structured_outputs"] == {"grammar": grammar}
    (guided,) = constraints_of("guided", model, offer, {}, "en")
    assert guided.options["extra_body"]["guided_grammar"] == grammar
    assert not guided.note


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        (ScriptedModel(replies=[]), {"constrain": "gbnf"}, "use one of 'none', 'auto'"),
        (ScriptedModel(replies=[]), {"constrain": "grammar"}, "has no extra_body"),
        (Completions(replies=[]), {"constrain": "json_schema"}, "continues a text"),
        (ScriptedModel(replies=[]), {"constrain": "json_schema", "dialect": "paper"}, "dialect"),
    ],
)
def test_what_cannot_be_is_said_at_once(model: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TextReAct(model, **options)


def test_images_stay_before_the_note() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with FakeOpenAI([JSON_ANSWER]) as server:
        model = model_at(server, constrain="json_schema").bind_tools([lookup])
        model.invoke([HumanMessage([{"type": "text", "text": "What is it?"}, picture])])
    content = server.requests[0]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["text", "image_url", "text"]
