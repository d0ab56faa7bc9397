"""The two forms of the text protocol as one interface: how a request is written, how a reply is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from taograph.graphs.protocols.acceptable import without_thoughts
from taograph.graphs.protocols.examples import EXAMPLE_ID
from taograph.graphs.protocols.paper import (
    QUESTIONS,
    WRITTEN,
    PaperDialect,
    PaperStep,
    as_text_argument,
    as_written,
    parse_paper_action,
    parse_paper_step,
    resolve,
)
from taograph.graphs.protocols.paper_text import (
    PaperPrompt,
    paper_choice,
    paper_hint,
    paper_instruction,
    render_paper,
)
from taograph.graphs.protocols.parser import parse_step
from taograph.graphs.protocols.step import ParsedStep
from taograph.graphs.protocols.step_schema import flattened
from taograph.graphs.protocols.text import (
    LOOPS_OWN,
    chat_messages,
    completion_stops,
    completion_text,
    plain_completion_text,
)
from taograph.graphs.protocols.text_labels import labels
from taograph.graphs.protocols.text_prompts import choice_text, retry_hint, stop_texts, system_text, with_thoughts
from taograph.models.text_offers import Offer
from taograph.models.text_stream import StepStream

DialectName = Literal["labels", "paper"]


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to a model.

    Attributes:
        content: Messages for a chat model, a text for a completion model.
        stop: Texts at which the reply is to end.
    """

    content: Sequence[BaseMessage] | str
    stop: tuple[str, ...] = ()


class Dialect(Protocol):
    """A form of the text protocol, in use for one turn of a model."""

    def ask(self, messages: Sequence[BaseMessage]) -> Request:
        """The request for the next step."""

    def ask_for_action(self, step: ParsedStep) -> Request | None:
        """A further request that belongs to the form itself, where a thought came without its action."""

    def stream(self, stop: Sequence[str]) -> StepStream:
        """Reads the reply to the last request, which has to end at some texts."""

    def parse(self, stream: StepStream, *, cut: bool, strict: bool = False) -> ParsedStep:
        """The step that the reply says; ``cut`` where a length limit ended it."""

    def wanted(self) -> str:
        """What the request says about what the reply has to be; empty where the model decides."""

    def hint(self, step: ParsedStep) -> str:
        """What to tell the model whose reply, an error, could not be read."""

    def remarks(self, step: ParsedStep) -> dict[str, Any]:
        """What is to be kept of a step for later requests, in the message's ``response_metadata``."""


def dialect_of(
    form: DialectName | PaperDialect,
    offer: Offer,
    *,
    completion: bool,
    language: str,
    template: str | None,
    strict_original: bool,
    thoughts: bool = True,
) -> Dialect:
    """The form of the protocol for one turn.

    Args:
        form: Which.
        offer: What the model may do.
        completion: Whether the model continues texts.
        language: Of labels and instructions.
        template: Instructions in place of our own.
        strict_original: Of the paper's form: the published code to the letter.
        thoughts: Whether a reply begins with a thought.
    """
    if form == "labels":
        return LabelDialect(offer, completion=completion, language=language, template=template, thoughts=thoughts)
    paper = QUESTIONS if isinstance(form, str) else form
    if not thoughts:
        paper = replace(paper, thoughts=False)
    return PaperForm(offer, paper, completion=completion, template=template, strict_original=strict_original)


class LabelDialect:
    """``Thought: / Action: / Action Input: / Observation: / Final Answer:``."""

    def __init__(
        self, offer: Offer, *, completion: bool, language: str, template: str | None, thoughts: bool = True
    ) -> None:
        self._offer = offer
        self._completion = completion
        self._language = language
        self._template = template
        self._thoughts = thoughts
        self._plain = False

    def ask(self, messages: Sequence[BaseMessage]) -> Request:
        """As :class:`Dialect`. Without tools, and none in the conversation, nothing is said of the protocol."""
        tools = self._offer.tools
        self._plain = not tools and not any(_acts(message) for message in messages)
        if self._plain:
            return Request(plain_completion_text(messages) if self._completion else list(messages))
        system = "" if not tools else self._system(messages)
        if self._offer.answer_schema is not None:
            system += "\n\n" + _answer_form(self._offer.answer_schema, self._language)
        if self._thoughts:
            told = with_thoughts(messages, language=self._language)
        else:
            told = [without_thoughts(message) if isinstance(message, AIMessage) else message for message in messages]
        if self.wanted():
            # At the end: the prefix stays what it was for the other requests of a run.
            told.append(loops_own(self.wanted()))
        stop = stop_texts(self._language)
        if self._completion:
            text = completion_text(told, system, language=self._language, thoughts=self._thoughts)
            return Request(text, (*stop, *completion_stops(self._language)))
        return Request(chat_messages(told, system, language=self._language), stop)

    def _system(self, messages: Sequence[BaseMessage]) -> str:
        """The instructions; worked examples that stand in the conversation as turns are not told twice."""
        shown = any(isinstance(m, ToolMessage) and m.tool_call_id.startswith(EXAMPLE_ID) for m in messages)
        offered = list(self._offer.tools.values())
        return system_text(
            offered, language=self._language, template=self._template, examples=not shown, thoughts=self._thoughts
        )

    def ask_for_action(self, step: ParsedStep) -> Request | None:
        """As :class:`Dialect`: never."""
        return None

    def stream(self, stop: Sequence[str]) -> StepStream:
        """As :class:`Dialect`."""
        # The observation is found by its label, which may well stand in an argument.
        own = () if self._plain else (*stop_texts(self._language)[1:], *completion_stops(self._language))
        return StepStream(
            primed=self._completion and self._thoughts and not self._plain,
            plain=self._plain,
            answers=not self._offer.must_act,
            stops=(*own, *stop),
        )

    def parse(self, stream: StepStream, *, cut: bool, strict: bool = False) -> ParsedStep:
        """As :class:`Dialect`. Of an action that was cut off nothing is guessed."""
        text = flattened(stream.text, self._offer.tools)
        if self._completion and self._thoughts and not self._plain and not stream.is_labelled:
            label = labels(self._language)
            text = f"{label.thought}{label.colon}{text}"
        step = parse_step(text, tools=self._offer.tools, strict=strict)
        if not cut or step.kind != "action":
            return step
        step = parse_step(text, tools=self._offer.tools, strict=True)
        if step.kind == "action" and isinstance(step.args, str):
            detail = "The reply was cut off at the length limit, within the Action Input. Write a shorter one."
            step = replace(step, kind="error", error="incomplete", detail=detail)
        return step

    def wanted(self) -> str:
        """As :class:`Dialect`."""
        tools = list(self._offer.tools)
        return choice_text(self._offer.choice, tools, language=self._language) if tools else ""

    def hint(self, step: ParsedStep) -> str:
        """As :class:`Dialect`."""
        return retry_hint(step, self._language, thoughts=self._thoughts)

    def remarks(self, step: ParsedStep) -> dict[str, Any]:
        """As :class:`Dialect`: nothing."""
        return {}


