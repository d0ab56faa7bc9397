"""The file tools: what they show and write, and that no path leads out of the folder."""

import ctypes
import errno
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.catalog import available, load
from taograph.tools.engines import file_folder, file_store
from taograph.tools.engines.file_names import FileError, Pattern, split_path
from taograph.tools.files import PAGE_CHARS, _starts, file_tools
from taograph.tools.policy import ToolError, policy_of

SECRET = "the secret outside"
posix = pytest.mark.skipif(os.name != "posix", reason="needs links and pipes as POSIX has them")


@pytest.fixture(params=["by descriptor", "by path"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of reaching files; the second is the one for systems without descriptors of folders."""
    if request.param == "by path":
        monkeypatch.setattr(file_folder, "BY_DESCRIPTOR", False)
    elif not file_folder.BY_DESCRIPTOR:
        pytest.skip("this system has no descriptors of folders")
    return str(request.param)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET, encoding="utf-8")
    return folder


@pytest.fixture
def root(tmp_path: Path, way: str) -> Path:
    folder = tmp_path / "root"
    (folder / "notes" / "old").mkdir(parents=True)
    (folder / "notes" / "boiler.md").write_bytes(b"# Boiler\n\nServiced on 2024-02-27. It has a new filter.\n")
    (folder / "notes" / "garden.md").write_bytes(b"Beans in row one, peas in row two.\n")
    (folder / "notes" / "old" / "roof.md").write_bytes(b"Tiles\n")
    (folder / ".env").write_text("KEY=hidden-value", encoding="utf-8")
    (folder / "readme.txt").write_bytes(b"hello\n")
    return folder


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    before = descriptors()
    yield
    assert len(descriptors()) <= len(before) + 2, "descriptors were left open"


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []


def tools(root: Path, **options: int) -> tuple[BaseTool, BaseTool, BaseTool]:
    made = file_tools(root, **options)  # type: ignore[arg-type]
    return made[0], made[1], made[2]


def listed(root: Path, pattern: str = "*", **options: int) -> list[str]:
    return str(tools(root, **options)[0].invoke({"pattern": pattern})).splitlines()


def read(root: Path, path: str, **more: object) -> str:
    return str(tools(root)[1].invoke({"path": path, **more}))


def write(root: Path, path: str, content: str, mode: str = "create") -> str:
    return str(tools(root)[2].invoke({"path": path, "content": content, "mode": mode}))


def test_the_examples_are_what_the_tools_return(root: Path) -> None:
    (root / "notes" / "garden.md").write_bytes(b"Beans are in row one, peas in row two\n")
    for name, day in (("boiler.md", 1709300000), ("garden.md", 1712900000)):
        os.utime(root / "notes" / name, (day, day))
    for tool, effects in zip(tools(root), ("none", "none", "once"), strict=True):
        policy = policy_of(tool)
        assert (policy.effects, policy.trusted, policy.timeout) == (effects, effects == "once", 20.0)
        assert f"Example: {tool.name}(" in tool.description
        assert all(spec["description"] for spec in tool.args.values())
        for one in policy.examples:
            assert tool.invoke(dict(one.args)) == one.observation


# Listing


def test_listing(root: Path) -> None:
    lines = listed(root)
    assert lines[:2] == ["2 found:", "notes/"]
    assert re.fullmatch(r"readme\.txt \(6 bytes, \d{4}-\d\d-\d\d\)", lines[2])
    for pattern in ("notes", "notes/", "notes/*", "./notes//*"):
        assert [line.split(" ")[0] for line in listed(root, pattern)[1:]] == [
            "notes/boiler.md",
            "notes/garden.md",
            "notes/old/",
        ]
    for pattern, found in {
        "**/*.md": ["notes/boiler.md", "notes/garden.md", "notes/old/roof.md"],
        "**/roof.md": ["notes/old/roof.md"],
        "**/**/roof.md": ["notes/old/roof.md"],
        "notes/**": ["notes/boiler.md", "notes/garden.md", "notes/old/", "notes/old/roof.md"],
        "*/[bg]*.md": ["notes/boiler.md", "notes/garden.md"],
        "notes/?????[rn].md": ["notes/boiler.md", "notes/garden.md"],
        "readme.txt": ["readme.txt"],
    }.items():
        assert [line.split(" ")[0] for line in listed(root, pattern)[1:]] == found, pattern


def test_what_is_not_found_is_said(root: Path) -> None:
    assert listed(root, "*.pdf") == [
        "Nothing here is called '*.pdf'. A pattern such as **/*name* looks into all folders."
    ]
    assert listed(root, "**/*.pdf") == ["Nothing here is called '**/*.pdf'."]
    (root / "void").mkdir()
    assert listed(root, "void") == listed(root, "void/") == ["The folder is empty."]
    assert listed(root / "void") == ["The folder is empty."]


def test_hidden_names_are_closed_unless_opened(root: Path) -> None:
    assert not any(".env" in line for line in listed(root, "**"))
    for path in (".env", "notes/.git/config", "\u200c.env", "\u200d\u200c.env"):
        with pytest.raises(ToolError, match="is hidden"):
            read(root, path)
        with pytest.raises(ToolError, match="is hidden"):
            write(root, path, "x")
    opened = tools(root, hidden=True)
    assert ".env (16 bytes" in opened[0].invoke({})
    assert "KEY=hidden-value" in opened[1].invoke({"path": ".env"})


def test_a_long_listing_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(250):
        (root / "notes" / f"{number:03}.txt").touch()
    lines = listed(root, "notes/*.txt")
    assert lines[0] == "250 found, 200 of them shown:"
    assert lines[-1] == "Use a narrower pattern for the others."
    assert len(lines) == 202
    for number in range(80):
        (root / "notes" / (f"{number:03}" + "x" * 200)).touch()
    assert len("\n".join(listed(root, "notes/*xx"))) < 8200
    monkeypatch.setattr(file_store, "MOST_ENTRIES", 20)
    assert listed(root, "**")[-1].startswith("The folder is too large: only a part of it was looked through.")
    monkeypatch.setattr(file_store, "_MOST_SECONDS", -1.0)
    assert "only a part" in listed(root, "**")[-1]


def test_names_that_are_hard_to_see_are_written_out(root: Path) -> None:
    for name in ("a\u202eb", "c\nd", "e ", "f."):
        (root / name).touch()
    with suppress(OSError):  # some systems take no such name
        os.close(os.open(os.fsencode(root) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    lines = listed(root, "*")
    assert all(line.isprintable() for line in lines)
    assert sum("[its name can't be written here]" in line for line in lines) >= 4
    assert "a\\u202eb [its name can't be written here]" in "\n".join(lines)


_NAMES = st.text(alphabet="ab*?", min_size=1, max_size=4)


@given(
    st.lists(_NAMES | st.just("**"), min_size=1, max_size=5),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=5),
)
def test_patterns_mean_what_they_say(names: list[str], path: list[str]) -> None:
    pattern = Pattern(names)
    state = pattern.start
    for name in path:
        state = pattern.after(state, name)
    assert (pattern.fits(state) if path else True) == (fits(names, path) if path else True)


def fits(names: list[str], path: list[str]) -> bool:
    """The same by another way: a regular expression over the whole path."""
    made = ""
    for name in [*names, "*"] if names[-1] == "**" else names:
        made += r"(?:[^/]+/)*" if name == "**" else re.escape(name).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") + "/"
    return re.fullmatch(made, "".join(f"{part}/" for part in path)) is not None


# Reading


def test_reading_page_by_page(root: Path) -> None:
    lines = [f"line {number} " + "x" * (number % 90) for number in range(1, 401)]
    (root / "long.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    first = read(root, "long.txt")
    assert first.startswith("long.txt, page 1 of 4, lines 1 to ")
    assert first.endswith('Go on: read_file(path="long.txt", page=2)')
    shown: list[str] = []
    for number in range(1, 5):
        page = read(root, "long.txt", page=number)
        assert len(page) < PAGE_CHARS + 200
        shown += page.split("\n\nGo on:")[0].split("\n\n", 1)[1].split("\n")
    assert shown == lines
    assert " lines 1 to " in first
    assert f"of {len(lines)}\n" in first
    for number in (0, 5, -1):
        with pytest.raises(ToolError, match=f"has 4 pages: there is no page {number}"):
            read(root, "long.txt", page=number)


@given(st.text(alphabet="ab \n", max_size=300).map(lambda text: text * 60))
def test_pages_are_the_whole_text(text: str) -> None:
    starts = _starts(text)
    ends = [*starts[1:], len(text)]
    assert "".join(text[start:end] for start, end in zip(starts, ends, strict=True)) == text
    assert all(end - start <= PAGE_CHARS for start, end in zip(starts, ends, strict=True))
    assert all(end > start for start, end in zip(starts, ends, strict=True) if text)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("Grüße 北京 🚲".encode(), "Grüße 北京 🚲"),
        (b"\xef\xbb\xbf" + "Grüße".encode(), "Grüße"),
        ("Grüße".encode("utf-16"), "Grüße"),
        (b"\xfe\xff" + "Grüße".encode("utf-16-be"), "Grüße"),
        ("Grüße".encode("cp1252"), "Grüße"),
        (b"a\r\nb\rc", "a\nb\nc"),
        (b"red \x1b[31mtext", "red [31mtext"),
    ],
)
def test_texts_of_any_encoding(root: Path, data: bytes, shown: str) -> None:
    data, shown = data + b" and more of it, " * 20, shown + " and more of it, " * 20
    if b"\x00" in data[:30]:
        data, shown = data[: data.index(b" ")], shown[: shown.index(" ")]
    (root / "text.txt").write_bytes(data)
    text = read(root, "text.txt").split("\n\n", 1)[1]
    assert text == shown.rstrip()


def test_an_encoding_can_be_given(root: Path) -> None:
    (root / "gb.txt").write_bytes("北京的自行车".encode("gb18030"))
    assert "not UTF-8; if it looks garbled, give its encoding" in read(root, "gb.txt")
    assert read(root, "gb.txt", encoding="gb18030").endswith("北京的自行车")
    for name in ("no-such", "zip", "rot13", "idna", "unicode_escape", "x\x00y", "../x", "x" * 500):
        with pytest.raises(ToolError, match="There is no encoding"):
            read(root, "gb.txt", encoding=name)


def test_what_is_no_text_is_said(root: Path) -> None:
    (root / "photo.png").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(ToolError, match=r"photo\.png is no text \(image/png, 1,024 bytes\)\.$"):
        read(root, "photo.png")
    (root / "report.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)) * 4)
    with pytest.raises(ToolError, match="search_documents and open_document read such files"):
        read(root, "report.pdf")
    (root / "empty.txt").touch()
    assert read(root, "empty.txt") == "empty.txt is empty."


def test_of_a_huge_file_the_beginning_is_read(root: Path) -> None:
    (root / "huge.txt").write_text("北京" * 1000, encoding="utf-8")
    for most in (997, 998, 999):
        told = str(tools(root, max_read_bytes=most)[1].invoke({"path": "huge.txt"}))
        assert told.endswith(f"The file has 6,000 bytes; only the first {most} bytes of it can be read.")
        assert "北京北京" in told
        assert "not UTF-8" not in told


def test_what_is_missing_is_said(root: Path) -> None:
    with pytest.raises(ToolError, match=r"There is no file 'notes/boilr\.md'. Near to it: notes/boiler\.md\."):
        read(root, "notes/boilr.md")
    with pytest.raises(ToolError, match="There is no folder 'nots'"):
        read(root, "nots/boiler.md")
    with pytest.raises(ToolError, match=r"'notes' is a folder. list_files\(pattern=\"notes/\*\"\)"):
        read(root, "notes")
    with pytest.raises(ToolError, match=r"'readme.txt' is no folder"):
        read(root, "readme.txt/x")
    with pytest.raises(ToolError, match="The path is empty"):
        read(root, " ./ ")


# Writing


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


# Ways out


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


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/"
        for path in sorted(folder.rglob("*"))
    }


# By name, and in a run


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(ValueError, match="is not a folder: give one that exists"):
            file_tools(path)
    with pytest.raises(ValueError, match="above 0"):
        file_tools(tmp_path, max_read_bytes=0)


def test_a_folder_that_goes_away(root: Path) -> None:
    made = tools(root)
    root.rename(root.with_name("elsewhere"))
    for tool, args in zip(made, ({}, {"path": "a"}, {"path": "a", "content": "x"}), strict=True):
        with pytest.raises(ToolError, match=r"can't be used: it, or the folder itself, is gone"):
            tool.invoke(args)


def test_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAOGRAPH_FILES", raising=False)
    assert not available()["files"].ready
    with pytest.raises(ValueError, match=r"^TAOGRAPH_FILES is not set"):
        load("files")
    monkeypatch.setenv("TAOGRAPH_FILES", str(root))
    assert available()["files"].ready
    assert [tool.name for tool in load("files")] == ["list_files", "read_file", "write_file"]
    monkeypatch.setenv("TAOGRAPH_FILES", str(root / "none"))
    assert not available()["files"].ready
    with pytest.raises(ValueError, match=r"^TAOGRAPH_FILES: .* is not a folder"):
        load("files")


def test_a_run_over_files(root: Path) -> None:
    calls = [
        call("list_files", {"pattern": "notes"}),
        call("read_file", {"path": "../outside/secret.txt"}),
        call("write_file", {"path": "notes/bins.md", "content": "Tuesday", "mode": "insert"}),
        call("write_file", {"path": "notes/bins.md", "content": "Tuesday"}),
    ]
    model = ScriptedModel(replies=[*(AIMessage("", tool_calls=[one]) for one in calls), "Written down."])
    result = create_react_graph(model, file_tools(root)).invoke({"messages": [("user", "Note the bins.")]})
    told = [str(message.content) for message in result["messages"] if message.type == "tool"]
    assert "notes/boiler.md" in told[0]
    assert "leads up with .." in told[1]
    assert "are not valid, so it was not run: mode" in told[2]
    assert told[3] == "Created notes/bins.md (7 bytes)."
    assert (root / "notes/bins.md").read_text() == "Tuesday"
    assert result["stop"]["reason"] == "final"
