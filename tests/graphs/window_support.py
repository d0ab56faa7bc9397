"""What the tests of the context window share: an endpoint with a window of its own, and what it was sent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from taograph import tool
from taograph.models import ScriptedModel, call

SUMMARIZE = "Write the summary now"
CLOSING = "The run ends here"


@tool(effects="none", trusted=True)
def search(query: str) -> str:
    """Search the archive.

    Args:
        query: What to look for.
    """
    return f"Entry for {query}: " + "the quick brown fox jumps over the lazy dog. " * 5


@tool(effects="none", trusted=True)
def long_search(query: str) -> str:
    """Search the archive, whole entries.

    Args:
        query: What to look for.
    """
    return f"Entry for {query}.\n" + "\n".join(f"{n}: the quick brown fox jumps over the lazy dog." for n in range(60))


class TooLongError(Exception):
    """What an endpoint says that names its window."""

    status_code = 400


def wire(messages: Sequence[BaseMessage]) -> str:
    """Messages as they go over the wire, byte by byte."""
    return "".join(
        json.dumps([m.type, m.content, getattr(m, "tool_calls", None), getattr(m, "tool_call_id", None)])
        for m in messages
    )


class Endpoint:
    """A model with a window, which counts in its own way, reports what it counted, and refuses what is too long.

    Args:
        steps: Calls of the tool, each with another argument, before it answers.
        window: Tokens; None takes everything.
        tool_name: The tool.
        says_window: Whether a refusal names the window.
        summary: What it says when it is asked for a summary; an exception to raise, or a function of the request.
        wrap: Changes each reply, given the number of the turn.
    """

    def __init__(
        self,
        steps: int,
        window: int | None = None,
        *,
        tool_name: str = "search",
        says_window: bool = True,
        summary: Any = "Foxes were found, all of them quick and brown.",
        wrap: Callable[[int, AIMessage], AIMessage] | None = None,
        per_token: float = 3.0,
        reports: bool = True,
    ) -> None:
        self.steps = steps
        self.window = window
        self.tool_name = tool_name
        self.says_window = says_window
        self.summary = summary
        self.wrap = wrap
        self.per_token = per_token
        self.reports = reports
        self.turn = 0
        self.refusals = 0
        self.model = ScriptedModel(replies=[self._reply], repeat=True)

    def size(self, messages: Sequence[BaseMessage]) -> int:
        """Tokens, as this endpoint counts them."""
        return int(len(wire(messages)) / self.per_token) + 120

    def _reply(self, messages: list[BaseMessage]) -> Any:
        size = self.size(messages)
        if self.window is not None and size > self.window:
            self.refusals += 1
            named = f"{self.window} tokens. However, your messages resulted in {size} tokens."
            return TooLongError(
                f"This model's maximum context length is {named}" if self.says_window else "prompt too long"
            )
        last = str(messages[-1].content)
        said: Any
        if SUMMARIZE in last:
            said = self.summary(messages) if callable(self.summary) else self.summary
            if isinstance(said, Exception):
                return said
            said = said if isinstance(said, AIMessage) else AIMessage(said)
        elif CLOSING in last or self.turn >= self.steps:
            said = AIMessage("The answer.")
        else:
            self.turn += 1
            asked = call(self.tool_name, {"query": f"item {self.turn}"})
            said = AIMessage(f"Let me look at item {self.turn}.", tool_calls=[asked])
            said = self.wrap(self.turn, said) if self.wrap else said
        if not self.reports:
            return said
        usage = {"input_tokens": size, "output_tokens": 20, "total_tokens": size + 20}
        return said.model_copy(update={"usage_metadata": usage})

    @property
    def sent(self) -> list[list[BaseMessage]]:
        """The requests of the run's turns, in order; those for summaries left out."""
        return [r.messages for r in self.model.requests if SUMMARIZE not in str(r.messages[-1].content)]

    @property
    def summaries(self) -> list[Any]:
        """The requests for summaries."""
        return [r for r in self.model.requests if SUMMARIZE in str(r.messages[-1].content)]


def shared_share(requests: Sequence[Sequence[BaseMessage]]) -> float:
    """What part of all that was sent stood, byte by byte, at the beginning of the request before."""
    texts = [wire(messages) for messages in requests]
    shared = sum(len(os.path.commonprefix([a, b])) for a, b in pairwise(texts))  # noqa: RUF071 - of any strings
    return shared / sum(map(len, texts[1:]))
