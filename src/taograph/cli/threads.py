"""`tao threads`: the threads that are kept, and what can be done with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taograph.cli import kept
from taograph.cli.ask import can_ask, confirm
from taograph.cli.console import on_terminal, say, show, table
from taograph.cli.endings import in_use
from taograph.cli.errors import CommandError
from taograph.cli.options import ThreadId, a_name
from taograph.cli.reading import Reader
from taograph.cli.standing import Standing
from taograph.cli.text import one_line
from taograph.cli.trace_store import own_unless_named
from taograph.cli.words import count, size

if TYPE_CHECKING:
    from taograph.checkpoints import Checkpoints, Thread

_MOST = 20
_UNITS = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})")


def threads_list(
    every: Annotated[bool, typer.Option("--all", "-a", help="All of them, not the last 20 that were used.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Only those that can be gone on with.")] = False,
    checkpoints: kept.Url = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """List the threads, the last one that was used first: how each stands, and what was asked last in it.

    \b
    tao threads list
    tao threads list --open
    tao threads list --all --json | jq -r 'select(.state == "waiting") | .thread'
    """
    try:
        with kept.opened(checkpoints, must_exist=True) as saver:
            total = len(kept.ids(saver))
            found = [*_rows(saver, most=None if every else _MOST, open_=open_)]
    except kept.NothingKept as nothing:
        total, found = 0, []
        if not json:
            say(f"No thread has been kept yet: {nothing.fixes[0]}.")
            return 0
    if json:
        for thread, standing in found:
            typer.echo(dumps(_plain(thread, standing)))
        return 0
    if found:
        _show(found)
    elif open_:
        typer.echo("No thread is open: each has its answer, or can't be gone on with.")
    else:
        typer.echo("No thread is kept there.")
    if not every and not open_ and total > len(found):
        typer.echo(f"\n{count(total - len(found), 'more thread')}: tao threads list --all")
    return 0


def threads_fork(
    thread: ThreadId,
    at: Annotated[str | None, typer.Option("--at", metavar="CHECKPOINT", help="As it was at this checkpoint.")] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", metavar="N", help="As it was after this step.", show_default="as it is now"),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="NEW", callback=a_name, help="What the copy is called.")
    ] = None,
    checkpoints: kept.Url = None,
) -> int:
    """Copy a thread, as it was at an earlier step, to a new one; the thread itself stays as it is.

    Steps and checkpoints are those of `tao threads show THREAD --history`. A call that has taken effect is not made
    a second time by going on with the copy.

    \b
    tao threads fork ada --step 3
    tao resume ada-fork                          does it again from there
    tao run "Now in French." --thread ada-fork   asks something else from there
    """
    if at is not None and step is not None:
        raise typer.BadParameter("give --at or --step, not both", param_hint="--step")
    with kept.opened(checkpoints, must_exist=True) as saver:
        from taograph.checkpoints import checkpoint_at, fork

        source = kept.thread_named(saver, thread)
        new = to or _free(source, set(kept.ids(saver)))
        try:
            if step is not None:
                at = checkpoint_at(saver, source, step)
            fork(saver, source, new, at=at)
        except ValueError as error:
            option = "--to" if f"thread {new!r}" in str(error) else "--step" if step is not None else "--at"
            raise typer.BadParameter(str(error), param_hint=option) from error
        standing = Reader(saver).standing(new)
    typer.echo(f"Thread {new} is a copy of {source}{' as it was then' if at else ''}: {standing.in_words()}.")
    typer.echo(
        f"To go on: {kept.command('resume', new, url=checkpoints)}"
        if standing.open
        else f"To ask something: {kept.command('run', '…', '--thread', new, url=checkpoints)}"
    )
    return 0


def threads_prune(
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Not used for so long: 30d, 12h, 2w.", show_default=False),
    ],
    keep_latest: Annotated[
        bool, typer.Option("--keep-latest", help="Keep their last state, so that they can be gone on with.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which; nothing is deleted.")] = False,
    checkpoints: kept.Url = None,
) -> int:
    """Delete threads that were not used for some time, with all that is kept along with them.

    What was recorded of their runs is erased, unless their last state is kept.

    Those that are in use are left. Threads that wait for you are deleted too when they are that old: --dry-run tells.

    \b
    tao threads prune --older-than 30d --dry-run
    tao threads prune --older-than 30d
    tao threads prune --older-than 2w --keep-latest
    """
    age = _age(older_than)
    with kept.opened(checkpoints, must_exist=True) as saver:
        from taograph.checkpoints import prune, threads

        if dry_run:
            before = datetime.now(UTC) - age
            reader = Reader(saver)
            there = [each for each in threads(saver) if each.updated < before]
            busy = [each.id for each in there if reader.busy(each.id)]
            old = [(each, _standing(reader, each)) for each in there if each.id not in busy]
            if old:
                _show(old)
            what = "would lose its earlier steps" if keep_latest else "would be deleted"
            many = "would lose their earlier steps" if keep_latest else what
            taken = size(sum(each.size for each, _ in old))
            typer.echo(f"{count(len(old), 'thread')} {many if len(old) != 1 else what}; {taken} in all.")
            _left(busy)
            return 0
        with own_unless_named():
            done = prune(saver, age, keep_latest=keep_latest)
    what = "cut to the last state" if keep_latest else "deleted"
    names = done.shortened if keep_latest else done.deleted
    typer.echo(f"{count(len(names), 'thread')} {what}, {size(done.freed)} given back.")
    for name in names:
        typer.echo(f"  {one_line(name, 200)}")
    _left(done.busy)
    return 0


def threads_delete(
    names: Annotated[list[str], typer.Argument(metavar="THREAD…", help="Their ids, or how these begin.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking; then give whole ids.")] = False,
    checkpoints: kept.Url = None,
) -> int:
    """Delete threads, with all that is kept along with them; what was recorded of their runs is erased.

    \b
    tao threads delete ada
    tao threads delete ada bob --yes
    """
    with kept.opened(checkpoints, must_exist=True) as saver:
        from taograph.checkpoints import delete
        from taograph.writers import ThreadBusyError

        reader = Reader(saver)
        found = [*dict.fromkeys(kept.thread_named(saver, name) for name in names)]
        if yes and (cut := [name for name in names if name not in found]):
            raise typer.BadParameter(f"{cut[0]!r} is no whole id: write {found[0]!r}", param_hint="THREAD")
        if not yes and not can_ask():
            raise CommandError("nobody can be asked here", fixes=("add --yes to delete without asking",), code=2)
        for id in found:
            if not yes and not confirm(f"Delete thread {id!r} ({_about(reader, id)}) for good?", default=False):
                say("Left as it is.")
                continue
            try:
                with own_unless_named():
                    delete(saver, id)
            except ThreadBusyError as error:
                raise in_use(error, waits=False) from error
            typer.echo(f"Deleted {id}.")
    return 0


def _left(busy: Sequence[str]) -> None:
    """Say which threads stay because they are in use."""
    if busy:
        names = ", ".join(one_line(name, 200) for name in busy)
        typer.echo(f"{count(len(busy), 'thread')} left, in use: {names}")


def _rows(saver: Checkpoints, *, most: int | None, open_: bool) -> Iterator[tuple[Thread, Standing | None]]:
    from taograph.checkpoints import threads

    reader = Reader(saver)
    everything = threads(saver)
    for thread in everything if open_ else everything[:most]:
        standing = _standing(reader, thread)
        if not open_ or (standing is not None and standing.open):
            yield thread, standing


def _standing(reader: Reader, thread: Thread) -> Standing | None:
    """How a thread stands; None where that can't be read."""
    if thread.state == "encrypted":
        return None
    try:
        standing = reader.standing(thread.id)
        if standing.state == "unfinished" and reader.busy(thread.id):
            return replace(standing, state="running")
    except Exception:  # noqa: BLE001 - one that another program made may hold anything; the others are listed
        return None
    return standing


