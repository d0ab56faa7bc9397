"""The ledger: what it knows of a call, in both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from checkpoint_support import Stored
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from taograph import checkpoints
from taograph.checkpoints.ledger import TABLE, CallKey, Ledger, hash_of, ledger_of

KEY = CallKey("t1", "", "run-1", "call-1", hash_of("pay", {"to": "Ann", "amount": 5}))


@pytest.fixture
def saver(url: str) -> Iterator[checkpoints.Checkpoints]:
    with checkpoints.open(url) as opened:
        yield opened


@pytest.fixture
def ledger(saver: checkpoints.Checkpoints) -> Ledger:
    made = ledger_of(saver)
    assert made is not None
    return made


def rows(saver: checkpoints.Checkpoints) -> list[tuple[Any, ...]]:
    with saver.transaction() as execute:
        return execute(f"SELECT scope, call_id, state, tries, kept FROM {TABLE} ORDER BY scope, call_id")


def test_a_call_from_its_beginning_to_its_end(ledger: Ledger) -> None:
    assert ledger.find(KEY) is None
    assert ledger.begin(KEY, "pay") is None
    begun = ledger.begin(KEY, "pay")
    assert begun is not None
    assert (begun.state, begun.tries, begun.result) == ("begun", 1, None)
    ledger.again(KEY)
    again = ledger.begin(KEY, "pay")
    assert again is not None
    assert (again.state, again.tries) == ("begun", 2)
    assert again.since >= begun.since
    result = {"message": ToolMessage("paid", tool_call_id="call-1"), "size": 4}
    ledger.finish(KEY, "pay", result, keep=True)
    known = ledger.begin(KEY, "pay")
    assert known is not None
    assert known == ledger.find(KEY)
    assert (known.state, known.tries, known.result) == ("finished", 2, result)


def test_what_waits_for_a_person_begins_once_more(ledger: Ledger) -> None:
    ledger.begin(KEY, "pay")
    ledger.wait(KEY)
    waiting = ledger.find(KEY)
    assert waiting is not None
    assert (waiting.state, waiting.tries) == ("waiting", 1)
    assert ledger.begin(KEY, "pay") is None
    begun = ledger.find(KEY)
    assert begun is not None
    assert (begun.state, begun.tries) == ("begun", 2)
    ledger.finish(KEY, "pay", "paid", keep=True)
    ledger.wait(KEY)
    ledger.again(KEY)
    finished = ledger.find(KEY)
    assert finished is not None
    assert (finished.state, finished.tries) == ("finished", 2), "what is finished stays so"


@pytest.mark.parametrize("field", ["thread", "ns", "scope", "call", "hash"])
def test_a_call_is_no_other(ledger: Ledger, field: str) -> None:
    ledger.begin(KEY, "pay")
    other = replace(KEY, **{field: "another"})
    assert ledger.find(other) is None
    assert ledger.begin(other, "pay") is None
    assert other.idempotency != KEY.idempotency
    assert replace(other, **{field: getattr(KEY, field)}).idempotency == KEY.idempotency


def test_a_finished_call_that_was_never_begun(ledger: Ledger) -> None:
    """As of tools that only read, whose beginning is not written down."""
    ledger.finish(KEY, "look", "seen", keep=False)
    known = ledger.find(KEY)
    assert known is not None
    assert (known.state, known.tries, known.result) == ("finished", 1, "seen")


def test_what_cannot_be_stored_is_finished_all_the_same(ledger: Ledger) -> None:
    ledger.begin(KEY, "pay")
    ledger.finish(KEY, "pay", {"message": object()}, keep=True)
    known = ledger.find(KEY)
    assert known is not None
    assert (known.state, known.result) == ("finished", None)


def test_what_is_kept_until_the_next_reply(ledger: Ledger, saver: checkpoints.Checkpoints) -> None:
    def reply(task: str, number: int) -> None:
        key = CallKey("t1", "", task, f"reply {number}", "h")
        ledger.finish(key, "model", AIMessage(str(number)), keep=False, only=True)

    reply("task-1", 1)
    reply("task-1", 2)
    ledger.begin(KEY, "pay")
    ledger.finish(KEY, "pay", "paid", keep=True)
    ledger.begin(replace(KEY, call="call-2"), "pay")
    ledger.finish(replace(KEY, call="call-3"), "look", "seen", keep=False)
    ledger.finish(replace(KEY, thread="t2", call="call-4"), "look", "seen", keep=False)
    ledger.finish(replace(KEY, ns="inner:1", call="call-5"), "look", "seen", keep=False)
    assert [row[1] for row in rows(saver)] == ["call-1", "call-2", "call-3", "call-4", "call-5", "reply 1", "reply 2"]
    reply("task-2", 1)
    assert [row[:2] for row in rows(saver)] == [
        ("run-1", "call-1"),
        ("run-1", "call-2"),
        ("run-1", "call-4"),
        ("run-1", "call-5"),
        ("task-2", "reply 1"),
    ]


def test_what_was_left_open(ledger: Ledger, saver: checkpoints.Checkpoints) -> None:
    many = [f"open-{number}" for number in range(250)]
    for call in many[::50]:
        ledger.begin(replace(KEY, call=call), "pay")
    ledger.wait(replace(KEY, call=many[50]))
    ledger.finish(replace(KEY, call=many[100]), "pay", "paid", keep=False)
    # A person edited this one: under its own hash it was never begun; what ran has another.
    ledger.begin(replace(KEY, call=many[150], hash="edited"), "pay")
    ledger.finish(replace(KEY, call=many[150], hash="edited"), "pay", "paid 7", keep=True)
    ledger.begin(replace(KEY, call=many[1], scope="run-2"), "pay")
    found = ledger.left("t1", "", "run-1", many)
    assert {call: (entry.state, entry.result) for call, entry in found.items()} == {
        many[0]: ("begun", None),
        many[50]: ("waiting", None),
        many[100]: ("finished", "paid"),
        many[150]: ("finished", "paid 7"),
        many[200]: ("begun", None),
    }
    ledger.finish(CallKey("t1", "", "task", "reply 1", "h"), "model", AIMessage("x"), keep=False, only=True)
    assert ledger.left("t1", "", "run-1", many) == found, "it is told in the messages from now on, so it stays"
    assert ledger.left("t1", "", "run-1", []) == {}


def test_one_of_many_at_once_begins_a_call(url: str, saver: checkpoints.Checkpoints) -> None:
    """Each with connections of its own, as several processes have; the table is made by whoever comes first."""
    with checkpoints.open(url) as other, ThreadPoolExecutor(8) as threads:
        ledgers = [Ledger(saver), Ledger(other)] * 4
        begun = list(threads.map(lambda ledger: ledger.begin(KEY, "pay"), ledgers))
    assert begun.count(None) == 1
    assert {entry.state for entry in begun if entry is not None} == {"begun"}
    assert [row[2:4] for row in rows(saver)] == [("begun", 1)]


def test_it_is_there_in_another_process_and_goes_with_its_thread(url: str, stored: Stored) -> None:
    with checkpoints.open(url) as saver:
        Ledger(saver).begin(KEY, "pay")
        Ledger(saver).finish(KEY, "pay", "paid with card 4711", keep=True)
    assert b"card 4711" in stored()
    with checkpoints.open(url) as saver:
        known = Ledger(saver).find(KEY)
        assert known is not None
        assert known.result == "paid with card 4711"
    with checkpoints.open(url) as saver:  # a process that runs nothing
        checkpoints.delete(saver, KEY.thread)
        assert rows(saver) == []


def test_with_a_key_nothing_of_it_is_in_clear(url: str, stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    with checkpoints.open(url) as saver:
        ledger = Ledger(saver)
        ledger.begin(replace(KEY, hash=hash_of("pay", {"card": "4711-secret"})), "pay")
        ledger.finish(KEY, "pay", {"message": ToolMessage("paid with 4711-secret", tool_call_id="x")}, keep=True)
        known = ledger.find(KEY)
        assert known is not None
        assert known.result["message"].text == "paid with 4711-secret"
    assert b"4711-secret" not in stored()


def test_a_saver_of_somebody_elses_has_none() -> None:
    assert ledger_of(InMemorySaver()) is None
    assert ledger_of(None) is None


def test_hashes() -> None:
    assert hash_of("pay", {"a": 1, "b": [1, 2]}) == hash_of("pay", {"b": [1, 2], "a": 1})
    different = [
        ("pay", {"a": 1}),
        ("pay", {"a": "1"}),
        ("pay", {"a": 1.5}),
        ("pay", {"a": None}),
        ("pay", {"a": [1]}),
        ("pay", {"a": {"b": 1}}),
        ("pay", {"a": True}),
        ("pay", {}),
        ("look", {"a": 1}),
        ("pay", {"a": "\ud800"}),
        ("pay", {"a": "é"}),
    ]
    assert len({hash_of(tool, args) for tool, args in different}) == len(different)
