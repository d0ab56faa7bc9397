"""`tao run` against a scripted endpoint: what it prints, how it ends, what it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import Fail, FakeOpenAI, Reply

SUM = Reply("I add.", calls=[("calculator", {"expression": "2+2"})])
ASK = Reply("Only they know.", calls=[("ask_person", {"question": "Which \x1b[31mcolor?"})])


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_run_is_told_in_plain_lines(tao: Any) -> None:
    with FakeOpenAI([SUM, "It is 4."]) as server:
        done = tao("run", "What is 2+2?", "--model", f"{server.url}#fake")
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "Question: What is 2+2?"
    for line in ("Thought: I add.", 'Action: calculator(expression="2+2")', "Observation: 4", "Answer: It is 4."):
        assert line in lines
    assert any(line.startswith("Budget: step 1/15 · 110 tokens · ") for line in lines)
    assert "Stop: final answer at step 2" in lines
    assert lines[-1].startswith("Cost: 2 model calls · 1 tool call · 220 tokens (200 in; 20 out) · price unknown · ")
    assert "\x1b" not in done.out
    assert done.err == ""


def test_json_prints_events_only(tao: Any) -> None:
    with FakeOpenAI([SUM, "It is 4."]) as server:
        done = tao("run", "What is 2+2?", "--model", f"{server.url}#fake", "--json", "--tokens", "5000")
    told = events(done.out)
    kinds = [event["type"] for event in told]
    assert done.code == 0
    assert kinds[0] == "run_started"
    assert kinds[-2:] == ["stop", "answer"]
    assert {"thought_delta", "thought", "action", "observation", "budget"} <= set(kinds)
    assert told[-1]["text"] == "It is 4."
    assert told[0]["limits"]["tokens"] == 5000


def test_options_reach_the_run(tao: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "boat.md").write_text("# Boat\n\nThe boat is called Marigold.\n")
    (tmp_path / "notes" / "broken.pdf").write_bytes(b"not a pdf")
    search = Reply(calls=[("search_documents", {"query": "boat called"})])
    with FakeOpenAI([search, "Marigold."]) as server:
        options = ["--tools", "calculator,search_documents", "--docs", str(tmp_path / "notes"), "--system", "Be brief."]
        done = tao("run", "What is the boat called?", "--model", f"{server.url}#fake", *options)
        first, second = server.requests
    assert done.code == 0
    assert "Marigold" in second["messages"][-1]["content"]
    assert first["messages"][0] == {"role": "system", "content": first["messages"][0]["content"]}
    assert "Be brief." in first["messages"][0]["content"]
    assert {tool["function"]["name"] for tool in first["tools"]} >= {"calculator", "search_documents"}
    assert "1 file of" in done.err


def test_the_question_may_come_from_stdin(tao: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "question").write_bytes("Wie spät ist es?\n".encode() + b"\xff")
    for arguments in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", (tmp_path / "question").open())
        with FakeOpenAI(["Late."]) as server:
            done = tao("run", *arguments, "--model", f"{server.url}#fake")
            asked = server.requests[0]["messages"][-1]["content"]
        assert done.code == 0
        assert asked == "Wie spät ist es?\n\ufffd"


@pytest.mark.parametrize(
    ("replies", "options", "code", "said"),
    [
        ([SUM, SUM, "closing"], ["--steps", "1"], 3, "Stop: stopped by the step limit at step 1: 1 of 1 steps used"),
        ([Fail(401, "no such key")], [], 1, "Stop: stopped because the model could not be reached or failed"),
        (["", "", "", "closing"], [], 3, "Stop: stopped because the model's replies were empty"),
    ],
)
def test_the_exit_status_says_how_it_ended(tao: Any, replies: Any, options: Any, code: int, said: str) -> None:
    with FakeOpenAI(replies) as server:
        done = tao("run", "What is 2+2?", "--model", f"{server.url}#fake", *options)
    assert said in done.out
    assert "\nAnswer: " in done.out
    assert done.code == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "q", "--steps", "0"], "'--steps': 0 is too few: give a whole number of at least 1"),
        (["run", "q", "--steps", "many"], "'--steps'"),
        (["run", "q", "--tokens", "-5"], "'--tokens': -5 is too few"),
        (["run", "q", "--seconds", "0"], "'--seconds': 0 can't be used: give a number above 0"),
        (["run", "q", "--seconds", "nan"], "'--seconds': nan can't be used"),
        (["run", "q", "--cost", "inf"], "'--cost': inf can't be used"),
        (["run", "q", "--graph", "reakt"], "--graph: no strategy is called 'reakt'; there are: react"),
        (["run", "q", "--tools", "hammer"], "--tools: no tool is called 'hammer'. There are calculator"),
        (["run", "q", "--docs", "/no/such/folder"], "--docs: /no/such/folder is not a folder"),
        (["run", "q", "--model", ""], "'--model' / '-m': it is empty"),
        (["run", "q", "--model", "local", "--thread", " "], "'--thread': it is empty"),
        (["run", "q", "--model", "http://127.0.0.1:1/v1"], "--model: model 'http://127.0.0.1:1/v1': write the address"),
        (["run", "q", "--model", "http://127.0.0.1:1/v1#m", "--cost", "1"], "--cost: the price of this model is not"),
        (["run"], "QUESTION: there is none"),
        (["run", " "], "QUESTION: there is none"),
        (["run", "--thread", "new", "--model", "http://127.0.0.1:1/v1#m"], "thread 'new' has nothing open"),
        (["run", "q", "--no-such-option"], "No such option"),
        (["index", "/no/such/folder"], "FOLDER: /no/such/folder is not a folder"),
        (["model", "pull", "gpt-9"], "NAME: no model is called 'gpt-9'; known are qwen2.5-coder-0.5b"),
        (["dance"], "No such command 'dance'"),
    ],
)
def test_wrong_usage_names_the_option_and_the_fix(tao: Any, arguments: list[str], said: str) -> None:
    done = tao(*arguments)
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert done.code == 2


def test_errors_are_one_line_on_stderr_without_secrets(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the key is key-4711-very-secret and \x1b[31m sk-abcdefghijklmnop")

    monkeypatch.setattr("taograph.tools.catalog.default_tools", broken)
    secret = {"OPENAI_API_KEY": "key-4711-very-secret"}
    done = tao("run", "q", "--model", "http://127.0.0.1:1/v1#m", env=secret)
    assert done.code == 1
    assert done.out == ""
    assert done.err.splitlines()[0].startswith("tao: RuntimeError: the key is [secret] and")
    assert "4711" not in done.err
    assert "abcdef" not in done.err
    assert "\x1b" not in done.err
    assert "Traceback" not in done.err

    debugged = tao("run", "q", "--model", "http://127.0.0.1:1/v1#m", env={**secret, "TAOGRAPH_DEBUG": "1"})
    assert "Traceback" in debugged.err
    assert "4711" not in debugged.err


def test_without_a_model_the_ways_to_have_one_are_told(tao: Any) -> None:
    done = tao("run", "q")
    assert done.code == 1
    for way in ("tao model pull", "OPENAI_API_KEY", "--model http://host:port/v1#name"):
        assert way in done.err


def test_a_local_model_that_is_not_there_is_offered(tao: Any) -> None:
    done = tao("run", "q", "--model", "local:smollm2-135m")
    assert done.code == 1
    assert "tao model pull" in done.err


def test_a_thread_goes_on_with_its_conversation(tao: Any) -> None:
    with FakeOpenAI(["Hello, Ada.", "Your name is Ada."]) as server:
        model = ["--model", f"{server.url}#fake", "--thread", "ada"]
        assert tao("run", "My name is Ada.", *model).code == 0
        done = tao("run", "What is my name?", *model)
        messages = [message["content"] for message in server.requests[1]["messages"]]
    assert done.code == 0
    assert messages[-3:] == ["My name is Ada.", "Hello, Ada.", "What is my name?"]


def test_a_question_nobody_answers_stays_open_in_its_thread(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI([ASK]) as server:
        options = ["--model", f"{server.url}#fake", "--thread", "t 1", "--json"]
        done = tao("run", "Paint it.", *options)
        again = tao("run", *options)
        assert len(server.requests) == 1, "asking again costs nothing"
    told = events(done.out)
    assert told[-1]["type"] == "approval"
    assert told[-1]["value"]["type"] == "question"
    for shown in (done, again):
        assert shown.code == 4
        assert shown.err.splitlines()[:2] == [
            "Nobody can answer here: thread 't 1' waits for an answer.",
            "  Which color?",
        ]
        assert "\n  tao resume 't 1' --answer '…'\n" in shown.err
        assert "\x1b" not in shown.err
    assert (tmp_path / "data" / "threads.sqlite").is_file()


def test_a_question_nobody_can_ever_answer_ends_the_run_with_what_it_has(tao: Any) -> None:
    with FakeOpenAI([SUM, ASK]) as server:
        done = tao("run", "Paint it.", "--model", f"{server.url}#fake", "--tools", "calculator,ask_person")
        assert len(server.requests) == 2
    assert done.code == 3
    assert "Nobody can answer here" in done.err
    assert "--thread" in done.err
    assert "Stop: cancelled" in done.out
    assert "- calculator: 4" in done.out


def test_ask_person_is_not_offered_where_nobody_is_there(tao: Any) -> None:
    with FakeOpenAI(default="Yes.") as server:
        tao("run", "q", "--model", f"{server.url}#fake")
        tao("run", "q", "--model", f"{server.url}#fake", "--thread", "t")
        offered = [[tool["function"]["name"] for tool in request["tools"]] for request in server.requests]
    assert "ask_person" not in offered[0]
    assert "ask_person" in offered[1]
