"""Replies that are not what was asked for: each is handled, bounded, told, and leaves an acceptable history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.exceptions import ModelRefusalError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import BaseModel, field_validator
from support import Counting, Way, asks, assert_acceptable, assert_ended, both_ways, lookup, question, run, thread

from taograph import Limits, create_react_graph, stream_steps, tool
from taograph.models import ScriptedModel, call


def broken_call(args: str = '{"name": "Ada', name: str | None = "lookup", id: str | None = "bad_1") -> Any:
    """A call whose arguments could not be read, as LangChain hands it on."""
    return invalid_tool_call(name=name, args=args, id=id, error="not JSON")


def reply(*, text: Any = "", **fields: Any) -> AIMessage:
    return AIMessage(content=text, **fields)


def observations(result: dict[str, Any]) -> list[ToolMessage]:
    return [m for m in result["messages"] if isinstance(m, ToolMessage)]


def hints(result: dict[str, Any]) -> list[str]:
    """What the loop itself said to the model."""
    humans = [m for m in result["messages"] if isinstance(m, HumanMessage)]
    return [str(m.content) for m in humans[1:]]


def events_of(model: ScriptedModel, tools: Any = (lookup,), **options: Any) -> list[Any]:
    return list(stream_steps(create_react_graph(model, list(tools), **options), question()))


# --- calls that cannot be read -----------------------------------------------------------------------------


@both_ways
def test_a_call_with_broken_json_comes_back_as_an_observation_and_can_be_mended(way: Way) -> None:
    model = ScriptedModel(replies=[reply(invalid_tool_calls=[broken_call()]), asks("Ada"), "Page 3."])
    result = run(way, create_react_graph(model, [lookup]), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Page 3."
    first, second = observations(result)
    assert first.status == "error"
    assert "JSON" in str(first.content)
    assert '{"name": "Ada' in str(first.content), "the model is shown what it wrote"
    assert second.content == "Ada is in the book on page 3."
    assert result["spent"]["tool_calls"] == 1


def test_broken_json_for_ever_is_malformed_output_after_the_allowed_retries() -> None:
    broken = [reply(invalid_tool_calls=[broken_call(id=f"b{i}")]) for i in range(3)]
    model = ScriptedModel(replies=[*broken, "What I know: nothing."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "malformed_output", model)
    assert result["answer"] == "What I know: nothing."
    assert "3 times" in result["stop"]["detail"]
    assert result["spent"]["tool_calls"] == 0


@pytest.mark.parametrize("allowed", [0, 1, 4])
def test_limits_malformed_is_the_number_of_retries(allowed: int) -> None:
    broken = [reply(invalid_tool_calls=[broken_call(f"{{{i}", id=f"b{i}")]) for i in range(allowed + 1)]
    model = ScriptedModel(replies=[*broken, "closing words"])
    result = create_react_graph(model, [lookup], limits=Limits(malformed=allowed, errors=10)).invoke(question())
    assert_ended(result, "malformed_output", model)
    assert len(model.requests) == allowed + 2, "the retries, the first try and the closing answer"


def test_a_valid_call_beside_a_broken_one_runs_and_both_have_results() -> None:
    mixed = AIMessage("", tool_calls=[call("lookup", {"name": "Ada"}, id="good")], invalid_tool_calls=[broken_call()])
    model = ScriptedModel(replies=[mixed, "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    by_id = {m.tool_call_id: m for m in observations(result)}
    assert by_id["good"].status == "success"
    assert by_id["bad_1"].status == "error"
    assert result["spent"]["tool_calls"] == 1


def test_events_tell_a_broken_call() -> None:
    model = ScriptedModel(replies=[reply(invalid_tool_calls=[broken_call()]), "It is late."])
    events = events_of(model)
    (retried,) = [e for e in events if e["type"] == "retry" and e["reason"] == "malformed_output"]
    assert retried["step"] == 1
    (seen,) = [e for e in events if e["type"] == "observation"]
    assert seen["status"] == "error"
    assert events[-1]["type"] == "answer"


@pytest.mark.parametrize("args", ['["a", "list"]', "null", "17", '"text"', "{'name': 'Ada'}", "", "{" * 5000])
def test_arguments_that_are_no_object_are_refused(args: str) -> None:
    model = ScriptedModel(replies=[reply(invalid_tool_calls=[broken_call(args)]), "Done."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    (seen,) = observations(result)
    assert seen.status == "error"
    assert len(str(seen.content)) < 1000, "a long wreck is not sent back whole"


def test_a_call_without_a_name_is_refused_with_the_reason() -> None:
    nameless = [AIMessage("", tool_calls=[call("", {"name": "Ada"}, id=f"n{i}")]) for i in range(3)]
    model = ScriptedModel(replies=[*nameless, "closing words"])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "malformed_output", model)
    assert "names no tool" in str(observations(result)[0].content)
    assert "JSON" not in result["stop"]["detail"], "the detail must not blame what was not wrong"


def test_a_broken_call_without_a_name_or_an_id() -> None:
    model = ScriptedModel(replies=[reply(invalid_tool_calls=[broken_call("nonsense", None, None)]), "Done."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)


# --- names, ids --------------------------------------------------------------------------------------------


@both_ways
def test_an_unknown_tool_is_told_with_the_tools_there_are(way: Way) -> None:
    model = ScriptedModel(replies=[asks(call("search", {"q": "x"})), asks("Ada"), "Page 3."])
    result = run(way, create_react_graph(model, [lookup]), question())
    assert_ended(result, "final", model)
    first = observations(result)[0]
    assert first.status == "error"
    assert "'search'" in str(first.content)
    assert "lookup" in str(first.content)
    assert result["spent"]["tool_calls"] == 1


def test_an_unknown_tool_for_ever_ends() -> None:
    model = ScriptedModel(replies=[*[asks(call("search", {"q": str(i)})) for i in range(3)], "I could not search."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "tool_errors", model)
    assert result["answer"] == "I could not search."


@pytest.mark.parametrize("name", ["look up", "lookup!", "functions.lookup", "检索", "lookup\n", "x" * 200, "<lookup>"])
def test_a_name_that_is_nearly_right_is_a_wrong_name(name: str) -> None:
    counting = Counting("look_up")
    model = ScriptedModel(replies=[asks(call(name, {"what": "x"})), "Done."])
    result = create_react_graph(model, [lookup, counting.tool]).invoke(question())
    assert_ended(result, "final", model)
    assert counting.calls == [], "cleaned for the history, but never taken for another tool"
    (seen,) = observations(result)
    assert seen.status == "error"
    assert "look_up" in str(seen.content), "it names the tools there are"


def test_a_tool_whose_own_name_has_a_dot_can_be_called() -> None:
    """Servers of the model context protocol name tools so; some providers accept it."""
    counting = Counting("files.read")
    model = ScriptedModel(replies=[asks(call("files.read", {"what": "x"}, id="c1")), "Done."])
    result = create_react_graph(model, [counting.tool]).invoke(question())
    assert result["stop"]["reason"] == "final"
    assert counting.calls == ["x"]


def test_ids_used_twice_in_a_reply_are_told_apart() -> None:
    counting = Counting()
    twice = AIMessage("", tool_calls=[call("count", {"what": "a"}, id="same"), call("count", {"what": "b"}, id="same")])
    model = ScriptedModel(replies=[twice, "Done."])
    result = create_react_graph(model, [counting.tool]).invoke(question())
    assert_ended(result, "final", model)
    assert sorted(counting.calls) == ["a", "b"]
    assert len({m.tool_call_id for m in observations(result)}) == 2


def test_an_id_used_again_in_a_later_turn_is_replaced() -> None:
    model = ScriptedModel(replies=[asks(call("lookup", {"name": n}, id="call_0")) for n in "ab"] + ["Done."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert [m.content for m in observations(result)] == [f"{n} is in the book on page 1." for n in "ab"]


def test_an_id_of_an_earlier_run_on_the_thread_is_replaced() -> None:
    model = ScriptedModel(replies=[asks(call("lookup", {"name": "a"}, id="call_0")), "One."] * 2)
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    graph.invoke(question(), thread())
    result = graph.invoke(question("And again?"), thread())
    assert_ended(result, "final")
    assert_acceptable(model.requests[-1].messages)


def test_an_id_of_a_worked_example_is_replaced() -> None:
    example = [
        HumanMessage("Where is Bo?"),
        AIMessage("", tool_calls=[call("lookup", {"name": "Bo"}, id="call_0")]),
        ToolMessage("Page 2.", tool_call_id="call_0", name="lookup"),
        AIMessage("On page 2."),
    ]
    model = ScriptedModel(replies=[asks(call("lookup", {"name": "Ada"}, id="call_0")), "Page 3."])
    result = create_react_graph(model, [lookup], examples=[example]).invoke(question())
    assert_ended(result, "final", model)


@pytest.mark.parametrize("given", ["", "a b", "x" * 300, "функция", "call:1|fc_2"])
def test_ids_that_are_missing_or_odd_become_acceptable(given: str) -> None:
    model = ScriptedModel(replies=[asks(call("lookup", {"name": "Ada"}, id=given)), "Page 3."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert result["stop"]["reason"] == "final"
    assert observations(result)[0].content == "Ada is in the book on page 3."
    (asked,) = [m for m in result["messages"] if isinstance(m, AIMessage) and m.tool_calls]
    assert asked.tool_calls[0]["id"] == observations(result)[0].tool_call_id
    assert asked.tool_calls[0]["id"]


def test_a_missing_id_is_given_one() -> None:
    """The scripted model fills ids in, so this one reply is made after that."""

    class Bare(ScriptedModel):
        def _reply(self, messages: Any, options: Any) -> AIMessage:
            made = super()._reply(messages, options)
            return made.model_copy(update={"tool_calls": [{**c, "id": None} for c in made.tool_calls]})

    model = Bare(replies=[asks("Ada", "Bo"), "Done."])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "final", model)
    assert len(observations(result)) == 2


# --- arguments ---------------------------------------------------------------------------------------------


class Place(BaseModel):
    street: str
    number: int


@tool(effects="none")
def deliver(to: Place, parcels: int = 1) -> str:
    """Deliver something.

    Args:
        to: Where to.
        parcels: How many.
    """
    return f"{parcels} to {to.street} {to.number}"


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({}, ["to"]),
        ({"to": "Main Street 5"}, ["to"]),
        ({"to": {"street": "Main"}}, ["to.number"]),
        ({"to": {"street": "Main", "number": "five"}}, ["to.number"]),
        ({"to": {"street": "Main", "number": 5}, "parcels": "many"}, ["parcels"]),
        ({"to": {"street": "Main", "number": 5}, "express": True}, ["express"]),
        ({"to": None, "parcels": None, "x": 1, "y": 2}, ["to", "parcels", "x", "y"]),
    ],
)
def test_invalid_arguments_name_the_field_and_are_not_run(args: dict[str, Any], names: list[str]) -> None:
    model = ScriptedModel(replies=[asks(call("deliver", args)), "I could not."])
    result = create_react_graph(model, [deliver]).invoke(question())
    assert_ended(result, "final", model)
    (seen,) = observations(result)
    assert seen.status == "error"
    assert "was not run" in str(seen.content)
    for name in names:
        assert name in str(seen.content).split("It takes:")[0]
    assert result["spent"]["tool_calls"] == 0


def test_arguments_that_fit_are_coerced_as_the_schema_says() -> None:
    args = {"to": {"street": "Main", "number": "5"}, "parcels": 2}
    model = ScriptedModel(replies=[asks(call("deliver", args)), "Done."])
    result = create_react_graph(model, [deliver]).invoke(question())
    assert [m.content for m in observations(result)] == ["2 to Main 5"]


def test_invalid_arguments_for_ever_end_with_tool_errors() -> None:
    model = ScriptedModel(replies=[*[asks(call("deliver", {"to": i})) for i in range(3)], "I could not."])
    result = create_react_graph(model, [deliver]).invoke(question())
    assert_ended(result, "tool_errors", model)


@pytest.mark.parametrize("saver", ["none", "memory", "sqlite"])
@pytest.mark.parametrize("value", [10**30, -(2**64), float("inf"), float("nan"), "lone \ud800 surrogate", "\x00"])
def test_values_that_a_checkpoint_cannot_hold_do_not_kill_the_run(value: Any, saver: str) -> None:
    seen: list[Any] = []

    @tool(effects="none")
    def take(value: Any) -> str:
        """Take anything.

        Args:
            value: Anything.
        """
        seen.append(value)
        return "taken"

    model = ScriptedModel(replies=[asks(call("take", {"value": value})), "Done."])
    with SqliteSaver.from_conn_string(":memory:") as sqlite:
        kept = {"none": None, "memory": InMemorySaver(), "sqlite": sqlite}[saver]
        graph = create_react_graph(model, [take], checkpointer=kept)
        result = graph.invoke(question(), thread())
    assert_ended(result, "final", model)
    json.dumps(result["messages"][1].tool_calls)
    assert len(seen) == 1 or observations(result)[0].status == "error"


def test_a_huge_number_reaches_a_tool_that_takes_whole_numbers() -> None:
    @tool(effects="none")
    def double(n: int) -> str:
        """Double a number.

        Args:
            n: The number.
        """
        return str(2 * n)

    model = ScriptedModel(replies=[asks(call("double", {"n": 10**30})), "Done."])
    result = create_react_graph(model, [double], checkpointer=InMemorySaver()).invoke(question(), thread())
    assert [m.content for m in observations(result)] == [str(2 * 10**30)]


def test_arguments_nested_without_end_do_not_kill_the_run() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    model = ScriptedModel(replies=[asks(call("lookup", {"name": deep})), "Done."])
    result = create_react_graph(model, [lookup], checkpointer=InMemorySaver()).invoke(question(), thread())
    assert_ended(result, "final", model)
    assert observations(result)[0].status == "error"


def test_a_reply_of_another_kind_of_message_is_read_as_a_reply() -> None:
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import ChatMessage

    model = FakeMessagesListChatModel(responses=[ChatMessage("Page 3.", role="assistant")])
    result = create_react_graph(model, []).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "Page 3."


def test_a_refusal_by_error_is_a_refusal() -> None:
    model = ScriptedModel(replies=[ModelRefusalError("I won't do that.")])
    result = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(result, "refusal", model)
    assert "I won't do that." in result["answer"]
    assert_acceptable(result["messages"])


# --- schemas that others wrote -----------------------------------------------------------------------------


def remote_tool(schema: dict[str, Any], seen: list[Any]) -> Any:
    """A tool as MCP adapters make it: its schema is a dict from the server."""

    def take(**given: Any) -> str:
        seen.append(given)
        return "taken"

    return StructuredTool(name="take", description="Take something.", args_schema=schema, func=take)


OWN_SCHEMAS = {
    "not valid": {"type": "object", "properties": {"a": {"type": "whatever"}}},
    "a pattern that is none": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
}


@pytest.mark.parametrize("schema", OWN_SCHEMAS.values(), ids=OWN_SCHEMAS.keys())
def test_a_tool_whose_schema_is_faulty_does_not_kill_the_run(schema: dict[str, Any]) -> None:
    seen: list[Any] = []
    model = ScriptedModel(replies=[asks(call("take", {"a": "x"})), "Done."])
    result = create_react_graph(model, [remote_tool(schema, seen)]).invoke(question())
    assert_ended(result, "final", model)
    assert seen == [{"a": "x"}] or observations(result)[0].status == "error"


@pytest.mark.parametrize("reference", ["#/$defs/Missing", "http://127.0.0.1:9/a.json", "other.json#/a"])
def test_a_tool_whose_schema_lacks_a_part_is_refused_when_the_graph_is_built(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": reference}, {"type": "null"}]}}}
    with pytest.raises(ValueError, match="'take'") as caught:
        create_react_graph(ScriptedModel(), [remote_tool(schema, [])])
    assert reference in str(caught.value)


def test_a_tool_with_a_schema_of_its_own_is_checked_by_it() -> None:
    seen: list[Any] = []
    to = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    schema = {"type": "object", "properties": {"to": to}, "required": ["to"], "additionalProperties": False}
    wrong = [{}, {"to": {"number": "five"}}, {"to": {"number": 5}, "more": 1}]
    model = ScriptedModel(replies=[asks(*(call("take", a) for a in [*wrong, {"to": {"number": 5}}])), "Done."])
    result = create_react_graph(model, [remote_tool(schema, seen)]).invoke(question())
    assert_ended(result, "final", model)
    assert seen == [{"to": {"number": 5}}]
    for told, name in zip(observations(result), ["to", "to.number", "more"], strict=False):
        assert name in str(told.content)


def test_a_check_of_the_tools_own_that_raises_is_an_observation() -> None:
    class Args(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def known(cls, name: str) -> str:
            return {"Ada": "Ada"}[name]

    def find(name: str) -> str:
        return f"found {name}"

    made = StructuredTool(name="find", description="Find somebody.", args_schema=Args, func=find)
    model = ScriptedModel(replies=[asks(call("find", {"name": "Bo"})), asks(call("find", {"name": "Ada"})), "Done."])
    result = create_react_graph(model, [made]).invoke(question())
    assert_ended(result, "final", model)
    assert [m.status for m in observations(result)] == ["error", "success"]
