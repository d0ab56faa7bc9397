"""Asking the model behind the text protocol, whatever kind it is: the only place that knows chat from completion.

LangChain has no public way to call a model without a run of its own. The calls here are part of one run, the
wrapper's: with a run each, every token would be streamed and counted twice.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel, BaseLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult, GenerationChunk, LLMResult

from taograph.graphs.protocols.native import reasoning_fields
from taograph.graphs.protocols.text import merged
from taograph.models.failures import is_overflow, is_retryable, status_of
from taograph.models.text_constrain import Constraint

InnerModel = BaseChatModel | BaseLLM
Content = Sequence[BaseMessage] | str

# OpenAI takes four at most, and others have taken that over.
_MOST_STOPS = 4
# Characters in which a reply shows whether it is held to a step.
_HEAD = 40
_NAMES_STOP = re.compile(r"\bstop(?:_sequences?)?\b", re.IGNORECASE)
_USAGE = (
    ("prompt_tokens", "completion_tokens"),
    ("input_tokens", "output_tokens"),
    ("prompt_eval_count", "eval_count"),
)
# "model_provider" names a format of content that the wrapper's messages do not have; usage has a field of its own.
_NOT_TOLD = frozenset({"model_provider", "token_usage"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the model.

    Attributes:
        content: Messages for a chat model, a text for a completion model.
        stop: Where the reply has to end.
        options: Further keywords of the call.
        held: Ways of holding the reply to one step, in the order in which they are tried; the last resort is none.
            None where nobody asked for that.
    """

    content: Content
    stop: tuple[str, ...]
    options: Mapping[str, Any]
    held: tuple[Constraint, ...] | None = None


