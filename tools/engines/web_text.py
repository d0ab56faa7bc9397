"""Reading what a server sent, in a process that can be stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from taograph.tools.engines.web_errors import WebError
from taograph.tools.engines.web_fetch import Fetched
from taograph.tools.engines.web_reader import PageText

_AT_ONCE = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))
_KEPT = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL")
"""Variables that the reading process gets: none that may hold a key."""


def read_page(fetched: Fetched, seconds: float) -> PageText:
    """The text of a page.

    Args:
        fetched: What the server sent.
        seconds: How long reading it may take.

    Raises:
        WebError: There is no text to be had from it; the message says what to do.
    """
    with TemporaryDirectory(prefix="taograph-") as folder:
        body = Path(folder, "body")
        body.write_bytes(fetched.body)
        asked = {
            "path": str(body),
            "content_type": fetched.content_type[:200],
            "url": fetched.url,
            "seconds": seconds,
        }
        answer = _asked(asked, seconds, folder)
    if "missing" in answer:
        raise WebError("unreadable", f"Reading this page needs {answer['missing']}: pip install taograph[web].")
    if "unreadable" in answer:
        raise WebError("unreadable", f"The page can't be read: {answer['unreadable']}. Use another source.")
    return PageText(**answer)


def _asked(asked: dict[str, Any], seconds: float, folder: str) -> dict[str, Any]:
    keep = {name: value for name in _KEPT if (value := os.environ.get(name))}
    environment = {**keep, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1", "TMPDIR": folder}
    if not _AT_ONCE.acquire(timeout=seconds):
        raise WebError("unreadable", "Too many pages are being read at once. Open it again in a moment.")
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "taograph.tools.engines.web_reader"],
            input=json.dumps(asked).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,  # not where this happens to run: code could be taken from there
            timeout=seconds,
            check=False,
        )
        return dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired as error:
        text = f"The page was not read within {seconds:g} s: it is too long or made to be slow. Use another source."
        raise WebError("unreadable", text) from error
    except OSError as error:
        raise WebError("unreadable", "Pages can't be read now: no process could be started for it.") from error
    except ValueError as error:
        raise WebError(
            "unreadable", "The page can't be read: it is damaged or too large. Use another source."
        ) from error
    finally:
        _AT_ONCE.release()
