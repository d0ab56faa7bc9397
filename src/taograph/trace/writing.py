"""Writing events as they happen, in a thread of its own: no event loop waits for a disk."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from taograph.redaction import redact
from taograph.trace.chain import Draft, LogKind, Sealer
from taograph.trace.stores import Store, open_store

log = logging.getLogger("taograph.trace")

OnError = Literal["warn", "stop"]
_AT_ONCE = 256
_WAIT_SECONDS = 30.0
_AGAIN_SECONDS = 5.0


class TraceError(RuntimeError):
    """An event could not be written, and the trace was set to stop the run then (``on_error="stop"``)."""


@dataclass(frozen=True, slots=True)
class _Closing:
    trace: str
    kind: LogKind
    time: str


@dataclass(frozen=True, slots=True)
class _Job:
    what: Draft | _Closing | None
    delete_on: str | None
    done: Future[None]


class Writer:
    """Writes events to a store, in their order.

    Args:
        url: Where to, as :func:`~taograph.trace.stores.open_store` takes it.
        sealer: Makes the chain.
        on_error: "warn": say once that events are lost, and go on; "stop": the run ends with :class:`TraceError`.

    Attributes:
        lost: How many events could not be written.
    """

    def __init__(self, url: str, sealer: Sealer, on_error: OnError) -> None:
        self.lost = 0
        self._url, self._sealer, self._on_error = url, sealer, on_error
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._failed: Exception | None = None
        self._not_before = 0.0
        atexit.register(self.close)

    def write(self, draft: Draft, *, delete_on: str | None = None) -> Future[None]:
        """Write an event; what is returned is done when it is stored.

        Args:
            draft: The event.
            delete_on: Date from which on its trace is to be deleted, where it is the first.

        Raises:
            TraceError: An event before it could not be written, and ``on_error`` is "stop".
        """
        if self._failed is not None and self._on_error == "stop":
            raise TraceError(_said(self._failed)) from self._failed
        return self._put(draft, delete_on)

    def log(self, kind: LogKind, trace: str, at: str) -> Future[None]:
        """Write down in the log what became of a trace."""
        return self._put(_Closing(trace, kind, at), None)

    def flush(self) -> None:
        """Wait until all that was given is stored.

        Raises:
            TraceError: It could not be, and ``on_error`` is "stop".
        """
        self.wait(self._put(None, None))

    def wait(self, done: Future[None]) -> None:
        """Wait for one event.

        Raises:
            TraceError: As :meth:`flush`.
        """
        try:
            done.result(_WAIT_SECONDS)
        except TimeoutError:
            if self._on_error == "stop":
                raise TraceError(f"the trace could not be written within {_WAIT_SECONDS:g} seconds") from None
            log.warning("the trace is not written yet after %g seconds; the run goes on", _WAIT_SECONDS)

    def close(self) -> None:
        """Write what is left, and close the store."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join(_WAIT_SECONDS)
        atexit.unregister(self.close)

    def _put(self, what: Draft | _Closing | None, delete_on: str | None) -> Future[None]:
        job = _Job(what, delete_on, Future())
        self._jobs.put(job)
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="taograph-trace", daemon=True)
                    self._thread.start()
        return job.done

    def _run(self) -> None:
        last = False
        while not last:
            jobs = [self._jobs.get()]
            while len(jobs) < _AT_ONCE:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            last = None in jobs
            self._do([job for job in jobs if job is not None])
        if self._store is not None:
            self._store.close()
            self._store = None

    def _do(self, jobs: list[_Job]) -> None:
        """Write what has come together: events in one transaction up to the next end of a trace."""
        batch: list[_Job] = []
        for job in jobs:
            what = job.what
            if isinstance(what, Draft) and (not batch or batch[0].delete_on == job.delete_on):
                batch.append(job)
                continue
            self._append(batch)
            batch = [job] if isinstance(what, Draft) else []
            if isinstance(what, _Closing):
                closing = what
                self._try([job], lambda store: store.log(closing.kind, closing.trace, closing.time, self._sealer))  # noqa: B023
            elif what is None:
                self._answer(job)
        self._append(batch)

    def _append(self, batch: list[_Job]) -> None:
        if batch:
            drafts = [job.what for job in batch if isinstance(job.what, Draft)]
            self._try(batch, lambda store: store.append(drafts, self._sealer, delete_on=batch[0].delete_on))

    def _try(self, jobs: list[_Job], do: Callable[[Store], Any]) -> None:
        if self._failed is not None and time.monotonic() < self._not_before:
            self._lose(jobs, self._failed)
            return
        try:
            if self._store is None:
                self._store = open_store(self._url)
            do(self._store)
        except Exception as error:  # noqa: BLE001 - a full disk, a dead database: whatever it is, it is told
            if self._failed is None:
                log.warning("the trace can't be written, events are lost: %s", _said(error))
            self._failed = error
            self._not_before = time.monotonic() + _AGAIN_SECONDS
            self._lose(jobs, error)
            return
        if self._failed is not None:
            self._failed = None
            log.warning("the trace is written again; %d events were lost", self.lost)
        for job in jobs:
            self._answer(job)

    def _lose(self, jobs: list[_Job], error: Exception) -> None:
        self.lost += sum(isinstance(job.what, Draft) for job in jobs)
        for job in jobs:
            if self._on_error == "stop":
                failure = TraceError(_said(error))
                failure.__cause__ = error
                job.done.set_exception(failure)
            else:
                job.done.set_result(None)

    def _answer(self, job: _Job) -> None:
        if self._failed is not None and self._on_error == "stop":
            job.done.set_exception(TraceError(_said(self._failed)))
        else:
            job.done.set_result(None)


def _said(error: Exception) -> str:
    return redact(f"the trace can't be written: {type(error).__name__}: {error}".split("\n", 1)[0])[:300]
