"""Runs the command many times: a process that has imported everything, and forks one for each. See ``forked_tao.py``.

What a command imports takes longer than most of what the tests want of it. Nothing but imports was done when a child
begins; it gets the environment, the folder and the files of its own. It ends as any interpreter does (threads are
waited for, what is registered for the end is called), but for taking modules apart one by one, which takes long.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import threading
from typing import Any

import taograph.cli

FILES = 4
"""What comes with a command: its input, its output, its errors, and where to tell of its end."""
# What a run imports when it needs it; what is missing here costs time and nothing else.
_LATER = (
    "filelock",
    "genai_prices.data",
    "langchain_openai",
    "openai.resources.chat.completions",
    "taograph.checkpoints.ledger",
    "taograph.checkpoints.sqlite",
    "taograph.graphs.loop.streaming",
    "taograph.graphs.react",
    "taograph.models.endpoint",
    "taograph.models.pull",
    "taograph.trace.configured",
    "taograph.trace.redaction",
    "taograph.trace.stores.sqlite",
    "taograph.writers.files",
)


def main() -> None:
    """Serve the commands that come by the socket whose number is the argument."""
    for name in _LATER:
        importlib.import_module(name)
    for found in pkgutil.iter_modules(taograph.cli.__path__, "taograph.cli."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    with socket.socket(fileno=int(sys.argv[1])) as line:
        asked = _serve(line)
    if asked is None:
        return
    sys.argv[1:] = asked
    code = taograph.cli.main()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(line: socket.socket) -> list[str] | None:
    """Fork for each command; gives its arguments, in the child, and None where no more will come."""
    gc.collect()
    gc.freeze()  # a child need not copy what is never freed
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for a command
    while True:
        head, files, _, _ = socket.recv_fds(line, 8, FILES)
        if not head:
            return None
        asked = json.loads(_exactly(line, int.from_bytes(head, "big")))
        assert threading.active_count() == 1, "a process with threads cannot be forked"
        if os.fork() == 0:
            return _child(asked, *files)
        for file in files:
            os.close(file)


def _child(asked: dict[str, Any], stdin: int, stdout: int, stderr: int, told: int) -> list[str]:
    """Fork the command; tell of its beginning and, when it has ended, of its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        os.close(told)
        _become(asked, stdin, stdout, stderr)
        return list(asked["args"])
    for file in (stdin, stdout, stderr):
        os.close(file)
    os.write(told, f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(asked: dict[str, Any], *files: int) -> None:
    """Be what a process of its own would be."""
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if asked["terminal"]:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    seen = os.isatty(1)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", 1 if seen else -1, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # type: ignore[misc]  # noqa: SIM115


def _exactly(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += line.recv(size - len(found))
    return found


if __name__ == "__main__":
    main()
