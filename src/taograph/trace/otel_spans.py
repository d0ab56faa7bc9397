"""Spans on their way out: cleaned before they leave, and never in the way of the run that they tell of.

Where the spans go to a provider of our own, they are cleaned in the thread that sends them. Where the application has
a provider, whose processors and exporters are not ours, they are cleaned as they are written.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from taograph.redaction import redact
from taograph.trace.otel_cleaning import Cleaner

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

_AGAIN_SECONDS = 30.0
_CLOSING_SECONDS = 3.0
_KIND, _NAME = "openinference.span.kind", "agent.name"


class CleaningExporter:
    """Cleans spans and hands them to the exporter that sends them.

    After a failure nothing is sent for a while: what waits does not pile up, and no exit waits for a dead server.

    Args:
        inner: Sends them.
        cleaner: Cleans them.
        place: Where to, for a message.
        say: Says a problem; is called once for a row of failures.
    """

    def __init__(self, inner: SpanExporter, cleaner: Cleaner, place: str, say: Callable[[str], None]) -> None:
        self._inner, self._cleaner, self._place, self._say = inner, cleaner, place, say
        self._not_before = 0.0
        self._until = float("inf")
        self._failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; what can't be sent is dropped."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        if not self._not_before <= time.monotonic() < self._until:
            return SpanExportResult.FAILURE
        try:
            cleaned = [cleaned_span(span, self._cleaner) for span in spans]
        except Exception as error:  # noqa: BLE001 - what can't be cleaned does not leave
            return self._fail(f"they can't be redacted ({type(error).__name__})")
        with hushed() as said:
            try:
                result = self._inner.export(cleaned)
            except Exception as error:  # noqa: BLE001 - a broken exporter is no reason to fail
                return self._fail(f"{type(error).__name__}: {error}")
        if result is not SpanExportResult.SUCCESS:
            return self._fail(said[0] if said else "it did not take them")
        self._failed = False
        return result

    def closing(self) -> None:
        """The process ends: what is left is sent in a few seconds or not at all."""
        self._until = time.monotonic() + _CLOSING_SECONDS

    def shutdown(self) -> None:
        """Send nothing more."""
        with hushed():
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits here."""
        return True

    def _fail(self, why: str) -> SpanExportResult:
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._not_before = time.monotonic() + _AGAIN_SECONDS
        if not self._failed:
            self._failed = True
            why = redact(" ".join(why.split()))[:300]
            self._say(f"spans can't be sent to {redact(self._place)}: {why}. Runs go on without them")
        return SpanExportResult.FAILURE


def cleaned_span(span: ReadableSpan, cleaner: Cleaner) -> ReadableSpan:
    """A span as it may leave the process.

    Args:
        span: One that has ended.
        cleaner: Cleans its texts.
    """
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Status

    return ReadableSpan(
        name=cleaner.text(span.name),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=cleaner.attributes(span.attributes),
        events=[Event(event.name, cleaner.attributes(event.attributes), event.timestamp) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, cleaner.words(span.status.description)),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


class Provider:
    """A tracer provider that tells a graph from a step of it, and cleans what is written where nobody else does.

    Args:
        inner: Makes the spans.
        cleaner: Cleans what is written into them; None where that is done later.
    """

    def __init__(self, inner: Any, cleaner: Cleaner | None) -> None:
        self._inner, self._cleaner = inner, cleaner

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        """As OpenTelemetry's."""
        return Tracer(self._inner.get_tracer(*args, **kwargs), self._cleaner)


class Tracer:
    """As :class:`Provider`."""

    def __init__(self, inner: Any, cleaner: Cleaner | None) -> None:
        self._inner, self._cleaner = inner, cleaner

    def start_span(self, name: str, *args: Any, attributes: Mapping[str, Any] | None = None, **kwargs: Any) -> Span:
        """As OpenTelemetry's."""
        cleaner = self._cleaner
        if cleaner is not None:
            name, attributes = cleaner.text(name), cleaner.attributes(attributes)
        return Span(self._inner.start_span(name, *args, attributes=attributes, **kwargs), cleaner)


class Span:
    """A span that passes as the one that it holds.

    Args:
        inner: The span.
        cleaner: As :class:`Provider`'s.
    """

    def __init__(self, inner: Any, cleaner: Cleaner | None) -> None:
        self._inner, self._cleaner = inner, cleaner
        self._is_graph = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """OpenTelemetry takes nothing for a parent that is no span of its own."""
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def set_attribute(self, key: str, value: Any) -> None:
        """As OpenTelemetry's; a graph is an agent, and not a chain like its steps."""
        if key == _NAME:
            self._is_graph = True
        elif key == _KIND and self._is_graph:
            value = "AGENT"
        cleaner = self._cleaner
        if cleaner is None:
            self._inner.set_attribute(key, value)
        elif cleaner.says(key, value):
            self._inner.set_attribute(key, cleaner.attribute(value))

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """As OpenTelemetry's."""
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        """As OpenTelemetry's."""
        made = attributes if self._cleaner is None else self._cleaner.attributes(attributes)
        self._inner.add_event(name, made, timestamp)

    def record_exception(self, exception: BaseException, *args: Any, **kwargs: Any) -> None:
        """As OpenTelemetry's."""
        if self._cleaner is None:
            self._inner.record_exception(exception, *args, **kwargs)
            return
        said = {
            "exception.type": type(exception).__qualname__,
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
        }
        self.add_event("exception", said)

    def set_status(self, status: Any, description: str | None = None) -> None:
        """As OpenTelemetry's."""
        cleaner = self._cleaner
        if cleaner is not None and getattr(status, "description", None):
            status = type(status)(status.status_code, cleaner.words(status.description))
        self._inner.set_status(status, cleaner.words(description) if cleaner is not None else description)


_quiet = threading.local()


class _Hush(logging.Filter):
    """Keeps for itself what the exporter says in our thread: it says it anew with every batch."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is said."""
        said: list[str] | None = getattr(_quiet, "said", None)
        if said is None:
            return True
        said.append(record.getMessage())
        return False


_hush = _Hush()


@contextmanager
def hushed() -> Iterator[list[str]]:
    """A stretch in which what the exporter says is collected and not logged."""
    for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.exporter.otlp.common.http"):
        logging.getLogger(name).addFilter(_hush)  # which does nothing where it is there
    said: list[str] = []
    _quiet.said = said
    try:
        yield said
    finally:
        _quiet.said = None
