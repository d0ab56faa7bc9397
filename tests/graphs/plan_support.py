"""A scripted model that plans, works on steps and decides, in either protocol, and looking at what it was asked."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from taograph.graphs.parts.plan_prompts import ANSWER, PLAN
from taograph.graphs.plan_execute import create_plan_execute_graph
from taograph.models import ScriptedModel, call

_TASK = re.compile(r"^Your step: (.+)$", re.MULTILINE)
ASKED = "Which of the two is bigger, A or B?"
COMPARED: Sequence[Any] = ("find A", "find B", ("compare", 1, 2))
"""Two steps that do not need each other, and one that needs both."""


def a_plan(*steps: Any, first: int = 1) -> list[dict[str, Any]]:
    """Steps: a task alone, or (task, needs…)."""
    made = [(step,) if isinstance(step, str) else step for step in steps]
    return [{"id": id, "task": step[0], "needs": list(step[1:])} for id, step in enumerate(made, first)]


def kind_of(messages: Sequence[BaseMessage]) -> str:
    """What a request is for: "plan", "choice", "answer", "closing", or the task of a step."""
    last = next(str(m.text) for m in reversed(messages) if isinstance(m, HumanMessage))
    if "The run ends here" in last:
        return "closing"
    for message in messages:
        found = _TASK.search(str(message.text)) if isinstance(message, HumanMessage) else None
        if found:
            return found[1]
    told = "\n".join(str(m.text) for m in messages if isinstance(m, HumanMessage))
    if PLAN[:40] in told and "The plan stands like this" not in told:
        return "plan"
    return "choice" if "The plan stands like this" in last or ANSWER[:40] not in last else "answer"


class Script:
    """Says what a planner, workers and a replanner are to say.

    Args:
        plans: Replies to requests for a plan: lists of steps, or messages as they are.
        choices: Replies of the replanner: an answer, a list of steps, or a message as it is.
        work: Replies of the runs of steps by task, in order; where there is none, "result of …".
        text: Whether it speaks the text protocol.
    """

    def __init__(
        self,
        plans: Sequence[Any] = (COMPARED,),
        choices: Sequence[Any] = ("A is bigger",),
        work: Mapping[str, Sequence[Any]] | None = None,
        *,
        text: bool = False,
    ) -> None:
        self.plans, self.choices, self.text = list(plans), list(choices), text
        self.work = {task: list(replies) for task, replies in (work or {}).items()}
        self._lock = threading.Lock()

    def __call__(self, messages: list[BaseMessage]) -> Any:
        kind = kind_of(messages)
        with self._lock:
            said = self._next(kind)
        return said(messages) if callable(said) else said

    def _next(self, kind: str) -> Any:
        match kind:
            case "plan":
                return self._planned(self.plans.pop(0))
            case "choice":
                said = self.choices.pop(0)
                if callable(said):
                    return said
                return self._answered(said) if isinstance(said, str) else self._planned(said, "AnswerOrPlan")
            case "answer":
                return f"Final Answer: {self.choices.pop(0)}"
            case "closing":
                return "So far: this and that."
        replies = self.work.get(kind)
        if not replies:
            return f"Final Answer: result of {kind}" if self.text else f"result of {kind}"
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def _planned(self, said: Any, form: str = "Plan") -> Any:
        if isinstance(said, AIMessage) or callable(said):
            return said
        steps = said if isinstance(said, list) else a_plan(*said)
        if not self.text:
            return AIMessage("", tool_calls=[call(form, {"steps": steps})])
        lines = [
            f"{s['id']}. {s['task']}" + f" (needs: {', '.join(map(str, s['needs'])) or 'none'})" * ("needs" in s)
            for s in steps
        ]
        return "\n".join(["Plan:", *lines])

    def _answered(self, answer: str) -> Any:
        if self.text:
            return f"Verdict: {answer}"
        return AIMessage("", tool_calls=[call("AnswerOrPlan", {"answer": answer})])

    def model(self, **options: Any) -> ScriptedModel:
        """The model that says it."""
        return ScriptedModel(replies=[self], repeat=True, **{"usage": (10, 5), **options})


def asked_for(model: ScriptedModel) -> list[str]:
    """What each request was for, in order."""
    return [kind_of(request.messages) for request in model.requests]


def planned(script: Script | None = None, tools: Sequence[Any] = (), **options: Any) -> tuple[ScriptedModel, Any]:
    """A model and a graph that asks it."""
    script = script or Script()
    model = script.model()
    if script.text:
        options = {"protocol": "text", **options}
    return model, create_plan_execute_graph(model, tools, **options)


def statuses(result: Mapping[str, Any]) -> dict[int, str]:
    """How each step of the plan stands, by its number."""
    return {step["id"]: step["status"] for step in result["plan"]}


def act(tool: str, args: dict[str, Any], *, text: bool = False, id: str | None = None) -> Any:
    """A reply that calls a tool."""
    if text:
        return f"Thought: it is needed\nAction: {tool}\nAction Input: {json.dumps(args)}"
    return AIMessage("", tool_calls=[call(tool, args, id=id)])


Reply = Callable[[list[BaseMessage]], Any]
