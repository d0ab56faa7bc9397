"""The server process of a local model with another engine: it says back what it is told, as a model would.

A message "say: TEXT" is answered with TEXT, in pieces when streamed; "overflow" with llama.cpp's error.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taograph.models.local_server import serve
from taograph.models.local_spec import ServerSpec

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
OVERFLOW = "request (9020 tokens) exceeds the available context size (8192 tokens), try increasing it"


class Handler(BaseHTTPRequestHandler):
    key = ""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {self.key}":
            self.send({"error": {"message": "wrong key", "code": 401}}, 401)
            return
        asked = body["messages"][-1]["content"]
        if asked == "overflow":
            self.send({"error": {"message": OVERFLOW, "code": 400}}, 400)
            return
        text = asked.removeprefix("say: ")
        if body.get("stream"):
            self.stream([text[at : at + 4] for at in range(0, len(text), 4)])
        else:
            message = {"role": "assistant", "content": text}
            self.send(envelope({"index": 0, "message": message, "finish_reason": "stop"}, usage=USAGE))

    def send(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, pieces: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for piece in pieces:
            self.event(envelope({"index": 0, "delta": {"content": piece}, "finish_reason": None}))
        self.event(envelope({"index": 0, "delta": {}, "finish_reason": "stop"}))
        self.event({**envelope(), "choices": [], "usage": USAGE})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())

    def log_message(self, *_: Any) -> None:
        return None


def envelope(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "fake", "choices": [*choices], **more}


class Fake:
    template = "bare_json"

    def __init__(self, spec: ServerSpec, key: str) -> None:
        Handler.key = key
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self._kept = spec.run_dir / "kept"

    def recall(self, prefix: bytes) -> None:
        with self._kept.with_name("recalled").open("ab") as file:
            file.write(prefix[:40] + b"\n")

    def keep(self, prefix: bytes) -> None:
        self._kept.write_bytes(prefix)


if __name__ == "__main__":
    serve(ServerSpec.from_json(sys.argv[-1]), Fake)
