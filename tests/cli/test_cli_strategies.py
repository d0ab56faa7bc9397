"""`tao run --graph NAME` for every strategy, and calls that wait for a person in those that plan."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Reply

from taograph.graphs import STRATEGIES

ASKED = "Work out 17*3 and 9*9."
SUMS = ("17*3", "9*9")
PLAN = "\n".join([*(f"{n}. calculator({one!r})" for n, one in enumerate(SUMS, 1)), "3. join()"])
FORMS: dict[str, dict[str, Any]] = {
    "make_plan": {
        "steps": [
            {"plan": f"Work out {one}.", "id": f"#E{n}", "tool": "calculator", "args": {"expression": one}}
            for n, one in enumerate(SUMS, 1)
        ]
    },
    "Plan": {"steps": [{"id": n, "task": f"Work out {one}.", "needs": []} for n, one in enumerate(SUMS, 1)]},
    "AnswerOrPlan": {"answer": "51 and 81."},
    "route": {"route": "tools", "why": "it is a computation"},
}


def plays(body: dict[str, Any]) -> Reply:
    """A model that has both sums worked out by the tool, in whichever way it is asked."""
    tools = [one["function"]["name"] for one in body.get("tools") or ()]
    said = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
    for form, given in FORMS.items():
        if form in tools:
            return Reply(calls=[(form, given)])
    if "calculator" in tools:
        step = re.search(r"Your step: Work out (.+)\.$", "\n".join(said), re.MULTILINE)
        sums = [step[1]] if step else SUMS
        done = sum(message["role"] == "tool" for message in body["messages"])
        return Reply(calls=[("calculator", {"expression": sums[done]})]) if done < len(sums) else Reply("51 and 81.")
    return Reply(PLAN if "join(), which looks" in said[-1] else "Thought: It is so.\nFinal Answer: 51 and 81.")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_runs(tao: Any, name: str) -> None:
    with FakeOpenAI(default=plays) as server:
        done = tao("run", ASKED, "--graph", name, "--model", f"{server.url}#fake", "--tools", "calculator")
        asked = len(server.requests)
    assert done.code == 0, done.out + done.err
    lines = done.out.splitlines()
    assert lines[0] == f"Question: {ASKED}"
    assert "Answer: 51 and 81." in lines
    assert any(line.startswith("Stop: final answer at step ") for line in lines)
    assert lines[-1].startswith(f"Cost: {asked} model call{'s' * (asked > 1)} · ")
    assert "{" not in done.out, "a plan is told in words"
    calls = 0 if name in ("direct", "self_consistency") else 2
    assert len([line for line in lines if "Action: calculator(" in line]) == calls
    assert len([line for line in lines if re.search(r"Observation: (51|81)$", line)]) == calls


@pytest.mark.parametrize("name", ["plan_execute", "rewoo", "dag"])
def test_calls_side_by_side_wait_for_a_person_each(tao: Any, name: str) -> None:
    with FakeOpenAI(default=plays) as server:
        options = ["--graph", name, "--model", f"{server.url}#fake", "--tools", "calculator", "--approve", "calculator"]
        waits = tao("run", ASKED, *options, "--thread", "sums")
        assert waits.code == 4, waits.out + waits.err
        assert "waits for approval of 2 calls" in waits.out + waits.err
        first, second = re.findall(r"^ +--call (\S+)$", waits.out + waits.err, re.MULTILINE)
        once = tao("resume", "sums", "--call", first, "--approve")
        assert once.code == 4, once.out + once.err
        assert "Observation: 51" in once.out
        done = tao("resume", "sums", "--call", second, "--reject", "not that one")
    assert done.code == 0, done.out + done.err
    assert "Rejected: calculator: not that one" in done.out
    assert "Answer: 51 and 81." in done.out.splitlines()
    assert "· 1 tool call ·" in done.out
