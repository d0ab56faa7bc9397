"""Files of one folder: ``list_files``, ``read_file`` and ``write_file``.

No path leads out of the folder: not by ``..``, not by a link, not by one that is made between a look and a step.
How, :mod:`taograph.tools.engines.file_folder` says. Names that begin with a dot (``.env``, ``.git``) are closed
unless their user opens them.
"""

from __future__ import annotations

import codecs
import mimetypes
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from langchain_core.tools import BaseTool

from taograph.tools.engines.document_readers import READERS, Unreadable, decode
from taograph.tools.engines.file_names import FileError, can_be_asked
from taograph.tools.engines.file_store import Content, Entry, FileStore, Listing, Written
from taograph.tools.engines.visible import visible
from taograph.tools.policy import ToolExample, tool

PAGE_CHARS = 6000
_MOST_LISTED = 200
_LISTING_CHARS = 8000
_TEXTS = (".md", ".txt")

# What the tools return for a folder with a few notes; a test makes it and holds them to it.
_LIST_EXAMPLE = ToolExample(
    question="Which notes are there?",
    args={"pattern": "notes/*.md"},
    observation="2 found:\nnotes/boiler.md (55 bytes, 2024-03-01)\nnotes/garden.md (38 bytes, 2024-04-12)",
    answer="There are two notes: notes/boiler.md and notes/garden.md.",
)
_READ_EXAMPLE = ToolExample(
    question="When was the boiler serviced last?",
    args={"path": "notes/boiler.md"},
    observation=(
        "notes/boiler.md, page 1 of 1, lines 1 to 3 of 3\n\n# Boiler\n\nServiced on 2024-02-27. It has a new filter."
    ),
    answer="The boiler was serviced last on 2024-02-27 (notes/boiler.md).",
)
_WRITE_EXAMPLE = ToolExample(
    question="Write down in notes/bins.md that the bins are emptied on Tuesdays.",
    args={"path": "notes/bins.md", "content": "The bins are emptied on Tuesdays.\n"},
    observation="Created notes/bins.md (34 bytes).",
    answer="It is written down in notes/bins.md.",
)


def file_tools(
    root: str | Path, *, hidden: bool = False, max_read_bytes: int = 10_000_000, max_write_bytes: int = 1_000_000
) -> list[BaseTool]:
    """The tools ``list_files``, ``read_file`` and ``write_file`` over a folder.

    Without ``write_file``, give the first two of them only. On Windows, give only folders that nobody else can
    write to: see :mod:`taograph.tools.engines.file_folder`.

    Args:
        root: The folder that they stay within.
        hidden: Whether names that begin with a dot can be listed, read and written.
        max_read_bytes: Bytes of a file that can be read; of a longer one, its beginning.
        max_write_bytes: Bytes of a file that can be written.

    Raises:
        ValueError: There is no such folder, or a limit is below 1.
    """
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise ValueError(f"{root} is not a folder: give one that exists")
    if max_read_bytes < 1 or max_write_bytes < 1:
        raise ValueError("max_read_bytes and max_write_bytes must be above 0")
    store = FileStore(folder.resolve(), hidden)

    @tool(effects="none", timeout=20.0, max_chars=None, trusted=False, examples=(_LIST_EXAMPLE,))
    def list_files(pattern: str = "*") -> str:
        """List the user's files. Example: list_files(pattern="**/*.md").

        Args:
            pattern: A folder, or a pattern: * stands for any part of a name, ** for any folders.
        """
        return _listed(store.list(pattern, _MOST_LISTED), pattern)

    @tool(effects="none", timeout=20.0, max_chars=None, trusted=False, examples=(_READ_EXAMPLE,))
    def read_file(path: str, page: int = 1, encoding: str = "") -> str:
        """Read a text file of the user. Example: read_file(path="notes/today.md").

        Args:
            path: The path that list_files shows.
            page: Which page of a long file to read, from 1.
            encoding: Only if the text came out garbled: its encoding, such as gb18030 or shift_jis.
        """
        return _page(path, store.read(path, max_read_bytes), page, encoding.strip())

    # "once": appending twice is not appending once; and a call that is repeated after a crash could replace what
    # somebody has written since, or meet its own file and take it for another's.
    @tool(effects="once", timeout=20.0, max_chars=None, examples=(_WRITE_EXAMPLE,))
    def write_file(path: str, content: str, mode: Literal["create", "overwrite", "append"] = "create") -> str:
        """Write a text file of the user. Example: write_file(path="notes/today.md", content="Call the dentist.").

        Args:
            path: Where, such as notes/today.md. Folders that are missing are made.
            content: The whole text, or what to append.
            mode: create for a new file, overwrite to replace all that is in it, append to write on at its end.
        """
        data = _encoded(content, max_write_bytes)
        return _told(store.write(path.strip(), data, mode, max(max_write_bytes, max_read_bytes)))

    return [list_files, read_file, write_file]


