"""A server that keeps each request as it came, and models in pairs: LangChain's own, and ours for the same."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from taograph.models.azure import AzureEndpoint
from taograph.models.connections import ClientOfEachLoop
from taograph.models.endpoint import ChatEndpoint
from taograph.models.resolving import safe_across_loops

KEY = "key-0123456789abcdef"
HISTORY = [
    SystemMessage("Look it up."),
    HumanMessage("How high is Snæfell?"),
    AIMessage("", tool_calls=[{"name": "lookup", "args": {"name": "Snæfell", "n": 1}, "id": "c1"}]),
    ToolMessage("1833 m", tool_call_id="c1"),
]


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.body)
        return said


@dataclass(frozen=True)
class Say:
    """An answer: its body, or the events of a stream."""

    body: Any = None
    status: int = 200
    events: Sequence[Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)


def whole(message: dict[str, Any] | None = None, **more: Any) -> Say:
    """A reply of one message."""
    said = {"role": "assistant", "content": "Hello.", "refusal": None, **(message or {})}
    made = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "fake-2"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return Say({**made, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": usage, **more})


def piece(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One event of a stream."""
    made = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-2"}
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {**made, "choices": choices, **more}


STREAM = [
    piece({"role": "assistant", "content": ""}),
    piece({"content": "Hel"}),
    piece({"content": "lo."}),
    piece({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
    piece({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
    piece({}, "tool_calls", system_fingerprint="fp_1", service_tier="default"),
    piece(usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}),
]


class Recorder(ThreadingHTTPServer):
    """The server. It answers with ``answers`` one after another, the last one over and over."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Say] = [whole()]
        self.asked: list[Asked] = []
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client went away

    def take(self) -> list[Asked]:
        """What was asked since this was called last."""
        with self.lock:
            asked, self.asked = self.asked, []
        return asked

    def next(self, asked: Asked) -> Say:
        with self.lock:
            self.asked.append(asked)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Recorder

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Mon, 30 Nov 2026 12:00:00 GMT"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        said = self.server.next(Asked(self.path, {n.lower(): v for n, v in self.headers.items()}, body))
        if said.events is not None:
            lines = [event if isinstance(event, str) else json.dumps(event) for event in said.events]
            sent, kind = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), "text/event-stream"
        elif isinstance(said.body, str):
            sent, kind = said.body, "text/html"
        else:
            sent, kind = json.dumps(said.body), "application/json"
        self.send_response(said.status)
        for name, value in {"content-type": kind, "content-length": str(len(sent.encode())), **said.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent.encode())


Make = Callable[..., BaseChatModel]
Pair = tuple[Make, Make]


def _openai(made: type[ChatOpenAI], server: Recorder, **options: Any) -> BaseChatModel:
    settings = {"model": "fake", "base_url": f"{server.address}/v1", "api_key": KEY, "max_retries": 0}
    return made(**{**settings, **options})


def _azure(made: type[AzureChatOpenAI], server: Recorder, **options: Any) -> BaseChatModel:
    version = {
        "api_version": "2025-01-01-preview",
        "azure_endpoint": server.address,
        "max_retries": 0,
        "stream_usage": True,
    }
    key = {} if {"azure_ad_token", "azure_ad_token_provider"} & options.keys() else {"api_key": KEY}
    return made(**{**version, **key, "azure_deployment": "my deployment", **options})


def plain(server: Recorder, **options: Any) -> BaseChatModel:
    # LangChain's own async client belongs to the first event loop that it is used on.
    return _openai(ChatOpenAI, server, **{"http_async_client": ClientOfEachLoop(), **options})


def plain_azure(server: Recorder, **options: Any) -> BaseChatModel:
    return _azure(AzureChatOpenAI, server, **{"http_async_client": ClientOfEachLoop(), **options})


def by_name(server: Recorder, **options: Any) -> BaseChatModel:
    return _openai(ChatEndpoint, server, **{"http_async_client": ClientOfEachLoop(), **options})


def azure_by_name(server: Recorder, **options: Any) -> BaseChatModel:
    return _azure(AzureEndpoint, server, **{"http_async_client": ClientOfEachLoop(), **options})


class _Unencoded(ChatEndpoint):
    """``ChatEndpoint`` with what LangChain has in the place of what this is about."""

    _get_request_payload = ChatOpenAI._get_request_payload
    _agenerate = ChatOpenAI._agenerate


def plain_by_name(server: Recorder, **options: Any) -> BaseChatModel:
    model: Any = _openai(_Unencoded, server, **{"http_async_client": ClientOfEachLoop(), **options})
    model.client, model.async_client = model.root_client.chat.completions, model.root_async_client.chat.completions
    return model


def own(server: Recorder, **options: Any) -> BaseChatModel:
    return safe_across_loops(_openai(ChatOpenAI, server, **options))


def own_azure(server: Recorder, **options: Any) -> BaseChatModel:
    return safe_across_loops(_azure(AzureChatOpenAI, server, **options))


PAIRS: dict[str, Pair] = {
    "by name": (plain_by_name, by_name),
    "own": (plain, own),
    "azure by name": (plain_azure, azure_by_name),
    "own azure": (plain_azure, own_azure),
}

Ask = Callable[..., Any]


def at_once(model: BaseChatModel, given: Any, **options: Any) -> Any:
    return model.invoke(given, **options)


def on_a_loop(model: BaseChatModel, given: Any, **options: Any) -> Any:
    return asyncio.run(model.ainvoke(given, **options))


def streamed(model: BaseChatModel, given: Any, **options: Any) -> Any:
    return list(model.stream(given, **options))


def streamed_on_a_loop(model: BaseChatModel, given: Any, **options: Any) -> Any:
    async def collect() -> list[Any]:
        return [chunk async for chunk in model.astream(given, **options)]

    return asyncio.run(collect())


WAYS: list[Ask] = [at_once, on_a_loop, streamed, streamed_on_a_loop]


def outcome(ask: Ask, model: BaseChatModel, given: Any, **options: Any) -> Any:
    """What comes back, without the ids of the run: messages as they are, an error by all that it says."""
    try:
        said = ask(model, given, **options)
    except Exception as error:
        told = {name: getattr(error, name, None) for name in ("status_code", "body", "code", "param", "type")}
        return type(error), str(error), told, type(error.__cause__)
    return [_shown(message) for message in (said if isinstance(said, list) else [said])]


def _shown(message: Any) -> Any:
    if not isinstance(message, BaseMessage):
        return message
    shown = dict(vars(message))
    if str(shown["id"]).startswith(("run-", "lc_run-")):
        del shown["id"]
    return type(message), shown


def unlike_in_time(headers: dict[str, str]) -> dict[str, str]:
    """Headers without what no two requests share."""
    return {name: value for name, value in headers.items() if name not in ("idempotency-key", "x-request-id")}


def both(server: Recorder, pair: Pair, ask: Ask, given: Any = HISTORY, made: Any = None, **options: Any) -> Any:
    """Ask LangChain's model and ours, and see that all is the same; what comes back.

    Args:
        server: The server, which answers both alike.
        pair: How both are made.
        ask: How both are asked.
        given: What they are asked.
        made: Options of the models, or both models.
        **options: Options of the call.
    """
    answers = list(server.answers)
    server.take()
    plain_one, ours_one = made if isinstance(made, tuple) else [make(server, **(made or {})) for make in pair]
    expected = outcome(ask, plain_one, given, **options)
    theirs = server.take()
    server.answers = answers
    got = outcome(ask, ours_one, given, **options)
    ours = server.take()
    for model in (plain_one, ours_one):
        if isinstance(model, AzureChatOpenAI) and not isinstance(made, tuple):
            model.root_client.close()  # LangChain keeps no such client, and whoever drops one may hear of its sockets
    assert got == expected
    assert [a.path for a in ours] == [a.path for a in theirs]
    assert [a.said for a in ours] == [a.said for a in theirs]
    assert [unlike_in_time(a.headers) for a in ours] == [unlike_in_time(a.headers) for a in theirs]
    server.answers, server.asked = answers, ours
    return got
