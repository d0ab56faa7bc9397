"""Writing files: whole or not at all, beside other writers."""

import errno
import os
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from filing import posix, tools, tree, write

from taograph.tools.engines import file_folder, file_store
from taograph.tools.policy import ToolError


def test_writing(root: Path) -> None:
    assert write(root, "new/deep/a.md", "Grüße\n") == "Created new/deep/a.md (8 bytes)."
    assert (root / "new/deep/a.md").read_bytes() == "Grüße\n".encode()
    with pytest.raises(ToolError, match=r'exists. Choose another name, or use mode="overwrite" or mode="append"'):
        write(root, "new/deep/a.md", "x")
    assert (
        write(root, "new/deep/a.md", "x\r\ny", "overwrite")
        == "Replaced new/deep/a.md (4 bytes; before, it had 8 bytes)."
    )
    assert (root / "new/deep/a.md").read_bytes() == b"x\r\ny"
    assert (
        write(root, "new/deep/a.md", "z", "append") == "Appended to new/deep/a.md: it has 5 bytes now, 4 bytes before."
    )
    assert write(root, "b.md", "z", "append") == "Created b.md (1 byte)."
    assert write(root, "c.md", "", "overwrite") == "Created c.md (0 bytes)."
    assert sorted(os.listdir(root)) == [".env", "b.md", "c.md", "new", "notes", "readme.txt"]


def test_what_cannot_be_written_is_said_and_changes_nothing(root: Path) -> None:
    (root / "latin.txt").write_bytes(b"\xff\xfe\x00")
    small = tools(root, max_write_bytes=10, max_read_bytes=20)[2]
    with pytest.raises(ToolError, match="The content has 11 bytes; 10 at most are written"):
        small.invoke({"path": "d.md", "content": "x" * 11})
    for _ in range(2):
        small.invoke({"path": "e.md", "content": "x" * 10, "mode": "append"})
    with pytest.raises(ToolError, match="would have more than 20 bytes"):
        small.invoke({"path": "e.md", "content": "x", "mode": "append"})
    for path, content, mode, says in [
        ("notes", "x", "overwrite", "is a folder"),
        ("readme.txt/x", "x", "create", "'readme.txt' is no folder"),
        ("latin.txt", "x", "append", "no UTF-8 text"),
        ("s.md", "half \ud83d", "create", "half of a character"),
        ("x" * 300, "x", "create", "name in it is too long"),
        ("/".join("abcdefghijklmnopqrstuvwxyzabcdefghijk"), "x", "create", "30 at most"),
        ("", "x", "create", "The path is empty"),
    ]:
        with pytest.raises(ToolError, match=re.escape(says)):
            write(root, path, content, mode)
    assert sorted(os.listdir(root)) == [".env", "e.md", "latin.txt", "notes", "readme.txt"]
    assert (root / "latin.txt").read_bytes() == b"\xff\xfe\x00"


def test_a_failure_while_writing_leaves_the_old_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    before = tree(root)
    for mode in ("create", "overwrite", "append"):
        with pytest.raises(ToolError, match="the disk is full") as told:
            write(root, "readme.txt" if mode != "create" else "new.txt", "x" * 1000, mode)
        assert str(root) not in str(told.value)
    assert tree(root) == before


@posix
def test_a_file_system_without_hard_links(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    monkeypatch.setattr(file_folder, "BY_DESCRIPTOR", file_folder.BY_DESCRIPTOR)
    assert write(root, "new.txt", "x") == "Created new.txt (1 byte)."
    with pytest.raises(ToolError, match="exists"):
        write(root, "new.txt", "y")
    assert (root / "new.txt").read_text() == "x"
    assert sorted(os.listdir(root)) == [".env", "new.txt", "notes", "readme.txt"]


@posix
def test_the_rights_of_a_file_stay(root: Path) -> None:
    os.chmod(root / "readme.txt", 0o4640)
    write(root, "readme.txt", "x", "overwrite")
    assert stat.S_IMODE((root / "readme.txt").stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write(root, "fresh.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "fresh.txt").stat().st_mode) == 0o640


def test_writers_at_once(root: Path) -> None:
    writer, told = tools(root)[2], []

    def at_once(*calls: dict[str, str]) -> None:
        def one(args: dict[str, str]) -> None:
            try:
                told.append(str(writer.invoke(args)))
            except ToolError as error:
                told.append(str(error))

        threads = [threading.Thread(target=one, args=(args,)) for args in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    at_once(*({"path": "log.txt", "content": f"{number}\n", "mode": "append"} for number in range(20)))
    assert sorted(map(int, (root / "log.txt").read_text().split())) == list(range(20))
    told.clear()
    at_once(*({"path": "one.txt", "content": f"{number}"} for number in range(10)))
    assert sum(text.startswith("Created") for text in told) == 1
    assert sum("exists" in text for text in told) == 9


def test_another_writer_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = file_store._write

    def meanwhile(*args: object) -> None:
        written(*args)  # type: ignore[arg-type]
        (root / "readme.txt").write_text("changed by somebody else", encoding="utf-8")
        (root / "fresh.txt").write_text("made by somebody else", encoding="utf-8")

    monkeypatch.setattr(file_store, "_write", meanwhile)
    for path, mode in (("readme.txt", "overwrite"), ("readme.txt", "append"), ("fresh.txt", "create")):
        (root / "fresh.txt").unlink(missing_ok=True)
        with pytest.raises(ToolError, match="by somebody else just now"):
            write(root, path, "mine", mode)
    assert (root / "readme.txt").read_text() == "changed by somebody else"
    assert (root / "fresh.txt").read_text() == "made by somebody else"
    assert not [name for name in os.listdir(root) if name.startswith(".taograph")]


def test_a_reader_never_sees_half_a_file(root: Path) -> None:
    over = threading.Event()
    seen: set[str] = set()

    def look() -> None:
        while not over.is_set():
            seen.add((root / "readme.txt").read_text())

    looking = threading.Thread(target=look)
    write(root, "readme.txt", "a" * 200_000, "overwrite")
    looking.start()
    try:
        for letter in "bcdefgh" * 4:
            write(root, "readme.txt", letter * 200_000, "overwrite")
    finally:
        over.set()
        looking.join()
    assert seen <= {letter * 200_000 for letter in "abcdefgh"}


def test_a_file_that_may_not_be_changed_is_not_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights over the folder would be enough to put another file in its place."""
    opened = os.open

    def refuses(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags == file_folder.CHANGE:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", refuses)
    for mode in ("overwrite", "append"):
        with pytest.raises(ToolError, match="there is no permission for it"):
            write(root, "readme.txt", "x", mode)
    assert write(root, "new.txt", "x") == "Created new.txt (1 byte)."
    assert (root / "readme.txt").read_bytes() == b"hello\n"
