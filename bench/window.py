"""Prompt tokens sent over a run, with the window kept and with the full history: `python bench/window.py [--write]`.

A scripted model calls a tool with another argument in every step; what it is sent is counted as langchain-core counts
(four characters a token), summaries included. Needs no model and no network.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from parser import machine, write

from taograph import Context, Limits, create_react_graph, tool
from taograph.models import ScriptedModel, call

PACKAGES = ("langchain-core", "langgraph", "taograph")
SUMMARY = "Entries were looked up one after the other; each speaks of a fox. " * 8
STEPS = 100


@dataclass(frozen=True)
class Run:
    """What a run was sent."""

    tokens: int
    largest: int
    summaries: int
    shared: float


def wire(messages: list[BaseMessage]) -> str:
    return "".join(json.dumps([m.type, m.content, getattr(m, "tool_calls", None)]) for m in messages)


def measure(lines: int, window: int | None) -> Run:
    """A run whose observations have so many lines of 45 characters."""

    @tool(effects="none", trusted=True)
    def search(query: str) -> str:
        """Search the archive.

        Args:
            query: What to look for.
        """
        return f"Entry for {query}.\n" + "the quick brown fox jumps over the lazy dog.\n" * lines

    turn = 0

    def reply(messages: list[BaseMessage]) -> AIMessage:
        nonlocal turn
        sent = count_tokens_approximately(messages)
        usage: Any = {"input_tokens": sent, "output_tokens": 20, "total_tokens": sent + 20}
        if "Write the summary now" in str(messages[-1].content):
            return AIMessage(SUMMARY, usage_metadata=usage)
        turn += 1
        if turn > STEPS:
            return AIMessage("Done.", usage_metadata=usage)
        asked = [call("search", {"query": f"item {turn}"})]
        return AIMessage(f"Let me look at item {turn}.", tool_calls=asked, usage_metadata=usage)

    model = ScriptedModel(replies=[reply], repeat=True)
    graph = create_react_graph(model, [search], limits=Limits(steps=None, seconds=None))
    asked = {"messages": [("user", "Which of the items is the odd one out?")]}
    graph.invoke(asked, {"recursion_limit": 10_000}, context=Context(window=window))
    sizes = [count_tokens_approximately(r.messages) for r in model.requests]
    turns = [wire(r.messages) for r in model.requests if "Write the summary now" not in str(r.messages[-1].content)]
    shared = sum(len(os.path.commonprefix([a, b])) for a, b in pairwise(turns))  # noqa: RUF071 - of any strings
    return Run(sum(sizes), max(sizes), len(sizes) - len(turns), shared / sum(map(len, turns[1:])))


def table() -> str:
    rows = [
        "| observation | requests carry | tokens sent | largest request | summaries | shared with the request before |",
        "|---|---|---|---|---|---|",
    ]
    for lines in (5, 60):
        for window in (None, 8192, 32_768):
            done = measure(lines, window)
            name = "the full history" if window is None else f"what fits {window:,} tokens"
            rows.append(
                f"| {lines * 45:,} characters | {name} | {done.tokens:,} | {done.largest:,} "
                f"| {done.summaries} | {done.shared:.1%} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table on the page of benchmarks")
    options = parser.parse_args()
    made = machine({name: version(name) for name in PACKAGES}) + "\n" + table()
    print(made)
    if options.write:
        write("context window", made)


if __name__ == "__main__":
    main()
