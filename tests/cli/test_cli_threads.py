"""`tao threads`: listing, showing, copying, pruning and deleting what is kept."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Reply
from postgres_server import Unavailable, running

from taograph.checkpoints.sqlite import SqliteCheckpoints

ADD = [Reply("I add.", calls=[("calculator", {"expression": f"{n}+{n}"})]) for n in range(9)]
ASK = Reply(calls=[("ask_person", {"question": "Which color?"})])


def listed(tao: Any, *more: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in tao("threads", "list", "--json", *more).out.splitlines()]
    return {each["thread"]: each for each in found}


def run(tao: Any, server: FakeOpenAI, thread: str, question: str, *more: str) -> Any:
    return tao("run", question, "-m", f"{server.url}#fake", "--thread", thread, *more)


@pytest.fixture
def three(tao: Any) -> Any:
    """Three threads: one that is answered, one that waits, one that was stopped."""
    with FakeOpenAI([ADD[1], "It is 2.", ASK, ADD[2], "So far 4."]) as server:
        run(tao, server, "done", "What is 1+1?")
        run(tao, server, "waits", "Paint it\x1b[31m red.")
        run(tao, server, "stopped", "Add.", "--steps", "1")
    return tao


def test_threads_are_listed_with_how_they_stand(three: Any) -> None:
    for command in (["threads"], ["threads", "list"]):
        lines = three(*command).out.splitlines()
        assert lines[0].split() == ["thread", "used", "steps", "state", "question"]
        names = [line.split()[0] for line in lines[1:]]
        assert names == ["stopped", "waits", "done"], "the last one that was used first"
        assert "stopped by the step limit" in lines[1]
        assert "waits for an answer" in lines[2]
        assert lines[2].endswith("Paint it red.")
        assert "answered" in lines[3]
    assert "\x1b" not in three("threads").out


# Cut off after a task has stored what it wrote, and before the step is stored: LangGraph's `next` is empty then.
@pytest.mark.parametrize(("step", "replies"), [(0, 2), (1, 1), (3, 0)])
def test_a_step_that_was_not_stored_is_unfinished(
    tao: Any, monkeypatch: pytest.MonkeyPatch, step: int, replies: int
) -> None:
    put = SqliteCheckpoints.put

    def full(self: Any, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        if metadata["step"] == step:
            raise OSError("disk full")
        return put(self, config, checkpoint, metadata, versions)

    with FakeOpenAI([ADD[1], "It is 2."]) as server:
        with monkeypatch.context() as patch:
            patch.setattr(SqliteCheckpoints, "put", full)
            assert run(tao, server, "t", "What is 1+1?").code == 1
        asked = len(server.requests)
        found = listed(tao)["t"]
        assert (found["state"], found["goes_on"]) == ("unfinished", True)
        assert found["question"] == "What is 1+1?"
        done = tao("resume", "t")
        assert "Answer: It is 2." in done.out
        assert done.code == 0
        assert len(server.requests) == asked + replies, "no reply is paid for twice"
        assert listed(tao)["t"]["state"] == "answered"


def test_threads_as_json(three: Any) -> None:
    found = listed(three)
    assert {name: each["state"] for name, each in found.items()} == {
        "stopped": "stopped",
        "waits": "waiting",
        "done": "answered",
    }
    (waiting,) = found["waits"]["waiting"]
    assert waiting["kind"] == "question"
    assert found["done"]["steps"] == 2
    assert found["done"]["bytes"] > 0
    assert found["stopped"]["stop"]["reason"] == "step_limit"
    assert [found[name]["goes_on"] for name in ("done", "waits", "stopped")] == [False, True, True]
    assert set(listed(three, "--open")) == {"waits", "stopped"}


def test_only_the_last_ones_are_listed(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.cli.threads._MOST", 2)
    with FakeOpenAI(default="Yes.") as server:
        for name in "abc":
            run(tao, server, name, "q")
    assert list(listed(tao)) == ["c", "b"]
    assert list(listed(tao, "--all")) == ["c", "b", "a"]
    assert tao("threads").out.endswith("\n1 more thread: tao threads list --all\n")


def test_nothing_is_kept_yet(tao: Any, tmp_path: Path) -> None:
    done = tao("threads")
    assert (done.code, done.out) == (0, "")
    assert done.err == 'No thread has been kept yet: tao run "…" --thread NAME keeps one.\n'
    assert tao("threads", "list", "--json").out == ""
    assert not (tmp_path / "data").exists()
    typo = tao("threads", "list", "--checkpoints", f"sqlite:///{tmp_path}/no.db")
    assert typo.code == 1
    assert "there is no file" in typo.err
    assert not (tmp_path / "no.db").exists()


def test_a_thread_is_shown_as_it_was_told(three: Any) -> None:
    lines = three("threads", "show", "done").out.splitlines()
    assert lines[0].startswith("Thread: done · answered · 2 steps · used ")
    assert lines[1].startswith("Options: --model http://127.0.0.1:")
    assert lines[2:-1] == [
        "Question: What is 1+1?",
        "Thought: I add.",
        'Action: calculator(expression="1+1")',
        "Observation: 2",
        "Answer: It is 2.",
    ]
    assert "price unknown" not in lines[-1]
    waits = three("threads", "show", "wai").out
    assert "\nIt waits for an answer:\n  Which color?\nTo answer:\n" in waits
    assert "\x1b" not in waits
    stopped = three("threads", "show", "stopped").out
    assert "Stop: stopped by the step limit at step 1: 1 of 1 steps used" in stopped
    assert stopped.endswith("\nTo go on: tao resume stopped\n")


def test_a_thread_and_its_history_as_json(three: Any) -> None:
    shown = json.loads(three("threads", "show", "done", "--json", "--history").out)
    assert [event["type"] for event in shown["events"]] == ["question", "thought", "action", "observation", "answer"]
    assert shown["settings"]["model"].endswith("#fake")
    assert [state["step"] for state in shown["history"]] == [3, 2, 1, 0, -1]
    assert shown["checkpoint"] == shown["history"][0]["checkpoint"]
    table = three("threads", "show", "done", "--history").out.splitlines()
    assert table[0].split()[:2] == ["step", "checkpoint"]
    assert "Answer: It is 2." in table[1]
    assert all(state["checkpoint"] in line for state, line in zip(shown["history"], table[1:], strict=True))


def test_a_thread_is_gone_back_in(tao: Any) -> None:
    with FakeOpenAI([ADD[1], "It is 2.", "It is two.", "Deux."]) as server:
        run(tao, server, "t", "What is 1+1?")
        history = json.loads(tao("threads", "show", "t", "--json", "--history").out)["history"]
        done = tao("threads", "fork", "t", "--step", "1")
        assert done.out == "Thread t-fork is a copy of t as it was then: unfinished.\nTo go on: tao resume t-fork\n"
        assert tao("resume", "t-fork").code == 0, "the options are copied, too"
        assert "Answer: It is two." in tao("threads", "show", "t-fork").out
        assert "Answer: It is 2." in tao("threads", "show", "t").out, "the thread stays as it is"
        whole = tao("threads", "fork", "t")
        assert whole.out.splitlines() == [
            "Thread t-fork-2 is a copy of t: answered.",
            "To ask something: tao run '…' --thread t-fork-2",
        ]
        assert tao("run", "In French?", "--thread", "t-fork-2").code == 0
        named = tao("threads", "fork", "t", "--at", history[1]["checkpoint"], "--to", "mine")
        assert named.out.startswith("Thread mine is a copy of t as it was then")
    assert set(listed(tao)) == {"t", "t-fork", "t-fork-2", "mine"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fork", "done", "--step", "99"], "--step: thread 'done' has no step 99; it has -1 to 3"),
        (["fork", "done", "--at", "nothing"], "--at: thread 'done' has no checkpoint 'nothing'"),
        (["fork", "done", "--to", "waits"], "--to: there is a thread 'waits'; copy to a new one"),
        (["fork", "done", "--at", "x", "--step", "1"], "--step: give --at or --step, not both"),
        (["show", "nobody"], "THREAD: no thread is called 'nobody'"),
        (["prune"], "--older-than"),
        (["prune", "--older-than", "30"], "--older-than: '30' can't be read: write a number and s, min, h, d, w"),
        (["prune", "--older-than", "-3d"], "--older-than: '-3d' can't be read"),
        (["delete"], "THREAD"),
        (["delete", "do", "--yes"], "THREAD: 'do' is no whole id: write 'done'"),
        (["dance"], "No such command 'dance'"),
    ],
)
def test_wrong_usage_names_the_option_and_changes_nothing(three: Any, arguments: list[str], said: str) -> None:
    done = three("threads", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert set(listed(three)) == {"done", "waits", "stopped"}


def test_the_beginning_of_an_id_has_to_be_enough(tao: Any) -> None:
    with FakeOpenAI(default="Yes.") as server:
        for name in ("order-1", "order-2", "order"):
            run(tao, server, name, "q")
    assert "order" in tao("threads", "show", "order").out.splitlines()[0], "a whole id is never the beginning of one"
    done = tao("threads", "show", "order-")
    assert done.code == 2
    assert "'order-' may be 'order-2', 'order-1': write more of it" in done.err


def test_threads_are_deleted_with_a_question(three: Any) -> None:
    refused = three("threads", "delete", "done")
    assert refused.code == 2
    assert "add --yes to delete without asking" in refused.err
    assert "done" in listed(three)
    done = three("threads", "delete", "done", "waits", "--yes")
    assert done.out == "Deleted done.\nDeleted waits.\n"
    assert list(listed(three)) == ["stopped"]


def test_old_threads_are_pruned(three: Any, tmp_path: Path) -> None:
    nothing = three("threads", "prune", "--older-than", "1d")
    assert nothing.out == "0 threads deleted, 0 bytes given back.\n"
    dry = three("threads", "prune", "--older-than", "0s", "--dry-run")
    assert "waits for an answer" in dry.out
    assert dry.out.splitlines()[-1].startswith("3 threads would be deleted; ")
    assert len(listed(three)) == 3, "nothing was deleted"
    kept = three("threads", "prune", "--older-than", "0s", "--keep-latest")
    assert kept.code == 0
    assert "cut to the last state" in kept.out
    assert len(listed(three)) == 3
    assert "Answer: It is 2." in three("threads", "show", "done").out
    done = three("threads", "prune", "--older-than", "0s")
    assert done.out.splitlines()[0].startswith("3 threads deleted, ")
    assert {line.strip() for line in done.out.splitlines()[1:]} == {"done", "waits", "stopped"}
    assert listed(three) == {}
    with sqlite3.connect(tmp_path / "data" / "threads.sqlite") as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    connection.close()


def test_with_its_key_an_encrypted_thread_is_like_any_other(tao: Any) -> None:
    pytest.importorskip("Crypto", reason="needs taograph[encryption]")
    with FakeOpenAI(["Yes.", "No."]) as server:
        run(tao, server, "open", "Is it?")
        key = {"LANGGRAPH_AES_KEY": "0123456789abcdef"}
        done = tao("run", "Secret?", "-m", f"{server.url}#fake", "--thread", "closed", env=key)
        assert done.code == 0
        assert {name: each["state"] for name, each in listed(tao).items()} == {
            "open": "answered",
            "closed": "answered",
        }


def test_without_its_key_a_thread_is_listed_and_not_read(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("Crypto", reason="needs taograph[encryption]")
    with FakeOpenAI(["Yes.", "No."]) as server:
        run(tao, server, "open", "Is it?")
        tao(
            "run", "Secret?", "-m", f"{server.url}#fake", "--thread", "closed",
            env={"LANGGRAPH_AES_KEY": "0123456789abcdef"},
        )  # fmt: skip
    monkeypatch.delenv("LANGGRAPH_AES_KEY")
    table = tao("threads")
    assert table.code == 0
    assert "encrypted" in table.out
    assert "Secret" not in table.out
    shown = tao("threads", "show", "closed")
    assert shown.code == 1
    assert "LANGGRAPH_AES_KEY" in shown.err
    assert tao("threads", "delete", "open", "--yes").code == 0


def test_threads_on_a_postgresql_server(tao: Any) -> None:
    pytest.importorskip("psycopg_pool", reason="needs taograph[postgres]")
    try:
        with running() as server, FakeOpenAI([ADD[1], ASK, "It is 2."]) as model:
            where = ["--checkpoints", server.url()]
            started = tao("run", "Add.", "-m", f"{model.url}#fake", "--thread", "t", *where)
            assert started.code == 4
            assert tao("threads", "list", *where).out.count("waits for an answer") == 1
            assert tao("threads", "fork", "t", "--step", "1", *where).code == 0
            assert tao("resume", "t", "--answer", "green", *where).code == 0
            assert set(listed(tao, *where)) == {"t", "t-fork"}
            assert tao("threads", "prune", "--older-than", "0s", *where).code == 0
            assert listed(tao, *where) == {}
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


def test_a_run_that_was_killed_before_its_first_step_shows_its_question(tao: Any, tmp_path: Path) -> None:
    with FakeOpenAI(["Yes.", "Yes, again."]) as server:
        run(tao, server, "t", "Is it so?")
        assert tao("threads", "fork", "t", "--step", "-1", "--to", "early").code == 0
        assert listed(tao)["early"]["question"] == "Is it so?"
        done = tao("resume", "early")
    assert done.code == 0
    assert "Question: Is it so?" in done.out
    assert "Answer: Yes, again." in done.out
