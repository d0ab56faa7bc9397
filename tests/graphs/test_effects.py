"""Calls that were cut off: what finished is not run again, what may have taken effect is not repeated.

The process is cut off with an exception that passes everything; ``tests/crash`` kills real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError
from support import Way, asks, assert_acceptable, assert_ended, both_ways, pending, question, run, thread
from typing_extensions import TypedDict

from taograph import checkpoints, create_react_graph, tool
from taograph.cancel import Cancellation
from taograph.checkpoints.ledger import TABLE, hash_of
from taograph.graphs.loop.channels import Messages
from taograph.models import ScriptedModel, call
from taograph.tools import idempotency_key


class Crash(BaseException):
    """Passes everything, as the end of a process does."""


class Till:
    """A tool that is cut off as often as it is told to.

    Attributes:
        crashes: How often, from now on.
        runs: With which argument it was run, and under which key.
    """

    def __init__(self, crashes: int = 0, *, asks_first: bool = False, **policy: Any) -> None:
        self.crashes = crashes
        self.runs: list[tuple[str, str | None]] = []

        @tool(name="pay", **{"effects": "once", **policy})
        def pay(to: str) -> str:
            """Pay.

            Args:
                to: Whom.
            """
            amount = interrupt("how much?") if asks_first else "5"
            self.runs.append((to, idempotency_key()))
            if self.crashes:
                self.crashes -= 1
                raise Crash
            return f"paid {amount} to {to}"

        self.tool = pay


@pytest.fixture
def saver() -> Iterator[checkpoints.Checkpoints]:
    with checkpoints.open("sqlite://") as opened:
        yield opened


def pays(till: Till, saver: Any, *to: str, **options: Any) -> tuple[ScriptedModel, Any]:
    calls = [call("pay", {"to": name}, id=f"to-{name}") for name in to or ("Ann",)]
    model = ScriptedModel(replies=[asks(*calls), "Done.", "And done."])
    return model, create_react_graph(model, [till.tool], checkpointer=saver, **options)


def crashes(way: Way, graph: Any, given: Any) -> None:
    with pytest.raises(Crash):
        run(way, graph, given, thread())


def told(result: dict[str, Any]) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


@both_ways
def test_the_question_about_a_call_that_was_cut_off(way: Way, saver: Any) -> None:
    till = Till(1)
    model, graph = pays(till, saver)
    crashes(way, graph, question())
    (asked,) = pending(run(way, graph, None, thread()))
    assert asked.value["type"] == "unfinished_call"
    assert asked.value["call"] == "to-Ann"
    assert asked.value["tool"] == "pay"
    assert asked.value["args"] == {"to": "Ann"}
    assert asked.value["hash"] == hash_of("pay", {"to": "Ann"})
    assert asked.value["try"] == 1
    assert asked.value["answers"] == ["repeat", "done", "unknown"]
    for unusable in ("perhaps", True, {"decision": "approve"}, {"result": "x"}):
        with pytest.raises(ValidationError):
            run(way, graph, Command(resume=unusable), thread())
        assert [one.id for one in pending(run(way, graph, None, thread()))] == [asked.id]
    assert len(till.runs) == 1
    result = run(way, graph, Command(resume=" Repeat "), thread())
    assert_ended(result, "final", model)
    assert told(result) == {"to-Ann": "paid 5 to Ann"}
    assert len(till.runs) == 2
    assert till.runs[0] == till.runs[1], "the key changed"
    assert till.runs[0][1]


@both_ways
@pytest.mark.parametrize(
    ("answer", "text", "status"),
    [
        ("unknown", "Whether it took effect is unknown", "error"),
        ("done", "It took effect; what it returned was lost", "success"),
        ({"decision": "done", "result": "receipt 7"}, "receipt 7", "success"),
    ],
)
def test_what_a_person_says_of_it(way: Way, saver: Any, answer: Any, text: str, status: str) -> None:
    till = Till(1)
    model, graph = pays(till, saver)
    crashes(way, graph, question())
    run(way, graph, None, thread())
    result = run(way, graph, Command(resume=answer), thread())
    assert_ended(result, "final", model)
    (message,) = (m for m in result["messages"] if isinstance(m, ToolMessage))
    assert text in message.text
    assert message.status == status
    assert len(till.runs) == 1
    assert result["spent"]["tool_calls"] == 0


@both_ways
@pytest.mark.parametrize(("effects", "again"), [("idempotent", True), ("none", True), ("once", False)])
def test_what_may_be_repeated(way: Way, saver: Any, effects: Any, again: bool) -> None:
    till = Till(1, effects=effects)
    model, graph = pays(till, saver)
    crashes(way, graph, question())
    result = run(way, graph, None, thread())
    assert bool(pending(result)) is not again
    if again:
        assert_ended(result, "final", model)
        assert till.runs[0] == till.runs[1]
    assert len(till.runs) == 1 + again


def test_a_tool_whose_policy_is_to_tell(saver: Any) -> None:
    till = Till(1, on_unknown="tell")
    model, graph = pays(till, saver)
    crashes("invoke", graph, question())
    result = graph.invoke(None, thread())
    assert_ended(result, "final", model)
    assert "Whether it took effect is unknown" in told(result)["to-Ann"]
    assert len(till.runs) == 1


@both_ways
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
def test_each_try_needs_a_word_of_its_own(way: Way, saver: Any, by_id: bool) -> None:
    till = Till(3)
    model, graph = pays(till, saver)
    crashes(way, graph, question())
    seen: list[str] = []
    for number in (1, 2, 3):
        (asked,) = pending(run(way, graph, None, thread()))
        assert pending(run(way, graph, None, thread())) == [asked]
        for old in seen:
            assert pending(run(way, graph, Command(resume={old: "repeat"}), thread())) == [asked]
        assert asked.value["try"] == number
        assert asked.id not in seen
        assert len(till.runs) == number
        seen.append(asked.id)
        word: Any = {asked.id: "repeat"} if by_id else "repeat"
        if number < 3:
            crashes(way, graph, Command(resume=word))
        else:
            assert_ended(run(way, graph, Command(resume=word), thread()), "final", model)
    assert len(till.runs) == 4


@both_ways
@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
@pytest.mark.parametrize("approve", [True, False], ids=["approved", "free"])
def test_a_tool_that_asks_something_itself(way: Way, saver: Any, by_id: bool, approve: bool) -> None:
    """Its own question, ours after the crash, and its own again: no answer is taken for another's."""
    till = Till(2, asks_first=True, approve=approve)
    model, graph = pays(till, saver)

    def resume(result: dict[str, Any], answer: Any) -> Any:
        (asked,) = pending(result)
        return Command(resume={asked.id: answer} if by_id else answer)

    result = run(way, graph, question(), thread())
    if approve:
        result = run(way, graph, resume(result, "approve"), thread())
    assert [one.value for one in pending(result)] == ["how much?"]
    crashes(way, graph, resume(result, "done"))  # a word that would be an answer to our question
    unfinished: set[str] = set()
    for number in (1, 2):
        result = run(way, graph, None, thread())
        assert [one.value["type"] for one in pending(result)] == ["unfinished_call"]
        assert pending(run(way, graph, None, thread())) == pending(result)
        unfinished.add(pending(result)[0].id)
        result = run(way, graph, resume(result, "repeat"), thread())
        assert [one.value for one in pending(result)] == ["how much?"]
        result = run(way, graph, None, thread())
        assert [one.value for one in pending(result)] == ["how much?"], "another answer was used"
        if number == 1:
            crashes(way, graph, resume(result, "7"))
        else:
            result = run(way, graph, resume(result, "9"), thread())
    assert len(unfinished) == 2
    assert_ended(result, "final", model)
    assert told(result) == {"to-Ann": "paid 9 to Ann"}
    assert len(till.runs) == 3


