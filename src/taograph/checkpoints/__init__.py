"""Where threads are kept, so that a run can be resumed, replayed and looked into: SQLite or PostgreSQL.

    with checkpoints.open("sqlite:///runs.db") as saver:
        graph = create_react_graph("openai:gpt-5-mini", tools, checkpointer=saver)

What is handed out is LangGraph's own saver for the database, for ``invoke`` and ``ainvoke`` alike, with what it
leaves to its user: tables made, a pool of checked connections, files that only their owner can read, encryption
that leaves nothing in clear, and retention (:mod:`taograph.checkpoints.retention`).

**What is stored where.** A *checkpoint* is made after every step of a graph: the values of its channels, their
versions, and metadata (source, step, what the config carried). What a task wrote is stored when the task ends,
beside the checkpoint that it began from. Messages are stored once, with the task that wrote them, and as a whole
list only when they have about doubled (:mod:`taograph.graphs.loop.channels`); so a checkpoint of the tables'
last row alone is not a state: ``graph.get_state`` puts it together.

- SQLite: ``checkpoints`` (one row a step, with all values) and ``writes``, in one file with a ``-wal`` beside it.
  A file that is made here can be read and written by its owner only (mode 0600).
- PostgreSQL: ``checkpoints`` (versions and short values, as JSON), ``checkpoint_blobs`` (values that changed) and
  ``checkpoint_writes``, in the first schema of the search path; ``?options=-csearch_path%3Dname`` chooses another.

**What each durability loses** (``graph.invoke(…, durability=…)``) when the process is killed:

- ``"sync"``: a step is stored before the next begins. What is lost is the work of tasks that had not ended.
- ``"async"`` (LangGraph's default): a step is stored while the next runs. Besides, the last step may be lost, with
  what was paid for it; the run resumes from the one before and does it again. Calls of tools that have effects wait
  until what they belong to is stored, so none that must not be repeated is.
- ``"exit"``: stored when the run ends, is interrupted or fails with an exception. A killed process loses the run, and
  nobody knows of its calls.

A graph within another has the durability that the outermost one was called with.

SQLite is told to flush to disk at every commit, so that what is stored survives the loss of power too.

**Encryption.** With ``LANGGRAPH_AES_KEY`` (16, 24 or 32 bytes) in the environment, values, writes, errors,
questions to a person, answers and the metadata that came from the caller are encrypted (AES-EAX, LangGraph's own
format), see :mod:`taograph.checkpoints.encryption`. In clear stay what rows are found and ordered by: thread ids,
checkpoint ids (they hold the time), names of nodes and channels, step numbers; do not put personal data in those.
A database may hold both: what was stored before the key was set stays readable, and in clear.

**Types.** With ``LANGGRAPH_STRICT_MSGPACK=true`` only known types are made from what is read. All that the loop
stores is among them; add to a graph's state schema what tools leave in their artifacts, or it comes back as a dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from taograph.checkpoints.forking import afork, checkpoint_at, fork
from taograph.checkpoints.retention import Pruned, Thread, adelete, aprune, athreads, delete, prune, threads
from taograph.checkpoints.saver import Checkpoints
from taograph.postgres_urls import FORM

__all__ = [
    "Checkpoints",
    "Pruned",
    "Thread",
    "adelete",
    "afork",
    "aopen",
    "aprune",
    "athreads",
    "checkpoint_at",
    "delete",
    "fork",
    "open",
    "prune",
    "threads",
]


@contextmanager
def open(url: str) -> Iterator[Checkpoints]:
    """A checkpointer, its tables made; it is closed at the end.

    Args:
        url: ``sqlite:///relative/path``, ``sqlite:////absolute/path``, ``sqlite://`` (in memory) or
            ``postgresql://user:password@host:port/database``.

    Raises:
        ValueError: Another kind of URL, a package that is not installed, a file that is no database, a key that
            is none; the message says the fix and shows no password.
        OSError: The file can't be opened, or the server can't be reached.
    """
    saver = _opened(url)
    try:
        yield saver
    finally:
        saver.close()


@asynccontextmanager
async def aopen(url: str) -> AsyncIterator[Checkpoints]:
    """The async twin of :func:`open`: what may take its time is done in a thread."""
    saver = await asyncio.to_thread(_opened, url)
    try:
        yield saver
    finally:
        await asyncio.to_thread(saver.close)


def _opened(url: str) -> Checkpoints:
    scheme, _, rest = url.partition("://")
    kind = scheme.partition("+")[0].lower() if rest or "://" in url else ""
    if kind == "sqlite":
        from taograph.checkpoints.sqlite import open_sqlite

        return open_sqlite(url)
    if kind in ("postgresql", "postgres"):
        try:
            from taograph.checkpoints.postgres import open_postgres
        except ImportError as error:
            raise ValueError(
                f"checkpoints: what PostgreSQL needs is not installed ({error}): pip install 'taograph[postgres]'"
            ) from error
        return open_postgres(f"postgresql://{rest}")
    shown = f"{scheme}:// URLs" if kind else "this" if "@" in url else repr(url)
    raise ValueError(
        f"checkpoints: {shown} can't be opened; write sqlite:///path (with four slashes for an absolute path) or {FORM}"
    )
