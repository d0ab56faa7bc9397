"""`tao run --graph plan_execute`: the plan in the terminal, and limits that are the strategy's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Reply

PLANS = Reply(
    calls=[("Plan", {"steps": [{"id": 1, "task": "add", "needs": []}, {"id": 2, "task": "double it", "needs": [1]}]})]
)
ANSWERS = Reply(calls=[("AnswerOrPlan", {"answer": "It is 8."})])


def test_a_plan_and_its_steps_are_told(tao: Any) -> None:
    with FakeOpenAI([PLANS, "The sum is 4.", "Doubled, 8.", ANSWERS]) as server:
        done = tao("run", "Twice 2+2?", "--graph", "plan_execute", "--model", f"{server.url}#fake")
    assert done.code == 0, done.out + done.err
    lines = done.out.splitlines()
    assert "Limits: 50 steps, 900 s" in lines
    for line in ("Plan: 1. [running] add", "Plan: 1. [done] add", "Plan: 2. [done] double it", "Answer: It is 8."):
        assert line in lines, done.out


@pytest.mark.parametrize(("given", "limits"), [([], (50, 900.0)), (["--steps", "7"], (7, 900.0))])
def test_a_limit_that_is_not_said_is_the_strategys_own(tao: Any, given: list[str], limits: tuple[int, float]) -> None:
    with FakeOpenAI([PLANS, "The sum is 4.", "Doubled, 8.", ANSWERS]) as server:
        options = ["--graph", "plan_execute", "--model", f"{server.url}#fake", "--json", *given]
        done = tao("run", "Twice 2+2?", *options)
    told = [json.loads(line) for line in done.out.splitlines()]
    assert (told[0]["limits"]["steps"], told[0]["limits"]["seconds"]) == limits
    assert told[-1]["text"] == "It is 8."


def test_a_thread_shows_what_each_step_was(tao: Any) -> None:
    with FakeOpenAI([PLANS, "The sum is 4.", "Doubled, 8.", ANSWERS]) as server:
        options = ["--graph", "plan_execute", "--model", f"{server.url}#fake", "--thread", "sums"]
        assert tao("run", "Twice 2+2?", *options).code == 0
    shown = tao("threads", "show", "sums").out.splitlines()
    told = [
        "Instructions: Step 1: add",
        "Thought: The sum is 4.",
        "Instructions: Step 2: double it",
        "Answer: It is 8.",
    ]
    assert [line for line in shown if line in told] == told
    assert not any(line.startswith("Again: step") for line in shown)
