"""Worked examples as turns in the text protocol: they think, and the instructions do not tell them again."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from text_support import ANSWER

from taograph.graphs.protocols.examples import worked_examples
from taograph.graphs.protocols.text_labels import LABELS
from taograph.graphs.protocols.text_prompts import with_thoughts
from taograph.models import ScriptedModel, TextReAct
from taograph.tools.calculator import calculator

SHOWN = worked_examples([calculator], per_tool=2)
QUESTION = HumanMessage("What is 3 times 5?")


def asked(messages: list[Any], language: str = "en", **options: Any) -> list[Any]:
    inner = ScriptedModel(replies=[ANSWER, ANSWER])
    TextReAct(inner, language=language, **options).bind_tools([calculator]).invoke(messages)
    return list(inner.requests[0].messages)


@pytest.mark.parametrize("language", list(LABELS))
def test_examples_think_before_they_act_and_answer(language: str) -> None:
    label = LABELS[language]  # type: ignore[index]
    _, *turns, question = asked([*SHOWN, QUESTION], language)
    assert question.content == QUESTION.content
    said = [turn.content for turn in turns if isinstance(turn, AIMessage)]
    assert len(said) == 4
    for text in said:
        assert text.startswith(label.thought + label.colon)
    assert said[0].splitlines()[1] == f"{label.action}{label.colon}calculator"
    assert said[1].splitlines()[1].startswith(label.final_answer + label.colon)


def test_what_stands_in_turns_is_not_told_in_the_instructions() -> None:
    with_turns, *_ = asked([*SHOWN, QUESTION])
    without, *_ = asked([QUESTION])
    assert "# Examples" in without.content
    assert "# Examples" not in with_turns.content
    assert with_turns.content.startswith(without.content[:500])
    assert "{examples}" not in with_turns.content
    own, *_ = asked([*SHOWN, QUESTION], template="{tools}\n\n# Examples\n\n{examples}\nEnd.")
    assert own.content.endswith("# Examples\n\n\nEnd.")


def test_requests_of_a_run_begin_alike() -> None:
    call = tool_call(name="calculator", args={"expression": "3 * 5"}, id="call_1")
    later = [AIMessage("I count.", tool_calls=[call]), ToolMessage("15", tool_call_id="call_1")]
    first, second = asked([*SHOWN, QUESTION]), asked([*SHOWN, QUESTION, *later])
    assert [m.content for m in second[: len(first)]] == [m.content for m in first]


def test_other_turns_stay_as_they_are() -> None:
    call = tool_call(name="calculator", args={"expression": "1"}, id="call_1")
    run = [QUESTION, AIMessage("", tool_calls=[call]), ToolMessage("1", tool_call_id="call_1"), AIMessage("It is 1.")]
    made = with_thoughts([*SHOWN, *run])
    assert made[-4:] == run
    assert worked_examples([calculator], per_tool=2) == SHOWN, "nothing is changed in place"
