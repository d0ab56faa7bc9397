"""Every strategy is replayed, with its sub-runs and what it does side by side; and so is what is not taograph's."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool as langchain_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from replay_support import QUESTION, Records, World, asks, in_memory, on_thread, says

from taograph import tool
from taograph.graphs import STRATEGIES
from taograph.models import ScriptedModel, call
from taograph.trace.replaying import CannotReplayError


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def records(tmp_path: Path, world: World) -> Records:
    return Records(tmp_path, world)


@pytest.fixture
def search(world: World) -> Any:
    @tool(effects="none")
    def search(query: str) -> str:
        """Search for something.

        Args:
            query: What to search for.
        """
        world.calls.append(query)
        return f"found <{query}>"

    return search


def made(name: str, model: Any, *tools: Any, **options: Any) -> Any:
    return STRATEGIES[name](model, list(tools), **options)


def samples(*answers: Any) -> list[str]:
    return [f"Let me see.\nSo the answer is {answer}." for answer in answers]


def test_direct_and_act_only(records: Records, world: World) -> None:
    records.of(made("direct", says("First this, then that.", "So the answer is 4."), plan_and_solve=True)).invoke(
        QUESTION
    )
    assert records.same().used == 2
    records.of(made("act_only", says(asks(1), "4"), world.look)).invoke(QUESTION)
    assert records.same().used == 2


def test_samples_that_were_drawn_side_by_side_and_ended_in_another_order(records: Records) -> None:
    """Each sample gets its own reply again, though all were asked the same."""
    arrived = threading.Barrier(3)
    answers, number, lock = (4, 5, 4), [0], threading.Lock()
    first_is_done = threading.Event()

    def sample(messages: Any) -> str:
        with lock:
            mine = number[0]
            number[0] += 1
        if mine < 3:
            arrived.wait(20)
        if mine == 0:
            first_is_done.wait(20)
        if mine == 2:
            first_is_done.set()
        return samples(answers[mine] if mine < 3 else 4)[0]

    graph = records.of(made("self_consistency", ScriptedModel(replies=[sample], repeat=True), samples=5))
    result = graph.invoke(QUESTION)
    found = records.same()
    assert found.answer == result["answer"]
    assert found.used == number[0] >= 4
    assert any(e.type == "vote" for e in found.events)


def test_samples_of_the_async_way(records: Records) -> None:
    model = says(*samples(4, 5, 6, 4, 5, 4, 4))
    result = asyncio.run(records.of(made("self_consistency", model, samples=7)).ainvoke(QUESTION))
    assert records.same().answer == result["answer"]


def test_hybrid(records: Records, world: World) -> None:
    model = says(asks(1), asks(2), *samples(4, 4, 5))
    result = records.of(made("hybrid", model, world.look, samples=3, react_steps=2)).invoke(QUESTION)
    found = records.same()
    assert found.answer == result["answer"]
    assert {e.task[0] for e in found.events if e.type == "model_replied"} == {"react[0]", "samples[0]"}


def test_steps_of_a_plan_side_by_side_each_asking_a_person(records: Records, world: World) -> None:
    plan = [{"id": 1, "task": "write to Ada", "needs": []}, {"id": 2, "task": "write to Bo", "needs": []}]

    def reply(messages: Any) -> Any:
        told = "\n".join(str(m.text) for m in messages if isinstance(m, HumanMessage))
        name = next((name for name in ("Ada", "Bo") if f"Your step: write to {name}" in told), None)
        if name is not None:
            sent = messages[-1].type == "tool"
            return f"Told {name}." if sent else AIMessage("", tool_calls=[call("send", {"to": name}, id=f"c{name}")])
        if "The plan stands like this" in told:
            return AIMessage("", tool_calls=[call("AnswerOrPlan", {"answer": "Both know."})])
        return AIMessage("", tool_calls=[call("Plan", {"steps": plan})])

    model = ScriptedModel(replies=[reply], repeat=True, usage=(5, 5))
    graph = records.of(made("plan_execute", model, world.send, checkpointer=in_memory()))
    result = graph.invoke(QUESTION, on_thread())
    for answer in ("approve", {"decision": "reject", "reason": "not her"}):
        result = graph.invoke(Command(resume={result["__interrupt__"][0].id: answer}), on_thread())
    assert len(world.calls) == 1
    found = records.replay()
    assert found.same, (found.difference, found.uncovered)
    assert found.answer == result["answer"]
    assert sorted(e.content["decision"] for e in found.events if e.type == "approval_answered") == ["approve", "reject"]


def test_rewoo(records: Records, search: Any) -> None:
    plan = "Plan: a\n#E1 = search[x]\nPlan: b\n#E2 = search[about #E1]\nPlan: c\n#E3 = LLM[Sum up #E2]"
    records.of(made("rewoo", says(plan, "summed up", "Fine."), search)).invoke(QUESTION)
    found = records.same()
    assert [e.content["args"] for e in found.events if e.type == "action"][1] == {"query": "about found <x>"}


def test_a_plan_whose_calls_began_while_it_was_being_written(records: Records, search: Any) -> None:
    replies = '1. search("x")\n2. search("y")\n3. search("z $1 $2")\n4. join()', "Thought: ok\nAction: Finish(it is z)"
    records.of(made("dag", says(*replies), search)).invoke(QUESTION)
    found = records.same()
    assert sum(e.type == "observation" for e in found.events) == 3


def test_reflexion_with_a_check_of_the_user_s_own(records: Records, world: World) -> None:
    def good(question: str, answer: str, trajectory: Any) -> bool | str:
        return answer == "good" or f"{answer} is not good"

    def make(model: Any, tools: Any) -> Any:
        return made("reflexion", model, *tools, evaluate=good)

    replies = asks(1), "bad", "Look elsewhere.", asks(2), "good"
    records.of(make(says(*replies), [world.look])).invoke(QUESTION)
    with pytest.raises(CannotReplayError, match="evaluate of 'reflexion' cannot be recorded"):
        records.replay()
    found = records.same(graph=make)
    assert (found.answer, found.used) == ("good", 5)


def test_the_router(records: Records, world: World) -> None:
    def reply(messages: Any) -> Any:
        told = "\n".join(str(m.text) for m in messages)
        if "Decide how the question below" in told:
            return AIMessage("", tool_calls=[call("route", {"route": "tools", "why": "so it seems"})])
        return "It is 1." if messages[-1].type == "tool" else asks(1)

    records.of(made("router", ScriptedModel(replies=[reply], repeat=True, usage=(9, 9)), world.look)).invoke(QUESTION)
    found = records.same()
    assert found.answer == "It is 1."


# Not taograph's


def mails(world: World) -> Any:
    @langchain_tool
    def mail(to: str) -> str:
        """Send a mail."""
        world.calls.append(f"mail {to}")
        return f"mailed {to}"

    return mail


def test_an_agent_of_langchain_s_with_a_person_in_the_loop(records: Records, world: World) -> None:
    mail = mails(world)

    def agent(model: Any) -> Any:
        guard = HumanInTheLoopMiddleware(interrupt_on={"mail": True})
        return create_agent(model, [mail, world.look], middleware=[guard], checkpointer=in_memory())

    replies = asks(call("mail", {"to": "Ada"}), 1, call("nothing", {})), "Done."
    graph = records.of(agent(says(*replies)))
    graph.invoke(QUESTION, on_thread())
    result = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), on_thread())
    assert result["messages"][-1].text == "Done."
    with pytest.raises(CannotReplayError, match="not one of taograph's strategies: give the graph itself"):
        records.replay()
    found = records.same(graph=agent(says("never said")))
    assert found.answer == "Done."
    with records.store() as store:
        first = store.traces()[0].run
    found = records.replay(first, graph=agent(says("never said")))
    assert found.same
    assert found.events[-1].content["status"] == "waiting"


def test_an_agent_whose_tool_failed(records: Records, world: World) -> None:
    agent = create_agent(says(asks(call("broken", {"x": 1}))), [world.broken])
    with pytest.raises(RuntimeError, match="the disk said no"):
        records.of(agent).invoke(QUESTION)
    found = records.replay(graph=agent)
    assert found.same, (found.difference, found.uncovered)
    assert found.notes == ["the replay failed with RuntimeError: the disk said no"]


def test_a_plain_graph_that_streams_its_model_and_calls_a_tool(records: Records, world: World) -> None:
    model = says("one", "two words")

    def asking(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    def streaming(state: MessagesState) -> dict[str, Any]:
        parts = [str(chunk.text) for chunk in model.stream([("user", "Go on.")])]
        return {"messages": [AIMessage("".join(parts)), AIMessage(world.look.invoke({"x": 7}))]}

    builder = StateGraph(MessagesState)
    builder.add_node("asking", asking).add_node("streaming", streaming)
    graph = builder.add_edge(START, "asking").add_edge("asking", "streaming").compile()
    assert records.of(graph).invoke(QUESTION)["messages"][-1].text == "saw 7"
    asked = len(model.requests)
    assert records.same(graph=graph).used == 2
    assert len(model.requests) == asked, "the model of the graph is not asked"
    changed = records.replay(graph=graph, changes=["reply:1=ONE"])
    assert changed.difference is not None
    assert (changed.difference.recorded, changed.difference.replayed) == ("one", "ONE")
    with pytest.raises(ValueError, match="only observations and replies can change"):
        records.replay(graph=graph, changes=["limits.steps=2"])


def test_a_chain(records: Records) -> None:
    chain = ChatPromptTemplate.from_messages([("user", "Say {word}.")]) | says("Hey.")
    records.of(chain).invoke({"word": "hey"})
    assert records.same(graph=chain).used == 1


def test_a_completion_model_of_a_chain_is_not_asked(records: Records) -> None:
    model = FakeListLLM(responses=["Hey."])
    records.of(model | StrOutputParser()).invoke("Say hey.")
    found = records.replay(graph=model | StrOutputParser())
    assert not found.same
    assert found.uncovered is not None
    assert found.uncovered.why == "a completion model is not replayed"
    assert found.used == 0


def test_what_is_shown_is_json(records: Records) -> None:
    records.loop(asks(1), "One.").invoke(QUESTION)
    told = json.loads(json.dumps(records.replay(changes=["limits.steps=1"]).to_dict()))
    assert told["outcome"] == "differs"
    assert told["turns"] == {"recorded": 2, "covered": 1}
    assert told["uncovered"]["step"] == 1
    assert [e["type"] for e in told["events"]][:2] == ["run_started", "model_asked"]
