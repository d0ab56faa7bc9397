"""A thread that has outgrown its model's window and is pruned goes on as if nothing had been deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from checkpoint_support import Stored
from langchain_core.messages import AIMessage
from window_support import Endpoint, search, wire

from taograph import Context, Limits, checkpoints, create_react_graph

WINDOW = Context(window=4096)
TASK = "Look at all items, and say which is the QUICKEST."
SUMMARY = "Foxes were found, all of them quick and brown."


def at(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1000}


def made(endpoint: Endpoint, saver: Any, steps: int) -> Any:
    return create_react_graph(endpoint.model, [search], limits=Limits(steps=steps, seconds=None), checkpointer=saver)


def outgrow(saver: Any, thread: str, steps: int) -> Endpoint:
    """Take so many steps for a task that takes more: the window is full by then."""
    endpoint = Endpoint(1000, 4096, summary=SUMMARY)
    result = made(endpoint, saver, steps).invoke({"messages": [("user", TASK)]}, at(thread), context=WINDOW)
    assert result["stop"]["reason"] == "step_limit"
    assert endpoint.summaries
    return endpoint


def go_on(saver: Any, thread: str, question: str | None) -> list[str]:
    """Ask something else, or go on with what a limit stopped; what was sent for it."""

    def named(turn: int, reply: AIMessage) -> AIMessage:  # ids of calls count up in the process, and are sent
        calls = [{**each, "id": f"{len(question or '')}-{turn}"} for each in reply.tool_calls]
        return reply.model_copy(update={"tool_calls": calls})

    endpoint = Endpoint(25, 4096, summary="And more foxes.", wrap=named)
    given = [] if question is None else [("user", question)]
    result = made(endpoint, saver, 100).invoke({"messages": given}, at(thread), context=WINDOW)
    assert result["answer"] == "The answer."
    assert endpoint.summaries, "a plan follows the one that was stored"
    return [wire(request.messages) for request in endpoint.model.requests]


def plan_of(saver: Any, thread: str) -> Any:
    return made(Endpoint(0), saver, 1).get_state(at(thread)).values["window"]


# One after a summary, and one with a plan that was stored some steps before the last checkpoint.
@pytest.mark.parametrize(("steps", "question"), [(60, "And the SECOND?"), (71, None)])
def test_a_pruned_thread_sends_what_a_whole_one_sends(url: str, question: str | None, steps: int) -> None:
    with checkpoints.open(url) as saver:
        outgrow(saver, "pruned", steps)
        plan = plan_of(saver, "pruned")
        assert plan["through"] > 0
        assert plan["summary"] == SUMMARY
        checkpoints.fork(saver, "pruned", "whole")
        before = datetime.now(UTC)
        expected = go_on(saver, "whole", question)
        done = checkpoints.prune(saver, before, keep_latest=True)
        assert done.shortened == ("pruned",)
        assert plan_of(saver, "pruned") == plan
        assert SUMMARY in expected[0]
        assert go_on(saver, "pruned", question) == expected
        # Once more, where what was kept is the ground for what came since.
        expected = go_on(saver, "whole", "And the THIRD?")
        plan = plan_of(saver, "pruned")
        assert checkpoints.prune(saver, timedelta(0), keep_latest=True).shortened
        assert plan_of(saver, "pruned") == plan
        assert go_on(saver, "pruned", "And the THIRD?") == expected


def test_a_deleted_thread_leaves_no_summary(url: str, stored: Stored) -> None:
    with checkpoints.open(url) as saver:
        begun = wire(outgrow(saver, "gone", 60).model.requests[0].messages)
        assert checkpoints.delete(saver, "gone")
        assert not made(Endpoint(0), saver, 1).get_state(at("gone")).values
        with saver.transaction() as execute:
            for table in [*saver.tables, *saver.own_tables(execute)]:
                assert execute(f"SELECT count(*) FROM {table} WHERE thread_id = ?", "gone") == [(0,)]
        again = outgrow(saver, "gone", 60)
        assert wire(again.model.requests[0].messages) == begun, "as if it had never been"
        assert checkpoints.delete(saver, "gone")
    if url.startswith("sqlite"):  # a server overwrites in its own time
        assert SUMMARY.encode() not in stored()
