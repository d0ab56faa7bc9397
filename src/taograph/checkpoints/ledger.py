"""The ledger: what was begun and what came of it, in the database of the checkpoints.

LangGraph stores the result of a call when its task has ended. A process that dies before that has run the tool and
lost the result, and the run that is resumed would run it again. So a call is written down here before it begins, if
its tool has effects, and with its result right when it returned:

- *finished*: its result is taken from here; the tool is not run a second time;
- *begun and not finished*: whether it took effect nobody knows. One that may be repeated (``effects="idempotent"``)
  is, with the same key; one that must not (``"once"``) never is by itself, see ``graphs/loop/effects.py``;
- *waiting*: it asked a person something, and is run from its top when they have answered.

A call is known by its thread, its namespace, its run, its id and a hash of tool and arguments: the same id with other
arguments, as after an edit of the state, is another call. Results of tools that only read are kept until the next
reply of the model, when they are stored with the run; those of others as long as the thread. Replies of models and
answers of persons are kept in the same way, by the task that they belong to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar, get_args

from taograph.calls import TOOL_THREADS, Call
from taograph.checkpoints.saver import Checkpoints, Execute

T = TypeVar("T")
TABLE = "taograph_calls"
CallState = Literal["begun", "waiting", "finished"]
_COLUMNS = "thread_id, checkpoint_ns, scope, call_id, args_hash"
_WHERE = "thread_id = ? AND checkpoint_ns = ? AND scope = ? AND call_id = ? AND args_hash = ?"
# What was kept for the step before is few among all calls of a long thread.
_INDEX = f"CREATE INDEX IF NOT EXISTS {TABLE}_passing ON {TABLE} (thread_id, checkpoint_ns) WHERE kept = 0"
_MOST_AT_ONCE = 100  # parameters of a statement


@dataclass(frozen=True, slots=True)
class CallKey:
    """What a call is known by.

    Attributes:
        thread: The thread.
        ns: The graph's namespace within the thread; empty for the outermost.
        scope: Within what its id is its own: the run of a call, the task of a reply or an answer.
        call: The call's id.
        hash: :func:`hash_of` its tool and arguments.
    """

    thread: str
    ns: str
    scope: str
    call: str
    hash: str

    @property
    def idempotency(self) -> str:
        """The same for every try of this call, and for no other: what a service recognizes a repetition by."""
        return sha256("\0".join(self.place).encode()).hexdigest()[:32]

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """The values of the key's columns."""
        return self.thread, self.ns, self.scope, self.call, self.hash


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger knows of a call.

    Attributes:
        state: "begun", "waiting" or "finished".
        tries: How often it was begun.
        since: When it was last begun, in seconds since 1970.
        result: What it returned, as it was handed to :meth:`Ledger.finish`; None where that could not be stored.
    """

    state: CallState
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

    def _transaction(self) -> AbstractContextManager[Execute]:
        if TABLE not in self.saver.made:
            self._make()
        return self.saver.transaction()

    def _make(self) -> None:
        """Make the table, unless there is one."""
        try:
            with self.saver.transaction() as execute:
                if not self.saver.has_table(execute, TABLE):
                    execute(_table_of(self.saver.binary))
                    execute(_INDEX)
        except Exception:
            with self.saver.transaction() as execute:  # another process may have made it at the same moment
                if not self.saver.has_table(execute, TABLE):
                    raise
        if self.saver.commits:  # else it may be rolled back yet
            self.saver.made.add(TABLE)

    def doing(self, do: Callable[[], T]) -> Call:
        """Something to be done with the ledger in a step of work; it is done also in a run that is being cancelled."""
        return Call(do, lambda: self.saver.store(do), None, TOOL_THREADS, certain=True)

    def has_stored(self, thread: str, places: Mapping[str, str]) -> bool:
        """Whether checkpoints are stored.

        Args:
            thread: Their thread.
            places: Their ids, by namespace.
        """
        sql = "SELECT 1 FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
        with self._transaction() as execute:
            return all(execute(sql, thread, *place) for place in places.items())

    def find(self, key: CallKey) -> Entry | None:
        """What is known of a call."""
        with self._transaction() as execute:
            return self._find(execute, key)

    def begin(self, key: CallKey, tool: str) -> Entry | None:
        """Write down that a call begins, unless it was begun before.

        Returns:
            None where it begins now; else what is known, unchanged.
        """
        with self._transaction() as execute:
            begins = execute(
                f"INSERT INTO {TABLE} ({_COLUMNS}, tool, state, tries, since, kept) "  # noqa: S608 - constants
                "VALUES (?, ?, ?, ?, ?, ?, 'begun', 1, ?, 1) ON CONFLICT DO NOTHING RETURNING 1",
                *key.place,
                tool,
                time.time(),
            ) or self._again(execute, key, "waiting")
            return None if begins else self._find(execute, key)

    def again(self, key: CallKey) -> None:
        """Write down that a call that was not finished begins once more."""
        with self._transaction() as execute:
            self._again(execute, key, "begun")

    def wait(self, key: CallKey) -> None:
        """Write down that a call that was begun waits for a person, and will be run from its top again."""
        with self._transaction() as execute:
            execute(
                f"UPDATE {TABLE} SET state = 'waiting' WHERE {_WHERE} AND state = 'begun'",  # noqa: S608
                *key.place,
            )

    def finish(self, key: CallKey, tool: str, result: Any, *, keep: bool, only: bool = False) -> None:
        """Write down what a call returned.

        Args:
            key: The call.
            tool: Its tool.
            result: Plain values and messages; what cannot be stored is left out.
            keep: Keep it as long as the thread; else until something is finished with ``only``.
            only: What else was kept until now is stored with the run: forget it, unless it has the same scope.
        """
        kind, blob = self._stored(result)
        with self._transaction() as execute:
            execute(
                f"INSERT INTO {TABLE} ({_COLUMNS}, tool, state, tries, since, kept, type, result) "  # noqa: S608
                f"VALUES (?, ?, ?, ?, ?, ?, 'finished', 1, ?, ?, ?, ?) ON CONFLICT ({_COLUMNS}) DO UPDATE SET "
                "state = excluded.state, kept = excluded.kept, type = excluded.type, result = excluded.result",
                *key.place,
                tool,
                time.time(),
                int(keep),
                kind,
                blob,
            )
            if only:
                execute(
                    f"DELETE FROM {TABLE} WHERE thread_id = ? AND checkpoint_ns = ? AND kept = 0 AND scope <> ? "  # noqa: S608
                    "AND state = 'finished'",
                    key.thread,
                    key.ns,
                    key.scope,
                )

    def left(self, thread: str, ns: str, scope: str, calls: Collection[str]) -> dict[str, Entry]:
        """What is known of calls whose results are not in the messages; it is kept with the thread from now on.

        Args:
            thread: The thread.
            ns: The graph's namespace.
            scope: Their run.
            calls: Their ids.

        Returns:
            By id: of a call that a person edited, what ran.
        """
        found: dict[str, Entry] = {}
        ids = list(calls)
        with self._transaction() as execute:
            for start in range(0, len(ids), _MOST_AT_ONCE):
                some = ids[start : start + _MOST_AT_ONCE]
                marks = ", ".join("?" * len(some))
                rows = execute(
                    f"UPDATE {TABLE} SET kept = 1 WHERE thread_id = ? AND checkpoint_ns = ? AND scope = ? "  # noqa: S608
                    f"AND call_id IN ({marks}) RETURNING call_id, state, tries, since, type, result",
                    *(thread, ns, scope, *some),
                )
                for call, *row in rows:
                    entry = self._entry(row)
                    if call not in found or _ORDER.index(entry.state) > _ORDER.index(found[call].state):
                        found[call] = entry
        return found

    def _find(self, execute: Execute, key: CallKey) -> Entry | None:
        rows = execute(
            f"SELECT state, tries, since, type, result FROM {TABLE} WHERE {_WHERE}",  # noqa: S608
            *key.place,
        )
        return self._entry(rows[0]) if rows else None

    def _again(self, execute: Execute, key: CallKey, state: CallState) -> bool:
        changed = execute(
            f"UPDATE {TABLE} SET state = 'begun', tries = tries + 1, since = ? WHERE {_WHERE} AND state = ? "  # noqa: S608
            "RETURNING 1",
            time.time(),
            *key.place,
            state,
        )
        return bool(changed)

    def _entry(self, row: Any) -> Entry:
        state, tries, since, kind, blob = row
        result = None if blob is None else self.saver.serde.loads_typed((kind, bytes(blob)))
        return Entry(state, tries, since, result)

    def _stored(self, result: Any) -> tuple[str | None, bytes | None]:
        try:
            return self.saver.serde.dumps_typed(result)
        except Exception:  # noqa: BLE001 - whatever a serializer may raise: that it finished is known all the same
            return None, None


_ORDER = get_args(CallState)


def ledger_of(saver: Any) -> Ledger | None:
    """The ledger beside a saver's checkpoints; None where the saver is none of ours."""
    return Ledger(saver) if isinstance(saver, Checkpoints) else None


