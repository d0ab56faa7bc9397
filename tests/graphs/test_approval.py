"""A person's word before a call: asked for, bound to the call, used once; whatever else is given changes nothing."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError
from support import Way, asks, assert_acceptable, assert_ended, both_ways, lookup, pending, question, run, thread
from typing_extensions import TypedDict

from taograph import Limits, checkpoints, create_react_graph, tool
from taograph.cancel import Cancellation
from taograph.graphs.loop.channels import Messages
from taograph.graphs.loop.trajectory import Trajectory
from taograph.models import ScriptedModel, call

SENT: list[str] = []


@tool(effects="once")
def send(to: str, copies: int = 1) -> str:
    """Send a letter.

    Args:
        to: To whom.
        copies: How many.
    """
    SENT.append(f"{to}*{copies}")
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


@pytest.fixture(params=["ours", "in memory", "sqlite"])
def saver(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One with a ledger, and two of LangGraph's own without."""
    if request.param == "ours":
        with checkpoints.open("sqlite://") as opened:
            yield opened
    elif request.param == "in memory":
        yield InMemorySaver()
    else:
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        yield SqliteSaver(connection)
        connection.close()


def letters(*to: str) -> AIMessage:
    return asks(*(call("send", {"to": name}, id=f"to-{name}") for name in to))


def sends(*to: str, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=[letters(*to), "Done.", "And done again."])
    return model, create_react_graph(model, [send, lookup], **{"approve": "send", **options})


def ids(result: dict[str, Any]) -> dict[str, str]:
    """Ids of the questions by the call that they are about."""
    return {one.value["call"]: one.id for one in pending(result)}


def told(result: dict[str, Any]) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


# What is asked


def test_the_question_says_what_is_to_be_run(saver: Any) -> None:
    _, graph = sends("Ann", checkpointer=saver)
    (asked,) = pending(graph.invoke(question(), thread("t9")))
    assert asked.value == {
        "type": "approval",
        "call": "to-Ann",
        "tool": "send",
        "args": {"to": "Ann"},
        "hash": asked.value["hash"],
        "thread": "t9",
        "question": "Run send? Send a letter.",
        "answers": ["approve", "edit", "reject"],
    }
    assert len(asked.value["hash"]) == 64
    assert asked.response_schema["properties"]["decision"]["enum"] == ["approve", "edit", "reject"]
    assert SENT == []


def test_calls_that_need_no_word_run_meanwhile(saver: Any) -> None:
    model = ScriptedModel(replies=[asks(*letters("Ann").tool_calls, call("lookup", {"name": "x"})), "Done."])
    graph = create_react_graph(model, [send, lookup], approve=["send"], checkpointer=saver)
    result = graph.invoke(question(), thread())
    assert list(ids(result)) == ["to-Ann"]
    assert [task.name for task in graph.get_state(thread()).tasks if task.result] == ["act"]
    assert_ended(graph.invoke(Command(resume="approve"), thread()), "final", model)


def test_a_call_that_is_not_valid_is_not_asked_about(saver: Any) -> None:
    model = ScriptedModel(replies=[asks(call("send", {"whom": "Ann"})), "Then not."])
    graph = create_react_graph(model, [send], approve=True, checkpointer=saver)
    result = graph.invoke(question(), thread())
    assert_ended(result, "final", model)
    assert "not valid" in next(iter(told(result).values()))


# What is answered

YES: list[Any] = [
    "approve",
    True,
    "Yes",
    {"decision": "approve"},
    {"type": "accept"},
    {"decisions": [{"type": "approve"}]},
]
NO: list[Any] = [
    "reject",
    False,
    "n",
    {"decision": "reject", "reason": "too late", "by": "Ann"},
    {"decisions": [{"type": "reject", "message": "too late"}]},
]


@pytest.mark.parametrize("answer", YES, ids=str)
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
def test_approved(saver: Any, answer: Any, by_id: bool) -> None:
    model, graph = sends("Ann", checkpointer=saver)
    (asked,) = ids(graph.invoke(question(), thread())).values()
    result = graph.invoke(Command(resume={asked: answer} if by_id else answer), thread())
    assert_ended(result, "final", model)
    assert SENT == ["Ann*1"]
    assert told(result) == {"to-Ann": "sent to Ann"}


