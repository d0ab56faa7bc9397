"""What is recorded, and how: a value."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from taograph.redaction import named, without
from taograph.trace.writing import OnError, TraceError

log = logging.getLogger("taograph.trace")

Redact = Callable[[Any], Any]

# Texts up to the one are names of fields and the like, many and small; those above the other are not held on to. In
# characters.
_SHORT, _REMEMBERED = 64, 20_000

# What says nothing of the content: it is recorded as it is where the content is not.
# fmt: off
_OPEN = frozenset((
    "id", "call", "model", "messages", "chars", "request", "tools", "tool", "status", "seconds", "size",
    "input_tokens", "output_tokens", "cached_tokens", "cost", "limits", "version", "graph", "protocol", "resumes",
    "input", "error", "decision", "reason", "lost", "model_calls", "tool_calls", "numbers", "path", "spent", "type",
    "task", "kinds", "code",
))
# fmt: on
_HASHES = ("input", "request")


def hide_secrets(value: Any) -> Any:
    """A value without keys and passwords in its texts; what is recorded goes through this whatever else is set."""
    return _hidden(value, frozenset(named()))


def _hidden(value: Any, known: frozenset[str]) -> Any:
    match value:
        case str():
            if len(value) > _REMEMBERED:
                return without(value, known)
            return _hidden_in_short(value, known) if len(value) < _SHORT else _hidden_in(value, known)
        case Mapping():
            return {_hidden(str(key), known): _hidden(item, known) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_hidden(item, known) for item in value]
        case None | bool() | int() | float():
            return value
        case _:  # as it is written
            return without(str(value), known)


# What is said once is recorded in several places: as a reply, as a thought, in the hash of each request.
_hidden_in = lru_cache(256)(without)
_hidden_in_short = lru_cache(2048)(without)


@dataclass(frozen=True)
class Settings:
    """What is recorded, and how.

    Attributes:
        redactor: Takes personal data out of a value before it is written: a
            :class:`~taograph.trace.redaction.Redactor`, any function of a value, or None for secrets only.
        content: Whether content is recorded; if not, only shapes, sizes and keyed hashes of it.
        keep_days: Days after which a trace is to be deleted; None for never.
        key: What the chain is signed with, and content is hashed with where it is not recorded.
        on_error: "warn": where an event can't be written, say so and go on; "stop": end the run.
    """

    redactor: Redact | None = None
    content: bool = True
    keep_days: int | None = 190
    key: bytes | None = field(default=None, repr=False)
    on_error: OnError = "warn"
    _said: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def __post_init__(self) -> None:
        if self.redactor is not None and not callable(self.redactor):
            raise TypeError(f"trace: redactor={self.redactor!r}: give a Redactor, a function of a value, or None")
        if self.on_error not in ("warn", "stop"):
            raise ValueError(f'trace: on_error={self.on_error!r}: give "warn" or "stop"')
        days = self.keep_days
        if days is not None and (isinstance(days, bool) or not isinstance(days, int) or days < 0):
            raise ValueError(f"trace: keep_days={days!r}: give whole days, 0 or more, or None for ever")
        if self.key is not None and (not isinstance(self.key, bytes) or len(self.key) < 16):
            raise ValueError("trace: key: give 16 bytes or more")

    def redact(self, value: Any) -> Any:
        """A value as it may be written: where the redactor fails, nothing of it is.

        Raises:
            TraceError: The redactor failed, and ``on_error`` is "stop".
        """
        if self.redactor is None:
            return hide_secrets(value)
        try:
            return self.redactor(value if getattr(self.redactor, "hides_secrets", False) else hide_secrets(value))
        except Exception as error:
            problem = f"the redactor failed with {type(error).__name__}"
            if self.on_error == "stop":
                raise TraceError(f"the trace can't be written: {problem}") from error
            if problem not in self._said:
                self._said.add(problem)
                log.warning("%s: what it was given is not recorded", problem)
            return f"[withheld: {problem}]"

    def of(self, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """The content of an event as it may be written."""
        if self.content:
            told = self.redact(dict(content))
            return told if isinstance(told, dict) else {"withheld": str(told)}
        made = {name: self.redact(value) if name in _OPEN else self.shape(value) for name, value in content.items()}
        # What a hash is of could be guessed, where nothing but the hash is there.
        return made | {name: self._keyed(str(made[name])) for name in _HASHES if name in made}

    def shape(self, value: Any) -> Any:
        """What is told of a value whose content is not recorded: its form, its size and a keyed hash."""
        match value:
            case None | bool():
                return value
            case Mapping():
                return {self._name(str(key)): self.shape(item) for key, item in value.items()}
            case list() | tuple():
                return [self.shape(item) for item in value]
            case _:
                text = str(value)
                kind = "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else "value"
                return {kind: len(text), "hash": self._keyed(text)[:32]}

    def _name(self, key: str) -> str:
        """A key where it is a name of a field; else it may be what somebody said."""
        return key if key.isidentifier() and self.redact(key) == key else self._keyed(key)[:32]

    def _keyed(self, text: str) -> str:
        return hmac.new(self.key or self._salt, text.encode("utf-8", "replace"), sha256).hexdigest()
