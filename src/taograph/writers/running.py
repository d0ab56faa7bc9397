"""Running a graph as the only one on its thread: what a graph's ``stream`` and ``astream`` go through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from taograph.writers.claims import Claim, Wanted
from taograph.writers.steps import Steps, adrive, drive
from taograph.writers.undoing import checkpoint_before
from taograph.writers.watching import check

_END = object()


@dataclass(frozen=True, slots=True)
class Ready:
    """What a run is told when it has its thread.

    Attributes:
        saver: What it writes with, where not with its own checkpointer.
        checkpoint: The checkpoint that it goes on from, where not from the last one.
    """

    saver: Any
    checkpoint: str | None


def stream(start: Callable[[Ready], Any], wanted: Wanted) -> Generator[Any, None, None]:
    """Run a graph once it has its thread.

    Args:
        start: Starts its stream.
        wanted: What it needs.

    Yields:
        What its stream yields.

    Raises:
        ThreadBusyError: Another run has the thread. Nothing was started.
        ThreadLostError: The thread was lost meanwhile.
    """
    claim = Claim(wanted)
    ready = drive(_made_ready(claim), claim.outer)
    try:
        with claim:
            parts = start(ready)
        try:
            while True:
                with claim:
                    part = next(parts, _END)
                if part is _END:
                    return
                check(claim.lock, claim.thread)
                yield part
        finally:
            claim.closes()
            with claim:
                parts.close()
    finally:
        claim.release()


async def astream(start: Callable[[Ready], Any], wanted: Wanted) -> AsyncGenerator[Any, None]:
    """The async twin of :func:`stream`."""
    claim = Claim(wanted)
    ready = await adrive(_made_ready(claim), claim.outer)
    left: list[asyncio.Future[Any]] = []
    try:
        with claim:
            parts = start(ready)
        try:
            while True:
                with claim:
                    part = await anext(parts, _END)
                if part is _END:
                    return
                check(claim.lock, claim.thread)
                yield part
        except asyncio.CancelledError as error:
            # LangGraph hands on what it could not finish storing; until that is done, the thread is not free.
            left = [task for task in error.args if isinstance(task, asyncio.Future) and not task.done()]
            raise
        finally:
            claim.closes()
            with claim:
                await parts.aclose()
    finally:
        if left:
            asyncio.gather(*left, return_exceptions=True).add_done_callback(lambda _: claim.abandon())
        else:
            await claim.arelease()


@contextmanager
def hold(wanted: Wanted) -> Iterator[None]:
    """Have a thread to oneself without a run, as to change or delete it.

    Args:
        wanted: Which, and what to do where a run has it.

    Raises:
        ThreadBusyError: A run has the thread.
    """
    claim = Claim(wanted)
    drive(claim.take(), claim.outer)
    try:
        with claim:
            yield
    finally:
        claim.closes()
        claim.release()


@asynccontextmanager
async def ahold(wanted: Wanted) -> AsyncIterator[None]:
    """The async twin of :func:`hold`."""
    claim = Claim(wanted)
    await adrive(claim.take(), claim.outer)
    try:
        with claim:
            yield
    finally:
        claim.closes()
        await claim.arelease()


def _made_ready(claim: Claim) -> Steps[Ready]:
    yield from claim.take()
    wanted = claim.wanted
    checkpoint = None
    if claim.undoes and wanted.rewinds:
        try:
            checkpoint = yield from checkpoint_before(wanted.saver, wanted.thread, claim.undoes)
        except BaseException:
            claim.abandon()
            raise
    return Ready(claim.saver, checkpoint)
