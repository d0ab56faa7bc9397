"""`tao run` and `tao resume` record what they do: by default, quietly, and never in the way of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Reply

from taograph.trace import open_store
from taograph.trace.reading import entries, runs, summarize

ADD = Reply("I add.", calls=[("calculator", {"expression": "1+1"})])


def run(tao: Any, *more: str, replies: Any = (ADD, "It is 2."), **env: str) -> Any:
    with FakeOpenAI(list(replies)) as server:
        return tao("run", "What is 1+1?", "-m", f"{server.url}#fake", *more, env=env)


def recorded(tao: Any, *more: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tao("trace", "list", "--json", *more).out.splitlines()]


def test_a_run_is_recorded_by_default_and_nothing_is_said_of_it(tao: Any, tmp_path: Path) -> None:
    done = run(tao)
    assert (done.code, done.err) == (0, "")
    file = tmp_path / "data" / "traces.sqlite"
    assert file.stat().st_mode & 0o077 == 0, "for its owner only"
    assert file.parent.stat().st_mode & 0o077 == 0
    (found,) = recorded(tao)
    assert (found["graph"], found["state"], found["steps"]) == ("react", "answered", 2)
    assert (found["question"], found["answer"]) == ("What is 1+1?", "It is 2.")
    assert found["spent"]["model_calls"] == 2
    assert found["tools"] == {"calculator": 1}
    assert found["delete_on"] > found["started"][:10]


def test_verbose_says_where(tao: Any, tmp_path: Path) -> None:
    assert run(tao, "-v").err == f"Trace: sqlite:///{tmp_path}/data/traces.sqlite\n"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_it_is_turned_off(tao: Any, tmp_path: Path, how: str) -> None:
    done = run(tao, "--trace", "none") if how == "option" else run(tao, TAOGRAPH_TRACE="none")
    assert (done.code, done.err) == (0, "")
    assert not (tmp_path / "data").exists()
    listed = tao("trace", "list")
    assert listed.code == 0
    assert "No run has been recorded yet" in listed.err


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_the_option_says_where_and_comes_before_the_variable(tao: Any, tmp_path: Path, kind: str) -> None:
    url = f"sqlite:///{tmp_path}/mine.db" if kind == "sqlite" else f"jsonl:{tmp_path}/mine"
    run(tao, "--trace", url, TAOGRAPH_TRACE=f"sqlite:///{tmp_path}/other.db")
    assert [each["state"] for each in recorded(tao, "--trace", url)] == ["answered"]
    assert not (tmp_path / "other.db").exists()
    run(tao)
    assert (tmp_path / "other.db").exists()
    assert len(recorded(tao)) == 1, "the variable says where to look, too"


def test_what_goes_on_after_an_approval_is_the_same_run(tao: Any) -> None:
    with FakeOpenAI([ADD, "It is 2."]) as server:
        more = ("-m", f"{server.url}#fake", "--thread", "ada", "--approve", "calculator")
        assert tao("run", "What is 1+1?", *more).code == 4
        assert [each["state"] for each in recorded(tao)] == ["waiting"]
        assert tao("resume", "ada", "--approve", "--by", "Eve").code == 0
    (found,) = recorded(tao)
    assert (len(found["traces"]), found["state"], found["thread"]) == (2, "answered", "ada")
    assert found["spent"]["tool_calls"] == 1


def test_secrets_and_personal_data_are_not_written(tao: Any, tmp_path: Path) -> None:
    replies = ["Write to ada@example.com, the key is sk-abcdefgh1234567890."]
    run(tao, "--system", "Mail bob@example.com.", replies=replies)
    run(tao, replies=replies, TAOGRAPH_TRACE_REDACT="0")
    first, second = recorded(tao)[::-1]
    assert first["answer"] == "Write to <EMAIL>, the key is [secret]."
    assert second["answer"] == "Write to ada@example.com, the key is [secret]."
    exported = tao("trace", "export", first["run"]).out
    assert "EMAIL" in exported
    assert "example.com" not in exported


def test_content_can_be_left_out(tao: Any) -> None:
    run(tao, TAOGRAPH_TRACE_CONTENT="0")
    exported = tao("trace", "export").out
    for said in ("I add.", "It is 2.", "1+1"):
        assert said not in exported
    shown = tao("trace", "show").out
    assert "Thought 1: [6 characters, not recorded]" in shown
    assert "Action 1: calculator(expression=[3 characters, not recorded])" in shown
    assert "Answer: [8 characters, not recorded]" in shown


def test_days_and_key_come_from_variables(tao: Any, tmp_path: Path) -> None:
    run(tao, TAOGRAPH_TRACE_DAYS="0", TAOGRAPH_TRACE_KEY="0123456789abcdef")
    (found,) = recorded(tao)
    assert found["delete_on"] == found["started"][:10]
    events = [json.loads(line) for line in tao("trace", "export").out.splitlines()]
    assert all(event["signature"] for event in events)
    run(tao, TAOGRAPH_TRACE_DAYS="never")
    assert recorded(tao)[0]["delete_on"] is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TAOGRAPH_TRACE_DAYS", "soon", "write whole days"),
        ("TAOGRAPH_TRACE_KEY", "short", "give 16 or more"),
        ("TAOGRAPH_TRACE_CONTENT", "perhaps", "write 1 or 0"),
        ("TAOGRAPH_TRACE_ON_ERROR", "cry", 'write "warn" or "stop"'),
        ("TAOGRAPH_TRACE", "mongodb://x", "sqlite:///path"),
    ],
)
def test_a_variable_that_cannot_be_read_is_told_and_the_run_goes_on(
    tao: Any, tmp_path: Path, name: str, value: str, said: str
) -> None:
    done = run(tao, **{name: value})
    assert done.code == 0
    assert "Answer: It is 2." in done.out
    assert done.err.startswith("tao: this run is not recorded: ")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_an_option_that_is_no_url_is_wrong_usage_and_no_model_is_asked(tao: Any) -> None:
    with FakeOpenAI([ADD]) as server:
        done = tao("run", "q", "-m", f"{server.url}#fake", "--trace", "here")
        assert done.code == 2
        assert "--trace" in done.err
        assert "sqlite:///path" in done.err
        assert server.requests == []


@pytest.fixture
def no_folder(tmp_path: Path) -> str:
    """A place where nothing can be written: a file stands where the folder would be."""
    (tmp_path / "file").write_text("")
    return f"sqlite:///{tmp_path}/file/traces.db"


def test_a_run_whose_trace_cannot_be_written_still_runs_and_says_so(tao: Any, no_folder: str) -> None:
    done = run(tao, "--trace", no_folder)
    assert done.code == 0
    assert "Answer: It is 2." in done.out
    assert done.err.startswith("tao: the trace can't be written")
    assert "events are lost" in done.err


def test_it_stops_where_that_is_wanted_before_a_model_is_paid(tao: Any, no_folder: str) -> None:
    with FakeOpenAI([ADD, "It is 2."]) as server:
        more = ("-m", f"{server.url}#fake", "--trace", no_folder)
        done = tao("run", "What is 1+1?", *more, env={"TAOGRAPH_TRACE_ON_ERROR": "stop"})
        assert done.code == 1
        assert "can't be written" in done.err
        assert "TAOGRAPH_TRACE_ON_ERROR=warn" in done.err
        assert server.requests == []
        done = tao("run", "What is 1+1?", *more[:2], env={"TAOGRAPH_TRACE_DAYS": "soon"})
        assert done.code == 1
        assert server.requests == []


def test_nested_runs_are_recorded_in_their_place(tao: Any, tmp_path: Path) -> None:
    run(tao, "--graph", "hybrid")
    store = open_store(f"sqlite:///{tmp_path}/data/traces.sqlite", read_only=True)
    (found,) = runs(store)
    events = [*entries(store, found)]
    store.close()
    assert {tuple(event.content["path"]) for event in events if event.content} == {(), ("react",)}
    assert summarize(events).answer == "It is 2."


def test_doctor_shows_where_and_how(tao: Any, tmp_path: Path) -> None:
    def check(**env: str) -> dict[str, str]:
        found = json.loads(tao("doctor", "--json", env=env).out)["checks"]
        return next(each for each in found if each["name"] == "trace")

    assert check()["detail"].endswith(
        "/data/traces.sqlite; kept 190 days; without secrets and personal data; nothing recorded yet"
    )
    run(tao, TAOGRAPH_TRACE_DAYS="0", TAOGRAPH_TRACE_KEY="0123456789abcdef")
    told = check()
    assert (told["status"], told["fix"]) == ("note", "tao trace purge")
    assert told["detail"].endswith("signed; 1 trace to be deleted")
    assert check(TAOGRAPH_TRACE="none")["detail"].startswith("off (TAOGRAPH_TRACE=none)")
    assert "TAOGRAPH_TRACE_DAYS" in check(TAOGRAPH_TRACE="", TAOGRAPH_TRACE_DAYS="x")["detail"]