class PaperForm:
    """``Thought 1: / Action 1: Search[x] / Observation 1:``; the prompt is one text, also for a chat model."""

    def __init__(
        self, offer: Offer, paper: PaperDialect, *, completion: bool, template: str | None, strict_original: bool
    ) -> None:
        self._offer = offer
        self._paper = paper
        self._completion = completion
        self._template = template
        self._strict = strict_original
        self._prompt = PaperPrompt("", 1, ())
        self._thought: str | None = None

    def ask(self, messages: Sequence[BaseMessage]) -> Request:
        """As :class:`Dialect`."""
        self._thought = None
        self._prompt = render_paper(
            [*messages, loops_own(self.wanted())] if self.wanted() else messages,
            self._paper,
            instruction=self._instruction(),
            strict_original=self._strict,
        )
        return self._request()

    def ask_for_action(self, step: ParsedStep) -> Request | None:
        """As :class:`Dialect`: once, as the published code does."""
        if not self._paper.thoughts or self._thought is not None:
            return None
        if not (isinstance(step, PaperStep) and step.asks_again):
            return None
        self._thought = step.thought
        self._prompt = self._prompt.again(step.thought)
        return self._request()

    def stream(self, stop: Sequence[str]) -> StepStream:
        """As :class:`Dialect`. Nothing is shown early of what the published code would read in its own way."""
        thinks = self._paper.has_thoughts and self._thought is None
        return StepStream(primed=True, live=thinks and not self._strict, answers=False, stops=tuple(stop))

    def parse(self, stream: StepStream, *, cut: bool, strict: bool = False) -> ParsedStep:
        """As :class:`Dialect`; an action is as strict as its brackets."""
        form: dict[str, Any] = {"strict_original": self._strict, "dialect": self._paper}
        if self._thought is None:
            step = parse_paper_step(stream.text, number=self._prompt.number, **form)
        else:
            step = parse_paper_action(stream.text, thought=self._thought, **form)
        step = resolve(step, self._offer.tools)
        tool = self._offer.tools.get(step.tool or "")
        return as_text_argument(step, list(tool.parameters.get("properties") or {})) if tool else step

    def wanted(self) -> str:
        """As :class:`Dialect`."""
        return paper_choice(self._offer.choice) if self._offer.tools else ""

    def hint(self, step: ParsedStep) -> str:
        """As :class:`Dialect`."""
        return paper_hint(step)

    def remarks(self, step: ParsedStep) -> dict[str, Any]:
        """As :class:`Dialect`: the model's own words."""
        return {WRITTEN: as_written(step, step.args)} if isinstance(step, PaperStep) else {}

    def _instruction(self) -> str:
        if self._strict or not self._offer.tools:
            return ""  # the prompts that were published stand in the system message
        written = paper_instruction(list(self._offer.tools.values()), self._paper)
        if self._template is None:
            return written
        return self._template.replace("{tools}", written)

    def _request(self) -> Request:
        text = self._prompt.text
        return Request(text if self._completion else [HumanMessage(text)], self._prompt.stop)


def loops_own(text: str) -> HumanMessage:
    """What is said to a model by no person: it may speak of labels."""
    return HumanMessage(text, additional_kwargs={LOOPS_OWN: "protocol"})


def _acts(message: BaseMessage) -> bool:
    """Whether a message belongs to the protocol: a call, its result, or a reply that was asked for in it."""
    if isinstance(message, AIMessage):
        return bool(message.tool_calls) or message.response_metadata.get("protocol") == "text"
    return isinstance(message, ToolMessage)


_ANSWER_FORMS = {
    "en": "The Final Answer must be one JSON object that fits this schema, and nothing else:",
    "zh": "最终答案必须是一个符合以下 schema 的 JSON 对象，不要写其他内容：",
    "de": "Die Final Answer muss genau ein JSON-Objekt sein, das zu diesem Schema passt:",
    "pl": "Final Answer musi być jednym obiektem JSON zgodnym z tym schematem i niczym więcej:",
}


def _answer_form(schema: Mapping[str, Any], language: str) -> str:
    return f"{_ANSWER_FORMS[language]}\n{json.dumps(schema, ensure_ascii=False)}"
