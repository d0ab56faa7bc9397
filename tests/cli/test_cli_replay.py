"""`tao replay`: what it prints, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_runs import FAILS, LOOKS, SENDS, Runs, broken, look, send

from taograph import trace
from taograph.models import ScriptedModel

AGENT = """
from langchain.agents import create_agent
from taograph.models import ScriptedModel

agent = create_agent(ScriptedModel(replies=["never said"]), [])


def make(model, tools):
    return create_agent(model, tools)


nothing = 3
"""


@pytest.fixture
def runs(tao: Any, tmp_path: Path) -> Runs:
    """Where runs are recorded that the command finds."""
    return Runs(tmp_path)


def test_a_run_that_comes_to_the_same(tao: Any, runs: Runs) -> None:
    runs.record(FAILS, "It is 1.")
    done = tao("replay")
    assert done.code == 0
    head, verdict = done.out.splitlines()
    assert head.startswith("Run: ")
    assert head.endswith(" · react")
    assert verdict == "Same: 2 steps, 2 of 2 recorded replies used; nothing differs from the record."
    assert done.err == ""


def test_what_the_replay_did_is_shown_if_wanted(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    out = tao("replay", "last", "-v").out
    assert "Thought 1: I look.\n" in out
    assert "Action 1: look(x=1)\n" in out
    assert "Observation 1: saw 1\n" in out
    assert "Answer: It is 1.\n" in out


def test_what_would_have_happened_up_to_where_the_record_ends(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, FAILS, "It is 1.")
    done = tao("replay", "--change", "limits.steps=1")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        "Change: limits.steps=1",
        "Question: What is there?",
        "Thought 1: I look.",
        "Action 1: look(x=1)",
        "Observation 1: saw 1",
        "The run would end there: stopped by the step limit (1 of 1 steps used).",
        "The record covers 1 of the 3 steps (1 of 3 recorded replies used): its closing answer is not recorded, so "
        "what it would be is not known.",
    ]
    done = tao("replay", "--change", "observation:1.1=saw\x1b[31m nothing")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert done.out.splitlines()[-1] == (
        "The record covers 1 of the 3 steps (1 of 3 recorded replies used); at step 2 the request differs: what it "
        "repeats of earlier calls and results is not what was recorded."
    )


def test_a_change_that_ends_the_run_is_covered_whole(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, FAILS, "It is 1.")
    done = tao("replay", "-c", "reply:2=It is 2.")
    assert done.code == 1
    lines = done.out.splitlines()
    assert "Answer: It is 2." in lines
    assert lines[-4].startswith("Differs first at step 2: ")
    assert lines[-1] == "The record covers the whole of it: 2 of 3 recorded replies used."


def test_a_change_without_effect(tao: Any, runs: Runs) -> None:
    runs.record("It is 1.")
    done = tao("replay", "-c", "limits.steps=9", "-c", "observation:4.1=x")
    assert done.code == 0
    assert done.out.splitlines()[-2:] == [
        "Same: 1 step, 1 of 1 recorded reply used; the change makes no difference.",
        "Note: observation:4.1=x did not come into play",
    ]


def test_a_run_that_waited_for_a_person(tao: Any, runs: Runs) -> None:
    runs.record(SENDS, "Sent.", thread="ada", tools=(send,), approve="send", answers=["approve"])
    assert tao("replay").code == 0


def test_it_is_told_as_json(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    same = json.loads(tao("replay", "--json").out)
    assert (same["outcome"], same["answer"], same["difference"], same["uncovered"]) == ("same", "It is 1.", None, None)
    done = tao("replay", "--json", "-c", "system_prompt=Hi.")
    assert done.code == 1
    told = json.loads(done.out)
    assert told["uncovered"] == {"step": 1, "task": ["reason"], "why": "a message of the system was not sent: 'Hi.'"}
    assert told["turns"] == {"recorded": 2, "covered": 0}


def test_a_graph_of_somebody_else_is_named(tao: Any, runs: Runs, tmp_path: Path) -> None:
    from langchain.agents import create_agent

    agent = trace.record(create_agent(ScriptedModel(replies=["Hello."]), []), to=runs.url)
    agent.invoke({"messages": [("user", "Hi.")]})
    for writer in trace._writers.values():
        writer.flush()
    done = tao("replay")
    assert done.code == 2
    assert "the record does not say what 'LangGraph' is made of" in done.err
    assert "--graph module:object" in done.err
    file = tmp_path / "my_agent.py"
    file.write_text(AGENT, encoding="utf-8")
    for name in ("agent", "make"):
        done = tao("replay", "--graph", f"{file}:{name}")
        assert done.code == 0, done.err
        assert "Same: 1 step" in done.out
    for name, said in (("agents", "there is no 'agents'"), ("nothing", "give a graph, or a function that makes it")):
        done = tao("replay", "--graph", f"{file}:{name}")
        assert done.code == 2
        assert said in done.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("nope5",), "no run is called 'nope5'"),
        (("--change", "foo=1"), "'foo' cannot be changed: write limits.NAME=VALUE"),
        (("--change", "limits.steps=x"), "give a number, or none for no limit"),
        (("--graph", "agent"), "name it as module:object"),
        (("--trace", "sqlite:///nowhere/at_all.db"), "there is no trace at sqlite:///nowhere/at_all.db"),
    ],
)
def test_what_can_not_be_done_says_why(tao: Any, runs: Runs, more: tuple[str, ...], said: str) -> None:
    runs.record("It is 1.")
    done = tao("replay", *more)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_without_a_record(tao: Any) -> None:
    done = tao("replay")
    assert done.code == 2
    assert "no run has been recorded yet" in done.err


def test_a_record_without_content(tao: Any, runs: Runs) -> None:
    from taograph import create_react_graph

    graph = trace.record(
        create_react_graph(ScriptedModel(replies=["Yes."]), [look, broken]), to=runs.url, content=False
    )
    graph.invoke({"messages": [("user", "Hi.")]})
    for writer in trace._writers.values():
        writer.flush()
    done = tao("replay")
    assert done.code == 2
    assert "was not recorded (content=False)" in done.err
