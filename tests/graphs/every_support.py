"""A model that looks at what it is asked, and so can play its part in any strategy, in either protocol."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, PrivateAttr
from support import CLOSING, asks

from taograph.graphs import STRATEGIES
from taograph.models import ScriptedModel, call

NAMES = ("Ada", "Bo")
ASKED = "Look up Ada and Bo."
ANSWER = "Both are in the book."
SO_FAR = "So far: not much."
TOOLLESS = ("direct", "self_consistency")
"""Strategies that call no tool."""
WITH_TOOLS = [name for name in STRATEGIES if name not in TOOLLESS]


class Page(BaseModel):
    """Where somebody is."""

    page: int


class Actor(ScriptedModel):
    """Plays the model of a task: two names are to be looked up.

    Attributes:
        before: Called with the number of each request, from 1, before it is answered.
        says: Replies in place of its own, by what a request is for: "plan", "act", "answer", "decide", "closing";
            under "" whatever it is for.
    """

    before: Any = None
    says: dict[str, Any] = {}  # noqa: RUF012 - a field
    usage: tuple[int, int] | None = (10, 5)
    model_name: str = "actor"
    _lock: Any = PrivateAttr(default_factory=threading.RLock)
    _begun: int = PrivateAttr(default=0)

    def _reply(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        tools = [one["function"]["name"] for one in options.get("tools") or ()]
        with self._lock:
            self._begun += 1
            number = self._begun
        if self.before is not None:  # not within the lock: others may come meanwhile
            self.before(number)
        with self._lock:
            self.replies, self.repeat = [lambda _: self._said(messages, tools)], True
            return super()._reply(messages, options)

    def _said(self, messages: list[BaseMessage], tools: list[str]) -> Any:
        kind, reply = self._own(messages, tools)
        said = self.says.get(kind, self.says.get("", reply))
        return said(messages) if callable(said) else said

    def _own(self, messages: list[BaseMessage], tools: list[str]) -> tuple[str, Any]:
        told = "\n".join(str(m.text) for m in messages)
        last = next(str(m.text) for m in reversed(messages) if isinstance(m, HumanMessage))
        final = f"Thought: I have it.\nFinal Answer: {ANSWER}"
        if CLOSING in last and not tools:
            return "closing", SO_FAR
        for form, give in FORMS.items():
            if form in tools:
                return ("plan" if "lan" in form else "decide"), AIMessage("", tool_calls=[call(form, give(last))])
        if "join(), which looks" in last:
            lines = [f"{n}. lookup({name!r})" for n, name in enumerate(NAMES, 1)]
            return "plan", "\n".join([*lines, "3. join()"])
        if "Finish(" in last:
            return "answer", f"Because it says so.\nFinish({ANSWER})"
        if "Write each step as two lines" in last:
            return "plan", "\n".join(f"Plan: find {name}\n#E{n} = lookup[{name}]" for n, name in enumerate(NAMES, 1))
        if "Reply in one of these two forms" in last:
            return "plan", f"Verdict: {ANSWER}"
        if "Write the plan as a numbered list" in last:
            return "plan", "\n".join(f"{n}. find {name} (needs: none)" for n, name in enumerate(NAMES, 1))
        if "Reply with one word, direct or tools" in last:
            return "decide", "tools"
        return self._looped(messages, tools, told, final)

    def _looped(self, messages: list[BaseMessage], tools: list[str], told: str, final: str) -> tuple[str, Any]:
        step = re.search(r"Your step: find (\w+)", told)
        names = [step[1]] if step else NAMES
        if "lookup" in tools:
            begun = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
            done = sum(m.type == "tool" for m in messages[begun:])
            return ("act", asks(names[done], text="I look.")) if done < len(names) else ("answer", ANSWER)
        if "Action Input:" in str(messages[0].text) and "lookup" in str(messages[0].text):
            done = told.count("Observation:") - str(messages[0].text).count("Observation:")
            if done < len(names):
                name = names[done]
                return "act", f'Thought: I look.\nAction: lookup\nAction Input: {{"name": "{name}"}}'
        return "answer", final


def _steps(last: str) -> dict[str, Any]:
    return {"steps": [{"id": n, "task": f"find {name}", "needs": []} for n, name in enumerate(NAMES, 1)]}


FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "make_plan": lambda last: {
        "steps": [
            {"plan": f"find {name}", "id": f"#E{n}", "tool": "lookup", "args": {"name": name}}
            for n, name in enumerate(NAMES, 1)
        ]
    },
    "Plan": _steps,
    "AnswerOrPlan": lambda last: {"answer": ANSWER},
    "route": lambda last: {"route": "tools"},
    "Page": lambda last: {"page": 3},
}


def made(name: str, model: Any, tools: Sequence[Any] | None = (), **options: Any) -> Any:
    """A graph of a strategy; the samples of those that draw some are 3."""
    own: dict[str, Any] = {"samples": 3} if name in ("self_consistency", "hybrid") else {}
    return STRATEGIES[name](model, list(tools or ()), **own, **options)
