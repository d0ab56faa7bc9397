"""`tao trace diff` and `tao trace stats`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from trace_runs import FAILS, LOOKS, Runs

from taograph.graphs.hybrid import create_hybrid_graph
from taograph.models import call

OTHER = AIMessage("I look.", tool_calls=[call("look", {"x": 2})])


@pytest.fixture
def runs(tao: Any, tmp_path: Path) -> Runs:
    """Where runs are recorded that the command finds."""
    return Runs(tmp_path)


def names(tao: Any) -> list[str]:
    """Ids of the runs, the oldest first."""
    return [json.loads(line)["run"] for line in tao("trace", "list", "--json").out.splitlines()][::-1]


def diff(tao: Any, *more: str) -> dict[str, Any]:
    done = tao("trace", "diff", *names(tao), "--json", *more)
    found: dict[str, Any] = json.loads(done.out)
    assert done.code == (0 if found["same"] else 1)
    return found


# diff


def test_the_same_run_twice(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    runs.record(LOOKS, "It is 1.")
    assert diff(tao)["same"]
    done = tao("trace", "diff", *names(tao))
    assert done.code == 0
    assert "The same, from the question to the end: 1 step.\n" in done.out


@pytest.mark.parametrize(
    ("replies", "question", "first", "steps"),
    [
        (["It is 1."], "Else?", ("the question", "question", "What is there?", "Else?"), (0, 0, 1, 0)),
        ([OTHER, "It is 1."], None, ("step 1", "action", "look(x=1)", "look(x=2)"), (0, 1, 0, 0)),
        (
            [LOOKS.model_copy(update={"content": "Well."}), "It is 1."],
            None,
            ("step 1", "thought", "I look.", "Well."),
            (0, 1, 0, 0),
        ),
        ([LOOKS, "It is 2."], None, ("the end", "answer", "It is 1.", "It is 2."), (1, 0, 0, 0)),
        (
            [OTHER, LOOKS, "It is 1."],
            None,
            ("step 1", "step", None, "Thought: I look.\nAction: look(x=2)\nObservation: saw 2"),
            (1, 0, 0, 1),
        ),
    ],
)
def test_where_runs_first_differ(
    tao: Any, runs: Runs, replies: list[Any], question: str | None, first: Any, steps: Any
) -> None:
    runs.record(LOOKS, "It is 1.")
    runs.record(*replies, **({"question": question} if question else {}))
    found = diff(tao)
    assert tuple(found["first"][name] for name in ("where", "what", "a", "b")) == first
    assert tuple(found["steps"][name] for name in ("same", "changed", "only_a", "only_b")) == steps


def test_a_difference_reads_well(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    runs.record(OTHER, LOOKS, "It is 1.", question="Else?")
    out = tao("trace", "diff", *names(tao)).out
    assert "First difference: the question\n  A: What is there?\n  B: Else?\n" in out
    assert "Then: step 1, which only B has\n  A: nothing\n  B: Thought: I look.\n" in out
    assert out.endswith("Steps: 1 the same, 0 changed, 0 only in A, 1 only in B.\n")
    more = tao("trace", "diff", *names(tao), "-v").out
    assert "step 1: only in B\n  B: Thought: I look.\n  B: Action: look(x=2)\n" in more


def test_nested_runs_are_compared_in_their_place(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.", make=create_hybrid_graph)
    runs.record(OTHER, "It is 1.", make=create_hybrid_graph)
    found = diff(tao)
    assert found["first"] == {"where": "react", "what": "nested action", "a": "look(x=1)", "b": "look(x=2)"}
    assert found["steps"] == {"same": 0, "changed": 1, "only_a": 0, "only_b": 0}


# stats


def test_figures_over_runs(tao: Any, runs: Runs) -> None:
    runs.record(FAILS, "It is 1.")
    runs.record(LOOKS, OTHER, "It is 1.", thread="ada")
    runs.record("Yes.", thread="ada")
    found = json.loads(tao("trace", "stats", "--json").out)
    assert (found["runs"], found["states"], found["reasons"]) == (3, {"answered": 3}, {"final": 3})
    assert found["steps"] == {"median": 2, "p95": 2.9, "max": 3}
    assert found["tokens"] == {"median": 68, "p95": pytest.approx(98.6), "max": 102}
    assert found["totals"] == {
        "model_calls": 6,
        "tool_calls": 4,
        "input_tokens": 180,
        "output_tokens": 24,
        "cached_tokens": 0,
    }
    assert {name: (tool["calls"], tool["errors"]) for name, tool in found["tools"].items()} == {
        "look": (3, 0),
        "broken": (1, 1),
    }
    assert found["failures"] == {"RuntimeError": 1}
    assert found["seconds"]["max"] >= found["seconds"]["median"] > 0
    assert json.loads(tao("trace", "stats", "--json", "--thread", "ada").out)["runs"] == 2
    assert json.loads(tao("trace", "stats", "--json", "--graph", "hybrid").out)["runs"] == 0


def test_figures_read_well(tao: Any, runs: Runs) -> None:
    runs.record(FAILS, "It is 1.")
    out = tao("trace", "stats").out
    assert out.startswith("1 run: 1 answered\nStopped by: 1 final\nFailures: 1 RuntimeError\n")
    assert "In all: 2 model calls, 2 tool calls, 60 tokens in, 0 of them cached, 8 out, $0.00\n" in out
    assert ["steps", "2", "2", "2"] in [line.split() for line in out.splitlines()]
    assert tao("trace", "stats", "--graph", "none").out == "No such run is recorded there.\n"


def test_erased_runs_are_counted_apart(tao: Any, runs: Runs) -> None:
    runs.record("Yes.", thread="ada")
    runs.record("Yes.")
    assert tao("trace", "erase", "--thread", "ada", "--yes").code == 0
    found = json.loads(tao("trace", "stats", "--json").out)
    assert (found["runs"], found["erased"]) == (1, 1)


def test_what_cannot_be_compared_is_no_difference(tao: Any, runs: Runs, tmp_path: Path) -> None:
    runs.record(LOOKS, "It is 1.")
    assert tao("trace", "diff", "last", "nothing").code == 2
    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    done = tao("trace", "diff", "last", "last", "--trace", elsewhere)
    assert done.code == 2
    assert "there is no trace at" in done.err


def test_whether_runs_are_the_same_is_not_known_of_what_is_not_recorded(tao: Any, runs: Runs) -> None:
    runs.record("yes", content=False)
    runs.record("not", content=False)
    done = tao("trace", "diff", *names(tao))
    assert done.code == 2
    assert "can't be known: what one of them said was not recorded" in done.out
    told = json.loads(tao("trace", "diff", *names(tao), "--json").out)
    assert told["same"] is None
    assert told["first"] is None


def test_nor_of_what_was_erased(tao: Any, runs: Runs) -> None:
    runs.record("yes")
    assert tao("trace", "erase", "last", "--yes").code == 0
    done = tao("trace", "diff", "last", "last")
    assert done.code == 2
    assert "can't be known: what one of them said was erased" in done.out
