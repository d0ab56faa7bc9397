"""The ledger of tool calls: what was begun, and what came of it, in the database of the checkpoints.

LangGraph stores the result of a call when its task has ended. A process that dies before that has run the tool and
lost the result, and the run that is resumed would run it again. So a call is written down here before it begins, if
its tool has effects, and with its result right when it returned:

- *finished*: its result is taken from here; the tool is not run a second time;
- *begun and not finished*: whether it took effect nobody knows. One that may be repeated (``effects="idempotent"``)
  is, with the same key; one that must not (``"once"``) never is by itself, see ``graphs/loop/effects.py``.

A call is known by its thread, its namespace, its id and a hash of tool and arguments: the same id with other
arguments, as after an edit of the state, is another call. Results of tools that only read are kept until the next
step is stored; those of others as long as the thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from weakref import WeakKeyDictionary

from taograph.checkpoints.retention import goes_along
from taograph.checkpoints.saver import Checkpoints, Execute

TABLE = "taograph_calls"
_LEDGERS: WeakKeyDictionary[Checkpoints, Ledger] = WeakKeyDictionary()
_COLUMNS = "thread_id, checkpoint_ns, call_id, args_hash"
_WHERE = "thread_id = ? AND checkpoint_ns = ? AND call_id = ? AND args_hash = ?"


@dataclass(frozen=True, slots=True)
class CallKey:
    """What a call is known by.

    Attributes:
        thread: The thread.
        ns: The graph's namespace within the thread; empty for the outermost.
        call: The call's id.
        hash: :func:`hash_of` its tool and arguments.
    """

    thread: str
    ns: str
    call: str
    hash: str

    @property
    def idempotency(self) -> str:
        """The same for every try of this call, and for no other: what a service recognizes a repetition by."""
        return sha256("\0".join((self.thread, self.ns, self.call, self.hash)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger knows of a call.

    Attributes:
        state: "begun" or "finished".
        tries: How often it was begun.
        since: When it was last begun, in seconds since 1970.
        result: What it returned, as it was handed to :meth:`Ledger.finish`; None where that could not be stored.
    """

    state: Literal["begun", "finished"]
    tries: int
    since: float
    result: Any = None


def hash_of(tool: str, args: Mapping[str, Any]) -> str:
    """A hash of a tool and its arguments, whatever the order of their names (SHA-256, in hex)."""
    text = json.dumps([tool, dict(args)], sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)
    return sha256(text.encode()).hexdigest()


