"""Where the command keeps threads, and which one a person means."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, unquote

import typer

from taograph.cli.errors import CommandError
from taograph.cli.text import one_line
from taograph.folders import data_folder
from taograph.redaction import redact

if TYPE_CHECKING:
    from taograph.checkpoints import Checkpoints

VARIABLE = "TAOGRAPH_CHECKPOINTS"
Url = Annotated[
    str | None,
    typer.Option(
        "--checkpoints",
        metavar="URL",
        envvar=VARIABLE,
        help='Where threads are kept: "sqlite:///path" or "postgresql://…".',
        show_default="a file of your own",
    ),
]
# No vowels, so that no words come out, and nothing that looks like something else.
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
_SHORT, _LONG = 8, 24
_PATH = "/\\:"


class NothingKept(CommandError):  # noqa: N818 - what it says is no fault
    """The user has kept no thread yet."""

    def __init__(self) -> None:
        super().__init__("no thread has been kept yet", fixes=('tao run "…" --thread NAME keeps one',))


@contextmanager
def opened(url: str | None, *, must_exist: bool = False) -> Iterator[Checkpoints]:
    """The checkpointer.

    Args:
        url: Where threads are kept; None for the user's own file.
        must_exist: Refuse a file that is not there, rather than make it.

    Raises:
        NothingKept: The user's own file is not there.
        typer.BadParameter: The URL says no database.
        CommandError: The database can't be opened, or is not there.
    """
    path = _file_of(url)
    if must_exist and path is not None and not path.is_file():
        if url:
            raise CommandError(f"there is no file {path}", fixes=("name another with --checkpoints",))
        raise NothingKept
    from taograph import checkpoints

    with ExitStack() as stack:
        try:
            saver = stack.enter_context(checkpoints.open(url or _own_url()))
        except OSError as error:
            fix = "name another with --checkpoints" if url else "set TAOGRAPH_DATA to a folder you can write to"
            raise CommandError(f"threads can't be kept: {error}", fixes=(fix,)) from error
        except ValueError as error:
            if url is None:
                raise
            raise typer.BadParameter(str(error), param_hint=f"--checkpoints ({VARIABLE})") from error
        yield saver


def thread_named(saver: Checkpoints, given: str) -> str:
    """The thread that a person means: by its id, or by how that begins, where only one begins so.

    Raises:
        typer.BadParameter: There is none, or more than one.
    """
    there = ids(saver)
    if given in there:
        return given
    wanted = given.strip().rstrip("…")
    found = [id for id in there if wanted and id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise typer.BadParameter(f"{given!r} may be {_named(found)}: write more of it", param_hint="THREAD")
    known = f"there are {_named(there)}; `tao threads` lists them" if there else "none is kept there yet"
    raise typer.BadParameter(f"no thread is called {given!r}: {known}", param_hint="THREAD")


def shortened(names: Iterable[str]) -> dict[str, str]:
    """Ids as they are shown in a narrow place: long ones cut to what :func:`thread_named` still understands."""
    everything = set(names)

    def cut(id: str) -> str:
        if len(id) <= _LONG:
            return id
        for length in range(_SHORT, len(id) - 1):
            if sum(other.startswith(id[:length]) for other in everything) == 1:
                return id[:length] + "…"
        return id

    return {id: cut(id) for id in everything}


def new_id() -> str:
    """An id for a thread that was given none, short enough to be typed."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_SHORT))


def command(*words: str, url: str | None = None) -> str:
    """A command as a person can type it again.

    Args:
        *words: What comes after ``tao``.
        url: Where threads are kept, where that was said with an option.
    """
    if url and url != os.environ.get(VARIABLE):
        # A password must not be told again; one that is typed anew may come from the variable.
        words = (*words, "--checkpoints", url if redact(url) == url else "URL")
    every = ("tao", *words)
    return subprocess.list2cmdline(every) if os.name == "nt" else shlex.join(every)


def ids(saver: Checkpoints) -> list[str]:
    """Ids of all threads, the last one that was used first."""
    with saver.transaction() as execute:
        rows = execute("SELECT thread_id FROM checkpoints GROUP BY thread_id ORDER BY max(checkpoint_id) DESC")
    return [str(row[0]) for row in rows]


def _named(ids: list[str], most: int = 5) -> str:
    said = ", ".join(repr(one_line(id, 60)) for id in ids[:most])
    return f"{said} and {len(ids) - most:,} more" if len(ids) > most else said


def _own_file() -> Path:
    return data_folder() / "threads.sqlite"


def _own_url() -> str:
    """The user's own file; its folder is made, for this user alone."""
    data_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{quote(str(_own_file()), safe=_PATH)}"


def _file_of(url: str | None) -> Path | None:
    """The file of a URL; None where it is no file, or no URL that can be read."""
    if url is None:
        return _own_file()
    scheme, _, rest = url.partition("://")
    path = unquote(rest[1:]) if scheme.partition("+")[0].lower() == "sqlite" and rest.startswith("/") else ""
    return None if path in ("", ":memory:") else Path(path)
