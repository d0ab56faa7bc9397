"""Runs a graph in a process of its own, to be killed there. Started by ``killing.py``, which also says the protocol.

One process imports everything and forks a child for each job, which is what makes a hundred kills cheap. A child
says on the common output where it is, and waits there for its end where it was told to. All that the script does is
written to a log first (one ``write`` a line, to a file opened for appending), so a line that is missing did not happen.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import filelock  # noqa: F401 - imported here once, and not in each child
import genai_prices  # noqa: F401
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

import taograph.checkpoints.postgres
import taograph.checkpoints.sqlite
import taograph.writers.files
import taograph.writers.postgres
from taograph import Limits, checkpoints, create_react_graph, tool
from taograph.checkpoints.ledger import CallKey, Ledger
from taograph.graphs.loop.repair import is_sound
from taograph.models import ScriptedModel, call
from taograph.tools import idempotency_key

STEPS = 3
QUESTION = "Pay the invoices, post the note and say what came of it."
CALLS: list[list[tuple[str, dict[str, str]]]] = [
    [("pay", {"what": "1"}), ("look", {"what": "a"}), ("pay", {"what": "2"}), ("post", {"what": "n"})],
    [("pay", {"what": "3"})],
    [("post", {"what": "m"}), ("look", {"what": "b"})],
]


class Job:
    """What a child is to do.

    Args:
        given: Where: ``url``, ``thread``, ``log`` (a path), ``way`` ("sync" or "async"). How far: ``stop`` (the place
            where it says that it is there, and waits), ``hold`` (places where it waits in silence), ``gate`` (a place
            where it waits until each of those was reached), ``pause`` (seconds that each thing takes). What with:
            ``resume`` (an answer), ``ask`` (another question). With what graph: ``approve``, ``tell`` (the model is
            told of what is unfinished, and no person is asked).
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.url: str = given["url"]
        self.thread: str = given["thread"]
        self.way: str = given["way"]
        self.stop: str | None = given.get("stop")
        self.hold = {place: threading.Event() for place in given.get("hold") or []}
        self.gate: str | None = given.get("gate")
        self.pause: float = given.get("pause", 0.0)
        self.resume: Any = given.get("resume")
        self.ask: str | None = given.get("ask")
        self.approve: list[str] = given.get("approve") or []
        self.on_unknown: Any = "tell" if given.get("tell") else "ask"
        self.log = os.open(given["log"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def at(self, place: str) -> None:
        """The run is here: written down, and where it was told to it waits to be killed."""
        os.write(self.log, f"{place}\n".encode())
        if place == self.gate:
            for reached in self.hold.values():
                reached.wait()
        if place in self.hold:
            self.hold[place].set()
            threading.Event().wait()
        if place == self.stop:
            say({"at": place})
            threading.Event().wait()

    # What the graph is made of

    def reply(self, messages: list[BaseMessage]) -> AIMessage:
        """What the model says: it follows from the messages alone."""
        last = messages[-1]
        turn = 1
        for message in reversed(messages):
            if isinstance(message, HumanMessage) and "taograph_feedback" not in message.additional_kwargs:
                break
            turn += isinstance(message, AIMessage)
        closing = isinstance(last, HumanMessage) and "The run ends here" in str(last.content)
        name = "closing" if closing else f"turn {turn}"
        self.at(f"{name} asked")
        time.sleep(self.pause)
        if closing or turn > len(CALLS) or self.ask:
            receipts = {found for m in messages if m.type == "tool" for found in re.findall(r"receipt \S+", m.text)}
            said = AIMessage(f"Done: {', '.join(sorted(receipts))}.")
        else:
            calls = [call(name, args, id=f"{name}-{args['what']}") for name, args in CALLS[turn - 1]]
            said = AIMessage(f"Turn {turn}.", tool_calls=calls)
        self.at(f"{name} said")
        return said

    def effect(self, name: str, what: str) -> str:
        """What a tool does."""
        self.at(f"{name}-{what} inside")
        time.sleep(self.pause)
        os.write(self.log, f"{name}-{what} EFFECT {idempotency_key()}\n".encode())
        self.at(f"{name}-{what} took effect")
        time.sleep(self.pause)
        self.at(f"{name}-{what} done")
        return f"receipt {name}-{what}"

    def tools(self) -> list[BaseTool]:
        """One tool of each kind of effects."""
        made = []
        for name, effects in (("pay", "once"), ("post", "idempotent"), ("look", "none")):
            made.append(self._tool(name, effects))
        return made

    def _tool(self, name: str, effects: Any) -> BaseTool:
        def act(what: str) -> str:
            """Do something.

            Args:
                what: To what.
            """
            return self.effect(name, what)

        async def act_async(what: str) -> str:
            """Do something.

            Args:
                what: To what.
            """
            return await asyncio.to_thread(self.effect, name, what)

        function: Callable[..., Any] = act if self.way == "sync" else act_async
        return tool(name=name, effects=effects, on_unknown=self.on_unknown)(function)

    # Where it can be stopped beside

    def watch(self) -> None:
        """Say what has been stored."""
        job, begin, finish = self, Ledger.begin, Ledger.finish

        def begun(self: Ledger, key: CallKey, tool: str) -> Any:
            job.at(f"{key.call} before")
            known = begin(self, key, tool)
            job.at(f"{key.call} begun" if known is None else f"{key.call} known")
            return known

        def finished(self: Ledger, key: CallKey, tool: str, *given: Any, **options: Any) -> None:
            finish(self, key, tool, *given, **options)
            kind = "decided" if tool != "model" and isinstance(given[0], dict) and "decision" in given[0] else "kept"
            job.at(f"{f'{job.turn}' if tool == 'model' else key.call} {kind}")

        Ledger.begin, Ledger.finish = begun, finished  # type: ignore[method-assign]
        for kind in (
            taograph.checkpoints.sqlite.SqliteCheckpoints,
            taograph.checkpoints.postgres.PostgresCheckpoints,
        ):
            self._watch_saver(kind)

    @property
    def turn(self) -> str:
        """The turn of the model that was asked last, as the log has it."""
        said = [
            line for line in Path(f"/proc/self/fd/{self.log}").resolve().read_text().splitlines() if "asked" in line
        ]
        return said[-1].removesuffix(" asked")

    def _watch_saver(self, kind: Any) -> None:
        job, put, put_writes = self, kind.put, kind.put_writes

        @wraps(put)
        def stored(self: Any, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
            made = put(self, config, checkpoint, metadata, versions)
            job.at(f"step {metadata['step']} stored")
            return made

        @wraps(put_writes)  # LangGraph looks at its signature
        def written(self: Any, config: Any, writes: Any, *more: Any) -> None:
            put_writes(self, config, writes, *more)
            for channel, value in writes:
                if channel == "messages":
                    for message in value if isinstance(value, list) else [value]:
                        if message.type == "tool":
                            job.at(f"{message.tool_call_id} stored")

        kind.put, kind.put_writes = stored, written


def main() -> None:
    """Fork a child for each line of the input."""
    say({"ready": True})
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say({"pid": os.getpid()})
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write("\n")  # a child may have been killed within a line
        say({"ended": os.waitstatus_to_exitcode(status)})


def say(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _run(given: dict[str, Any]) -> None:
    code = 0
    try:
        job = Job(given)
        job.watch()
        say({"result": _sync(job) if job.way == "sync" else asyncio.run(_async(job))})
    except BaseException:
        say({"error": traceback.format_exc()})
        code = 1
    os._exit(code)


def _graph(job: Job, saver: Any) -> Any:
    model = ScriptedModel(replies=[job.reply], repeat=True)
    return create_react_graph(model, job.tools(), limits=Limits(steps=STEPS), approve=job.approve, checkpointer=saver)


def _input(job: Job, state: Any) -> Any:
    """What the run goes on with: nothing, an answer, or the question where it was never stored."""
    if job.ask is not None:
        return {"messages": [("user", job.ask)]}
    if job.resume is not None:
        return Command(resume=job.resume)
    return None if state.created_at else {"messages": [("user", QUESTION)]}


def _sync(job: Job) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": job.thread}}
    with checkpoints.open(job.url) as saver:
        graph = _graph(job, saver)
        state = graph.get_state(config)
        if state.created_at and not state.tasks and job.ask is None:  # `next` leaves out what has only to be stored
            return _result(state.values, ())
        say({"started": True})
        result = graph.invoke(_input(job, state), config, durability="sync")
        return _result(result, result.get("__interrupt__", ()))


async def _async(job: Job) -> dict[str, Any]:
    config: Any = {"configurable": {"thread_id": job.thread}}
    async with checkpoints.aopen(job.url) as saver:
        graph = _graph(job, saver)
        state = await graph.aget_state(config)
        if state.created_at and not state.tasks and job.ask is None:  # `next` leaves out what has only to be stored
            return _result(state.values, ())
        say({"started": True})
        result = await graph.ainvoke(_input(job, state), config, durability="sync")
        return _result(result, result.get("__interrupt__", ()))


def _result(values: dict[str, Any], interrupts: Any) -> dict[str, Any]:
    messages = values["messages"]
    return {
        "answer": values.get("answer"),
        "stop": values.get("stop"),
        "spent": values.get("spent"),
        "sound": is_sound(messages),
        "messages": [[m.type, m.text, getattr(m, "tool_call_id", ""), getattr(m, "status", "")] for m in messages],
        "asked": [{"id": one.id, **one.value} for one in interrupts],
    }


if __name__ == "__main__":
    main()