@pytest.mark.parametrize("answer", NO, ids=str)
def test_rejected(saver: Any, answer: Any) -> None:
    model, graph = sends("Ann", checkpointer=saver)
    graph.invoke(question(), thread())
    result = graph.invoke(Command(resume=answer), thread())
    assert_ended(result, "final", model)
    assert SENT == []
    text = told(result)["to-Ann"]
    assert "rejected" in text
    assert "was not run" in text
    if isinstance(answer, dict):
        assert "too late" in text
        assert ("by Ann" in text) == ("by" in answer)
    (message,) = (m for m in result["messages"] if isinstance(m, ToolMessage))
    assert message.status == "error"
    assert result["spent"]["tool_calls"] == 0


def test_a_rejection_that_ends_the_run(saver: Any) -> None:
    model, graph = sends("Ann", checkpointer=saver)
    graph.invoke(question(), thread())
    result = graph.invoke(Command(resume={"decision": "reject", "reason": "wrong address", "stop": True}), thread())
    assert_ended(result, "rejected", model)
    assert SENT == []
    assert result["stop"]["detail"] == "a person rejected a call and ended the run"


def test_rejections_one_after_the_other_end_the_run(saver: Any) -> None:
    model = ScriptedModel(replies=[letters("A"), letters("B"), letters("C"), "I give up."])
    graph = create_react_graph(model, [send], approve="send", limits=Limits(errors=2), checkpointer=saver)
    graph.invoke(question(), thread())
    graph.invoke(Command(resume=False), thread())
    model.replies = [*model.replies[:2], "I give up."]
    result = graph.invoke(Command(resume=False), thread())
    assert_ended(result, "rejected", model)
    assert result["stop"]["step"] == 2


EDITS: list[Any] = [
    {"decision": "edit", "args": {"to": "Bob", "copies": 2}},
    {"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": "Bob", "copies": 2}}}]},
]


@pytest.mark.parametrize("answer", EDITS, ids=["ours", "LangChain's"])
def test_edited(saver: Any, answer: Any) -> None:
    model, graph = sends("Ann", checkpointer=saver)
    graph.invoke(question(), thread())
    result = graph.invoke(Command(resume=answer), thread())
    assert_ended(result, "final", model)
    assert SENT == ["Bob*2"]
    assert "A person changed the arguments" in told(result)["to-Ann"]
    assert '"to": "Bob"' in told(result)["to-Ann"]


UNUSABLE: list[tuple[Any, str]] = [
    ("perhaps", "decision"),
    ({"decision": "edit"}, "args"),
    ({"decision": "edit", "args": {"copies": "many"}}, "copies"),
    ({"decision": "edit", "args": {"to": "Bob", "by": "air"}}, "by"),
    ({"decision": "approve", "args": {"to": "Bob"}}, "args"),
    ({"decision": "approve", "hash": "0" * 64}, "hash"),
    (7, "valid"),
]


@both_ways
@pytest.mark.parametrize(("answer", "named"), UNUSABLE, ids=str)
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
def test_what_cannot_be_used_leaves_the_question_open(way: Way, answer: Any, named: str, by_id: bool) -> None:
    with checkpoints.open("sqlite://") as saver:
        model, graph = sends("Ann", checkpointer=saver)
        (asked,) = ids(run(way, graph, question(), thread())).values()
        with pytest.raises(ValidationError, match=named):
            run(way, graph, Command(resume={asked: answer} if by_id else answer), thread())
        assert ids(run(way, graph, None, thread())) == {"to-Ann": asked}
        assert SENT == []
        assert_ended(run(way, graph, Command(resume="approve"), thread()), "final", model)
        assert SENT == ["Ann*1"]


def test_an_unusable_answer_without_a_ledger() -> None:
    model, graph = sends("Ann", checkpointer=InMemorySaver())
    graph.invoke(question(), thread())
    with pytest.raises(ValidationError, match="copies"):
        graph.invoke(Command(resume={"decision": "edit", "args": {"to": "B", "copies": "many"}}), thread())
    assert list(ids(graph.invoke(None, thread()))) == ["to-Ann"]
    assert_ended(graph.invoke(Command(resume="approve"), thread()), "final", model)


# One answer, one call


