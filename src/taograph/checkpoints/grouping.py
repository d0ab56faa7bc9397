"""Several writes in one transaction, where they come faster than transactions end.

Databases call it group commit: what waits while a transaction is being written down is done in the next one, together.
A write that fails takes none of the others with it, and each is told that it is done when it is on the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    do: Callable[[], Any]
    writes: bool
    future: Future[Any] = field(default_factory=Future)


class Grouping(Executor):
    """A thread that does what it is given in the order in which it came, writes that follow each other together.

    Args:
        name: Of the thread.
        group: A transaction around several writes; it gives what runs one of them, so that it leaves nothing behind
            where it fails.

    Attributes:
        together_in: The thread that has such a transaction now, whichever copy of a saver it is done for.
    """

    def __init__(self, name: str, group: Callable[[], AbstractContextManager[Callable[..., Any]]]) -> None:
        self._threads = ThreadPoolExecutor(1, name)
        self._group = group
        self.together_in: int | None = None
        self._jobs: deque[_Job] = deque()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do something on its own."""
        return self._added(_Job(lambda: fn(*args, **kwargs), writes=False))

    def write(self, do: Callable[[], T]) -> Future[T]:
        """Do something that writes, perhaps with others in one transaction."""
        return self._added(_Job(do, writes=True))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do what was given so far, and end."""
        self._threads.shutdown(wait)

    def _added(self, job: _Job) -> Future[Any]:
        self._jobs.append(job)
        try:
            self._threads.submit(self._work)
        except RuntimeError:  # it was shut down
            with suppress(ValueError):  # what is being done for another job has taken it along
                self._jobs.remove(job)
                raise
        return job.future

    def _work(self) -> None:
        """Do all that waits; what is given meanwhile has a call of its own, which may find nothing left."""
        while self._jobs:
            jobs = [self._jobs.popleft()]
            while jobs[0].writes and self._jobs and self._jobs[0].writes and len(jobs) < _MOST_AT_ONCE:
                jobs.append(self._jobs.popleft())
            jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            if len(jobs) < 2 or not self._done_together(jobs):
                for job in jobs:
                    _tell(job, *_outcome(job.do))

    def _done_together(self, jobs: list[_Job]) -> bool:
        """Do writes in one transaction; if it comes to nothing, none of them is told anything yet."""
        try:
            with self._group() as one:
                outcomes = [_outcome(one, job.do) for job in jobs]
        except Exception:  # noqa: BLE001 - each is done on its own then, and told what it fails with
            return False
        for job, outcome in zip(jobs, outcomes, strict=True):
            _tell(job, *outcome)
        return True


def _outcome(do: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    try:
        return do(*args), None
    except BaseException as error:  # noqa: BLE001 - it is the caller's
        return None, error


def _tell(job: _Job, result: Any, error: BaseException | None) -> None:
    if error is None:
        job.future.set_result(result)
    else:
        job.future.set_exception(error)
