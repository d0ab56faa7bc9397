"""Messages of a long run in a shorter form. What is stored is left as it is; only what a request shows changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from taograph.tools.results import ALWAYS_WHOLE, READ_RESULT, result_text, split_frame

HEAD_CHARS = 400
"""Characters that are shown of an old observation."""

# A page that read_result gave is read again by the handle it was read by.
_READ_BY = ("handle", "start")
_WORTH_IT = 1.5


def condensed(
    message: ToolMessage, call: ToolCall | None = None, *, chars: int = HEAD_CHARS, read_on: bool = True
) -> ToolMessage:
    """An observation as its first lines, with its size and how to read on.

    Args:
        message: The observation as it is stored.
        call: The call that it is the result of.
        chars: Characters to show.
        read_on: Whether the model has ``read_result``.

    Returns:
        The message itself where there is little to leave out.
    """
    chars = max(chars, ALWAYS_WHOLE)
    content = message.content
    beside = 0 if isinstance(content, str) else sum(not _is_text(block) for block in content)
    shown = str(message.text)
    if not beside and len(shown) <= chars * _WORTH_IT:
        return message
    framed, _ = split_frame(shown)
    whole = result_text(message)
    head = _first_lines(whole, chars)
    left = len(whole) - len(head)
    notes = [f"{left} of {len(whole)} characters"] if left else []
    notes += [f"{beside} picture{'s' if beside > 1 else ''} or the like"] if beside else []
    note = f"[Condensed: {' and '.join(notes)} left out."
    if left and read_on:
        note += f" Read on with {_reading(message, call, len(head))}."
    return message.model_copy(update={"content": f"{framed}{head}\n{note}]".lstrip("\n")})


def cut_down(message: AnyMessage, chars: int, call: ToolCall | None = None, *, read_on: bool = True) -> AnyMessage:
    """A message of which no part is longer than so many characters; a user's, or the loop's own, is left whole.

    The last resort, for rounds that would not fit a window by themselves. What a model reasoned with a signature
    stays as it is: providers refuse it in parts.
    """
    if isinstance(message, ToolMessage):
        return condensed(message, call, chars=chars, read_on=read_on)
    if isinstance(message, AIMessage):
        return _cut_reply(message, max(chars, ALWAYS_WHOLE))
    return message


def cut_text(text: str, chars: int) -> str:
    """The first characters of a text, with how many were left out, where it is much longer."""
    if len(text) <= chars * _WORTH_IT:
        return text
    return f"{text[:chars]} [… {len(text) - chars} characters left out]"


def _cut_reply(message: AIMessage, chars: int) -> AIMessage:
    said: Any = message.content
    content = cut_text(said, chars) if isinstance(said, str) else [_cut_block(block, chars) for block in said]
    calls = [ToolCall(**{**call, "args": _cut_value(call["args"], chars)}) for call in message.tool_calls]
    if content == message.content and calls == message.tool_calls:
        return message
    # Some integrations send the calls as the provider wrote them, if they find them.
    extra = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    return message.model_copy(update={"content": content, "tool_calls": calls, "additional_kwargs": extra})


def _cut_block(block: Any, chars: int) -> Any:
    if isinstance(block, str):
        return cut_text(block, chars)
    match block.get("type"):
        case "text":
            return {**block, "text": cut_text(str(block.get("text") or ""), chars)}
        case "tool_use" | "tool_call":
            for key in ("input", "args"):
                if key in block:
                    block = {**block, key: _cut_value(block[key], chars)}
    return block


def _cut_value(value: Any, chars: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, chars)
    if isinstance(value, Mapping):
        return {key: _cut_value(one, chars) for key, one in value.items()}
    if isinstance(value, list):
        most = max(1, chars // 8)
        kept: list[Any] = [_cut_value(one, chars) for one in value[:most]]
        return kept if len(value) <= most else [*kept, f"[… {len(value) - most} more left out]"]
    return value


def _reading(message: ToolMessage, call: ToolCall | None, shown: int) -> str:
    handle, start = message.tool_call_id, shown
    if call is not None and message.name == READ_RESULT and isinstance(call["args"].get("handle"), str):
        handle = call["args"]["handle"]
        begun = call["args"].get("start")
        start += begun if isinstance(begun, int) else 0
    return f'{READ_RESULT}(handle="{handle}", start={start})'


def _first_lines(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = text[:chars]
    end = head.rfind("\n")
    return head[:end] if end >= chars // 2 else head


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"
