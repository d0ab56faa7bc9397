"""`tao trace list`, `show` and `export`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_support import Terminal
from fake_openai_server import FakeOpenAI
from jsonschema import Draft202012Validator
from postgres_server import Unavailable, running
from trace_runs import FAILS, LOOKS, SENDS, Runs, send

from taograph.graphs.hybrid import create_hybrid_graph
from taograph.graphs.self_consistency import create_self_consistency_graph
from taograph.trace.exporting import schema


@pytest.fixture
def runs(tao: Any, tmp_path: Path) -> Runs:
    """Where runs are recorded that the command finds."""
    return Runs(tmp_path)


def listed(tao: Any, *more: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tao("trace", "list", "--json", *more).out.splitlines()]


# list


def test_runs_are_listed_the_last_one_first(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.", question="First?\nWith two lines.")
    runs.record(SENDS, question="Second?", thread="ada", tools=(send,), approve="send")
    for command in (["trace"], ["trace", "list"]):
        lines = tao(*command).out.splitlines()
        assert lines[0].split() == ["run", "began", "graph", "steps", "outcome", "question"]
        assert re.search(r"react +1 +waits for a person +Second\?$", lines[1])
        assert re.search(r"react +2 +answered +First\? With two lines\.$", lines[2])
        assert len(lines) == 3


def test_runs_are_chosen_by_thread_graph_and_time(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.", thread="ada")
    runs.record(LOOKS, "It is 1.", make=create_hybrid_graph)
    assert [each["graph"] for each in listed(tao)] == ["hybrid", "react"]
    assert [each["graph"] for each in listed(tao, "--thread", "ada")] == ["react"]
    assert [each["graph"] for each in listed(tao, "--graph", "hybrid")] == ["hybrid"]
    for since, count in (("1h", 2), ("2d", 2), ("2020-01-01", 2), ("2999-01-01", 0)):
        assert len(listed(tao, "--since", since)) == count
    done = tao("trace", "list", "--since", "yesterday")
    assert done.code == 2
    assert "write a day, 2026-11-30, or an age" in done.err


def test_only_the_last_20_are_listed_unless_all_are_asked_for(tao: Any, runs: Runs) -> None:
    for _ in range(22):
        runs.record("Yes.")
    assert len(listed(tao)) == 20
    assert tao("trace", "list").out.endswith("\n2 more runs: tao trace list --all\n")
    assert len(listed(tao, "--all")) == 22


def test_nothing_to_list_is_no_error(tao: Any, tmp_path: Path) -> None:
    done = tao("trace", "list")
    assert (done.code, done.out) == (0, "")
    assert "No run has been recorded yet" in done.err
    assert not (tmp_path / "data").exists(), "looking makes no file"
    done = tao("trace", "show")
    assert done.code == 1
    assert "no run has been recorded yet" in done.err
    done = tao("trace", "list", "--trace", f"sqlite:///{tmp_path}/none.db")
    assert done.code == 1
    assert "there is no trace at" in done.err


# show


def without_head(out: str) -> list[str]:
    lines = out.splitlines()
    return lines[next(place for place, line in enumerate(lines) if line.startswith("Question")) :]


def test_a_run_reads_like_the_papers_trajectories(tao: Any, runs: Runs) -> None:
    runs.record(FAILS, "", "It is 1.", thread="ada", user="u1")
    done = tao("trace", "show")
    lines = done.out.splitlines()
    assert re.match(r"Run: [0-9a-f]{32} · react · answered · 3 steps · 20", lines[0])
    assert lines[1] == "Of: thread ada · user u1"
    assert lines[2:4] == ["Model: scripted", "Limits: 15 steps, 300 s"]
    assert sorted(lines[7:13]) == sorted(
        [
            "Action 1b: broken(x=2)",
            "Observation 1a: saw 1",
            "Failed 1b: broken: RuntimeError: the disk said no",
            "Observation 1b (error): broken failed (RuntimeError). Try other arguments, or another tool.",
            "Again 2: empty output: an empty reply",
            "Answer: It is 1.",
        ]
    )
    assert lines[4:7] == ["Question: What is there?", "Thought 1: I try both.", "Action 1a: look(x=1)"]
    assert lines[13] == "Stop: final answer at step 3"
    assert re.match(r"Cost: 3 model calls · 2 tool calls · 102 tokens \(90 in; 12 out\) · ", lines[14])
    assert len(lines) == 15


def test_approvals_are_told_and_the_call_only_once(tao: Any, runs: Runs) -> None:
    answer = {"decision": "edit", "args": {"to": "Bob"}, "by": "Eve"}
    runs.record(SENDS, "Sent.", thread="ada", tools=(send,), approve="send", answers=[answer])
    lines = without_head(tao("trace", "show").out)
    assert lines[1:4] == [
        "Thought 1: I send.",
        'Action 1: send(to="Ada")',
        'Waits: Run send? Send a letter. send(to="Ada")',
    ]
    assert lines[4].startswith("Going on: 20")
    assert lines[5] == 'Approved 1: send(to="Bob"), changed by Eve'
    assert lines[6].startswith("Observation 1: [A person changed the arguments")
    assert lines[7] == "    sent to Bob"
    assert lines[8:10] == ["Answer: Sent.", "Stop: final answer at step 2"]


def test_one_of_two_calls_of_a_run_is_shown_by_its_own_id(tao: Any, runs: Runs) -> None:
    runs.record(SENDS, "No.", thread="ada", tools=(send,), approve="send", answers=[{"decision": "reject"}])
    (found,) = listed(tao)
    assert "Waits" in tao("trace", "show", found["run"][:12]).out
    shown = tao("trace", "show", found["traces"][1]).out
    assert "Waits" not in shown
    assert "Rejected 1: send" in shown


def test_nested_runs_are_indented_with_their_path(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.", make=create_hybrid_graph)
    assert without_head(tao("trace", "show").out)[1:-1] == [
        "↳ react: What is there?",
        "  Thought 1: I look.",
        "  Action 1: look(x=1)",
        "  Observation 1: saw 1",
        "  Answer: It is 1.",
        "  Stop: final: the model answered",
        "Answer: It is 1.",
        "Stop: final answer at step 2",
    ]


def test_votes_and_the_replies_that_nothing_else_tells(tao: Any, runs: Runs) -> None:
    replies = ["Five. The answer is 5.", *["Well. The answer is 4."] * 20]
    runs.record(*replies, question="2+2?", make=create_self_consistency_graph, tools=())
    lines = without_head(tao("trace", "show").out)
    assert "Reply 1: Five. The answer is 5." in lines
    assert any(line.startswith("Votes") for line in lines)
    assert sum(line.startswith("Reply") for line in lines) == 1, "what the answer tells is not told twice"
    assert lines[-3].startswith("Answer: ")


def test_what_models_and_tools_wrote_is_data(tao: Any, runs: Runs) -> None:
    runs.record("\x1b[31mYes.\nThought 2: no line of ours\x07")
    shown = tao("trace", "show").out
    assert "Answer: Yes.\n    Thought 2: no line of ours\n" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_long_texts_are_shortened_unless_all_is_asked_for(tao: Any, runs: Runs) -> None:
    long = "\n".join(f"line {n}" for n in range(100))
    runs.record(LOOKS.model_copy(update={"content": long}), "Yes.")
    assert "line 99" not in tao("trace", "show").out
    shown = tao("trace", "show", "-v").out
    assert "line 99" in shown
    assert "Model 1: scripted; messages 1, characters 14, tools 3" in shown
    assert "Model 1: replied after" in shown


def test_all_runs_of_a_thread(tao: Any, runs: Runs) -> None:
    runs.record("One.", thread="ada")
    runs.record("Other.", thread="bob")
    runs.record("Two.", thread="ada")
    shown = tao("trace", "show", "--thread", "ada").out
    assert re.findall("Answer: (.*)", shown) == ["One.", "Two."]
    assert re.findall("Answer: (.*)", tao("trace", "show", "last", "--thread", "bob").out) == ["Other."]
    done = tao("trace", "show", "--thread", "eve")
    assert done.code == 2
    assert "no run of thread 'eve'" in done.err


def test_a_run_that_is_not_there_or_not_the_only_one(tao: Any, runs: Runs) -> None:
    runs.record("One.")
    runs.record("Two.")
    one, two = listed(tao)
    for given, said in (("beef", "no run is called"), ("a", "too short"), (one["traces"][0][:8], "any of 2 runs")):
        done = tao("trace", "show", given)
        assert done.code == 2
        assert said in done.err
    assert one["traces"][0] in done.err
    assert two["traces"][0] in done.err


def test_show_as_json(tao: Any, runs: Runs) -> None:
    runs.record(LOOKS, "It is 1.")
    found = json.loads(tao("trace", "show", "--json").out)
    assert (found["state"], found["answer"], found["tools"]) == ("answered", "It is 1.", {"look": 1})
    assert [event["type"] for event in found["events"]][:2] == ["run_started", "model_asked"]
    assert all(event["hash"] for event in found["events"])


def test_a_run_that_was_cut_off_says_so(tao: Any, runs: Runs, tmp_path: Path) -> None:
    import sqlite3

    runs.record(LOOKS, "It is 1.")
    with sqlite3.connect(tmp_path / "data" / "traces.sqlite") as connection:
        connection.execute("DELETE FROM taograph_trace_events WHERE type IN ('stop', 'answer', 'run_ended')")
    assert listed(tao)[0]["state"] == "open"
    assert "Stop: without an end: it runs, or was cut off" in tao("trace", "show").out
    assert "no end recorded" in tao("trace", "list").out


# export


def test_json_lines_are_events_by_the_schema(tao: Any, runs: Runs) -> None:
    runs.record(FAILS, "It is 1.")
    runs.record("Two.", thread="ada")
    valid = Draft202012Validator(schema())
    events = [json.loads(line) for line in tao("trace", "export", "--all").out.splitlines()]
    for event in events:
        valid.validate(event)
    assert len({event["trace"] for event in events}) == 2
    for trace in {event["trace"] for event in events}:
        numbers = [event["seq"] for event in events if event["trace"] == trace]
        assert numbers == [*range(1, len(numbers) + 1)]
    of_last = [json.loads(line) for line in tao("trace", "export").out.splitlines()]
    assert of_last == [event for event in events if event["content"]["thread"] == "ada"]
    of_thread = [json.loads(line) for line in tao("trace", "export", "--thread", "ada").out.splitlines()]
    assert of_thread == of_last


def test_a_report_in_markdown_holds_what_is_in_it(tao: Any, runs: Runs, tmp_path: Path) -> None:
    runs.record("Yes *now*.\n# No heading\n```\nno fence\n<script>", question="A | B?", thread="ada")
    file = tmp_path / "report.md"
    done = tao("trace", "export", "--format", "markdown", "-o", str(file))
    assert (done.code, done.out) == (0, "")
    assert file.stat().st_mode & 0o077 == 0
    text = file.read_text("utf-8")
    (found,) = listed(tao)
    assert text.startswith(f"# Run {found['run']}\n")
    assert "| Question | A \\| B? |" in text
    assert "- **Answer**:\n\n  ````text\n  Yes *now*.\n  # No heading\n  ```\n  no fence\n  <script>\n  ````\n" in text
    assert f"| {found['traces'][0]} |" in text
    done = tao("trace", "export", "-o", str(file))
    assert done.code == 2
    assert "is there already" in done.err


def test_wrong_use_of_export(tao: Any, runs: Runs) -> None:
    runs.record("Yes.")
    done = tao("trace", "export", "--format", "word")
    assert done.code == 2
    assert "one of jsonl, markdown" in done.err
    assert tao("trace", "export", "last", "--all").code == 2


# A terminal, and another database


def test_a_terminal_has_a_run_a_line_and_long_texts_with_their_indentation(
    tao: Any, runs: Runs, tmp_path: Path
) -> None:
    long = " ".join(["word"] * 40)
    runs.record(LOOKS.model_copy(update={"content": long}), "Yes.", question=long, make=create_hybrid_graph)
    with Terminal("trace", "list", home=tmp_path) as terminal:
        assert terminal.wait() == 0
        lines = terminal.text.splitlines()
    assert len(lines) == 2
    assert lines[1].rstrip().endswith("…")
    assert max(map(len, lines)) <= 100
    with Terminal("trace", "show", home=tmp_path) as terminal:
        assert terminal.wait() == 0
        shown = [line.rstrip() for line in terminal.text.splitlines()]
    start = next(place for place, line in enumerate(shown) if line.startswith("  Thought 1: word"))
    assert shown[start + 1].startswith("      word")
    assert max(map(len, shown)) <= 100
    assert "  Action 1: look(x=1)" in shown


def test_traces_on_postgresql(tao: Any) -> None:
    pytest.importorskip("psycopg_pool", reason="needs taograph[postgres]")
    try:
        with running() as server, FakeOpenAI(default="Yes.") as fake:
            url = server.url()
            done = tao("run", "q", "-m", f"{fake.url}#fake", "--trace", url, "-v")
            assert (done.code, done.err.count("\n")) == (0, 1)
            assert [each["answer"] for each in listed(tao, "--trace", url)] == ["Yes."]
            for command in (("show",), ("stats",), ("verify",), ("export",), ("erase", "last", "--yes"), ("verify",)):
                assert tao("trace", *command, "--trace", url).code == 0, command
            assert [each["state"] for each in listed(tao, "--trace", url)] == ["erased"]
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")
