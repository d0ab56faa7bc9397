"""Runs of several calls of the graph: after a person's word, after a crash, one after the other on a thread."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.types import Command
from replay_support import QUESTION, Records, World, asks, in_memory, on_thread, says

from taograph import Context, Limits, checkpoints, create_react_graph, tool, trace
from taograph.models import call
from taograph.tools.person import ask_person
from taograph.trace import open_store
from taograph.trace.replaying import areplay, replay

ORIGINAL = BaseChatModel._generate_with_cache


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def records(tmp_path: Path, world: World) -> Records:
    return Records(tmp_path, world)


def test_a_run_that_waited_for_a_person_is_replayed_in_sequence(records: Records, world: World) -> None:
    sends = asks(
        *(call("send", {"to": name}) for name in ("Ada", "Bo", "Cy")), call("ask_person", {"question": "Who?"})
    )
    graph = records.loop(sends, "Done.", tools=[world.send, ask_person], checkpointer=in_memory())
    asked = graph.invoke(QUESTION, on_thread())["__interrupt__"]
    ids = {(i.value.get("args") or {}).get("to", "person"): i.id for i in asked}
    edit = {"decision": "edit", "args": {"to": "Bob"}}
    graph.invoke(Command(resume={ids["Ada"]: "approve", ids["Bo"]: edit}), on_thread())
    reject = {"decision": "reject", "reason": "not him", "by": "Eve"}
    result = graph.invoke(Command(resume={ids["Cy"]: reject, ids["person"]: "Dee"}), on_thread())
    assert result["answer"] == "Done."
    assert sorted(world.calls) == ["send Ada", "send Bob"]
    found = records.same()
    answered = {e.content["args"]["to"]: e.content["decision"] for e in found.events if e.type == "approval_answered"}
    assert answered == {"Ada": "approve", "Bob": "edit", "Cy": "reject"}
    seen = {str(e.content["tool"]): str(e.content["text"]) for e in found.events if e.type == "observation"}
    assert seen["ask_person"] == "Dee"


def test_a_run_that_still_waits(records: Records, world: World) -> None:
    graph = records.loop(asks(call("send", {"to": "Ada"})), "Done.", tools=[world.send], checkpointer=in_memory())
    graph.invoke(QUESTION, on_thread())
    found = records.same()
    assert found.stop is None
    assert found.events[-1].content["status"] == "waiting"


def test_a_later_run_on_a_thread_has_what_the_earlier_ones_left(records: Records) -> None:
    graph = records.loop(asks(1), "One.", asks(2), "Two.", checkpointer=in_memory())
    graph.invoke(QUESTION, on_thread())
    graph.invoke({"messages": [("user", "And then?")]}, on_thread())
    found = records.same()
    assert (found.answer, found.recorded) == ("Two.", 2)
    with records.store() as store:
        first = store.traces()[0].run
    assert records.same(first).answer == "One."


def test_a_history_that_was_given_with_the_question(records: Records) -> None:
    told = [("system", "Be kind."), ("user", "Hi."), AIMessage("Hello."), ("user", "What is there?")]
    records.loop(asks(1), "One.").invoke({"messages": told})
    assert records.same().answer == "One."


def test_settings_of_the_run_itself(records: Records) -> None:
    context = Context(steps=2, system_prompt="Be quick.")
    graph = records.loop(asks(1), asks(2), "So far: two.", system_prompt="Be slow.")
    assert graph.invoke(QUESTION, context=context)["stop"]["reason"] == "step_limit"
    records.same()


def test_a_run_that_went_on_with_a_higher_limit(records: Records) -> None:
    graph = records.loop(asks(1), "So far: one.", asks(2), "Two.", checkpointer=in_memory(), limits=Limits(steps=1))
    assert graph.invoke(QUESTION, on_thread())["stop"]["reason"] == "step_limit"
    assert graph.invoke({"messages": []}, on_thread(), context=Context(steps=5))["answer"] == "Two."
    found = records.same()
    assert (found.answer, found.recorded) == ("Two.", 4)


def test_an_earlier_run_on_the_thread_that_can_not_be_replayed(records: Records) -> None:
    saver = in_memory()

    def holds(answer: str, trajectory: Any) -> bool:
        return True

    records.loop("One.", verify=holds, checkpointer=saver).invoke(QUESTION, on_thread())
    records.loop("Two.", checkpointer=saver).invoke({"messages": [("user", "And then?")]}, on_thread())
    found = records.replay()
    assert found.uncovered is not None
    assert found.uncovered.why == "a message of the user was sent, and is not now: 'What is there?'"
    assert "an earlier run on the thread cannot be replayed, so what it left there is missing" in found.notes


def test_several_replays_at_a_time(records: Records) -> None:
    for number in range(4):
        records.loop(asks(number), f"It is {number}.").invoke(QUESTION)
    called = list(records.world.calls)

    async def all_of_them() -> list[str]:
        with records.store() as store:
            runs = [kept.run for kept in store.traces()]
            return [
                found.answer for found in await asyncio.gather(*(areplay(store, run) for run in runs)) if found.same
            ]

    assert asyncio.run(all_of_them()) == [f"It is {number}." for number in range(4)]
    assert records.world.calls == called
    assert BaseChatModel._generate_with_cache is ORIGINAL, "LangChain is as it was"


def test_from_any_store(url: str, world: World) -> None:
    graph = trace.record(create_react_graph(says(asks(1), "One."), [world.look]), to=url)
    graph.invoke(QUESTION)
    for writer in trace._writers.values():
        writer.flush()
    store = open_store(url, read_only=True)
    assert replay(store, "last").same
    store.close()


class Died(BaseException):
    """The process did."""


@pytest.mark.parametrize("where", ["model", "tool"])
def test_a_run_that_died_and_went_on(records: Records, world: World, tmp_path: Path, where: str) -> None:
    dies = [True]

    @tool(effects="none")
    def fragile(x: int) -> str:
        """Die, once.

        Args:
            x: Anything.
        """
        if where == "tool" and dies[0]:
            raise Died
        return "fine"

    def second(messages: Any) -> str:
        if where == "model" and dies[0]:
            raise Died
        return "Done."

    replies = asks(call("fragile", {"x": 1})), second, second
    with checkpoints.open(f"sqlite:///{tmp_path}/threads.db") as saver:
        graph = records.loop(*replies, tools=[fragile], checkpointer=saver)
        with pytest.raises(Died):
            graph.invoke(QUESTION, on_thread())
        dies[0] = False
        assert graph.invoke(None, on_thread())["answer"] == "Done."
    assert records.replay().same


def test_a_run_without_an_end_is_compared_as_far_as_it_went(records: Records) -> None:
    def dies(messages: Any) -> str:
        raise Died

    with pytest.raises(Died):
        records.loop(asks(1), dies).invoke(QUESTION)
    found = records.replay()
    assert found.same
    assert found.notes == ["the recorded run has no end: it is compared as far as it went"]
