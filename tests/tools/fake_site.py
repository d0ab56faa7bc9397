"""A web site on a loopback port that sends exactly the bytes it is told to.

::

    with Site() as site:
        site.page("/", "<p>Hello")                       # a well-formed answer
        site.raw("/slow", b"HTTP/1.1 200 OK\\r\\n", *b"x" * 99, gap=0.1)    # one part every 0.1 s
        ...
        site.seen                                         # path and headers of each request
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Self


class Site:
    """The site; ``host`` is its address with the port."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self._answers: dict[str, list[tuple[tuple[bytes, ...], float]]] = {}
        self._tls = tls
        self._closing = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.02)
        self.port: int = self._socket.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def url(self, path: str = "/") -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}{path}"

    def page(
        self, path: str, body: str | bytes = b"", *, status: int = 200, type: str = "text/html", **more: str
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        headers = {"content-length": str(len(data)), "connection": "close"}
        if type:
            headers["content-type"] = type
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.raw(path, f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode(), data)

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.page(path, status=status, location=to)

    def raw(self, path: str, *parts: bytes, gap: float = 0.0) -> None:
        """What a path answers; told several times, the answers are given in turn and the last one stays."""
        self._answers.setdefault(path, []).append((parts, gap))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self._socket.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            with suppress(TimeoutError):
                connection, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                asked = b""
                while b"\r\n\r\n" not in asked:
                    part = connection.recv(65536)
                    if not part:
                        return
                    asked += part
                first, *lines = asked.decode("latin-1").rstrip().split("\r\n")
                path = first.split(" ")[1]
                self.seen.append((path, {n.lower(): v for n, _, v in (line.partition(": ") for line in lines)}))
                for part in self._answer(path):
                    connection.sendall(part)

    def _answer(self, path: str) -> Iterable[bytes]:
        if path not in self._answers:
            return [b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]
        answers = self._answers[path]
        parts, gap = answers.pop(0) if len(answers) > 1 else answers[0]
        return (part for part in parts if not (gap and self._closing.wait(gap)))