@dataclass(slots=True)
class _Attempt:
    """A request as it is sent.

    Attributes:
        stop: The stop texts, if any.
        held: How the reply is held to a step, if it is.
        refused: What of it the model turned out to refuse.
        text: The reply so far, while it is not clear whether it is held to a step.
    """

    stop: list[str] | None
    held: Constraint | None
    refused: Literal["stop", "held"] | None = None
    text: str = ""

    def of(self, asked: Asked) -> Asked:
        """What is asked then."""
        if self.held is None:
            return asked
        content, note = asked.content, self.held.note
        if note and not isinstance(content, str):
            content = merged([*content, HumanMessage(note)])
        return replace(asked, content=content, options={**asked.options, **self.held.options})


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a reply, or the whole of it.

    Attributes:
        text: The text.
        reasoning: What the model gave as reasoning of its own, beside the text.
        refusal: Its words where it refuses.
        usage: The tokens that are reported with it.
        about: What else is said about the reply.
    """

    text: str
    reasoning: str = ""
    refusal: str = ""
    usage: UsageMetadata | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


class Inner:
    """The model behind the protocol.

    Args:
        model: The model.
        learned: What was learned of it so far; changed in place.
    """

    def __init__(self, model: InnerModel, learned: dict[str, bool]) -> None:
        self._model = model
        self._learned = learned

    def whole(self, asked: Asked) -> Piece:
        """A whole reply, as the only piece of a stream."""
        self._wait()
        for attempt in self._attempts(asked):
            sent = attempt.of(asked)
            try:
                result: ChatResult | LLMResult
                if isinstance(self._model, BaseLLM):
                    result = self._model._generate([_text(sent)], stop=attempt.stop, **sent.options)
                else:
                    result = self._model._generate(_messages(sent), stop=attempt.stop, **sent.options)
            except Exception as error:
                if not _refuses(error, attempt):
                    raise
            else:
                self._accepted(asked, attempt)
                piece = _whole(result)
                self._watch(attempt, piece.text)
                return replace(piece, about={**piece.about, **self._remarks(asked, attempt)})
        raise AssertionError("a request is made at least once")

    async def awhole(self, asked: Asked) -> Piece:
        """As :meth:`whole`."""
        await self._await()
        for attempt in self._attempts(asked):
            sent = attempt.of(asked)
            try:
                result: ChatResult | LLMResult
                if isinstance(self._model, BaseLLM):
                    result = await self._model._agenerate([_text(sent)], stop=attempt.stop, **sent.options)
                else:
                    result = await self._model._agenerate(_messages(sent), stop=attempt.stop, **sent.options)
            except Exception as error:
                if not _refuses(error, attempt):
                    raise
            else:
                self._accepted(asked, attempt)
                piece = _whole(result)
                self._watch(attempt, piece.text)
                return replace(piece, about={**piece.about, **self._remarks(asked, attempt)})
        raise AssertionError("a request is made at least once")

    def pieces(self, asked: Asked) -> Generator[Piece]:
        """A reply as it comes; in one piece where the model cannot stream."""
        if not self._streams(is_async=False):
            yield self.whole(asked)
            return
        self._wait()
        for attempt in self._attempts(asked):
            begun = False
            try:
                with closing(_iterating(self._model, attempt.of(asked), attempt.stop)) as pieces:
                    for piece in pieces:
                        if not begun:
                            begun = self._accepted(asked, attempt)
                            yield Piece("", about=self._remarks(asked, attempt))
                        yield piece
                        if self._watch(attempt, piece.text):
                            yield Piece("", about=self._remarks(asked, attempt))
            except Exception as error:
                if begun or not _refuses(error, attempt):
                    raise
            else:
                return

    async def apieces(self, asked: Asked) -> AsyncGenerator[Piece]:
        """As :meth:`pieces`."""
        if not self._streams(is_async=True):
            yield await self.awhole(asked)
            return
        await self._await()
        for attempt in self._attempts(asked):
            begun = False
            try:
                async with aclosing(_aiterating(self._model, attempt.of(asked), attempt.stop)) as pieces:
                    async for piece in pieces:
                        if not begun:
                            begun = self._accepted(asked, attempt)
                            yield Piece("", about=self._remarks(asked, attempt))
                        yield piece
                        if self._watch(attempt, piece.text):
                            yield Piece("", about=self._remarks(asked, attempt))
            except Exception as error:
                if begun or not _refuses(error, attempt):
                    raise
            else:
                return

    def _streams(self, *, is_async: bool) -> bool:
        model = self._model
        if isinstance(model, BaseChatModel):
            return model._should_stream(async_api=is_async, stream=True)
        kind = type(model)
        overrides = kind._stream is not BaseLLM._stream
        return overrides or (is_async and kind._astream is not BaseLLM._astream)

    def _wait(self) -> None:
        limiter = getattr(self._model, "rate_limiter", None)
        if limiter is not None:
            limiter.acquire(blocking=True)

    async def _await(self) -> None:
        limiter = getattr(self._model, "rate_limiter", None)
        if limiter is not None:
            await limiter.aacquire(blocking=True)

    def _attempts(self, asked: Asked) -> Iterator[_Attempt]:
        """The requests to make: as it is wanted, then without what the model turns out to refuse."""
        ways = iter([*(way for way in asked.held or () if self._learned.get(way.name, True)), None])
        stop = list(asked.stop[:_MOST_STOPS]) if asked.stop and self._learned.get("stop", True) else None
        attempt = _Attempt(stop, next(ways))
        while True:
            yield attempt
            held = next(ways) if attempt.refused == "held" else attempt.held
            attempt = _Attempt(None if attempt.refused == "stop" else attempt.stop, held)

    def _accepted(self, asked: Asked, attempt: _Attempt) -> bool:
        """Learn from a request that was answered, whether or not the reply is read to its end."""
        if asked.stop and attempt.stop is None:
            self._learned["stop"] = False
        for way in takewhile(lambda way: way is not attempt.held, asked.held or ()):
            self._learned[way.name] = False
        return True

    def _watch(self, attempt: _Attempt, text: str) -> bool:
        """Whether a reply, read on by a piece, turns out not to be held: the server passed over what it was asked."""
        if attempt.held is None or len(attempt.text) > _HEAD:
            return False
        attempt.text += text
        if attempt.held.can_begin(attempt.text):
            return False
        self._learned[attempt.held.name] = False
        attempt.held = None
        return True

    def _remarks(self, asked: Asked, attempt: _Attempt) -> dict[str, Any]:
        """What is said of how a reply was held to a step, where it was to be."""
        if asked.held is None:
            return {}
        refused = [way.name for way in asked.held if not self._learned.get(way.name, True)]
        return {
            "constrained": attempt.held.name if attempt.held else "none",
            **({"refused": refused} if refused else {}),
        }


def _refuses(error: Exception, attempt: _Attempt) -> bool:
    """Whether an error says that the model does not take a part of the request, so that it is worth asking without."""
    if is_overflow(error) or status_of(error) not in (None, 400, 404, 422) or is_retryable(error):
        return False
    if attempt.held is not None and attempt.held.refused_by(error):
        attempt.refused = "held"
    elif attempt.stop is not None and (getattr(error, "param", None) == "stop" or _NAMES_STOP.search(str(error))):
        attempt.refused = "stop"
    return attempt.refused is not None


def _iterating(model: InnerModel, asked: Asked, stop: list[str] | None) -> Generator[Piece]:
    pieces: Iterator[ChatGenerationChunk | GenerationChunk]
    if isinstance(model, BaseLLM):
        pieces = model._stream(_text(asked), stop=stop, **asked.options)
    else:
        pieces = model._stream(_messages(asked), stop=stop, **asked.options)
    try:
        for piece in pieces:
            yield _piece(piece)
    finally:
        if isinstance(pieces, Generator):  # it holds a connection
            pieces.close()


async def _aiterating(model: InnerModel, asked: Asked, stop: list[str] | None) -> AsyncGenerator[Piece]:
    pieces: AsyncIterator[ChatGenerationChunk | GenerationChunk]
    if isinstance(model, BaseLLM):
        pieces = model._astream(_text(asked), stop=stop, **asked.options)
    else:
        pieces = model._astream(_messages(asked), stop=stop, **asked.options)
    try:
        async for piece in pieces:
            yield _piece(piece)
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _text(asked: Asked) -> str:
    return cast(str, asked.content)


def _messages(asked: Asked) -> list[BaseMessage]:
    return list(cast(Sequence[BaseMessage], asked.content))


def _whole(result: ChatResult | LLMResult) -> Piece:
    told = result.llm_output or {}
    if isinstance(result, ChatResult):
        made = result.generations[0]
        return _of_message(made.message, {**told, **(made.generation_info or {})})
    completion = result.generations[0][0]
    return _of_text(completion.text, {**told, **(completion.generation_info or {})})


def _piece(piece: ChatGenerationChunk | GenerationChunk) -> Piece:
    info = piece.generation_info or {}
    return _of_message(piece.message, info) if isinstance(piece, ChatGenerationChunk) else _of_text(piece.text, info)


def _of_message(message: BaseMessage, told: Mapping[str, Any]) -> Piece:
    if not isinstance(message, AIMessage):  # some integrations return other kinds of messages
        message = AIMessage(message.content)
    refusal = message.additional_kwargs.get("refusal")
    return Piece(
        text=str(message.text),
        reasoning="\n".join(reasoning_fields(message)),
        refusal=refusal if isinstance(refusal, str) else "",
        usage=message.usage_metadata,
        about=_about({**told, **message.response_metadata}),
    )


def _of_text(text: str, told: Mapping[str, Any]) -> Piece:
    return Piece(text=text, usage=_usage({**told, **(told.get("token_usage") or {})}), about=_about(told))


def _about(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in _NOT_TOLD and value is not None}


def _usage(told: Mapping[str, Any]) -> UsageMetadata | None:
    """The usage that a completion reports, in the words of whoever serves it."""
    for sent, received in _USAGE:
        given = told.get(sent), told.get(received)
        if all(isinstance(number, int) for number in given):
            took, gave = cast(tuple[int, int], given)
            return UsageMetadata(input_tokens=took, output_tokens=gave, total_tokens=took + gave)
    return None
