"""The hybrids: limits are shared, checks lead from one way to the other, and threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import Command
from support import Way, assert_ended, both_ways, lookup, pending, question, run, texts, thread
from vote_support import ASKED, IN_ORDER, Script, looks_up, objecting, sampled

from taograph import Cancellation, Context, Limits, checkpoints
from taograph.graphs.hybrid import create_hybrid_graph
from taograph.models import ScriptedModel
from taograph.models.prices import FlatPrice, set_price

EACH = [str(number) for number in range(21)]


def hybrid(
    said: Any = ("Paris",), loop: Any = (), *, usage: tuple[int, int] | None = None, **options: Any
) -> tuple[ScriptedModel, Any]:
    """Samples that say this, and a loop that never answers unless it is told to."""
    model = Script(said, loop).model(usage=usage)
    return model, create_hybrid_graph(model, [lookup], **options)


def cost(result: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """Of each sub-run: its name, why it ended, its steps and its calls of the model."""
    return [(c["name"], c["stop"]["reason"], c["stop"]["step"], c["spent"]["model_calls"]) for c in result["children"]]


# Limits are shared


@both_ways
@pytest.mark.parametrize("first", ["react", "samples"])
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(steps=2), "step_limit"),
        (Limits(tokens=100), "token_limit"),
        (Limits(cost=0.1), "cost_limit"),
    ],
)
def test_a_limit_of_the_run_ends_the_run(way: Way, first: Any, limits: Limits, reason: str) -> None:
    set_price("priced-hybrid", FlatPrice(input=1000.0, output=1000.0))
    model = Script(EACH).model(usage=(10, 10), model_name="priced-hybrid")
    result = run(way, create_hybrid_graph(model, [lookup], limits=limits, first=first), question(ASKED))
    assert_ended(result, reason, model)
    assert result["children"][0]["shared"] or reason == "step_limit"
    assert len(result["children"]) == 1
    assert result["branch"] == first
    assert result["spent"]["model_calls"] == len(model.requests)


def test_no_tool_call_left_ends_the_run() -> None:
    model, graph = hybrid(limits=Limits(tool_calls=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "tool_call_limit", model)
    assert sampled(model) == []
    assert result["spent"]["tool_calls"] == 1


def test_at_the_deadline_nothing_is_sampled() -> None:
    import time

    def slow(messages: list[BaseMessage]) -> AIMessage:
        time.sleep(0.3)
        return looks_up(len(messages))

    model, graph = hybrid(loop=[slow] * 9, limits=Limits(seconds=0.5, reserve_seconds=5.0))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "deadline")
    assert sampled(model) == []
    assert result["branch"] == "react"


def test_steps_that_the_loop_used_up_leave_none_for_a_vote() -> None:
    model, graph = hybrid(limits=Limits(steps=7))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit", model)
    assert sampled(model) == []
    _, graph = hybrid(loop=[*[looks_up(n) for n in range(6)], "Paris, it says."], limits=Limits(steps=7))
    assert graph.invoke(question(ASKED))["stop"]["reason"] == "final"  # what answers in the last step has answered


def test_what_samples_say_when_a_limit_ends_them_is_the_answer() -> None:
    _, graph = hybrid(["Rome"] * 5 + ["Paris"], first="samples", limits=Limits(steps=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit")
    assert result["answer"] == "Paris"
    assert result["branch"] == "samples"


@both_ways
@pytest.mark.parametrize("first", ["react", "samples"])
@pytest.mark.parametrize("limit", range(2, 13))
def test_no_recursion_limit_raises(way: Way, first: Any, limit: int) -> None:
    model, graph = hybrid(EACH, first=first, react_steps=2)
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert_ended(result, result["stop"]["reason"], model)
    assert result["stop"]["reason"] in ("final", "step_limit")
    assert result["branch"] in ("react", "samples")


def test_a_cancelled_run_says_so() -> None:
    cancel = Cancellation()

    def stops(messages: list[BaseMessage]) -> AIMessage:
        cancel.request("enough")
        return looks_up(1)

    model, graph = hybrid(loop=[stops])
    with cancel:
        result = graph.invoke(question(ASKED))
    assert_ended(result, "cancelled")
    assert "enough" in result["stop"]["detail"]
    assert len(model.requests) == 1
    assert result["branch"] == "react"


# Checks


@both_ways
def test_an_objection_to_a_vote_leads_to_the_loop(way: Way) -> None:
    check = objecting("Look it up.")
    model, graph = hybrid(loop=[looks_up(1), "Paris, it says."], first="samples", verify=check)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["branch"] == "react"
    assert result["answer"] == "Paris, it says."
    assert check.seen == ["Paris", "Paris, it says."]  # type: ignore[attr-defined]


def test_a_tool_that_is_required_leads_from_the_vote_to_the_loop() -> None:
    model, graph = hybrid(loop=["No need.", looks_up(1), "Paris, it says."], first="samples", require=["lookup"])
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final", model)
    assert result["branch"] == "react"
    assert result["children"][1]["called"] == ["lookup"]
    assert result["answer"] == "Paris, it says."


def test_an_objection_to_the_last_answer_stands_in_the_result() -> None:
    _, graph = hybrid(react_steps=1, verify=objecting("No.", "No.", "No."))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert "verify still objects: No." in result["stop"]["detail"]


@both_ways
def test_the_answer_in_a_form(way: Way) -> None:
    form = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    script = Script(loop=[looks_up(1)])

    def reply(messages: list[BaseMessage]) -> Any:
        return '{"city": "Paris"}' if "required form" in messages[-1].text else script(messages)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_hybrid_graph(model, [lookup], react_steps=1, response_format=form)
    result = run(way, graph, question(ASKED))
    assert_ended(result, "final", model)
    assert result["structured"] == {"city": "Paris"}
    assert result["answer"] == "Paris"


# Threads


def test_a_person_approves_within_the_loop(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(loop=[looks_up(1)], react_steps=1, approve=["lookup"], checkpointer=saver)
        (asked,) = pending(graph.invoke(question(ASKED), thread()))
        assert len(model.requests) == 1
        model, graph = hybrid(loop=[], react_steps=1, approve=["lookup"], checkpointer=saver)  # another process
        result = graph.invoke(Command(resume={asked.id: "approve"}), thread())
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert len(model.requests) == 11
    assert result["spent"]["tool_calls"] == 1
    assert result["spent"]["model_calls"] == 12


def test_where_a_person_ends_it_nothing_is_sampled(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(loop=[looks_up(1)], approve=["lookup"], checkpointer=saver)
        (asked,) = pending(graph.invoke(question(ASKED), thread()))
        decision = {"decision": "reject", "reason": "no", "stop": True}
        result = graph.invoke(Command(resume={asked.id: decision}), thread())
    assert_ended(result, "rejected")
    assert sampled(model) == []


@pytest.mark.parametrize("first", ["react", "samples"])
def test_a_run_that_a_limit_ended_goes_on_where_it_was(first: Any, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        model, graph = hybrid(
            ["Rome"] * 5 + ["Paris"], [looks_up(1)], first=first, limits=Limits(steps=1), checkpointer=saver
        )
        ended = graph.invoke(question(ASKED), thread())
        assert ended["stop"]["reason"] == "step_limit"
        before = len(model.requests)
        with pytest.raises(ValueError, match="the limit is the same"):
            graph.invoke({"messages": []}, thread())
        result = graph.invoke({"messages": []}, thread(), context=Context(steps=20))
    assert_ended(result, "final")
    assert result["branch"] == "samples"
    assert len(sampled(model)) == 16  # none is drawn twice
    assert not any("The run ends here" in text for text in texts(result["messages"]))
    if first == "react":
        asked = model.requests[before].messages  # the loop sees what it did
        assert texts(asked)[:3] == [ASKED, "thought 1", "n1 is in the book on page 2."]


@both_ways
def test_another_question_on_the_thread(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        script = Script(loop=[looks_up(1)])
        graph = create_hybrid_graph(script.model(), [lookup], react_steps=1, checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        script.loop = [looks_up(1), "Rome."]
        result = graph.invoke(question("And of Italy?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "Rome."
    assert result["branch"] == "react"
    assert result["votes"] is None
    assert cost(result) == [("react", "final", 1, 1)]


def test_after_a_crash_in_the_vote_the_loop_is_not_run_again(tmp_path: Path) -> None:
    class Crash(BaseException):
        pass

    model = Script(["Paris", Crash(), "Paris"]).model()
    with checkpoints.open(f"sqlite:///{tmp_path / 'hybrid.db'}") as saver:
        graph = create_hybrid_graph(model, [lookup], react_steps=2, samples=5, checkpointer=saver)
        with pytest.raises(Crash):
            graph.invoke(question(ASKED), {**thread(), **IN_ORDER})
        assert len(model.requests) == 2 + 3
        result = graph.invoke(None, {**thread(), **IN_ORDER})
    assert_ended(result, "final")
    assert len(model.requests) == 2 + 3 + 1
    assert result["votes"]["of"] == 3
    assert cost(result)[0] == ("react", "step_limit", 2, 2)