class Ledger:
    """The ledger in the database of a saver. Each method is one transaction.

    Args:
        saver: As :func:`taograph.checkpoints.open` hands it out.
    """

    def __init__(self, saver: Checkpoints) -> None:
        self.saver = saver
        self._made = False
        goes_along(TABLE)

    def _transaction(self) -> AbstractContextManager[Execute]:
        if not self._made:
            self._make()
        return self.saver.transaction()

    def _make(self) -> None:
        """Make the table, unless there is one."""
        try:
            with self.saver.transaction() as execute:
                if not self.saver.has_table(execute, TABLE):
                    execute(_table_of(self.saver.binary))
        except Exception:
            with self.saver.transaction() as execute:  # another process may have made it at the same moment
                if not self.saver.has_table(execute, TABLE):
                    raise
        self._made = True

    def find(self, key: CallKey) -> Entry | None:
        """What is known of a call."""
        with self._transaction() as execute:
            return self._find(execute, key)

    def begin(self, key: CallKey, tool: str) -> Entry | None:
        """Write down that a call begins, unless it is known.

        Returns:
            None where it was not known and is begun now; else what is known, unchanged.
        """
        with self._transaction() as execute:
            known = self._find(execute, key)
            if known is None:
                execute(
                    f"INSERT INTO {TABLE} ({_COLUMNS}, tool, state, tries, since, step) "  # noqa: S608 - constants
                    "VALUES (?, ?, ?, ?, ?, 'begun', 1, ?, 0)",
                    *self._place(key),
                    tool,
                    time.time(),
                )
            return known

    def again(self, key: CallKey) -> None:
        """Write down that a call that was not finished begins once more."""
        with self._transaction() as execute:
            execute(
                f"UPDATE {TABLE} SET tries = tries + 1, since = ? WHERE {_WHERE}",  # noqa: S608
                time.time(),
                *self._place(key),
            )

    def release(self, key: CallKey) -> None:
        """Forget a call that was begun: it waits for a person, and will be run from its top again."""
        with self._transaction() as execute:
            execute(f"DELETE FROM {TABLE} WHERE {_WHERE} AND state = 'begun'", *self._place(key))  # noqa: S608

    def finish(self, key: CallKey, tool: str, result: Any, *, step: int, keep: bool) -> None:
        """Write down what a call returned.

        Args:
            key: The call.
            tool: Its tool.
            result: Plain values and messages; what cannot be stored is left out.
            step: The turn it belongs to.
            keep: Keep it as long as the thread; else until a call of a later step is finished.
        """
        kind, blob = self._stored(result)
        with self._transaction() as execute:
            changed = execute(
                f"UPDATE {TABLE} SET state = 'finished', step = ?, kept = ?, type = ?, result = ? "  # noqa: S608
                f"WHERE {_WHERE} RETURNING 1",
                step,
                int(keep),
                kind,
                blob,
                *self._place(key),
            )
            if not changed:
                execute(
                    f"INSERT INTO {TABLE} ({_COLUMNS}, tool, state, tries, since, step, kept, type, result) "  # noqa: S608
                    "VALUES (?, ?, ?, ?, ?, 'finished', 1, ?, ?, ?, ?, ?)",
                    *self._place(key),
                    tool,
                    time.time(),
                    step,
                    int(keep),
                    kind,
                    blob,
                )
            if not keep:
                execute(
                    f"DELETE FROM {TABLE} WHERE thread_id = ? AND checkpoint_ns = ? AND kept = 0 AND step < ? "  # noqa: S608
                    "AND state = 'finished'",
                    key.thread,
                    key.ns,
                    step,
                )

    def settle(self, thread: str, ns: str) -> None:
        """Forget what was kept only until it was stored with the run, which is over."""
        with self._transaction() as execute:
            execute(
                f"DELETE FROM {TABLE} WHERE thread_id = ? AND checkpoint_ns = ? AND kept = 0 AND state = 'finished'",  # noqa: S608
                thread,
                ns,
            )

    def _find(self, execute: Execute, key: CallKey) -> Entry | None:
        rows = execute(
            f"SELECT state, tries, since, type, result FROM {TABLE} WHERE {_WHERE}",  # noqa: S608
            *self._place(key),
        )
        if not rows:
            return None
        state, tries, since, kind, blob = rows[0]
        result = None if blob is None else self.saver.serde.loads_typed((kind, bytes(blob)))
        return Entry(state, tries, since, result)

    def _stored(self, result: Any) -> tuple[str | None, bytes | None]:
        try:
            return self.saver.serde.dumps_typed(result)
        except Exception:  # noqa: BLE001 - whatever a serializer may raise: that it finished is known all the same
            return None, None

    @staticmethod
    def _place(key: CallKey) -> tuple[str, str, str, str]:
        return key.thread, key.ns, key.call, key.hash


def ledger_of(saver: Any) -> Ledger | None:
    """The ledger beside a saver's checkpoints; None where the saver is none of ours."""
    if not isinstance(saver, Checkpoints):
        return None
    found = _LEDGERS.get(saver)
    if found is None:
        found = _LEDGERS[saver] = Ledger(saver)
    return found


def _table_of(binary: str) -> str:
    """The statement that makes the table.

    Args:
        binary: The database's type of bytes.
    """
    return f"""
        CREATE TABLE IF NOT EXISTS {TABLE} (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL,
            call_id TEXT NOT NULL,
            args_hash TEXT NOT NULL,
            tool TEXT NOT NULL,
            state TEXT NOT NULL,
            tries INTEGER NOT NULL,
            since DOUBLE PRECISION NOT NULL,
            step INTEGER NOT NULL,
            kept INTEGER NOT NULL DEFAULT 1,
            type TEXT,
            result {binary},
            PRIMARY KEY (thread_id, checkpoint_ns, call_id, args_hash)
        )"""
