"""Recorded runs as a person asks for them: found in every store, told as a trajectory, summed up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from trace_support import NOON, draft, whole, write

from taograph.trace import Draft, Entry, Sealer, Store
from taograph.trace.aligning import align
from taograph.trace.events import FIELDS
from taograph.trace.reading import NotFoundError, entries, find, runs, summarize, text_of
from taograph.trace.showing import lines
from taograph.trace.stats import collect


def sealed(*told: tuple[str, dict[str, Any]]) -> list[Entry]:
    """Events of one trace, as they are stored."""
    sealer, prev = Sealer(), "0" * 64
    made = []
    for number, (kind, content) in enumerate(told, 1):
        about = {name: content[name] for name in ("run", "step") if name in content}
        more = {"path": [], "at": 0.0, **{name: value for name, value in content.items() if name not in about}}
        entry = sealer.entry(Draft("t", kind, NOON, more, **{"run": "r", **about}), number, prev)
        made.append(entry)
        prev = entry.hash
    return made


def told(*events: tuple[str, dict[str, Any]], verbose: bool = False) -> list[str]:
    """The lines of a trajectory, indented."""
    return ["  " * each.depth + f"{each.label}: {each.text}" for each in lines(sealed(*events), verbose=verbose)]


# Finding


def test_runs_are_put_together_from_their_traces_in_every_store(store: Store) -> None:
    write(store, whole("t1", run="one", thread="a"))
    write(store, whole("t2", run="two", thread="b"))
    write(store, whole("t3", run="one", thread="a"))
    found = runs(store)
    assert [(run.id, [kept.trace for kept in run.traces]) for run in found] == [("one", ["t1", "t3"]), ("two", ["t2"])]
    assert [event.trace for event in entries(store, found[0])] == ["t1"] * 5 + ["t3"] * 5
    assert [run.id for run in runs(store, thread="b")] == ["two"]
    assert [run.id for run in runs(store, graph="react")] == ["one", "two"]
    assert runs(store, graph="other") == []
    assert runs(store, since=datetime(2026, 5, 2, tzinfo=UTC)) == []
    assert len(runs(store, since=datetime(2026, 5, 1, tzinfo=UTC))) == 2


def test_a_run_is_found_by_how_its_id_begins(store: Store) -> None:
    for trace, run in (("0001aaaa", "feed1111"), ("0001bbbb", "feed2222"), ("0002cccc", "feed1111")):
        write(store, whole(trace, run=run))
    there = runs(store)
    assert find(there, "last").id == "feed2222"
    assert find(there, "feed1").id == "feed1111"
    assert len(find(there, "feed1…").traces) == 2
    assert [kept.trace for kept in find(there, "0002").traces] == ["0002cccc"], "one call of the run"
    for given, found in (
        ("feed", ["feed1111", "feed2222"]),
        ("0001", ["0001aaaa", "0001bbbb"]),
        ("beef", []),
        ("f", []),
    ):
        with pytest.raises(NotFoundError) as error:
            find(there, given)
        assert sorted(error.value.found) == found
    with pytest.raises(NotFoundError, match="no run is recorded"):
        find([], "last")


def test_the_id_of_a_run_that_begins_another_ones(store: Store) -> None:
    write(store, whole("t1", run="abcd"))
    write(store, whole("t2", run="abcdef"))
    assert find(runs(store), "abcd").id == "abcd"


# Summing up


def test_a_run_that_waits_and_goes_on_is_summed_up_over_its_traces() -> None:
    replied = {"model": "m", "message": {"content": "x"}, "input_tokens": 10, "output_tokens": 2, "cached_tokens": 4}
    first = [
        ("run_started", {"graph": "react", "question": "Why?", "step": 0}),
        ("model_asked", {"model": "m", "new": [], "step": 1}),
        ("model_replied", {**replied, "cost": 0.5, "step": 1}),
        ("run_ended", {"status": "waiting", "seconds": 1.5}),
    ]
    waiting = summarize(sealed(*first))
    assert (waiting.state, waiting.question, waiting.steps) == ("waiting", "Why?", 1)
    summary = summarize(
        sealed(
            *first,
            ("run_started", {"graph": "react", "resumes": True}),
            ("observation", {"tool": "look", "text": "x", "status": "error", "step": 1}),
            ("tool_failed", {"tool": "look", "error": "OSError", "step": 1}),
            ("model_failed", {"error": "Timeout", "step": 2}),
            ("gap", {"lost": 3}),
            ("stop", {"reason": "step_limit", "detail": "2 of 2", "step": 2}),
            ("answer", {"text": "Because.", "step": 2}),
            ("run_ended", {"status": "ended", "seconds": 2.0, "tool_calls": 1}),
        )
    )
    assert (summary.state, summary.reason, summary.answer) == ("stopped", "step_limit", "Because.")
    assert (summary.steps, summary.models, summary.lost) == (2, ["m"], 3)
    assert summary.spent == {
        "model_calls": 2,
        "tool_calls": 1,
        "input_tokens": 10,
        "output_tokens": 2,
        "cached_tokens": 4,
        "cost": 0.5,
        "seconds": 3.5,
    }
    assert dict(summary.failures) == {"OSError": 1, "Timeout": 1}


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([("run_ended", {"status": "failed", "error": "KeyError", "text": "x"})], "failed"),
        ([("run_ended", {"status": "cancelled"})], "cancelled"),
        ([("run_ended", {"status": "drained"})], "drained"),
        ([("run_ended", {"status": "ended"})], "ended"),
        ([("answer", {"text": "Yes."}), ("run_ended", {"status": "ended"})], "answered"),
        ([("thought", {"text": "Hm.", "step": 1})], "open"),
    ],
)
def test_how_a_run_stands(events: list[Any], state: str) -> None:
    assert summarize(sealed(("run_started", {"graph": "g"}), *events)).state == state


def test_nothing_is_known_of_what_was_erased(store: Store) -> None:
    write(store, whole("t1", run="one"))
    store.erase(["t1"], "erased", NOON, Sealer())
    (run,) = runs(store)
    assert run.id == "t1"
    summary = summarize(entries(store, run))
    assert (summary.state, summary.events) == ("erased", 5)
    assert [line.text for line in lines(entries(store, run))] == ["(was erased)"] * 5


# Telling


def test_what_happened_between_the_steps_is_told() -> None:
    assert told(
        ("run_started", {"graph": "react", "question": "Why?"}),
        ("plan", {"plan": [{"task": "Add.", "status": "done"}, "Stop."], "step": 1}),
        ("model_failed", {"error": "Timeout", "text": "slow", "step": 1}),
        ("retry", {"reason": "model_error", "detail": "slow", "step": 1}),
        ("repair", {"reason": "repair", "detail": "quotes", "step": 1}),
        ("truncation", {"reason": "truncated", "detail": "an invented observation", "step": 1}),
        ("condensation", {"reason": "condensed", "detail": "2 observations", "step": 2}),
        ("gap", {"lost": 2, "step": 0}),
        ("stop", {"reason": "cost_limit", "detail": "$1 of $1", "step": 2}),
        ("answer", {"text": "So far.", "structured": {"a": 1}, "step": 2}),
        ("run_ended", {"status": "failed", "error": "KeyError", "text": "x"}),
    ) == [
        "Question: Why?",
        "Plan 1: 1. [done] Add.\n2. Stop.",
        "Model failed 1: Timeout: slow",
        "Again 1: model error: slow",
        "Repaired 1: quotes",
        "Cut off 1: an invented observation",
        "Shortened 2: 2 observations",
        "Gap: 2 events before this one could not be written",
        "Answer: So far.",
        'Structured: {"a": 1}',
        "Stop: cost limit: $1 of $1",
        "Failed: KeyError: x",
    ]


def test_runs_side_by_side_are_told_one_after_the_other_where_they_began() -> None:
    a, b = ({"path": ["sample"], "run": run} for run in ("a", "b"))
    inner = {"path": ["sample", "react"], "run": "c"}
    assert told(
        ("run_started", {"graph": "g", "question": "Why?"}),
        ("run_started", {**a, "graph": "sample", "question": "A?"}),
        ("run_started", {**b, "graph": "sample", "question": "B?"}),
        ("thought", {**a, "text": "a1", "step": 1}),
        ("thought", {**b, "text": "b1", "step": 1}),
        ("thought", {**inner, "text": "within b", "step": 1}),
        ("thought", {**a, "text": "a2", "step": 2}),
        ("thought", {"text": "outermost", "step": 1}),
    ) == [
        "Question: Why?",
        "sample: A?",
        "  Thought 1: a1",
        "  Thought 2: a2",
        "sample: B?",
        "  Thought 1: b1",
        "  sample > react: ",
        "    Thought 1: within b",
        "Thought 1: outermost",
    ]


def test_a_reply_is_told_only_where_nothing_else_tells_it() -> None:
    def replied(text: Any, step: int, **more: Any) -> tuple[str, dict[str, Any]]:
        return "model_replied", {"message": {"type": "ai", "content": text, **more}, "step": step}

    broken = [{"name": "look", "args": '{"x": '}]
    assert told(
        replied([{"type": "text", "text": "I think."}], 1),
        ("thought", {"text": "I think.", "step": 1}),
        replied("I look.", 2, tool_calls=[{"name": "look"}]),
        replied("Action: look", 3),
        ("retry", {"reason": "malformed_output", "detail": "no input", "step": 3}),
        replied("", 4, invalid_tool_calls=broken),
    ) == [
        "Thought 1: I think.",
        "Reply 3: Action: look",
        "Again 3: malformed output: no input",
        'Reply 4: look({"x": )',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("x", "x"),
        ({"text": 1234, "hash": "ab"}, "[1,234 characters, not recorded]"),
        ({"number": 2, "hash": "ab"}, "[not recorded]"),
        ([{"type": "text", "text": "a"}, "b"], "a\nb"),
        ({"a": 1, "b": "c"}, "a: 1, b: c"),
        (3, "3"),
    ],
)
def test_values_as_texts(value: Any, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("wrong", [None, "x", 3, [], {}, [None, 3], {"a": {}}])
def test_a_record_that_was_changed_is_read_all_the_same(wrong: Any) -> None:
    """What is no event as it was written is for `verify` to find; to look at it must work."""
    for kind, fields in FIELDS.items():
        for field in (*fields, "path", "step", "run", "at"):
            (event,) = sealed((kind, {**dict.fromkeys(fields, "x"), field: wrong}))
            assert summarize([event]).events == 1
            assert all(isinstance(line.text, str) for line in lines([event], verbose=True)), (kind, field)
            assert collect([[event]]).runs == 1
            assert align([event], [event]).first is None
    for content in ({"unreadable": "…"}, {}):
        (event,) = sealed(("answer", content))
        assert summarize([event]).events == 1
        assert list(lines([event]))


def test_events_of_later_versions_are_passed_over(store: Store) -> None:
    write(store, [draft("t", "run_started", graph="g", path=[]), draft("t", "guess", text="?", path=[])])
    (run,) = runs(store)
    assert list(lines(entries(store, run))) == []
    assert summarize(entries(store, run)).events == 2
