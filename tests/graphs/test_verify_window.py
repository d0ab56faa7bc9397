"""A model that verifies is told no more than its window takes: the latest observations, and how many are left out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from support import Way, assert_ended, both_ways, question, run
from window_support import TooLongError, long_search, search

from taograph import Limits, create_react_graph, stream_steps
from taograph.models import ScriptedModel, call

STEPS = 60
LEFT_OUT = re.compile(r"\((\d+) earlier observations are left out here")


class Judge:
    """A verifying model with a window, which counts four characters a token.

    Args:
        window: Its tokens.
        says: What a refusal says of it.
        profile: Whether its profile names the window.
    """

    def __init__(self, window: int, *, says: str = "{window}", profile: bool = False) -> None:
        self.window = window
        self.says = says
        self.model = ScriptedModel(replies=[self._reply], repeat=True)
        if profile:
            self.model.profile = {"max_input_tokens": window}

    def size(self, messages: list[BaseMessage]) -> int:
        return sum(len(str(message.content)) for message in messages) // 4

    def _reply(self, messages: list[BaseMessage]) -> Any:
        if self.size(messages) > self.window:
            return TooLongError(self.says.format(window=self.window, sent=self.size(messages)))
        return "OK"

    @property
    def told(self) -> list[str]:
        """The requests."""
        return [str(request.messages[0].content) for request in self.model.requests]


def working(tool: Any = search, steps: int = STEPS) -> ScriptedModel:
    """A model that makes some calls before it answers."""
    calls = [AIMessage("", tool_calls=[call(tool.name, {"query": f"item {n}"})]) for n in range(steps)]
    return ScriptedModel(replies=[*calls, "The answer."])


def made(judge: Judge, tool: Any = search, steps: int = STEPS) -> Any:
    return create_react_graph(working(tool, steps), [tool], verify=judge.model, limits=Limits(steps=100))


def shown(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^- \w+: Entry for item (\d+)[:.]", text, re.MULTILINE)]


@both_ways
def test_the_latest_observations_are_told_and_how_many_are_not(way: Way) -> None:
    judge = Judge(2048, profile=True)
    result = run(way, made(judge), question("Which is it?"))
    assert_ended(result, "final")
    assert "not verified" not in result["stop"]["detail"]
    (text,) = judge.told
    assert judge.window * 0.6 < judge.size(judge.model.requests[0].messages) <= judge.window, "the room is used"
    numbers = shown(text)
    assert numbers == [*range(STEPS - len(numbers), STEPS)], "the latest, in their order"
    found = LEFT_OUT.search(text)
    assert found is not None
    assert int(found[1]) == STEPS - len(numbers) > 0
    assert text.index(found[0]) < text.index("Entry for")
    assert "Which is it?" in text
    assert "The answer." in text


def test_where_all_fits_all_is_told() -> None:
    judge = Judge(100_000, profile=True)
    assert_ended(made(judge).invoke(question()), "final")
    assert shown(judge.told[0]) == [*range(STEPS)]
    assert LEFT_OUT.search(judge.told[0]) is None


REFUSALS = [
    "This model's maximum context length is {window} tokens. However, your messages resulted in {sent} tokens.",
    "request ({sent} tokens) exceeds the available context size ({window} tokens), try increasing it",
    "prompt is too long",
]


@pytest.mark.parametrize("says", REFUSALS, ids=["OpenAI", "llama.cpp", "no number"])
@both_ways
def test_a_window_that_is_not_known_is_learned_from_the_refusal(way: Way, says: str) -> None:
    judge = Judge(2400, says=says)
    result = run(way, made(judge), question())
    assert_ended(result, "final")
    assert "not verified" not in result["stop"]["detail"]
    first, second = judge.told
    assert len(second) < len(first)
    assert shown(first) == [*range(STEPS)]
    assert shown(second)[-1] == STEPS - 1


def test_that_it_is_asked_again_is_told() -> None:
    judge = Judge(2400, says=REFUSALS[0])
    events = [event for event in stream_steps(made(judge), question()) if event["type"] == "retry"]
    assert [(event["reason"], event["detail"][:25]) for event in events] == [
        ("context_overflow", "verified again with less:")
    ]


def test_what_never_fits_is_not_verified_and_the_run_says_so() -> None:
    judge = Judge(40, says=REFUSALS[0])
    result = made(judge).invoke(question())
    assert_ended(result, "final")
    assert result["answer"] == "The answer."
    assert "not verified" in result["stop"]["detail"]
    assert len(judge.told) == 2


def test_of_one_that_is_too_long_by_itself_the_beginning_is_told() -> None:
    judge = Judge(256, profile=True)
    result = made(judge, long_search, 2).invoke(question())
    assert_ended(result, "final")
    assert "not verified" not in result["stop"]["detail"]
    (text,) = judge.told
    assert shown(text) == [1]
    assert "[…]" in text
    assert LEFT_OUT.search(text) is not None
