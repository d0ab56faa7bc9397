"""One turn with a model in the text protocol: the requests it takes, and the message that comes of it.

An :class:`Exchange` knows nothing of how requests are sent. It gives the next one, is fed the pieces of the reply as
they come, and gives the chunks of a stream for them; whoever wants no stream takes the message at the end. So whole
replies and streams, sync and async, are read by the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

import json_repair  # noqa: F401 - the parser wants it when a reply is broken, and an event loop cannot wait for files
import jsonschema  # noqa: F401 - so do the examples of tools
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolCall, UsageMetadata
from langchain_core.messages.ai import add_usage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.messages.utils import count_tokens_approximately

from taograph.graphs.protocols.fitting import UnfitArgumentsError, fit_arguments
from taograph.graphs.protocols.native import CORRECTED, read_reply
from taograph.graphs.protocols.step import ParsedStep, StepError
from taograph.graphs.protocols.text import THOUGHT, before_observation
from taograph.models.text_dialects import Dialect, Request, loops_own
from taograph.models.text_inner import Piece
from taograph.models.text_offers import Offer
from taograph.models.text_stream import Delta, StepStream

OnMalformed = Literal["retry", "return"]

_QUOTED = 4000


class MalformedStepError(OutputParserException):
    """Raised when a model's replies cannot be read as a step, as often as it was asked.

    Attributes:
        step: The last reply as it was read: its ``error`` is the code, its ``detail`` says what is wrong.
        text: That reply.
        usage_metadata: The tokens that all the replies took, as far as the model reports them.
    """

    def __init__(self, step: ParsedStep, text: str, usage: UsageMetadata | None, times: int) -> None:
        often = f" {times} times" if times > 1 else ""
        super().__init__(f"the model's reply could not be read{often} ({step.error}): {step.detail}", llm_output=text)
        self.step = step
        self.text = text
        self.usage_metadata = usage


@dataclass(slots=True)
class _Reply:
    """A reply while it comes."""

    stream: StepStream
    thought: str = ""
    refusal: str = ""
    usage: UsageMetadata | None = None
    about: dict[str, Any] = field(default_factory=dict)


class _Reasoning:
    """All that was thought on the way to a step: by the model for itself, and as the protocol's thoughts."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._part = ""
        self._before = 0

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    @property
    def but_the_thought(self) -> str:
        """All but the thought of the step at hand."""
        return "".join(self._pieces[: self._before])

    def reply_begins(self) -> None:
        """Another reply begins."""
        self._part, self._before = "", len(self._pieces)

    def add(self, part: Literal["own", "thought"], text: str) -> AIMessageChunk:
        """A piece, as a chunk of the stream; parts are on lines of their own."""
        if part != self._part and self._pieces:
            text = f"\n{text}"
        self._part = part
        self._pieces.append(text)
        if part == "own":
            self._before = len(self._pieces)
        return AIMessageChunk(content="", additional_kwargs={"reasoning_content": text})


