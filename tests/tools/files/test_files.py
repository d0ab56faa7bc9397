"""The file tools: what they list and read, and how they are had."""

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest
from filing import listed, read, tools, write
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.catalog import available, load
from taograph.tools.engines import file_store
from taograph.tools.engines.file_names import Pattern
from taograph.tools.files import PAGE_CHARS, _starts, file_tools
from taograph.tools.policy import ToolError, policy_of


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
