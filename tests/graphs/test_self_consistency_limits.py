"""Self-consistency: limits, threads, and what is left after a crash."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from support import Way, assert_ended, both_ways, python_process, question, run, thread
from vote_support import (
    ASKED,
    IN_ORDER,
    Script,
    thinks,
)

from taograph import Cancellation, Context, Limits, checkpoints
from taograph.graphs.self_consistency import create_self_consistency_graph
from taograph.models import ScriptedModel
from taograph.models.prices import FlatPrice, set_price

SPLIT = ["Paris"] * 6 + ["Rome"] * 5 + ["Paris"]


def voting(said: Any = ("Paris",), **options: Any) -> tuple[ScriptedModel, Any]:
    usage = options.pop("usage", None)
    model = Script(said).model(usage=usage)
    return model, create_self_consistency_graph(model, **options)


# Limits


def test_a_vote_that_is_settled_needs_no_further_step() -> None:
    model, graph = voting(limits=Limits(steps=1))
    assert_ended(graph.invoke(question(ASKED)), "final", model)


def test_at_the_step_limit_the_answer_is_what_leads() -> None:
    model, graph = voting(SPLIT, limits=Limits(steps=1))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "step_limit", model)
    assert result["answer"] == "Paris"
    assert len(model.requests) == 11
    assert result["votes"]["share"] == 6 / 11


def test_tokens_bound_how_many_are_drawn_at_once() -> None:
    model, graph = voting(SPLIT, limits=Limits(tokens=400), usage=(20, 10))
    result = graph.invoke(question(ASKED))
    assert_ended(result, "token_limit", model)
    assert result["answer"] == "Paris"
    spent = result["spent"]["input_tokens"] + result["spent"]["output_tokens"]
    assert spent <= 400 + 10 * 11  # what the model writes is not known before the first wave
    assert result["spent"]["model_calls"] == len(model.requests) < 16


def test_dollars_bound_how_many_are_drawn_at_once() -> None:
    set_price("priced-sampler", FlatPrice(input=10.0, output=10.0))
    model = Script(SPLIT).model(usage=(500, 500), model_name="priced-sampler")
    result = create_self_consistency_graph(model, limits=Limits(cost=0.1)).invoke(question(ASKED))
    assert_ended(result, "cost_limit", model)
    assert result["answer"] == "Paris"
    assert len(model.requests) < 16


@both_ways
def test_at_the_deadline_those_that_came_vote(way: Way) -> None:
    release = threading.Event()

    class Slow(ScriptedModel):
        asked: int = 0

        def _generate(self, *given: Any, **options: Any) -> Any:
            self.asked += 1
            if self.asked > 3:
                release.wait(20)
            return super()._generate(*given, **options)

        async def _agenerate(self, *given: Any, **options: Any) -> Any:
            self.asked += 1
            if self.asked > 3:
                await asyncio.sleep(20)
            return super()._generate(*given, **options)

    model = Slow(replies=[thinks("Paris")], repeat=True)
    graph = create_self_consistency_graph(model, limits=Limits(seconds=0.5, reserve_seconds=0.0))
    try:
        result = run(way, graph, question(ASKED))
    finally:
        release.set()
    assert_ended(result, "deadline")
    assert result["answer"] == "Paris"
    assert result["votes"]["count"] == 3
    assert result["votes"]["failed"] == 8


def test_a_cancelled_vote_says_so() -> None:
    cancel = Cancellation()

    def stops(messages: list[BaseMessage]) -> str:
        cancel.request("enough")
        return thinks("Paris")

    model, graph = voting([*["Rome"] * 2, stops, "Paris"])
    with cancel:
        result = graph.invoke(question(ASKED), IN_ORDER)
    assert_ended(result, "cancelled")
    assert "enough" in result["stop"]["detail"]
    assert result["answer"] == "Rome"
    assert len(model.requests) == 3


@pytest.mark.parametrize("limit", range(2, 12))
@both_ways
def test_no_recursion_limit_raises(way: Way, limit: int) -> None:
    model, graph = voting(SPLIT)
    result = run(way, graph, question(ASKED), {"recursion_limit": limit})
    assert_ended(result, "final" if limit >= 6 else "step_limit", model)


# Threads


def test_a_run_that_a_limit_ended_goes_on_with_the_samples_it_has(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'votes.db'}") as saver:
        model, graph = voting(SPLIT, limits=Limits(steps=1), checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        with pytest.raises(ValueError, match="the limit is the same"):
            graph.invoke({"messages": []}, thread())
        result = graph.invoke({"messages": []}, thread(), context=Context(steps=5))
    assert_ended(result, "final", model)
    assert len(model.requests) == 16
    assert [str(message.text) for message in result["messages"]] == [ASKED, "Paris"]
    assert result["votes"]["of"] == 16


def test_what_failed_is_drawn_again_when_a_run_goes_on(tmp_path: Path) -> None:
    script = Script([ValueError("down")])
    model = script.model()
    with checkpoints.open(f"sqlite:///{tmp_path / 'votes.db'}") as saver:
        graph = create_self_consistency_graph(model, samples=3, checkpointer=saver)
        assert graph.invoke(question(ASKED), thread())["stop"]["reason"] == "model_error"
        script.samples = ["Paris"]
        result = graph.invoke({"messages": []}, thread())
    assert_ended(result, "final")
    assert result["votes"]["of"] == result["votes"]["drawn"] == 2


@both_ways
def test_another_question_on_the_thread_has_a_vote_of_its_own(way: Way, tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path / 'votes.db'}") as saver:
        script = Script(["Paris"])
        model = script.model()
        graph = create_self_consistency_graph(model, samples=3, checkpointer=saver)
        graph.invoke(question(ASKED), thread())
        script.samples = ["Rome"]
        result = graph.invoke(question("And of Italy?"), thread())
    assert_ended(result, "final")
    assert result["answer"] == "Rome"
    assert result["votes"]["table"] == [{"answer": "Rome", "count": 2}]
    assert result["spent"]["model_calls"] == 2
    assert [str(m.text) for m in model.requests[-1].messages][:2] == [ASKED, "Paris"]


def test_after_a_crash_what_was_paid_for_is_not_asked_again(tmp_path: Path) -> None:
    class Crash(BaseException):
        pass

    script = Script(["Paris", "Paris", Crash(), "Paris"])
    model = script.model()
    with checkpoints.open(f"sqlite:///{tmp_path / 'votes.db'}") as saver:
        graph = create_self_consistency_graph(model, samples=5, checkpointer=saver)
        with pytest.raises(Crash):
            graph.invoke(question(ASKED), {**thread(), **IN_ORDER})
        assert len(model.requests) == 3
        result = graph.invoke(None, {**thread(), **IN_ORDER})
    assert_ended(result, "final")
    assert len(model.requests) == 4
    assert result["votes"]["of"] == 3


def test_what_is_stored_is_read_back_where_only_plain_values_are() -> None:
    done = python_process(
        """
        from taograph import checkpoints, Limits, Context
        from taograph.graphs.self_consistency import create_self_consistency_graph
        from taograph.models import ScriptedModel
        replies = ["Final Answer: Paris"] * 6 + ["Final Answer: Rome"] * 5 + ["Final Answer: Paris"] * 5
        with checkpoints.open("sqlite://") as saver:
            graph = create_self_consistency_graph(
                ScriptedModel(replies=replies), limits=Limits(steps=1), checkpointer=saver
            )
            config = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
            graph.invoke({"messages": [("user", "Where?")]}, config)
            result = graph.invoke({"messages": []}, config, context=Context(steps=3))
            print(result["answer"], result["votes"]["count"], result["stop"]["reason"])
        """,
        LANGGRAPH_STRICT_MSGPACK="true",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Paris", "11", "final"]
