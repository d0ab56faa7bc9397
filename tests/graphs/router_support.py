"""A scripted model for the router: it classifies, answers at once, works in the loop, plans and reflects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from plan_support import Script
from reflexion_support import REFLECTING, last_text
from support import CLOSING, asks

from taograph.graphs.parts.chain_of_thought import THINK
from taograph.graphs.parts.plan_prompts import PLAN
from taograph.models import ScriptedModel, call

CLASSIFYING, CONFIDENCE = "Decide how the question below", '"Confidence: high"'


def direct(answer: str, confidence: str = "high") -> str:
    """A reply of ``direct``; without a line of confidence where that is empty."""
    line = f"\nConfidence: {confidence}" if confidence else ""
    return f"Thought: Let me see.\nFinal Answer: {answer}{line}"


PARIS = direct("Paris")
UNSURE = direct("I don't know: it needs a source.", "low")


def kind(messages: Sequence[BaseMessage]) -> str:
    """What a request is for."""
    told, last = "\n".join(str(m.text) for m in messages), last_text(list(messages))
    if CLASSIFYING in told:
        return "classify"
    if CLOSING in last:
        return "close"
    if any(words in told for words in (PLAN[:40], "The plan stands like this", "Your step: ")):
        return "plan"
    for name, words in (("reflect", REFLECTING), ("direct", THINK[:40])):
        if words in told:
            return name
    return "form" if "required form" in last else "react"


def routed(
    *,
    route: str = "direct",
    at_once: Any = PARIS,
    loop: Any = "found",
    trials: Any = "tried",
    plan: Script | None = None,
    **options: Any,
) -> ScriptedModel:
    """A model that is asked by a router.

    Args:
        route: How it classifies: "direct" or "tools".
        at_once: What it says without tools.
        loop: What it says in the loop when it has looked something up; a reply that is no text is given at once.
        trials: Likewise, where it is told of earlier trials.
        plan: What it plans.
    """

    def reply(messages: list[BaseMessage]) -> Any:
        match kind(messages):
            case "classify":
                said: Any = AIMessage("", tool_calls=[call("route", {"route": route, "why": "so it seems"})])
            case "reflect":
                return "Do better."
            case "close":
                return "So far: …"
            case "direct":
                said = at_once
            case "form":
                said = AIMessage("", tool_calls=[call("Place", {"page": 3})])
            case "plan":
                assert plan is not None
                return plan(messages)
            case _:
                said = trials if any("You have tried this before" in str(m.text) for m in messages) else loop
                if isinstance(said, str) and messages[-1].type != "tool":
                    return asks("Ada")
        return said(messages) if callable(said) else said

    return ScriptedModel(replies=[reply], repeat=True, **{"usage": (10, 5), **options})


def kinds_of(model: ScriptedModel) -> list[str]:
    """What each request was for, in order."""
    return [kind(request.messages) for request in model.requests]


LOOP = ("direct", "react")
HARD = "Who built the bridge?"
STUCK = asks("same")


def path(result: dict[str, Any]) -> list[str]:
    """The strategies that were tried."""
    return [hop["strategy"] for hop in result["hops"]]
