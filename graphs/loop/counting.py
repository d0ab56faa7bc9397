"""How many tokens a request has, counted without a tokenizer; the provider's own count sets it right.

Each tokenizer counts differently, and most are not at hand. So the count is an estimate from what a text is made of
(a token is four letters or a word, but hardly more than one digit), and what the provider reported of the last request
scales it (``fitting.py``). On fourteen texts, from prose and code to tables, logs and hexadecimal, in five languages,
Qwen's and Gemma's tokenizers made between 0.6 and 1.7 tokens of one counted here; of four characters, the usual
estimate, between 0.8 and 4.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from taograph.graphs.loop.speaking import speaks_text

_DIGITS = string.digits.encode()
_SIGNS = string.punctuation.encode()
_SPACES = string.whitespace.encode()
_HIGH = bytes(range(128, 256))
_PER_MESSAGE = 4
_PER_CALL = 8
# What providers charge for a picture or a page; they differ by a factor of ten.
_PER_IMAGE = 1000
_TEXTS = ("text", "thinking", "reasoning", "refusal")
_CALLS = ("tool_use", "tool_call", "function_call", "input_json_delta")


def text_tokens(text: str) -> float:
    """Tokens of a text; quick enough for megabytes."""
    raw = text.encode("utf-8", "surrogatepass")
    digits, signs, spaces, high = (
        len(raw) - len(raw.translate(None, kind)) for kind in (_DIGITS, _SIGNS, _SPACES, _HIGH)
    )
    letters = len(raw) - digits - signs - spaces - high
    words = raw.count(b" ") - 2 * raw.count(b"  ")  # what indents code is no word
    return max(letters / 4, min(words, letters)) + digits * 1.1 + signs * 0.7 + high * 0.2


def message_tokens(message: BaseMessage) -> float:
    """Tokens of a message: its text, its calls, its pictures, and what tells it from the next."""
    content = message.content
    blocks: Sequence[Any] = [content] if isinstance(content, str) else content
    found = _PER_MESSAGE + sum(map(_block_tokens, blocks))
    if isinstance(message, AIMessage):
        found += sum(_PER_CALL + text_tokens(call["name"]) + _json_tokens(call["args"]) for call in message.tool_calls)
    return found


def tool_tokens(tools: Sequence[Any]) -> float:
    """Tokens of the schemas of tools, as they are bound to a model."""
    return sum(_PER_CALL + _json_tokens(tool) for tool in tools)


def fixed_tokens(model: Any, system: str | None, examples: Sequence[BaseMessage]) -> float:
    """Tokens of what stands before every conversation: instructions, worked examples, tools.

    Args:
        model: The model as it is called, with what is bound to it.
        system: The system prompt.
        examples: The worked examples.
    """
    options = getattr(model, "kwargs", None) or {}
    behind = getattr(model, "bound", model)
    head: list[BaseMessage] = [*([SystemMessage(system)] if system else []), *examples]
    if speaks_text(behind):  # the tools are written into its instructions
        written = behind.written([*head, HumanMessage("?")], **options)
        return text_tokens(written) if isinstance(written, str) else sum(map(message_tokens, written))
    return sum(map(message_tokens, head)) + tool_tokens(options.get("tools") or ())


def _block_tokens(block: Any) -> float:
    if isinstance(block, str):
        return text_tokens(block)
    if not isinstance(block, Mapping):
        return text_tokens(repr(block))
    kind = block.get("type")
    if kind in _CALLS:  # they are counted as the message's calls
        return 0.0
    if kind in _TEXTS:
        said = block.get(kind)
        if isinstance(said, str):
            return text_tokens(said)
    if "image" in str(kind) or any(isinstance(block.get(key), str) for key in ("data", "base64", "file_id")):
        return _PER_IMAGE
    return _json_tokens(block)


def _json_tokens(value: Any) -> float:
    try:
        return text_tokens(json.dumps(value, ensure_ascii=False, default=str))
    except (RecursionError, ValueError):  # arguments nested without end; they are refused later
        return math.ceil(len(repr(value)) / 3)
