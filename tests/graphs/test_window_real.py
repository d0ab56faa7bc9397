"""The prompt cache of a real server under a run that outgrows its window: `pytest -m slow`.

The steps are written for the model, since a small one would stop after two; the requests, and what the server had of
them in its cache, are real. Results are short, so that there are many steps in a small window: about a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field
from window_support import SUMMARIZE

from taograph import Limits, create_react_graph, stream_steps, tool
from taograph.models import call, local_lease
from taograph.models.catalog import DEFAULT
from taograph.models.local import LocalChat, chat_model
from taograph.models.pull import pulled

WHY = (
    "the engine xllamacpp is not installed: pip install 'taograph[local]'"
    if find_spec("xllamacpp") is None
    else f"no model: tao model pull {DEFAULT.name}"
    if DEFAULT.name not in pulled()
    else ""
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.skipif(bool(WHY), reason=WHY)]

WINDOW = 2048
STEPS = 62


@tool(effects="none", trusted=True)
def search(query: str) -> str:
    """Search the archive.

    Args:
        query: What to look for.
    """
    return f"{query}: a fox."


def share(requests: Sequence[tuple[bool, int, int]]) -> float:
    """What part of the tokens that were sent came from the server's cache."""
    return sum(cached for *_, cached in requests) / sum(sent for _, sent, _ in requests)


class Led(BaseChatModel):
    """A model that is really asked, and whose steps are written for it.

    Attributes:
        inner: The model.
        steps: Calls of ``search`` before the answer.
        asked: Of each request: whether it was for a summary, tokens sent, tokens of them from the cache.
        summaries: What the model wrote when it was asked for a summary.
    """

    inner: BaseChatModel
    steps: int
    max_tokens: int = 96
    free_of_charge: bool = True
    asked: list[tuple[bool, int, int]] = Field(default_factory=list)
    summaries: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "led"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**self.inner.bind_tools(tools, **kwargs).kwargs)  # type: ignore[attr-defined]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        summarizing = SUMMARIZE in str(messages[-1].content)
        said = self.inner.invoke(messages, max_tokens=self.max_tokens if summarizing else 1, **kwargs)
        assert isinstance(said, AIMessage)
        assert said.usage_metadata is not None
        cached = said.usage_metadata.get("input_token_details", {}).get("cache_read", 0)
        self.asked.append((summarizing, said.usage_metadata["input_tokens"], cached))
        turn = sum(not one for one, _, _ in self.asked)
        if summarizing:
            self.summaries.append(said.text)
        elif turn > self.steps:
            said = AIMessage("Done.", usage_metadata=said.usage_metadata)
        else:
            calls = [call("search", {"query": f"item {turn}"}, id=f"c{turn}")]
            said = AIMessage("", tool_calls=calls, usage_metadata=said.usage_metadata)
        return ChatResult(generations=[ChatGeneration(message=said)])


@pytest.fixture(scope="module")
def inner() -> Iterator[LocalChat]:
    made = chat_model(DEFAULT.name, context=WINDOW)
    assert isinstance(made, LocalChat)
    assert made._lease is not None
    yield made
    local_lease._leases.clear()
    made._lease.leave()


def test_the_servers_cache_holds_and_holds_again_after_a_summary(inner: LocalChat) -> None:
    model = Led(inner=inner, steps=STEPS, profile=inner.profile)
    graph = create_react_graph(model, [search], limits=Limits(steps=None, seconds=None))
    began = time.monotonic()
    told: list[Any] = []
    answer = ""
    for event in stream_steps(graph, {"messages": [("user", "Which item is odd?")]}, {"recursion_limit": 1000}):
        if event["type"] == "retry":
            told.append(event)
        elif event["type"] == "answer":
            answer = event["text"]
    assert answer == "Done."
    assert [event["reason"] for event in told] == ["summarized"]
    assert len(model.summaries) == 1
    assert model.summaries[0].strip()
    at = next(place for place, (summarizing, _, _) in enumerate(model.asked) if summarizing)
    before, summary, first, after = model.asked[:at], model.asked[at], model.asked[at + 1], model.asked[at + 2 :]
    print(
        f"\n{len(before)} requests, up to {before[-1][1]} tokens: {share(before):.1%} from the cache; for the summary "
        f"{summary[2]} of {summary[1]} tokens; the first after it {first[2]} of {first[1]}; {len(after)} more, up to "
        f"{after[-1][1]} tokens: {share(after):.1%}; all: {share(model.asked):.1%}; {time.monotonic() - began:.0f} s"
    )
    assert max(sent for _, sent, _ in model.asked) <= WINDOW - model.max_tokens
    assert len(after) > 10
    assert share(before) >= 0.95
    assert share(after) >= 0.95
    for part in (before, [first, *after]):
        for (_, sent, _), (*_, cached) in pairwise(part):
            assert cached >= sent - 8, "all of the request before is the beginning of the next; a template may end it"
