"""What each strategy asks of the model on the same task: `python bench/strategies.py [--write]`.

The task: k names have to be looked up. A scripted endpoint on loopback plays the model: it calls the tool while there
is something to look up, writes a plan where it is asked for one, and answers otherwise. It says nothing of how good a
model is at any of it; it shows how often each strategy asks, and how much it sends. What is sent is counted in
characters of the requests' bodies, messages and tool schemas, at four characters a token. Needs no model.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from parser import machine, write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fake_openai_server import FakeOpenAI, Reply
from langchain_core.tools import BaseTool

from taograph import Limits, tool
from taograph.graphs import STRATEGIES
from taograph.models import resolve

PACKAGES = ("langgraph", "langchain-core", "taograph")
PAGE = Path(__file__).parents[1] / "docs" / "strategies.md"
STEPS = (2, 5, 10)
QUESTION = "Look up {names}, and say who is the oldest."
LINES = 8
LIMITS = Limits(steps=200, seconds=None)


@dataclass(frozen=True)
class Ran:
    """What a run took."""

    calls: int
    tokens: int
    tools: int
    stop: str
    answer: str


def lookup_tool(wait: Callable[[str], None] = lambda name: None, *, failing: bool = False) -> BaseTool:
    """The tool of the task."""

    @tool(effects="none", trusted=True)
    def lookup(name: str) -> str:
        """Look a person up in the register.

        Args:
            name: The name.
        """
        wait(name)
        if failing:
            raise OSError("the register is closed")
        return (
            f"{name} was born in 19{len(name) * 7 % 100:02d}. " + "Of the rest the register has this to say. " * LINES
        )

    return lookup


def extra_tools(number: int) -> list[BaseTool]:
    """Tools that the task does not need."""
    made = []
    for place in range(number):

        @tool(name=f"convert_unit_{place}", effects="none")
        def convert(value: float, unit: str) -> str:
            """Convert a value from one unit of measurement to the metric one that belongs to it.

            Args:
                value: The value.
                unit: Its unit.
            """
            return f"{value} {unit}"

        made.append(convert)
    return made


class Player:
    """Plays the model of the task.

    Args:
        names: What is to be looked up.
        answers: What it answers, one after the other; the last one again and again.
        plan: Lines of a plan for ``dag``, where it is not one look-up for each name.
    """

    def __init__(self, names: list[str], answers: tuple[str, ...] = ("Ada",), plan: str = "") -> None:
        self.names, self.answers = names, answers
        self.plan = plan or "\n".join(
            [*(f"{n}. lookup(name={name!r})" for n, name in enumerate(names, 1)), f"{len(names) + 1}. join()"]
        )
        self._given = 0
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        tools = {one["function"]["name"]: one["function"] for one in body.get("tools") or ()}
        messages = body["messages"]
        last = text_of(messages[-1])
        if "make_plan" in tools:  # rewoo
            return Reply(calls=[("make_plan", {"steps": [self._planned(n, name) for n, name in self._numbered()]})])
        if "Plan" in tools:  # plan_execute
            steps = [{"id": n, "task": f"Look up {one}.", "needs": []} for n, one in self._numbered()]
            return Reply(calls=[("Plan", {"steps": steps})])
        if "lookup" in tools:
            wanted = [name for name in self.names if re.search(rf"\b{name}\b", task_of(messages))]
            done = sum(m["role"] == "tool" for m in messages)
            if done < len(wanted):
                return Reply("I look the next one up.", calls=[("lookup", {"name": wanted[done]})])
            return Reply(self._answer())
        if tools:  # a decision in a form
            return decided(tools, self._answer())
        if "join()" in last and "Action:" not in last:  # dag's planner
            return Reply(self.plan)
        if "Finish(" in last:  # dag's joiner
            return Reply(f"Thought: I compare the years.\nAction: Finish({self._answer()})")
        return Reply(f"Thought: I compare the years.\nFinal Answer: {self._answer()}")

    def _numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.names, 1))

    def _planned(self, number: int, name: str) -> dict[str, Any]:
        return {
            "plan": f"Find out when {name} was born.",
            "id": f"#E{number}",
            "tool": "lookup",
            "args": {"name": name},
        }

    def _answer(self) -> str:
        with self._lock:
            said = self.answers[min(self._given, len(self.answers) - 1)]
            self._given += 1
        return said


def decided(tools: dict[str, Any], answer: str) -> Reply:
    """A call of a form that is neither a plan nor the tool of the task: the answer in its field for one."""
    name, about = next(iter(tools.items()))
    fields = about["parameters"].get("properties", {})
    given = {"answer": answer} if "answer" in fields else {"route": "tools"} if "route" in fields else {}
    return Reply(calls=[(name, given)])


def text_of(message: dict[str, Any]) -> str:
    """The text of a message on the wire."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def task_of(messages: list[dict[str, Any]]) -> str:
    """What a run of the loop is to do: a step of a plan, else the user's question."""
    asked = [text_of(m) for m in messages if m["role"] == "user"]
    step = next((text for text in reversed(asked) if "Look up" in text), "")
    return step[step.rindex("Look up") :]


def names_of(k: int) -> list[str]:
    """So many names."""
    return [chr(ord("A") + n) + "da" for n in range(k)]


def run(strategy: str, k: int, tools: list[BaseTool], *, player: Player | None = None, **own: Any) -> Ran:
    """Carry the task out."""
    names = names_of(k)
    with FakeOpenAI(default=player or Player(names)) as server:
        graph = STRATEGIES[strategy](resolve(f"{server.url}#fake"), tools, limits=LIMITS, **own)
        result = graph.invoke({"messages": [("user", QUESTION.format(names=", ".join(names)))]})
        sent = sum(len(json.dumps([r["messages"], r.get("tools") or []])) for r in server.requests)
        return Ran(
            len(server.requests), sent // 4, result["spent"]["tool_calls"], result["stop"]["reason"], result["answer"]
        )


