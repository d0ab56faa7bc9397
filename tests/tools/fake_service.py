"""A service on a loopback port that answers as it is told to, failures included.

::

    with Service(lambda ask: {"hello": ask["name"]}) as service:        # a JSON reply, made of the parameters
        service.fail(Answer(status=500))                                # the next request fails, the one after not
        service.fail(SILENCE, times=None)                               # all further requests get no answer
        ...
        service.asked                                                   # the parameters of each request
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Answer:
    """What is sent. ``body`` is text, bytes, or something to send as JSON.

    Attributes:
        status: The HTTP status.
        body: The body.
        headers: Further headers, a content type among them.
        cut: Close the connection after half the body.
        silent: Seconds without a byte before the answer; it is given up when the service closes.
        drip: Seconds between two bytes of the body.
    """

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    silent: float = 0.0
    drip: float = 0.0


HTML = Answer(body="<!DOCTYPE html><h1>Sign in to the network</h1>", headers={"Content-Type": "text/html"})
SILENCE = Answer(silent=10.0, body={})
CIRCLE = Answer(status=302, headers={"Location": "?again=1"})


class Service:
    """The service; its ``url`` has no slash at its end."""

    def __init__(self, reply: Callable[[dict[str, str]], Any]) -> None:
        self.asked: list[dict[str, str]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.closing = threading.Event()
        self._reply = reply
        self._failures: list[Answer] = []
        self._always: Answer | None = None
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.service = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        # 20 ms: how long closing the server waits for its loop to look up.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def fail(self, answer: Answer, times: int | None = 1) -> None:
        """Answer the next requests with a failure; ``times=None``: every further one."""
        with self._lock:
            if times is None:
                self._always = answer
            else:
                self._failures += [answer] * times

    def answer(self, ask: dict[str, str]) -> Answer:
        with self._lock:
            self.asked.append(ask)
            if self._failures:
                return self._failures.pop(0)
            if self._always is not None:
                return self._always
        made = self._reply(ask)
        return made if isinstance(made, Answer) else Answer(body=made)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    service: Service

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        service = cast(_Server, self.server).service
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        service.requests.append((self.command, {k.lower(): v for k, v in self.headers.items()}, body))
        answer = service.answer(dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True)))
        if answer.silent:
            service.closing.wait(answer.silent)
        sent = answer.body if isinstance(answer.body, str | bytes) else json.dumps(answer.body)
        data = sent.encode() if isinstance(sent, str) else sent
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        if answer.cut:
            self.wfile.write(data[: len(data) // 2])
        elif answer.drip:
            for at in range(len(data)):
                if service.closing.wait(answer.drip) or select.select([self.connection], [], [], 0)[0]:
                    return
                self.wfile.write(data[at : at + 1])
        else:
            self.wfile.write(data)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output of the tests clean."""
