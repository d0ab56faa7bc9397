"""Records a run in a process of its own, to be killed there. Started by ``test_killing.py``.

One process imports everything and forks a child for each line that it reads (the URL of the store, a log, and "sync"
or "async"), which is what makes many kills cheap. A child writes to the log what it begins and what it tells of.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import filelock  # noqa: F401 - imported here once, and not in each child
import psycopg  # noqa: F401
from langchain_core.messages import AIMessage

import taograph.trace.stores.jsonl
import taograph.trace.stores.postgres
import taograph.trace.stores.sqlite  # noqa: F401
from taograph import create_react_graph, tool, trace
from taograph.models import ScriptedModel, call
from taograph.trace.writing import Writer

TURNS = 4
PAUSE = 0.004


def run(url: str, log: str, way: str) -> None:
    """Record a run of some turns, each with two calls."""
    told = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def say(what: str) -> None:
        os.write(told, f"{what}\n".encode())

    write = Writer.write

    def watched(self: Writer, draft: Any, **more: Any) -> Any:
        done = write(self, draft, **more)
        say(f"told {draft.type}")
        return done

    Writer.write = watched  # type: ignore[method-assign]

    def reply(messages: list[Any]) -> AIMessage:
        say("model_asked")
        time.sleep(PAUSE)
        turn = sum(m.type == "ai" for m in messages) + 1
        if turn > TURNS:
            return AIMessage("Done.")
        calls = [call("look", {"name": f"{turn}-{n}"}, id=f"c{turn}-{n}") for n in (1, 2)]
        return AIMessage(f"Turn {turn}.", tool_calls=calls)

    @tool(effects="none")
    def look(name: str) -> str:
        """Look.

        Args:
            name: What at.
        """
        say("action")
        time.sleep(PAUSE)
        return f"saw {name}"

    model = ScriptedModel(replies=[reply], repeat=True, usage=(1, 1))
    graph = trace.record(create_react_graph(model, [look]), to=url)
    question = {"messages": [("user", "Look around.")]}
    say("begins")
    print(json.dumps("begins"), flush=True)
    if way == "sync":
        graph.invoke(question)
    else:
        asyncio.run(graph.ainvoke(question))
    for writer in trace._writers.values():
        writer.flush()
    say("whole")


def main() -> None:
    """Fork a child for each line of the input."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            code = 1
            try:
                run(**json.loads(line))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"ended": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
