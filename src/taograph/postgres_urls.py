"""URLs of PostgreSQL databases: read with care, and never shown, since they may hold a password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from taograph.redaction import HIDDEN, redact

FORM = "postgresql://user:password@host:port/database"


def check_url(url: str) -> None:
    """Find out whether a URL can be read.

    Raises:
        ValueError: It can't; the message shows nothing of it.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    # A sign of the password that is not written as it must be would make a piece of it the name of the host.
    if re.fullmatch(r"\w+://([^@/?]*@)?[^@]*", url):
        with suppress(psycopg.Error):
            conninfo_to_dict(url)
            return
    raise ValueError(
        f"the database URL can't be read: write {FORM}, with signs such as "
        "@ : / # % in the password written as %40 %3A %2F %23 %25"
    )


def hide(url: str, text: str) -> str:
    """A text without what a URL keeps secret."""
    from psycopg.conninfo import conninfo_to_dict

    for name, value in conninfo_to_dict(url).items():
        if "password" in name and value:
            text = re.sub(rf"(?<!\w){re.escape(str(value))}(?!\w)", HIDDEN, text)
    return redact(text)


def cause(problem: str) -> str:
    """Why there is no connection, from what the driver said, without where to."""
    if said := re.findall(r"FATAL:\s*(.+)", problem):
        return str(said[-1]).strip()[:200]
    known: Sequence[tuple[str, str]] = (
        ("timeout", "it does not answer"),
        ("refused", "nothing listens there"),
        ("could not translate host name", "there is no such host"),
        ("resolve host", "there is no such host"),
        ("SSL", "no secure connection"),
        ("No such file", "nothing listens there"),
    )
    return next((told for mark, told in known if mark.lower() in problem.lower()), "no connection")
