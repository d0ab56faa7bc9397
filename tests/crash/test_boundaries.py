"""A run whose process is killed at a boundary goes on in another, as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from killing import Story

NewStory = Callable[..., Story]

# Where the process dies; what is done a second time because of it (the call had not been written down as finished);
# what a person is asked about.
BOUNDARIES: list[tuple[str, str, set[str], set[str]]] = [
    ("before anything is stored", "step -1 stored", set(), set()),
    ("before the model call", "turn 1 asked", {"turn 1 asked"}, set()),
    ("in the moment after it", "turn 1 said", {"turn 1 asked"}, set()),
    ("when its reply is kept", "turn 1 kept", set(), set()),
    ("when the step is stored", "step 1 stored", set(), set()),
    ("before a tool", "pay-3 before", set(), set()),
    ("when a tool is begun", "pay-3 begun", set(), {"pay-3"}),
    ("inside a tool, before its effect", "pay-3 inside", {"pay-3 inside"}, {"pay-3"}),
    ("inside a tool, after its effect", "pay-3 took effect", set(), {"pay-3"}),
    ("when a tool has returned", "pay-3 done", set(), {"pay-3"}),
    ("when its result is kept", "pay-3 kept", set(), set()),
    ("when its result is stored", "pay-3 stored", set(), set()),
    ("when the step of the tools is stored", "step 4 stored", set(), set()),
    ("inside a tool that may be repeated", "post-m done", {"post-m inside", "post-m EFFECT"}, set()),
    ("inside a tool that reads", "look-b done", {"look-b inside", "look-b EFFECT"}, set()),
    ("before the closing call", "step 7 stored", set(), set()),
    ("inside finish, before the model", "closing asked", {"closing asked"}, set()),
    ("inside finish, after the model", "closing kept", set(), set()),
    ("when all is stored", "step 8 stored", set(), set()),
]


# What runs beside them may have been cut off, too.
BESIDE = {f"{name} {what}" for name in ("post-m", "look-b") for what in ("inside", "EFFECT")}


@pytest.mark.parametrize(
    ("place", "twice", "asked"), [one[1:] for one in BOUNDARIES], ids=[one[0].replace(" ", "-") for one in BOUNDARIES]
)
def test_killed(new_story: NewStory, undisturbed: dict[str, Any], place: str, twice: set[str], asked: set[str]) -> None:
    story = new_story()
    assert story.go(stop=place) is None
    result = story.end()
    story.check(result, undisturbed)
    assert {one["call"] for one in story.asked} == asked
    assert twice <= story.twice() <= twice | (BESIDE if twice & BESIDE else set())


@pytest.mark.parametrize("place", ["pay-1 kept", "pay-1 stored", "look-a stored", "post-n kept"])
def test_killed_between_two_parallel_tools(new_story: NewStory, undisturbed: dict[str, Any], place: str) -> None:
    story = new_story()
    gate = f"{place.partition(' ')[0]} inside"  # or the one may be done before the other has begun
    assert story.go(stop=place, hold=["pay-2 inside"], gate=gate) is None
    result = story.end()
    story.check(result, undisturbed)
    assert [one["call"] for one in story.asked if one["call"] == "pay-2"] == ["pay-2"]
    assert place.partition(" ")[0] not in {one["call"] for one in story.asked}


def test_killed_again_and_again(new_story: NewStory, undisturbed: dict[str, Any]) -> None:
    story = new_story()
    for place in ("turn 1 kept", "pay-1 kept", "step 2 stored", "pay-3 before", "turn 3 kept", "closing kept"):
        result = story.go(stop=place)
        while result is not None:
            result = story.go(stop=place, resume=story.answers(result))
    assert story.kills == 6
    result = story.end()
    story.check(result, undisturbed)
    assert not {line for line in story.twice() if line.endswith("asked")}