class Exchange:
    """One turn with a model.

    Args:
        dialect: The form of the protocol.
        offer: What the model may do.
        messages: The conversation.
        stop: The caller's own stop texts.
        on_malformed: What becomes of a reply that cannot be read.
        retries: How often it is asked for again.

    Attributes:
        request: The request to send now; None when the turn is over.
        message: The message, when the turn is over.
    """

    def __init__(
        self,
        dialect: Dialect,
        offer: Offer,
        messages: Sequence[BaseMessage],
        *,
        stop: Sequence[str] = (),
        on_malformed: OnMalformed = "retry",
        retries: int = 2,
    ) -> None:
        self._dialect, self._offer, self._messages = dialect, offer, list(messages)
        self._stop = tuple(stop)
        # Without tools nobody asked for a step: what cannot be read as one is a reply like any other.
        self._raises = on_malformed == "retry" and bool(offer.tools)
        self._retries_left = retries if self._raises else 0
        self._unread = 0
        self._usage: UsageMetadata | None = None
        self._is_estimated = False
        self._reasoning = _Reasoning()
        self.message: AIMessage | None = None
        self.request: Request | None = None
        self._ask(dialect.ask(self._messages))

    @property
    def stop(self) -> tuple[str, ...]:
        """The stop texts to send with the request, the caller's first: there is room for few."""
        return (*self._stop, *(self.request.stop if self.request else ()))

    @property
    def is_cut(self) -> bool:
        """Whether the rest of the reply is of no use, so that it need not be waited for."""
        return self._reply.stream.cut

    def take(self, piece: Piece) -> Iterator[AIMessageChunk]:
        """Read a piece of the reply; gives what can be shown of it now."""
        reply = self._reply
        reply.about.update(piece.about)
        reply.refusal += piece.refusal
        if piece.usage is not None:
            reply.usage = add_usage(reply.usage, piece.usage)
        if piece.reasoning:
            yield self._reasoning.add("own", piece.reasoning)
        for delta in reply.stream.feed(piece.text):
            yield self._shown(delta)

    def over(self, *, left: bool = False) -> Iterator[AIMessageChunk]:
        """The reply is over; gives what is left to show. Sets ``request``, or ``message``.

        Args:
            left: Whether the model was left before it was done, so that its report of tokens is missing.

        Raises:
            MalformedStepError: The reply cannot be read, and is not to be asked for again.
        """
        reply, stream = self._reply, self._reply.stream
        for delta in stream.end():
            yield self._shown(delta)
        self._count(left)
        refusal = {"refusal": reply.refusal} if reply.refusal else {}
        whole = AIMessage(stream.text, additional_kwargs=refusal, response_metadata=reply.about)
        ending = read_reply(whole, ()).kind
        if ending == "refusal" or stream.is_plain:
            yield from self._conclude(stream.text, reasoning=self._reasoning.text, extra=refusal)
            return
        step, hint = self._judged(cut=ending == "cut")
        shown = reply.thought or stream.shown("thought")
        if step.thought.startswith(shown) and step.thought != shown:
            yield self._reasoning.add("thought", step.thought[len(shown) :])
        if step.kind == "error":
            yield from self._failed(step, hint)
        elif step.kind == "action":
            call = tool_call(name=step.tool or "", args=step.args, id=f"call_{uuid4().hex[:24]}")
            yield from self._conclude(step.thought, step, call=call, reasoning=self._reasoning.but_the_thought)
        else:
            yield from self._conclude(step.answer or "", step, reasoning=self._reasoning.text)

    def _ask(self, request: Request, *, thought: str = "") -> None:
        """Send a request next; ``thought`` was told already where it belongs to the same step."""
        self.request = request
        self._reply = _Reply(self._dialect.stream(self._stop), thought)
        if not thought:
            self._reasoning.reply_begins()

    def _shown(self, delta: Delta) -> AIMessageChunk:
        return (
            self._reasoning.add("thought", delta.text)
            if delta.kind == "thought"
            else AIMessageChunk(content=delta.text)
        )

    def _judged(self, *, cut: bool) -> tuple[ParsedStep, str]:
        """The step that the reply says, or an error with what to tell the model then.

        What does harm if it was not meant is read strictly: calls of tools that have effects.
        """
        step = self._dialect.parse(self._reply.stream, cut=cut)
        tool = self._offer.tools.get(step.tool or "")
        if step.kind == "action" and tool is not None and tool.effects != "none":
            step = self._dialect.parse(self._reply.stream, cut=cut, strict=True)
        fault = _fault(step, self._offer)
        if fault is not None:
            return replace(step, kind="error", error=fault[0], detail=fault[1]), self._dialect.wanted()
        if step.kind == "action":
            try:
                args = fit_arguments(step.args, tool.parameters, tool.name) if tool else _of_no_tool(step.args)
            except UnfitArgumentsError as unfit:
                step = replace(step, kind="error", error="bad_arguments", detail=str(unfit))
            else:
                step = replace(step, args=args)
        return step, self._dialect.hint(step) if step.kind == "error" else ""

    def _failed(self, step: ParsedStep, hint: str) -> Iterator[AIMessageChunk]:
        text = self._reply.stream.text.strip()
        follows = self._dialect.ask_for_action(step)
        if follows is not None:
            self._ask(follows, thought=step.thought)
            return
        kept = before_observation(text)  # nor is what it made up sent again
        if self._retries_left > 0:
            self._retries_left -= 1
            self._unread += 1
            if kept:
                self._messages.append(AIMessage(_head(kept), response_metadata={"error": step.error}))
            self._messages.append(loops_own(hint))
            self._ask(self._dialect.ask(self._messages))
        elif self._raises:
            self.request = None
            raise MalformedStepError(step, text, self._usage, self._unread + 1)
        else:
            step = replace(step, truncated=step.truncated or kept != text)
            yield from self._conclude(kept, step, reasoning=self._reasoning.text, hint=hint)

    def _conclude(
        self,
        content: str,
        step: ParsedStep | None = None,
        *,
        reasoning: str,
        call: ToolCall | None = None,
        hint: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> Iterator[AIMessageChunk]:
        """The turn is over: set the message, and give what of it was not shown."""
        about = {**self._reply.about, **self._remarks(step, hint)}
        more = dict(extra or {})
        self.request = None
        self.message = AIMessage(
            content,
            tool_calls=[call] if call else [],
            additional_kwargs={**({"reasoning_content": reasoning} if reasoning else {}), **more},
            response_metadata=about,
            usage_metadata=self._usage,
        )
        shown = self._reply.stream.shown("answer")
        # An answer that was shown cannot be taken back where the model corrects itself: the correction stands below it.
        rest = content[len(shown) :] if content.startswith(shown) else f"\n\n{content}"
        if not content.startswith(shown):
            about[CORRECTED] = content
        if call is not None:
            args = json.dumps(call["args"], ensure_ascii=False)
            piece = tool_call_chunk(name=call["name"], args=args, id=call["id"], index=0)
            yield AIMessageChunk(content=rest, tool_call_chunks=[piece])
        elif rest:
            yield AIMessageChunk(content=rest)
        yield AIMessageChunk(
            content="",
            additional_kwargs=more,
            response_metadata=about,
            usage_metadata=self._usage,
            chunk_position="last",
        )

    def _remarks(self, step: ParsedStep | None, hint: str) -> dict[str, Any]:
        """What is said of a step in the message's ``response_metadata``."""
        # A reply of no protocol is read like any other model's, such as one that begins with its thinking.
        said: dict[str, Any] = {} if self._reply.stream.is_plain else {"protocol": "text"}
        if self._is_estimated:
            said["usage_estimated"] = True
        if self._unread:
            said["unread_replies"] = self._unread
        if step is None:
            return said
        stream = self._reply.stream
        if step.truncated or (stream.cut and stream.stopped not in self._stop):
            said["truncated"] = True
        if step.repaired:
            said["repaired"] = True
        if step.kind == "error":
            return {**said, "error": step.error, "error_detail": step.detail, "error_hint": hint}
        if step.kind == "final" and step.thought != self._reasoning.text:
            said[THOUGHT] = step.thought
        return {**said, **self._dialect.remarks(step)}

    def _count(self, left: bool) -> None:
        """Add the tokens of a reply, estimated where its report cannot have come."""
        reply = self._reply
        usage = reply.usage
        if left and self.request is not None:
            content = self.request.content
            sent = count_tokens_approximately([HumanMessage(content)] if isinstance(content, str) else list(content))
            received = count_tokens_approximately([AIMessage(reply.stream.text)])
            if usage is not None:
                sent, received = usage["input_tokens"] or sent, max(usage["output_tokens"], received)
            self._is_estimated = True
            usage = UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)
        if usage is not None:
            self._usage = usage if self._usage is None else add_usage(self._usage, usage)


def _fault(step: ParsedStep, offer: Offer) -> tuple[StepError, str] | None:
    """What is wrong with a step that is well formed: that something else was asked for."""
    if step.kind == "final" and offer.must_act:
        wanted = "a call of a tool" if offer.choice == "any" else f"a call of {offer.choice}"
        return "missing_action", f"There was an answer, and this reply has to be {wanted}."
    if step.kind == "action" and (offer.choice == "none" or not offer.tools):
        return "no_action", f"There was a call of {step.tool}, and this reply has to be the answer."
    if step.kind == "action" and offer.must_act and offer.choice not in ("any", step.tool):
        return "missing_action", f"There was a call of {step.tool}, and this reply has to be a call of {offer.choice}."
    return None


def _of_no_tool(args: Any) -> dict[str, Any]:
    """The arguments of a tool that there is not, which no schema can tell the name of."""
    if isinstance(args, dict):
        return {str(key): value for key, value in args.items()}
    return {"input": args} if args not in (None, "") else {}


def _head(text: str) -> str:
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
