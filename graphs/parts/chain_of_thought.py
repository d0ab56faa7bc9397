"""Chain of thought: how it is asked for, and how thought and answer are told apart.

Chain of thought: Wei et al., arXiv 2201.11903; without examples: Kojima et al., arXiv 2205.11916. Plan-and-Solve, which
asks for a plan first and for the answer in a second call: Wang et al., arXiv 2305.04091. The words are our own.
"""

from __future__ import annotations

from typing import Literal

from langchain_core.messages import AIMessage

from taograph.graphs.protocols import parse_step
from taograph.graphs.protocols.native import reasoning_of, text_of

PlanAndSolve = bool | Literal["plus"]

# Short, and nothing in it that a small model could take for the answer: such models copy forms and examples.
THINK = (
    'First think step by step, then answer. Write your reasoning after "Thought:" and, on a new line, the answer alone '
    'after "Final Answer:".'
)
PLAN = (
    "Work on the question above in this order. First make sure that you understand what is asked, and write down a "
    "plan of the steps that lead to it. Then carry the plan out, one step after the other, and show what each step "
    "gives."
)
PLAN_PLUS = (
    "Work on the question above in this order. First make sure that you understand what is asked: write down the "
    "quantities that matter with their values, and a plan of the steps that lead to the answer. Then carry the plan "
    "out, one step after the other; compute every intermediate result, check the arithmetic and that it makes sense, "
    "and show what each step gives."
)
CONCLUDE = 'Read the answer to the question off the work above. Write the answer alone after "Final Answer:".'


def thought_and_answer(message: AIMessage) -> tuple[str, str]:
    """A reply's reasoning and its answer; a reply that does not keep to the form is all answer.

    The reasoning is what the model gave apart from its text, and what it wrote before the label of the answer.
    """
    text = text_of(message)
    step = parse_step(text)
    if step.error == "missing_action" and step.thought:
        text = step.thought.strip()
    answer = (step.answer or "").strip() if step.kind == "final" else ""
    written = (step.thought or "").strip() if answer else ""
    parts = [part for part in (reasoning_of(message), written) if part]
    return "\n".join(parts), answer or text


def is_lone_thought(message: AIMessage) -> bool:
    """Whether a reply is labelled as a thought, and there is no answer behind it."""
    step = parse_step(text_of(message))
    return step.error == "missing_action" and bool(step.thought)


def as_answer(message: AIMessage, thought: str, answer: str) -> AIMessage:
    """A reply as it is stored: the answer as its text, the thought beside it."""
    extra = {key: value for key, value in message.additional_kwargs.items() if key != "reasoning_content"}
    return AIMessage(
        answer,
        additional_kwargs={**extra, "reasoning_content": thought} if thought else extra,
        id=message.id,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )
