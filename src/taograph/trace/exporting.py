"""Traces for other programs and for other readers: JSON lines, a report in Markdown, spans.

To add a format, write a function from runs and a store to lines here, and name it in :data:`FORMATS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from taograph.trace.chain import VERSION, Entry
from taograph.trace.otel_export import otlp
from taograph.trace.reading import Run, Summary, entries, summarize, text_of
from taograph.trace.showing import Line, lines
from taograph.trace.stores import Store

Format = Callable[[Store, Run], Iterator[str]]


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of an event as it is exported."""
    found: dict[str, Any] = json.loads(files("taograph.trace").joinpath("schema.json").read_text("utf-8"))
    return found


def event_dict(entry: Entry) -> dict[str, Any]:
    """An event as it is exported: all that it takes to verify it."""
    return {
        "v": VERSION,
        "trace": entry.trace,
        "seq": entry.seq,
        "type": entry.type,
        "time": entry.time,
        "content": entry.content,
        "salt": entry.salt,
        "content_hash": entry.content_hash,
        "prev": entry.prev,
        "hash": entry.hash,
        "signature": entry.signature,
    }


def jsonl(store: Store, run: Run) -> Iterator[str]:
    """A run as JSON lines, an event each; ASCII, so that no encoding stands in the way.

    Args:
        store: Where it is kept.
        run: The run.
    """
    for entry in entries(store, run):
        yield json.dumps(event_dict(entry)) + "\n"


def markdown(store: Store, run: Run) -> Iterator[str]:
    """A run as a report in Markdown: what is known of it, its trajectory, its hashes.

    Args:
        store: Where it is kept.
        run: The run.
    """
    events = [*entries(store, run)]
    summary = summarize(events)
    yield f"# Run {run.id}\n\n"
    yield from _facts(run, summary, events)
    yield "\n## Trajectory\n\n"
    for line in lines(events):
        yield _item(line)
    yield "\n## Record\n\n"
    yield "| Trace | Began | Events | Hash of the last one | Signed | To be deleted on |\n|---|---|---|---|---|---|\n"
    signed = {event.trace: event.signature is not None for event in events}
    for kept in run.traces:
        told = (kept.trace, kept.started, f"{kept.count}", f"`{kept.head}`")
        yield _row(*told, "yes" if signed.get(kept.trace) else "no", kept.delete_on or "never")
    if summary.lost:
        yield f"\n{summary.lost} events could not be written; the trajectory says where.\n"
    yield "\n"


FORMATS: Mapping[str, Format] = {"jsonl": jsonl, "markdown": markdown, "otel": otlp}
"""Name → what makes the lines of a run."""


def _facts(run: Run, summary: Summary, events: list[Entry]) -> Iterator[str]:
    start = next((event.content for event in events if event.type == "run_started" and event.content), {})
    limits, versions = _mapping(start.get("limits")), _mapping(start.get("version"))
    spent = summary.spent
    told = {
        "Graph": run.graph,
        "Question": summary.question,
        "Outcome": ": ".join(filter(None, (summary.state, summary.reason.replace("_", " "), summary.detail))),
        "Began": run.started,
        "Thread": run.thread or "",
        "User": run.user or "",
        "Model": ", ".join(summary.models),
        "Tools": text_of(start.get("tools")).replace("\n", ", "),
        "Limits": ", ".join(f"{name} {value}" for name, value in limits.items() if value is not None),
        "Steps": f"{summary.steps}",
        "Calls": f"{spent['model_calls']} of models, {spent['tool_calls']} of tools",
        "Tokens": f"{spent['input_tokens']:,} in, {spent['cached_tokens']:,} of them cached; "
        f"{spent['output_tokens']:,} out",
        "Cost": f"${spent['cost']:.6f}" if spent["cost"] else "not known, or nothing",
        "Seconds": f"{spent['seconds']:.1f}",
        "Versions": ", ".join(f"{name} {value}" for name, value in versions.items()),
    }
    yield "| | |\n|---|---|\n"
    for name, value in told.items():
        if value:
            yield _row(name, value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _row(*cells: str) -> str:
    return "| " + " | ".join(_plain(" ".join(cell.split())).replace("|", "\\|") for cell in cells) + " |\n"


def _item(line: Line) -> str:
    """A line as a list item, with its text as a block that nothing in it can break out of."""
    indent = "  " * line.depth
    text = line.text.strip("\n")
    if "\n" not in text and len(text) <= 200:
        return f"{indent}- **{_plain(line.label)}**: {_plain(text)}\n".replace(": \n", "\n")
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = "\n".join(f"{indent}  {each}" for each in (f"{fence}text", *text.split("\n"), fence))
    return f"{indent}- **{_plain(line.label)}**:\n\n{body}\n\n"


# What Markdown or HTML would make something of; a dot behind a number and the like are no harm within a line.
_MARKS = re.compile(r"([\\`*_\[\]<>#~&])")


def _plain(text: str) -> str:
    """A text that Markdown shows as it is; a hash in code stays one."""
    if re.fullmatch(r"`[0-9a-f]*`", text):
        return text
    return _MARKS.sub(r"\\\1", text)
