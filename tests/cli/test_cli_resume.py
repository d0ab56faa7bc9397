"""`tao resume`, and runs that are kept: what a thread remembers, waits for, and goes on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import Fail, FakeOpenAI, Reply

from taograph import checkpoints

PAY = Reply("I pay.", calls=[("pay", {"amount": 1, "to": "Ann"})])
BOTH = Reply("I pay both.", calls=[("pay", {"amount": 1, "to": "Ann"}), ("pay", {"amount": 2, "to": "Bob"})])
ADD = [Reply("I add.", calls=[("calculator", {"expression": f"{n}+{n}"})]) for n in range(9)]
ASK = Reply(calls=[("ask_person", {"question": "Which color?"})])
TOOL = '''
import pathlib
from taograph.tools import tool

@tool(effects="once", approve={approve})
def pay(amount: int, to: str) -> str:
    """Pay somebody.

    Args:
        amount: Euros.
        to: Whom.
    """
    with pathlib.Path(__file__).with_name("paid.txt").open("a") as file:
        file.write(f"{{amount}} {{to}}\\n")
    return f"paid {{amount}} to {{to}}"
'''


@pytest.fixture
def pay(tmp_path: Path) -> str:
    (tmp_path / "money.py").write_text(TOOL.format(approve=False))
    return f"{tmp_path}/money.py:pay"


def paid(folder: Path) -> list[str]:
    file = folder / "paid.txt"
    return file.read_text().splitlines() if file.exists() else []


def listed(tao: Any, *more: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tao("threads", "list", "--json", *more).out.splitlines()]


def results(server: FakeOpenAI) -> list[str]:
    """What the last request told the model of its calls."""
    return [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]


# What is kept


def test_a_run_is_kept_only_where_that_was_asked_for(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI(default="Yes.") as server:
        model = ["-m", f"{server.url}#fake"]
        done = tao("run", "q", *model)
        assert done.err == ""
        assert listed(tao) == []
        assert {each.name.partition("-")[0] for each in (tmp_path / "data").iterdir()} == {"traces.sqlite"}
        url = f"sqlite:///{tmp_path}/mine.db"
        done = tao("run", "q", *model, "--checkpoints", url)
        (kept,) = listed(tao, "--checkpoints", url)
        assert done.err == f"Kept as thread {kept['thread']}.\n"
        assert len(kept["thread"]) == 8
        assert listed(tao) == []
        tao("run", "q", *model, "--thread", "t", env={"TAOGRAPH_CHECKPOINTS": url})
        assert {each["thread"] for each in listed(tao)} == {kept["thread"], "t"}
        assert not (tmp_path / "data" / "threads.sqlite").exists()


@pytest.mark.parametrize("by", ["option", "tool"])
def test_a_run_that_may_wait_for_approval_is_kept(tao: Any, tmp_path: Path, pay: str, by: str) -> None:
    if by == "tool":
        (tmp_path / "money.py").write_text(TOOL.format(approve=True))
    with FakeOpenAI([PAY, "Paid."]) as server:
        options = ["--approve", "pay"] if by == "option" else []
        done = tao("run", "Pay Ann.", "-m", f"{server.url}#fake", "-t", pay, *options)
        (kept,) = listed(tao)
        thread = kept["thread"]
        assert done.code == 4
        assert done.err.splitlines() == [
            f"Kept as thread {thread}.",
            f"Nobody can answer here: thread '{thread}' waits for approval of a call.",
            '  pay(amount=1, to="Ann")',
            "  Run pay? Pay somebody.",
            "To answer:",
            f"  tao resume {thread}  asks you, in a terminal",
            f"  tao resume {thread} --approve",
            f"  tao resume {thread} --reject 'why not'",
            f"""  tao resume {thread} --edit '{{"amount": 1, "to": "Ann"}}'""",
        ]
        assert paid(tmp_path) == []
        done = tao("resume", thread[:4], "--approve")
        assert done.code == 0
        assert "Answer: Paid." in done.out
    assert paid(tmp_path) == ["1 Ann"]


def test_approve_names_tools_there_are(tao: Any, pay: str) -> None:
    with FakeOpenAI([PAY, "Paid."]) as server:
        options = ["-m", f"{server.url}#fake", "-t", f"{pay},calculator"]
        done = tao("run", "q", *options, "--approve", "pya")
        assert done.code == 2
        assert "--approve: approve='pya' is none of the tools: calculator, pay" in done.err
        assert tao("run", "q", *options, "--approve", " ").code == 2
        assert server.requests == []
        assert tao("run", "q", *options, "--approve", "none").code == 0
        assert listed(tao) == []


def test_all_tools_can_be_approved(tao: Any) -> None:
    with FakeOpenAI([ADD[1], "2."]) as server:
        assert tao("run", "q", "-m", f"{server.url}#fake", "--thread", "t", "--approve", "all").code == 4
        assert tao("resume", "t", "--approve").code == 0
        assert results(server) == ["2"]


# Answers


def test_several_calls_are_answered_in_any_order_and_in_part(tao: Any, tmp_path: Path, pay: str) -> None:
    with FakeOpenAI([BOTH, "Paid one."]) as server:
        run = tao("run", "Pay.", "-m", f"{server.url}#fake", "-t", pay, "--approve", "pay", "--thread", "t")
        assert run.code == 4
        for line in ('  1. pay(amount=1, to="Ann")', "     --call call_1", "     --call call_2"):
            assert line in run.err.splitlines()
        refused = tao("resume", "t", "--approve")
        assert refused.code == 2
        assert "--call: 2 wait: name one or more of call_1, call_2" in refused.err
        part = tao("resume", "t", "--approve", "--call", "call_2")
        assert part.code == 4
        assert "Approved: pay" in part.out
        assert paid(tmp_path) == ["2 Bob"]
        assert "waits for approval of a call.\n  pay(amount=1" in part.err
        assert len(server.requests) == 1
        rest = tao("resume", "t", "--reject", "too much", "--by", "Ada")
        assert rest.code == 0
        assert "Rejected: pay by Ada: too much" in rest.out
        assert results(server)[0].startswith("A person rejected this call by Ada: too much.")
        assert results(server)[1] == "paid 2 to Bob"
    assert paid(tmp_path) == ["2 Bob"]


def test_all_calls_are_approved_at_once(tao: Any, tmp_path: Path, pay: str) -> None:
    with FakeOpenAI([BOTH, "Paid both."]) as server:
        tao("run", "Pay.", "-m", f"{server.url}#fake", "-t", pay, "--approve", "pay", "--thread", "t")
        assert tao("resume", "t", "--call", "all", "--approve").code == 0
    assert sorted(paid(tmp_path)) == ["1 Ann", "2 Bob"]


def test_edited_arguments_are_looked_at_first(tao: Any, tmp_path: Path, pay: str) -> None:
    with FakeOpenAI([PAY, "Paid."]) as server:
        tao("run", "Pay.", "-m", f"{server.url}#fake", "-t", pay, "--approve", "pay", "--thread", "t")
        wrong = tao("resume", "t", "--edit", '{"amount": "x"}')
        assert wrong.code == 2
        assert "--edit: The arguments of pay are not valid" in wrong.err
        assert "amount: Input should be a valid integer" in wrong.err
        assert paid(tmp_path) == []
        done = tao("resume", "t", "--edit", '{"amount": 5, "to": "Ann"}')
        assert done.code == 0
        assert 'Approved: pay(amount=5, to="Ann"), changed' in done.out
        assert "this ran with" in results(server)[0]
    assert paid(tmp_path) == ["5 Ann"]


def test_a_rejection_can_end_the_run(tao: Any, tmp_path: Path, pay: str) -> None:
    with FakeOpenAI([PAY, "Nothing was paid."]) as server:
        tao("run", "Pay.", "-m", f"{server.url}#fake", "-t", pay, "--approve", "pay", "--thread", "t")
        done = tao("resume", "t", "--reject", "never", "--stop")
    assert done.code == 3
    assert "Stop: stopped because an action was rejected" in done.out
    assert tao("resume", "t").code == 2, "there is nothing to go on with"
    assert paid(tmp_path) == []


def test_a_question_is_answered_later(tao: Any) -> None:
    with FakeOpenAI([ASK, "Painted."]) as server:
        run = tao("run", "Paint it.", "-m", f"{server.url}#fake", "--thread", "t")
        assert run.code == 4
        assert "Budget: step 1/15" in run.out
        unsaid = tao("resume", "t")
        assert unsaid.code == 4
        assert unsaid.out == ""
        assert "waits for an answer.\n  Which color?\nTo answer:\n" in unsaid.err
        assert tao("resume", "t", "--approve").code == 2
        done = tao("resume", "t", "--answer", "green", "--json")
        assert done.code == 0
        assert json.loads(done.out.splitlines()[-1])["text"] == "Painted."
        assert results(server) == ["green"]
        again = tao("resume", "t", "--answer", "green")
    assert again.code == 2
    assert "waits for no answer: answered" in again.err


def test_a_call_that_waits_needs_its_tool(tao: Any, tmp_path: Path, pay: str) -> None:
    """A thread that another program made remembers no options."""
    from langchain_core.messages import AIMessage

    from taograph import create_react_graph
    from taograph.models import ScriptedModel, call
    from taograph.tools import catalog

    reply = AIMessage("", tool_calls=[call("pay", {"amount": 1, "to": "Ann"})])
    with checkpoints.open(f"sqlite:///{tmp_path}/other.db") as saver:
        graph = create_react_graph(ScriptedModel(replies=[reply]), catalog.load(pay), approve=True, checkpointer=saver)
        graph.invoke({"messages": [("user", "Pay.")]}, {"configurable": {"thread_id": "theirs"}})
    url = ["--checkpoints", f"sqlite:///{tmp_path}/other.db"]
    with FakeOpenAI(["Paid."]) as server:
        options = ["-m", f"{server.url}#fake", *url]
        done = tao("resume", "theirs", "--approve", *options)
        assert done.code == 2
        assert "--tools: the call that waits is of pay, and the tools are calculator" in done.err
        done = tao("resume", "theirs", "--approve", *options, "--tools", pay)
        assert done.code == 0
    assert paid(tmp_path) == ["1 Ann"]


# Runs that were stopped


def test_a_limit_is_raised_and_the_run_goes_on_where_it_stopped(tao: Any) -> None:
    with FakeOpenAI([*ADD[1:3], "So far 2 and 4.", *ADD[3:5], "All added."]) as server:
        run = tao("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", "--steps", "2")
        assert run.code == 3
        assert run.err == "To go on: tao resume t --steps 4\n"
        for options in ([], ["--steps", "2"], ["--seconds", "900"]):
            refused = tao("resume", "t", *options)
            assert refused.code == 2
            assert refused.err == (
                "tao: thread 't' was stopped by the step limit: 2 of 2 steps used\n"
                "  - raise it to go on: tao resume t --steps 4\n"
            )
        assert len(server.requests) == 3
        done = tao("resume", "t", "--steps", "6")
        assert done.code == 0
        assert "Limits: 6 steps" in done.out
        assert "Going on: after step 2" in done.out
        assert "Stop: final answer at step 5" in done.out
        assert results(server) == ["2", "4", "6", "8"]
        assert "So far" not in json.dumps(server.requests[-1]["messages"]), "the closing answer is taken back"


def test_limits_that_were_raised_hold_for_that_run_only(tao: Any) -> None:
    with FakeOpenAI([ADD[1], "So far 2.", ASK, ADD[2], "All.", ADD[3], "So far 6."]) as server:
        tao("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", "--steps", "1")
        assert tao("resume", "t", "--steps", "4").code == 4
        done = tao("resume", "t", "--answer", "x")
        assert done.code == 0, "also after an interruption of it"
        assert "Limits: 4 steps" in done.out
        assert tao("run", "Add again.", "--thread", "t").code == 3, "a new question has the thread's own limit"


@pytest.mark.parametrize(
    ("options", "enough", "stopped"),
    [
        (["--tokens", "150"], ["--tokens", "5000"], "the token limit"),
        (["--tool-calls", "1"], ["--tool-calls", "9"], "the limit of tool calls"),
    ],
)
def test_every_limit_can_be_raised(tao: Any, options: list[str], enough: list[str], stopped: str) -> None:
    closing = ["So far 2."] if "--tool-calls" in options else []
    with FakeOpenAI([ADD[1], *([ADD[2]] if closing else []), *closing, ADD[3], "All."]) as server:
        run = tao("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t", *options)
        assert run.code == 3
        assert f"Stop: stopped by {stopped}" in run.out
        assert f"To go on: tao resume t {options[0]} " in run.err
        assert tao("resume", "t", *enough).code == 0


def test_a_run_goes_on_when_the_endpoint_is_back(tao: Any) -> None:
    with FakeOpenAI([ADD[1], Fail(401, "no such key"), "It is 2."]) as server:
        run = tao("run", "Add.", "-m", f"{server.url}#fake", "--thread", "t")
        assert run.code == 1
        assert run.err == "To go on: tao resume t\n"
        assert "model could not be reached" in tao("threads").out
        done = tao("resume", "t")
        assert done.code == 0
        assert results(server) == ["2"]


def test_another_model_can_go_on(tao: Any) -> None:
    with FakeOpenAI([ADD[1], Fail(401, "no such key")]) as first, FakeOpenAI(["It is 2.", "Bye."]) as second:
        tao("run", "Add.", "-m", f"{first.url}#fake", "--thread", "t")
        assert tao("resume", "t", "--model", f"{second.url}#other").code == 0
        assert second.requests[0]["model"] == "other"
        assert tao("run", "Bye.", "--thread", "t").code == 0, "and is remembered"


def test_there_is_nothing_to_go_on_with(tao: Any) -> None:
    with FakeOpenAI(["Yes."]) as server:
        tao("run", "q", "-m", f"{server.url}#fake", "--thread", "t")
        for command in (["resume", "t"], ["run", "--thread", "t"]):
            done = tao(*command)
            assert done.code == 2
            assert done.err == (
                "tao: thread 't' has nothing open: answered\n  - ask it something: tao run '…' --thread t\n"
            )
    done = tao("resume", "x")
    assert done.code == 2
    assert "THREAD: no thread is called 'x': there are 't'" in done.err


def test_no_thread_at_all(tao: Any, tmp_path: Path) -> None:
    done = tao("resume", "x")
    assert (done.code, done.err) == (
        1,
        'tao: no thread has been kept yet\n  - tao run "…" --thread NAME keeps one\n',
    )
    done = tao("resume", "x", "--checkpoints", f"sqlite:///{tmp_path}/no.db")
    assert done.code == 1
    assert f"there is no file {tmp_path}/no.db" in done.err
    assert not (tmp_path / "no.db").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resume"], "THREAD"),
        (["resume", "t", "--approve", "--reject", "x"], "give one of --approve, --reject"),
        (["resume", "t", "--edit", "{"], "--edit: That is no JSON"),
        (["resume", "t", "--steps", "0"], "'--steps': 0 is too few"),
        (["resume", "t", "--call", "x"], "--call: it says nothing without"),
        (["run", "q", "--checkpoints", "runs.db"], "--checkpoints (TAOGRAPH_CHECKPOINTS): checkpoints: 'runs.db'"),
        (["run", "q", "--checkpoints", "mysql://u:topsecret@h/d"], "mysql:// URLs can't be opened"),
        (["run", "q", "--thread", "t", "--if-busy", "shout"], "'--if-busy'"),
    ],
)
def test_wrong_usage(tao: Any, arguments: list[str], said: str) -> None:
    done = tao(*arguments, *(["-m", "http://127.0.0.1:1/v1#m"] if arguments[0] == "run" else []))
    assert done.code == 2
    assert said in done.err
    assert "topsecret" not in done.err
    assert done.out == ""


# Threads with something open


def test_a_new_question_where_something_waits(tao: Any, tmp_path: Path, pay: str) -> None:
    with FakeOpenAI([PAY]) as server:
        tao("run", "Pay.", "-m", f"{server.url}#fake", "-t", pay, "--approve", "pay", "--thread", "t")
        done = tao("run", "Something else.", "--thread", "t")
        assert done.code == 4
        assert "thread 't' waits for approval of a call" in done.err
        assert len(server.requests) == 1, "nothing is asked while nobody can say what becomes of the call"
    assert paid(tmp_path) == []


def test_a_thread_remembers_its_options(tao: Any, tmp_path: Path, pay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with FakeOpenAI([PAY, "Paid.", "Again.", "Last."]) as server:
        options = ["-t", "./money.py:pay", "--approve", "pay", "--system", "Be brief."]
        tao("run", "Pay.", "-m", f"{server.url}#fake", "--thread", "t", *options)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert tao("resume", "t", "--approve").code == 0
        assert tao("run", "Again?", "--thread", "t").code == 0
        assert tao("run", "And?", "--thread", "t", "--tools", "calculator", "--approve", "none").code == 0
        tools = [[tool["function"]["name"] for tool in request["tools"]] for request in server.requests]
        assert all("Be brief." in request["messages"][0]["content"] for request in server.requests)
    assert [names[0] for names in tools] == ["pay", "pay", "pay", "calculator"]
    assert paid(tmp_path) == ["1 Ann"]


def test_what_holds_a_secret_is_not_remembered(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI(["Yes.", "Yes."]) as server:
        secret = "Use sk-abcdefghijklmnop1234."
        tao("run", "q", "-m", f"{server.url}#fake", "--thread", "t", "--system", secret)
        done = tao("run", "q", "--thread", "t")
        assert done.code == 1
        assert "--system of this thread had a secret in it" in done.err
        assert tao("run", "q", "--thread", "t", "--system", "Be brief.").code == 0
    for path in (tmp_path / "data").iterdir():
        if path.is_file():
            assert b"sk-abcdefghijklmnop1234" not in path.read_bytes()
