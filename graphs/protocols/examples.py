"""Worked examples: uses of the tools at hand, shown to a model as turns that have already happened.

Small models learn from turns what they do not learn from instructions. The examples come from the tools'
policies alone, never from the question, and always in the same order, so that the prefix they make can be
cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.tools import BaseTool

from taograph.tools.policy import ToolExample, policy_of
from taograph.tools.results import frame

PER_TOOL = 6
EXAMPLE_ID = "example_"
"""What the ids of the examples' calls begin with."""


def worked_examples(tools: Sequence[BaseTool], *, per_tool: int = PER_TOOL) -> list[AnyMessage]:
    """The tools' worked examples as messages: question, call, result, answer, for each.

    The tools take turns, so that no model learns from a row of the same calls that one tool is always right.

    Args:
        tools: The tools of the run; those without examples add nothing.
        per_tool: How many examples of one tool at most; 0 for none.

    Raises:
        ValueError: ``per_tool`` is negative.
    """
    if per_tool < 0:
        raise ValueError(f"per_tool={per_tool!r}: give 0 or more")
    messages: list[AnyMessage] = []
    # Observations look as they will in the run: a frame that no example has is copied as if it were the answer.
    framed = {tool.name for tool in tools if not policy_of(tool).trusted}
    for number, (name, example) in enumerate(_in_turns(tools, per_tool), start=1):
        call_id = f"{EXAMPLE_ID}{number}"
        seen = frame(example.observation, name) if name in framed else example.observation
        messages += [
            HumanMessage(example.question),
            AIMessage("", tool_calls=[tool_call(name=name, args=dict(example.args), id=call_id)]),
            ToolMessage(seen, tool_call_id=call_id, name=name),
            AIMessage(example.answer),
        ]
    return messages


def _in_turns(tools: Sequence[BaseTool], per_tool: int) -> Iterator[tuple[str, ToolExample]]:
    carried = [(tool.name, policy_of(tool).examples[:per_tool]) for tool in tools]
    for turn in range(max((len(examples) for _, examples in carried), default=0)):
        for name, examples in carried:
            if turn < len(examples):
                yield name, examples[turn]
