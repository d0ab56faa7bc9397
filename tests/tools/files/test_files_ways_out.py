"""No path leads out of the folder of the file tools."""

import ctypes
import os
import re
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from filing import SECRET, listed, posix, read, tools, tree, write
from hypothesis import given
from hypothesis import strategies as st

from taograph.tools.engines import file_folder, file_store
from taograph.tools.engines.file_names import FileError, split_path
from taograph.tools.policy import ToolError

WAYS_OUT = [
    ("../outside/secret.txt", "leads up with .."),
    ("notes/../../outside/secret.txt", "leads up with .."),
    ("notes/..", "leads up with .."),
    ("..", "leads up with .."),
    ("/etc/passwd", "no path within the folder"),
    ("//etc/passwd", "no path within the folder"),
    ("~/secret.txt", "no path within the folder"),
    ("~root/secret.txt", "no path within the folder"),
    ("..\\outside\\secret.txt", "backslash"),
    ("notes\\boiler.md", "backslash"),
    ("readme.txt\x00.md", "can't be seen"),
    ("\x00", "can't be seen"),
    ("read\nme.txt", "can't be seen"),
    ("\u202etxt.emdaer", "can't be seen"),
    ("readme\u200b.txt", "can't be seen"),
    ("readme\u00a0.txt", "can't be seen"),
    ("readme\ufeff.txt", "can't be seen"),
    ("read\udcff", "can't be seen"),
    ("readme.txt.", "ends with a dot"),
    ("notes./boiler.md", "ends with a dot"),
    ("notes /boiler.md", "ends with a space"),
    ("notes/ boiler.md", "begins or ends with a space"),
    (".../x", "ends with a dot"),
    ("x" * 1001, "1000 at most"),
    ("a/" * 400 + "b", "30 at most"),
]


@pytest.mark.parametrize(("path", "says"), WAYS_OUT, ids=[ascii(path)[:40] for path, _ in WAYS_OUT])
def test_paths_that_lead_out(root: Path, outside: Path, path: str, says: str) -> None:
    before = tree(root.parent)
    lister, reader, writer = tools(root)
    for tool, args in (
        (reader, {"path": path}),
        (writer, {"path": path, "content": "x"}),
        (writer, {"path": path, "content": "x", "mode": "overwrite"}),
        (writer, {"path": path, "content": "x", "mode": "append"}),
        (lister, {"pattern": path}),
        (lister, {"pattern": f"{path}/*"}),
    ):
        with pytest.raises(ToolError) as told:
            tool.invoke(args)
        assert any(text in str(told.value) for text in (says, "can't be seen", "ends with a dot", "30 at most", "1000"))
        assert SECRET not in str(told.value)
        assert str(root.parent) not in str(told.value)
    assert tree(root.parent) == before


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["..", ".", "/", "a", "\\", "~", "\x00", " ", "C:", "…"])).map("".join)
)
def test_no_path_has_a_step_out(path: str) -> None:
    with suppress(FileError):
        names = split_path(path, hidden=False)
        assert not {"..", ".", ""} & set(names)
        assert not any(re.search(r"[/\\\x00]", name) or name.startswith(".") for name in names)


@posix
def test_links_are_not_followed(root: Path, outside: Path) -> None:
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "folder-link").symlink_to(outside)
    (root / "notes" / "up").symlink_to("..")
    (root / "inner").symlink_to("readme.txt")
    (root / "dangling").symlink_to(outside / "not-there.txt")
    (root / "loop").symlink_to("loop")
    before = tree(outside)
    for path in ("file-link", "folder-link/secret.txt", "notes/up/readme.txt", "inner", "dangling", "loop", "loop/x"):
        with pytest.raises(ToolError, match=r"is a link. Links are not followed"):
            read(root, path)
        for mode in ("overwrite", "append"):
            with pytest.raises(ToolError, match=r"is a link. Links are not followed"):
                write(root, path, "x", mode)
        with pytest.raises(ToolError, match=r"exists|is a link"):
            write(root, path, "x")
    with pytest.raises(ToolError, match="is a link"):
        write(root, "folder-link/new.txt", "x")
    lines = listed(root, "**")
    assert "folder-link (a link, not followed)" in lines
    assert not any("secret" in line for line in lines)
    assert not any("secret" in line for line in listed(root, "folder-link/*"))
    assert not any("secret" in line for line in listed(root, "folder-link"))
    assert tree(outside) == before


@posix
def test_a_root_that_is_reached_by_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(root)
    assert "hello" in read(tmp_path / "way", "readme.txt")


@posix
def test_a_root_that_becomes_a_link(root: Path, outside: Path) -> None:
    made = tools(root)
    root.rename(root.with_name("moved"))
    root.symlink_to(outside)
    for tool, args in zip(made, ({}, {"path": "secret.txt"}, {"path": "new.txt", "content": "x"}), strict=True):
        with pytest.raises(ToolError, match=r"can't be used|is a link"):
            tool.invoke(args)
    assert os.listdir(outside) == ["secret.txt"]


