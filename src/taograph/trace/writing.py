"""Writing events as they happen, in a thread of its own: no event loop waits for a disk."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

from taograph.redaction import redact
from taograph.trace.chain import Draft, Sealer
from taograph.trace.stores import Store, open_store

log = logging.getLogger("taograph.trace")

OnError = Literal["warn", "stop"]
_AT_ONCE = 256
_WAIT_SECONDS = 30.0
_AGAIN_SECONDS = 5.0
_MOST_SECONDS = 60.0
_REMEMBERED = 10_000
_LATE = f"the trace is not written yet after {_WAIT_SECONDS:g} seconds"
# What an event by itself may be the cause of.
_OF_ONE = (ValueError, TypeError, RecursionError)


class TraceError(RuntimeError):
    """An event could not be written, and the trace was set to stop the run then (``on_error="stop"``)."""


@dataclass(frozen=True, slots=True)
class _Job:
    """An event to be written; None is a question whether all before it is."""

    what: Draft | None
    delete_on: str | None
    done: Future[None]


@dataclass(frozen=True, slots=True)
class _Gap:
    """Events of a trace that could not be written."""

    first: Draft
    delete_on: str | None
    lost: int

    def draft(self) -> Draft:
        """The event that says so."""
        content = {"lost": self.lost, "path": [], "at": self.first.content.get("at", 0.0)}
        return replace(self.first, type="gap", content=content, step=0)


class Writer:
    """Writes events to a store, in their order.

    Args:
        url: Where to, as :func:`~taograph.trace.stores.open_store` takes it.
        sealer: Makes the chain.
        on_error: "warn": say once that events are lost, and go on; "stop": the run ends with :class:`TraceError`.

    Attributes:
        lost: How many events could not be written.
        told: Who tells of which run of LangChain's: what is recorded twice at one place is told of once.
    """

    def __init__(self, url: str, sealer: Sealer, on_error: OnError) -> None:
        self.lost = 0
        self.told: dict[UUID, object] = {}
        self._url, self._sealer, self._on_error = url, sealer, on_error
        self._gaps: dict[str, _Gap] = {}
        self._begin_anew()
        _writers.add(self)

    def _begin_anew(self) -> None:
        """Also in a process that was forked: it has neither the thread nor the right to the open store."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._last: Future[None] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._at_work = threading.Lock()
        self._store: Store | None = None
        self._failed: Exception | None = None
        self._not_before = 0.0
        self._is_late = False
        self._gaps.clear()
        self._broken: dict[str, Exception] = {}

    def write(self, draft: Draft, *, delete_on: str | None = None) -> Future[None]:
        """Write an event; what is returned is done when it is stored, or lost.

        Args:
            draft: The event.
            delete_on: Date from which on its trace is to be deleted, where it is the first.
        """
        return self._put(draft, delete_on)

    def flush(self, trace: str | None = None) -> None:
        """Wait until all that was given is stored.

        Args:
            trace: The trace that it is asked for; None for all.

        Raises:
            TraceError: It could not be, or an event of the trace was lost before; and ``on_error`` is "stop".
        """
        last = self._last
        is_all = (last is None or last.done()) and self._failed is None  # else a question has it try once more
        if not is_all and not self.wait(self._put(None, None)) and self._on_error == "stop":
            raise TraceError(_LATE)
        if self._on_error == "stop":
            error = self._failed if trace is None else self._broken.get(trace)
            if error is not None:
                raise TraceError(_said(error)) from error

    def wait(self, done: Future[None]) -> bool:
        """Wait until an event is stored, or lost; returns False where that takes too long.

        Once it did, nobody waits until the store has answered: a run would do nothing else.
        """
        if done.done() or wait([done], 0.0 if self._is_late else _WAIT_SECONDS).done:
            return True
        if not self._is_late:
            self._is_late = True
            log.warning("%s%s", _LATE, "" if self._on_error == "stop" else "; the run goes on")
        return False

    def close(self) -> None:
        """Write what is left, and close the store."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
        if thread is not None:
            thread.join(_WAIT_SECONDS)

    def _put(self, what: Draft | None, delete_on: str | None) -> Future[None]:
        job = _Job(what, delete_on, Future())
        with self._lock:
            self._jobs.put(job)
            self._last = job.done
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(self._jobs,), name="taograph-trace", daemon=True
                )
                self._thread.start()
        return job.done

    def _run(self, waiting: queue.SimpleQueue[_Job | None]) -> None:
        with self._at_work:  # one that was closed may not have ended yet
            self._work(waiting)

    def _work(self, waiting: queue.SimpleQueue[_Job | None]) -> None:
        last = False
        while not last:
            jobs = [waiting.get()]
            while len(jobs) < _AT_ONCE and jobs[-1] is not None:
                try:
                    jobs.append(waiting.get_nowait())
                except queue.Empty:
                    break
            last = jobs[-1] is None
            self._do([job for job in jobs if job is not None])
            self._is_late = False
        if self._gaps:
            self._not_before = 0.0
            self._try([], lambda store: None)
        if self._gaps:
            log.warning("the trace could not be written to the end: %d events are lost", self.lost)
        self._let_go()

    def _let_go(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            try:
                store.close()
            except Exception as error:  # noqa: BLE001 - what could not be written was told
                log.info("%s", _said(error))

    def _do(self, jobs: list[_Job]) -> None:
        """Write what has come together: as many events in one transaction as go together."""
        batch: list[_Job] = []
        for job in jobs:
            if job.what is not None and (not batch or batch[0].delete_on == job.delete_on):
                batch.append(job)
                continue
            self._append(batch)
            batch = [job] if job.what is not None else []
            if job.what is None:
                self._try([job], lambda store: None) if self._failed else job.done.set_result(None)
        self._append(batch)

    def _append(self, batch: list[_Job]) -> None:
        if batch:
            drafts = [job.what for job in batch if job.what is not None]
            self._try(batch, lambda store: store.append(drafts, self._sealer, delete_on=batch[0].delete_on))

    def _try(self, jobs: list[_Job], do: Callable[[Store], Any]) -> None:
        if self._failed is not None and time.monotonic() < self._not_before:
            self._lose(jobs, self._failed)
            return
        began = time.monotonic()
        try:
            if self._store is None:
                self._store = open_store(self._url)
            for trace, gap in list(self._gaps.items()):  # first of all: it is where the events would be
                self._store.append([gap.draft()], self._sealer, delete_on=gap.delete_on)
                del self._gaps[trace]
            do(self._store)
        except Exception as error:  # noqa: BLE001 - a full disk, a dead database: whatever it is, it is told
            if isinstance(error, _OF_ONE) and len(jobs) > 1:  # the others are written
                for job in jobs:
                    self._append([job])
                return
            if self._failed is None:
                log.warning("%s; events are lost", _said(error))
            self._failed = error
            ended = time.monotonic()  # a run that waits for a dead server does little else
            if self._store is None or not isinstance(error, _OF_ONE):
                self._let_go()  # a file may have been moved, a server started anew: what is there is opened then
                self._not_before = ended + max(_AGAIN_SECONDS, min(10 * (ended - began), _MOST_SECONDS))
            self._lose(jobs, error)
            return
        if self._failed is not None:
            self._failed = None
            log.warning("the trace is written again; %d events were lost", self.lost)
        for job in jobs:
            job.done.set_result(None)

    def _lose(self, jobs: list[_Job], error: Exception) -> None:
        for job in jobs:
            draft = job.what
            if draft is not None:
                self.lost += 1
                gap = self._gaps.get(draft.trace) or _Gap(draft, job.delete_on, 0)
                self._gaps[draft.trace] = replace(gap, lost=gap.lost + 1)
                self._broken[draft.trace] = error
            job.done.set_result(None)
        for known in (self._gaps, self._broken):
            while len(known) > _REMEMBERED:
                del known[next(iter(known))]


def _said(error: Exception) -> str:
    return redact(f"the trace can't be written: {type(error).__name__}: {error}".split("\n", 1)[0])[:300]


_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


def _close_all() -> None:
    for writer in list(_writers):
        writer.close()


def _forked() -> None:
    for writer in list(_writers):
        writer._begin_anew()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
