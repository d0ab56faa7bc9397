"""A process of its own that runs a graph when it is told to, for the tests of one writer: ``writer_support.Worker``.

It reads what to run, a line of JSON each, and prints a line for everything that its test waits for: ``ready``,
``held`` (a run has got as far as the tool ``gate``, which waits for a line), for every text ``answer`` or ``busy``,
and ``over``.

One thread alone reads the lines: the tool of a run that was given up may still wait for its own, and of two that read
a pipe side by side each can take what was meant for the other.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from support import question
from writer_support import begun, on, reply

from taograph import checkpoints, create_react_graph, tool
from taograph.models import ScriptedModel
from taograph.writers import ThreadBusyError

_print = threading.Lock()
_told: SimpleQueue[str] = SimpleQueue()
_let_go: SimpleQueue[str] = SimpleQueue()


def read() -> None:
    """Hand on every line: what is to be run, ended by "", and the empty ones that the tool waits for."""
    for line in sys.stdin:
        (_told if line.strip() else _let_go).put(line)
    _told.put("")


def say(word: str, **what: Any) -> None:
    with _print:
        print(word, json.dumps(what), flush=True)


@tool(effects="none")
def gate() -> str:
    """Wait."""
    say("held")
    _let_go.get()
    return "passed"


def told(text: str, result: Any) -> None:
    if isinstance(result, dict):
        say("answer", text=text, stop=result["stop"]["reason"], detail=result["stop"]["detail"])
    elif isinstance(result, ThreadBusyError):
        say("busy", text=text)
    else:
        raise result


async def arun(graph: Any, texts: list[str], config: Any, together: int) -> None:
    limit = asyncio.Semaphore(together)

    async def one(text: str) -> None:
        async with limit:
            try:
                told(text, await graph.ainvoke(question(text), config))
            except ThreadBusyError as error:
                told(text, error)

    await asyncio.gather(*map(one, texts))


def run(graph: Any, texts: list[str], config: Any, together: int) -> None:
    def some(number: int) -> None:
        for text in texts[number::together]:
            try:
                told(text, graph.invoke(question(text), config))
            except ThreadBusyError as error:
                told(text, error)

    for future in [begun(lambda n=number: some(n)) for number in range(together)]:
        future.result()


def main(url: str) -> None:
    with checkpoints.open(url) as saver:
        graph = create_react_graph(ScriptedModel(replies=[reply], repeat=True), [gate], checkpointer=saver)
        threading.Thread(target=read, daemon=True).start()
        say("ready")
        while line := _told.get():
            what = json.loads(line)
            how = (graph, what["texts"], on(what["thread"], what.get("strategy")), what.get("together", 1))
            if what.get("way") == "ainvoke":
                asyncio.run(arun(*how))
            else:
                run(*how)
            say("over")


if __name__ == "__main__":
    main(sys.argv[1])
