"""Native function calling: reading a reply, and putting it in a form that any provider accepts back.

A reply is read once, into a :class:`Reply`; nothing downstream looks at provider fields again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message

from taograph.graphs.protocols.acceptable import with_calls, with_sound_calls
from taograph.graphs.protocols.recover import recover_tool_calls

Kind = Literal["action", "final", "empty", "malformed", "cut", "refusal"]

DROPPED = "what was written after the step was dropped"
"""The repair that is a truncation: an invented observation, or a further step."""

CORRECTED = "corrected"
"""Key in ``response_metadata``: the content of a reply in text that was streamed, where other text had been shown."""

_CUT = ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens")
_REFUSED = ("content_filter", "refusal", "SAFETY", "PROHIBITED_CONTENT")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply of the model is.

    Attributes:
        kind: What the loop has to do with it. "malformed": only calls that cannot be read; "cut": the
            provider's length limit ended it.
        message: The reply as it is stored: every call has a unique id, a name and an object of arguments.
        text: Its text without reasoning: the answer of a final reply, the thought of an acting one.
        refused: Call id → why a call of it is not to be run, in words for the model.
        repairs: What was changed before storing, for the trace.
        hint: Of a step in the text protocol that cannot be read: what was wrong, in words for the model.
        fault: The same in short, for the trace.
    """

    kind: Kind
    message: AIMessage
    text: str
    refused: Mapping[str, str] = field(default_factory=dict)
    repairs: tuple[str, ...] = ()
    hint: str = ""
    fault: str = ""


def read_reply(message: AIMessage, tools: Collection[str], taken: Collection[str] = ()) -> Reply:
    """Read a reply of the model.

    Args:
        message: As the model returned it.
        tools: Names of the tools it was offered; a call written as JSON text is recognized by them.
        taken: Call ids that the history uses already.
    """
    if isinstance(message, AIMessageChunk):
        whole = message_chunk_to_message(message)
        message = whole if isinstance(whole, AIMessage) else message
    text = text_of(message)
    ended = _ending(message)
    refusal = _refusal_of(message)
    if refusal or ended in _REFUSED:
        return Reply("refusal", with_calls(message, []), refusal or text)
    cut = ended in _CUT
    if message.response_metadata.get("protocol") == "text":
        return _read_text(message, text, tools, taken, cut=cut)
    if not message.tool_calls and not message.invalid_tool_calls:
        calls = None if cut or not text else recover_tool_calls(text, tools)
        if not calls:
            kind: Kind = "cut" if cut else "final" if text else "empty"
            return Reply(kind, with_sound_calls(message, tools, taken)[0], text)
        found = AIMessage(
            "",
            tool_calls=calls,
            id=message.id,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
        )
        kept, refused, repairs = with_sound_calls(found, tools, taken)
        return Reply("action", kept, "", refused, ("call recovered from text", *repairs))
    message, refused, repairs = with_sound_calls(message, tools, taken)
    if cut:
        # A stream that ends early can leave arguments that parse but are not the whole of what was meant.
        why = "The reply was cut off at the length limit, so this call was not run. Write a shorter one."
        refused = {call["id"] or "": why for call in message.tool_calls}
    acts = len(refused) < len(message.tool_calls)
    return Reply("action" if acts else "cut" if cut else "malformed", message, text, refused, repairs)


def _read_text(message: AIMessage, text: str, tools: Collection[str], taken: Collection[str], *, cut: bool) -> Reply:
    """A reply of ``TextReAct``, which has read the step already."""
    meta = message.response_metadata
    if corrected := meta.get(CORRECTED):  # it is stored as if nobody had watched it come
        meta = {key: value for key, value in meta.items() if key != CORRECTED}
        message = message.model_copy(update={"content": corrected, "response_metadata": meta})
    thought = message.additional_kwargs.get("reasoning_content")
    if message.tool_calls and isinstance(thought, str) and text and thought.endswith(text):
        # The thought was streamed in a field of its own, and is kept once; a model's own reasoning stays.
        extra = {key: value for key, value in message.additional_kwargs.items() if key != "reasoning_content"}
        own = thought.removesuffix(text).rstrip()
        message = message.model_copy(
            update={"additional_kwargs": {**extra, "reasoning_content": own} if own else extra}
        )
    message, refused, repairs = with_sound_calls(message, tools, taken)
    if meta.get("truncated"):
        repairs = (DROPPED, *repairs)
    if error := meta.get("error"):
        kind: Kind = "empty" if error == "empty" else "cut" if cut else "malformed"
        hint, fault = (str(meta.get(key) or "") for key in ("error_hint", "error_detail"))
        return Reply(kind, message, text, refused, repairs, hint=hint, fault=fault)
    if meta.get("repaired"):
        repairs = ("arguments mended", *repairs)
    if message.tool_calls:
        return Reply(
            "action" if len(refused) < len(message.tool_calls) else "malformed", message, text, refused, repairs
        )
    # What was dropped behind an answer may have gone on to the limit; the answer itself is whole then.
    cut = cut and not meta.get("truncated")
    return Reply("cut" if cut else "final" if text else "empty", message, text, refused, repairs)


