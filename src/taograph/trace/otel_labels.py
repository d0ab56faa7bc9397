"""What a run is called where its spans are looked at: labels that our graphs' steps tell, and callbacks do not.

Put on the span or the LangSmith run of each graph, as it is told: strategy and protocol (tags in LangSmith), the run's
id, the limits, why it stopped and what it used. Feedback of LangSmith, where it is asked for: ``answered`` (1 for an
answer, 0 where something stopped the run), ``stop_reason`` (its name) and ``steps``.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import ensure_config
from langchain_core.tracers.context import register_configure_hook
from langchain_core.tracers.langchain import LangChainTracer
from langsmith.run_trees import RunTree

log = logging.getLogger("taograph.telemetry")

_EXIT_SECONDS = 3.0


@dataclass
class Wanted:
    """Who wants labels.

    Attributes:
        spans: Spans of OpenTelemetry.
        langsmith: Runs of LangSmith.
        feedback: LangSmith, as feedback, too.
    """

    spans: bool = False
    langsmith: bool = False
    feedback: bool = False


@dataclass
class _Graph:
    """A run of a graph: its parent, and what it told."""

    parent: UUID | None
    name: str
    stop: Mapping[str, Any] = field(default_factory=dict)
    tracer: LangChainTracer | None = None
    project: str | None = None
    began: datetime | None = None


class Labels(BaseCallbackHandler):
    """Puts the labels; whatever fails in it is logged once and fails no run.

    Args:
        wanted: Who wants them.
    """

    run_inline = True

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._runs: dict[UUID, _Graph] = {}
        self._said = False

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **kwargs: Any
    ) -> None:
        """A graph or a step begins."""
        if self.wanted.spans or self.wanted.langsmith:
            self._runs[run_id] = _Graph(parent_run_id, str(kwargs.get("name") or ""))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It ended."""
        graph = self._runs.pop(run_id, None)
        if graph is not None and graph.parent is None and graph.stop and self.wanted.feedback:
            _give_feedback(graph, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It failed, or is interrupted."""
        self._runs.pop(run_id, None)

    def on_interrupt(self, event: Any) -> None:
        """LangGraph tells it to every handler."""

    def on_resume(self, event: Any) -> None:
        """LangGraph tells it to every handler."""

    def on_run_node(self, parent_run_id: UUID | None, run: str, step: int) -> None:
        """A node of ours works."""

    def on_setup(self, setup: Mapping[str, Any], parent_run_id: UUID | None) -> None:
        """What a run is made of."""
        self._try(parent_run_id, {"strategy": setup.get("strategy")})

    def on_step_event(self, event: Mapping[str, Any], parent_run_id: UUID | None) -> None:
        """An event of the loop's own vocabulary."""
        match event["type"]:
            case "run_started":
                limits = {name: value for name, value in event["limits"].items() if value is not None}
                told = {"run": event["run"], "protocol": event["protocol"], "model": event["model"]}
                self._try(parent_run_id, {**told, "limits": limits})
            case "stop":
                self._try(parent_run_id, {"stop_reason": event["reason"], "steps": event["step"]}, stop=event)
            case "answer":
                self._try(parent_run_id, {"spent": dict(event["spent"])})

    def _try(self, node: UUID | None, labels: dict[str, Any], stop: Mapping[str, Any] | None = None) -> None:
        try:
            self._label(node, {name: value for name, value in labels.items() if value is not None}, stop)
        except Exception as error:  # noqa: BLE001 - labels are no reason for a run to fail
            if not self._said:
                self._said = True
                log.warning("a run can't be labeled (%s); runs go on without", type(error).__name__)

    def _label(self, node: UUID | None, labels: dict[str, Any], stop: Mapping[str, Any] | None) -> None:
        step = self._runs.get(node) if node else None
        graph = self._runs.get(step.parent) if step and step.parent else None
        if step is None or step.parent is None or graph is None:
            return
        graph.stop = stop or graph.stop
        if self.wanted.spans:
            _label_span(step.parent, graph.name, labels)
        if self.wanted.langsmith:
            graph.tracer = graph.tracer or _langsmith_tracer()
            run = graph.tracer.run_map.get(str(step.parent)) if graph.tracer is not None else None
            if run is not None:
                graph.project, graph.began = run.session_name, run.start_time
                _label_run(run, labels)


def _label_span(run_id: UUID, name: str, labels: Mapping[str, Any]) -> None:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    instrumentor = LangChainInstrumentor()
    span = instrumentor.get_span(run_id) if instrumentor.is_instrumented_by_opentelemetry else None
    if span is None:
        return
    span.set_attribute("agent.name", name)
    for key, value in labels.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                span.set_attribute(f"taograph.{key}.{inner}", number)
        else:
            span.set_attribute(f"taograph.{key}", value)


def _langsmith_tracer() -> LangChainTracer | None:
    """LangSmith's handler of the run at hand."""
    handlers = getattr(ensure_config().get("callbacks"), "handlers", None) or ()
    return next((handler for handler in handlers if isinstance(handler, LangChainTracer)), None)


def _label_run(run: RunTree, labels: Mapping[str, Any]) -> None:
    run.add_metadata({f"taograph_{key}": value for key, value in labels.items()})
    new = [str(labels[key]) for key in ("strategy", "protocol", "stop_reason") if key in labels]
    run.add_tags([tag for tag in new if tag not in (run.tags or ())])


def _give_feedback(graph: _Graph, run_id: UUID) -> None:
    """In a thread: the client may ask its server first what that can take."""
    if graph.tracer is None:
        return
    client, stop = graph.tracer.client, graph.stop
    answered = 1.0 if stop["reason"] == "final" else 0.0
    kinds: list[dict[str, Any]] = [
        {"key": "answered", "score": answered},
        {"key": "stop_reason", "value": stop["reason"]},
        {"key": "steps", "score": float(stop["step"])},
    ]

    def give() -> None:
        try:
            session = client.read_project(project_name=graph.project).id  # LangSmith wants it of who gives feedback
            for kind in kinds:
                client.create_feedback(
                    run_id=run_id,
                    trace_id=run_id,
                    session_id=session,
                    start_time=graph.began,
                    stop_after_attempt=2,
                    **kind,
                )
        except Exception as error:  # noqa: BLE001 - feedback is no reason for a run to fail
            log.warning("LangSmith did not take the feedback of a run: %s", type(error).__name__)

    thread = threading.Thread(target=give, name="taograph-feedback", daemon=True)
    _giving.add(thread)
    thread.start()
    _giving.difference_update([each for each in _giving if not each.is_alive() and each is not thread])


_giving: set[threading.Thread] = set()


def wait_for_feedback(seconds: float = _EXIT_SECONDS) -> None:
    """Wait until the feedback of runs that have ended is with the client, at most this long."""
    end = time.monotonic() + seconds
    for thread in list(_giving):
        thread.join(max(0.0, end - time.monotonic()))


wanted = Wanted()
"""Who wants labels, in this process."""
_labels: ContextVar[BaseCallbackHandler | None] = ContextVar("taograph_labels", default=Labels(wanted))  # noqa: B039 - one for the process is meant
_registered = False


def register() -> None:
    """Have the labels put in every run from now on."""
    global _registered  # noqa: PLW0603 - once in a process
    if not _registered:
        _registered = True
        register_configure_hook(_labels, inheritable=True)
        atexit.register(wait_for_feedback)
