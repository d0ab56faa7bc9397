"""What LangChain's ``create_agent`` does in the cases that matter in production, and what the loop does.

Each test shows both in the same case, with the same scripted model and the same tools, on the installed
version. Where a later version of LangChain does better, the half about it fails: then the row is won for
everybody, and the half can go.

Not here, since the parts that they are about are built elsewhere: models without function calling and invented
observations (the text protocol), summarizing long histories (the context window), and approval of calls.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.agents.structured_output import ProviderStrategy, StructuredOutputValidationError, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as plain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from support import (
    Counting,
    asks,
    asks_for_ever,
    assert_acceptable,
    assert_ended,
    broken,
    closes_or,
    lookup,
    question,
    texts,
    thread,
)

from taograph import Limits, create_react_graph, stream_steps
from taograph.models import FlatPrice, ScriptedModel, call, set_price


class Place(BaseModel):
    """Where somebody is."""

    name: str
    page: int


def repeating(reply: AIMessage, times: int, last: str = "Done.") -> ScriptedModel:
    return ScriptedModel(replies=[*[reply] * times, last])


def last_text(result: dict[str, Any]) -> str:
    return str(result["messages"][-1].text)


# --- how a run ends ----------------------------------------------------------------------------------------


def test_a_normal_end_is_the_same() -> None:
    theirs = create_agent(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup]).invoke(question())
    ours = create_react_graph(ScriptedModel(replies=[asks("Ada"), "Page 3."]), [lookup]).invoke(question())
    assert texts(theirs["messages"]) == texts(ours["messages"])
    assert ours["answer"] == "Page 3."


@pytest.mark.parametrize("limit", [4, 5, 8, 9])
def test_the_recursion_limit(limit: int) -> None:
    """langgraph#5548, langchain#33653: everything that was paid for is lost."""
    config: Any = {"recursion_limit": limit}
    with pytest.raises(GraphRecursionError):
        create_agent(asks_for_ever(), [lookup]).invoke(question(), config)
    ours = create_react_graph(asks_for_ever(), [lookup]).invoke(question(), config)
    assert_ended(ours, "step_limit")
    assert ours["answer"] == "So far: …", "the model concluded from what it had seen"


def test_the_default_budget() -> None:
    """langchain#36919: 9,999 steps unless one knows better, each paid for."""
    theirs = create_agent(ScriptedModel(), [lookup])
    assert (theirs.config or {})["recursion_limit"] > 5000
    model = asks_for_ever()
    ours = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(ours, "step_limit", model)
    assert len(model.requests) == 16


