"""What of a span may leave the process: the same redaction as of the trace, applied to attributes.

An attribute may be a text, a list of texts or JSON written out. JSON is redacted value by value, so that what stands
under a key such as ``password`` is seen for what it is. A conversation is sent again with every call of the model: each
message in it is redacted once, and remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from taograph.redaction import redact
from taograph.trace.settings import Settings

_LISTS = ("messages", "generations")  # of conversations, in what models and graphs are given and give back

# What says nothing of the content, besides numbers: it is sent where texts are not.
# fmt: off
_OPEN = frozenset((
    "openinference.span.kind", "llm.model_name", "llm.provider", "llm.system", "tool.name", "agent.name", "session.id",
    "input.mime_type", "output.mime_type", "exception.type", "exception.escaped",
    "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.request.model", "gen_ai.response.model",
    "gen_ai.response.finish_reasons", "gen_ai.conversation.id", "gen_ai.agent.name", "gen_ai.tool.name",
    "gen_ai.tool.type", "gen_ai.tool.call.id", "gen_ai.output.type",
))
# fmt: on
_OPEN_PREFIX = "taograph."
_OPEN_SUFFIXES = (".message.role", ".tool_call.function.name", ".tool_call.id", ".message.tool_call_id")
_REMEMBERED, _LONGEST = 2048, 20_000


class Cleaner:
    """Takes out of texts and attributes what may not leave the process.

    Args:
        settings: ``redactor`` and ``content`` of them count.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._part = lru_cache(_REMEMBERED)(self._clean_part)
        self._short = lru_cache(_REMEMBERED)(self._clean_text)

    def text(self, text: str) -> str:
        """A text without secrets, and without personal data where the settings say so."""
        return self._short(text) if len(text) <= _LONGEST else self._clean_text(text)

    def value(self, value: Any) -> Any:
        """A plain value likewise."""
        if isinstance(value, list | tuple):
            return [self._of_list(item) for item in value]
        if isinstance(value, Mapping):
            lists = {key: value[key] for key in _LISTS if isinstance(value.get(key), list)}
            rest = self._whole({key: item for key, item in value.items() if key not in lists})
            if not lists or not isinstance(rest, Mapping):
                return rest
            return {**rest, **{key: self.value(item) for key, item in lists.items()}}
        return self._settings.redact(value)

    def attributes(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Attributes likewise; where content is not to be sent, only those that are none of it."""
        made = {}
        for key, value in (given or {}).items():
            if self._settings.content or not _holds_text(value) or _is_open(key):
                made[key] = self.attribute(value)
        return made

    def attribute(self, value: Any) -> Any:
        """The value of one attribute: numbers stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Sequence):
            return [self.attribute(item) for item in value]
        return value

    def says(self, key: str, value: Any) -> bool:
        """Whether an attribute is sent at all."""
        return self._settings.content or not _holds_text(value) or _is_open(key)

    def words(self, text: str | None) -> str | None:
        """What a failure said; None where content is not to be sent. A stack trace is told with the exception."""
        if not text or not self._settings.content:
            return None
        return self.text(text.partition("Traceback (most recent call last)")[0])

    def _clean_text(self, text: str) -> str:
        if text[:1] in ("{", "["):
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                pass
            else:
                return json.dumps(self.value(parsed), ensure_ascii=False)
        return str(self._settings.redact(text))

    def _of_list(self, item: Any) -> Any:
        if isinstance(item, list):
            return [self._of_list(each) for each in item]
        if isinstance(item, Mapping):
            return json.loads(self._part(json.dumps(item, default=str)))
        return self._settings.redact(item)

    def _clean_part(self, text: str) -> str:
        return json.dumps(self._whole(json.loads(text)))

    def _whole(self, value: Any) -> Any:
        """A value that is redacted as such, and as it is written: a secret is also known by the name before it."""
        text = redact(json.dumps(self._settings.redact(value), default=str, ensure_ascii=False))
        try:
            return json.loads(text)
        except ValueError:  # a secret ended where the text was escaped
            return text


def _holds_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Sequence) and any(isinstance(item, str) for item in value))


def _is_open(key: str) -> bool:
    return key in _OPEN or key.startswith(_OPEN_PREFIX) or key.endswith(_OPEN_SUFFIXES)
