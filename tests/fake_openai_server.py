"""An OpenAI-compatible chat endpoint on a loopback port that plays scripted replies.

It speaks the wire format (plain and streamed), so a test sees what a real endpoint would make the client
do: usage in the last chunk, argument fragments, 429 with ``Retry-After``, a connection that hangs or drops::

    with FakeOpenAI(["Paris."]) as server:                                  # a text reply
        model = ChatOpenAI(base_url=server.url, api_key="x", model="fake")
        ...
        server.requests[0]["messages"]                                      # what the client sent

A reply is a text, a :class:`Reply` (tool calls, reasoning, usage, …), a :class:`Fail`, a :class:`Hang`, a
:class:`Raw`, or a function of the request body that returns one of these. Each request takes the next reply
of the list; when none is left the request fails with status 500, or gets ``default`` where one was given.
"""

from __future__ import annotations

import json
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast


@dataclass(frozen=True)
class Reply:
    """One assistant message.

    Attributes:
        text: Its content.
        calls: Tool calls as (name, arguments); arguments given as a string are sent as they are, broken
            JSON included.
        reasoning: Sent as ``reasoning_content``.
        finish: ``finish_reason``; by default "tool_calls" with calls, else "stop".
        refusal: Sent as ``refusal``.
        usage: Tokens as (prompt, completion) or (prompt, completion, cached prompt tokens); None: no usage.
        ids: Ids of the calls; by default "call_1", "call_2", … counted over the server's life.
        delay: Seconds to wait before the first byte.
        pace: Seconds between two chunks of a streamed reply.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any] | str]] = ()
    reasoning: str = ""
    finish: str | None = None
    refusal: str | None = None
    usage: tuple[int, ...] | None = (100, 10)
    ids: Sequence[str | None] = ()
    delay: float = 0.0
    pace: float = 0.0


@dataclass(frozen=True)
class Fail:
    """An error status, as OpenAI words it. ``drop`` closes the connection without an answer instead."""

    status: int = 500
    message: str = "scripted failure"
    code: str | None = None
    retry_after: float | None = None
    drop: bool = False


@dataclass(frozen=True)
class Hang:
    """No answer (or, streamed, none after ``text``) until the client leaves or the server closes."""

    text: str = ""


@dataclass(frozen=True)
class Raw:
    """Bytes as they are: a proxy's error page, JSON that breaks off, a stream that is cut.

    Attributes:
        body: What is sent.
        status: The HTTP status.
        kind: The content type.
        cut: Send ``body`` as the first chunk of more, and close the connection.
        headers: Further headers.
    """

    body: str
    status: int = 200
    kind: str = "application/json"
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = str | Reply | Fail | Hang | Raw
Scripted = Answer | Callable[[dict[str, Any]], Answer]


@dataclass
class FakeOpenAI:
    """The server; use it as a context manager.

    Attributes:
        replies: What is answered, in order.
        default: What is answered when ``replies`` is used up; None: status 500.
        model: The name that ``/v1/models`` lists and replies carry.
        requests: Bodies of the chat requests so far.
        headers: Their headers, in lower case.
        connections: How many connections were opened.
        hanging: Set as soon as a client waits at a :class:`Hang`.
        left: Set as soon as a client has left one.
    """

    replies: Sequence[Scripted] = ()
    default: Scripted | None = None
    model: str = "fake"
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    hanging: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._queue = list(self.replies)
        self._lock = threading.Lock()
        self._calls = 0
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self

    @property
    def url(self) -> str:
        """The base URL, ``/v1`` included."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def next_answer(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        """Record a request and take its reply."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            reply = self._queue.pop(0) if self._queue else self.default
        if reply is None:
            return Fail(500, f"the script has no reply for request {len(self.requests)}")
        return reply(body) if callable(reply) else reply

    def message(self, reply: Reply) -> dict[str, Any]:
        """The wire form of a reply's message."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.refusal is not None:
            message["refusal"] = reply.refusal
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        calls = []
        for index, (name, args) in enumerate(reply.calls):
            with self._lock:
                self._calls += 1
                made = f"call_{self._calls}"
            function = {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)}
            given = reply.ids[index] if index < len(reply.ids) else made
            calls.append({"id": given, "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        return message

    def wait_until_client_leaves(self, connection: Any) -> None:
        """Block until the client closes its connection, or the server is closed."""
        self.hanging.set()
        while not self._closing.is_set():
            readable, _, _ = select.select([connection], [], [], 0.05)
            if readable and not _peek(connection):
                self.left.set()
                return


def _peek(connection: Any) -> bytes:
    try:
        return cast(bytes, connection.recv(1, 2))  # 2: MSG_PEEK
    except OSError:
        return b""


def _usage(reply: Reply) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    prompt, completion, *cached = reply.usage
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if cached:
        usage["prompt_tokens_details"] = {"cached_tokens": cached[0]}
    return usage


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pieces of a message in a stream: word by word, and each call's arguments in two halves."""
    yield {"role": "assistant", "content": ""}
    for key in ("reasoning_content", "content", "refusal"):
        for piece in re.findall(r"\s*\S+\s*\Z|\s*\S+", message.get(key) or ""):
            yield {key: piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        head = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield {"tool_calls": [head]}
        for part in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    fake: FakeOpenAI

    def get_request(self) -> Any:
        self.fake.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing where a client went away: what it prints would stand in a test's captured output."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without this each small write waits for the one before it to be acknowledged.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    @property
    def fake(self) -> FakeOpenAI:
        return cast(_Server, self.server).fake

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": self.fake.model, "object": "model"}]})
        else:
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.partition("?")[0].endswith("/chat/completions"):
            self._json(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.fake.next_answer(body, headers)
        try:
            self._answer(answer if not isinstance(answer, str) else Reply(answer), body)
        except (BrokenPipeError, ConnectionResetError):
            self.fake.left.set()
            self.close_connection = True

    def _answer(self, answer: Reply | Fail | Hang | Raw, body: dict[str, Any]) -> None:
        streamed = bool(body.get("stream"))
        if isinstance(answer, Raw):
            self._raw(answer)
        elif isinstance(answer, Hang):
            if streamed and answer.text:
                self._begin_stream()
                for delta in _deltas({"content": answer.text}):
                    self._chunk({"delta": delta, "finish_reason": None})
            self.fake.wait_until_client_leaves(self.connection)
            self.close_connection = True
        elif isinstance(answer, Fail):
            self._fail(answer)
        else:
            time.sleep(answer.delay)
            message = self.fake.message(answer)
            finish = answer.finish or ("tool_calls" if answer.calls else "stop")
            if streamed:
                wants_usage = (body.get("stream_options") or {}).get("include_usage", False)
                self._stream(message, finish, _usage(answer) if wants_usage else None, answer.pace)
            else:
                choice = {"index": 0, "message": message, "finish_reason": finish}
                self._json(200, self._envelope("chat.completion", [choice], _usage(answer)))

    def _fail(self, answer: Fail) -> None:
        if answer.drop:
            self.close_connection = True
            return
        kind = "invalid_request_error" if answer.status < 500 else "server_error"
        error = {"message": answer.message, "type": kind, "code": answer.code}
        extra = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
        self._json(answer.status, {"error": error}, extra)

    def _raw(self, answer: Raw) -> None:
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("content-type", answer.kind)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        length = ("transfer-encoding", "chunked") if answer.cut else ("content-length", str(len(body)))
        self.send_header(*length)
        self.end_headers()
        self.wfile.write(f"{len(body):x}\r\n".encode() + body + b"\r\n" if answer.cut else body)
        self.close_connection = answer.cut

    def _envelope(self, kind: str, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> dict[str, Any]:
        made = {"id": "chatcmpl-fake", "object": kind, "created": 0, "model": self.fake.model}
        return {**made, "choices": choices, **({"usage": usage} if usage else {})}

    def _stream(self, message: dict[str, Any], finish: str, usage: dict[str, Any] | None, pace: float) -> None:
        self._begin_stream()
        for delta in _deltas(message):
            self._chunk({"delta": delta, "finish_reason": None})
            time.sleep(pace)
        self._chunk({"delta": {}, "finish_reason": finish})
        if usage:
            self._data(json.dumps(self._envelope("chat.completion.chunk", [], usage)))
        self._data("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, choice: dict[str, Any]) -> None:
        envelope = self._envelope("chat.completion.chunk", [{"index": 0, **choice}], None)
        self._data(json.dumps(envelope))

    def _data(self, text: str) -> None:
        line = f"data: {text}\n\n".encode()
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
