"""Sync and async from one core: steps of work are generators that yield the calls they need made.

A node or a tool run is written once, as a generator that yields :class:`Call` and :class:`Pause` values and
is sent what came of them; :mod:`taograph.beside` has what it yields to begin others beside itself. :func:`drive`
makes the calls with threads, :func:`adrive` on the event loop. Either way a call is given up at its timeout, or when
the run is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from dataclasses import dataclass
from functools import wraps
from time import monotonic
from typing import Any, TypeVar

from taograph.background import BACKGROUND
from taograph.beside import Crew, Receive, Start
from taograph.cancel import Cancellation, current_cancellation
from taograph.threads import Job, ThreadPool

T = TypeVar("T")
W = TypeVar("W")

# Models and tools have pools of their own: a tool that runs a graph waits for a model, never the reverse.
MODEL_THREADS = ThreadPool(256, "taograph-model")
TOOL_THREADS = ThreadPool(128, "taograph-tool")

# How long a coroutine that was cancelled may take to clean up before it is left behind.
_GRACE_SECONDS = 0.5
# How long a result that must not be lost may still come, once the task that asked for it is cancelled.
_ARRIVING_SECONDS = 0.2


_ENDING = (SystemExit, GeneratorExit, asyncio.CancelledError, BaseExceptionGroup)


class TimedOut(Exception):  # noqa: N818 - a signal to the core, named for what happened
    """A call was given up because its time ran out.

    Attributes:
        begun: Whether it may have begun.
    """

    def __init__(self, *, begun: bool = True) -> None:
        super().__init__()
        self.begun = begun


class Cancelled(Exception):  # noqa: N818 - likewise
    """A call was given up because the run was cancelled.

    Attributes:
        reason: What the caller gave as the reason.
        begun: Whether it may have begun.
    """

    def __init__(self, reason: str, *, begun: bool = True) -> None:
        super().__init__(reason)
        self.reason, self.begun = reason, begun


class Exited(Exception):  # noqa: N818 - likewise
    """What was called tried to end more than itself: it raised what ends a task, a loop or the process.

    ``KeyboardInterrupt``, which is a person's, and exceptions that are made to pass everything are left alone.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)
        self.error = error


@dataclass(frozen=True, slots=True)
class Call:
    """Something to be called with a timeout, in whichever way it can be.

    Attributes:
        func: The blocking way, or None where there is none.
        afunc: The async way, or None where there is none.
        timeout: Seconds, or None for as long as it takes; 0 or less gives up at once.
        pool: The threads that the blocking way runs in.
        certain: Made whatever becomes of the run, and never given up: it writes down what was done.
        once_begun: Seconds from when it begins, for which the blocking way may wait: for a thread.
        arrived: Is given the result of the async way where the task that asked for it is cancelled in that very moment.
    """

    func: Callable[[], Any] | None
    afunc: Callable[[], Awaitable[Any]] | None
    timeout: float | None
    pool: ThreadPool
    certain: bool = False
    once_begun: float | None = None
    arrived: Callable[[Any], Awaitable[None]] | None = None

    def first_look(self) -> float | None:
        """Seconds until it is to be seen whether its time is over."""
        if self.timeout is None or self.once_begun is None:
            return self.once_begun if self.timeout is None else self.timeout
        return min(self.timeout, self.once_begun)

    def next_look(self, running: object, since: float, wake: Callable[[], None]) -> float | None:
        """Then, the seconds until the next one, None for no other; 0 or less where its time is over."""
        if self.once_begun is None or not isinstance(running, Job):
            return 0.0
        own = running.seconds_left(self.once_begun, wake)
        whole = None if self.timeout is None else since + self.timeout - monotonic()
        return whole if own is None else own if whole is None else min(own, whole)


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait of so many seconds that a cancellation ends early."""

    seconds: float


Wanted = Call | Pause | Start | Receive
Steps = Generator[Wanted, Any, T]


def drive(steps: Steps[T]) -> T:
    """Run a core to its end from synchronous code."""
    cancel, crew = current_cancellation(), Crew()
    try:
        return take(steps, lambda wanted: _make(wanted, cancel, crew))
    finally:
        crew.end()


async def adrive(steps: Steps[T]) -> T:
    """Run a core to its end on the event loop, without blocking it."""
    cancel, crew = current_cancellation(), Crew()
    try:
        return await atake(steps, lambda wanted: _amake(wanted, cancel, crew))
    finally:
        await crew.aend()


def take(steps: Generator[W, Any, T], make: Callable[[W], Any]) -> T:
    """Take the steps of any core: what it yields is made, and it is sent what came of that."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = make(wanted)
            except BaseException as error:  # noqa: BLE001 - the core decides what it means, KeyboardInterrupt included
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def atake(steps: Generator[W, Any, T], make: Callable[[W], Awaitable[Any]]) -> T:
    """The async twin of :func:`take`."""
    try:
        wanted = next(steps)
        while True:
            try:
                result = await make(wanted)
            except BaseException as error:  # noqa: BLE001 - the end of the task included
                wanted = steps.throw(error)
            else:
                wanted = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def refuse_if_cancelled() -> None:
    """Stop a step of work here if its run was cancelled.

    Raises:
        Cancelled: It was.
    """
    cancel = current_cancellation()
    if cancel is not None and cancel.reason is not None:
        raise Cancelled(cancel.reason)


