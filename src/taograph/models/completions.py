"""``chat.completions`` of the ``openai`` package, for bodies that are ready to be sent.

The package walks every message of a request through its type transform, which changes nothing in a body of plain
JSON and takes nearly all the time that a client takes once a conversation is long. Here such a body is encoded and
handed to ``client.post``, the package's public way to send one; everything else (authentication, headers, retries,
errors, streams, replies) is the package's own. A request that is anything but plain JSON goes the package's way,
and so do all where something stands in the place of its ``create`` or its client's ``request``: a mock, or what
traces calls.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import FunctionType
from typing import Any, NamedTuple

import openai
from langchain_openai.chat_models.base import BaseChatOpenAI
from openai.resources.chat import AsyncCompletions, Completions
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from taograph.models.wire import UNENCODABLE, EncodedMessages, encode

_PATH = "/chat/completions"
_OPTIONS = {"extra_headers": "headers", "extra_query": "params"}
_NOT_IN_BODY = {*_OPTIONS, "timeout", "extra_body", "messages"}
# What makes a stream carry parts in which the package fills in what a server left out.
_FILLED_IN = {"logprobs", "top_logprobs", "functions", "function_call"}


class ReadyCompletions(Completions):
    """The resource of a sync client.

    Args:
        client: The client.
        dicts: Whether the pieces of a stream may be dicts as they came: LangChain makes dicts of them anyway, and
            making typed objects first takes nine tenths of the time of reading them.
    """

    def __init__(self, client: openai.OpenAI, *, dicts: bool = False) -> None:
        super().__init__(client)
        self._dicts = dicts

    def create(self, **asked: Any) -> Any:  # noqa: D102 - the package's
        own = self._client.chat.completions
        ready = _ready(self._client, own, asked)
        if ready is None:
            return own.create(**_plain(asked))
        stream: Any = openai.Stream[object] if self._dicts and ready.bare else openai.Stream[ChatCompletionChunk]
        return self._client.post(_PATH, **ready.post, cast_to=ChatCompletion, stream_cls=stream)


class ReadyAsyncCompletions(AsyncCompletions):
    """The resource of an async client, see :class:`ReadyCompletions`."""

    def __init__(self, client: openai.AsyncOpenAI, *, dicts: bool = False) -> None:
        super().__init__(client)
        self._dicts = dicts

    async def create(self, **asked: Any) -> Any:  # noqa: D102 - the package's
        own = self._client.chat.completions
        ready = _ready(self._client, own, asked)
        if ready is None:
            return await own.create(**_plain(asked))
        typed: Any = openai.AsyncStream[ChatCompletionChunk]
        stream: Any = openai.AsyncStream[object] if self._dicts and ready.bare else typed
        return await self._client.post(_PATH, **ready.post, cast_to=ChatCompletion, stream_cls=stream)


def ready_clients(model: BaseChatOpenAI, *, dicts: bool) -> dict[str, Any]:
    """What is to be in a model's fields ``client`` and ``async_client``, where it has the package's own there.

    Args:
        model: The model, which stays as it is.
        dicts: See :class:`ReadyCompletions`.
    """
    ready: dict[str, Any] = {}
    sync, loop = model.root_client, model.root_async_client
    if type(sync) in (openai.OpenAI, openai.AzureOpenAI) and model.client is sync.chat.completions:
        ready["client"] = ReadyCompletions(sync, dicts=dicts)
    if type(loop) in (openai.AsyncOpenAI, openai.AsyncAzureOpenAI) and model.async_client is loop.chat.completions:
        ready["async_client"] = ReadyAsyncCompletions(loop, dicts=dicts)
    return ready


class _Ready(NamedTuple):
    post: dict[str, Any]
    bare: bool  # whether the package would fill nothing in that a server left out of a stream


def _ready(client: openai.OpenAI | openai.AsyncOpenAI, own: Any, asked: dict[str, Any]) -> _Ready | None:
    """What ``post`` is given; None: the request is not plain JSON, or not ours to send."""
    known = _options_of(own.create.__func__) if _is_untouched(client, own) else frozenset()
    if not {"messages", "model"} <= asked.keys() <= known:
        return None
    try:
        body = {name: value for name, value in asked.items() if name not in _NOT_IN_BODY}
        body.update(asked.get("extra_body") or {})
        messages = body.pop("messages", asked["messages"])
        sent: dict[str, Any] = {"content": _encoded(body, messages)}
    except UNENCODABLE:
        return None
    if isinstance(client, openai.AzureOpenAI | openai.AsyncAzureOpenAI) and "/deployments" not in client.base_url.path:
        # Such a client makes its address of the model in the body, which it can't read when that is encoded.
        sent = {"body": {**body, "messages": list(messages)}}
    options = {there: asked[here] for here, there in _OPTIONS.items() if asked.get(here) is not None}
    if "timeout" in asked:  # None is one: to wait as long as it takes
        options["timeout"] = asked["timeout"]
    options["security"] = {"bearer_auth": True}
    return _Ready({**sent, "options": options, "stream": bool(asked.get("stream"))}, not _FILLED_IN & body.keys())


def _encoded(body: dict[str, Any], messages: Any) -> bytes:
    if not isinstance(messages, EncodedMessages):
        return encode({**body, "messages": messages}).encode()
    return b'%s,"messages":[%s]}' % (encode(body)[:-1].encode(), b",".join(messages.pieces))


def _plain(asked: dict[str, Any]) -> dict[str, Any]:
    """A request as LangChain makes it, for whoever looks into it."""
    messages = asked.get("messages")
    return {**asked, "messages": list(messages)} if isinstance(messages, EncodedMessages) else asked


def _is_untouched(client: Any, own: Any) -> bool:
    """Whether nothing stands in the place of what would read a request as it is asked: of a mock, or what traces it."""
    if "create" in vars(own) or "request" in vars(client) or "post" in vars(client):
        return False
    ways = (getattr(type(own), "create", None), type(client).request, type(client).post)
    # By type and not isinstance: what wraps functions to trace them says that it is the function, and is equal to it.
    return all(type(way) is FunctionType and way.__globals__["__name__"].startswith("openai.") for way in ways)


@lru_cache(maxsize=8)
def _options_of(create: FunctionType) -> frozenset[str]:
    """The options of the package's own ``create``."""
    return frozenset(inspect.signature(create).parameters)
