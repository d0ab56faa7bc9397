"""Runs as OpenTelemetry spans, and runs that are easy to find in LangSmith. Nothing is on, and sent, by default.

    telemetry.enable()                                      # as the standard variables OTEL_… say
    telemetry.enable(endpoint="http://localhost:6006/v1/traces")        # Phoenix on this machine

Without code: ``TAOGRAPH_OTEL=1`` in the environment of ``tao run``, of ``langgraph dev`` or of your program, with
``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like. Graphs, their steps, calls of models and of tools are spans of one trace
for each run, with the attributes of the GenAI conventions and of OpenInference. Texts are redacted before they leave,
as in the recorded trace (``TAOGRAPH_TRACE_REDACT``, ``TAOGRAPH_TRACE_CONTENT``).

Why OpenInference makes the spans. Measured on the same runs beside LangSmith's own export (``langsmith[otel]``): both
nest alike, sync and async. OpenInference writes the current GenAI conventions (``gen_ai.provider.name``,
``gen_ai.input.messages``, ``gen_ai.output.messages``) together with its own, which Phoenix reads; LangSmith's export
has the older names (``gen_ai.prompt``, ``gen_ai.completion``), takes the provider from the model's name, adds every
``LANGSMITH_…`` variable and the git revision to each span, and sends to LangSmith's servers where no endpoint is set.
The price are five small packages, 1.5 MB, besides the OTLP exporter that both need. They are released every few weeks.

What goes wrong is logged once, as a warning of ``taograph.telemetry``, and no run fails or waits for it: spans stand in
a bounded queue (``OTEL_BSP_MAX_QUEUE_SIZE``), a thread sends them, and where that fails they are dropped.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from taograph.redaction import redact
from taograph.trace.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from taograph.trace.otel_spans import CleaningExporter

log = logging.getLogger("taograph.telemetry")

SWITCH, FEEDBACK = "TAOGRAPH_OTEL", "TAOGRAPH_LANGSMITH_FEEDBACK"
_OFF = ("", "0", "no", "off", "none", "false")
_EXTRA = "pip install 'taograph[otel]'"
# Spans hold whole conversations: a batch of the usual 512 would be more than servers take at once.
_BATCH = 64
_SECONDS = 3.0


@dataclass
class _Own:
    """A provider of our own.

    Attributes:
        provider: Makes the spans.
        exporter: Sends them.
    """

    provider: Any
    exporter: CleaningExporter

    def close(self) -> None:
        """Send what is left, in a few seconds."""
        self.exporter.closing()
        self.provider.shutdown()


@dataclass
class _State:
    """What is on in this process."""

    on: bool = False
    own: _Own | None = None
    langsmith: bool = False


_state = _State()
_said: dict[str, None] = {}
_lock = threading.RLock()


def enable(
    *,
    endpoint: str | None = None,
    headers: Mapping[str, str] | None = None,
    settings: Settings | None = None,
    provider: TracerProvider | None = None,
) -> bool:
    """Make spans of every run in this process, from now on. A second call changes nothing.

    Where the application has set a tracer provider, spans go there, into the application's own traces; they are
    redacted as they are written. Else they are sent to ``endpoint``.

    Args:
        endpoint: Where to, as a whole URL (``http://localhost:4318/v1/traces``); by default what
            ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_ENDPOINT`` say, else port 4318 here.
        headers: Sent with every request, such as a key; by default ``OTEL_EXPORTER_OTLP_HEADERS``.
        settings: What is redacted, and whether texts are sent; by default what ``TAOGRAPH_TRACE_REDACT`` and
            ``TAOGRAPH_TRACE_CONTENT`` say.
        provider: Makes the spans, in place of the application's.

    Returns:
        Whether spans are made. If not, a warning said why.
    """
    with _lock:
        if _state.on:
            return True
        try:
            _state.on = _enable(endpoint, headers, settings or _configured(), provider)
        except ImportError as error:
            _warn(f"no spans are made: {error.name or error} is not installed: {_EXTRA}")
        except Exception as error:  # noqa: BLE001 - a wrong variable is no reason to fail
            _warn(f"no spans are made: {redact(str(error)) or type(error).__name__}")
        return _state.on


def enable_langsmith(*, settings: Settings | None = None, feedback: bool = False) -> None:
    """Label the runs that LangSmith is sent, and redact them. Whether it is sent any is said by ``LANGSMITH_TRACING``.

    Our graphs call it as they are made where that is set. A client that the application made before stays as it is:
    give it ``anonymizer=telemetry.anonymizer()``.

    Args:
        settings: As :func:`enable`.
        feedback: Give each run's end as feedback: ``answered``, ``stop_reason``, ``steps``.
    """
    with _lock:
        if not _state.langsmith:
            try:
                _enable_langsmith(settings or _configured())
            except Exception as error:  # noqa: BLE001 - a wrong variable is no reason to fail
                _warn(f"what LangSmith is sent is not labeled: {redact(str(error)) or type(error).__name__}")
                return
        from taograph.trace.otel_labels import wanted

        wanted.feedback = wanted.feedback or feedback


def anonymizer(settings: Settings | None = None) -> Any:
    """The redaction of the trace, as LangSmith's ``Client(anonymizer=…)`` takes it.

    Args:
        settings: As :func:`enable`.
    """
    from taograph.trace.otel_cleaning import Cleaner

    clean = Cleaner(settings or _configured()).value

    def anonymize(given: dict[str, Any]) -> dict[str, Any]:
        made = clean(given)
        return made if isinstance(made, dict) else {"withheld": str(made)}

    return anonymize


def enable_as_configured() -> None:
    """Turn on what the environment asks for: ``TAOGRAPH_OTEL``, ``LANGSMITH_TRACING``. Our graphs call it."""
    if os.environ.get(SWITCH, "").strip().lower() not in _OFF:
        enable()
    from langsmith.utils import tracing_is_enabled

    if tracing_is_enabled():
        enable_langsmith(feedback=os.environ.get(FEEDBACK, "").strip().lower() not in _OFF)


def flush() -> None:
    """Send the spans that wait to be sent, and wait for that."""
    own = _state.own
    if own is not None:
        own.provider.force_flush()


def problems() -> list[str]:
    """What went wrong so far, each once, for a program that does not show what is logged."""
    return list(_said)


def disable() -> None:
    """Make no spans and no labels any more; what waits is sent, in a few seconds or not at all."""
    with _lock:
        if _state.on:
            from openinference.instrumentation.langchain import LangChainInstrumentor

            LangChainInstrumentor().uninstrument()
        _close()
        _state.on = _state.langsmith = False
        from taograph.trace.otel_labels import wanted

        wanted.spans = wanted.langsmith = wanted.feedback = False


def _enable(
    endpoint: str | None, headers: Mapping[str, str] | None, settings: Settings, provider: TracerProvider | None
) -> bool:
    from openinference.instrumentation import TraceConfig
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from opentelemetry import trace as otel
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider

    from taograph.trace import otel_labels
    from taograph.trace.otel_cleaning import Cleaner
    from taograph.trace.otel_spans import Provider

    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        _warn("no spans are made: OTEL_SDK_DISABLED is set")
        return False
    if LangChainInstrumentor().is_instrumented_by_opentelemetry:
        _warn("no spans are made: the application has OpenInference make them already, without our redaction")
        return False
    cleaner = Cleaner(settings)
    settings.redact("+48 512 345 678")  # what reads files for that does it now, and not on an event loop
    found = provider or otel.get_tracer_provider()
    if isinstance(found, SdkProvider) or (provider is not None and endpoint is None):
        made = Provider(found, cleaner)
    else:
        _state.own = _own(endpoint, headers, cleaner)
        made = Provider(_state.own.provider, None)
    LangChainInstrumentor().instrument(tracer_provider=made, config=TraceConfig(enable_genai_semconv=True))
    otel_labels.wanted.spans = True
    otel_labels.register()
    return True


def _own(endpoint: str | None, headers: Mapping[str, str] | None, cleaner: Any) -> _Own:
    """A provider that sends to an endpoint."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from taograph.trace.otel_spans import CleaningExporter, hushed

    place = _checked(endpoint)
    patience = None if _is_set("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") else _SECONDS
    with hushed() as said:
        inner = OTLPSpanExporter(endpoint=endpoint, headers=dict(headers) if headers else None, timeout=patience)
    if said:
        _warn(f"a variable of OpenTelemetry can't be read: {redact(said[0])}")
    exporter = CleaningExporter(inner, cleaner, place, _warn)
    named = {} if _is_set("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES") else {"service.name": "taograph"}
    provider = SdkProvider(resource=Resource.create(named), shutdown_on_exit=False)
    batch = None if _is_set("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") else _BATCH
    provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=batch))  # type: ignore[arg-type]
    return _Own(provider, exporter)


