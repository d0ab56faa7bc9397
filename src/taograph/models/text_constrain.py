"""Holding a model's reply to one step of the text protocol, where its server can: which request asks for that.

Three forms are in use. llama.cpp takes a grammar beside OpenAI's fields. OpenAI, and most who follow it, take the
schema of a JSON object. vLLM has fields of its own: ``structured_outputs``, and ``guided_json`` before version 0.12;
it passes over what it does not know, so both are sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from langchain_core.language_models import BaseChatModel, BaseLLM

from taograph.graphs.protocols.step_grammar import step_grammar
from taograph.graphs.protocols.step_schema import is_strict, json_note, step_schema
from taograph.graphs.protocols.text_labels import labels
from taograph.models.text_offers import Offer

Constrain = Literal["none", "auto", "grammar", "json_schema", "guided"]

_HOLDS = frozenset({"grammar", "response_format", "structured_outputs", "guided_json", "guided_grammar"})
_JSON = ("{",)
_NO_FIELD = r"extra_body|extra fields|extra inputs|unrecognized request argument"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A way of asking a server to hold a reply to one step.

    Attributes:
        name: Which.
        options: Keywords of the call.
        named: What an error names that refuses it.
        begins: What a reply that is held to it begins with, one of these; empty where nothing can be told from that.
        note: What the model is told of it, at the end of the request.
    """

    name: str
    options: Mapping[str, Any]
    named: re.Pattern[str]
    begins: tuple[str, ...] = ()
    note: str = ""

    def refused_by(self, error: Exception) -> bool:
        """Whether an error speaks of it."""
        return self.named.search(f"{getattr(error, 'param', None) or ''} {error}") is not None

    def can_begin(self, text: str) -> bool:
        """Whether a reply that begins so may be held to it: some servers pass over what they do not know."""
        text = text.lstrip()
        return not self.begins or any(text.startswith(head) or head.startswith(text) for head in self.begins)


def check_constrain(constrain: str, model: BaseChatModel | BaseLLM, dialect: object) -> None:
    """Refuse a way that cannot be.

    Raises:
        ValueError: There is no such way, or it is not for this model or this form of the protocol.
    """
    if constrain not in get_args(Constrain):
        raise ValueError(f"constrain={constrain!r}: use one of {', '.join(map(repr, get_args(Constrain)))}")
    if constrain in ("none", "auto"):
        return
    if dialect != "labels":
        raise ValueError(
            f'constrain={constrain!r} is for dialect="labels". Use constrain="none" with the paper\'s form'
        )
    if isinstance(model, BaseLLM) and constrain == "json_schema":
        raise ValueError(
            f'constrain="json_schema": {type(model).__name__} continues a text that has begun, which is no JSON. '
            'Use "grammar", "guided" or "auto"'
        )
    if constrain != "json_schema" and not _takes_fields(model):
        raise ValueError(
            f"constrain={constrain!r}: {type(model).__name__} has no extra_body, in which the server gets it. "
            'Use a ChatOpenAI with base_url=, or constrain="auto"'
        )


def constraints_of(
    constrain: Constrain,
    model: BaseChatModel | BaseLLM,
    offer: Offer,
    options: Mapping[str, Any],
    language: str,
    *,
    thoughts: bool = True,
) -> tuple[Constraint, ...]:
    """The ways to try, in order; none where nothing is to be called, or the caller has a form of his own.

    Args:
        constrain: What the user asked for.
        model: The model.
        offer: What it may do.
        options: Keywords of the call.
        language: Of the labels.
        thoughts: Whether a step begins with a thought.
    """
    own = {**(getattr(model, "extra_body", None) or {}), **(options.get("extra_body") or {})}
    if constrain == "none" or not offer.tools or _HOLDS & {*own, *options}:
        return ()
    maker = _Maker(model, offer, own, language, thoughts)
    if constrain != "auto":
        return (maker.make(constrain),)
    if not _takes_fields(model):
        return ()
    return (maker.make("auto"),) if isinstance(model, BaseLLM) else (maker.make("auto"), maker.make("json_schema"))


class _Maker:
    """Makes the ways for one request."""

    def __init__(
        self, model: BaseChatModel | BaseLLM, offer: Offer, own: Mapping[str, Any], language: str, thoughts: bool
    ) -> None:
        self._model, self._offer, self._own, self._language = model, offer, own, language
        self._thoughts = thoughts

    def make(self, way: Constrain) -> Constraint:
        if way == "json_schema":
            return self._of_schema()
        completes = isinstance(self._model, BaseLLM)
        if way == "guided" and not completes:
            schema = self._schema(strict=False)
            fields: dict[str, Any] = {"structured_outputs": {"json": schema}, "guided_json": schema}
            return self._in_body("guided", fields, _JSON, self._note())
        grammar = step_grammar(
            list(self._offer.tools.values()),
            self._offer.choice,
            language=self._language,
            one_line=bool(getattr(self._model, "one_line", False)),
            begun=completes and self._thoughts,
            thoughts=self._thoughts,
        )
        fields = {"grammar": grammar} if way != "guided" else {}
        if way != "grammar":
            fields["structured_outputs"] = {"grammar": grammar}
        if way == "guided":
            fields["guided_grammar"] = grammar
        label = labels(self._language)
        thought = (label.thought,) if self._thoughts else ()
        heads = () if completes else (*thought, label.action, label.final_answer)
        return self._in_body("guided" if way == "guided" else "grammar", fields, heads)

    def _of_schema(self) -> Constraint:
        schema = self._schema(strict=True)
        inner = {"name": "step", "schema": schema, "strict": is_strict(schema)}
        form = {"response_format": {"type": "json_schema", "json_schema": inner}}
        note = self._note()
        # As a keyword, OpenAI's client would read the reply itself, and raise for one that was cut off.
        if _takes_fields(self._model) and not getattr(self._model, "use_responses_api", False):
            return self._in_body("json_schema", form, _JSON, note)
        return Constraint("json_schema", form, _naming("response_format", "json_schema", "schema"), _JSON, note)

    def _schema(self, *, strict: bool) -> dict[str, Any]:
        tools = list(self._offer.tools.values())
        return step_schema(tools, self._offer.choice, strict=strict, thoughts=self._thoughts)

    def _note(self) -> str:
        return json_note(self._offer.choice, self._language, thoughts=self._thoughts)

    def _in_body(self, name: str, fields: Mapping[str, Any], begins: tuple[str, ...], note: str = "") -> Constraint:
        return Constraint(name, {"extra_body": {**self._own, **fields}}, _naming(*fields), begins, note)


def _takes_fields(model: BaseChatModel | BaseLLM) -> bool:
    return "extra_body" in cast(Any, type(model)).model_fields


def _naming(*fields: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(fields)})\b|{_NO_FIELD}", re.IGNORECASE)
