"""Histories that a provider would refuse, from the caller, from a crash, or made up at random."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt
from support import (
    Counting,
    Way,
    asks,
    assert_acceptable,
    assert_ended,
    both_ways,
    lookup,
    question,
    run,
    texts,
    thread,
)

from taograph import Cancellation, create_react_graph, stream_steps, tool
from taograph.graphs.loop.repair import NO_RESULT, repair
from taograph.models import ScriptedModel, call

ADA = call("lookup", {"name": "Ada"}, id="call_1")


def result_of(call_id: str, text: str = "Page 3.", **more: Any) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name="lookup", **more)


def user(text: str = "Where is Ada?") -> HumanMessage:
    return HumanMessage(text)


def answered(messages: list[Any], **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    """A run on a history; what the model was sent has to be acceptable, and what comes out."""
    model = ScriptedModel(replies=["Page 3."])
    result = create_react_graph(model, [lookup], **options).invoke({"messages": messages})
    assert_ended(result, "final", model)
    return result, model


# --- given by the caller -----------------------------------------------------------------------------------

GIVEN = {
    "an orphan call": [user(), AIMessage("", tool_calls=[ADA]), user("Well?")],
    "an orphan call at the end": [user(), AIMessage("", tool_calls=[ADA])],
    "one of two calls without a result": [
        user(),
        AIMessage("", tool_calls=[ADA, call("lookup", {"name": "Bo"}, id="call_2")]),
        result_of("call_2"),
        user("Well?"),
    ],
    "a result behind the next turn": [user(), AIMessage("", tool_calls=[ADA]), user("Well?"), result_of("call_1")],
    "a result without its call": [user(), result_of("gone", "Page 9."), user("Well?")],
    "a result before its call": [user(), result_of("call_1"), AIMessage("", tool_calls=[ADA]), user("Well?")],
    "two results of a call": [
        user(),
        AIMessage("", tool_calls=[ADA]),
        result_of("call_1"),
        result_of("call_1", "Page 4."),
        user("Well?"),
    ],
    "an id used twice in a reply": [
        user(),
        AIMessage("", tool_calls=[ADA, call("lookup", {"name": "Bo"}, id="call_1")]),
        result_of("call_1"),
        result_of("call_1", "Page 2."),
        user("Well?"),
    ],
    "an id used again": [
        user(),
        AIMessage("", tool_calls=[ADA]),
        user("Again?"),
        AIMessage("", tool_calls=[ADA]),
        result_of("call_1"),
        user("Well?"),
    ],
    "a call without an id": [user(), AIMessage("", tool_calls=[{**ADA, "id": None}]), result_of(""), user("Well?")],
    "a call without a name": [user(), AIMessage("", tool_calls=[call("", {}, id="call_1")]), user("Well?")],
    "a name with a space": [
        user(),
        AIMessage("", tool_calls=[call("look it up", {}, id="call_1")]),
        result_of("call_1"),
        user("Well?"),
    ],
    "broken calls": [
        user(),
        AIMessage("", invalid_tool_calls=[invalid_tool_call(name="lookup", args="{", id="call_1", error="")]),
        user("Well?"),
    ],
    "a refusal with calls": [
        user(),
        AIMessage("", tool_calls=[ADA], additional_kwargs={"refusal": "No."}),
        user("Well?"),
    ],
    "empty replies": [user(), AIMessage(""), user("Hello?"), AIMessage([]), AIMessage("  "), user("Well?")],
    "a reply of nothing but reasoning": [
        user(),
        AIMessage([{"type": "reasoning", "reasoning": "Hm."}]),
        user("Well?"),
    ],
    "an empty message of the user in between": [user(), AIMessage("Yes?"), user(""), AIMessage("?"), user("Well?")],
    "an empty result": [user(), AIMessage("", tool_calls=[ADA]), result_of("call_1", ""), user("Well?")],
    "a block without its call": [
        user(),
        AIMessage([{"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": "{}"}]),
        user("Well?"),
    ],
    "calls in the provider's field only": [
        user(),
        AIMessage(
            "I looked.",
            additional_kwargs={"function_call": {"name": "lookup", "arguments": "{}"}},
        ),
        user("Well?"),
    ],
    "a system message in between": [user(), SystemMessage("Be brief."), AIMessage("Yes?"), user("Well?")],
    "the system message twice": [
        SystemMessage("Be brief."),
        user(),
        AIMessage("Yes?"),
        SystemMessage("Be brief."),
        user("Well?"),
    ],
}


@pytest.mark.parametrize("messages", GIVEN.values(), ids=GIVEN.keys())
def test_a_history_that_a_provider_would_refuse_is_made_acceptable(messages: list[AnyMessage]) -> None:
    before = [m.model_dump(exclude={"id"}) for m in messages]
    result, model = answered(messages)
    assert [m.model_dump(exclude={"id"}) for m in messages] == before, "what the caller holds is not changed"
    sent = "\n".join(texts(model.requests[0].messages))
    for text in filter(None, (t.strip() for t in texts(messages))):
        assert text in sent
    assert result["spent"]["model_calls"] == 1


def test_a_missing_result_is_told_as_unknown_not_as_cancelled() -> None:
    _, model = answered(GIVEN["an orphan call"])
    (filled,) = [m for m in model.requests[0].messages if isinstance(m, ToolMessage)]
    assert filled.content == NO_RESULT
    assert filled.status == "error"


def test_results_go_to_the_call_they_stand_behind_where_ids_repeat() -> None:
    _, model = answered(GIVEN["an id used again"])
    first, second = [m for m in model.requests[0].messages if isinstance(m, ToolMessage)]
    assert first.content == NO_RESULT
    assert second.content == "Page 3."


def test_a_result_whose_call_is_gone_is_no_question() -> None:
    messages = [user("Where is Ada?"), result_of("gone", "Page 9.")]
    model = ScriptedModel(replies=[asks("Ada"), asks("Bo"), "Page 3."])
    graph = create_react_graph(model, [lookup])
    events = list(stream_steps(graph, {"messages": messages}))
    (started,) = [e for e in events if e["type"] == "run_started"]
    assert started["question"] == "Where is Ada?"
    assert events[-1]["spent"]["model_calls"] == 3, "one run, not a new one at each turn"
    assert [e["type"] for e in events].count("run_started") == 1


def test_a_repair_is_told_once_and_kept() -> None:
    model = ScriptedModel(replies=[asks("Bo"), "One.", "Two."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    events = list(stream_steps(graph, {"messages": GIVEN["an orphan call"]}, thread()))
    assert [e["reason"] for e in events if e["type"] == "retry"] == ["repair"]
    events = list(stream_steps(graph, question("And?"), thread()))
    assert [e["reason"] for e in events if e["type"] == "retry"] == []


def test_an_acceptable_history_is_left_alone() -> None:
    messages = [
        SystemMessage("Be brief."),
        user(),
        AIMessage("", tool_calls=[ADA], id="a1"),
        result_of("call_1"),
        AIMessage("Page 3.", id="a2"),
        user("Sure?"),
    ]
    result, model = answered(messages)
    assert [m.id for m in result["messages"][2:5:2]] == ["a1", "a2"]
    assert [m.content for m in model.requests[0].messages] == [m.content for m in messages]


def test_the_callers_system_message_and_the_graphs_are_one() -> None:
    _, model = answered([SystemMessage("Be brief."), user()], system_prompt="You look things up.")
    first, *rest = model.requests[0].messages
    assert isinstance(first, SystemMessage)
    assert first.content == "You look things up.\n\nBe brief."
    assert not any(isinstance(m, SystemMessage) for m in rest)


def test_a_system_message_sent_again_with_each_turn_stays_one() -> None:
    model = ScriptedModel(replies=["One.", "Two."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    for text in ("Where is Ada?", "And Bo?"):
        given_now = [SystemMessage("Be brief."), HumanMessage(text)]
        result = graph.invoke({"messages": given_now}, thread())
    assert_ended(result, "final")
    assert_acceptable(model.requests[1].messages)
    assert [m.content for m in model.requests[1].messages] == ["Be brief.", "Where is Ada?", "One.", "And Bo?"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Where is Ada?"}],
        [("user", "Where is Ada?")],
        [("human", "Where is Ada?")],
        ["Where is Ada?"],
        "Where is Ada?",
        HumanMessage("Where is Ada?"),
        [HumanMessage([{"type": "text", "text": "Where is Ada?"}])],
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is Ada?"}],
    ],
)
def test_every_way_to_write_a_message(messages: Any) -> None:
    model = ScriptedModel(replies=["Page 3."])
    result = create_react_graph(model, [lookup]).invoke({"messages": messages})
    assert_ended(result, "final", model)
    assert str(model.requests[0].messages[-1].text) == "Where is Ada?"


def test_openai_dicts_with_calls_and_results() -> None:
    function = {"name": "lookup", "arguments": '{"name": "Ada"}'}
    messages = [
        {"role": "user", "content": "Where is Ada?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "Page 3."},
        {"role": "user", "content": "Sure?"},
    ]
    _, model = answered(messages)
    assert [m.type for m in model.requests[0].messages] == ["human", "ai", "tool", "human"]


@pytest.mark.parametrize(
    ("given_input", "says"),
    [
        ({"messages": []}, "no message of the user"),
        ({"messages": [SystemMessage("Be brief.")]}, "no message of the user"),
        ({"messages": [AIMessage("Hello")]}, "no message of the user"),
        ({"messages": [("user", "")]}, "empty"),
        ({"messages": [("user", " \n ")]}, "empty"),
        ({"messages": [HumanMessage([])]}, "empty"),
        ({"messages": [HumanMessage([{"type": "text", "text": " "}])]}, "empty"),
        ({"messages": [("user", "One"), ("ai", "Two"), ("user", "")]}, "empty"),
        ({"messages": None}, "messages"),
        ({"messages": [("alien", "Hello")]}, "alien"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [42]}, "messages"),
        ({"messages": {"role": "user"}}, "messages"),
        ({"question": "Where is Ada?"}, "messages"),
        ({}, "messages"),
    ],
)
@both_ways
def test_an_input_that_asks_nothing_is_a_clear_error_before_the_model_is_paid(
    given_input: Any, says: str, way: Way
) -> None:
    model = ScriptedModel(replies=["Never said."])
    with pytest.raises(ValueError, match=says) as caught:
        run(way, create_react_graph(model, [lookup]), given_input)
    assert "messages" in str(caught.value)
    assert model.requests == []


def test_an_image_alone_is_a_question() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    model = ScriptedModel(replies=["A dot."])
    result = create_react_graph(model, [lookup]).invoke({"messages": [HumanMessage([image])]})
    assert_ended(result, "final", model)


# --- left by a crash, or by a run that was cut short -------------------------------------------------------


@both_ways
def test_a_thread_left_with_an_orphan_goes_on_with_a_new_question(way: Way) -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 3."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    run(way, graph, question(), thread(), interrupt_before=["act"])
    left = graph.get_state(thread()).values["messages"]
    assert left[-1].tool_calls, "the thread was left with a call and no result"
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert_acceptable(model.requests[-1].messages)
    assert result["stop"]["step"] == 1, "a new run with a budget of its own"


def test_a_thread_left_by_a_tool_that_took_the_process_down() -> None:
    died = []

    @tool(effects="none")
    def fatal(name: str) -> str:
        """Die the first time.

        Args:
            name: Anything.
        """
        if not died:
            died.append(name)
            raise KeyboardInterrupt
        return "alive"

    calls = asks(call("fatal", {"name": "a"}, id="f1"), call("lookup", {"name": "Ada"}, id="l1"))
    model = ScriptedModel(replies=[calls, "Page 3."])
    graph = create_react_graph(model, [fatal, lookup], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(question(), thread())
    result = graph.invoke(question("Still there?"), thread())
    assert_ended(result, "final")
    assert_acceptable(model.requests[-1].messages)


def test_a_crashed_run_can_also_be_taken_up() -> None:
    died = []

    @tool(effects="none")
    def fatal(name: str) -> str:
        """Die the first time.

        Args:
            name: Anything.
        """
        if not died:
            died.append(name)
            raise KeyboardInterrupt
        return "alive"

    model = ScriptedModel(replies=[asks(call("fatal", {"name": "a"}, id="f1")), "Done."])
    graph = create_react_graph(model, [fatal], checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke(question(), thread())
    result = graph.invoke(None, thread())
    assert_ended(result, "final", model)
    assert result["answer"] == "Done."


@both_ways
def test_a_thread_that_waits_for_a_person_goes_on_with_a_new_question_instead(way: Way) -> None:
    @tool(effects="none")
    def ask_boss(what: str) -> str:
        """Ask the boss.

        Args:
            what: The question.
        """
        return str(interrupt(what))

    both = asks("Ada", call("ask_boss", {"what": "May I?"}))
    model = ScriptedModel(replies=[both, "Page 3.", "As you like."])
    graph = create_react_graph(model, [lookup, ask_boss], checkpointer=InMemorySaver())
    waiting = run(way, graph, question(), thread())
    assert "__interrupt__" in waiting
    result = run(way, graph, question("Never mind. And Bo?"), thread())
    assert_ended(result, "final")
    assert "__interrupt__" not in result
    assert_acceptable(model.requests[-1].messages)
    assert result["stop"]["step"] == 1


def test_a_cancelled_run_leaves_a_thread_that_goes_on() -> None:
    counting = Counting()
    with Cancellation() as cancel:

        def stop_now(messages: list[Any]) -> AIMessage:
            cancel.request("enough")
            return asks(call("count", {"what": "x"}))

        model = ScriptedModel(replies=[stop_now, "Fine."])
        graph = create_react_graph(model, [counting.tool], checkpointer=InMemorySaver())
        result = graph.invoke(question(), thread())
    assert_ended(result, "cancelled")
    again = graph.invoke(question("And now?"), thread())
    assert_ended(again, "final")
    assert_acceptable(model.requests[-1].messages)


def test_a_thread_edited_by_hand() -> None:
    model = ScriptedModel(replies=[asks("Ada"), "Page 3.", "Again."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    result = graph.invoke(question(), thread())
    gone = next(m for m in result["messages"] if isinstance(m, ToolMessage))
    graph.update_state(thread(), {"messages": [RemoveMessage(gone.id)]})
    again = graph.invoke(question("And now?"), thread())
    assert_ended(again, "final")
    assert_acceptable(model.requests[-1].messages)


def test_a_long_broken_history_is_made_acceptable_in_no_time() -> None:
    messages: list[AnyMessage] = []
    for number in range(5000):
        calls = [call("lookup", {"name": "Ada"}, id=f"c{number % 2000}")]
        messages += [user(), AIMessage("", tool_calls=calls), *([result_of(f"c{number}")] if number % 2 else [])]
    begun = time.monotonic()
    made = repair(messages)
    assert time.monotonic() - begun < 5
    assert_acceptable(made)


@pytest.mark.parametrize(
    "examples",
    [
        [AIMessage("", tool_calls=[ADA])],
        [result_of("call_1")],
        [[user(), AIMessage("", tool_calls=[ADA]), result_of("call_1")]] * 2,
        [AIMessage("")],
        [SystemMessage("Be brief."), user()],
    ],
    ids=["orphan", "result", "id twice", "empty", "system"],
)
def test_examples_that_no_provider_would_accept_are_refused_when_the_graph_is_built(examples: list[Any]) -> None:
    with pytest.raises(ValueError, match="examples:"):
        create_react_graph(ScriptedModel(), [lookup], examples=examples)


def test_examples_stand_behind_the_system_prompt_and_before_the_conversation() -> None:
    example = [("user", "Where is Bo?"), AIMessage("", tool_calls=[ADA]), result_of("call_1"), ("ai", "Page 2.")]
    _, model = answered([user()], examples=example, system_prompt="Be brief.")
    assert [m.type for m in model.requests[0].messages] == ["system", "human", "ai", "tool", "ai", "human"]