def _show(found: list[tuple[Thread, Standing | None]]) -> None:
    shown = table("thread", "used", "steps", "state", "question")
    short = kept.shortened(thread.id for thread, _ in found) if on_terminal(sys.stdout) else {}
    for thread, standing in found:
        shown.add_row(
            one_line(short.get(thread.id, thread.id), 200),
            f"{thread.updated.astimezone():%Y-%m-%d %H:%M}",
            f"{standing.total:,}" if standing else "",
            standing.in_words() if standing else thread.state,
            one_line(standing.question, 160) if standing else "",
        )
    show(shown)


def _plain(thread: Thread, standing: Standing | None) -> dict[str, Any]:
    known = standing.to_dict() if standing else {"state": thread.state}
    times = {"created": thread.created.isoformat(), "updated": thread.updated.isoformat()}
    return {"thread": thread.id, **times, "bytes": thread.size, **known}


def _about(reader: Reader, thread: str) -> str:
    standing = reader.standing(thread)
    return f"{count(standing.total, 'step')}, {standing.in_words()}: {one_line(standing.question, 80)}"


def _free(source: str, taken: set[str]) -> str:
    """A name for a copy that is not taken."""
    name, number = f"{source}-fork", 2
    while name in taken:
        name, number = f"{source}-fork-{number}", number + 1
    return name


def _age(text: str) -> timedelta:
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} can't be read: write a number and {', '.join(_UNITS)}, as in 30d", param_hint="--older-than"
        )
    return timedelta(**{_UNITS[found[2]]: float(found[1])})
