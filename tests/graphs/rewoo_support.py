"""What the tests of ReWOO's graph share."""

from __future__ import annotations

from typing import Any

from dag_support import fail, multiply, search
from langchain_core.messages import AIMessage, ToolMessage

from taograph.graphs.rewoo import create_rewoo_graph
from taograph.models import ScriptedModel


def plan(*steps: str) -> str:
    """A plan in the paper's form."""
    return "\n".join(f"Plan: step {number}\n{step}" for number, step in enumerate(steps, 1))


def asked_for(*steps: str, answer: Any = "Fine.", **options: Any) -> tuple[ScriptedModel, Any]:
    model = ScriptedModel(replies=[plan(*steps), answer], usage=(100, 10))
    return model, create_rewoo_graph(model, [search, multiply, fail], **options)


def evidence(result: dict[str, Any]) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in result["messages"] if isinstance(m, ToolMessage)}


def args(result: dict[str, Any]) -> dict[str, Any]:
    return {c["id"]: c["args"] for m in result["messages"] if isinstance(m, AIMessage) for c in m.tool_calls}


def solved_with(model: ScriptedModel) -> str:
    return str(model.requests[-1].messages[-1].content)