def _refuse(call: Call, cancel: Cancellation | None) -> None:
    if cancel is not None and cancel.reason is not None:
        raise Cancelled(cancel.reason, begun=False)
    if call.timeout is not None and call.timeout <= 0:
        raise TimedOut(begun=False)


def _make(wanted: Wanted, cancel: Cancellation | None, crew: Crew) -> Any:
    if isinstance(wanted, Start):
        return crew.start(wanted, cancel, drive)
    if isinstance(wanted, Receive):
        cut = None if wanted.certain else cancel
        wanted.mailbox.wait(wanted.timeout, cut)
        return _received(wanted, cut)
    return _called(wanted, cancel)


def _called(wanted: Call | Pause, cancel: Cancellation | None) -> Any:
    done = threading.Event()
    if isinstance(wanted, Pause):
        unsubscribe = cancel.subscribe(done.set) if cancel else None
        done.wait(wanted.seconds)
        if unsubscribe:
            unsubscribe()
        return None
    if wanted.certain and wanted.func is not None:
        return _call(wanted.func)
    _refuse(wanted, cancel)
    future: Future[Any]
    if wanted.func is not None:
        if cancel is None and wanted.first_look() is None:
            return _call(wanted.func)
        future = wanted.pool.submit(wanted.func)
    elif wanted.afunc is not None:
        future = asyncio.run_coroutine_threadsafe(_alone(wanted.afunc), BACKGROUND.loop())
    else:
        raise TypeError("a Call needs func or afunc")
    future.add_done_callback(lambda _: done.set())
    unsubscribe = cancel.subscribe(done.set) if cancel else None
    ended, begun = False, True
    try:
        _wait(wanted, future, done, cancel)
        ended = future.done()
    finally:  # KeyboardInterrupt included
        if unsubscribe:
            unsubscribe()
        if not ended:
            begun = _give_up(future, wanted)
    if ended or (future.done() and not future.cancelled()):
        return _result(future)
    raise _cause(cancel, begun)


def _wait(call: Call, running: Future[Any], done: threading.Event, cancel: Cancellation | None) -> None:
    """Wait until a call has ended, its time is over, or the run is cancelled."""
    since, seconds = monotonic(), call.first_look()
    while seconds is None or seconds > 0:
        done.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        done.clear()  # before what it was set for is looked at
        if running.done() or (cancel is not None and cancel.reason is not None):
            return
        seconds = call.next_look(running, since, done.set)


def _cause(cancel: Cancellation | None, begun: bool) -> TimedOut | Cancelled:
    """Why a call was given up."""
    if cancel is not None and cancel.reason is not None:
        return Cancelled(cancel.reason, begun=begun)
    return TimedOut(begun=begun)


def _call(function: Callable[[], T]) -> T:
    try:
        return function()
    except Exception:
        raise
    except _ENDING as error:
        raise Exited(error) from None


def _give_up(running: Future[Any] | asyncio.Task[Any], call: Call) -> bool:
    """Leave a call alone; whether it had begun."""
    if isinstance(running, Job):
        return call.pool.abandon(running)
    running.cancel()
    return True


def _received(wanted: Receive, cancel: Cancellation | None) -> Any:
    if cancel is not None and cancel.reason is not None:
        raise Cancelled(cancel.reason)
    if wanted.mailbox.empty():
        raise TimedOut
    return wanted.mailbox.take()


