"""One vocabulary of events from every graph of ours."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import pytest
from fake_openai_server import Fail, FakeOpenAI, Reply
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from stream_support import Streams, kinds, of
from support import asks, asks_for_ever, lookup, question, thread

from taograph import Event, Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call
from taograph.tools.person import ask_person


def test_the_vocabulary_in_its_order(steps: Streams) -> None:
    model = ScriptedModel(replies=[asks("Ada", text="I look her up."), "She is on page 3."], usage=(90, 10))
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    events = steps(graph, question("Where is Ada?"), thread("t5"))
    assert kinds(events) == [
        "run_started",
        "thought",
        "budget",
        "action",
        "observation",
        "stop",
        "answer",
        "budget",
    ] or kinds(events) == ["run_started", "thought", "budget", "action", "observation", "budget", "stop", "answer"]
    started, action, observation = of(events, "run_started")[0], of(events, "action")[0], of(events, "observation")[0]
    assert started["question"] == "Where is Ada?"
    assert started["tools"] == ["lookup", "read_result"]
    assert started["model"] == "scripted"
    assert started["limits"]["steps"] == 15
    assert (action["tool"], action["args"]) == ("lookup", {"name": "Ada"})
    assert observation["id"] == action["id"]
    assert observation["text"] == "Ada is in the book on page 3."
    assert observation["status"] == "success"
    assert observation["size"] == len(observation["text"])
    assert observation["handle"] is None
    assert observation["seconds"] >= 0
    assert [b["steps"] for b in of(events, "budget")] == [1, 2]
    assert of(events, "budget")[0]["spent"]["input_tokens"] == 90
    assert of(events, "thought")[0]["text"] == "I look her up."
    stop, answer = of(events, "stop")[0], of(events, "answer")[0]
    assert stop["reason"] == "final"
    assert answer["text"] == "She is on page 3."
    assert answer["spent"]["model_calls"] == 2
    assert answer["spent"]["tool_calls"] == 1
    assert events[-1] is answer


def test_every_event_has_its_header_and_is_json(steps: Streams) -> None:
    model = ScriptedModel(replies=[asks("Ada", text="I look."), "", "Page 3."])
    graph = create_react_graph(model, [lookup], checkpointer=InMemorySaver())
    events = steps(graph, question(), thread("t5"))
    json.loads(json.dumps(events))
    assert {e["thread"] for e in events} == {"t5"}
    (run_id,) = {e["run"] for e in events}
    assert run_id
    for event in events:
        assert event["path"] == []
        assert datetime.fromisoformat(event["time"]).tzinfo is not None
    times = [e["time"] for e in events if e["type"] != "thought_delta"]  # a piece has the time it was read at
    assert times == sorted(times)
    numbers = [e["step"] for e in events]
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert {e["step"] for e in events if e["type"] in ("action", "observation", "thought")} == {1}
    assert of(events, "retry")[0]["step"] == 2
    assert of(events, "answer")[0]["step"] == of(events, "stop")[0]["step"] == 3


def test_events_have_the_fields_of_their_types(steps: Streams) -> None:
    """Against the declared vocabulary, required fields and nothing undeclared."""
    model = ScriptedModel(replies=[asks("Ada", call("ask_person", {"question": "Which?"}), text="Hm."), "", "Page 3."])
    graph = create_react_graph(model, [lookup, ask_person], checkpointer=InMemorySaver())
    events = steps(graph, question(), thread()) + steps(graph, Command(resume="That."), thread())
    declared = {get_args(get_type_hints(kind)["type"])[0]: kind for kind in get_args(Event)}
    seen = set()
    for event in events:
        kind = declared[event["type"]]
        fields = get_type_hints(kind, include_extras=True)
        assert set(event) <= set(fields), event
        assert set(event) >= {name for name, hint in fields.items() if get_origin(hint) is not NotRequired}, event
        seen.add(event["type"])
    told = "run_started thought_delta thought action observation approval budget retry stop answer"
    assert seen == set(told.split())


def test_without_a_thread(steps: Streams) -> None:
    events = steps(create_react_graph(ScriptedModel(replies=["Yes."]), [lookup]), question())
    assert {e["thread"] for e in events} == {None}
    assert len({e["run"] for e in events}) == 1


def test_runs_have_ids_of_their_own(steps: Streams) -> None:
    graph = create_react_graph(ScriptedModel(replies=["Yes."], repeat=True), [lookup], checkpointer=InMemorySaver())
    ids = {steps(graph, question(), thread())[0]["run"] for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    "text", ["I look her up, I think.", "  spaced\n\n text  with breaks \n", "日本語 mixed with ü"]
)
def test_deltas_add_up_to_the_text(steps: Streams, text: str) -> None:
    model = ScriptedModel(replies=[asks("Ada", text=text), f"Answer: {text}"])
    events = steps(create_react_graph(model, [lookup]), question())
    for step, whole in ((1, of(events, "thought")[0]["text"]), (2, of(events, "answer")[0]["text"])):
        deltas = [e["text"] for e in of(events, "thought_delta") if e["step"] == step]
        assert len(deltas) > 1
        assert "".join(deltas).strip() == whole.strip()
        place = [n for n, e in enumerate(events) if e["type"] == "thought_delta" and e["step"] == step]
        told = next(n for n, e in enumerate(events) if e["type"] in ("thought", "answer") and e["step"] == step)
        assert max(place) < told, "a thought is told whole after its pieces"


def test_deltas_come_as_the_model_speaks(steps: Streams) -> None:
    """Over HTTP, with reasoning apart from the text."""
    text = "Ada is on page 3 of the book."
    with FakeOpenAI([Reply(text, reasoning="Let me think about it.", pace=0.03)]) as server:
        graph = create_react_graph(f"{server.url}#fake", [lookup])
        events = steps(graph, question())
    reasoning = [e for e in of(events, "thought_delta") if e["kind"] == "reasoning"]
    spoken = [e for e in of(events, "thought_delta") if e["kind"] == "text"]
    assert "".join(e["text"] for e in reasoning) == "Let me think about it."
    assert "".join(e["text"] for e in spoken) == text
    first, last = (datetime.fromisoformat(e["time"]) for e in (spoken[0], spoken[-1]))
    assert (last - first).total_seconds() > 0.1, "they came one by one, not at the end"
    assert of(events, "thought")[0]["text"] == "Let me think about it."
    assert of(events, "answer")[0]["text"] == text
    assert of(events, "budget")[-1]["spent"]["input_tokens"] > 0, "usage is asked for in streams too"


def test_the_closing_answer_and_the_true_reason(steps: Streams) -> None:
    graph = create_react_graph(asks_for_ever(), [lookup], limits=Limits(steps=2))
    events = steps(graph, question())
    assert of(events, "stop") == [{**of(events, "stop")[0], "reason": "step_limit", "detail": "2 of 2 steps used"}]
    assert of(events, "answer")[0]["text"] == "So far: …"
    assert events[-1]["type"] == "answer"


class Place(BaseModel):
    """A place."""

    page: int


def test_a_form_is_in_the_answer_and_its_making_is_not_told_as_thought(steps: Streams) -> None:
    model = ScriptedModel(replies=["On page 3.", asks(call("Place", {"page": 3}), text="Filling in the form.")])
    events = steps(create_react_graph(model, [lookup], response_format=Place), question())
    assert of(events, "answer")[0]["structured"] == {"page": 3}
    assert "form" not in "".join(e["text"] for e in of(events, "thought_delta"))


def test_what_a_judge_says_is_no_thought(steps: Streams) -> None:
    judge = ScriptedModel(replies=["Page 3 is wrong.", "OK"])
    model = ScriptedModel(replies=["Page 3.", "Page 4."])
    events = steps(create_react_graph(model, [lookup], verify=judge), question())
    assert of(events, "answer")[0]["text"] == "Page 4."
    assert [e["reason"] for e in of(events, "retry")] == ["verify"]
    assert "".join(e["text"] for e in of(events, "thought_delta")) == "Page 3.Page 4."


def test_a_provider_error_is_told_as_a_retry(steps: Streams) -> None:
    with FakeOpenAI([Fail(503, "busy, sk-abcdef1234567890"), "Yes."]) as server:
        events = steps(create_react_graph(f"{server.url}#fake", [lookup]), question())
    (retry,) = of(events, "retry")
    assert retry["reason"] == "model_error"
    assert "abcdef" not in retry["detail"]
    assert of(events, "answer")[0]["text"] == "Yes."


def test_waiting_for_a_person_and_going_on(steps: Streams) -> None:
    model = ScriptedModel(
        replies=[asks("Ada", call("ask_person", {"question": "Which?"}, id="q1"), text="I ask."), "That one."]
    )
    graph = create_react_graph(model, [lookup, ask_person], checkpointer=InMemorySaver())
    first = steps(graph, question(), thread())
    assert first[-1]["type"] == "approval"
    (approval,) = of(first, "approval")
    assert approval["value"]["question"] == "Which?"
    assert approval["thread"] == "t1"
    assert approval["run"] == first[0]["run"]
    assert approval["step"] == 1
    assert of(first, "answer") == []
    second = steps(graph, Command(resume={approval["id"]: "the red one"}), thread())
    assert "run_started" not in kinds(second)
    assert {e["run"] for e in second} == {first[0]["run"]}
    assert [o["text"] for o in of(second, "observation")] == ["the red one"], "the sibling is not told again"
    assert of(second, "answer")[0]["text"] == "That one."
    assert of(second, "answer")[0]["step"] == 2


def test_two_questions_at_once_are_two_approvals(steps: Streams) -> None:
    model = ScriptedModel(
        replies=[asks(call("ask_person", {"question": "A?"}), call("ask_person", {"question": "B?"})), "Both."]
    )
    graph = create_react_graph(model, [ask_person], checkpointer=InMemorySaver())
    first = steps(graph, question(), thread())
    asked = {e["value"]["question"]: e["id"] for e in of(first, "approval")}
    assert set(asked) == {"A?", "B?"}
    second = steps(graph, Command(resume={asked["A?"]: "1"}), thread())
    (again,) = of(second, "approval")
    assert again["value"]["question"] == "B?"
    assert (again["thread"], again["run"], again["step"]) == ("t1", first[0]["run"], 1)
    third = steps(graph, Command(resume={asked["B?"]: "2"}), thread())
    assert of(third, "answer")[0]["text"] == "Both."


def nested(checkpointer: Any = None, tools: Any = (lookup,), replies: Any = None) -> Any:
    inner = create_react_graph(
        ScriptedModel(replies=replies or [asks("Ada", text="I look."), "Page 3."]), tools, name="inner"
    )
    return (
        StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").compile(checkpointer=checkpointer)
    )


def test_a_nested_graphs_events_are_children_with_their_path(steps: Streams) -> None:
    events = steps(nested(), question())
    json.dumps(events)
    assert {e["type"] for e in events} == {"child"}
    assert {tuple(e["path"]) for e in events} == {("agent",)}
    inner = [e["event"] for e in events]
    assert kinds(inner)[0] == "run_started"
    assert kinds(inner)[-1] == "answer"
    assert "".join(e["text"] for e in of(inner, "thought_delta") if e["step"] == 1) == "I look."
    assert {e["run"] for e in events} == {inner[0]["run"]}
    for event in events:
        assert event["step"] == event["event"]["step"]


def test_a_nested_graphs_question_is_asked_once(steps: Streams) -> None:
    replies = [asks(call("ask_person", {"question": "Which?"}), text="I ask."), "That one."]
    graph = nested(InMemorySaver(), (ask_person,), replies)
    first = steps(graph, question(), thread())
    asked = [e for e in first if e["type"] == "approval" or (e["type"] == "child" and e["event"]["type"] == "approval")]
    assert len(asked) == 1
    one = asked[0] if asked[0]["type"] == "approval" else asked[0]["event"]
    second = steps(graph, Command(resume={one["id"]: "the red one"}), thread())
    assert second[-1]["event"]["text"] == "That one."


def test_a_graph_within_a_tool_is_a_child_of_the_tools_node(steps: Streams) -> None:
    inner = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup], name="inner")

    @tool(effects="none")
    def research(topic: str, config: RunnableConfig) -> str:
        """Research a topic.

        Args:
            topic: What to research.
        """
        return str(inner.invoke(question(topic), config)["answer"])

    model = ScriptedModel(replies=[asks(call("research", {"topic": "Ada"}), text="Outer thought."), "Outer answer."])
    events = steps(create_react_graph(model, [research]), question())
    children = of(events, "child")
    assert {tuple(e["path"]) for e in children} == {("act",)}
    assert of([e["event"] for e in children], "answer")[0]["text"] == "Page 3."
    assert of(events, "answer")[0]["text"] == "Outer answer."
    own = [e for e in events if e["type"] != "child"]
    assert len({e["run"] for e in own}) == 1
    assert {e["run"] for e in children}.isdisjoint({e["run"] for e in own})


def test_a_graph_without_ours_in_it_has_no_events(steps: Streams) -> None:
    plain = (
        StateGraph(MessagesState).add_node("n", lambda s: {"messages": [("ai", "x")]}).add_edge(START, "n").compile()
    )
    assert steps(plain, question()) == []


def test_an_interrupt_of_the_tools_own_keeps_its_value(steps: Streams) -> None:
    @tool(effects="once")
    def pay(amount: int) -> str:
        """Pay.

        Args:
            amount: How much.
        """
        return f"{interrupt({'amount': amount, 'to': ['Ada']})}: {amount}"

    model = ScriptedModel(replies=[asks(call("pay", {"amount": 5})), "Paid."])
    graph = create_react_graph(model, [pay], checkpointer=InMemorySaver())
    first = steps(graph, question(), thread())
    assert of(first, "approval")[0]["value"] == {"amount": 5, "to": ["Ada"]}
    second = steps(graph, Command(resume="yes"), thread())
    assert of(second, "observation")[0]["text"] == "yes: 5"
    assert of(second, "answer")[0]["text"] == "Paid."
