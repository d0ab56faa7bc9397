"""Opening a checkpointer from a URL, so that runs on a thread can be resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from langgraph.checkpoint.base import BaseCheckpointSaver


@contextmanager
def open(url: str) -> Iterator[BaseCheckpointSaver[str]]:
    """A checkpointer for synchronous runs, its tables made.

    Args:
        url: ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or ``sqlite://`` (in memory).

    Raises:
        ValueError: Another kind of URL; the message says what there is.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(_sqlite_path(url)) as saver:
        saver.setup()
        yield saver


@asynccontextmanager
async def aopen(url: str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """The async twin of :func:`open`."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async with AsyncSqliteSaver.from_conn_string(_sqlite_path(url)) as saver:
        await saver.setup()
        yield saver


def _sqlite_path(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not url.lower().startswith("sqlite://"):
        raise ValueError(f"checkpoints: {url!r}: write sqlite:///path, with four slashes for an absolute path")
    if parts.scheme != "sqlite" or parts.netloc:
        raise ValueError(
            f"checkpoints: {parts.scheme or url!r} URLs are not supported yet; write sqlite:///path, with four "
            "slashes for an absolute path"
        )
    path = unquote(parts.path)[1:]
    if not path:
        return ":memory:"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return path
