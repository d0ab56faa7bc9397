"""A scripted model that gives samples their answers, works in a loop and closes, and looking at what it was asked."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import Field, PrivateAttr

from taograph.graphs.parts.chain_of_thought import THINK
from taograph.models import ScriptedModel, call

ASKED = "What is the capital of France?"
IN_ORDER = {"max_concurrency": 1}
"""A config in which samples are asked one after the other, so that it is known which one says what."""


def is_sample(messages: Sequence[BaseMessage]) -> bool:
    return THINK in str(messages[-1].text)


def thinks(answer: str, thought: str = "I remember it.") -> str:
    """A sample's reply."""
    return f"Thought: {thought}\nFinal Answer: {answer}"


def looks_up(turn: int) -> AIMessage:
    """A turn of a loop that never ends."""
    return AIMessage(f"thought {turn}", tool_calls=[call("lookup", {"name": f"n{turn}"})])


class Script:
    """Says what samples, the turns of a loop and a closing request are to be told.

    Args:
        samples: What samples reply, in the order in which they ask: texts are answers; messages, exceptions and
            functions are as they are. The last one is said again.
        loop: What the turns of a loop reply; nothing ends it by itself.
    """

    def __init__(self, samples: Sequence[Any] = ("Paris",), loop: Sequence[Any] = ()) -> None:
        self.samples, self.loop = list(samples), list(loop)
        self.drawn = 0
        self._turns = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self, messages: list[BaseMessage]) -> Any:
        if "The run ends here" in str(messages[-1].text):
            return "So far: nothing."
        with self._lock:
            said = self._sample() if is_sample(messages) else self._turn()
        if callable(said):
            said = said(messages)
        if isinstance(said, BaseException):
            raise said
        return said

    def model(self, **options: Any) -> ScriptedModel:
        return ScriptedModel(replies=[self], repeat=True, **options)

    def _sample(self) -> Any:
        said = self.samples[min(self.drawn, len(self.samples) - 1)]
        self.drawn += 1
        return thinks(said, f"thought {self.drawn}") if isinstance(said, str) else said

    def _turn(self) -> Any:
        turn = next(self._turns)
        return self.loop[turn - 1] if turn <= len(self.loop) else looks_up(turn)


class Meeting(ScriptedModel):
    """A model that replies only once so many requests are in flight at the same time."""

    size: int = 1
    _barrier: threading.Barrier = PrivateAttr()
    _waiting: int = PrivateAttr(default=0)
    _met: asyncio.Event | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._barrier = threading.Barrier(self.size)

    def _generate(self, *given: Any, **options: Any) -> ChatResult:
        self._barrier.wait(timeout=20)
        return super()._generate(*given, **options)

    async def _agenerate(self, *given: Any, **options: Any) -> ChatResult:
        self._met = self._met or asyncio.Event()
        self._waiting += 1
        if self._waiting == self.size:
            self._met.set()
        await asyncio.wait_for(self._met.wait(), timeout=20)
        return await super()._agenerate(*given, **options)


def sampled(model: ScriptedModel) -> list[Any]:
    """The requests of samples."""
    return [request for request in model.requests if is_sample(request.messages)]


def waves(events: Sequence[dict[str, Any]]) -> list[int]:
    """How many samples were drawn, after each wave."""
    return [event["votes"]["drawn"] for event in events if event["type"] == "vote"]


class Refusing(Exception):  # noqa: N818 - named for what it does
    """What OpenAI says to a temperature where a model reasons."""

    status_code = 400
    param = "temperature"

    def __init__(self) -> None:
        super().__init__("Unsupported value: 'temperature' does not support 0.7 with this model.")


class NoTemperature(ScriptedModel):
    """A model that refuses a temperature."""

    refused: list[Any] = Field(default_factory=list)

    def _reply(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        if "temperature" in options:
            self.refused.append(options["temperature"])
            raise Refusing
        return super()._reply(messages, options)


def objecting(*objections: str | None) -> Callable[[str, Any], str | None]:
    """A check that objects in order, and then no more; what it saw is in ``seen``."""
    left = list(objections)

    def check(answer: str, trajectory: Any) -> str | None:
        check.seen.append(answer)  # type: ignore[attr-defined]
        return left.pop(0) if left else None

    check.seen = []  # type: ignore[attr-defined]
    return check
