"""What the tests of the text protocol in the loop share: replies, tools, a completion model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fake_openai_server import Fail, FakeOpenAI
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import Field

from taograph import tool

ACTION = 'Thought: I need Ada.\nAction: lookup\nAction Input: {"name": "Ada"}'
ANSWER = "Thought: The book says it.\nFinal Answer: Ada is\non page 3."
FOUND = "Ada is in the book on page 3."
HM = "Thought: Hm."

# Written from the labels that a reply may have, not from what sets data apart.
_LABEL = re.compile(
    r"^(?!\| )[^\w\n]*(?:thought|action|action input|observation|final answer|思考|行动|行动输入|观察|最终答案)"
    r"\W{0,4}[:：]",
    re.IGNORECASE | re.MULTILINE,
)


class Sending:
    """A tool with effects, and to whom it sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(effects="once")
        def send(to: str) -> str:
            """Send a letter.

            Args:
                to: Who gets it.
            """
            self.sent.append(to)
            return f"sent to {to}"

        self.tool = send


class Completions(FakeListLLM):
    """A completion model that plays replies and records its prompts."""

    prompts: list[str] = Field(default_factory=list)

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        self.prompts.append(prompt)
        return super()._call(prompt, stop, run_manager, **kwargs)

    async def _acall(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return self._call(prompt, stop, None, **kwargs)


REFUSED = Fail(400, "registry.ollama.ai/library/gemma:2b does not support tools")


def in_text(body: dict[str, Any]) -> str:
    """An endpoint that looks a name up, then answers, in text."""
    return ANSWER if any("Observation: " in str(m["content"]) for m in body["messages"][1:]) else ACTION


def refusing(refusal: Any = REFUSED, then: Any = in_text) -> Callable[[dict[str, Any]], Any]:
    """An endpoint that refuses tools."""
    return lambda body: refusal if "tools" in body else then(body)


def offered(server: FakeOpenAI) -> list[bool]:
    """Whether each request to an endpoint offered tools."""
    return ["tools" in body for body in server.requests]


def said(messages: list[BaseMessage]) -> list[tuple[str, str]]:
    """Roles and texts, instructions left out."""
    return [(m.type, str(m.text)) for m in messages if m.type != "system"]


def hints(result: dict[str, Any]) -> list[str]:
    """What the loop told the model about its replies."""
    return [str(m.content) for m in result["messages"] if isinstance(m, HumanMessage) and "taograph_feedback" in str(m)]


def labels_in(text: str) -> list[str]:
    """The labels that lines of a text begin with."""
    return _LABEL.findall(text)
