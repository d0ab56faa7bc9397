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
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from taograph.models.local_spec import ALREADY_RUNNING, Record, ServerSpec, template_text

# A server nobody has come to yet: whoever started it may have died meanwhile.
_FIRST_CLIENT_SECONDS = 15.0
_HANDSHAKE_LIMIT = 256
_PREFIX_LIMIT = 1 << 22
# Longer than it takes to cut a computed prefix out of what is there, shorter than to compute it again.
_KEEP_SECONDS = 4.0
_RECALL_SECONDS = 5.0
_KEPT_PREFIXES = 4


class Engine(Protocol):
    """A running OpenAI-compatible server."""

    url: str
    template: str

    def recall(self, prefix: bytes) -> None:
        """Load what an earlier server computed of a prefix, if it was kept."""

    def keep(self, prefix: bytes) -> None:
        """Save what has been computed of a prefix for later servers, if that is quick."""


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
            prefix = _stay(listener, key, spec.linger, engine.recall)
        finally:
            record.unlink(missing_ok=True)
    if prefix:
        engine.keep(prefix)
    # The engine's threads need no farewell: nobody is connected.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Lease:
    """A connection: what it has said and not been read yet, whether its key was right, the prefix it told."""

    def __init__(self) -> None:
        self.said = b""
        self.good = False
        self.prefix = b""


def _stay(listener: socket.socket, key: str, linger: float, recall: Callable[[bytes], None]) -> bytes:
    """Return when no lease has been held for a while, with the prefix that was told last."""
    listener.setblocking(False)
    prefix = b""
    held: dict[socket.socket, _Lease] = {}
    empty_since = time.monotonic() + max(0.0, _FIRST_CLIENT_SECONDS - linger)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            if any(lease.good for lease in held.values()):
                empty_since = time.monotonic()
            elif time.monotonic() - empty_since > linger:
                return prefix
            for chosen, _ in selector.select(timeout=0.25):
                connection = chosen.fileobj
                if connection is listener:
                    with suppress(OSError):
                        came, _address = listener.accept()
                        came.setblocking(False)
                        held[came] = _Lease()
                        selector.register(came, selectors.EVENT_READ)
                elif isinstance(connection, socket.socket):
                    stays = _hear(connection, held[connection], key, recall)
                    prefix = held[connection].prefix or prefix
                    if not stays:
                        selector.unregister(connection)
                        held.pop(connection)
                        connection.close()


def _hear(connection: socket.socket, lease: _Lease, key: str, recall: Callable[[bytes], None]) -> bool:
    """Read what a connection says, the key first, then prefixes, a line each; whether it stays."""
    try:
        heard = connection.recv(1 << 16)
        if not heard:
            return False
        *lines, lease.said = (lease.said + heard).split(b"\n")
        for line in lines:
            if lease.good:
                lease.prefix = line
                recall(line)
            elif hmac.compare_digest(line, key.encode()):
                lease.good = True
            else:
                return False
            connection.sendall(b"ok\n")
    except BlockingIOError:
        return True
    except OSError:
        return False
    return len(lease.said) <= (_PREFIX_LIMIT if lease.good else _HANDSHAKE_LIMIT)


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
        if template != "own":
            params.chat_template = template_text(template)
            # The client reads the calls: a reply the server cannot read would be an HTTP 500.
            params.force_pure_content_parser = True
        params.slot_save_path = f"{spec.run_dir}{os.sep}"
        self.template = template
        self._server = xllamacpp.Server(params)
        self.url = self._server.listening_address
        self._key = key
        self._spec = spec
        self._recalled: set[str] = set()

    def recall(self, prefix: bytes) -> None:
        saved = self._saved(prefix)
        if saved.name in self._recalled or not saved.exists():
            return
        self._recalled.add(saved.name)
        try:
            self._ask("/slots/0?action=restore", {"filename": saved.name}, _RECALL_SECONDS)
            saved.touch()
        except TimeoutError:  # it is busy with a request, which is not to be disturbed
            return
        except (OSError, ValueError):  # half written, or of another engine
            saved.unlink(missing_ok=True)

    def keep(self, prefix: bytes) -> None:
        saved = self._saved(prefix)
        if saved.exists():
            return
        with suppress(OSError, ValueError, KeyError):
            prompt = self._ask("/apply-template", json.loads(prefix))["prompt"]
            # Takes what is behind the prefix, the conversation, out of the slot: it is not for keeping.
            self._ask("/completion", {"prompt": prompt, "n_predict": 0, "cache_prompt": True}, _KEEP_SECONDS)
            scratch = saved.with_suffix(".tmp")
            self._ask("/slots/0?action=save", {"filename": scratch.name})
            os.replace(scratch, saved)
            for old in sorted(self._all_saved(), key=lambda path: -path.stat().st_mtime)[_KEPT_PREFIXES:]:
                old.unlink(missing_ok=True)

    def _saved(self, prefix: bytes) -> Path:
        return self._spec.run_dir / f"{self._spec.digest}-{sha256(prefix).hexdigest()[:16]}.slot"

    def _all_saved(self) -> list[Path]:
        return list(self._spec.run_dir.glob(f"{self._spec.digest}-*.slot"))

    def knows_tools(self) -> bool:
        """Whether the template in the file can show tools."""
        return bool(self._ask("/props").get("chat_template_caps", {}).get("supports_tools"))

    def _ask(self, path: str, body: Any = None, seconds: float = 60.0) -> dict[str, Any]:
        """Ask the server; OSError where it refuses."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers)  # noqa: S310 - loopback
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=seconds) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


def start_engine(spec: ServerSpec, key: str) -> Engine:
    """Load the model; with ``template="auto"`` the file's own template is kept where it knows tools."""
    if spec.template != "auto":
        return _LlamaServer(spec, key, spec.template)
    server = _LlamaServer(spec, key, "own")
    if server.knows_tools():
        return server
    del server
    return _LlamaServer(spec, key, "bare_json")


if __name__ == "__main__":
    main()
