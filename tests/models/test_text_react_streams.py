"""How ``TextReAct`` streams: in which order, what callbacks and traces see, when the model behind is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import Field
from text_support import ACTION, ANSWER, RAMBLING, Completions, essence, every_way, lookup, said_by, summed

from taograph.models import ScriptedModel, TextReAct

streams = pytest.mark.parametrize("way", ["stream", "astream"])


class Streaming(ScriptedModel):
    """A model that says how far it was read, and whether its stream was closed."""

    read: list[str] = Field(default_factory=list)
    closed: int = 0

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        try:
            for chunk in super()._stream(messages, stop, run_manager, **kwargs):
                self.read.append(str(chunk.text))
                yield chunk
        finally:
            self.closed += 1

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, stop, None, **kwargs):
            yield chunk


def chunks_of(way: str, model: Any) -> list[AIMessageChunk]:
    if way == "stream":
        return list(model.stream("Where is Ada?"))

    async def read() -> list[Any]:
        return [chunk async for chunk in model.astream("Where is Ada?")]

    return asyncio.run(read())


def seen(chunks: list[AIMessageChunk]) -> list[str]:
    """What kinds of chunks came, in order, without repetition."""
    kinds: list[str] = []
    for chunk in chunks:
        kind = (
            "call" if chunk.tool_call_chunks
            else "text" if chunk.content
            else "thought" if chunk.additional_kwargs.get("reasoning_content")
            else "end"
        )  # fmt: skip
        if kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds


@streams
def test_a_thought_comes_before_its_call_and_the_call_comes_whole(way: str) -> None:
    chunks = chunks_of(way, TextReAct(ScriptedModel(replies=[ACTION])).bind_tools([lookup]))
    assert seen(chunks) == ["thought", "call", "end"]
    thoughts = [c.additional_kwargs["reasoning_content"] for c in chunks if c.additional_kwargs]
    assert thoughts == ["I", " need", " Ada."]
    (called,) = [c for c in chunks if c.tool_call_chunks]
    assert called.tool_calls[0]["args"] == {"name": "Ada"}
    assert called.content == "I need Ada."
    assert chunks[-1].chunk_position == "last"


@streams
def test_a_thought_comes_before_the_answer_and_never_in_it(way: str) -> None:
    chunks = chunks_of(way, TextReAct(ScriptedModel(replies=[ANSWER])).bind_tools([lookup]))
    assert seen(chunks) == ["thought", "text", "end"]
    assert "".join(str(c.content) for c in chunks) == "Ada is\non page 3."
    assert len([c for c in chunks if c.content]) > 1, "word by word"


@streams
def test_a_thought_is_shown_while_the_model_still_writes(way: str) -> None:
    inner = Streaming(replies=[ACTION])
    stream = TextReAct(inner).bind_tools([lookup])
    if way == "stream":
        assert next(iter(stream.stream("Where?"))).additional_kwargs["reasoning_content"] == "I"
    else:
        first = asyncio.run(anext(aiter(stream.astream("Where?"))))
        assert first.additional_kwargs["reasoning_content"] == "I"
    assert len(inner.read) == 2


@streams
def test_prose_without_labels_comes_when_it_is_known_to_be_the_answer(way: str) -> None:
    chunks = chunks_of(way, TextReAct(ScriptedModel(replies=["It is on page 3."])).bind_tools([lookup]))
    assert seen(chunks) == ["text", "end"]


@streams
def test_without_tools_a_reply_comes_word_by_word(way: str) -> None:
    chunks = chunks_of(way, TextReAct(ScriptedModel(replies=["It is on page 3."])))
    assert [c.content for c in chunks if c.content] == ["It is on ", "page ", "3."], "no label is so long"


@streams
def test_the_model_is_left_where_it_begins_to_make_things_up(way: str) -> None:
    inner = Streaming(replies=[f"{RAMBLING} " + "and so on " * 200])
    message = summed(chunks_of(way, TextReAct(inner).bind_tools([lookup])))
    assert message.tool_calls
    assert message.response_metadata["truncated"] is True
    assert "".join(inner.read).count("and so on") == 0
    assert inner.closed == 1
    assert message.response_metadata["usage_estimated"] is True, "its report comes last"
    assert message.usage_metadata is not None
    assert message.usage_metadata["input_tokens"] > 50
    assert 5 < message.usage_metadata["output_tokens"] < 100


@streams
def test_a_completion_model_is_left_likewise(way: str) -> None:
    inner = Completions(replies=[f" I look.\nAction: lookup\nAction Input: Ada\nObservation: {'x ' * 500}"])
    message = summed(chunks_of(way, TextReAct(inner).bind_tools([lookup])))
    assert message.tool_calls[0]["args"] == {"name": "Ada"}
    assert len(inner.read) < 15


def test_a_stream_that_is_abandoned_closes_the_one_behind() -> None:
    inner = Streaming(replies=[ANSWER])
    stream: Any = TextReAct(inner).bind_tools([lookup]).stream("Where?")
    next(stream)
    stream.close()
    assert inner.closed == 1


@streams
def test_thoughts_of_replies_that_were_asked_for_again_stay(way: str) -> None:
    inner = ScriptedModel(replies=["Thought: I wonder.", ANSWER])
    message = summed(chunks_of(way, TextReAct(inner).bind_tools([lookup])))
    assert message.content == "Ada is\non page 3."
    assert message.additional_kwargs["reasoning_content"] == "I wonder.\nThe book says it."


@streams
def test_a_model_that_corrects_itself(way: str) -> None:
    """The last answer counts; the one that was shown before cannot be taken back."""
    model = TextReAct(ScriptedModel(replies=["Answer: 12\nThought: One is missing.\nAnswer: 13"] * 2)).bind_tools(
        [lookup]
    )
    assert model.invoke("How many?").content == "13"
    assert summed(chunks_of(way, model)).content == "12\n\n13"


@streams
def test_reasoning_of_the_model_itself_streams_too(way: str) -> None:
    reply = AIMessage(ANSWER, additional_kwargs={"reasoning_content": "Musings."})
    model = TextReAct(ScriptedModel(replies=[reply, reply])).bind_tools([lookup])
    message = summed(chunks_of(way, model))
    assert message.additional_kwargs["reasoning_content"] == "The book says it.\nMusings."  # the script gives it last
    assert message.content == "Ada is\non page 3."


@streams
def test_a_model_that_does_not_stream_is_asked_for_the_whole(way: str) -> None:
    inner = ScriptedModel(replies=[ANSWER], disable_streaming=True)
    chunks = chunks_of(way, TextReAct(inner).bind_tools([lookup]))
    assert seen(chunks) == ["thought", "text", "end"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "reply", [" I look.\nAction 1: Lookup[Ada]\nObservation 1: x", " I know.\nAction 1: Finish[4]", " Only this.", ""]
)
@pytest.mark.parametrize("way", ["ainvoke", "stream", "astream"])
def test_every_way_says_the_same_in_the_papers_form(way: str, reply: str, strict: bool) -> None:
    def make() -> Any:
        inner = Completions(replies=[reply, " Lookup[Bo]"])
        return TextReAct(inner, dialect="paper", strict_original=strict, on_malformed="return").bind_tools([lookup])

    expected = make().invoke("Where is Ada?")
    message = said_by(way, make())
    assert essence(message) == essence(expected)
    if reply == " Only this.":
        assert message.content == "Only this."
        assert message.additional_kwargs.get("reasoning_content") in (None, "Only this."), "told once"


# Callbacks


class Told(BaseCallbackHandler):
    def __init__(self) -> None:
        self.starts: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.ends: list[LLMResult] = []
        self.errors: list[BaseException] = []

    def on_chat_model_start(self, serialized: dict[str, Any], messages: Any, **kwargs: Any) -> None:
        self.starts.append({"messages": messages[0], **kwargs})

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], **kwargs: Any) -> None:
        self.starts.append({"prompts": prompts, **kwargs})

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        said = chunk.message.additional_kwargs.get("reasoning_content")
        self.tokens.append(f"({said})" if said else str(token))

    def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        self.ends.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(error)


@every_way
def test_callbacks_see_one_model_call(way: str) -> None:
    told = Told()
    model = TextReAct(ScriptedModel(replies=[ANSWER], usage=(30, 4))).bind_tools([lookup])
    said_by(way, model, config={"callbacks": [told]})
    assert len(told.starts) == 1
    (result,) = told.ends
    message: Any = result.generations[0][0].message  # type: ignore[union-attr]
    assert message.usage_metadata["total_tokens"] == 34
    if "stream" in way:
        assert told.tokens[:4] == ["(The)", "( book)", "( says)", "( it.)"]
        assert "".join(token for token in told.tokens if token[:1] != "(") == "Ada is\non page 3."


def test_a_reply_that_cannot_be_read_is_an_error_to_callbacks() -> None:
    told = Told()
    model = TextReAct(ScriptedModel(replies=["Thought: hm"]), retries=0).bind_tools([lookup])
    for way in ("invoke", "stream"):
        model.bound.model._next = 0  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="could not be read"):
            said_by(way, model, config={"callbacks": [told]})
    assert len(told.errors) == 2


def test_traces_show_the_model_behind() -> None:
    inner = ChatOpenAI(model="gpt-4o", api_key="x", temperature=0.3)  # type: ignore[arg-type]
    params = TextReAct(inner, max_tokens=9)._get_ls_params(stop=["END"])
    assert params["ls_provider"] == "openai"
    assert params["ls_model_name"] == "gpt-4o"
    assert params["ls_model_type"] == "chat"
    assert params["ls_temperature"] == 0.3
    assert params["ls_max_tokens"] == 9
    assert params["ls_stop"] == ["END"]
    completion = TextReAct(Completions(replies=[]))._get_ls_params()
    assert completion["ls_model_type"] == "chat"
    assert completion["ls_model_name"] == "Completions"


def test_the_rate_limit_of_the_model_behind_holds() -> None:
    class Counting(InMemoryRateLimiter):
        acquired = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            type(self).acquired += 1
            return True

    inner = ScriptedModel(replies=["Thought: hm", ANSWER], rate_limiter=Counting())
    TextReAct(inner).bind_tools([lookup]).invoke("Where?")
    assert Counting.acquired == 2, "once for each request"


# The event loop


@pytest.mark.parametrize("reply", [ACTION, ANSWER, RAMBLING, "Thought: x\nAction: lookup\nAction Input: {'name' 'Ada'"])
def test_the_event_loop_is_not_blocked(reply: str) -> None:
    class Answers(ScriptedModel):
        pass

    async def ask() -> None:
        model = TextReAct(Answers(replies=[reply] * 3), on_malformed="return").bind_tools([lookup])
        await model.ainvoke("Where?")
        assert [chunk async for chunk in model.astream("Where?")]

    with blockbuster_ctx():
        asyncio.run(ask())
