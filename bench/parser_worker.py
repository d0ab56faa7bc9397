"""One parser in a process of its own, which the benchmark asks and can end: ``python parser_worker.py NAME``.

Runs in the environment of the parser it is named for; needs nothing else. Reads one JSON object a line and answers
each with one: ``{"shape", "size"}`` with the CPU seconds that a call takes, ``{"text", "tools"}`` with what was read.
Both say ``"timeout"``: a call that uses more CPU seconds ends the process.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import parser_shapes

Read = Callable[[str, "tuple[str, ...]"], "dict[str, Any]"]
"""A text and the names of the tools → kind, and tool and args, or answer; an exception means that it was refused."""

# Enough to see a figure that is not noise, without waiting for slow ones twice.
_REPEATS, _ENOUGH_SECONDS = 5, 0.25


def _taograph(strict: bool) -> tuple[Read, list[str]]:
    from dataclasses import asdict

    from taograph.graphs.protocols import parse_step

    def read(text: str, tools: tuple[str, ...]) -> dict[str, Any]:
        return asdict(parse_step(text, tools=tools, strict=strict))

    return read, ["taograph"]


def _langchain(which: str) -> tuple[Read, list[str]]:
    from langchain_classic.agents import output_parsers
    from langchain_classic.agents.structured_chat.output_parser import StructuredChatOutputParser
    from langchain_core.agents import AgentAction

    parser: Any = {
        "react": output_parsers.ReActSingleInputOutputParser,
        "react-json": output_parsers.ReActJsonSingleInputOutputParser,
        "json": output_parsers.JSONAgentOutputParser,
        "structured-chat": StructuredChatOutputParser,
    }[which]()

    def read(text: str, tools: tuple[str, ...]) -> dict[str, Any]:
        step = parser.parse(text)
        if isinstance(step, AgentAction):
            return {"kind": "action", "tool": step.tool, "args": step.tool_input}
        return {"kind": "final", "answer": step.return_values["output"]}

    return read, ["langchain-classic", "langchain-core"]


def _llama_index() -> tuple[Read, list[str]]:
    from llama_index.core.agent.react.output_parser import ReActOutputParser
    from llama_index.core.agent.react.types import ActionReasoningStep

    parser = ReActOutputParser()

    def read(text: str, tools: tuple[str, ...]) -> dict[str, Any]:
        step: Any = parser.parse(text)
        if isinstance(step, ActionReasoningStep):
            return {"kind": "action", "tool": step.action, "args": step.action_input}
        return {"kind": "final", "answer": step.response}

    return read, ["llama-index-core", "dirtyjson"]


def _crewai() -> tuple[Read, list[str]]:
    from crewai.agents.parser import AgentAction, parse

    def read(text: str, tools: tuple[str, ...]) -> dict[str, Any]:
        step = parse(text)
        if isinstance(step, AgentAction):
            return {"kind": "action", "tool": step.tool, "args": step.tool_input}
        return {"kind": "final", "answer": step.output}

    return read, ["crewai", "json_repair"]


PARSERS: dict[str, Callable[[], tuple[Read, list[str]]]] = {
    "taograph, lenient": lambda: _taograph(strict=False),
    "taograph, strict": lambda: _taograph(strict=True),
    "LangChain ReAct": lambda: _langchain("react"),
    "LangChain ReAct JSON": lambda: _langchain("react-json"),
    "LangChain structured chat": lambda: _langchain("structured-chat"),
    "LangChain JSON": lambda: _langchain("json"),
    "LlamaIndex ReAct": _llama_index,
    "crewAI": _crewai,
}


def _attempt(read: Read, text: str, tools: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        return read(text, tools)
    except Exception as error:  # noqa: BLE001 — what a parser raises is part of what is measured
        return {"kind": "error", "raised": type(error).__name__}


def _limit(seconds: float) -> None:
    """Has the system end this process when it has used so much more CPU time; where there is no such thing, the
    benchmark waits by the clock."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))


def _timed(read: Read, text: str, limit: float) -> dict[str, Any]:
    """The least CPU seconds of a few calls; of one where it is slow."""
    best, total, kind = float("inf"), 0.0, ""
    gc.collect()
    for _ in range(_REPEATS):
        _limit(limit)
        # Of the thread: the clock of a process with a limit only moves with the system's ticks.
        started = time.thread_time()
        kind = _attempt(read, text)["kind"]
        seconds = time.thread_time() - started
        best, total = min(best, seconds), total + seconds
        if total > _ENOUGH_SECONDS:
            break
    return {"seconds": best, "kind": kind}


def main() -> None:
    name = sys.argv[1]
    # Libraries print; the answers go where nothing of that goes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    read, packages = PARSERS[name]()
    _attempt(read, "Thought: warm\nAction: a\nAction Input: {'a': 1,}")
    gc.freeze()  # what the libraries hold is not gone over again and again
    ready = {"versions": {package: version(package) for package in packages}}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "shape" in request:
            shape = parser_shapes.BY_NAME[request["shape"]]
            answer = _timed(read, shape.text(request["size"]), request["timeout"])
        else:
            _limit(request["timeout"])
            answer = _attempt(read, request["text"], tuple(request["tools"]))
        print(json.dumps(answer, default=repr), file=answers, flush=True)


if __name__ == "__main__":
    main()
