"""A graph of ours within one that is not, whose process is killed: what each durability of the outer call loses."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

sys.path.insert(0, str(Path(__file__).parents[1] / "crash"))

import killing
from killing import Story, Worker

from taograph import checkpoints, create_react_graph, tool
from taograph.models import ScriptedModel, call

_numbers = count(1)
NewStory = Callable[..., Story]
EFFECTS = {"pay-1", "pay-2", "pay-3", "post-n", "post-m", "look-a", "look-b"}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    if not hasattr(sys.modules["os"], "fork"):
        pytest.skip("needs fork")
    program = str(Path(__file__).with_name("nested_worker.py"))
    start = subprocess.Popen

    def start_ours(command: list[str], **options: Any) -> subprocess.Popen[str]:
        return start([*command[:-1], program], **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(killing.subprocess, "Popen", start_ours)
        made = Worker()
    try:
        yield made
    finally:
        made.close()


WHERE = [
    "sqlite-sync-node",
    "postgres-async-function",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("sqlite-async-function", "postgres-sync-node")),
]


@pytest.fixture(params=WHERE)
def new_story(worker: Worker, request: pytest.FixtureRequest, tmp_path: Path) -> NewStory:
    """Makes a thread of its own."""
    kind, way, form = request.param.split("-")
    url = f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")

    def make(**more: Any) -> Story:
        number = next(_numbers)
        job = {"url": url, "way": way, "form": form, "thread": f"t{number}", **more}
        return Story(worker, job, tmp_path / f"log-{number}")

    return make


@pytest.fixture(scope="module")
def undisturbed(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of the run when nobody kills it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    job = {"url": f"sqlite:///{folder}/runs.db", "way": "sync", "thread": "t", "durability": "sync"}
    result = Story(worker, job, folder / "log").end()
    assert [kind for kind, _ in result["messages"]].count("tool") == 7
    assert result["messages"][-1] == ["human", "Thanks."]
    return result


def effects(story: Story) -> list[str]:
    """The calls that took effect, in order."""
    return [line.partition(" EFFECT")[0] for line in story.lines if " EFFECT" in line]


# With "late", the steps of the outer graph are on their way for longer than ours takes to call its tools.
@pytest.mark.parametrize(
    "how", [{"durability": "sync"}, {"durability": "async"}, {"durability": "async", "late": True}]
)
def test_a_call_is_not_repeated_after_a_kill(new_story: NewStory, undisturbed: dict[str, Any], how: Any) -> None:
    story = new_story(**how)
    assert story.go(stop="pay-3 took effect") is None
    assert story.go(stop="post-m kept") is not None, "the person is asked first"
    result = story.end()
    assert result["messages"] == undisturbed["messages"]
    assert result["sound"]
    assert {one["call"] for one in story.asked} == {"pay-3"}
    assert sorted(effects(story)) == sorted(EFFECTS)
    assert not story.again()


@pytest.mark.parametrize("place", ["turn 2 kept", "pay-3 kept", "turn 3 kept", "closing kept"])
def test_what_was_finished_is_not_run_again(new_story: NewStory, undisturbed: dict[str, Any], place: str) -> None:
    story = new_story(durability="sync")
    assert story.go(stop=place) is None
    result = story.end()
    assert result["messages"] == undisturbed["messages"]
    assert not story.again()
    assert not story.twice()


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_graph_that_has_ended_is_not_run_again(
    new_story: NewStory, undisturbed: dict[str, Any], durability: str
) -> None:
    story = new_story(durability=durability, late=durability == "async")
    assert story.go(stop="after ran") is None
    result = story.end()
    assert result["messages"] == undisturbed["messages"]
    assert story.count("after ran") == 2, "that it had run was not stored; it is no node of ours"
    assert not story.twice()


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_killed_at_any_moment(new_story: NewStory, undisturbed: dict[str, Any], durability: str) -> None:
    chance = random.Random(7)
    kills = 0
    for number in range(15):
        story = new_story(durability=durability, late=number % 3 == 0, pause=0.01)
        result = story.go(kill_after=chance.uniform(0.0, 1.0))
        while result is None or result["asked"]:
            result = story.go(resume=story.answers(result)) if result else story.go()
        assert result["messages"] == undisturbed["messages"]
        assert result["sound"]
        assert [effect for effect in sorted(effects(story)) if effect.startswith("pay")] == ["pay-1", "pay-2", "pay-3"]
        if durability == "sync":
            assert not story.again()
        kills += story.kills
    assert kills > 0


def test_with_exit_a_killed_process_loses_the_run(new_story: NewStory, undisturbed: dict[str, Any]) -> None:
    story = new_story(durability="exit")
    assert story.go(stop="pay-3 took effect") is None
    before = effects(story)
    result = story.end()
    assert result["messages"] == undisturbed["messages"]
    assert story.asked == [], "nobody knows of the call"
    assert set(before) <= EFFECTS
    assert {"pay-1", "pay-2", "pay-3"} <= set(before)
    assert sorted(effects(story)) == sorted([*before, *EFFECTS]), "all was done again"


def test_with_exit_what_waits_for_a_person_is_stored(new_story: NewStory, undisturbed: dict[str, Any]) -> None:
    story = new_story(durability="exit", approve=["pay"])
    asked = story.go()
    assert asked is not None
    assert len(asked["asked"]) == 2
    assert effects(story).count("post-n") == 1
    approved = {one["id"]: "approve" for one in asked["asked"]}
    assert story.go(stop="pay-2 kept", resume=approved) is None
    result = story.go(resume=approved)
    while result is not None and result["asked"]:
        unfinished = [one for one in result["asked"] if one["type"] == "unfinished_call"]
        approved = {one["id"]: "approve" for one in result["asked"]}
        result = story.go(resume={**approved, **story.answers({"asked": unfinished})})
    assert result is not None
    assert result["messages"] == undisturbed["messages"]
    assert sorted(effects(story)) == sorted(EFFECTS), "what ran from the question on was found again"
    assert "pay-2" not in {one["call"] for one in story.asked}


def test_a_tool_that_exit_does_not_protect_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @tool(effects="once")
    def wire(what: str) -> str:
        """Wire money.

        Args:
            what: For what.
        """
        return f"receipt {what}"

    def run(durability: Any, thread: str) -> list[str]:
        caplog.clear()
        calls = [call("wire", {"what": "a"}), call("wire", {"what": "b"})]
        inner = create_react_graph(ScriptedModel(replies=[AIMessage("", tool_calls=calls), "Done."]), [wire])
        with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
            outer = StateGraph(MessagesState).add_node("agent", inner).add_edge(START, "agent").compile(saver)
            config: Any = {"configurable": {"thread_id": thread}}
            result = outer.invoke({"messages": [HumanMessage("Pay.")]}, config, durability=durability)
        assert result["messages"][-1].text == "Done."
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    assert run("sync", "t1") == []
    assert run("async", "t2") == []
    said = run("exit", "t3")
    assert len(said) == 1
    assert 'tool wire must not be repeated, and its run is stored only when it ends (durability="exit")' in said[0]
