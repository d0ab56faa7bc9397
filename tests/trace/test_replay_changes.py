"""What would have happened, had something been otherwise: as far as the record goes, and where it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command
from replay_support import QUESTION, Records, World, asks, in_memory, on_thread, says

from taograph import create_react_graph
from taograph.models import call
from taograph.trace.replaying import Replay, replay
from taograph.trace.replays.changes import read_change


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def records(tmp_path: Path, world: World) -> Records:
    """With a run of four turns."""
    made = Records(tmp_path, world)
    graph = made.loop(asks(1), asks(2, 3), asks(4), "It is 4.", system_prompt="Be brief.")
    graph.invoke(QUESTION)
    return made


def end_of(found: Replay) -> tuple[int, int, str]:
    assert found.uncovered is not None
    return found.covered, found.uncovered.step, found.uncovered.why


def test_fewer_steps_end_the_run_and_its_closing_answer_is_not_recorded(records: Records) -> None:
    found = records.replay(changes=["limits.steps=2"])
    assert found.stop == {"reason": "step_limit", "detail": "2 of 2 steps used", "step": 2}
    assert (found.covered, found.turns, found.used, found.recorded) == (2, 4, 2, 4)
    assert found.answer == ""
    assert found.uncovered is not None
    assert found.uncovered.task == ("finish",)
    assert sum(e.type == "observation" for e in found.events) == 3


def test_without_a_closing_answer_the_whole_of_it_is_known(records: Records) -> None:
    found = records.replay(changes=["limits.steps=2", "limits.closing=false"])
    assert found.uncovered is None
    assert found.stop is not None
    assert found.stop["reason"] == "step_limit"
    assert "saw 3" in found.answer


def test_more_steps_than_it_needed_make_no_difference(records: Records) -> None:
    assert records.replay(changes=["limits.steps=40", "limits.tool_calls=none"]).same


def test_fewer_tool_calls(records: Records) -> None:
    found = records.replay(changes=["limits.tool_calls=2"])
    covered, step, _ = end_of(found)
    assert (covered, step) == (2, 3)
    refused = [str(e.content["text"]) for e in found.events if e.type == "observation"][-1]
    assert "only 2 tool calls are allowed" in refused


def test_another_prompt_is_another_request_from_the_first_on(records: Records) -> None:
    found = records.replay(changes=["system_prompt=Be thorough."])
    assert end_of(found) == (0, 1, "a message of the system is 'Be thorough.', and was 'Be brief.'")
    assert found.used == 0


def test_the_same_prompt_is_none(records: Records) -> None:
    assert records.replay(changes=["system_prompt=Be brief."]).same


@pytest.mark.parametrize("which", ["2.2", "call_2_1"])
def test_another_result_of_a_tool(records: Records, which: str) -> None:
    found = records.replay(changes=[f"observation:{which}=saw nothing"])
    assert end_of(found) == (2, 3, "what it repeats of earlier calls and results is not what was recorded")
    assert found.difference is not None
    assert (found.difference.type, found.difference.field) == ("observation", "text")
    assert (found.difference.recorded, found.difference.replayed) == ("saw 3", "saw nothing")
    assert not found.notes


def test_another_reply_that_ends_the_run(records: Records) -> None:
    found = records.replay(changes=["reply:2=It is 1."])
    assert found.uncovered is None
    assert (found.answer, found.covered) == ("It is 1.", 2)
    assert found.difference is not None
    assert found.difference.step == 2


def test_another_reply_that_calls_what_nobody_called(records: Records) -> None:
    found = records.replay(changes=['reply:2={"tool": "look", "args": {"x": 9}}'])
    assert end_of(found) == (1, 2, 'a call look({"x": 9}) is not recorded')


def test_another_reply_that_calls_what_was_called_before(records: Records) -> None:
    found = records.replay(changes=['reply:3={"tool": "look", "args": {"x": 4}}'])
    assert [e.content["text"] for e in found.events if e.type == "observation"][-1] == "saw 4"
    assert end_of(found)[:2] == (3, 4)


def test_an_option_of_the_model_leaves_nothing_to_say(records: Records) -> None:
    found = records.replay(changes=["model.temperature=0.2"])
    assert end_of(found) == (0, 1, "what the model would have replied with temperature=0.2 is not recorded")


def test_a_smaller_window_shows_where_the_history_is_shortened(tmp_path: Path, world: World) -> None:
    records = Records(tmp_path, world)
    replies = [asks(call("chapter", {"n": n})) for n in range(10)]
    records.loop(*replies, "Done.", tools=[world.chapter]).invoke(QUESTION)
    assert not any(e.type == "condensation" for e in records.same().events)
    found = records.replay(changes=["window=6000"])
    covered, step, _ = end_of(found)
    assert 0 < covered == step - 1 < 10
    assert any(e.type == "condensation" for e in found.events)


def test_what_does_not_come_into_play_is_said(records: Records) -> None:
    found = records.replay(changes=["observation:9.1=nothing", "reply:8=nothing"])
    assert found.same
    assert found.notes == ["observation:9.1=nothing did not come into play", "reply:8=nothing did not come into play"]


def test_a_graph_that_was_given_takes_what_a_run_may_set(records: Records, world: World) -> None:
    graph = create_react_graph(says("x"), [world.look, world.broken], system_prompt="Be brief.")
    assert records.same(graph=graph)
    assert records.replay(graph=graph, changes=["limits.steps=2"]).stop == {
        "reason": "step_limit",
        "detail": "2 of 2 steps used",
        "step": 2,
    }
    with pytest.raises(ValueError, match=r"limits\.repeats=2: the graph that was given has its own"):
        records.replay(graph=graph, changes=["limits.repeats=2"])


def test_another_graph_shows_where_it_differs(records: Records, world: World) -> None:
    other = create_react_graph(says("x"), [world.look], system_prompt="Be brief.")
    found = records.replay(graph=other)
    why = "the tools offered are look, read_result, and were look, broken, read_result"
    assert end_of(found) == (0, 1, why)
    stricter = create_react_graph(says("x"), [world.look, world.broken], system_prompt="Be brief.", require=["broken"])
    found = records.replay(graph=stricter)
    assert found.difference is not None
    assert (found.difference.step, found.difference.recorded["type"]) == (4, "stop")
    assert found.difference.replayed["reason"] == "required_tool"
    assert found.uncovered is not None


def test_changes_are_for_the_run_that_is_asked_for(tmp_path: Path, world: World) -> None:
    records = Records(tmp_path, world)
    graph = records.loop(asks(1), "One.", asks(2), "Two.", checkpointer=in_memory())
    graph.invoke(QUESTION, on_thread())
    graph.invoke({"messages": [("user", "And then?")]}, on_thread())
    found = records.replay(changes=["reply:2=Three."])
    assert (found.answer, found.uncovered) == ("Three.", None)


def test_a_change_after_a_person_was_asked(tmp_path: Path, world: World) -> None:
    records = Records(tmp_path, world)
    sends = asks(call("send", {"to": "Ada"}))
    graph = records.loop(sends, "Done.", tools=[world.send], checkpointer=in_memory())
    (asked,) = graph.invoke(QUESTION, on_thread())["__interrupt__"]
    graph.invoke(Command(resume={asked.id: "approve"}), on_thread())
    found = records.replay(changes=["observation:1.1=came back"])
    assert end_of(found)[:2] == (1, 2)
    assert [e.content["text"] for e in found.events if e.type == "observation"] == ["came back"]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("steps", "write limits.NAME=VALUE"),
        ("steps=5", "'steps' cannot be changed"),
        ("limits.stepz=5", "there is no limit 'stepz'; there are steps"),
        ("limits.steps=five", "give a number, or none"),
        ("limits.seconds=5", "a replay takes no time"),
        ("observation:=x", "cannot be changed"),
        ("reply:last=x", "a reply is named by its step"),
        ("window=inf", "give a number"),
        ("window=100", "give the model's window in tokens, 512 or more"),
    ],
)
def test_a_change_that_can_not_be_read_says_how_it_is_written(said: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_change(said)


def test_a_limit_out_of_its_range(records: Records) -> None:
    with records.store() as store, pytest.raises(ValueError, match=r"limits\.steps=0: give a whole number"):
        replay(store, "last", changes=["limits.steps=0"])


def test_changes_read_as_they_are_written() -> None:
    said = ["limits.cost=0.5", "system_prompt=a=b", "observation:2.1=x", "reply:2=y", "model.top_p=1", "window=900"]
    made: list[Any] = [read_change(one) for one in said]
    assert [str(one) for one in made] == said
    assert [one.value for one in made] == [0.5, "a=b", "x", "y", "1", 900]
