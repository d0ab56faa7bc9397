"""The small local models, asked in three ways: function calling, the text protocol, the text protocol with a grammar.

    python bench/local_protocols.py --model qwen2.5-coder-0.5b --protocol text      one run, kept in bench/results
    python bench/local_protocols.py --model smollm2-135m --protocol text+grammar --most 20
    python bench/local_protocols.py --write                                         the table of docs/benchmarks.md

The one-tool questions of ``bench/local_questions.json``, each through the whole loop. A step is one reply of the
model; it is well formed when the loop can read it as an action whose arguments fit the tool, or as an answer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult
from langchain_core.tools import BaseTool
from local_model import QUESTIONS, Outcome, ask, machine

from taograph import Limits, create_react_graph
from taograph.graphs.protocols.native import read_reply
from taograph.models.local import chat_model
from taograph.tools.catalog import default_tools
from taograph.tools.results import read_result_tool
from taograph.tools.running import check_arguments

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results")
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- local models: begin -->", "<!-- local models: end -->"
WAYS = ("native", "text", "text+grammar")
# Not the default: then the server is this run's own, and no one else's prompts push the prefix out of its cache.
CONTEXT = 8448
RIGHT_TOOL = {"calculator": "calculator", "search": "search_documents"}


@dataclass(frozen=True)
class Said:
    """One reply of the model.

    Attributes:
        question: Id of the question.
        seconds: From the request to the whole reply.
        cpu: Seconds that the server worked meanwhile: what the machine does besides is not in it.
        kind: "action", "final", or what was wrong.
        well_formed: Whether the loop can use it.
        cut: Whether something behind the step was dropped, such as an invented observation.
        output_tokens: What it took to write.
        text: The reply, where it is not well formed.
    """

    question: str
    seconds: float
    kind: str
    well_formed: bool
    cpu: float = 0.0
    cut: bool = False
    output_tokens: int = 0
    text: str = ""


@dataclass(eq=False)  # callbacks are told apart by what they are
class Recorder(BaseCallbackHandler):
    """Notes every reply of a model."""

    tools: Mapping[str, BaseTool]
    question: str = ""
    said: list[Said] = field(default_factory=list)
    began: dict[UUID, tuple[float, float]] = field(default_factory=dict)
    worked: Callable[[], float] = lambda: 0.0

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A request begins."""
        self.began[run_id] = time.monotonic(), self.worked()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A reply is there."""
        seconds, cpu = self._since(run_id)
        message: Any = response.generations[0][0].message  # type: ignore[union-attr]
        assert isinstance(message, AIMessage)
        reply = read_reply(message, self.tools)
        fit = not reply.refused and all(self._fits(call) for call in reply.message.tool_calls)
        kind = reply.kind if fit else "bad_arguments"
        well_formed = kind in ("action", "final")
        self.said.append(
            Said(
                self.question,
                seconds,
                str(message.response_metadata.get("error") or kind),
                well_formed,
                cpu,
                cut=bool(message.response_metadata.get("truncated")),
                output_tokens=(message.usage_metadata or {}).get("output_tokens", 0),
                text="" if well_formed else str(message.text),
            )
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """There is no reply."""
        seconds, cpu = self._since(run_id)
        self.said.append(Said(self.question, seconds, type(error).__name__, False, cpu, text=str(error)[:300]))

    def _since(self, run_id: UUID) -> tuple[float, float]:
        began, worked = self.began.pop(run_id)
        return round(time.monotonic() - began, 2), round(self.worked() - worked, 2)

    def _fits(self, call: Any) -> bool:
        tool = self.tools.get(call["name"])
        return tool is not None and check_arguments(tool, call["args"]) is None


def cpu_of(model: Any) -> Callable[[], float]:
    """Tells how many seconds the server of a local model has worked; nothing where the system has no /proc."""
    told = Path(f"/proc/{model._lease.record().pid}/stat")

    def worked() -> float:
        if not told.exists():
            return 0.0
        fields = told.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    return worked


def graph_of(model: Any, way: str, tools: Sequence[BaseTool]) -> Any:
    """The loop with a model that is asked in one of the ways."""
    if way == "text+grammar":
        from taograph.models import TextReAct

        model = TextReAct(model, constrain="grammar")
    protocol = "native" if way == "native" else "text"
    return create_react_graph(model, tools, protocol=protocol, limits=Limits(steps=8, seconds=600.0))


def run(name: str, way: str, entries: Sequence[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """Ask all the questions."""
    tools = [tool for tool in default_tools() if tool.name != "ask_person"]
    model = chat_model(f"local:{name}", temperature=0.0, context=CONTEXT, **settings)
    graph = graph_of(model, way, tools)
    recorder = Recorder({tool.name: tool for tool in [*tools, read_result_tool()]}, worked=cpu_of(model))
    config = {"callbacks": [recorder]}
    about = {**machine(), "model": name, "way": way, "tools": [tool.name for tool in tools], "began": time.time()}
    about["max_tokens"] = model.max_tokens  # type: ignore[attr-defined]
    print(json.dumps(about), flush=True)
    ask(graph, {**entries[0], "question": "Hello!"})  # the prompt is read in once: it counts for no question
    outcomes: list[Outcome] = []
    for entry in entries:
        recorder.question = entry["id"]
        outcome = ask(graph, entry, config)
        outcomes.append(outcome)
        replies = [said for said in recorder.said if said.question == entry["id"]]
        kinds = " ".join(said.kind for said in replies)
        mark = "ok  " if outcome.through_tool else "mem " if outcome.right else "no  "
        print(
            f"{mark} {outcome.id:5} {outcome.seconds:6.1f} s  {outcome.stop:14} [{kinds}] "
            f"{'>'.join(outcome.tools) or '-'}: {outcome.question} -> {' '.join(outcome.answer.split())[:90]}",
            flush=True,
        )
    about["seconds"] = round(time.time() - about["began"], 1)
    about["load_after"] = machine()["load"]
    return {**about, "outcomes": [asdict(one) for one in outcomes], "steps": [asdict(one) for one in recorder.said]}


def figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the table says of a run."""
    outcomes, steps = result["outcomes"], result["steps"]
    held_out = [one for one in outcomes if one["half"] == "held_out"]
    tokens = sum(one["input_tokens"] for one in outcomes)
    return {
        "questions": len(outcomes),
        "well_formed": sum(one["well_formed"] for one in steps),
        "steps": len(steps),
        "cut": sum(one["cut"] for one in steps),
        "right_tool": sum(one["tools"][:1] == [RIGHT_TOOL[one["kind"]]] for one in outcomes),
        "right": sum(one["right"] for one in outcomes),
        "through_tool": sum(one["through_tool"] for one in outcomes),
        "held_out": sum(one["through_tool"] for one in held_out),
        "of_held_out": len(held_out),
        "seconds": statistics.median(one["seconds"] for one in steps),
        "cpu": statistics.median(one.get("cpu", 0.0) for one in steps),
        "steps_each": statistics.median(one["steps"] for one in outcomes),
        "output": statistics.median(one["output_tokens"] for one in steps),
        "cached": sum(one["cached_tokens"] for one in outcomes) / tokens if tokens else 0.0,
    }


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """One row for each model and way."""
    rows = [
        "| model | way | steps well formed | right tool | right answer | right through the tool | of those held out "
        "| median s per step | of them CPU | median tokens per step | steps per question | input from cache |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        found = figures(result)
        total = found["questions"]
        cpu = f"{found['cpu']:.1f}" if found["cpu"] else "not taken"
        rows.append(
            f"| {result['model']} | {result['way']} "
            f"| {100 * found['well_formed'] / found['steps']:.1f} % ({found['well_formed']}/{found['steps']}) "
            f"| {found['right_tool']}/{total} | {found['right']}/{total} | {found['through_tool']}/{total} "
            f"| {found['held_out']}/{found['of_held_out']} | {found['seconds']:.1f} | {cpu} "
            f"| {found['output']:g} | {found['steps_each']:g} | {100 * found['cached']:.0f} % |"
        )
    return "\n".join(rows)


def kept() -> list[dict[str, Any]]:
    """The runs in bench/results, the largest models first, the ways in their order."""
    runs = [json.loads(path.read_text("utf-8")) for path in RESULTS.glob("local_*.json")]
    order = ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "gemma-3-270m", "smollm2-135m")
    return sorted(runs, key=lambda one: (order.index(one["model"]), WAYS.index(one["way"])))