@both_ways
def test_an_approved_call_is_not_asked_about_again(way: Way, saver: Any) -> None:
    till = Till(1)
    model, graph = pays(till, saver, approve="pay")
    (asked,) = pending(run(way, graph, question(), thread()))
    edit = {"decision": "edit", "args": {"to": "Bob"}}
    crashes(way, graph, Command(resume={asked.id: edit}))
    (unfinished,) = pending(run(way, graph, None, thread()))
    assert unfinished.value["type"] == "unfinished_call"
    assert unfinished.value["args"] == {"to": "Bob"}
    result = run(way, graph, Command(resume="repeat"), thread())
    assert_ended(result, "final", model)
    assert [to for to, _ in till.runs] == ["Bob", "Bob"]
    assert "A person changed the arguments" in told(result)["to-Ann"]
    assert "paid 5 to Bob" in told(result)["to-Ann"]


@both_ways
def test_the_siblings_of_a_call_that_was_cut_off(way: Way, saver: Any) -> None:
    till = Till(0)
    inner = till.tool

    @tool(name="crash", effects="idempotent")
    def crash() -> str:
        """Crash, when the others are done."""
        if len(till.runs) == 2 and not crashed:
            crashed.append(True)
            raise Crash
        return "fine"

    crashed: list[bool] = []
    calls = [call("pay", {"to": "A"}, id="a"), call("pay", {"to": "B"}, id="b"), call("crash", id="c")]
    model = ScriptedModel(replies=[asks(*calls), "Done."])
    graph = create_react_graph(model, [inner, crash], checkpointer=saver)
    try:
        result = run(way, graph, question(), thread(), durability="sync")
    except Crash:
        result = run(way, graph, None, thread())
    assert_ended(result, "final", model)
    assert sorted(to for to, _ in till.runs) == ["A", "B"]
    assert told(result) == {"a": "paid 5 to A", "b": "paid 5 to B", "c": "fine"}