def _listed(found: Listing, pattern: str) -> str:
    lines: list[str] = []
    room = _LISTING_CHARS
    for entry in found.entries:
        line = _entry(entry)
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    head = f"{found.total:,} found{f', {len(lines)} of them shown' if len(lines) < found.total else ''}:"
    if not found.total:
        hint = "" if "**" in pattern else " A pattern such as **/*name* looks into all folders."
        head = "The folder is empty." if found.of_folder else f"Nothing here is called {visible(pattern)!r}.{hint}"
    notes: list[str] = []
    if len(lines) < found.total:
        notes.append("Use a narrower pattern for the others.")
    if not found.whole:
        notes.append("The folder is too large: only a part of it was looked through. Name a folder in it.")
    if found.closed:
        notes.append(f"Could not be looked into: {', '.join(map(visible, found.closed[:5]))}.")
    return "\n".join([head, *lines, *notes])


def _entry(entry: Entry) -> str:
    path = visible(entry.path)
    if not all(can_be_asked(name) for name in entry.path.split("/")):
        path += " [its name can't be written here]"
    if entry.kind == "folder":
        return f"{path}/"
    if entry.kind == "link":
        return f"{path} (a link, not followed)"
    if entry.kind == "other":
        return f"{path} (no file)"
    day = datetime.fromtimestamp(entry.changed, UTC).strftime("%Y-%m-%d") if 0 <= entry.changed < 2**36 else "?"
    return f"{path} ({_bytes(entry.size)}, {day})"


def _page(path: str, content: Content, number: int, encoding: str) -> str:
    text, remark = _text(path, content, encoding)
    if not text:
        return f"{path} is empty."
    starts = _starts(text)
    if not 1 <= number <= len(starts):
        raise FileError(f"{path} has {len(starts)} page{'s' if len(starts) > 1 else ''}: there is no page {number}.")
    start, end = starts[number - 1], [*starts[1:], len(text)][number - 1]
    first = text.count("\n", 0, start) + 1
    last = first + text.count("\n", start, end - 1)
    lines = text.count("\n") + (not text.endswith("\n"))
    head = f"{path}, page {number} of {len(starts)}, lines {first} to {last} of {lines}{remark}"
    foot = ""
    if number < len(starts):
        more = f', encoding="{encoding}"' if encoding else ""
        foot = f'\n\nGo on: read_file(path="{path}", page={number + 1}{more})'
    elif content.cut:
        foot = f"\n\nThe file has {_bytes(content.size)}; only the first {_bytes(len(content.data))} of it can be read."
    return f"{head}\n\n{text[start:end].rstrip()}{foot}"


def _starts(text: str) -> list[int]:
    """Where the pages begin: at a line where one begins near, else within it."""
    starts = [0]
    while starts[-1] + PAGE_CHARS < len(text):
        limit = starts[-1] + PAGE_CHARS
        line = text.rfind("\n", limit - PAGE_CHARS // 2, limit) + 1
        starts.append(line or limit)
    return starts


def _text(path: str, content: Content, encoding: str) -> tuple[str, str]:
    """The text of a file, and a remark on how it was read."""
    data = content.data
    remark = ""
    if encoding:
        text = _decoded(data, encoding)
    else:
        try:
            text = decode(_whole(data) if content.cut else data)
        except Unreadable:
            kind = mimetypes.guess_type(path)[0] or "of an unknown kind"
            suffix = Path(path).suffix.lower()
            hint = " search_documents and open_document read such files." if _is_document(suffix) else ""
            raise FileError(f"{path} is no text ({kind}, {_bytes(content.size)}).{hint}") from None
        if not _is_utf8(data, cut=content.cut):
            remark = " (not UTF-8; if it looks garbled, give its encoding)"
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text), remark


def _is_document(suffix: str) -> bool:
    return suffix in READERS and suffix not in _TEXTS


def _decoded(data: bytes, encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        if name in ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape"):
            raise LookupError(name)
        return data.decode(name, errors="replace")
    except (LookupError, ValueError):  # ValueError: a NUL in the name
        raise FileError(
            f"There is no encoding {visible(encoding[:50])!r}. Leave it out, or give one such as gb18030 or shift_jis."
        ) from None


def _whole(data: bytes) -> bytes:
    """The bytes without a UTF-8 character at their end that was cut."""
    for length in range(1, 4):
        if data[-length:][:1] >= b"\xc0":
            return data[:-length]
    return data


def _is_utf8(data: bytes, *, cut: bool) -> bool:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        return True  # told by its mark, so there is no doubt
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=not cut)
    except UnicodeDecodeError:
        return False
    return True


def _encoded(content: str, most: int) -> bytes:
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError:
        raise FileError("The content has half of a character in it (a lone surrogate). Write it without.") from None
    if len(data) > most:
        raise FileError(f"The content has {_bytes(len(data))}; {most:,} at most are written. Write less.")
    return data


def _told(written: Written) -> str:
    if written.did == "created":
        return f"Created {written.path} ({_bytes(written.size)})."
    if written.did == "replaced":
        return f"Replaced {written.path} ({_bytes(written.size)}; before, it had {_bytes(written.before or 0)})."
    return f"Appended to {written.path}: it has {_bytes(written.size)} now, {_bytes(written.before or 0)} before."


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size:,} bytes"
