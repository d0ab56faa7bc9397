"""What is recorded of replies, failures and results, as a graph is given it again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from taograph.graphs.loop.approving import without_note
from taograph.tools.outcome import ToolRun
from taograph.tools.results import keep_whole

# What the loop says of calls that do not reach their tools.
_NOT_RUN = re.compile(
    r"There is no tool named |The arguments of \S+ are not valid, so it was not run"
    r"|\S+ cannot be used here\. Try another tool|\S+ was not run: the run"
)
_LEFT_OUT = re.compile(r"\n\[… (\d+) of (\d+) characters left out\. Read on with [^\n]*\]\n")


class RecordedFailure(Exception):  # noqa: N818 - never seen under this name: each has the recorded one
    """A failure of a model or a tool, as it was recorded."""


def with_usage(message: AIMessage, told: Mapping[str, Any]) -> AIMessage:
    """A reply with the tokens that were reported with it; without where none were."""
    sent, received = int(told.get("input_tokens") or 0), int(told.get("output_tokens") or 0)
    if not sent and not received:
        return message
    usage: Any = {"input_tokens": sent, "output_tokens": received, "total_tokens": sent + received}
    if told.get("cached_tokens"):
        usage["input_token_details"] = {"cache_read": int(told["cached_tokens"])}
    return message.model_copy(update={"usage_metadata": usage})


def failure_of(told: Mapping[str, Any]) -> Exception:
    """A failure that means to the loop what the recorded one did, without a pause before it is tried again."""
    kinds = told.get("kinds") or ()
    bases: dict[str, type[Exception]] = {
        "malformed": OutputParserException,
        "overflow": ContextOverflowError,
        "refuses_tools": NotImplementedError,
        "refusal": ModelRefusalError,
        "retryable": ConnectionError,
    }
    base = next((bases[kind] for kind in bases if kind in kinds), RecordedFailure)
    made: Exception = type(str(told["error"]), (base,), {})(str(told["text"]))
    extra: dict[str, Any] = {"response": SimpleNamespace(headers={"retry-after": "0"})}
    if told.get("code") is not None and "retryable" not in kinds:
        extra["status_code"] = told["code"]
    if "temperature" in kinds:
        extra["param"] = "temperature"
    for name, value in extra.items():
        setattr(made, name, value)
    return made


def run_of(call: ToolCall, told: Mapping[str, Any]) -> ToolRun:
    """What came of a tool call, from what the model was shown of it."""
    text = without_note(str(told["text"]))
    message = ToolMessage(text, tool_call_id=call["id"] or "", name=call["name"], status=told["status"])
    size, handle = int(told.get("size") or len(text)), told.get("handle")
    if handle:
        message = keep_whole(message, whole_of(text, str(handle)))
    return ToolRun(message, ran=_NOT_RUN.match(text) is None, size=size, handle=handle)


def whole_of(text: str, handle: str) -> str:
    """A text of the length of the one that was shown in part, with its head and its tail; the rest is not recorded."""
    found = _LEFT_OUT.search(text)
    if found is None:
        return text.replace(handle, "")
    head, tail = text[: found.start()], text[found.end() :]
    return f"{head}{'…' * max(0, int(found[2]) - len(head) - len(tail))}{tail}"