def asked() -> str:
    """How often each strategy asks, and what it sends."""
    lines = [
        "| Strategy | " + " | ".join(f"calls, k={k} | tokens, k={k}" for k in STEPS) + " |",
        "|---" + "|--:" * 6 + "|",
    ]
    for name in STRATEGIES:
        ran = [run(name, k, [lookup_tool()]) for k in STEPS]
        ended = {one.stop for one in ran}
        if ended != {"final"}:
            raise SystemExit(f"{name} ended with {ended}")
        lines.append(f"| `{name}` | " + " | ".join(f"{one.calls} | {one.tokens:,}" for one in ran) + " |")
    return "\n".join(lines)


def early_stop() -> str:
    """How many samples a vote takes."""
    cases = {
        "all agree": ("Ada",),
        "every third differs": ("Ada", "Ada", "Bda") * 7,
        "two answers in turn": ("Ada", "Bda") * 11,
        "all differ": tuple(f"X{n}" for n in range(21)),
    }
    lines = ["| Of 21 samples | taken | answer |", "|---|--:|---|"]
    for words, answers in cases.items():
        ran = run("self_consistency", 2, [], player=Player(names_of(2), answers))
        lines.append(f"| {words} | {ran.calls} | {ran.answer} |")
    return "\n".join(lines)


def failing() -> str:
    """What each does where every call of a tool fails."""
    lines = [
        "| Every call fails (k=5) | calls of the model | calls of tools | tokens | stop |",
        "|---|--:|--:|--:|---|",
    ]
    for name in ("react", "plan_execute", "rewoo", "dag", "reflexion"):
        ran = run(name, 5, [lookup_tool(failing=True)])
        lines.append(f"| `{name}` | {ran.calls} | {ran.tools} | {ran.tokens:,} | `{ran.stop}` |")
    return "\n".join(lines)


def extraneous() -> str:
    """What ten tools cost that nobody needs."""
    lines = ["| Tokens sent (k=5) | one tool | with ten more | times |", "|---|--:|--:|--:|"]
    for name in ("react", "plan_execute", "rewoo", "dag"):
        few, many = (run(name, 5, [lookup_tool(), *extra_tools(number)]).tokens for number in (0, 10))
        lines.append(f"| `{name}` | {few:,} | {many:,} | {many / few:.1f} |")
    return "\n".join(lines)


# Ada and Cda are slow. Bda needs Ada; Dda needs Bda and Cda; Eda needs nothing.
SECONDS = {"Ada": 0.4, "Bda": 0.4, "Cda": 0.6, "Dda": 0.2, "Eda": 0.8}
NEEDS = {"Bda": ("Ada",), "Dda": ("Bda", "Cda")}


def latency() -> str:
    """How long slow tools take, where some need others."""
    names = names_of(5)

    def slow(name: str) -> None:
        time.sleep(SECONDS[name[:3]])

    longest: dict[str, float] = {}
    for name in names:
        longest[name] = SECONDS[name] + max((longest[one] for one in NEEDS.get(name, ())), default=0.0)
    plan, evidence = [], []
    for number, name in enumerate(names, 1):
        needed = [names.index(one) + 1 for one in NEEDS.get(name, ())]
        # What is needed stands behind the name, cut off by the tool: the wait is the same whatever came of it.
        plan.append(f"{number}. lookup(name={' '.join([name, *(f'${n}' for n in needed)])!r})")
        text = " ".join([name, *(f"#E{n}" for n in needed)])
        evidence.append({"plan": name, "id": f"#E{number}", "tool": "lookup", "args": {"name": text}})
    player = Player(names, plan="\n".join([*plan, "6. join()"]))
    forms = {"make_plan": Reply(calls=[("make_plan", {"steps": evidence})])}

    def play(body: dict[str, Any]) -> Reply:
        offered = [one["function"]["name"] for one in body.get("tools") or ()]
        return forms[offered[0]] if offered and offered[0] in forms else player(body)

    lines = ["| Five slow calls, some need others | seconds |", "|---|--:|"]
    lines.append(f"| the sum of their waits | {sum(SECONDS.values()):.2f} |")
    lines.append(f"| the longest chain of waits | {max(longest.values()):.2f} |")
    for name in ("react", "rewoo", "dag"):
        with FakeOpenAI(default=play) as server:
            graph = STRATEGIES[name](resolve(f"{server.url}#fake"), [lookup_tool(slow)], limits=LIMITS)
            began = time.perf_counter()
            result = graph.invoke({"messages": [("user", QUESTION.format(names=", ".join(names)))]})
            seconds = time.perf_counter() - began
        if (result["stop"]["reason"], result["spent"]["tool_calls"]) != ("final", 5):
            raise SystemExit(f"{name}: {result['stop']}, {result['spent']}")
        lines.append(f"| `{name}` | {seconds:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and show or write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/strategies.md")
    chosen = parser.parse_args()
    logging.getLogger("taograph").setLevel(logging.ERROR)  # the tools that fail are meant to
    parts = [
        machine({name: version(name) for name in PACKAGES}),
        asked(),
        early_stop(),
        failing(),
        extraneous(),
        latency(),
    ]
    text = "\n\n".join(part.strip() for part in parts)
    print(text)
    if chosen.write:
        write("strategies", text, PAGE)


if __name__ == "__main__":
    main()
