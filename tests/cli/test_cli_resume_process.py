"""Threads across processes: approval in a terminal, SIGTERM, Ctrl-C, crashes, a thread that is in use."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_support import PATIENCE, Terminal, start
from fake_openai_server import FakeOpenAI, Hang, Reply

ADD = Reply("I add.", calls=[("calculator", {"expression": "2+2"})])
PAYS = Reply("I pay.", calls=[("pay", {"to": name}) for name in ("Ann", "Bob", "Cid")])
PAY = Reply("I pay.", calls=[("pay", {"to": "Ann"})])
TOOL = '''
import pathlib, time
from taograph.tools import tool

here = pathlib.Path(__file__)

@tool(effects="once", timeout=None)
def pay(to: str) -> str:
    """Pay somebody.

    Args:
        to: Whom.
    """
    with here.with_name("paid.txt").open("a") as file:
        file.write(f"{to}\\n")
    if here.with_name("hang").exists():
        here.with_name("hangs").touch()
        while here.with_name("hang").exists():
            time.sleep(0.02)
    return f"paid {to}"
'''


@pytest.fixture
def pay(tmp_path: Path) -> list[str]:
    (tmp_path / "money.py").write_text(TOOL)
    return ["-t", f"{tmp_path}/money.py:pay,calculator,ask_person"]


def paid(folder: Path) -> list[str]:
    file = folder / "paid.txt"
    return file.read_text().split() if file.exists() else []


def tao(home: Path, *args: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    process = start(*args, home=home, fresh=fresh)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode is not None
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def thread(home: Path) -> dict[str, Any]:
    done = tao(home, "threads", "list", "--json")
    (line,) = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def until(there: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there.exists():
        assert time.monotonic() < deadline, f"{there} did not come"
        time.sleep(0.02)


# Approval


def test_calls_are_approved_edited_and_rejected_in_the_terminal(tmp_path: Path, pay: list[str]) -> None:
    with (
        FakeOpenAI([PAYS, "Done."]) as server,
        Terminal("run", "Pay.", "-m", f"{server.url}#fake", *pay, "--approve", "pay", home=tmp_path) as terminal,
    ):
        terminal.wait_for("The run waits for approval of 3 calls.")
        terminal.wait_for('1 of 3: pay(to="Ann")')
        terminal.type("\n")
        terminal.wait_for("a  approve: run it as it is")
        assert paid(tmp_path) == []
        terminal.type("a\n")
        terminal.wait_for('2 of 3: pay(to="Bob")')
        terminal.type("e\n")
        terminal.wait_for('{"to": "Bob"}')
        terminal.type('\x15{"whom": "Eve"}\n')  # Ctrl-U: clear the line
        terminal.wait_for("The arguments of pay are not valid")
        terminal.type('\x15{"to": "Eve"}\n')
        terminal.wait_for('3 of 3: pay(to="Cid")')
        assert paid(tmp_path) == [], "nothing runs before all are answered"
        terminal.type("r not him\n")
        assert terminal.wait() == 0
        told = [message["content"] for message in server.requests[1]["messages"][-3:]]
    assert sorted(paid(tmp_path)) == ["Ann", "Eve"]
    assert told[0] == "paid Ann"
    assert told[1].endswith("paid Eve")
    assert told[2].startswith("A person rejected this call: not him.")
    for shown in ("Approved     pay", 'Approved     pay(to="Eve"), changed', "Rejected     pay: not him", "Done."):
        assert shown in terminal.text
    assert terminal.text.count('Action       pay(to="Ann")') == 1


def test_some_are_answered_later_and_ctrl_c_answers_none(tmp_path: Path, pay: list[str]) -> None:
    with FakeOpenAI([PAYS, "Done."]) as server:
        options = ["-m", f"{server.url}#fake", *pay, "--approve", "pay", "--thread", "t"]
        with Terminal("run", "Pay.", *options, home=tmp_path) as terminal:
            terminal.wait_for("1 of 3")
            terminal.type("a\n")
            terminal.wait_for("2 of 3")
            terminal.type("\x03")
            assert terminal.wait() == 4
        assert paid(tmp_path) == []
        assert "Left open: thread 't' waits for approval of 3 calls." in terminal.text
        with Terminal("resume", "t", home=tmp_path) as terminal:
            terminal.wait_for("1 of 3")
            terminal.type("l\n")
            terminal.wait_for("2 of 3")
            terminal.type("a\n")
            terminal.wait_for("3 of 3")
            terminal.type("l\n")
            assert terminal.wait() == 4
        assert paid(tmp_path) == ["Bob"]
        assert "Left open: thread 't' waits for approval of 2 calls." in terminal.text
        with Terminal("threads", "resume", "t", home=tmp_path) as terminal:
            for place in ("1 of 2", "2 of 2"):
                terminal.wait_for(place)
                terminal.type("a\n")
            assert terminal.wait() == 0
        assert len(server.requests) == 2
    assert sorted(paid(tmp_path)) == ["Ann", "Bob", "Cid"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_new_question_asks_first_what_becomes_of_the_call(tmp_path: Path, pay: list[str], answer: str) -> None:
    with FakeOpenAI([PAY, *(["Paid."] if answer == "y" else []), "Hello."]) as server:
        options = ["-m", f"{server.url}#fake", *pay, "--approve", "pay", "--thread", "t"]
        assert tao(tmp_path, "run", "Pay.", *options).returncode == 4
        with Terminal("run", "Say hello.", "--thread", "t", home=tmp_path) as terminal:
            terminal.wait_for("Answer that first?")
            terminal.type(f"{answer}\n")
            if answer == "y":
                terminal.wait_for("[a]pprove")
                terminal.type("a\n")
            assert terminal.wait() == 0
        last = server.requests[-1]["messages"]
    assert last[-1]["content"] == "Say hello."
    (result,) = [message["content"] for message in last if message["role"] == "tool"]
    if answer == "y":
        assert result == "paid Ann"
    assert paid(tmp_path) == (["Ann"] if answer == "y" else [])
    assert thread(tmp_path)["state"] == "answered"


# Signals


def test_sigterm_stops_after_the_step_and_resume_goes_on(tmp_path: Path, pay: list[str]) -> None:
    (tmp_path / "hang").touch()
    with FakeOpenAI([PAY, "Paid."]) as server:
        process = start("run", "Pay.", "-m", f"{server.url}#fake", *pay, "--thread", "t", home=tmp_path)
        until(tmp_path / "hangs")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        told = process.stderr.readline()
        (tmp_path / "hang").unlink()
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 143
        assert "Observation: paid Ann" in out, "the step at hand ends"
        assert [told.rstrip(), *err.splitlines()] == [
            "tao: stopping after this step; SIGTERM again quits at once",
            "Stopped by SIGTERM. All that was done is kept. To go on: tao resume t",
        ]
        assert len(server.requests) == 1
        assert thread(tmp_path)["state"] == "unfinished"
        done = tao(tmp_path, "resume", "t")
    assert done.returncode == 0
    assert "Going on: after step 1" in done.stdout
    assert "Answer: Paid." in done.stdout
    assert paid(tmp_path) == ["Ann"]


def test_a_second_sigterm_quits_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    with FakeOpenAI([ADD, Hang(), "It is 4."]) as server:
        process = start("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", home=tmp_path)
        assert server.hanging.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "SIGTERM again quits at once" in process.stderr.readline()
        assert process.poll() is None, "the model's call is still in flight"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 143
        done = tao(tmp_path, "resume", "t")
    assert done.returncode == 0
    assert "Answer: It is 4." in done.stdout


def test_sigterm_while_a_person_is_asked(tmp_path: Path, pay: list[str]) -> None:
    with (
        FakeOpenAI([PAY]) as server,
        Terminal(
            "run", "Pay.", "-m", f"{server.url}#fake", *pay, "--approve", "all", "--thread", "t", home=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("[a]pprove")
        terminal.signal(signal.SIGTERM)
        assert terminal.wait() == 143
    assert "Left open: thread 't' waits for approval of a call." in terminal.text
    assert thread(tmp_path)["state"] == "waiting"


def test_after_ctrl_c_the_thread_goes_on(tmp_path: Path) -> None:
    with FakeOpenAI([ADD, Hang(), "It is 4."]) as server:
        with Terminal("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", home=tmp_path) as terminal:
            assert server.hanging.wait(PATIENCE)
            terminal.type("\x03")
            assert terminal.wait() == 3
        assert "■ cancelled at step 2: Ctrl-C" in terminal.text
        assert "- calculator: 4" in terminal.text
        assert "To go on: tao resume t" in terminal.text
        with Terminal("resume", "t", home=tmp_path) as terminal:
            assert terminal.wait() == 0
        assert "Going on     after step 2" in terminal.text
        assert "It is 4." in terminal.text


# Crashes


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with FakeOpenAI([ADD, Hang(), "It is 4."]) as server:
        process = start("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", home=tmp_path, fresh=True)
        assert server.hanging.wait(PATIENCE)
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert thread(tmp_path)["state"] == "unfinished"
        shown = tao(tmp_path, "threads", "show", "t")
        assert "Observation: 4" in shown.stdout
        assert shown.stdout.endswith("\nTo go on: tao resume t\n")
        done = tao(tmp_path, "run", "--thread", "t", fresh=True)  # without a question: the same
        assert done.returncode == 0
        assert "Answer: It is 4." in done.stdout
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "told", "times"),
    [
        ("done: paid, receipt 7", "paid, receipt 7", 1),
        ("unknown", "Whether it took effect is unknown", 1),
        ("repeat", "paid Ann", 2),
    ],
)
def test_a_call_that_a_crash_cut_off_is_asked_about(
    tmp_path: Path, pay: list[str], answer: str, told: str, times: int
) -> None:
    (tmp_path / "hang").touch()
    with FakeOpenAI([PAY, "It is done."]) as server:
        process = start("run", "Pay.", "-m", f"{server.url}#fake", *pay, "--thread", "t", home=tmp_path)
        until(tmp_path / "hangs")
        process.kill()
        process.communicate(timeout=PATIENCE)
        (tmp_path / "hang").unlink()
        asked = tao(tmp_path, "resume", "t")
        assert asked.returncode == 4
        assert 'waits for a word on a call cut off.\n  pay(to="Ann")\n  pay was begun' in asked.stderr
        assert "  tao resume t --answer repeat  it did not take effect\n" in asked.stderr
        assert paid(tmp_path) == ["Ann"]
        done = tao(tmp_path, "resume", "t", "--answer", answer)
        assert done.returncode == 0
        assert told in server.requests[1]["messages"][-1]["content"]
    assert paid(tmp_path) == ["Ann"] * times


def test_a_new_question_after_a_crash_says_what_it_leaves(tmp_path: Path) -> None:
    with FakeOpenAI([ADD, Hang(), "Hello."]) as server:
        process = start("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", home=tmp_path)
        assert server.hanging.wait(PATIENCE)
        process.kill()
        process.communicate(timeout=PATIENCE)
        done = tao(tmp_path, "run", "Say hello.", "--thread", "t")
    assert done.returncode == 0
    assert done.stderr == (
        "The run before was cut off, and is closed by this question. To go on with it instead: tao resume t\n"
    )


# A thread that is in use


def test_a_thread_has_one_run_at_a_time(tmp_path: Path) -> None:
    with FakeOpenAI([ADD, Hang(), "Hello."]) as server:
        process = start("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", home=tmp_path)
        assert server.hanging.wait(PATIENCE)
        assert thread(tmp_path)["state"] == "running"
        for command in (["run", "Hello?", "--thread", "t"], ["resume", "t"], ["threads", "delete", "t", "--yes"]):
            done = tao(tmp_path, *command)
            assert done.returncode == 5
            assert done.stderr.startswith(f"tao: thread 't' is in use by process {process.pid} on ")
            assert ("--if-busy" in done.stderr) == (command[0] != "threads"), "what this command can do"
            assert "configurable" not in done.stderr
        for more, said in (
            ([], "0 threads deleted, 0 bytes given back."),
            (["--dry-run"], "0 threads would be deleted"),
        ):
            done = tao(tmp_path, "threads", "prune", "--older-than", "0s", *more)
            assert done.returncode == 0
            assert done.stdout.startswith(said)
            assert done.stdout.endswith("1 thread left, in use: t\n")
        assert len(server.requests) == 2
        done = tao(tmp_path, "run", "Hello?", "--thread", "t", "--if-busy", "interrupt")
        assert done.returncode == 0
        assert "Answer: Hello." in done.stdout
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3
        assert "Stop: cancelled at step 2: interrupted by run" in out
        asked = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
        assert asked[0] == "Add."
        assert asked[-1] == "Hello?"