@posix
def test_writing_does_not_go_through_a_hard_link(root: Path, outside: Path) -> None:
    os.link(outside / "secret.txt", root / "hard.txt")
    write(root, "hard.txt", "more", "append")
    assert (outside / "secret.txt").read_text() == SECRET
    assert (root / "hard.txt").read_text() == SECRET + "more"
    (root / "hard.txt").unlink()
    os.link(outside / "secret.txt", root / "hard.txt")
    write(root, "hard.txt", "new", "overwrite")
    assert (outside / "secret.txt").read_text() == SECRET


@posix
@pytest.mark.timeout(30)
def test_what_is_no_file_is_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("sock")
        made = ["pipe", "sock"]
        with suppress(OSError):  # where one may make devices
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            made.append("zero")
        for name in made:
            with pytest.raises(ToolError, match="is a device or a pipe"):
                read(root, name)
            for mode in ("overwrite", "append"):
                with pytest.raises(ToolError, match="is a device or a pipe"):
                    write(root, name, "x", mode)
            assert f"{name} (no file)" in listed(root)


@posix
@pytest.mark.timeout(30)
def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    looked = file_store._status

    def deceived(folder: file_folder.Folder, name: str) -> os.stat_result | None:
        return looked(folder, "readme.txt" if name == "pipe" else name)

    monkeypatch.setattr(file_store, "_status", deceived)
    with pytest.raises(ToolError, match="is a device or a pipe"):
        read(root, "pipe")


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may enter any folder")
def test_closed_folders_are_said(root: Path) -> None:
    os.chmod(root / "notes", 0)
    try:
        assert listed(root, "**")[-1] == "Could not be looked into: notes."
        with pytest.raises(ToolError, match="there is no permission for it"):
            read(root, "notes/boiler.md")
    finally:
        os.chmod(root / "notes", 0o755)


@posix
@pytest.mark.parametrize("mode", ["read", "append", "overwrite"])
def test_a_link_that_takes_the_place_of_a_file(
    root: Path, outside: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: after the look at what it is, before it is opened."""
    looked = file_store._status

    def deceived(folder: file_folder.Folder, name: str) -> os.stat_result | None:
        status = looked(folder, name)
        if status is not None and stat.S_ISREG(status.st_mode):
            (root / "readme.txt").unlink()
            (root / "readme.txt").symlink_to(outside / "secret.txt")
        return status

    monkeypatch.setattr(file_store, "_status", deceived)
    with pytest.raises(ToolError, match=r"link|by somebody else"):
        read(root, "readme.txt") if mode == "read" else write(root, "readme.txt", "x", mode)
    assert (outside / "secret.txt").read_text() == SECRET
    assert not [name for name in os.listdir(root) if name.startswith(".taograph")]


def exchange(first: Path, second: Path) -> None:
    """Let two names change what they name, at one stroke."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):
        done = libc.renameat2(-100, names[0], -100, names[1], 2)
    elif hasattr(libc, "renamex_np"):
        done = libc.renamex_np(*names, 2)
    else:
        pytest.skip("names can't be exchanged at one stroke here")
    if done:
        raise OSError(ctypes.get_errno(), "exchange")


@posix
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_race_with_links(tmp_path: Path, outside: Path, what: str) -> None:
    """Somebody swaps a folder, or a file, for a link to the outside, again and again, while it is used."""
    if not file_folder.BY_DESCRIPTOR:
        pytest.skip("this system has no descriptors of folders, and says so")
    root = tmp_path / "root"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "secret.txt").write_text("harmless", encoding="utf-8")
    before = tree(outside)
    here, there = (root / "notes", outside) if what == "folder" else (root / "notes/secret.txt", outside / "secret.txt")
    over = threading.Event()
    link = root / "link"
    link.symlink_to(there)
    exchange(here, link)
    exchange(here, link)

    def swap() -> None:
        while not over.is_set():
            link.unlink()  # a writer may have put its file here
            link.symlink_to(there)
            exchange(here, link)
            exchange(here, link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    lister, reader, writer = tools(root)
    met: set[str] = set()
    try:
        for number in range(1500):
            for tool, args in (
                (reader, {"path": "notes/secret.txt"}),
                (writer, {"path": "notes/secret.txt", "content": f"harmless {number}", "mode": "overwrite"}),
                (writer, {"path": f"notes/new{number}.txt", "content": "harmless"}),
                (lister, {"pattern": "notes/*"}),
            ):
                try:
                    told = str(tool.invoke(args))
                except ToolError as error:
                    met.add(re.sub(r"'.*?'", "", str(error)))
                else:
                    met.add(told[:8])
                    assert SECRET not in told
            if number > 60 and any("link" in text for text in met):
                break
    finally:
        over.set()
        swapper.join()
    assert tree(outside) == before
    assert any("link" in text for text in met), "the race was never met"
