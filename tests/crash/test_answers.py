"""What a person says holds over the death of a process, for the call that they were asked about, and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from killing import Story

NewStory = Callable[..., Story]


def observed(result: dict[str, Any], call: str) -> str:
    (text,) = [text for _, text, id, _ in result["messages"] if id == call]
    return str(text)


@pytest.mark.parametrize("by_id", [True, False], ids=["by-id", "plain"])
def test_repeat_is_used_once(new_story: NewStory, undisturbed: dict[str, Any], by_id: bool) -> None:
    story = new_story()
    assert story.go(stop="pay-3 inside") is None
    (first,) = _asked(story.go())
    word: Any = {first["id"]: "repeat"} if by_id else "repeat"
    assert story.go(stop="pay-3 inside", resume=word) is None
    (second,) = _asked(story.go())
    assert (first["try"], second["try"]) == (1, 2)
    assert _asked(story.go()) == [second], "the answer of before was used again"
    assert _asked(story.go(resume={first["id"]: "repeat"})) == [second], "so it was when it was sent again"
    assert story.count("pay-3 inside") == 2
    result = story.go(resume={second["id"]: "repeat"} if by_id else "repeat")
    assert result is not None
    story.check(result, undisturbed)
    assert story.count("pay-3 inside") == 3
    assert story.count("pay-3 EFFECT") == 1


@pytest.mark.parametrize("tell", [False, True], ids=["asked", "told"])
def test_an_unknown_outcome(new_story: NewStory, tell: bool) -> None:
    story = new_story(tell=tell)
    assert story.go(stop="pay-3 took effect") is None
    result = story.go()
    if not tell:
        (asked,) = _asked(result)
        result = story.go(resume={asked["id"]: "unknown"})
    assert result is not None
    assert result["sound"]
    assert result["asked"] == []
    assert "Whether it took effect is unknown" in observed(result, "pay-3")
    assert story.count("pay-3 inside") == 1
    assert "receipt pay-2" in result["answer"]
    assert "receipt pay-3" not in result["answer"]


def test_what_a_person_found_out_is_not_asked_again(new_story: NewStory, undisturbed: dict[str, Any]) -> None:
    story = new_story()
    assert story.go(stop="pay-3 took effect") is None
    (asked,) = _asked(story.go())
    done = {"decision": "done", "result": "receipt pay-3"}
    assert story.go(stop="pay-3 kept", resume={asked["id"]: done}) is None
    result = story.go()
    assert result is not None
    story.check(result, undisturbed)


def test_approvals_over_restarts(new_story: NewStory, undisturbed: dict[str, Any]) -> None:
    story = new_story(approve=["pay"])
    questions = {one["call"]: one for one in _asked(story.go())}
    assert set(questions) == {"pay-1", "pay-2"}
    assert not story.count("pay-1 before")
    # Killed right after the word was written down, before it was acted upon: it is not asked for again.
    assert story.go(stop="pay-2 decided", resume={questions["pay-2"]["id"]: "approve"}) is None
    assert _asked(story.go()) == [questions["pay-1"]]
    assert story.count("pay-2 EFFECT") == 1
    # Killed within the call: it was approved, and what is asked is whether it took effect.
    assert story.go(stop="pay-1 took effect", resume="approve") is None
    (unfinished,) = _asked(story.go())
    assert (unfinished["type"], unfinished["call"]) == ("unfinished_call", "pay-1")
    assert _asked(story.go()) == [unfinished], "the approval was taken for an answer to this"
    assert _asked(story.go(resume={questions["pay-1"]["id"]: "approve"})) == [unfinished]
    done = {"decision": "done", "result": "receipt pay-1"}
    (third,) = _asked(story.go(resume={unfinished["id"]: done}))
    assert third["call"] == "pay-3"
    result = story.go(resume={third["id"]: True})
    assert result is not None
    story.check(result, undisturbed)
    assert not [line for line in story.lines if line.startswith("pay") and line in story.twice()]


def test_a_word_can_be_taken_back_until_the_call_begins(new_story: NewStory) -> None:
    story = new_story(approve=["pay"])
    questions = {one["call"]: one["id"] for one in _asked(story.go())}
    assert story.go(stop="pay-1 decided", resume={questions["pay-1"]: "approve"}) is None
    no = {"decision": "reject", "reason": "too dear", "by": "the treasurer"}
    assert [one["call"] for one in _asked(story.go(resume={questions["pay-1"]: no}))] == ["pay-2"]
    assert not story.count("pay-1 before")
    # One that was begun cannot be: what it did has to be found out.
    assert story.go(stop="pay-2 took effect", resume={questions["pay-2"]: "approve"}) is None
    (unfinished,) = _asked(story.go(resume={questions["pay-2"]: no}))
    assert (unfinished["type"], unfinished["call"]) == ("unfinished_call", "pay-2")
    (last,) = _asked(story.go(resume={unfinished["id"]: {"decision": "done", "result": "receipt pay-2"}}))
    result = story.go(resume={last["id"]: no})
    assert result is not None
    assert result["sound"]
    assert "too dear" in observed(result, "pay-1")
    assert "by the treasurer" in observed(result, "pay-3")
    assert (story.count("pay-1 inside"), story.count("pay-2 inside"), story.count("pay-3 inside")) == (0, 1, 0)


def test_a_rejection_survives(new_story: NewStory) -> None:
    story = new_story(approve=["post"])
    (asked,) = _asked(story.go())
    assert story.go(stop="post-n decided", resume={asked["id"]: {"decision": "reject", "reason": "not now"}}) is None
    (other,) = _asked(story.go())
    assert other["call"] == "post-m"
    assert not story.count("post-n before")


@pytest.mark.parametrize(
    ("stop", "call", "told"),
    [
        ("pay-3 took effect", "pay-3", "Whether it took effect is unknown"),
        ("pay-3 kept", "pay-3", "receipt pay-3"),
        ("pay-3 before", "pay-3", "pay was not run: the user went on"),
        ("look-b kept", "look-b", "receipt look-b"),
    ],
)
def test_another_question_after_a_crash(new_story: NewStory, stop: str, call: str, told: str) -> None:
    story = new_story()
    assert story.go(stop=stop, hold=["post-m inside"]) is None
    before = story.count(f"{call} inside")
    result = story.go(ask="Never mind. What is known?")
    assert result is not None
    assert result["stop"]["reason"] == "final"
    assert result["sound"]
    assert told in observed(result, call)
    assert story.count(f"{call} inside") == before
    assert story.go() == {**result, "asked": []}


def test_another_question_while_approvals_are_open(new_story: NewStory) -> None:
    story = new_story(approve=["pay"])
    questions = {one["call"]: one["id"] for one in _asked(story.go())}
    (left,) = _asked(story.go(resume={questions["pay-1"]: "approve"}))
    result = story.go(ask="Never mind. What is known?")
    assert result is not None
    assert result["stop"]["reason"] == "final"
    assert result["sound"]
    assert observed(result, "pay-1") == "receipt pay-1"
    assert observed(result, "pay-2").startswith("pay was not run: the user went on with something else")
    assert observed(result, "look-a") == "receipt look-a"
    # An answer that comes too late approves nothing.
    late = story.go(resume={left["id"]: "approve"})
    assert late is not None
    assert late["asked"] == []
    assert story.count("pay-2 inside") == 0


def _asked(result: dict[str, Any] | None) -> list[dict[str, Any]]:
    assert result is not None
    asked: list[dict[str, Any]] = result["asked"]
    assert asked, result["answer"]
    return asked