async def _amake(wanted: Wanted, cancel: Cancellation | None, crew: Crew) -> Any:
    if isinstance(wanted, Start):
        return crew.astart(wanted, cancel, adrive)
    if isinstance(wanted, Receive):
        cut = None if wanted.certain else cancel
        await wanted.mailbox.await_event(wanted.timeout, cut)
        return _received(wanted, cut)
    return await _acalled(wanted, cancel)


async def _acalled(wanted: Call | Pause, cancel: Cancellation | None) -> Any:
    if isinstance(wanted, Pause):
        seconds = wanted.seconds
        wanted = Call(None, lambda: asyncio.sleep(seconds), None, TOOL_THREADS)
    if wanted.certain and wanted.afunc is not None:
        return await _inline(wanted.afunc)
    _refuse(wanted, cancel)
    if wanted.afunc is not None and cancel is None and wanted.first_look() is None:
        return await _inline(wanted.afunc)
    return await _cut(wanted, cancel)


async def _cut(call: Call, cancel: Cancellation | None) -> Any:  # noqa: PLR0915 - from its beginning to its end
    """A call until it is done, its time is over, or the run is cancelled."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    def wake_from_any_thread(_: object = None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(wake)

    async def wait() -> None:
        nonlocal woken
        since, seconds = monotonic(), call.first_look()
        while seconds is None or seconds > 0:
            timer = None if seconds is None else loop.call_later(seconds, wake)
            try:
                await woken
            finally:
                if timer is not None:
                    timer.cancel()
            if running.done() or (cancel is not None and cancel.reason is not None):
                return
            woken = loop.create_future()
            seconds = call.next_look(running, since, wake_from_any_thread)

    task: asyncio.Task[Any] | None = None
    running: asyncio.Task[Any] | Future[Any]
    if call.afunc is not None:
        running = task = loop.create_task(_alone(call.afunc))
        task.add_done_callback(wake)
    elif call.func is not None:
        running = call.pool.submit(call.func)
        running.add_done_callback(wake_from_any_thread)
    else:
        raise TypeError("a Call needs func or afunc")

    unsubscribe = None if cancel is None else cancel.subscribe(wake_from_any_thread)
    ended, begun = False, True
    try:
        await wait()
        ended = running.done()
    except asyncio.CancelledError:
        await _written_down(task, call)
        raise
    finally:  # the task around us may be cancelled too
        if unsubscribe is not None:
            unsubscribe()
        if not ended:
            begun = _give_up(running, call)
    if ended:
        return _result(running)
    if task is not None:
        await asyncio.wait({task}, timeout=_GRACE_SECONDS)
    raise _cause(cancel, begun)


async def _written_down(task: asyncio.Task[Any] | None, call: Call) -> None:
    """See to a result that is about to come while nobody is left to take it, as when a task beside this one failed."""
    if task is None or call.arrived is None:
        return
    try:
        if not task.done():
            await asyncio.wait({task}, timeout=_ARRIVING_SECONDS)
    finally:  # who is cancelled once may be cancelled twice
        if task.done() and not task.cancelled() and task.exception() is None:
            await call.arrived(task.result())


async def _inline(function: Callable[[], Awaitable[T]]) -> T:
    """A call that nothing can cut but the end of the task around it."""
    try:
        return await function()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Exited(error) from None


def _result(future: Future[Any] | asyncio.Future[Any]) -> Any:
    """The result of a call that ended by itself."""
    try:
        return future.result()
    except FutureCancelled as error:
        raise Exited(error) from None
    except Exception:
        raise
    except _ENDING as error:  # nobody cancelled it: it raised that itself
        raise Exited(error) from None


async def _alone(function: Callable[[], Awaitable[T]]) -> T:
    """A call in a task of its own, of which nobody speaks when it was given up, and which ends no more than itself."""
    task = asyncio.current_task()
    if task is not None:
        task.add_done_callback(_fetched)
    try:
        return await function()
    except SystemExit as error:
        raise Exited(error) from None


def _fetched(ended: asyncio.Future[Any]) -> None:
    """See what a task raised: asyncio logs an exception that nobody fetched, with its text."""
    if not ended.cancelled():
        ended.exception()


def contained(function: Callable[..., Awaitable[T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    """A coroutine function whose ``SystemExit`` ends the call and not the event loop, to which asyncio hands it."""

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> T:
        try:
            return await function(*args, **kwargs)
        except SystemExit as error:
            raise Exited(error) from None

    return call
