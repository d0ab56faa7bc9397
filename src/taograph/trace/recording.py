"""Recording what a graph does, as it does it: a callback handler for any LangChain or LangGraph run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.callbacks import GraphInterruptEvent, GraphResumeEvent
from langgraph.errors import GraphBubbleUp, GraphDrained

from taograph.models.failures import kinds_of, status_of
from taograph.models.prices import Price, price_by_name
from taograph.models.streamed import StreamedCalls
from taograph.trace import untold
from taograph.trace.chain import Draft, now
from taograph.trace.events import EventType, of_step
from taograph.trace.messages import RequestHasher, message_dict
from taograph.trace.places import (
    Place,
    Trace,
    at_end_of_task,
    depth_in,
    given_in,
    is_new,
    model_of,
    on_a_loop,
    path_in,
    plain_input,
    task_in,
    tool_name,
    usage_of,
    user_of,
    versions,
)
from taograph.trace.settings import Settings
from taograph.trace.underway import UnderWay
from taograph.trace.writing import Writer

# What a node tells at once, one after the other: it is stored together, before a tool is called or the node ends.
_TOGETHER = frozenset(("thought", "action", "plan", "vote", "retry", "repair", "stop", "answer"))


class Recorder(UnderWay):
    """Turns callbacks into events and hands them to a writer; it does no work that blocks.

    Args:
        settings: What is recorded, and how.
        writer: Writes it.
    """

    run_inline = True

    def __init__(self, settings: Settings, writer: Writer) -> None:
        super().__init__(writer)
        self.settings = settings
        self.raise_error = settings.on_error == "stop"
        # Traces that have ended, and of which nobody has made sure yet that they are written.
        self.ended: set[str] = set()
        self._hash_of_request = RequestHasher(settings.redact)
        self._prices: dict[str, Price | None] = {}
        versions()  # reads files: now, not on the event loop of the first run

    # Runs

    def on_chain_start(
        self,
        serialized: Mapping[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """A graph, a node of it, or another runnable begins."""
        metadata = kwargs.get("metadata") or {}
        parent = self._places.get(parent_run_id) if parent_run_id else None
        if parent is None:
            if not self._is_told(run_id, parent_run_id):
                trace = self._open(run_id, metadata, kwargs.get("name") or "", inputs)
                self._enter(run_id, Place(trace, None, ()))
            return
        path, task = path_in(parent, metadata), task_in(parent, metadata)
        self._enter(run_id, Place(parent.trace, parent_run_id, path, parent.step, parent.run, task=task))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It ended."""
        foreign = run_id not in self._ours
        place = self._leave(run_id)
        if place is None:
            return
        self._wait(place)
        if foreign and place.parent not in self._ours:
            place = replace(place, step=place.step or place.trace.steps.get(place.parent or run_id, 0))
            for kind, content in untold.by_results(place.trace, outputs):
                self._write(place, kind, content)
        if place.parent is None:
            self._close(place.trace, "waiting" if place.trace.waits else "ended")
            if self.raise_error:
                self.ended.add(place.trace.id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It failed, or is interrupted."""
        place = self._leave(run_id)
        if place is None:
            return
        self._wait(place)
        if place.parent is not None:
            return
        if isinstance(error, GraphDrained):
            self._close(place.trace, "drained")
        elif isinstance(error, GraphBubbleUp):
            self._close(place.trace, "waiting")
        elif isinstance(error, Exception):
            self._close(place.trace, "failed", error=type(error).__name__, text=str(error))
        else:
            self._close(place.trace, "cancelled", error=type(error).__name__)

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """The run waits for a person."""
        place = self._places.get(event.run_id) if event.run_id else None
        if place is None:
            return
        trace = place.trace
        trace.waits = True
        place = replace(place, step=trace.steps.get(event.run_id, 0)) if event.run_id else place
        for interrupt in event.interrupts:
            if interrupt.id not in trace.asked:  # a nested graph's comes once more on its way up
                trace.asked.add(interrupt.id)
                self._write(place, "approval_asked", {"id": interrupt.id, "value": interrupt.value})

    def on_resume(self, event: GraphResumeEvent) -> None:
        """The call goes on with what is stored."""
        place = self._places.get(event.run_id) if event.run_id else None
        if place is not None and place.trace.start is not None:
            place.trace.start["resumes"] = True

    # Steps of our own graphs

    def on_run_node(self, parent_run_id: UUID | None, run: str, step: int) -> None:
        """A node of ours works: what it thinks, does and sees comes by :meth:`on_step_event`."""
        place = self._places.get(parent_run_id) if parent_run_id else None
        if place is None or parent_run_id is None or place.parent is None:
            return
        self._ours.add(place.parent)
        self._places[parent_run_id] = replace(place, run=run, step=step)
        place.trace.steps[place.parent] = step
        if not place.path:
            place.trace.run = run

    def on_context(self, context: Mapping[str, Any], parent_run_id: UUID | None) -> None:
        """What this call of the graph sets of its run's limits and the like."""
        place = self._places.get(parent_run_id) if parent_run_id else None
        if place is not None and place.trace.start is not None:
            place.trace.start["context"] = dict(context)

    def on_setup(self, setup: Mapping[str, Any], parent_run_id: UUID | None) -> None:
        """What a run is made of; of sub-runs it follows from that."""
        place = self._places.get(parent_run_id) if parent_run_id else None
        if place is not None and place.trace.start is not None and not place.path:
            place.trace.start["setup"] = plain_input(setup)

    def on_step_event(self, event: Mapping[str, Any], parent_run_id: UUID | None) -> None:
        """An event of the loop's own vocabulary."""
        place = self._places.get(parent_run_id) if parent_run_id else None
        if place is None or parent_run_id is None:
            return
        trace = place.trace
        place = replace(place, run=str(event["run"]), step=int(event["step"]))
        if event["type"] == "run_started":
            told = {name: event[name] for name in ("question", "limits", "tools", "model", "protocol")}
            if trace.start is not None and not place.path:
                trace.start.update(told)
                self._begin(trace)
            else:
                self._write(place, "run_started", {"graph": place.path[-1] if place.path else "", **told})
            return
        found = of_step(dict(event))
        if found is not None:
            self._write(place, *found)

    # Models

    def on_chat_model_start(
        self,
        serialized: Mapping[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """A chat model is asked."""
        options = kwargs.get("invocation_params") or {}
        tools = [tool_name(tool) for tool in options.get("tools") or ()]
        model = model_of(kwargs)
        self._asked(run_id, parent_run_id, messages[0] if messages else [], model, tools)

    def on_llm_start(
        self,
        serialized: Mapping[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        """A completion model is asked."""
        model = model_of(kwargs)
        self._asked(run_id, parent_run_id, [HumanMessage(prompts[0])] if prompts else [], model, [])

    def _asked(
        self, run_id: UUID, parent_run_id: UUID | None, request: Sequence[BaseMessage], model: str, tools: list[str]
    ) -> None:
        parent = self._places.get(parent_run_id) if parent_run_id else None
        if parent is None and self._is_told(run_id, parent_run_id):
            return
        if parent is None:  # a model that is called alone
            trace = self._open(run_id, {}, "model", None)
            self._alone.add(run_id)
            trace.unwatch = at_end_of_task(lambda: self._abandon(run_id))
            parent = Place(trace, None, ())
        trace, step = parent.trace, parent.step
        within = parent.parent or parent_run_id or run_id
        if within not in self._ours:
            step = trace.steps[within] = trace.steps.get(within, 0) + 1
        about = {"call": str(run_id), "model": model}
        place = Place(trace, parent_run_id, parent.path, step, parent.run, time.monotonic(), about, parent.task)
        self._enter(run_id, place)
        digest, chars, given = self._hash_of_request.read(request, tools)
        told = [message_dict(m) for m in given if is_new(trace.seen, m)]
        self._write(
            place,
            "model_asked",
            {
                **about,
                "messages": len(request),
                "chars": chars,
                "request": digest,
                "new": told,
                "tools": tools,
            },
        )

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        """A piece of a reply; what it has of calls is remembered, since LangChain mends what is broken of them."""
        if self._alone:
            self._alone.discard(run_id)
        if getattr(getattr(chunk, "message", None), "tool_call_chunks", None):
            self._streamed.setdefault(run_id, StreamedCalls()).on_llm_new_token(token, chunk=chunk)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A model replied."""
        streamed, place = self._streamed.pop(run_id, None), self._leave(run_id)
        if place is None:
            return
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        if not isinstance(message, AIMessage):
            message = AIMessage(generation.text if generation else "")
        if streamed is not None and not self._is_foreign(place):
            message = streamed.checked(message)  # as the loop reads it
        usage = usage_of(message, self._prices.get(str(place.about["model"])))
        self._count(place.trace, model_calls=1, **usage)
        seconds = round(time.monotonic() - place.began, 6)
        self._write(
            place, "model_replied", {**place.about, "message": message_dict(message), **usage, "seconds": seconds}
        )
        if self._is_foreign(place):
            for kind, content in untold.by_reply(place.trace, message):
                self._write(place, kind, content)
        if place.parent is None:
            self._close(place.trace, "ended")

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model failed."""
        _, place = self._streamed.pop(run_id, None), self._leave(run_id)
        if place is None:
            return
        self._count(place.trace, model_calls=1)
        seconds = round(time.monotonic() - place.began, 6)
        failure = {"error": type(error).__name__, "text": str(error)}
        about = {"call": place.about["call"], "kinds": kinds_of(error), "code": status_of(error)}
        self._write(place, "model_failed", {**about, **failure, "seconds": seconds})
        if place.parent is None:
            self._close(place.trace, "failed", **failure)

    # Tools

    def on_tool_start(
        self,
        serialized: Mapping[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        inputs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is called."""
        parent = self._places.get(parent_run_id) if parent_run_id else None
        if parent is None:
            self._is_told(run_id, parent_run_id)
            return
        about = {"id": kwargs.get("tool_call_id"), "tool": (serialized or {}).get("name") or kwargs.get("name") or ""}
        step = parent.step or max(parent.trace.steps.values(), default=0)
        began = time.monotonic()
        self._enter(
            run_id, Place(parent.trace, parent_run_id, parent.path, step, parent.run, began, about, parent.task)
        )
        self._count(parent.trace, tool_calls=1)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """It returned."""
        place = self._leave(run_id)
        if place is None or not self._is_foreign(place):
            return
        place.trace.open_calls.discard(str(place.about["id"]))
        text = str(output.text if isinstance(output, BaseMessage) else output)
        status = getattr(output, "status", "success")
        seconds = round(time.monotonic() - place.began, 6)
        self._write(
            place,
            "observation",
            {**place.about, "text": text, "status": status, "seconds": seconds, "size": len(text)},
        )

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """It failed."""
        place = self._leave(run_id)
        if place is not None and isinstance(error, GraphBubbleUp):
            self._count(place.trace, tool_calls=-1)  # it asks a person, and is called again when they have answered
        elif place is not None:
            self._write(place, "tool_failed", {**place.about, "error": type(error).__name__, "text": str(error)})

    # What they have in common

    def learn_price(self, model: str) -> None:
        """Look up what a model costs; reads files, so it is no work for an event loop."""
        if model not in self._prices:
            self._prices[model] = price_by_name(model)

    def _is_foreign(self, place: Place) -> bool:
        """Whether it is the call of a graph that does not tell its steps; what outlives its node is nobody's."""
        if place.parent is None:
            return True
        parent = self._places.get(place.parent)
        return parent is not None and (parent.parent is None or parent.parent not in self._ours)

    def _open(self, run_id: UUID, metadata: Mapping[str, Any], graph: str, inputs: Any) -> Trace:
        thread = metadata.get("thread_id")
        start = {
            "graph": graph,
            "version": versions(),
            "input": sha256(repr(self.settings.redact(plain_input(inputs))).encode()).hexdigest(),
            "resumes": False,
            **given_in(inputs),
        }
        thread = None if thread is None else str(thread)
        return Trace(str(run_id), thread, user_of(metadata), "", start, depth=depth_in(metadata))

    def _begin(self, trace: Trace) -> None:
        start, trace.start = trace.start, None
        if start is not None:
            self._put(Place(trace, None, ()), "run_started", start)

    def _close(self, trace: Trace, status: str, **more: Any) -> None:
        try:
            self._begin(trace)
            seconds = round(time.monotonic() - trace.began, 6)
            ended = {"status": status, **more, "seconds": seconds, **trace.totals}
            self._put(Place(trace, None, ()), "run_ended", ended)
        finally:
            self._give_up(trace)

    def _count(self, trace: Trace, **more: float) -> None:
        for name, value in more.items():
            trace.totals[name] = trace.totals.get(name, 0) + value

    def _write(self, place: Place, kind: EventType, content: Mapping[str, Any]) -> None:
        if place.trace.is_closed:  # meanwhile
            return
        self._begin(place.trace)
        self._put(place, kind, content)

    def _put(self, place: Place, kind: EventType, content: Mapping[str, Any]) -> None:
        trace = place.trace
        told = self.settings.of(kind, content)
        at = round(time.monotonic() - trace.began, 6)
        draft = Draft(
            trace=trace.id,
            type=kind,
            time=now(),
            content={**told, "path": list(place.path), "task": list(place.task), "at": at},
            thread=trace.thread,
            user=trace.user,
            run=place.run or trace.run or trace.id,
            step=place.step,
        )
        done = self.writer.write(draft, delete_on=self._delete_on)
        if on_a_loop():  # which must not wait; there the barrier does, before what is to be paid
            return
        if kind in _TOGETHER:
            trace.told = done
        else:
            self.writer.wait(done)

    def _wait(self, place: Place) -> None:
        """What a node has told is stored before anything sees that it has ended."""
        told = place.trace.told
        if told is not None and not told.done() and not on_a_loop():
            self.writer.wait(told)

    @property
    def _delete_on(self) -> str | None:
        days = self.settings.keep_days
        return None if days is None else (datetime.now(UTC).date() + timedelta(days=days)).isoformat()
