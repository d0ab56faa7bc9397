"""A recorded run is run again on what was recorded: the same, whatever it came to, and nothing is called."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel
from replay_support import QUESTION, Records, World, asks, says

from taograph import Context, Limits, create_react_graph, tool, trace
from taograph.cancel import Cancellation
from taograph.models import ScriptedModel, call
from taograph.redaction import redact
from taograph.tools.calculator import calculator
from taograph.tools.policy import policy_of
from taograph.trace.reading import NotFoundError
from taograph.trace.redaction import Redactor
from taograph.trace.replaying import CannotReplayError, replay


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def records(tmp_path: Path, world: World) -> Records:
    return Records(tmp_path, world)


def test_a_run_comes_to_the_same(records: Records) -> None:
    graph = records.loop(asks(1), asks(2, call("broken", {"x": 3})), "It is 2.", system_prompt="Be brief.")
    assert graph.invoke(QUESTION)["answer"] == "It is 2."
    found = records.same()
    assert (found.answer, found.recorded, found.turns, found.covered) == ("It is 2.", 3, 3, 3)
    assert found.stop == {"reason": "final", "detail": "the model answered", "step": 3}
    assert [e.content["text"] for e in found.events if e.type == "observation"][-1].startswith("broken failed")


def test_it_is_there_where_runs_are_recorded(records: Records) -> None:
    records.loop(asks(1), "One.").invoke(QUESTION)
    with records.store() as store:
        assert trace.replay(store, "last").outcome == "same"


def test_a_run_of_the_async_way_is_replayed_too(records: Records) -> None:
    import asyncio

    asyncio.run(records.loop(asks(1, 2), "Done.").ainvoke(QUESTION))
    assert records.same().answer == "Done."


class Small(ScriptedModel):
    """A small model, which is shown the examples of the tools as turns."""

    worked_examples: bool = True


@pytest.mark.parametrize(
    ("protocol", "replies"),
    [
        ("native", (AIMessage("", tool_calls=[call("calculator", {"expression": "1+1"})]), "2")),
        ("text", ('Thought: I add.\nAction: calculator\nAction Input: {"expression": "1+1"}', "Final Answer: 2")),
    ],
)
def test_examples_of_the_tools_are_there_again(records: Records, protocol: Any, replies: Any) -> None:
    model = Small(replies=list(replies))
    records.of(create_react_graph(model, [calculator], protocol=protocol)).invoke(QUESTION)
    example = policy_of(calculator).examples[0]
    assert any(example.question in str(m.content) for m in model.requests[0].messages)
    assert records.same().answer == "2"


def test_calls_that_no_tool_takes_are_as_the_model_was_told(records: Records) -> None:
    replies = asks(call("look", {"x": "far"}), call("nothing", {})), "", asks(1), "Done."
    records.loop(*replies).invoke(QUESTION)
    assert records.same().used == 4


@pytest.mark.parametrize("streamed", [False, True])
def test_arguments_that_broke_off(records: Records, streamed: bool) -> None:
    """LangChain mends what it streams; the loop does not act on it, and the record says what the model wrote."""
    lost = {"name": "look", "args": '{"x": 1', "id": "c1", "error": None, "type": "invalid_tool_call"}
    graph = records.loop(AIMessage("I look.", invalid_tool_calls=[lost]), asks(1), "One.")
    if streamed:
        list(graph.stream(QUESTION, stream_mode="messages"))
    else:
        graph.invoke(QUESTION)
    found = records.same()
    assert [e.content["status"] for e in found.events if e.type == "observation"] == ["error", "success"]


def test_the_text_protocol(records: Records) -> None:
    replies = 'Thought: Look.\nAction: look\nAction Input: {"x": 1}', "Thought: I know.\nFinal Answer: One."
    records.loop(*replies, protocol="text").invoke(QUESTION)
    assert records.same().answer == "One."


def test_a_long_result_that_was_shown_in_part_and_read_on(records: Records, world: World) -> None:
    replies = asks(call("page", {"n": 1})), asks(call("read_result", {"handle": "call_1_0", "start": 225})), "Done."
    graph = records.loop(*replies, tools=[world.page])
    graph.invoke(QUESTION)
    found = records.same()
    shown = [str(e.content["text"]) for e in found.events if e.type == "observation"]
    assert "characters left out" in shown[0]
    assert "[Characters 225 to" in shown[1]


def test_the_same_long_result_again_and_again_stops_the_run_as_it_did(records: Records, world: World) -> None:
    graph = records.loop(*[asks(call("page", {"n": 1}))] * 5, "Enough.", tools=[world.page])
    assert graph.invoke(QUESTION)["stop"]["reason"] == "repeated_action"
    found = records.same()
    assert found.stop is not None
    assert found.stop["reason"] == "repeated_action"


def test_a_window_that_requests_are_kept_within(records: Records, world: World) -> None:
    replies = [asks(call("chapter", {"n": n})) for n in range(10)]
    records.loop(*replies, "Done.", tools=[world.chapter]).invoke(QUESTION, context=Context(window=6000))
    found = records.same()
    assert any(e.type == "condensation" for e in found.events)


def test_an_answer_in_a_form(records: Records) -> None:
    class Place(BaseModel):
        """Where it is."""

        page: int
        line: int = 1

    wrong, right = (asks(call("Place", {"page": page}), text="") for page in ("far", 3))
    result = records.loop("On page 3.", wrong, right, response_format=Place).invoke(QUESTION)
    assert result["structured"] == {"page": 3, "line": 1}
    found = records.same()
    assert found.used == 3
    (answer,) = (e for e in found.events if e.type == "answer")
    assert answer.content["structured"] == {"page": 3, "line": 1}


def test_a_model_that_verifies(records: Records) -> None:
    graph = records.loop("Two.", asks(1), "One.", verify=says('{"holds": false, "objection": "Look first."}'))
    graph.invoke(QUESTION)
    assert records.replay().used == records.replay().recorded
    assert records.same()


# What failed


class Busy(Exception):  # noqa: N818 - as providers name them
    """Too many requests."""

    status_code = 429


class NoTools(Exception):  # noqa: N818
    """An endpoint without function calling."""

    status_code = 400


def test_a_model_that_failed_and_was_asked_again_without_waiting(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taograph.graphs.loop.session._FIRST_PAUSE", 0.01)
    records.loop(Busy("slow down"), asks(1), Busy("again"), "One.").invoke(QUESTION)
    monkeypatch.setattr("taograph.graphs.loop.session._FIRST_PAUSE", 1e6)
    assert records.same().used == 4


def test_an_endpoint_that_refuses_tools(records: Records) -> None:
    replies = 'Thought: Look.\nAction: look\nAction Input: {"x": 1}', "Final Answer: One."
    records.loop(NoTools("this model does not support tools"), *replies).invoke(QUESTION)
    found = records.same()
    assert any(e.type == "retry" and e.content["reason"] == "protocol" for e in found.events)


def test_a_model_that_is_down(records: Records) -> None:
    records.loop(asks(1), NoTools("bad request")).invoke(QUESTION)
    found = records.same()
    assert found.stop is not None
    assert found.stop["reason"] == "model_error"
    assert "saw 1" in found.answer


# Time


def test_time_that_was_over_is_over_at_the_same_place(records: Records, world: World) -> None:
    @tool(effects="none", timeout=None)
    def wait(x: int) -> str:
        """Wait.

        Args:
            x: For what.
        """
        threading.Event().wait(0.25)
        return "waited"

    graph = records.loop(asks(call("wait", {"x": 1})), "Late.", tools=[wait], limits=Limits(seconds=0.2))
    assert graph.invoke(QUESTION)["stop"]["reason"] == "deadline"
    found = records.same()
    assert found.stop is not None
    assert found.stop["reason"] == "deadline"
    assert found.answer == "Late."


def test_a_model_that_had_not_replied_in_time(records: Records) -> None:
    late, waits = threading.Event(), threading.Event()

    def slow(messages: Any) -> str:
        late.wait(20)
        waits.set()
        return "Too late."

    graph = records.loop(asks(1), slow, "So far: one.", limits=Limits(seconds=0.3))
    result = graph.invoke(QUESTION)
    late.set()
    assert waits.wait(20)
    assert result["stop"]["reason"] == "deadline"
    found = records.same()
    assert (found.stop or {})["reason"] == "deadline"
    assert found.answer == result["answer"]


def test_a_run_that_was_cancelled(records: Records) -> None:
    with Cancellation() as cancel:

        @tool(effects="none")
        def stop(x: int) -> str:
            """Stop it.

            Args:
                x: Why.
            """
            cancel.request("enough of it")
            threading.Event().wait(0.05)
            return "stopped"

        result = records.loop(asks(call("stop", {"x": 1})), "Never.", tools=[stop]).invoke(QUESTION)
    assert result["stop"]["reason"] == "cancelled"
    found = records.same()
    assert found.stop == {"reason": "cancelled", "detail": "enough of it", "step": 1}


# What was taken out, and what is not there


@pytest.mark.parametrize("mode", ["replace", "mask", "hash", "drop"])
def test_a_redacted_record_is_compared_in_its_redacted_form(records: Records, world: World, mode: Any) -> None:
    @tool(effects="none")
    def person(email: str) -> str:
        """Look a person up.

        Args:
            email: Of the person.
        """
        world.calls.append(email)
        return f"{email} has the account DE89 3704 0044 0532 0130 00."

    redactor = Redactor(mode=mode, **({"key": b"k" * 32} if mode == "hash" else {}))
    model = says(asks(call("person", {"email": "ada@example.org"})), "ada@example.org: DE89370400440532013000")
    records.of(create_react_graph(model, [person]), redactor=redactor).invoke(
        {"messages": [("user", "Who is ada@example.org? My key is sk-1234567890abcdefgh12.")]}
    )
    found = records.same()
    assert "ada@example.org" not in str(found.to_dict())
    assert "DE89" not in str(found.to_dict())


def test_what_counts_as_a_secret_here_and_did_not_there_is_no_difference(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.loop(asks(1, text="The lighthouse keeper knows."), "Ask the lighthouse keeper.").invoke(QUESTION)
    monkeypatch.setenv("HOUSE_PASSWORD", "lighthouse keeper")
    assert "lighthouse" not in redact("Ask the lighthouse keeper.")
    records.same()


def test_what_can_not_be_replayed_says_why(records: Records) -> None:
    graph = create_react_graph(says("One."), [])
    records.of(graph, content=False).invoke(QUESTION)
    with records.store() as store:
        (kept,) = store.traces()
        with pytest.raises(CannotReplayError, match=r"was not recorded \(content=False\)"):
            replay(store, kept.run)
        store.erase([kept.trace], "erased", "2026-12-01T00:00:00+00:00", trace.Sealer())
        with pytest.raises(CannotReplayError, match="was erased"):
            replay(store, kept.trace)
        with pytest.raises(NotFoundError, match="no run is called"):
            replay(store, "0000")


def test_options_that_are_functions_need_the_graph_itself(records: Records) -> None:
    def holds(answer: str, trajectory: Any) -> bool | str:
        return answer != "Two." or "Look first."

    def make(model: Any = None) -> Any:
        return create_react_graph(model or says("x"), [records.world.look], verify=holds)

    records.of(make(says("Two.", asks(1), "One."))).invoke(QUESTION)
    with pytest.raises(CannotReplayError, match="verify of 'react' cannot be recorded"):
        records.replay()
    assert records.same(graph=make()).answer == "One."
    assert records.same(graph=make).used == 3
    with pytest.raises(CannotReplayError, match="give a graph, or a function that makes it"):
        records.replay(graph="my_agent")


def test_a_check_that_connects_is_refused(records: Records) -> None:
    import socket

    def holds(answer: str, trajectory: Any) -> bool:
        with socket.socket() as made:
            made.connect(("127.0.0.1", 9))
        return True

    records.of(create_react_graph(says("One."), [], verify=lambda answer, trajectory: True)).invoke(QUESTION)
    graph = create_react_graph(says("x"), [], verify=holds)
    with records.store() as store:
        found = replay(store, "last", graph=graph)
    assert not found.same
    assert "socket.connect was refused" in found.notes


def test_models_and_tools_beside_a_replay_are_left_alone(records: Records, world: World) -> None:
    records.loop(asks(1), "One.").invoke(QUESTION)
    beside: list[Any] = []

    def holds(answer: str, trajectory: Any) -> bool:
        def other() -> None:
            beside.append(create_react_graph(says(asks(7), "Beside."), [world.look]).invoke(QUESTION)["answer"])

        thread = threading.Thread(target=other)  # has nothing of the context of the replay
        thread.start()
        thread.join()
        return True

    with records.store() as store:
        tools = [world.look, world.broken]
        found = replay(store, "last", graph=create_react_graph(says("x"), tools, verify=holds))
    assert found.same
    assert beside == ["Beside."]
    assert world.calls == ["look 1", "look 7"]
    assert ScriptedModel(replies=["as ever"]).invoke("?").text == "as ever"


def test_a_recorded_graph_in_the_replayed_one_is_not_recorded_again(records: Records) -> None:
    def make() -> Any:
        inner = records.loop(asks(1), "One.")
        return StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner").compile()

    records.of(make()).invoke(QUESTION)
    with records.store() as store:
        before = store.traces()
    records.same(graph=make())
    with records.store() as store:
        assert store.traces() == before