class Outer(TypedDict):
    messages: Messages
    answer: str


@both_ways
def test_in_a_graph_within_a_graph(way: Way, saver: Any) -> None:
    till = Till(2)
    model, inner = pays(till, None)
    outer = (
        StateGraph(Outer)
        .add_node("agent", inner)
        .add_edge(START, "agent")
        .add_edge("agent", END)
        .compile(checkpointer=saver)
    )
    with pytest.raises(Crash):
        run(way, outer, question(), thread(), durability="sync")
    for number in (1, 2):
        (asked,) = pending(run(way, outer, None, thread(), durability="sync"))
        assert asked.value["try"] == number
        assert pending(run(way, outer, None, thread(), durability="sync")) == [asked]
        if number == 1:
            with pytest.raises(Crash):
                run(way, outer, Command(resume="repeat"), thread(), durability="sync")
    result = run(way, outer, Command(resume="repeat"), thread(), durability="sync")
    assert pending(result) == []
    assert result["answer"] == "Done."
    assert_acceptable(result["messages"])
    assert len(model.requests) == 2
    assert len({key for _, key in till.runs}) == 1


@both_ways
def test_a_reply_that_was_paid_for_is_not_paid_again(way: Way, saver: Any) -> None:
    """Cut off after the reply came, while it was looked at."""
    left = [True, True]

    def verify(answer: str, trajectory: Any) -> None:
        if left:
            left.pop()
            raise Crash

    model = ScriptedModel(replies=["The answer."])
    graph = create_react_graph(model, verify=verify, checkpointer=saver)
    crashes(way, graph, question())
    crashes(way, graph, None)
    result = run(way, graph, None, thread())
    assert_ended(result, "final", model)
    assert result["answer"] == "The answer."
    assert len(model.requests) == 1
    assert result["spent"]["model_calls"] == 1


@both_ways
def test_a_fork_asks_the_model_anew(way: Way, saver: Any) -> None:
    """The reply that was paid for is the run's that was cut off, not that of whoever goes back to try again."""
    model = ScriptedModel(replies=["One.", "Two.", "Three."])
    graph = create_react_graph(model, checkpointer=saver)
    assert run(way, graph, question(), thread())["answer"] == "One."
    before = next(state for state in graph.get_state_history(thread()) if state.next == ("reason",))
    assert run(way, graph, None, before.config)["answer"] == "Two."
    assert run(way, graph, None, before.config)["answer"] == "Three."


@both_ways
@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"effects": "once"}, "Whether it took effect is unknown"),
        ({"effects": "idempotent"}, "Whether it took effect is unknown"),
        ({"effects": "none"}, "pay gave no result before the user went on with something else. It only reads."),
    ],
)
def test_the_user_goes_past_a_call_that_was_cut_off(way: Way, saver: Any, policy: Any, says: str) -> None:
    till = Till(1, **policy)
    model, graph = pays(till, saver)
    crashes(way, graph, question())
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert says in told(result)["to-Ann"]
    assert says in "".join(m.text for m in model.requests[-1].messages)
    assert len(till.runs) == 1
    assert pending(run(way, graph, Command(resume="repeat"), thread())) == []
    assert len(till.runs) == 1


@both_ways
def test_the_user_goes_past_what_finished(way: Way, saver: Any) -> None:
    """Its result was not stored with the run yet, and is not lost."""
    till = Till(0)
    paid = till.tool

    @tool(name="crash", effects="once")
    def crash() -> str:
        """Crash."""
        raise Crash

    model = ScriptedModel(
        replies=[
            asks(call("pay", {"to": "A"}, id="a")),
            asks(call("pay", {"to": "B"}, id="b"), call("crash", id="c")),
            "Done.",
        ]
    )
    graph = create_react_graph(model, [paid, crash], checkpointer=saver)
    crashes(way, graph, question())
    ran = {to for to, _ in till.runs}
    result = run(way, graph, question("And now?"), thread())
    assert_ended(result, "final")
    assert told(result)["a"] == "paid 5 to A"
    assert told(result)["b"] == ("paid 5 to B" if "B" in ran else told(result)["b"])
    assert "unknown" in told(result)["c"]


