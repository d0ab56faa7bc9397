"""What a streamed reply really said: the arguments of its calls, before they are read leniently.

LangChain reads the arguments of streamed calls as JSON that may be incomplete, and mends it: ``{"to": "Ad``
becomes a call with ``to="Ad"``. A stream that lost its end would be acted on as if the model had meant it,
while the same reply, not streamed, is a broken one.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, Callbacks
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import invalid_tool_call, tool_call


class StreamedCalls(BaseCallbackHandler):
    """Watches one model call and remembers the pieces of tool calls that it streams."""

    run_inline = True  # else each token of an async stream would go through a thread

    def __init__(self) -> None:
        self._pieces: list[AIMessageChunk] = []

    @property
    def ignore_chat_model(self) -> bool:
        """The start of the call does not matter here."""
        return True

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        """Remember a piece; most carry no call."""
        message = getattr(chunk, "message", None)
        if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
            self._pieces.append(AIMessageChunk(content="", tool_call_chunks=message.tool_call_chunks))

    def beside(self, callbacks: Callbacks, other: BaseCallbackHandler | None = None) -> Callbacks:
        """The callbacks of a call with this one, and another; models that it calls in turn are not watched."""
        added = [self] if other is None else [self, other]
        if isinstance(callbacks, BaseCallbackManager):
            manager = callbacks.copy()
            for handler in added:
                manager.add_handler(handler, inherit=False)
            return manager
        return [*(callbacks or []), *added]

    def checked(self, reply: AIMessage) -> AIMessage:
        """The reply, with calls whose arguments are not JSON as ``invalid_tool_calls``."""
        if not self._pieces or not reply.tool_calls:
            return reply
        said = add_ai_message_chunks(self._pieces[0], *self._pieces[1:]).tool_call_chunks
        read = [_arguments(piece["args"]) for piece in said]
        if None not in read or len(said) != len(reply.tool_calls) + len(reply.invalid_tool_calls):
            return reply  # nothing was mended; or the model itself made other calls of what it streamed
        calls, broken = [], []
        for piece, args in zip(said, read, strict=True):
            if args is None:
                error = "the arguments are not a JSON object"
                broken.append(invalid_tool_call(name=piece["name"], args=piece["args"], id=piece["id"], error=error))
            else:
                calls.append(tool_call(name=piece["name"] or "", args=args, id=piece["id"]))
        return reply.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


def _arguments(raw: str | None) -> dict[str, Any] | None:
    try:
        args = json.loads(raw, strict=False) if raw else {}
    except (ValueError, RecursionError):
        return None
    return args if isinstance(args, dict) else None
