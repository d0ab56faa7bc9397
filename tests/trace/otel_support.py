"""A collector on this machine: an endpoint of OTLP over HTTP that keeps the spans that it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Told:
    """A span as the collector was sent it."""

    trace: str
    id: str
    parent: str | None
    name: str
    attributes: Mapping[str, Any]
    status: str
    said: str
    events: tuple[tuple[str, Mapping[str, Any]], ...]
    began: int
    ended: int
    resource: Mapping[str, Any] = field(repr=False)

    def json(self, key: str) -> Any:
        """An attribute that is JSON."""
        return json.loads(self.attributes[key])


class Server:
    """A server on a free port, for as long as a ``with`` lasts."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []
        self.answer = 200
        self.arrived = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._take()

            def do_POST(self) -> None:
                self._take()

            def do_PATCH(self) -> None:
                self._take()

            def _take(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else self._chunks()
                owner.requests.append(
                    (f"{self.command} {self.path}", {name.lower(): value for name, value in self.headers.items()}, body)
                )
                kind, said = owner.reply(self.path)
                self.send_response(owner.answer)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)
                owner.arrived.set()

            def _chunks(self) -> bytes:
                body = b""
                if "chunked" in self.headers.get("Transfer-Encoding", ""):
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                return body

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def reply(self, path: str) -> tuple[str, bytes]:
        """What it answers."""
        return "application/x-protobuf", ExportTraceServiceResponse().SerializeToString()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def bytes(self) -> bytes:
        """All that it was sent, addresses and headers included."""
        return b"\n".join(f"{line} {headers}".encode() + body for line, headers, body in self.requests)


class Collector(Server):
    """A collector."""

    @property
    def spans(self) -> list[Told]:
        """The spans that it was sent, by when they began."""
        found = []
        for line, headers, body in self.requests:
            assert line == "POST /v1/traces"
            assert headers["content-type"] == "application/x-protobuf"
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            found += list(told(request))
        return sorted(found, key=lambda span: span.began)


def told(request: ExportTraceServiceRequest) -> Iterator[Told]:
    """The spans of a request."""
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Told(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex() or None,
                    span.name,
                    _plain(span.attributes),
                    ("UNSET", "OK", "ERROR")[span.status.code],
                    span.status.message,
                    tuple((event.name, _plain(event.attributes)) for event in span.events),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    resource,
                )


def tree(spans: list[Told]) -> list[Any]:
    """The names of spans as they nest: a name, or a name with a list of what is in it."""

    def below(parent: str | None) -> list[Any]:
        made: list[Any] = []
        for span in (each for each in spans if each.parent == parent):
            inner = below(span.id)
            made.append([span.name, inner] if inner else span.name)
        return made

    return below(None)


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
