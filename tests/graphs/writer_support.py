"""What the tests of one writer share: a run that holds its thread until it is let go, and places of every kind."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage
from support import Way, asks, question, run

from taograph import create_react_graph, tool
from taograph.models import ScriptedModel, call

SECONDS = 60.0
WORKER = Path(__file__).parent / "writer_process.py"


def on(thread: str = "t1", strategy: str | None = None, **more: Any) -> dict[str, Any]:
    """A config for a run on a thread."""
    said = {} if strategy is None else {"multitask_strategy": strategy}
    return {"configurable": {"thread_id": thread, **said}, **more}


class Held:
    """A graph with a tool that returns when it is told to.

    A question that begins with "hold" has the model call the tool; any other is answered at once.
    """

    def __init__(self, saver: Any, **options: Any) -> None:
        self.entered = threading.Event()
        self.free = threading.Event()

        @tool(effects="none", name="gate")
        def gate() -> str:
            """Wait."""
            self.entered.set()
            self.free.wait(SECONDS)
            return "passed"

        self.model = ScriptedModel(replies=[reply], repeat=True)
        self.graph = create_react_graph(self.model, [gate, *options.pop("tools", ())], checkpointer=saver, **options)

    def messages(self, thread: str = "t1") -> list[str]:
        """The texts of the questions and answers in the state."""
        found = self.graph.get_state(on(thread)).values.get("messages", [])
        return [str(m.text) for m in found if m.type == "human" or (m.type == "ai" and not m.tool_calls)]

    @contextmanager
    def holding(self, way: Way = "invoke", config: Any = None, text: str = "hold") -> Iterator[Future[dict[str, Any]]]:
        """A run in a thread of its own that has got as far as the tool; let go at the end at the latest."""
        self.entered.clear()
        self.free.clear()
        first = begun(lambda: run(way, self.graph, question(text), config or on()))
        try:
            assert self.entered.wait(SECONDS), first
            yield first
        finally:
            self.free.set()
            first.exception(SECONDS)


def reply(messages: list[BaseMessage]) -> AIMessage | str:
    last = messages[-1]
    if last.type == "human":
        return asks(call("gate")) if str(last.text).startswith("hold") else f"re: {last.text}"
    return "done"


def begun(work: Callable[[], Any]) -> Future[Any]:
    """Work in a thread of its own."""
    future: Future[Any] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=do, daemon=True).start()
    return future


def runs_of(graph: Any, way: Way, configs: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Many runs at the same moment, in threads or in tasks: what each gave, or raised."""
    if way == "invoke":
        together = threading.Barrier(len(configs))

        def one(text: str, config: dict[str, Any]) -> Any:
            together.wait(SECONDS)
            return graph.invoke(question(text), config)

        started = [begun(lambda t=t, c=c: one(t, c)) for t, c in configs]
        return [future.exception(SECONDS) or future.result() for future in started]

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(graph.ainvoke(question(t), c) for t, c in configs), return_exceptions=True)

    return asyncio.run(all_of_them())


class Worker:
    """A process that runs a graph when it is told to; see ``writer_process.py``."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(WORKER), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def reads(self, *words: str) -> tuple[str, Any]:
        """The next line: one of these words, and what comes with it."""
        line = cast("Any", self.process.stdout).readline()
        found, _, rest = line.partition(" ")
        assert found in words, f"{line!r}, not {' or '.join(words)}"
        return found, json.loads(rest)

    def runs(self, thread: str, *texts: str, **how: Any) -> None:
        """Have it run a graph."""
        self._writes(json.dumps({"thread": thread, "texts": texts, **how}))

    def holds(self, thread: str, **how: Any) -> None:
        """Have it run a graph as far as the tool, which waits for :meth:`goes_on`."""
        self.runs(thread, "hold", **how)
        self.reads("held")

    def goes_on(self) -> None:
        """Let the tool return."""
        self._writes("")

    def answers(self) -> Any:
        """What came of its one run."""
        _, answer = self.reads("answer")
        self.reads("over")
        return answer

    def _writes(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
