"""Starting MCP servers, and runs that call their tools."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

from taograph import Limits, create_react_graph
from taograph.models import ScriptedModel, call

HERE = Path(__file__).parent
SAMPLE = str(HERE / "mcp_sample_server.py")
ODD = str(HERE / "mcp_odd_server.py")
# Generous: the machine may be busy with other tests.
PATIENCE = 40.0

both_ways = pytest.mark.parametrize("way", ["invoke", "ainvoke"])


def sample(env: dict[str, str] | None = None, **own: Any) -> dict[str, Any]:
    """The settings of the sample server over stdio; others are those under our own key."""
    return {"command": sys.executable, "args": [SAMPLE], "env": env or {}, "taograph": own}


def odd(*tools: dict[str, Any], own: dict[str, Any] | None = None, **told: Any) -> dict[str, Any]:
    """The settings of a server that starts at once and does as it is told."""
    args = [ODD, json.dumps({"tools": tools, **told})]
    return {"command": sys.executable, "args": args, "taograph": own or {}}


def listed(name: str, schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object"} if schema is None else schema, **more}


def config(**servers: dict[str, Any]) -> dict[str, Any]:
    """What an ``mcp.json`` holds."""
    return {"mcpServers": servers}


def observe(way: str, tools: Sequence[BaseTool], *calls: ToolCall) -> list[ToolMessage]:
    """The observations of a run of which the model makes the calls, one a turn, and then answers."""
    replies = [*(AIMessage("", tool_calls=[one]) for one in calls), "Done."]
    graph = create_react_graph(ScriptedModel(replies=replies), tools, limits=Limits(errors=100))
    given: Any = {"messages": [("user", "Go on.")]}
    result = graph.invoke(given) if way == "invoke" else asyncio.run(graph.ainvoke(given))
    assert result["answer"] == "Done.", result["stop"]
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def texts(way: str, tools: Sequence[BaseTool], *calls: ToolCall) -> list[str]:
    """As :func:`observe`: the texts, without the line that calls them data."""
    return [str(message.content).split("\n", 1)[-1] for message in observe(way, tools, *calls)]


def asked(name: str, /, **args: Any) -> ToolCall:
    """A call of a tool of the server ``s``."""
    return call(f"s_{name}", args)


def wait_until(true: Callable[[], Any]) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def runs(process: int) -> bool:
    """Whether a process is there, and more than a remainder."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0]
    except OSError:
        return False
    return state != "Z"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Remote:
    """The sample server over HTTP, on a loopback port of its own, which it keeps when it is started again."""

    def __init__(self, kind: str = "http") -> None:
        self.port = free_port()
        self._kind = kind
        self._process: subprocess.Popen[bytes] | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        path = "mcp" if self._kind == "http" else "sse"
        return {"type": self._kind, "url": f"http://127.0.0.1:{self.port}/{path}", **more}

    def start(self) -> None:
        command = [sys.executable, SAMPLE, self._kind, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._listens)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
