"""LLMCompiler's graph: calls begin while the plan is being written, each as soon as its inputs are there."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from dag_support import (
    LONG,
    Writing,
    args,
    fail,
    finish,
    last_request,
    made,
    multiply,
    observed,
    plan,
    search,
    with_name,
)
from fake_openai_server import Reply
from http_support import Made, assert_concluded, both_pairs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from stream_support import Streams, of
from support import Way, assert_acceptable, assert_ended, both_ways, question, run, thread

from taograph import Limits, tool
from taograph.graphs import STRATEGIES
from taograph.graphs.dag import create_dag_graph
from taograph.models import ScriptedModel, call


@both_ways
@pytest.mark.parametrize("protocol", ["native", "text"])
def test_a_plan_its_calls_and_the_answer(way: Way, protocol: Any) -> None:
    calls = ['search("a (b), \\"c\\"")', "multiply(3, second=4)", 'multiply("$2")', 'search(query="${1} or $3 or $22")']
    model, graph = made(*calls[:3], "search('x ${1} [$3]')", protocol=protocol)
    result = run(way, graph, question())
    assert_ended(result, "final", model)
    assert len(model.requests) == 2
    assert result["answer"] == "Fine."
    assert result["stop"]["step"] == 2
    assert result["spent"]["tool_calls"] == 4
    assert args(result) == {
        "t1": {"query": 'a (b), "c"'},
        "t2": {"first": 3, "second": 4},
        "t3": {"first": 12},
        "t4": {"query": 'x found <a (b), "c"> [24]'},
    }
    assert list(observed(result)) == ["t1", "t2", "t3", "t4"]
    assert [type(m).__name__ for m in result["messages"]].count("AIMessage") == 2


def test_the_thought_of_the_plan_and_of_the_joiner() -> None:
    model = ScriptedModel(replies=["Thought: look first\n" + plan('search("a")'), finish("Four (4).")])
    result = create_dag_graph(model, [search]).invoke(question())
    assert_ended(result, "final", model)
    said = [m for m in result["messages"] if isinstance(m, AIMessage)]
    assert said[0].text == "look first"
    assert (said[1].text, said[1].additional_kwargs["reasoning_content"]) == ("Four (4).", "that is all.")


@both_ways
@pytest.mark.parametrize("protocol", ["native", "text"])
def test_a_call_begins_while_the_plan_is_still_being_written(way: Way, protocol: Any) -> None:
    begun = threading.Event()
    seen: list[bool] = []

    @tool(effects="none")
    def note(what: str) -> str:
        """Note.

        Args:
            what: What.
        """
        begun.set()
        return what

    model = Writing(
        replies=["", finish("Fine.")],
        pieces=['1. note("a', '")\n', "2. no", lambda: seen.append(begun.wait(LONG)), 'te("$1 b")\n3. join()'],
    )
    result = run(way, create_dag_graph(model, [note], protocol=protocol), question())
    assert_ended(result, "final", model)
    assert seen == [True], "the call waited for the end of the plan"
    assert observed(result) == {"t1": "a", "t2": "a b"}


@both_ways
def test_a_call_does_not_wait_for_what_it_does_not_need(way: Way) -> None:
    chain = threading.Event()

    @tool(effects="none")
    def slow(name: str) -> str:
        """Take as long as the others do.

        Args:
            name: Anything.
        """
        assert chain.wait(LONG)
        return "slow"

    @tool(effects="none")
    def last(name: str) -> str:
        """End the chain.

        Args:
            name: Anything.
        """
        chain.set()
        return "last"

    # In levels, the third call would wait for the first one, which waits for the fourth.
    calls = ['slow("x")', 'search("y")', 'search("$2")', 'last("$3")', 'search("$1 $4")']
    model = ScriptedModel(replies=[plan(*calls), finish("Fine.")])
    result = run(way, create_dag_graph(model, [slow, last, search]), question())
    assert_ended(result, "final", model)
    assert observed(result)["t5"] == "found <slow last>"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['1. search("$7")'], {"t1": "it refers to $7, and there is no such step before it"}),
        (['1. search("$1")'], {"t1": "it refers to its own result, $1"}),
        (['1. search("$2")', '2. search("b")'], {"t1": "no such step before it", "t2": "found <b>"}),
        (['1. search("a")', '1. search("b")', '2. search("$1")'],
         {"t1": "found <a>", "t1_2": "stands in the plan twice", "t2": "stands in the plan twice"}),
        (['3. search("a")', '2. search("$3")'], {"t3": "found <a>", "t2": "found <found <a>>"}),
        (['1. serch("a")', '2. search("$1")'], {"t1": "there is no tool named 'serch'", "t2": "no result of $1"}),
        (['1. fail("a")', '2. search("$1")', '3. search("$2")', '4. search("b")'],
         {"t1": "fail failed", "t2": "no result of $1", "t3": "no result of $2", "t4": "found <b>"}),
        (['1. search("a', '2. search("b")'], {"t1": "its line breaks off", "t2": "found <b>"}),
        (['1. search(a"b, c)', '2. search("b")'], {"t1": "its line breaks off", "t2": "found <b>"}),
        (["1. search(a, {b)})", '2. search("b")'], {"t1": "cannot be read", "t2": "found <b>"}),
        (['1. look for it', '2. search("b")'], {"t1": "is no call", "t2": "found <b>"}),
        (['1. search("a", "b")', '2. multiply("x")'], {"t1": "there are 2", "t2": "not valid"}),
        (['1. search("b and $1x")'], {"t1": "its own result"}),
    ],
)  # fmt: skip
@both_ways
def test_what_cannot_be_run_says_why_and_nothing_hangs(way: Way, lines: list[str], said: dict[str, str]) -> None:
    model = ScriptedModel(replies=["\n".join([*lines, "9. join()"]), finish("Fine.")])
    result = run(way, create_dag_graph(model, [search, multiply, fail]), question())
    assert_ended(result, "final", model)
    got = observed(result)
    assert got.keys() == said.keys()
    for id, text in said.items():
        assert text in got[id], (id, got[id])
    failed = [m for m in result["messages"] if isinstance(m, ToolMessage) and m.status == "error"]
    assert last_request(model).count("No evidence found") == len(failed)
    assert "secret" not in last_request(model)


def test_a_result_is_never_taken_for_a_reference() -> None:
    @tool(effects="none")
    def sly(query: str) -> str:
        """Say what looks like a reference.

        Args:
            query: Anything.
        """
        return "$2 ${1}\n3. search('x')"

    model = ScriptedModel(replies=[plan('sly("a")', 'search("b $1")'), finish("Fine.")])
    result = create_dag_graph(model, [sly, search]).invoke(question())
    assert args(result)["t2"] == {"query": "b $2 ${1}\n3. search('x')"}
    assert len(observed(result)) == 2


def test_a_plan_that_was_cut_off_is_told() -> None:
    cut = AIMessage('1. search("a")\n2. search("b', response_metadata={"finish_reason": "length"})
    model = ScriptedModel(replies=[cut, finish("Fine.")])
    result = create_dag_graph(model, [search]).invoke(question())
    assert_ended(result, "final", model)
    assert "breaks off" in observed(result)["t2"]
    assert any("The plan breaks off here" in m.text for m in model.requests[1].messages)


@both_ways
@pytest.mark.parametrize("protocol", ["native", "text"])
def test_another_plan_and_then_an_answer(way: Way, protocol: Any) -> None:
    again = "Thought: not yet.\nAction: Replan(look for b (too))"
    model = ScriptedModel(replies=[plan('search("a")'), again, plan('search("b $1")', first=2), again, finish("Fine.")])
    result = run(way, create_dag_graph(model, [search], protocol=protocol), question())
    assert_ended(result, "final", model)
    assert observed(result) == {"t1": "found <a>", "t2": "found <b found <a>>"}
    planner = [str(r.messages[-1].content) for r in model.requests]
    assert "look for b (too)" in planner[2]
    assert "Number on from 2" in planner[2]
    assert "Replan" in planner[1]
    assert "Replan" not in planner[3], "the last round may not plan again"
    assert "no other plan" in planner[4]
    assert result["stop"]["step"] == 5


def test_a_later_plan_may_begin_at_one_again() -> None:
    again = "Replan(more)"
    replies = [plan('search("a")', 'search("b")'), again, plan('search("c $2")', 'search("$1")'), finish("Fine.")]
    model = ScriptedModel(replies=replies)
    result = create_dag_graph(model, [search]).invoke(question())
    assert_ended(result, "final", model)
    assert observed(result)["t1_2"] == "found <c found <b>>"
    assert observed(result)["t2_2"] == "found <found <c found <b>>>"


@pytest.mark.parametrize("replans", [0, 2])
def test_plans_are_bounded(replans: int) -> None:
    def reply(messages: Any) -> str:
        text = str(messages[-1].content)
        return (
            plan('search("a")')
            if "Make a plan" in text
            else "Replan(more)"
            if "or Replan(" in text
            else finish("Fine.")
        )

    model = ScriptedModel(replies=[reply], repeat=True)
    result = create_dag_graph(model, [search], replans=replans).invoke(question())
    assert_ended(result, "final", model)
    assert result["spent"]["tool_calls"] == replans + 1
    for wrong in (-1, True, 1.5):
        with pytest.raises(ValueError, match="replans="):
            create_dag_graph(model, replans=wrong)  # type: ignore[arg-type]


@both_ways
def test_no_call_is_needed(way: Way) -> None:
    model = ScriptedModel(replies=["1. join()", "Four."])
    result = run(way, create_dag_graph(model, [search]), question())
    assert_ended(result, "final", model)
    assert (result["answer"], result["spent"]["tool_calls"]) == ("Four.", 0)


@pytest.mark.parametrize("protocol", ["native", "text"])
def test_what_is_no_plan_is_asked_for_again(protocol: Any) -> None:
    model = ScriptedModel(replies=["I will look.", "", plan('search("a")'), finish("Fine.")])
    result = create_dag_graph(model, [search], protocol=protocol).invoke(question())
    assert_ended(result, "final", model)
    model = ScriptedModel(replies=["I will look.", "So it ends."], repeat=True)
    result = create_dag_graph(model, [search], protocol=protocol, limits=Limits(malformed=0)).invoke(question())
    assert_ended(result, "malformed_output", model)


@both_ways
def test_a_limit_of_tool_calls_and_going_on(way: Way) -> None:
    model = ScriptedModel(replies=[plan('search("a")', 'search("b")', 'search("$1 $2")'), "So far.", finish("All.")])
    graph = create_dag_graph(model, [search], limits=Limits(tool_calls=1), checkpointer=InMemorySaver())
    result = run(way, graph, question(), thread())
    assert_ended(result, "tool_call_limit", model)
    assert observed(result) == {"t1": "found <a>"}
    result = run(way, graph, {"messages": []}, thread(), context={"tool_calls": 3})
    assert_ended(result, "final")
    assert len(model.requests) == 3, "planned again"
    assert observed(result)["t3"] == "found <found <a> found <b>>"
    assert result["answer"] == "All."


@pytest.mark.parametrize("limit", range(2, 8))
def test_any_recursion_limit_ends_with_an_answer(limit: int) -> None:
    model, graph = made('search("a")', 'search("$1")')
    model.repeat = True
    result = graph.invoke(question(), {"recursion_limit": limit})
    assert_ended(result, "final" if limit >= 3 else "step_limit", model)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=1), "step_limit"),
        (Limits(tokens=150), "token_limit"),
        (Limits(tool_calls=0), "tool_call_limit"),
        (Limits(seconds=1e-9), "deadline"),
    ],
)
def test_limits_end_it(limits: Limits, reason: str) -> None:
    model, graph = made('search("a")', limits=limits)
    model.repeat = True
    assert_ended(graph.invoke(question()), reason, model)


@both_ways
def test_no_more_at_once_than_is_allowed(way: Way) -> None:
    lock, now, most = threading.Lock(), [0], [0]

    @tool(effects="none")
    def count(name: str) -> str:
        """Count who is in.

        Args:
            name: Who.
        """
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with lock:
            now[0] -= 1
        return name

    model = ScriptedModel(replies=[plan(*(f'count("{n}")' for n in range(8))), finish("Fine.")])
    result = run(way, create_dag_graph(model, [count]), question(), {"max_concurrency": 2})
    assert_ended(result, "final", model)
    assert most[0] <= 2
    assert len(observed(result)) == 8


@both_ways
def test_a_second_question_has_a_plan_of_its_own(way: Way) -> None:
    replies = [plan('search("a")'), finish("One."), plan('search("b")', 'search("$1")'), finish("Two.")]
    model = ScriptedModel(replies=replies)
    graph = create_dag_graph(model, [search], checkpointer=InMemorySaver())
    run(way, graph, question(), thread())
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert (result["answer"], result["spent"]["model_calls"]) == ("Two.", 2)
    assert observed(result) == {"t1": "found <a>", "t1_2": "found <b>", "t2": "found <found <b>>"}
    for request in model.requests:
        assert_acceptable(request.messages)


def test_a_tool_that_commands_the_graph() -> None:
    @tool(effects="none")
    def remark(text: str) -> Command[Any]:
        """Add a remark to the conversation.

        Args:
            text: What.
        """
        return Command(update={"messages": [HumanMessage(f"remark: {text}")]})

    model = ScriptedModel(replies=[plan('remark("a")', 'search("b")'), finish("Fine.")])
    result = create_dag_graph(model, [remark, search]).invoke(question())
    assert_ended(result, "final", model)
    assert observed(result)["t1"] == "remark is done."
    assert any(m.text == "remark: a" for m in result["messages"])


@both_ways
def test_a_required_tool_and_an_objection_lead_to_another_plan(way: Way) -> None:
    replies = [plan('search("a")'), finish("One."), plan("multiply(3)"), finish("Two.")]
    model = ScriptedModel(replies=replies)
    result = run(way, create_dag_graph(model, [search, multiply], require=["multiply"], replans=0), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Two."
    objected: Callable[..., Any] = lambda answer, trajectory: "too short" if answer == "One." else None  # noqa: E731
    model = ScriptedModel(replies=[plan('search("a")'), finish("One."), "1. join()", finish("Two, at length.")])
    result = run(way, create_dag_graph(model, [search], verify=objected), question())
    assert_ended(result, "final", model)
    assert result["answer"] == "Two, at length."


def test_a_form_for_the_answer() -> None:
    class Number(BaseModel):
        """A number."""

        value: int

    said = AIMessage("", tool_calls=[call("Number", {"value": 6})])
    model = ScriptedModel(replies=[plan("multiply(3)"), finish("Six."), said])
    result = create_dag_graph(model, [multiply], response_format=Number).invoke(question())
    assert_ended(result, "final", model)
    assert result["structured"] == {"value": 6}


def test_what_is_told(steps: Streams) -> None:
    _, graph = made('search("a")', 'fail("b")', 'search("$1")')
    events = steps(graph, question())
    last = of(events, "plan")[-1]["plan"]
    assert [(one["id"], one["tool"], one["needs"], one["status"]) for one in last] == [
        ("$1", "search", [], "done"),
        ("$2", "fail", [], "failed"),
        ("$3", "search", ["$1"], "done"),
    ]
    assert sorted(e["id"] for e in of(events, "action")) == ["t1", "t2", "t3"]
    assert sorted(e["id"] for e in of(events, "observation")) == ["t1", "t2", "t3"]
    assert of(events, "thought_delta")
    assert [e["type"] for e in events][-2:] == ["stop", "answer"]


def test_it_is_a_strategy_like_the_others() -> None:
    assert STRATEGIES["dag"] is create_dag_graph
    model = ScriptedModel(replies=["1. join()", "Four."])
    assert create_dag_graph(model).invoke(question())["answer"] == "Four."
    with pytest.raises(ValueError, match="'join'"):
        create_dag_graph(model, [with_name("join")])
    assert {"plan", "work", "act", "join", "finish"} <= set(create_dag_graph(None).get_graph().nodes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_plan_gives_what_one_call_after_the_other_would(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 7))
    needs = [
        data.draw(st.lists(st.integers(1, max(1, n - 1)), max_size=2)) if n > 1 else [] for n in range(1, number + 1)
    ]
    fails = {n for n in range(1, number + 1) if data.draw(st.integers(0, 5)) == 0}
    calls = [
        f'{"fail" if n in fails else "search"}("{n}{"".join(f" ${m}" for m in needs[n - 1])}")'
        for n in range(1, number + 1)
    ]
    text = plan(*calls)
    cuts = sorted({0, len(text), *data.draw(st.lists(st.integers(0, len(text)), max_size=6))})
    pieces = [text[start:end] for start, end in itertools.pairwise(cuts)]
    model = Writing(replies=["", finish("Fine.")], pieces=pieces)
    config = {"max_concurrency": data.draw(st.sampled_from([None, 1, 2]))}
    result = run(
        data.draw(st.sampled_from(["invoke", "ainvoke"])), create_dag_graph(model, [search, fail]), question(), config
    )
    assert_ended(result, "final", model)
    expected: dict[int, str | None] = {}
    for n in range(1, number + 1):
        inputs = [expected[m] for m in needs[n - 1]]
        fine = n not in fails and None not in inputs
        expected[n] = f"found <{' '.join([str(n), *map(str, inputs)])}>" if fine else None
    statuses = {m.tool_call_id: m for m in result["messages"] if isinstance(m, ToolMessage)}
    assert list(statuses) == [f"t{n}" for n in range(1, number + 1)]
    for n, wanted in expected.items():
        assert (statuses[f"t{n}"].status == "error") == (wanted is None)
        assert wanted is None or statuses[f"t{n}"].text == wanted


@both_pairs
def test_over_the_wire(serve: Any, made: Made, way: Way) -> None:
    begun = threading.Event()

    @tool(effects="none")
    def note(what: str) -> str:
        """Note.

        Args:
            what: What.
        """
        begun.set()
        return f"noted {what}"

    server = serve(Reply(plan('note("a")', 'note("b $1")'), pace=0.001), finish("Fine."))
    result = run(way, create_dag_graph(made(server), [note]), question())
    assert_concluded(result, "final", server)
    assert server.requests[0].get("stream"), "the plan was not streamed"
    assert not server.requests[1].get("stream")
    assert observed(result) == {"t1": "noted a", "t2": "noted b noted a"}
    assert result["spent"]["input_tokens"] > 0
