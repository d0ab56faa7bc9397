"""The thread that listens, for all runs of this process, to what runs of other processes ask of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict

from taograph.writers.holders import ThreadLostError
from taograph.writers.places import Place, ThreadLock
from taograph.writers.turns import Turn

log = logging.getLogger("taograph.writers")

LOOK_SECONDS = 0.25
_REST_SECONDS = 20.0


class Watch:
    """Looks at every held lock a few times a second, as long as there are any.

    A run that is asked to end is cancelled, and so is one whose thread was lost: what it has in flight is cut.
    """

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):  # the thread is not in a child
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._held: dict[ThreadLock, tuple[Place, Turn]] = {}
        self._places: set[Place] = set()
        self._running = False

    def visit(self, place: Place) -> None:
        """A lock is to be taken at a place: let it rest when there are none any more."""
        with self._mutex:
            self._places.add(place)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="taograph-writers", daemon=True).start()

    def add(self, place: Place, lock: ThreadLock, turn: Turn) -> None:
        """Look at a lock that was taken at a place, from now on."""
        with self._mutex:
            self._held[lock] = (place, turn)

    def remove(self, lock: ThreadLock) -> None:
        """Do not look at it any more."""
        with self._mutex:
            self._held.pop(lock, None)

    def _run(self) -> None:
        idle = 0.0
        while True:
            time.sleep(LOOK_SECONDS)
            with self._mutex:
                held = self._held.copy()
                idle = 0.0 if held else idle + LOOK_SECONDS
                over = idle >= _REST_SECONDS
                if over:
                    places, self._places = self._places, set()
                    self._running = False
            if over:
                break
            self._look(held)
        for place in places:
            place.rest()

    def _look(self, held: dict[ThreadLock, tuple[Place, Turn]]) -> None:
        by_place: defaultdict[Place, list[ThreadLock]] = defaultdict(list)
        for lock, (place, _) in held.items():
            by_place[place].append(lock)
        for place, locks in by_place.items():
            try:
                asked = place.look(locks)
            except Exception:
                log.exception("could not see whether another run asks this one to end")
                continue
            for lock, ask in asked.items():
                held[lock][1].ask(ask)
        for lock, (_, turn) in held.items():
            if (why := lock.lost()) is not None and not turn.ending:
                turn.cancel.request(f"its thread was lost: {why}")


WATCH = Watch()


def check(lock: ThreadLock | None, thread: str) -> None:
    """Refuse to go on with a run that has lost its thread.

    Raises:
        ThreadLostError: It has.
    """
    if lock is not None and (why := lock.lost()) is not None:
        raise ThreadLostError(thread, why)
