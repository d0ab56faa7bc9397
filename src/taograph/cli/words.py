"""The sentences that the plain and the terminal view share: limits, budget, why it stopped, what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taograph.cli.text import clean, one_line

# What each stop reason of the loop means to the person who asked.
STOPPED = {
    "final": "final answer",
    "step_limit": "stopped by the step limit",
    "tool_call_limit": "stopped by the limit of tool calls",
    "deadline": "stopped by the time limit",
    "token_limit": "stopped by the token limit",
    "cost_limit": "stopped by the cost limit",
    "repeated_action": "stopped because the same action came again and again",
    "tool_errors": "stopped because tools kept failing",
    "malformed_output": "stopped because the model's replies could not be read",
    "empty_output": "stopped because the model's replies were empty",
    "refusal": "stopped because the model refused",
    "model_error": "stopped because the model could not be reached or failed",
    "rejected": "stopped because an action was rejected",
    "cancelled": "cancelled",
}


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 tool call", "2,340 tokens"."""
    plural = f"{noun}es" if noun.endswith("x") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def seconds(value: float) -> str:
    """A duration in seconds, or in minutes from two minutes on."""
    if value >= 120:
        return f"{int(value) // 60} min {int(value) % 60:02d} s"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def size(number: int) -> str:
    """A number of bytes as people say it."""
    for unit, amount in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= amount:
            return f"{number / amount:.{2 if unit == 'GB' else 1 if number < 10 * amount else 0}f} {unit}"
    return count(number, "byte")


def money(value: float) -> str:
    """US dollars, with as many digits as a cheap call needs."""
    if value == 0:
        return "$0.00"
    return f"${value:.2f}" if value >= 1 else f"${value:.6f}".rstrip("0")


def limits_line(limits: Mapping[str, Any]) -> str:
    """The limits that bound a run: "15 steps, 300 s, $0.50"."""
    said = [
        count(limits["steps"], "step") if limits.get("steps") is not None else "no step limit",
        f"{_rounded(limits['seconds']):g} s" if limits.get("seconds") is not None else "no time limit",
    ]
    if limits.get("tool_calls") is not None:
        said.append(count(limits["tool_calls"], "tool call"))
    if limits.get("tokens") is not None:
        said.append(count(limits["tokens"], "token"))
    if limits.get("cost") is not None:
        said.append(money(limits["cost"]))
    return ", ".join(said)


def _rounded(seconds: float) -> float:
    """Of what a sub-run has left, nobody wants the milliseconds."""
    return round(seconds, 1) if seconds >= 1 else seconds


def budget_line(steps: int, limits: Mapping[str, Any], spent: Mapping[str, Any]) -> str:
    """What is used of what there is: "step 3/15 · 1,234 tokens · 4.2/300 s"."""

    def of(used: str, limit: str | None) -> str:
        return f"{used}/{limit}" if limit else used

    tokens = spent["input_tokens"] + spent["output_tokens"]
    parts = [
        "step " + of(f"{steps}", f"{limits['steps']}" if limits.get("steps") is not None else None),
        of(f"{tokens:,}", f"{limits['tokens']:,}" if limits.get("tokens") is not None else None) + " tokens",
        of(f"{spent['seconds']:.1f}", f"{limits['seconds']:g}" if limits.get("seconds") is not None else None) + " s",
    ]
    if limits.get("tool_calls") is not None:
        parts.insert(1, of(f"{spent['tool_calls']}", f"{limits['tool_calls']}") + " tool calls")
    if spent["cost"] or limits.get("cost") is not None:
        parts.append(of(money(spent["cost"]), money(limits["cost"]) if limits.get("cost") is not None else None))
    return " · ".join(parts)


def stop_line(reason: str, detail: str, step: int) -> str:
    """Why the run ended, in words, with the loop's own detail."""
    said = f"{STOPPED.get(reason, one_line(reason, 40).replace('_', ' '))} at step {step}"
    detail = one_line(detail, 300)
    return f"{said}: {detail}" if detail and reason != "final" else said


def cost_line(spent: Mapping[str, Any], *, priced: bool | None = True) -> str:
    """What the whole run used.

    Args:
        spent: The figures.
        priced: Whether the price of the model is known; where it is not, a cost of 0 means nothing. None where that
            can't be told.
    """
    tokens = spent["input_tokens"] + spent["output_tokens"]
    split = f"{spent['input_tokens']:,} in"
    if spent["cached_tokens"]:
        split += f", {spent['cached_tokens']:,} of them cached"
    paid = {True: money(spent["cost"]), False: "price unknown", None: ""}[priced]
    parts = (
        count(spent["model_calls"], "model call"),
        count(spent["tool_calls"], "tool call"),
        f"{count(tokens, 'token')} ({split}; {spent['output_tokens']:,} out)",
        paid,
        seconds(spent["seconds"]),
    )
    return " · ".join(filter(None, parts))


def call_line(tool: str, args: Mapping[str, Any]) -> str:
    """A tool call as a person reads it: ``calculator(expression="2+2")``."""
    import json

    said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in args.items())
    return clean(f"{tool}({said})")
