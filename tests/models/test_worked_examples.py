"""Worked examples as turns: complete, alternating, the same every time, and true to the tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from taograph.graphs.protocols.examples import worked_examples
from taograph.tools.calculator import calculator
from taograph.tools.clock import current_time
from taograph.tools.engines import document_examples as documents
from taograph.tools.policy import ToolExample, ToolPolicy, policy_of, with_policy


def a_tool(name: str, examples: int) -> BaseTool:
    made = StructuredTool.from_function(lambda x: x, name=name, description="A tool.", args_schema={"type": "object"})
    shown = (ToolExample(f"{name} {n}?", {"x": n}, f"seen {n}", f"It is {n}.") for n in range(examples))
    return with_policy(made, ToolPolicy(examples=tuple(shown)))


def test_an_example_is_a_question_a_call_its_result_and_the_answer() -> None:
    question, call, result, answer = worked_examples([a_tool("one", 1)])
    assert isinstance(question, HumanMessage)
    assert isinstance(call, AIMessage)
    assert isinstance(result, ToolMessage)
    assert isinstance(answer, AIMessage)
    assert question.content == "one 0?"
    assert (call.content, call.tool_calls[0]["name"], call.tool_calls[0]["args"]) == ("", "one", {"x": 0})
    assert result.tool_call_id == call.tool_calls[0]["id"]
    assert (result.content, answer.content, answer.tool_calls) == ("seen 0", "It is 0.", [])


def test_the_tools_take_turns_and_the_prefix_never_changes() -> None:
    tools = [a_tool("one", 3), a_tool("none", 0), a_tool("two", 1)]
    made = worked_examples(tools)
    calls = [message.tool_calls[0] for message in made if isinstance(message, AIMessage) and message.tool_calls]
    assert [(call["name"], call["args"]["x"]) for call in calls] == [("one", 0), ("two", 0), ("one", 1), ("one", 2)]
    assert len({call["id"] for call in calls}) == 4
    assert worked_examples(tools) == made


def test_how_many() -> None:
    tools = [a_tool("one", 9)]
    assert len(worked_examples(tools, per_tool=2)) == 8
    assert worked_examples(tools, per_tool=0) == []
    assert worked_examples([]) == []
    with pytest.raises(ValueError, match="per_tool=-1"):
        worked_examples(tools, per_tool=-1)


def test_no_example_is_one_of_the_questions_that_are_measured() -> None:
    path = Path(__file__).parents[2] / "bench" / "local_questions.json"
    asked = {entry["question"].lower() for entry in json.loads(path.read_text("utf-8"))["questions"]}
    shown = [*policy_of(calculator).examples, *policy_of(current_time).examples]
    shown += [*documents.CORPUS_SEARCH, *documents.CORPUS_OPEN, *documents.FOLDER_SEARCH, *documents.FOLDER_OPEN]
    assert not asked & {example.question.lower() for example in shown}
    expressions = {entry.get("expression") for entry in json.loads(path.read_text("utf-8"))["questions"]}
    assert not expressions & {example.args.get("expression") for example in shown} - {None}


def test_what_an_untrusted_tool_returns_is_framed_as_it_is_in_a_run() -> None:
    tool = with_policy(
        a_tool("far", 1), ToolPolicy(trusted=False, examples=(ToolExample("q?", {"x": 1}, "seen", "a."),))
    )
    seen = str(worked_examples([tool])[2].content)
    assert seen.startswith("[Data from the tool far.")
    assert seen.endswith("seen")
