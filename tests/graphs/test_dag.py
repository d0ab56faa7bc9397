"""LLMCompiler's graph: calls begin while the plan is being written, each as soon as its inputs are there."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_openai_server import Reply
from http_support import Made, assert_concluded, both_pairs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from stream_support import Streams, of
from support import Way, assert_acceptable, assert_ended, both_ways, pending, question, run, thread
from typing_extensions import TypedDict

from taograph import Limits, checkpoints, tool
from taograph.cancel import Cancellation
from taograph.graphs import STRATEGIES
from taograph.graphs.dag import create_dag_graph
from taograph.models import ScriptedModel, call

LONG = 30  # seconds after which a test that waits for an event has failed


class Writing(ScriptedModel):
    """Writes its first reply piece by piece; between two pieces it waits for what it is told to.

    Attributes:
        pieces: Texts, and functions that are called (in a thread) where they stand.
    """

    pieces: Sequence[Any] = ()

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        if self._next:
            yield from super()._stream(messages, *args, **kwargs)
            return
        self._reply(messages, kwargs)
        for piece in self.pieces:
            if callable(piece):
                piece()
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        if self._next:
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
            return
        self._reply(messages, kwargs)
        for piece in self.pieces:
            if callable(piece):
                await asyncio.to_thread(piece)
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))


@tool(effects="none")
def search(query: str) -> str:
    """Search for something.

    Args:
        query: What to search for.
    """
    return f"found <{query}>"


@tool(effects="none")
def multiply(first: int, second: int = 2) -> str:
    """Multiply two numbers.

    Args:
        first: One.
        second: The other.
    """
    return str(first * second)


@tool(effects="none")
def fail(query: str) -> str:
    """Fail.

    Args:
        query: Anything.
    """
    raise RuntimeError(f"a secret about {query}")


def with_name(name: str) -> Any:
    return search.model_copy(update={"name": name})


def plan(*calls: str, first: int = 1) -> str:
    lines = [f"{number}. {one}" for number, one in enumerate(calls, first)]
    return "\n".join([*lines, f"{first + len(calls)}. join()<END_OF_PLAN>"])


def finish(answer: str) -> str:
    return f"Thought: that is all.\nAction: Finish({answer})"


def made(*calls: str, **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=[plan(*calls), finish("Fine.")], usage=(100, 10))
    return model, create_dag_graph(model, [search, multiply, fail], **options)


def observed(result: dict[str, Any]) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


def args(result: dict[str, Any]) -> dict[str, Any]:
    return {c["id"]: c["args"] for m in result["messages"] if isinstance(m, AIMessage) for c in m.tool_calls}


def last_request(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1].content)


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
def test_the_word_of_a_person_is_asked_for_when_the_plan_is_complete(way: Way, tmp_path: Path) -> None:
    begun: list[str] = []

    @tool(effects="none")
    def look(what: str) -> str:
        """Look.

        Args:
            what: At what.
        """
        begun.append(what)
        return f"saw {what}"

    calls = ['look("a")', 'send("$1")', 'look("b")', 'look("$2")']
    sent: list[str] = []

    @tool(effects="once")
    def send(text: str) -> str:
        """Send.

        Args:
            text: What.
        """
        sent.append(text)
        return f"sent {text}"

    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan(*calls), finish("Fine.")])
        options: dict[str, Any] = {"approve": ["send"], "checkpointer": saver}
        (asked,) = pending(run(way, create_dag_graph(model, [look, send], **options), question(), thread()))
        assert asked.value["args"] == {"text": "saw a"}
        assert sorted(begun) == ["a", "b"]
        assert sent == []
        edit = {asked.id: {"decision": "edit", "args": {"text": "less"}}}
        result = run(way, create_dag_graph(model, [look, send], **options), Command(resume=edit), thread())
        assert_ended(result, "final", model)
        assert len(model.requests) == 2
        assert sent == ["less"]
        assert sorted(begun) == ["a", "b", "sent less"]


@both_ways
@pytest.mark.parametrize("kind", ["predicate", "tool"])
def test_a_call_that_turns_out_to_wait_for_a_person(way: Way, kind: str, tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effects="none")
    def choose(what: str) -> str:
        """Let a person choose.

        Args:
            what: Of what.
        """
        said = interrupt(f"which {what}?") if kind == "tool" else "red"
        ran.append(what)
        return f"{said} {what}"

    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan('choose("hat")', 'search("$1")', 'search("b")'), finish("Fine.")])
        approve: Any = (lambda name, args, trajectory: name == "choose") if kind == "predicate" else ()
        graph = create_dag_graph(model, [choose, search], approve=approve, checkpointer=saver)
        (asked,) = pending(run(way, graph, question(), thread()))
        assert ran == []
        answer = "approve" if kind == "predicate" else "red"
        result = run(way, graph, Command(resume={asked.id: answer}), thread())
        assert_ended(result, "final", model)
        assert ran == ["hat"]
        assert observed(result) == {"t1": "red hat", "t2": "found <red hat>", "t3": "found <b>"}
        assert len(model.requests) == 2


class Crash(BaseException):
    """Passes everything, as the end of a process does."""


@both_ways
@pytest.mark.parametrize("effects", ["none", "idempotent", "once"])
def test_after_a_crash_nothing_is_paid_or_run_twice(way: Way, effects: Any, tmp_path: Path) -> None:
    runs: list[str] = []
    crashes = [True]
    both = threading.Event()

    @tool(effects=effects)
    def note(text: str) -> str:
        """Note something.

        Args:
            text: What.
        """
        runs.append(text)
        if text == "b":
            both.set()
        return f"noted {text}"

    @tool(effects="none")
    def break_down(text: str) -> str:
        """Break down once.

        Args:
            text: Anything.
        """
        assert both.wait(LONG)
        if crashes:
            crashes.clear()
            raise Crash
        return "whole"

    with checkpoints.open(f"sqlite:///{tmp_path / 'c.db'}") as saver:
        model = ScriptedModel(
            replies=[plan('note("a")', 'note("b $1"[2:0] or "b")', 'break_down("$1")'), finish("Fine.")]
        )
        model.replies = [plan('note("a")', 'note("b")', 'break_down("$1 $2")'), finish("Fine.")]
        graph = create_dag_graph(model, [note, break_down], checkpointer=saver)
        with pytest.raises(Crash):
            run(way, graph, question(), thread())
        result = run(way, graph, None, thread())
        assert_ended(result, "final")
        assert len(model.requests) == 2, "the plan was paid twice"
        assert sorted(runs) == ["a", "b"]
        assert observed(result)["t3"] == "whole"


@both_ways
@pytest.mark.parametrize("effects", ["none", "idempotent"])
def test_what_was_done_before_the_plan_was_complete_survives_a_crash(way: Way, effects: Any, tmp_path: Path) -> None:
    runs: list[str] = []
    crashes = [True]
    second = threading.Event()

    @tool(effects=effects)
    def note(text: str) -> str:
        """Note something.

        Args:
            text: What.
        """
        runs.append(text)
        if text != "a":
            second.set()
        return "n"

    @tool(effects="none")
    def break_down(text: str) -> str:
        """Break down once.

        Args:
            text: Anything.
        """
        if crashes:
            crashes.clear()
            raise Crash
        return "whole"

    pieces = ['1. note("a")\n2. note("b$1")\n', lambda: second.wait(LONG), '3. break_down("$2")\n4. join()']
    with checkpoints.open(f"sqlite:///{tmp_path / 'c.db'}") as saver:
        model = Writing(replies=["", finish("Fine.")], pieces=pieces)
        graph = create_dag_graph(model, [note, break_down], checkpointer=saver)
        with pytest.raises(Crash):
            run(way, graph, question(), thread())
        result = run(way, graph, None, thread())
        assert_ended(result, "final")
        assert len(model.requests) == 2
        assert runs == ["a", "bn"]
        assert observed(result) == {"t1": "n", "t2": "n", "t3": "whole"}


def test_what_must_not_be_repeated_waits_for_the_whole_plan_where_it_is_stored(steps: Streams) -> None:
    looked = threading.Event()

    @tool(effects="once")
    def send(text: str) -> str:
        """Send.

        Args:
            text: What.
        """
        return "sent"

    @tool(effects="none")
    def look(text: str) -> str:
        """Look.

        Args:
            text: At what.
        """
        if text == "seen":
            looked.set()
        return "seen"

    def order(**options: Any) -> list[str]:
        looked.clear()
        pieces = ['1. send("a")\n2. look("b")\n3. look("$2")\n', lambda: looked.wait(LONG), "4. join()"]
        model = Writing(replies=["", finish("Fine.")], pieces=pieces)
        events = steps(create_dag_graph(model, [send, look], **options), question(), thread())
        assert events[-1]["text"] == "Fine."
        told = [e.get("id", "the plan") for e in events if e["type"] in ("action", "budget")]
        return told[: told.index("t1") + 1]

    with checkpoints.open("sqlite://") as saver:
        assert order(checkpointer=saver) == ["t2", "t3", "the plan", "t1"]
    assert "the plan" not in order(), "nothing can be held to where nothing is stored"


@both_ways
def test_a_planner_that_begins_anew_after_a_failure(way: Way) -> None:
    noted: list[str] = []
    begun = threading.Event()

    @tool(effects="none")
    def note(text: str) -> str:
        """Note.

        Args:
            text: What.
        """
        noted.append(text)
        begun.set()
        return f"noted {text}"

    def breaks() -> None:
        assert begun.wait(LONG)
        raise httpx.ReadError("the connection broke")

    model = Writing(
        replies=["", plan('note("a")', 'note("c")'), finish("Fine.")], pieces=['1. note("a")\n2. note("b")\n3.', breaks]
    )
    result = run(way, create_dag_graph(model, [note], limits=Limits(model_retries=1)), question())
    assert_ended(result, "final", model)
    assert noted.count("a") == 1, "what says the same is not called again"
    assert sorted(noted) == ["a", "b", "c"]
    got = observed(result)
    assert got["t2_2"] == "noted c"
    assert got["t2"] == "noted b", "what was done is told"


@both_ways
def test_cancelled_while_it_plans_and_calls(way: Way) -> None:
    begun, ended = threading.Event(), threading.Event()
    hung: list[str] = []

    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        hung.append(name)
        begun.set()
        try:
            await asyncio.sleep(300)
        finally:
            ended.set()
        return name

    with Cancellation() as cancel:

        def stop() -> None:
            assert begun.wait(LONG)
            cancel.request("enough")

        pieces = ['1. search("x")\n2. hang("$1")\n3. hang("$2")\n', stop, "4. join()"]
        result = run(way, create_dag_graph(Writing(replies=["", "x"], pieces=pieces), [hang, search]), question())
    assert_ended(result, "cancelled")
    assert ended.wait(LONG), "it was left running"
    assert hung == ["found <x>"]
    assert observed(result)["t1"] == "found <x>"
    assert "cancelled" in observed(result)["t2"]


@both_ways
def test_the_time_is_over_in_the_middle(way: Way) -> None:
    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        await asyncio.sleep(300)
        return name

    model = ScriptedModel(replies=[plan('hang("a")', 'search("b")', 'search("$1")'), "What I have."])
    result = run(way, create_dag_graph(model, [hang, search], limits=Limits(seconds=0.3)), question())
    assert_ended(result, "deadline", model)
    assert "the run's time was over" in observed(result)["t1"]
    assert observed(result)["t2"] == "found <b>"
    assert result["answer"] == "What I have."


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


def test_an_error_of_our_own_ends_the_run_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    @tool(effects="none", timeout=None)
    async def hang(name: str) -> str:
        """Hang.

        Args:
            name: Anything.
        """
        begun.set()
        try:
            await asyncio.sleep(300)
        finally:
            released.set()
        return name

    @tool(effects="none")
    def last(name: str) -> str:
        """Come after it.

        Args:
            name: Anything.
        """
        assert begun.wait(LONG)
        return name

    def broken(*_: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr("taograph.tools.running.succeeded", broken)
    model = ScriptedModel(replies=[plan('hang("a")', 'last("b")'), "x"])
    with pytest.raises(KeyError):
        create_dag_graph(model, [hang, last]).invoke(question())
    assert released.wait(LONG), "it was left running"


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


class Outer(TypedDict):
    answer: str
    rejected: bool


@both_ways
def test_as_a_node_of_another_graph_with_an_approval_in_it(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'a.db'}") as saver:
        model = ScriptedModel(replies=[plan('search("a")', "multiply(3)", 'search("$2")'), finish("Fine.")])
        inner = create_dag_graph(model, [search, multiply], approve=["multiply"])

        async def ainside(state: Outer) -> dict[str, Any]:
            return {"answer": (await inner.ainvoke(question()))["answer"]}

        def inside(state: Outer) -> dict[str, Any]:
            return {"answer": inner.invoke(question())["answer"]}

        builder = StateGraph(Outer).add_node("inside", RunnableLambda(inside, ainside))
        graph = builder.add_edge(START, "inside").add_edge("inside", END).compile(checkpointer=saver)
        (asked,) = pending(run(way, graph, {"answer": ""}, thread()))
        assert asked.value["tool"] == "multiply"
        result = run(way, graph, Command(resume={asked.id: "approve"}), thread())
        assert result["answer"] == "Fine."
        assert len(model.requests) == 2