def test_the_user_goes_past_a_tools_own_question(saver: Any) -> None:
    till = Till(0, asks_first=True)
    model, graph = pays(till, saver)
    assert pending(graph.invoke(question(), thread()))
    result = graph.invoke(question("And now?"), thread())
    assert_ended(result, "final")
    assert "waited for an answer of a person, who went on with something else" in told(result)["to-Ann"]
    assert till.runs == []
    assert len(model.requests) == 2


@both_ways
def test_the_same_id_in_another_run_is_another_call(way: Way, saver: Any) -> None:
    """Some servers count the calls of a conversation, and begin anew when it is cut."""
    till = Till(0)
    same = asks(call("pay", {"to": "Ann"}, id="call_0"))
    model = ScriptedModel(replies=[same, "Done.", same, "Done again."])
    graph = create_react_graph(model, [till.tool], checkpointer=saver)
    first = run(way, graph, question(), thread())
    graph.update_state(thread(), {"messages": [RemoveMessage(m.id) for m in first["messages"]]})
    result = run(way, graph, question("Once more."), thread())
    assert_ended(result, "final")
    assert len(till.runs) == 2
    assert till.runs[0] != till.runs[1]


@both_ways
def test_what_a_tool_returned_beside_its_text_survives(way: Way, saver: Any) -> None:
    """A command, an artifact that can be stored and one that cannot: the result is taken from the ledger whole."""

    @tool(effects="once")
    def note(text: str) -> Command[Any]:
        """Note something.

        Args:
            text: What.
        """
        ran.append(text)
        message = ToolMessage("noted", tool_call_id="n", artifact={"page": 7, "open": object()} if text == "x" else 7)
        return Command(update={"messages": [message, HumanMessage("see the note")]})

    ran: list[str] = []
    put_writes = type(saver).put_writes
    for text, artifact in (("x", {"taograph_dropped": "an artifact of type dict that cannot be stored"}), ("y", 7)):
        left = [True]

        def lost(self: Any, config: Any, writes: Any, *more: Any, left: list[bool] = left) -> None:
            if left and any(channel == "messages" and "noted" in str(value) for channel, value in writes):
                left.pop()
                raise Crash
            put_writes(self, config, writes, *more)

        model = ScriptedModel(replies=[asks(call("note", {"text": text}, id="n")), "Done."])
        graph = create_react_graph(model, [note], checkpointer=saver)
        saver.put_writes = lost.__get__(saver)
        at = thread(f"{way}-{text}")
        with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever LangGraph makes of it
            run(way, graph, question(), at)
        del saver.put_writes
        result = run(way, graph, None, at)
        assert_ended(result, "final", model)
        (message,) = (m for m in result["messages"] if isinstance(m, ToolMessage))
        assert (message.text, message.artifact) == ("noted", artifact)
        assert [m.text for m in result["messages"] if m.type == "human"] == ["What is it?", "see the note"]
    assert ran == ["x", "y"]


def test_a_cancelled_run_asks_nobody(saver: Any) -> None:
    till = Till(1)
    model, graph = pays(till, saver)
    crashes("invoke", graph, question())
    with Cancellation() as cancel:
        cancel.request("Ctrl-C")
        result = graph.invoke(None, thread())
    assert result["stop"]["reason"] == "cancelled"
    assert "Whether it took effect is unknown" in told(result)["to-Ann"]
    assert len(till.runs) == 1
    assert len(model.requests) == 1


def test_stock_savers_have_langgraphs_own_promise() -> None:
    till = Till(1)
    model, graph = pays(till, InMemorySaver())
    crashes("invoke", graph, question())
    result = graph.invoke(None, thread())
    assert_ended(result, "final", model)
    assert len(till.runs) == 2
    assert till.runs[0] == till.runs[1], "the key is the same there, too"


def test_without_a_thread_there_is_no_key() -> None:
    till = Till(0)
    _, graph = pays(till, None)
    assert_ended(graph.invoke(question()), "final")
    assert till.runs == [("Ann", None)]


def test_the_ledger_does_not_grow_with_what_only_reads(saver: Any) -> None:
    till = Till(0, effects="none")
    replies: list[Any] = [asks(call("pay", {"to": f"n{i}"}, id=f"c{i}")) for i in range(8)]
    for number in range(5):
        model = ScriptedModel(replies=[AIMessage(r.content, tool_calls=r.tool_calls) for r in replies] + ["Done."])
        graph = create_react_graph(model, [till.tool], checkpointer=saver)
        graph.invoke(question(f"{number}?"), thread())
        with saver.transaction() as execute:
            ((count,),) = execute(f"SELECT count(*) FROM {TABLE}")
        assert count == 1, "the last reply"