def without_protocol(message: AIMessage) -> AIMessage:
    """A reply as it was written, whatever the text protocol made of it: it was asked for in another form."""
    meta = message.response_metadata
    if meta.get("protocol") != "text":
        return message
    ours = ("protocol", "truncated", CORRECTED)
    kept = {key: value for key, value in meta.items() if key not in ours and not key.startswith("error")}
    return message.model_copy(update={"content": meta.get(CORRECTED) or message.content, "response_metadata": kept})


def text_of(message: AIMessage) -> str:
    """The text of a reply without its reasoning."""
    return _thinking_and_text(message)[1].strip()


def reasoning_of(message: AIMessage) -> str:
    """The reasoning a model gave apart from its text: blocks, ``reasoning_content``, or a ``<think>`` part."""
    parts = [*reasoning_fields(message), _thinking_and_text(message)[0]]
    return "\n".join(part.strip() for part in parts if part.strip())


def reasoning_fields(message: AIMessage) -> list[str]:
    """The reasoning that stands in blocks and fields of its own, as it is; of a piece of a stream, too."""
    parts: list[str] = []
    if isinstance(message.content, list):
        parts += [_reasoning_block(block) for block in message.content if isinstance(block, dict)]
    given = message.additional_kwargs.get("reasoning_content")
    if isinstance(given, str):
        parts.append(given)
    item = message.additional_kwargs.get("reasoning")
    if isinstance(item, dict):  # the older form of OpenAI's Responses
        parts.append(_reasoning_block({"type": "reasoning", **item}))
    return [part for part in parts if part]


def thought_of(message: AIMessage) -> str:
    """The thought of a step: its reasoning, and the text that came with its calls."""
    parts = [reasoning_of(message)]
    if message.tool_calls:
        parts.append(text_of(message))
    return "\n".join(part for part in parts if part)


def _ending(message: AIMessage) -> str:
    meta = message.response_metadata
    details = meta.get("incomplete_details")
    for found in (
        details.get("reason") if isinstance(details, Mapping) else None,
        meta.get("finish_reason"),
        meta.get("stop_reason"),
        meta.get("done_reason"),
    ):
        if isinstance(found, str) and found:
            return found
    return ""


def _refusal_of(message: AIMessage) -> str:
    given = message.additional_kwargs.get("refusal")
    if isinstance(given, str) and given:
        return given
    if isinstance(message.content, list):
        for block in message.content:
            if isinstance(block, dict) and block.get("type") == "refusal":
                return str(block.get("refusal") or "The model refused.")
    return ""


def _reasoning_block(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "reasoning":
            parts = [*(block.get("summary") or ()), *(block.get("content") or ())]
            texts = [str(part.get("text") or "") for part in parts if isinstance(part, dict)]
            return "\n".join(text for text in (str(block.get("reasoning") or ""), *texts) if text)
        case "thinking":
            return str(block.get("thinking") or "")
        case "reasoning_content":
            inner = block.get("reasoning_content")
            return str(inner.get("text") or "") if isinstance(inner, dict) else ""
        case _:
            return ""


def _thinking_and_text(message: AIMessage) -> tuple[str, str]:
    """A reply's ``<think>`` parts, and the rest. In a step of the text protocol a tag that is left is just text."""
    meta = message.response_metadata
    if meta.get("protocol") == "text" and not meta.get("error"):
        return "", str(meta.get(CORRECTED) or message.text)
    return _split_think(str(message.text))


def _split_think(text: str) -> tuple[str, str]:
    """Split the ``<think>`` parts at the start of a text from what follows; one left open is all thinking."""
    thoughts: list[str] = []
    opening = text.find("<think>")
    closing = text.find("</think>")
    if closing >= 0 and not 0 <= opening < closing:  # some templates open it in the prompt
        thoughts.append(text[:closing])
        text = text[closing + len("</think>") :]
    while (start := text.lstrip()).startswith("<think>"):
        inside, _, text = start[len("<think>") :].partition("</think>")
        thoughts.append(inside)
    return "\n".join(thoughts), text