@both_ways
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_in_any_order_and_in_part(way: Way, order: tuple[int, ...]) -> None:
    with checkpoints.open("sqlite://") as saver:
        model, graph = sends("A", "B", "C", checkpointer=saver)
        asked = ids(run(way, graph, question(), thread()))
        answers: list[Any] = [
            "approve",
            {"decision": "reject", "reason": "no"},
            {"decision": "edit", "args": {"to": "D"}},
        ]
        left = set(asked)
        for number in order:
            which = ("to-A", "to-B", "to-C")[number]
            result = run(way, graph, Command(resume={asked[which]: answers[number]}), thread())
            left.discard(which)
            assert set(ids(result)) == left
            assert {k: v for k, v in asked.items() if k in left} == ids(result), "a question changed"
        assert_ended(result, "final", model)
        assert sorted(SENT) == ["A*1", "D*1"]
        assert [m.tool_call_id for m in result["messages"] if isinstance(m, ToolMessage)] == ["to-A", "to-B", "to-C"]


def test_an_answer_is_used_once(saver: Any) -> None:
    model = ScriptedModel(replies=[letters("Ann"), asks(call("send", {"to": "Ann"}, id="again")), "Done."])
    graph = create_react_graph(model, [send], approve="send", checkpointer=saver)
    (first,) = ids(graph.invoke(question(), thread())).values()
    result = graph.invoke(Command(resume={first: "approve"}), thread())
    assert list(ids(result)) == ["again"]
    assert list(ids(graph.invoke(Command(resume={first: "approve"}), thread()))) == ["again"]
    assert list(ids(graph.invoke(None, thread()))) == ["again"]
    assert SENT == ["Ann*1"]
    assert_ended(graph.invoke(Command(resume="approve"), thread()), "final", model)
    assert SENT == ["Ann*1", "Ann*1"]


@both_ways
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
@pytest.mark.parametrize("ledger", [True, False], ids=["ledger", "none"])
def test_not_for_arguments_that_were_changed_meanwhile(way: Way, by_id: bool, ledger: bool) -> None:
    with checkpoints.open("sqlite://") as opened:
        model, graph = sends("Ann", checkpointer=opened if ledger else InMemorySaver())
        result = run(way, graph, question(), thread())
        (asked,) = ids(result).values()
        changed = result["messages"][-1].model_copy(update={"tool_calls": [call("send", {"to": "Eve"}, id="to-Ann")]})
        graph.update_state(thread(), {"messages": [changed]}, as_node="reason")
        result = run(way, graph, Command(resume={asked: "approve"} if by_id else "approve"), thread())
        assert SENT == []
        (now,) = pending(result)
        assert now.value["args"] == {"to": "Eve"}
        assert now.id != asked
        assert list(ids(run(way, graph, None, thread()))) == ["to-Ann"], "the answer to the one before was used"
        assert_ended(run(way, graph, Command(resume={now.id: "approve"}), thread()), "final", model)
        assert SENT == ["Eve*1"]


def test_a_fork_asks_anew(saver: Any) -> None:
    _, graph = sends("Ann", checkpointer=saver)
    graph.invoke(question(), thread())
    before = graph.get_state(thread()).config
    graph.invoke(Command(resume="reject"), thread())
    fork = graph.invoke(None, before)
    assert list(ids(fork)) == ["to-Ann"]
    assert SENT == []
    result = graph.invoke(Command(resume="approve"), thread())
    assert_ended(result, "final")
    assert SENT == ["Ann*1"]
    assert told(result) == {"to-Ann": "sent to Ann"}


def test_what_ran_is_not_run_again_in_a_fork() -> None:
    with checkpoints.open("sqlite://") as saver:
        _, graph = sends("Ann", checkpointer=saver)
        graph.invoke(question(), thread())
        before = graph.get_state(thread()).config
        graph.invoke(Command(resume="approve"), thread())
        graph.invoke(None, before)
        result = graph.invoke(Command(resume="approve"), thread())
        assert_ended(result, "final")
        assert told(result) == {"to-Ann": "sent to Ann"}
        assert SENT == ["Ann*1"]


