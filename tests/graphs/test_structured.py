"""An answer in a required form: bounded retries, a typed failure, never a silent None."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar
from typing import TypedDict as PlainTypedDict  # noqa: TID251 - what many users have

import pytest
from fake_openai_server import Fail, FakeOpenAI, Reply
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field, create_model, field_validator
from support import Way, asks, assert_acceptable, assert_ended, both_ways, lookup, question, run, thread
from typing_extensions import TypedDict

from taograph import Cancellation, Limits, create_react_graph, stream_steps
from taograph.models import ScriptedModel, call


class Place(BaseModel):
    """Where somebody is."""

    name: str
    page: int = Field(ge=1)


class PlaceDict(TypedDict):
    """Where somebody is."""

    name: str
    page: int


@dataclass
class PlaceData:
    """Where somebody is."""

    name: str
    page: int


PLACE_SCHEMA: dict[str, Any] = {
    "title": "Place",
    "type": "object",
    "properties": {"name": {"type": "string"}, "page": {"type": "integer", "minimum": 1}},
    "required": ["name", "page"],
}
UNTITLED = {key: value for key, value in PLACE_SCHEMA.items() if key != "title"}
FORMS = {
    "pydantic": (Place, "Place"),
    "typed dict": (PlaceDict, "PlaceDict"),
    "dataclass": (PlaceData, "PlaceData"),
    "json schema": (PLACE_SCHEMA, "Place"),
    "json schema without a title": (UNTITLED, "Answer"),
    "openai's form": ({"type": "json_schema", "json_schema": {"name": "place", "schema": UNTITLED}}, "place"),
    "tool strategy": (ToolStrategy(Place), "Place"),
    "provider strategy": (ProviderStrategy(Place), "Place"),
}
all_forms = pytest.mark.parametrize(("form", "name"), FORMS.values(), ids=FORMS.keys())
ADA = {"name": "Ada", "page": 3}


def gives(name: str, args: Any, **more: Any) -> AIMessage:
    return AIMessage("", tool_calls=[call(name, args)], **more)


def place_run(*closing: Any, **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    """One look-up, an answer, and then these replies to the request for the form."""
    model = ScriptedModel(replies=[asks("Ada"), "Page 3.", *closing])
    graph = create_react_graph(model, [lookup], response_format=Place, **options)
    return graph.invoke(question()), model


# --- the forms ---------------------------------------------------------------------------------------------


@all_forms
@both_ways
def test_every_form_gives_plain_values(form: Any, name: str, way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 3.", gives(name, ADA)])
    result = run(way, create_react_graph(model, [lookup], response_format=form), question())
    assert_ended(result, "final", model)
    assert result["structured"] == ADA
    assert type(result["structured"]) is dict
    assert result["answer"] == "Page 3."
    assert json.loads(json.dumps(result["structured"])) == ADA


@all_forms
def test_every_form_is_put_to_the_model_as_a_tool_it_must_call(form: Any, name: str) -> None:
    model = ScriptedModel(replies=["Page 3.", gives(name, ADA)])
    create_react_graph(model, [lookup], response_format=form).invoke(question())
    asked = model.requests[-1]
    assert asked.tools == [name]
    assert asked.options["tool_choice"] == name
    parameters = asked.options["tools"][0]["function"]["parameters"]
    assert set(parameters["properties"]) == {"name", "page"}
    assert sorted(parameters["required"]) == ["name", "page"]


@all_forms
def test_every_form_is_checked(form: Any, name: str) -> None:
    model = ScriptedModel(replies=["Page 3.", gives(name, {"name": "Ada"}), gives(name, ADA)])
    result = create_react_graph(model, [lookup], response_format=form).invoke(question())
    assert_ended(result, "final", model)
    assert result["structured"] == ADA
    assert "page" in str(model.requests[-1].messages[-1].content), "it is told which field is wrong"


def test_a_schema_may_refer_to_its_own_parts() -> None:
    form = {
        "title": "Tree",
        "type": "object",
        "$defs": {"Leaf": {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}},
        "properties": {"leaf": {"$ref": "#/$defs/Leaf"}, "all": {"items": {"$ref": "#/$defs/Leaf/properties/n"}}},
        "required": ["leaf"],
    }
    good = {"leaf": {"n": 1, "next": {"leaf": {"n": 2}}}, "all": [1, 2]}
    model = ScriptedModel(replies=["A tree.", gives("Tree", {"leaf": {"n": "one"}}), gives("Tree", good)])
    result = create_react_graph(model, [], response_format=form).invoke(question())
    assert_ended(result, "final", model)
    assert result["structured"] == good


def test_a_schema_that_refers_to_itself_without_end_ends() -> None:
    model = ScriptedModel(replies=["Round.", gives("A", {"a": 1})], repeat=True)
    result = create_react_graph(model, [], response_format={"title": "A", "$ref": "#"}).invoke(question())
    assert_ended(result, "malformed_output", model)


def test_what_is_no_json_becomes_json() -> None:
    class Mood(Enum):
        GOOD = "good"

    class Day(BaseModel):
        when: date
        mood: Mood
        tags: set[str]

    args = {"when": "2026-11-30", "mood": "good", "tags": ["cold"]}
    model = ScriptedModel(replies=["A day.", gives("Day", args)])
    result = create_react_graph(model, [], response_format=Day).invoke(question())
    assert result["structured"] == args


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    value: T


@pytest.mark.parametrize(
    "form",
    [Box[int], create_model("Größe", value=(int, ...)), {"title": "Réponse (finale)", **UNTITLED, "required": []}],
)
def test_the_name_of_a_form_is_one_that_providers_accept(form: Any) -> None:
    model = ScriptedModel(replies=["One.", '{"value": 1}'])
    result = create_react_graph(model, [], response_format=form).invoke(question())
    assert result["structured"] == {"value": 1}
    name = model.requests[-1].tools[0]
    assert name.replace("_", "").replace("-", "").isascii()
    assert name.replace("_", "").replace("-", "").isalnum()


# --- wrong, and wrong again --------------------------------------------------------------------------------


@both_ways
def test_wrong_then_right(way: Way) -> None:
    replies = [
        asks("Ada"),
        "Page 3.",
        gives("Place", {"name": "Ada", "page": 0}),
        "no JSON at all",
        gives("Place", ADA),
    ]
    model = ScriptedModel(replies=replies)
    result = run(way, create_react_graph(model, [lookup], response_format=Place), question())
    assert_ended(result, "final", model)
    assert result["structured"] == ADA
    assert "greater than or equal to 1" in str(model.requests[3].messages[-1].content)
    assert "no JSON object" in str(model.requests[4].messages[-1].content)


WRONG = {
    "missing": gives("Place", {"name": "Ada"}),
    "a wrong value": gives("Place", {"name": "Ada", "page": -1}),
    "another tool": gives("lookup", {"name": "Ada"}),
    "nothing": AIMessage(""),
    "prose": AIMessage("It is on page 3."),
    "broken JSON": AIMessage('{"name": "Ada", "page": '),
    "a list": AIMessage('["Ada", 3]'),
    "a refusal": AIMessage("", additional_kwargs={"refusal": "No."}),
    "only reasoning": AIMessage([{"type": "reasoning", "reasoning": '{"name": "Ada", "page": 3}'}]),
}


@pytest.mark.parametrize("reply", WRONG.values(), ids=WRONG.keys())
def test_always_wrong_is_malformed_output_and_the_answer_stays(reply: AIMessage) -> None:
    result, model = place_run(reply, reply, reply, reply)
    assert_ended(result, "malformed_output", model)
    assert result["structured"] is None
    assert result["answer"] == "Page 3.", "the answer in words is not lost"
    assert len(model.requests) == 2 + 3
    assert "response_format" in result["stop"]["detail"]
    assert "3 tries" in result["stop"]["detail"]


@pytest.mark.parametrize("allowed", [0, 1])
def test_the_tries_are_bounded_by_the_limit(allowed: int) -> None:
    result, model = place_run(*[WRONG["prose"]] * 5, limits=Limits(malformed=allowed))
    assert_ended(result, "malformed_output", model)
    assert len(model.requests) == 2 + allowed + 1


def test_events_tell_a_wrong_form_and_the_structured_answer() -> None:
    model = ScriptedModel(replies=["Page 3.", WRONG["missing"], gives("Place", ADA)])
    events = list(stream_steps(create_react_graph(model, [lookup], response_format=Place), question()))
    (retried,) = [e for e in events if e["type"] == "retry"]
    assert retried["reason"] == "structured_output"
    assert "page" in retried["detail"]
    assert events[-1]["structured"] == ADA
    deltas = [e["text"] for e in events if e["type"] == "thought_delta"]
    assert "".join(deltas) == "Page 3.", "the form's own tokens are no part of the run's text"


def test_a_check_of_the_callers_that_raises_something_else_is_told_to_the_model() -> None:
    class Strict(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            return {"Ada": "Ada Lovelace"}[name]

    model = ScriptedModel(replies=["Bo.", gives("Strict", {"name": "Bo"}), gives("Strict", {"name": "Ada"})])
    result = create_react_graph(model, [], response_format=Strict).invoke(question())
    assert_ended(result, "final", model)
    assert result["structured"] == {"name": "Ada Lovelace"}


@pytest.mark.parametrize("number", [10**30, -(2**64)])
def test_a_number_that_a_checkpoint_cannot_hold_does_not_kill_the_run(number: int) -> None:
    class Count(BaseModel):
        n: int

    model = ScriptedModel(replies=["Many.", gives("Count", {"n": number})], repeat=True)
    graph = create_react_graph(model, [], response_format=Count, checkpointer=InMemorySaver())
    result = graph.invoke(question(), thread())
    assert_ended(result, "malformed_output")
    assert result["structured"] is None


# --- other ways to give it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "page": 3}',
        '```json\n{"name": "Ada", "page": 3}\n```',
        'Here you are: {"name": "Ada", "page": 3} — as asked.',
        '<think>A page {3}?</think>{"name": "Ada", "page": 3}',
        'In {braces}, then: {"name": "Ada", "page": 3}',
        '{"name": "Place", "arguments": {"name": "Ada", "page": 3}}',
        '<tool_call>{"name": "Place", "arguments": {"name": "Ada", "page": 3}}</tool_call>',
    ],
)
def test_json_in_the_text_will_do(text: str) -> None:
    result, model = place_run(text)
    assert_ended(result, "final", model)
    assert result["structured"] == ADA


def test_a_model_that_cannot_be_given_tools() -> None:
    model = FakeListChatModel(responses=["Page 3.", '{"name": "Ada", "page": 3}'])
    result = create_react_graph(model, [], response_format=Place).invoke(question())
    assert result["stop"]["reason"] == "final"
    assert result["structured"] == ADA
    assert result["answer"] == "Page 3."


def test_over_http_the_form_is_a_forced_call() -> None:
    with FakeOpenAI(["Page 3.", Reply(calls=[("Place", ADA)])]) as server:
        result = create_react_graph(f"{server.url}#fake", [lookup], response_format=Place).invoke(question())
        forced = server.requests[1]["tool_choice"]
    assert result["structured"] == ADA
    assert forced == {"type": "function", "function": {"name": "Place"}}


def test_an_endpoint_that_refuses_forced_calls_is_asked_in_words() -> None:
    """Some servers answer 400 to ``tool_choice``; the form can still be had as JSON in the text."""

    def refuse(body: dict[str, Any]) -> Any:
        if "tool_choice" in body:
            return Fail(400, "tool_choice is not supported")
        return json.dumps(ADA)

    with FakeOpenAI(["Page 3."], default=refuse) as server:
        result = create_react_graph(f"{server.url}#fake", [lookup], response_format=Place).invoke(question())
        calls = len(server.requests)
    assert result["stop"]["reason"] == "final", result["stop"]
    assert result["structured"] == ADA
    assert result["spent"]["model_calls"] == calls


# --- with the other ends of a run --------------------------------------------------------------------------


@both_ways
def test_a_run_that_was_stopped_gives_the_form_as_well_as_it_can_and_keeps_its_reason(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada"), gives("Place", ADA)])
    graph = create_react_graph(model, [lookup], response_format=Place, limits=Limits(steps=1))
    result = run(way, graph, question())
    assert_ended(result, "step_limit", model)
    assert result["structured"] == ADA
    assert json.loads(result["answer"]) == ADA
    assert "1 of 1 steps" in str(model.requests[-1].messages[-1].content), "the model is told why it has to end"


def test_a_run_that_was_stopped_and_has_no_form_keeps_its_reason() -> None:
    model = ScriptedModel(replies=[asks("Ada"), *[WRONG["prose"]] * 3])
    graph = create_react_graph(model, [lookup], response_format=Place, limits=Limits(steps=1))
    result = graph.invoke(question())
    assert_ended(result, "step_limit", model)
    assert result["structured"] is None
    assert "response_format" in result["stop"]["detail"]
    assert "page 3" in result["answer"]


def test_a_model_that_goes_down_before_the_form() -> None:
    result, model = place_run(RuntimeError("gone"))
    assert_ended(result, "model_error", model)
    assert result["structured"] is None
    assert result["answer"] == "Page 3."


def test_a_run_that_is_cancelled_before_the_form_says_so() -> None:
    with Cancellation() as cancel:

        def stop_now(messages: list[Any]) -> str:
            cancel.request("enough")
            time.sleep(1)
            return "too late"

        model = ScriptedModel(replies=["Page 3.", stop_now])
        result = create_react_graph(model, [lookup], response_format=Place).invoke(question())
    assert_ended(result, "cancelled", model)
    assert "enough" in result["stop"]["detail"]
    assert result["answer"] == "Page 3."


def test_a_form_that_was_not_asked_for_is_not_in_the_result() -> None:
    result = create_react_graph(ScriptedModel(replies=["Hello."]), []).invoke(question())
    assert "structured" not in result


def test_a_form_of_an_earlier_run_is_not_left_over() -> None:
    model = ScriptedModel(replies=["Page 3.", gives("Place", ADA), "Page 4.", *[WRONG["prose"]] * 3])
    graph = create_react_graph(model, [], response_format=Place, checkpointer=InMemorySaver())
    assert graph.invoke(question(), thread())["structured"] == ADA
    again = graph.invoke(question("And Bo?"), thread())
    assert again["stop"]["reason"] == "malformed_output"
    assert again["structured"] is None
    assert again["answer"] == "Page 4."
    assert_acceptable(again["messages"])


# --- forms that cannot be used -----------------------------------------------------------------------------


UNUSABLE: dict[str, Any] = {
    "a number": int,
    "a list": list[int],
    "a union": Place | None,
    "a name": "Place",
    "a value": Place(name="Ada", page=3),
    "a list with a model": [Place],
    "a strategy with a union": ToolStrategy(Place | PlaceData),
    "a function": lambda: None,
    "a schema of an array": {"type": "array", "items": {"type": "string"}},
    "no type": {"type": "strange"},
    "no type within": {"title": "A", "type": "object", "properties": {"a": {"type": 5}}},
    "a lost part": {"title": "A", "type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
    "another file": {"title": "A", "type": "object", "properties": {"a": {"anyOf": [{"$ref": "o.json#/$defs/B"}]}}},
    "another host": {"title": "A", "type": "object", "properties": {"a": {"$ref": "http://example.org/s.json"}}},
    "openai's form without one": {"json_schema": "Place"},
    "openai's form with text": {"type": "json_schema", "json_schema": {"name": "place", "schema": "none"}},
}


@pytest.mark.parametrize("form", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_form_that_cannot_be_used_is_a_clear_error_when_the_graph_is_built(form: Any) -> None:
    with pytest.raises(ValueError, match="response_format"):
        create_react_graph(ScriptedModel(), [], response_format=form)


STRICT = """
import json
from dataclasses import dataclass
from enum import Enum
from langgraph.checkpoint.sqlite import SqliteSaver
from langchain_core.messages import AIMessage
from taograph import create_react_graph
from taograph.models import ScriptedModel, call

