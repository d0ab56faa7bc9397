"""The command as a process: Ctrl-C, SIGTERM, closed pipes, questions in a terminal, what is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import PATIENCE, Terminal, environment, start
from fake_openai_server import FakeOpenAI, Hang, Reply

SUM = Reply("I add.", calls=[("calculator", {"expression": "2+2"})])
ASK = Reply("Only they know.", calls=[("ask_person", {"question": "Which color?"})])
SLOW = '''
import pathlib, time

def slow(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    pathlib.Path(__file__).with_suffix(".started").touch()
    time.sleep(seconds)
    return "waited"
'''


def test_ctrl_c_ends_a_hanging_model_call_with_what_there_is(tmp_path: Path) -> None:
    with (
        FakeOpenAI([SUM, Hang("The answer is")]) as server,
        Terminal("run", "What is 2+2?", "-m", f"{server.url}#fake", home=tmp_path, fresh=True) as terminal,
    ):
        assert server.hanging.wait(PATIENCE)
        terminal.wait_for("The answer is")
        terminal.type("\x03")
        assert terminal.wait() == 3
        assert server.left.wait(PATIENCE), "the connection of the cut call is closed"
    assert "■ cancelled at step 2: Ctrl-C" in terminal.text
    assert "- calculator: 4" in terminal.text
    assert "Traceback" not in terminal.text
    assert terminal.output.rindex("\x1b[?25h") > terminal.output.rindex("\x1b[?25l"), "the cursor is back"


def test_ctrl_c_ends_a_tool_that_does_not_return(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    call = Reply(calls=[("slow", {"seconds": 600})])
    with (
        FakeOpenAI([call]) as server,
        Terminal(
            "run", "Wait.", "-m", f"{server.url}#fake", "-t", f"{tmp_path}/slow.py:slow", home=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("running slow")
        terminal.type("\x03")
        assert terminal.wait() == 3
    assert "■ cancelled at step 1: Ctrl-C" in terminal.text
    assert "Whether it took effect is unknown" in " ".join(terminal.text.split())


def test_a_second_ctrl_c_quits_at_once(tmp_path: Path) -> None:
    # A run that does not listen to the first one stands for whatever may hang while it is being ended.
    (tmp_path / "deaf.py").write_text(
        "from taograph.cancel import Cancellation\nCancellation.request = lambda *_: None\n" + SLOW
    )
    call = Reply(calls=[("slow", {"seconds": 600})])
    with (
        FakeOpenAI([call]) as server,
        Terminal(
            "run", "Wait.", "-m", f"{server.url}#fake", "-t", f"{tmp_path}/deaf.py:slow", home=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("running slow")
        terminal.type("\x03")
        terminal.wait_for("Ctrl-C again quits at once")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert terminal.output.rindex("\x1b[?25h") > terminal.output.rindex("\x1b[?25l"), "the cursor is back"


def test_sigterm_is_like_the_first_ctrl_c_and_pipes_get_plain_lines(tmp_path: Path) -> None:
    with FakeOpenAI([SUM, Hang()]) as server:
        process = start("run", "What is 2+2?", "-m", f"{server.url}#fake", home=tmp_path, fresh=True)
        assert server.hanging.wait(PATIENCE)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "Stop: cancelled at step 2: SIGTERM" in out
    assert "ending the run" in err
    assert "\x1b" not in out + err


def test_events_come_as_they_happen_and_a_closed_pipe_ends_the_run_quietly(tmp_path: Path) -> None:
    with FakeOpenAI([SUM, Reply("It is four, and so on. " * 400, pace=0.01)]) as server:
        process = start("run", "What is 2+2?", "-m", f"{server.url}#fake", "--json", home=tmp_path, fresh=True)
        assert process.stdout is not None
        assert process.stderr is not None
        first = [json.loads(process.stdout.readline())["type"] for _ in range(3)]
        assert process.poll() is None
        process.stdout.close()
        began = time.monotonic()
        assert process.wait(PATIENCE) == 1
        assert time.monotonic() - began < PATIENCE / 2
        assert process.stderr.read() == ""
        process.stderr.close()
    assert first[0] == "run_started"


def test_a_question_is_asked_in_the_terminal_and_the_run_goes_on(tmp_path: Path) -> None:
    with (
        FakeOpenAI([ASK, "Painted."]) as server,
        Terminal("run", "Paint it.", "-m", f"{server.url}#fake", home=tmp_path) as terminal,
    ):
        terminal.wait_for("The run asks you: Which color?")
        terminal.type("\n")
        terminal.type("green\n")
        assert terminal.wait() == 0
        answered = server.requests[1]["messages"][-1]
    assert answered["role"] == "tool"
    assert answered["content"] == "green"
    assert "Painted." in terminal.text


def test_a_question_left_open_is_asked_again_first(tmp_path: Path) -> None:
    with FakeOpenAI([ASK, "Painted."]) as server:
        options = ["-m", f"{server.url}#fake", "--thread", "house"]
        with Terminal("run", "Paint it.", *options, home=tmp_path) as terminal:
            terminal.wait_for("The run asks you: Which color?")
            terminal.type("\x03")
            assert terminal.wait() == 4
            assert "Left open: thread 'house' waits for an answer." in terminal.text
        with Terminal("run", *options, home=tmp_path) as terminal:
            terminal.wait_for("The run asks you: Which color?")
            terminal.type("green\n")
            assert terminal.wait() == 0
        assert server.requests[1]["messages"][-1]["content"] == "green"
    assert "Painted." in terminal.text


def test_ctrl_c_at_a_question_of_a_run_that_is_not_kept_ends_it(tmp_path: Path) -> None:
    with (
        FakeOpenAI([SUM, ASK]) as server,
        Terminal("run", "Paint it.", "-m", f"{server.url}#fake", home=tmp_path) as terminal,
    ):
        terminal.wait_for("The run asks you: Which color?")
        terminal.type("\x03")
        assert terminal.wait() == 3
    assert "■ cancelled" in terminal.text
    assert "- calculator: 4" in terminal.text


def test_the_local_model_is_offered_where_there_is_nothing_else(tmp_path: Path) -> None:
    with Terminal("run", "What is 2+2?", home=tmp_path) as terminal:
        terminal.wait_for("Fetch it? [Y/n]")
        assert "491 MB\n  license: Apache-2.0" in terminal.text
        assert "https://huggingface.co/Qwen/" in terminal.text
        terminal.type("n\n")
        assert terminal.wait() == 1
    assert "OPENAI_API_KEY" in terminal.text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["--version"],
        ["model", "--help"],
        ["resume", "--help"],
        ["threads", "--help"],
        ["threads", "fork", "--help"],
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\nfrom taograph.cli import main\n"
        f"code = main({arguments!r})\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    *shown, last = done.stdout.splitlines()
    code, *modules = last.split()
    assert code == "0"
    assert shown
    heavy = {"openai", "pydantic", "pydantic_core", "httpx", "numpy", "langsmith", "sqlite3", "asyncio"}
    assert not [name for name in modules if name in heavy or name.startswith(("langchain", "langgraph"))]


def test_the_script_is_installed() -> None:
    script = Path(sys.executable).parent / ("tao.exe" if os.name == "nt" else "tao")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("taograph ")