def copy_calls(
    saver: Checkpoints, execute: Execute, source: str, target: str, calls: Collection[str] | None = None
) -> None:
    """Copy what is known of a thread to another, within a transaction.

    Args:
        saver: Where the threads are kept.
        execute: The transaction.
        source: The thread.
        target: The other one.
        calls: Ids of calls of the thread itself; None for all that is known, of nested graphs and replies, too.
    """
    if not saver.has_table(execute, TABLE):
        return
    others = "checkpoint_ns, scope, call_id, args_hash, tool, state, tries, since, kept, type, result"
    copied = f"INSERT INTO {TABLE} (thread_id, {others}) SELECT ?, {others} FROM {TABLE} WHERE thread_id = ?"  # noqa: S608
    if calls is None:
        execute(copied, target, source)
        return
    for call in calls:
        execute(f"{copied} AND checkpoint_ns = '' AND call_id = ?", target, source, call)


def _table_of(binary: str) -> str:
    """The statement that makes the table.

    Args:
        binary: The database's type of bytes.
    """
    return f"""
        CREATE TABLE IF NOT EXISTS {TABLE} (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL,
            scope TEXT NOT NULL,
            call_id TEXT NOT NULL,
            args_hash TEXT NOT NULL,
            tool TEXT NOT NULL,
            state TEXT NOT NULL,
            tries INTEGER NOT NULL,
            since DOUBLE PRECISION NOT NULL,
            kept INTEGER NOT NULL,
            type TEXT,
            result {binary},
            PRIMARY KEY (thread_id, checkpoint_ns, scope, call_id, args_hash)
        )"""