@both_ways
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
def test_an_approved_tool_that_asks_something_itself(way: Way, by_id: bool) -> None:
    @tool(effects="once", approve=True)
    def wire(to: str) -> str:
        """Send money.

        Args:
            to: To whom.
        """
        amount, currency = interrupt("how much?"), interrupt("of what?")
        SENT.append(f"{amount} {currency} to {to}")
        return "sent"

    def resume(result: dict[str, Any], answer: Any) -> dict[str, Any]:
        return run(way, graph, Command(resume={pending(result)[0].id: answer} if by_id else answer), thread())

    with checkpoints.open("sqlite://") as saver:
        model = ScriptedModel(replies=[asks(call("wire", {"to": "Ann"})), "Done."])
        graph = create_react_graph(model, [wire], checkpointer=saver)
        result = resume(run(way, graph, question(), thread()), "approve")
        assert [one.value for one in pending(result)] == ["how much?"]
        result = run(way, graph, None, thread())
        assert [one.value for one in pending(result)] == ["how much?"], "the approval was taken for an answer"
        result = resume(result, "5")
        assert [one.value for one in pending(result)] == ["of what?"]
        result = run(way, graph, None, thread())
        assert [one.value for one in pending(result)] == ["of what?"], "the answer of before was used again"
        assert SENT == []
        assert_ended(resume(result, "EUR"), "final", model)
        assert SENT == ["5 EUR to Ann"]


# Which calls


def to_eve(tool: str, args: Any, trajectory: Trajectory) -> bool:
    assert tool == "send"
    assert trajectory.question == "What is it?"
    return bool(args["to"] == "Eve")


async def to_eve_later(tool: str, args: Any, trajectory: Trajectory) -> bool:
    await asyncio.sleep(0)
    return to_eve(tool, args, trajectory)


class ToEve:
    async def __call__(self, tool: str, args: Any, trajectory: Trajectory) -> bool:
        return await to_eve_later(tool, args, trajectory)


PREDICATES: dict[str, Any] = {
    "plain": to_eve,
    "async": to_eve_later,
    "object": ToEve(),
    "hands on": lambda *given: to_eve_later(*given),  # noqa: PLW0108 - no coroutine function, which is the point
    "partial": functools.partial(to_eve_later),
}


@both_ways
@pytest.mark.parametrize("predicate", PREDICATES.values(), ids=PREDICATES)
def test_a_predicate(way: Way, predicate: Any) -> None:
    with checkpoints.open("sqlite://") as saver:
        model, graph = sends("Ann", "Eve", approve=predicate, checkpointer=saver)
        result = run(way, graph, question(), thread())
        assert list(ids(result)) == ["to-Eve"]
        assert SENT == ["Ann*1"]
        assert_ended(run(way, graph, Command(resume=True), thread()), "final", model)
        assert SENT == ["Ann*1", "Eve*1"]


