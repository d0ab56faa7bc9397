"""The process that serves a local model, and ends when nobody uses it any more.

``python -m taograph.models.local_server SPEC`` loads the model into llama.cpp's OpenAI-compatible server on a
free loopback port, writes its record and then watches its lease port: every process that uses the server keeps
one connection open there. The kernel closes it however the process ends, so nothing has to be cleaned up, and
when the last one is gone the server goes too.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from taograph.models.local_spec import ALREADY_RUNNING, Record, ServerSpec, own_template

# A server nobody has come to yet: whoever started it may have died meanwhile.
_FIRST_CLIENT_SECONDS = 15.0
_HANDSHAKE_LIMIT = 256


class Engine(Protocol):
    """A running OpenAI-compatible server."""

    url: str
    template: str


def main() -> None:
    """Serve the spec given as JSON in the last argument until it is no longer used."""
    serve(ServerSpec.from_json(sys.argv[-1]), start_engine)


def serve(spec: ServerSpec, start: Callable[[ServerSpec, str], Engine]) -> None:
    """Start an engine, tell where it is, and stay while there are leases.

    Args:
        spec: What to serve.
        start: Starts the engine; gets the spec and the key it must ask for.
    """
    from filelock import FileLock, Timeout

    place = FileLock(spec.file("serving"))
    try:
        # Long enough for a server that is just leaving.
        place.acquire(timeout=10)
    except Timeout:
        print("another server holds this place", file=sys.stderr)
        sys.exit(ALREADY_RUNNING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    key = secrets.token_urlsafe(32)
    record = spec.file("json")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine = start(spec, key)
        port = listener.getsockname()[1]
        Record(os.getpid(), engine.url, port, key, engine.template).write(record)
        try:
            _stay(listener, key, spec.linger)
        finally:
            record.unlink(missing_ok=True)
    # The engine's threads need no farewell: nobody is connected.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _stay(listener: socket.socket, key: str, linger: float) -> None:
    """Return when no lease has been held for a while."""
    listener.setblocking(False)
    held: dict[socket.socket, bytes | None] = {}  # what has been said so far; None: the key was right
    empty_since = time.monotonic() + max(0.0, _FIRST_CLIENT_SECONDS - linger)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            if any(said is None for said in held.values()):
                empty_since = time.monotonic()
            elif time.monotonic() - empty_since > linger:
                return
            for chosen, _ in selector.select(timeout=0.25):
                connection = chosen.fileobj
                if connection is listener:
                    with suppress(OSError):
                        came, _address = listener.accept()
                        came.setblocking(False)
                        held[came] = b""
                        selector.register(came, selectors.EVENT_READ)
                elif isinstance(connection, socket.socket) and not _hear(connection, held, key):
                    selector.unregister(connection)
                    held.pop(connection, None)
                    connection.close()


def _hear(connection: socket.socket, held: dict[socket.socket, bytes | None], key: str) -> bool:
    """Read what a connection says; whether it stays."""
    try:
        heard = connection.recv(_HANDSHAKE_LIMIT)
        before = held[connection]
        if not heard or before is None:
            return bool(heard)
        said, ended, _ = (before + heard).partition(b"\n")
        held[connection] = said
        if not ended:
            return len(said) <= _HANDSHAKE_LIMIT
        if not hmac.compare_digest(said, key.encode()):
            return False
        held[connection] = None
        connection.sendall(b"ok\n")
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


class _LlamaServer:
    """llama.cpp's server in this process."""

    def __init__(self, spec: ServerSpec, key: str, template: str) -> None:
        import xllamacpp  # type: ignore[import-untyped]

        params = xllamacpp.CommonParams()
        params.model.path = str(spec.model)
        params.model_alias = [spec.model.stem]
        params.n_ctx = spec.context
        params.n_parallel = 1
        params.cpuparams.n_threads = spec.threads
        params.cpuparams_batch.n_threads = spec.threads
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [key]
        params.use_jinja = True
        params.offline = True
        params.ui = False
        params.cache_prompt = True
        params.cache_ram_mib = 512
        if template == "bare_json":
            params.chat_template = own_template()
            # The client reads the calls: a reply the server cannot read would be an HTTP 500.
            params.force_pure_content_parser = True
        self.template = template
        self._server = xllamacpp.Server(params)
        self.url = self._server.listening_address

    def knows_tools(self, key: str) -> bool:
        request = urllib.request.Request(f"{self.url}/props", headers={"Authorization": f"Bearer {key}"})  # noqa: S310 - loopback
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as response:
            found: dict[str, Any] = json.load(response)
        return bool(found.get("chat_template_caps", {}).get("supports_tools"))


def start_engine(spec: ServerSpec, key: str) -> Engine:
    """Load the model; with ``template="auto"`` the file's own template is kept where it knows tools."""
    if spec.template != "auto":
        return _LlamaServer(spec, key, spec.template)
    server = _LlamaServer(spec, key, "own")
    if server.knows_tools(key):
        return server
    del server
    return _LlamaServer(spec, key, "bare_json")


if __name__ == "__main__":
    main()
