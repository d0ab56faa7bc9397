"""A recorded run as OpenTelemetry spans: OTLP in JSON, a run to a line, as collectors read it from a file or take it.

    tao trace export last --format otel > run.json
    curl -H 'Content-Type: application/json' -d @run.json http://localhost:4318/v1/traces

What was redacted, erased or not recorded stays so. Ids follow from those of the trace: a run that is exported twice is
the same spans.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from taograph.trace.chain import Entry
from taograph.trace.reading import Run, text_of
from taograph.trace.stores import Store

_OK, _ERROR = 1, 2
_INTERNAL, _CLIENT = 1, 3
_SCOPE = {"name": "taograph.trace"}
# What becomes an event of the span that it happened in, besides those that are spans themselves.
# fmt: off
_EVENTS = frozenset((
    "thought", "approval_asked", "approval_answered", "retry", "repair", "truncation", "condensation", "plan", "vote",
    "stop", "answer", "gap",
))
# fmt: on


@dataclass
class _Span:
    """A span that is being made.

    Attributes:
        name: What is shown.
        id: Eight bytes in hex.
        parent: The id of the span that it is in; empty for none.
        kind: OpenTelemetry's kind.
        began: Nanoseconds since 1970.
        ended: Likewise; as began while it has not ended.
        attributes: As values.
        events: What happened in it.
        failed: What it failed with; None where it did not.
    """

    name: str
    id: str
    parent: str
    kind: int
    began: int
    ended: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None

    def to_dict(self, trace: str) -> dict[str, Any]:
        """As OTLP has it in JSON."""
        status = {"code": _OK} if self.failed is None else {"code": _ERROR, "message": self.failed}
        return {
            "traceId": trace,
            "spanId": self.id,
            **({"parentSpanId": self.parent} if self.parent else {}),
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": str(self.began),
            "endTimeUnixNano": str(max(self.began, self.ended)),
            "attributes": _attributes(self.attributes),
            "events": self.events,
            "status": status,
        }


def otlp(store: Store, run: Run) -> Iterator[str]:
    """A run as a request in OTLP/JSON. Each of its traces is one there, too; ``taograph.run`` tells that they are one.

    Args:
        store: Where it is kept.
        run: The run.
    """
    made: list[dict[str, Any]] = []
    for kept in run.traces:
        spans = _Spans(kept.trace)
        for entry in store.entries(kept.trace):
            spans.add(entry)
        trace = _id(kept.trace, 16)
        made += [span.to_dict(trace) for span in spans.all.values()]
    if made:
        resource = {"attributes": _attributes({"service.name": "taograph"})}
        yield json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": _SCOPE, "spans": made}]}]})
        yield "\n"


class _Spans:
    """The spans of a trace: one for each graph, call of a model and call of a tool.

    Args:
        trace: Its id.
    """

    def __init__(self, trace: str) -> None:
        self.all: dict[str, _Span] = {}
        self._trace = trace
        self._calls: dict[str, _Span] = {}

    def add(self, entry: Entry) -> None:
        """Take an event; what was erased tells its time alone."""
        told, at = entry.content or {}, _nanoseconds(entry.time)
        graph = self._graph(told, at)
        for each in self._graphs_of(told):
            each.ended = max(each.ended, at)
        key = self._key(told)
        match entry.type:
            case "run_started":
                _describe(graph, told)
            case "model_asked":
                name = str(told.get("model") or "")
                span = self._open(key, f"chat {name}".strip(), graph, _CLIENT, at)
                span.attributes |= {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": name,
                    "openinference.span.kind": "LLM",
                    "llm.model_name": name,
                    "gen_ai.input.messages": _json([_message(each) for each in told.get("new") or ()]),
                }
            case "model_replied" | "model_failed":
                span = self._calls.get(key) or self._open(key, "chat", graph, _CLIENT, at)
                span.ended = at
                _replied(span, told) if entry.type == "model_replied" else _failed(span, told)
            case "action":
                tool = str(told.get("tool") or "")
                span = self._open(key, f"execute_tool {tool}", graph, _INTERNAL, at)
                span.attributes |= {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool,
                    "gen_ai.tool.call.id": told.get("id"),
                    "gen_ai.tool.call.arguments": _json(told.get("args")),
                    "openinference.span.kind": "TOOL",
                    "tool.name": tool,
                    "input.value": _json(told.get("args")),
                }
            case "tool_failed" if key in self._calls:
                _failed(self._calls[key], told)
            case "observation" if key in self._calls:
                span, text = self._calls[key], text_of(told.get("text"))
                span.ended = at
                span.attributes |= {"gen_ai.tool.call.result": text, "output.value": text}
                if told.get("status") == "error" and span.failed is None:
                    span.failed = text
            case "run_ended":
                graph.attributes["taograph.status"] = told.get("status")
                if told.get("status") == "failed":
                    _failed(graph, told)
            case kind if kind in _EVENTS:
                said = {name: value for name, value in told.items() if name not in ("path", "task", "thread", "user")}
                graph.events.append({"name": kind, "timeUnixNano": str(at), "attributes": _attributes(said)})
                _concluded(graph, kind, told)

    def _key(self, told: Mapping[str, Any]) -> str:
        """What tells a call from the others of its trace."""
        return f"{told.get('task') and told['task'][:-1]} {told.get('path')} {told.get('call') or told.get('id')}"

    def _graph(self, told: Mapping[str, Any], at: int) -> _Span:
        """The span of the graph that an event happened in; those around it are made where they are not there."""
        path = [str(name) for name in told.get("path") or ()]
        task = [str(name) for name in told.get("task") or ()][: len(path)]
        span = self._at("", "graph", "", at)
        for depth, name in enumerate(path, 1):
            span = self._at("/".join(task[:depth] or path[:depth]), name, span.id, at)
        return span

    def _at(self, place: str, name: str, parent: str, at: int) -> _Span:
        key = f"graph {place}"
        if key not in self.all:
            about = {"gen_ai.operation.name": "invoke_agent", "openinference.span.kind": "AGENT", "agent.name": name}
            id = _id(f"{self._trace} {key}", 8)
            self.all[key] = _Span(name, id, parent, _INTERNAL, at, attributes={**about, "gen_ai.agent.name": name})
        return self.all[key]

    def _graphs_of(self, told: Mapping[str, Any]) -> Iterator[_Span]:
        span: _Span | None = self._graph(told, 0)
        by_id = {each.id: each for each in self.all.values()}
        while span is not None:
            yield span
            span = by_id.get(span.parent)

    def _open(self, key: str, name: str, graph: _Span, kind: int, at: int) -> _Span:
        number = f"call {len(self.all)}"
        span = _Span(name, _id(f"{self._trace} {number}", 8), graph.id, kind, at, at)
        self.all[number] = self._calls[key] = span
        return span


def _describe(span: _Span, told: Mapping[str, Any]) -> None:
    name = str(told.get("graph") or span.name)
    span.name = name
    limits = told.get("limits") if isinstance(told.get("limits"), Mapping) else {}
    span.attributes |= {
        "gen_ai.agent.name": name,
        "agent.name": name,
        "gen_ai.conversation.id": told.get("thread"),
        "session.id": told.get("thread"),
        "user.id": told.get("user"),
        "input.value": text_of(told.get("question")),
        "taograph.run": told.get("run"),
        "taograph.protocol": told.get("protocol"),
        "taograph.model": told.get("model"),
        **{f"taograph.limits.{name}": value for name, value in (limits or {}).items()},
    }


def _concluded(span: _Span, kind: str, told: Mapping[str, Any]) -> None:
    if kind == "stop":
        span.attributes |= {"taograph.stop_reason": told.get("reason"), "taograph.steps": told.get("step")}
    elif kind == "answer":
        spent = told.get("spent")
        used = spent if isinstance(spent, Mapping) else {}
        span.attributes |= {"output.value": text_of(told.get("text"))}
        span.attributes |= {f"taograph.spent.{name}": value for name, value in used.items()}


def _replied(span: _Span, told: Mapping[str, Any]) -> None:
    sent, received = told.get("input_tokens") or 0, told.get("output_tokens") or 0
    span.attributes |= {
        "gen_ai.usage.input_tokens": sent,
        "gen_ai.usage.output_tokens": received,
        "gen_ai.usage.cache_read.input_tokens": told.get("cached_tokens") or 0,
        "llm.token_count.prompt": sent,
        "llm.token_count.completion": received,
        "llm.token_count.total": sent + received,
        "gen_ai.output.messages": _json([_message(told.get("message"))]),
    }


def _failed(span: _Span, told: Mapping[str, Any]) -> None:
    kind = str(told.get("error") or "error")
    span.failed = f"{kind}: {text_of(told.get('text'))}".removesuffix(": ")
    span.attributes["error.type"] = kind


_ROLES = {"human": "user", "ai": "assistant"}


def _message(told: Any) -> dict[str, Any]:
    """A message as the GenAI conventions have it."""
    if not isinstance(told, Mapping):
        return {"role": "assistant", "parts": [{"type": "text", "content": text_of(told)}]}
    text = text_of(told.get("content"))
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    calls = told.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping):
            named = {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
            parts.append({"type": "tool_call", **named})
    kind = told.get("type", "ai")
    return {"role": _ROLES.get(kind, kind) if isinstance(kind, str) else "unknown", "parts": parts}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in given.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"stringValue": _json(value)}


def _id(text: str, size: int) -> str:
    return sha256(text.encode()).hexdigest()[: 2 * size]


def _nanoseconds(time: str) -> int:
    moment = datetime.fromisoformat(time)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