@both_ways
def test_a_predicate_that_fails_lets_nothing_pass(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    def fails(tool: str, args: Any, trajectory: Trajectory) -> bool:
        args["to"] = "changed"
        raise RuntimeError("key sk-secret")

    with checkpoints.open("sqlite://") as saver:
        _, graph = sends("Ann", approve=fails, checkpointer=saver)
        (asked,) = pending(run(way, graph, question(), thread()))
        assert asked.value["args"] == {"to": "Ann"}
    assert "a person is asked" in caplog.text
    assert "sk-secret" not in caplog.text
    assert SENT == []


def test_a_predicate_that_changes_its_mind(saver: Any) -> None:
    verdicts = iter([True])

    def once(tool: str, args: Any, trajectory: Trajectory) -> bool:
        return next(verdicts, False)

    model, graph = sends("Ann", approve=once, checkpointer=saver)
    assert list(ids(graph.invoke(question(), thread()))) == ["to-Ann"]
    assert list(ids(graph.invoke(None, thread()))) == ["to-Ann"], "what was asked needs its answer"
    result = graph.invoke(Command(resume={"decision": "reject", "reason": "no"}), thread())
    assert_ended(result, "final", model)
    assert SENT == []


def test_a_predicate_sees_what_happened_so_far(saver: Any) -> None:
    def unless_looked_up(tool: str, args: Any, trajectory: Trajectory) -> bool:
        return tool == "send" and not any(o.tool == "lookup" for step in trajectory.steps for o in step.observations)

    model = ScriptedModel(replies=[asks("Ann"), letters("Ann"), "Done."])
    graph = create_react_graph(model, [send, lookup], approve=unless_looked_up, checkpointer=saver)
    assert_ended(graph.invoke(question(), thread()), "final", model)
    assert SENT == ["Ann*1"]


@pytest.mark.parametrize(
    ("approve", "error", "says"),
    [
        ("sned", ValueError, "'sned' is none of the tools: .*send"),
        (["send", "x"], ValueError, "'x' is none of the tools"),
        (7, TypeError, "give names of tools, True, or a function"),
        ([send], TypeError, "give names of tools"),
    ],
)
def test_what_approve_cannot_be(approve: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        sends("Ann", approve=approve)


@pytest.mark.parametrize("approve", [True, "send", ["send"], to_eve])
@both_ways
def test_without_a_checkpointer_nothing_is_paid(way: Way, approve: Any) -> None:
    model, graph = sends("Ann", approve=approve)
    with pytest.raises(ValueError, match=r"there is no checkpointer.*the model was not asked"):
        run(way, graph, question())
    assert model.requests == []


def test_a_tool_that_wants_approval_itself(saver: Any) -> None:
    @tool(effects="once", approve=True)
    def drop(table: str) -> str:
        """Drop a table.

        Args:
            table: Which.
        """
        SENT.append(table)
        return "dropped"

    model = ScriptedModel(replies=[asks(call("drop", {"table": "t"}), "x"), "Done."])
    graph = create_react_graph(model, [drop, lookup], checkpointer=saver)
    assert len(pending(graph.invoke(question(), thread()))) == 1
    assert_ended(graph.invoke(Command(resume="yes"), thread()), "final", model)
    assert SENT == ["t"]


# Around it


class Outer(TypedDict):
    messages: Messages
    answer: str


@both_ways
def test_in_a_larger_graph(way: Way) -> None:
    """The run is a node of another graph, whose person answers without ids."""
    model, inner = sends("Ann", "Bob", approve="send")

    def build(saver: Any) -> Any:
        return (
            StateGraph(Outer)
            .add_node("agent", inner)
            .add_edge(START, "agent")
            .add_edge("agent", END)
            .compile(checkpointer=saver)
        )

    with checkpoints.open("sqlite://") as saver:
        outer = build(saver)
        result = run(way, outer, question(), thread(), durability="sync")
        asked = ids(result)
        assert set(asked) == {"to-Ann", "to-Bob"}
        result = run(way, outer, Command(resume={asked["to-Bob"]: "approve"}), thread(), durability="sync")
        assert list(ids(result)) == ["to-Ann"]
        result = run(way, outer, Command(resume="reject"), thread(), durability="sync")
        assert pending(result) == []
        assert result["answer"] == "Done."
        assert SENT == ["Bob*1"]
        assert_acceptable(result["messages"])
        assert len(model.requests) == 2


def test_a_call_of_a_cancelled_run_is_not_asked_about(saver: Any) -> None:
    with Cancellation() as cancel:

        def reply(_: Any) -> AIMessage:
            cancel.request("Ctrl-C")
            return letters("Ann")

        model = ScriptedModel(replies=[reply])
        graph = create_react_graph(model, [send], approve="send", checkpointer=saver)
        result = graph.invoke(question(), thread())
    assert pending(result) == []
    assert result["stop"]["reason"] == "cancelled"
    assert SENT == []
    assert_acceptable(result["messages"])


@both_ways
def test_another_question_while_one_is_open(way: Way) -> None:
    for ledger in (True, False):
        with checkpoints.open("sqlite://") as opened:
            model, graph = sends("Ann", "Bob", checkpointer=opened if ledger else InMemorySaver())
            asked = ids(run(way, graph, question(), thread()))
            result = run(way, graph, question("Never mind. And now?"), thread())
            assert_ended(result, "final")
            assert result["answer"] == "Done."
            said = told(result)["to-Ann"]
            if ledger:
                assert said.startswith("send was not run: the user went on with something else")
            else:
                assert said.startswith("No result was recorded for this call")
            request = model.requests[-1].messages
            assert_acceptable(request)
            assert isinstance(request[-1], HumanMessage)
            late = run(way, graph, Command(resume={asked["to-Ann"]: "approve"}), thread())
            assert late["answer"] == "Done."
            assert pending(late) == []
            assert SENT == []


def test_waiting_does_not_count_as_time(saver: Any) -> None:
    model, graph = sends("Ann", checkpointer=saver, limits=Limits(seconds=60.0))
    graph.invoke(question(), thread())
    long_ago = {"seconds": 1.0, "start": 1000.0, "end": 1002.0}  # as if the question had been asked in 1970
    graph.update_state(thread(), {"clock": {"seconds": -1.0, "start": 1000.0, "end": 1002.0}}, as_node="reason")
    assert graph.get_state(thread()).values["clock"] == {**long_ago, "seconds": 0.0}
    graph.invoke(None, thread())
    result = graph.invoke(Command(resume="approve"), thread())
    assert_ended(result, "final", model)
    assert 2.0 < result["spent"]["seconds"] < 60.0