def conditions(results: Sequence[Mapping[str, Any]]) -> str:
    """What the figures were taken with."""
    lines = {
        f"{one['machine']}, Python {one['python']}, {one['threads']} thread{'s' * (one['threads'] != 1)}, "
        f"xllamacpp {one['versions']['xllamacpp']}"
        for one in results
    }
    loads = [one[key][0] for one in results for key in ("load", "load_after")]
    return f"{'; '.join(sorted(lines))}; load average at the beginnings and ends of runs {min(loads)} to {max(loads)}."


def write_page(results: Sequence[Mapping[str, Any]]) -> None:
    """Put the table between its marks in docs/benchmarks.md."""
    page = PAGE.read_text("utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{table(results)}\n\n{conditions(results)}\n\n{END}{tail}", "utf-8")


def main() -> int:
    """Ask and keep, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="NAME", help="as `tao model list` has it")
    parser.add_argument("--protocol", choices=WAYS, default="native")
    parser.add_argument("--half", choices=["all", "tune", "held_out"], default="all")
    parser.add_argument("--most", type=int, metavar="N", help="that many questions only, evenly taken from all")
    parser.add_argument("--out", metavar="FILE", help="where to write the run instead of bench/results")
    parser.add_argument("--write", action="store_true", help="write the kept runs to docs/benchmarks.md")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of a reply; by default the model's own")
    options = parser.parse_args()
    if options.write:
        write_page(kept())
        return 0
    if not options.model:
        parser.error("--model: which? `tao model list` names them")
    entries = [
        one
        for one in json.loads(QUESTIONS.read_text("utf-8"))["questions"]
        if one["kind"] in RIGHT_TOOL and options.half in ("all", one["half"])
    ]
    if options.most and options.most < len(entries):
        entries = [entries[at * len(entries) // options.most] for at in range(options.most)]
    settings = {"max_tokens": options.max_tokens} if options.max_tokens else {}
    result = run(options.model, options.protocol, entries, **settings)
    print(table([result]))
    way = options.protocol.replace("+", "_")
    path = Path(options.out) if options.out else RESULTS / f"local_{options.model}_{way}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