def test_the_answer_at_a_limit_of_model_calls() -> None:
    model = asks_for_ever()
    agent = create_agent(model, [lookup], middleware=[ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")])
    theirs = agent.invoke(question())
    assert "limit" in last_text(theirs), "a constant sentence"
    assert "page" not in last_text(theirs)
    assert len(model.requests) == 2

    model = asks_for_ever()
    ours = create_react_graph(model, [lookup], limits=Limits(steps=2)).invoke(question())
    assert_ended(ours, "step_limit", model)
    assert ours["answer"] == "So far: …"
    assert "on page" in "".join(texts(model.requests[-1].messages)), "asked with the observations before it"


@plain_tool
def ask_boss(what: str) -> str:
    """Ask the boss.

    Args:
        what: The question.
    """
    return str(interrupt(what))


def test_limits_across_interrupts() -> None:
    def never_done() -> ScriptedModel:
        return ScriptedModel(replies=[closes_or(lambda _: asks(call("ask_boss", {"what": "May I?"})))], repeat=True)

    model = never_done()
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    agent = create_agent(model, [ask_boss], middleware=[limit], checkpointer=InMemorySaver())
    agent.invoke(question(), thread())
    for number in range(4):
        agent.invoke(Command(resume=f"Yes {number}."), thread())
    assert len(model.requests) > 2, "each resume begins the count anew"

    model = never_done()
    graph = create_react_graph(model, [ask_boss], limits=Limits(steps=3), checkpointer=InMemorySaver())
    result = graph.invoke(question(), thread())
    for number in range(4):
        if "__interrupt__" not in result:
            break
        result = graph.invoke(Command(resume=f"Yes {number}."), thread())
    assert_ended(result, "step_limit", model)
    assert len(model.requests) == 3 + 1


# --- going in circles --------------------------------------------------------------------------------------


def test_the_same_call_again_and_again() -> None:
    """langchain#37961, deepagents#3582, langgraph#6731."""
    same = Counting(same=True)
    create_agent(repeating(asks(call("count", {"what": "x"})), 30), [same.tool]).invoke(question())
    assert len(same.calls) == 30

    same = Counting(same=True)
    model = ScriptedModel(replies=[closes_or(asks(call("count", {"what": "x"})))], repeat=True)
    ours = create_react_graph(model, [same.tool]).invoke(question())
    assert_ended(ours, "repeated_action", model)
    assert len(same.calls) <= 4


def test_polling_that_changes_is_no_circle() -> None:
    changing = Counting()
    model = repeating(asks(call("count", {"what": "x"})), 8)
    ours = create_react_graph(model, [changing.tool]).invoke(question())
    assert_ended(ours, "final", model)
    assert len(changing.calls) == 8


@pytest.mark.parametrize(
    "reply", [asks(call("lookup", {"nam": "Ada"})), asks(call("search", {"q": "Ada"}))], ids=["arguments", "name"]
)
def test_errors_for_ever(reply: AIMessage) -> None:
    """langchain#37778, #37961: wrong arguments and unknown tools are told, but without end."""
    model = repeating(reply, 30)
    create_agent(model, [lookup]).invoke(question())
    assert len(model.requests) == 31

    model = ScriptedModel(replies=[closes_or(reply)], repeat=True)
    ours = create_react_graph(model, [lookup]).invoke(question())
    assert ours["stop"]["reason"] in ("tool_errors", "repeated_action")
    assert_ended(ours, ours["stop"]["reason"], model)
    assert len(model.requests) <= 5


# --- budgets -----------------------------------------------------------------------------------------------


def test_a_deadline() -> None:
    @plain_tool
    def nap(name: str) -> str:
        """Sleep.

        Args:
            name: Anything.
        """
        time.sleep(0.3)
        return f"{name} slept"

    calls = [asks(call("nap", {"name": str(i)})) for i in range(6)]
    model = ScriptedModel(replies=[*calls, "Done."])
    create_agent(model, [nap]).invoke(question())
    assert len(model.requests) == 7, "there is nothing that ends it"

    model = ScriptedModel(replies=[closes_or(lambda m: asks(call("nap", {"name": str(len(m))})))], repeat=True)
    ours = create_react_graph(model, [nap], limits=Limits(seconds=0.7)).invoke(question())
    assert_ended(ours, "deadline", model)
    assert len(model.requests) <= 5


def test_budgets_of_tokens_and_money() -> None:
    """langchain#38842."""
    usage = (10_000, 500)
    model = ScriptedModel(replies=[*[asks(f"n{i}") for i in range(20)], "Done."], usage=usage)
    create_agent(model, [lookup]).invoke(question())
    assert len(model.requests) == 21

    set_price("rival-priced", FlatPrice(10.0, 10.0))
    for limits, reason in ((Limits(tokens=50_000), "token_limit"), (Limits(cost=0.5), "cost_limit")):
        model = asks_for_ever()
        model.usage, model.model_name = usage, "rival-priced"
        ours = create_react_graph(model, [lookup], limits=limits).invoke(question())
        assert_ended(ours, reason, model)
        spent = ours["spent"]
        assert spent["input_tokens"] + spent["output_tokens"] <= 50_000
        assert spent["cost"] <= 0.5


# --- tools -------------------------------------------------------------------------------------------------


def test_a_tool_that_fails() -> None:
    """langgraph#6486, #6449, #4289: the run dies, and the thread with it."""
    model = ScriptedModel(replies=[asks(call("broken", {"name": "Ada"})), "Go on."])
    agent = create_agent(model, [broken], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="internal trouble"):
        agent.invoke(question(), thread())
    agent.invoke(question("And now?"), thread())
    with pytest.raises(AssertionError, match="stands between calls and their results"):
        assert_acceptable(model.requests[-1].messages)

    model = ScriptedModel(replies=[asks(call("broken", {"name": "Ada"})), "I could not.", "Go on."])
    graph = create_react_graph(model, [broken], checkpointer=InMemorySaver())
    ours = graph.invoke(question(), thread())
    assert_ended(ours, "final", model)
    assert "internal trouble" not in "".join(texts(ours["messages"])), "the exception's text is not for the model"
    graph.invoke(question("And now?"), thread())
    assert_acceptable(model.requests[-1].messages)


def test_an_orphan_in_the_history() -> None:
    """langgraph#4289, open-swe#1604, deepagents#5547: a run that was cut short blocks the thread."""
    history: list[BaseMessage] = [
        HumanMessage("Where is Ada?"),
        AIMessage("", tool_calls=[call("lookup", {"name": "Ada"}, id="c1")]),
        HumanMessage("Well?"),
    ]
    model = ScriptedModel(replies=["Page 3."])
    create_agent(model, [lookup]).invoke({"messages": history})
    with pytest.raises(AssertionError, match="stands between calls and their results"):
        assert_acceptable(model.requests[0].messages)

    model = ScriptedModel(replies=["Page 3."])
    ours = create_react_graph(model, [lookup]).invoke({"messages": history})
    assert_ended(ours, "final", model)
    (filled,) = [m for m in model.requests[0].messages if isinstance(m, ToolMessage)]
    assert filled.status == "error"
    assert "cancel" not in str(filled.content), "nobody knows that"


def test_a_long_result() -> None:
    @plain_tool
    def long_text(name: str) -> str:
        """A long text.

        Args:
            name: Anything.
        """
        return "x" * 1_000_000 + "THE END"

    replies = [asks(call("long_text", {"name": "a"}, id="t1")), "Long."]
    model = ScriptedModel(replies=replies)
    create_agent(model, [long_text]).invoke(question())
    assert len(str(model.requests[-1].messages[-1].content)) > 1_000_000

    read_on = asks(call("read_result", {"handle": "t1", "start": 999_000}))
    model = ScriptedModel(replies=[replies[0], read_on, "Long."])
    ours = create_react_graph(model, [long_text]).invoke(question())
    assert_ended(ours, "final", model)
    shown = str(model.requests[1].messages[-1].content)
    assert len(shown) < 10_000
    assert "THE END" in shown, "the tail is shown"
    assert "THE END" in str(model.requests[2].messages[-1].content), "and the whole can be read"


def test_one_of_two_calls_fails() -> None:
    """deepagents#2379, openai-agents#4185: the failure of one takes the other's result with it."""
    finished: list[str] = []

    @plain_tool
    async def slow(name: str) -> str:
        """Take a while.

        Args:
            name: Anything.
        """
        await asyncio.sleep(0.1)
        finished.append(name)
        return f"{name} is done"

    two = asks(call("broken", {"name": "a"}, id="b1"), call("slow", {"name": "b"}, id="s1"))
    agent = create_agent(ScriptedModel(replies=[two, "Done."]), [broken, slow])
    with pytest.raises(RuntimeError):
        asyncio.run(agent.ainvoke(question()))

    model = ScriptedModel(replies=[two, "Done."])
    ours = asyncio.run(create_react_graph(model, [broken, slow]).ainvoke(question()))
    assert_ended(ours, "final", model)
    by_id = {m.tool_call_id: m for m in ours["messages"] if isinstance(m, ToolMessage)}
    assert by_id["b1"].status == "error"
    assert by_id["s1"].content == "b is done"


def test_an_async_tool_in_a_sync_run() -> None:
    """mcp-adapters#29, langchain#37708: a crash, or the framework's own complaint in place of a result."""

    @plain_tool
    async def fetch(name: str) -> str:
        """Fetch something.

        Args:
            name: Anything.
        """
        await asyncio.sleep(0)
        return f"{name} was fetched"

    replies = [asks(call("fetch", {"name": "a"})), "Done."]
    with pytest.raises(NotImplementedError):
        create_agent(ScriptedModel(replies=replies), [fetch]).invoke(question())
    ours = create_react_graph(ScriptedModel(replies=replies), [fetch]).invoke(question())
    assert "a was fetched" in texts(ours["messages"])


def test_two_tools_of_one_name() -> None:
    def named(text: str) -> BaseTool:
        @plain_tool("same")
        def same(name: str) -> str:
            """Return a text.

            Args:
                name: Anything.
            """
            return text

        return same

    theirs = create_agent(
        ScriptedModel(replies=[asks(call("same", {"name": "a"})), "Done."]), [named("first"), named("second")]
    ).invoke(question())
    assert "second" in texts(theirs["messages"]), "the last wins, and nobody is told"
    with pytest.raises(ValueError, match="two tools are named 'same'"):
        create_react_graph(ScriptedModel(), [named("first"), named("second")])


# --- replies -----------------------------------------------------------------------------------------------


def test_arguments_that_are_no_json() -> None:
    """langchain#33504: a run that ends as a success with nothing in it."""
    bad = invalid_tool_call(name="lookup", args='{"name": "Ada', id="c1", error="not JSON")
    reply = AIMessage("", invalid_tool_calls=[bad])
    model = ScriptedModel(replies=[reply, asks("Ada"), "Page 3."])
    theirs = create_agent(model, [lookup]).invoke(question())
    assert last_text(theirs) == ""
    assert len(model.requests) == 1

    model = ScriptedModel(replies=[reply, asks("Ada"), "Page 3."])
    ours = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(ours, "final", model)
    assert ours["answer"] == "Page 3."


def test_an_empty_reply() -> None:
    """langgraph#6133, #6574."""
    model = ScriptedModel(replies=[asks("Ada"), "", "Page 3."])
    assert last_text(create_agent(model, [lookup]).invoke(question())) == ""
    model = ScriptedModel(replies=[asks("Ada"), "", "Page 3."])
    ours = create_react_graph(model, [lookup]).invoke(question())
    assert_ended(ours, "final", model)
    assert ours["answer"] == "Page 3."


def test_a_call_without_an_id() -> None:
    class Bare(ScriptedModel):
        def _reply(self, messages: Any, options: Any) -> AIMessage:
            made = super()._reply(messages, options)
            return made.model_copy(update={"tool_calls": [{**c, "id": None} for c in made.tool_calls]})

    with pytest.raises(TypeError):
        create_agent(Bare(replies=[asks("Ada"), "Page 3."]), [lookup]).invoke(question())
    model = Bare(replies=[asks("Ada"), "Page 3."])
    assert_ended(create_react_graph(model, [lookup]).invoke(question()), "final", model)


def test_calls_with_the_same_id() -> None:
    two = asks(call("lookup", {"name": "Ada"}, id="same"), call("lookup", {"name": "Bo"}, id="same"))
    model = ScriptedModel(replies=[two, "Done."])
    create_agent(model, [lookup]).invoke(question())
    with pytest.raises(AssertionError):
        assert_acceptable(model.requests[-1].messages)
    model = ScriptedModel(replies=[two, "Done."])
    assert_ended(create_react_graph(model, [lookup]).invoke(question()), "final", model)


def test_a_reply_cut_off_by_length() -> None:
    counting = Counting()
    cut = asks(call("count", {"what": "half of it"}), response_metadata={"finish_reason": "length"})
    create_agent(ScriptedModel(replies=[cut, "Done."]), [counting.tool]).invoke(question())
    assert counting.calls == ["half of it"], "run as if it had been meant"
    counting = Counting()
    model = ScriptedModel(replies=[cut, "Done."])
    assert_ended(create_react_graph(model, [counting.tool]).invoke(question()), "final", model)
    assert counting.calls == []


# --- structured answers ------------------------------------------------------------------------------------


def test_a_form_that_never_fits() -> None:
    """langchain#40751: retried until the recursion limit."""
    wrong = AIMessage("", tool_calls=[call("Place", {"name": "Ada"})])
    model = ScriptedModel(replies=[wrong], repeat=True)
    agent = create_agent(model, [lookup], response_format=ToolStrategy(Place))
    with pytest.raises(GraphRecursionError):
        agent.invoke(question(), {"recursion_limit": 30})
    assert len(model.requests) >= 14

    model = ScriptedModel(replies=["Page 3.", wrong], repeat=True)
    ours = create_react_graph(model, [lookup], response_format=ToolStrategy(Place)).invoke(question())
    assert_ended(ours, "malformed_output", model)
    assert ours["structured"] is None
    assert len(model.requests) == 4


def test_a_form_that_the_model_ignores() -> None:
    theirs = create_agent(ScriptedModel(replies=["Page 3."]), [lookup], response_format=ToolStrategy(Place))
    assert theirs.invoke(question()).get("structured_response") is None, "a silent None"
    model = ScriptedModel(replies=["Page 3."], repeat=True)
    ours = create_react_graph(model, [lookup], response_format=ToolStrategy(Place)).invoke(question())
    assert_ended(ours, "malformed_output", model)
    assert "response_format" in ours["stop"]["detail"]


def test_a_form_of_the_provider_that_cannot_be_read() -> None:
    agent = create_agent(ScriptedModel(replies=["no JSON"]), [lookup], response_format=ProviderStrategy(Place))
    with pytest.raises(StructuredOutputValidationError):
        agent.invoke(question())
    model = ScriptedModel(replies=["no JSON"], repeat=True)
    ours = create_react_graph(model, [lookup], response_format=ProviderStrategy(Place)).invoke(question())
    assert_ended(ours, "malformed_output", model)
    assert ours["answer"] == "no JSON"


# --- seeing it happen --------------------------------------------------------------------------------------


def test_thoughts_actions_and_observations() -> None:
    """langgraph#5084: reasoning is not in what comes out; there are messages, not thoughts."""
    acting = asks("Ada", text="I look her up.", additional_kwargs={"reasoning_content": "Ada comes first."})
    agent = create_agent(ScriptedModel(replies=[acting, "Page 3."]), [lookup])
    updates = list(agent.stream(question(), stream_mode="updates"))
    assert {name for update in updates for name in update} == {"model", "tools"}

    events = list(stream_steps(create_react_graph(ScriptedModel(replies=[acting, "Page 3."]), [lookup]), question()))
    kinds = [e["type"] for e in events if e["type"] not in ("thought_delta", "budget")]
    assert kinds == ["run_started", "thought", "action", "observation", "stop", "answer"]
    thought = next(e for e in events if e["type"] == "thought")
    assert thought["text"] == "Ada comes first.\nI look her up."