class Mood(Enum):
    GOOD = "good"

@dataclass
class Day:
    name: str
    mood: Mood

model = ScriptedModel(replies=["Good.", AIMessage("", tool_calls=[call("Day", {"name": "Mon", "mood": "good"})])])
with SqliteSaver.from_conn_string(":memory:") as saver:
    graph = create_react_graph(model, [], response_format=Day, checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    result = graph.invoke({"messages": [("user", "How?")]}, config)
    stored = graph.get_state(config).values
print(json.dumps([result["structured"], stored["structured"], stored["stop"], stored["spent"]["model_calls"]]))
"""


def test_what_is_stored_survives_the_strict_reading_of_checkpoints(tmp_path: Path) -> None:
    script = tmp_path / "strict.py"
    script.write_text(STRICT)
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    given, stored, stop, calls = json.loads(done.stdout)
    assert given == stored == {"name": "Mon", "mood": "good"}
    assert stop["reason"] == "final"
    assert calls == 2


class Leg(PlainTypedDict):
    """A part of a trip."""

    to: Annotated[str, Field(min_length=2)]
    by: Literal["rail", "road"]


class Trip(PlainTypedDict):
    """A trip."""

    legs: list[Leg]
    first: Leg | None
    note: NotRequired[str]


def test_the_typed_dict_of_the_standard_library_will_do_on_every_python() -> None:
    good = {"legs": [{"to": "Oslo", "by": "rail"}], "first": None}
    replies = ["By rail.", {"legs": [{"to": "O", "by": "sea"}], "first": None}, good]
    model = ScriptedModel(
        replies=[r if isinstance(r, str) else AIMessage("", tool_calls=[call("Trip", r)]) for r in replies]
    )
    result = create_react_graph(model, [], response_format=Trip).invoke(question())
    assert result["structured"] == good
    assert result["stop"]["reason"] == "final"
    told = str(model.requests[-1].messages[-1].content)
    assert "legs.0.to" in told
    assert "legs.0.by" in told
    described = model.requests[1].options["tools"][0]["function"]
    assert described["description"] == "A trip."
    assert described["parameters"]["required"] == ["legs", "first"]