def _checked(endpoint: str | None) -> str:
    """Where spans are sent to, for messages.

    Raises:
        ValueError: It is no URL, or another protocol is asked for.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    name = next((each for each in names if _is_set(each)), "") if endpoint is None else "endpoint"
    said = endpoint or os.environ.get(name, "").strip() or "http://localhost:4318"
    parts = urlsplit(said)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{name}={said!r}: write a URL, such as http://localhost:4318")
    protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    other = next((each for each in protocols if os.environ.get(each, "http/protobuf") != "http/protobuf"), None)
    if other is not None:
        raise ValueError(f"{other}={os.environ[other]!r}: only http/protobuf is sent, to port 4318 of most collectors")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _enable_langsmith(settings: Settings) -> None:
    from langsmith.env import get_langchain_env_var_metadata, get_runtime_environment
    from langsmith.run_trees import get_cached_client

    from taograph.trace import otel_labels

    settings.redact("+48 512 345 678")
    get_runtime_environment(), get_langchain_env_var_metadata()  # read and remembered now, and not on an event loop
    hidden = {} if settings.content else {"hide_inputs": True, "hide_outputs": True}
    get_cached_client(anonymizer=anonymizer(settings), **hidden)
    _state.langsmith = otel_labels.wanted.langsmith = True
    otel_labels.register()
    logging.getLogger("langsmith.client").addFilter(_once)


class _Once(logging.Filter):
    """LangSmith's client says with every batch that it can't be sent: once is enough."""

    said = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is said."""
        if record.levelno < logging.WARNING or not str(record.msg).startswith("Failed to"):
            return True
        if self.said:
            return False
        self.said = True
        _said[redact(record.getMessage())[:300]] = None
        return True


_once = _Once()


def _configured() -> Settings:
    from taograph.trace.configured import settings

    return settings()


def _is_set(*names: str) -> bool:
    return any(os.environ.get(name, "").strip() for name in names)


def _warn(text: str) -> None:
    if text not in _said:
        _said[text] = None
        log.warning("%s", text)


def _close() -> None:
    own, _state.own = _state.own, None
    if own is not None:
        own.close()


atexit.register(_close)
