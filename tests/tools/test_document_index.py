"""Keeping an index up with its folder, and the database that it is kept in."""

import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from handbook import search, write

from taograph.tools.documents import document_tools, index_folder
from taograph.tools.engines import document_store
from taograph.tools.engines.document_index import DocumentIndex, IndexReport, IndexUnavailable
from taograph.tools.policy import ToolError


def age(*paths: Path) -> None:
    """Make files look unchanged for an hour, so that their times alone say so."""
    for path in paths:
        os.utime(path, (time.time() - 3600,) * 2)


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.removed, report.unchanged


def test_only_what_changed_is_read_again(folder: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    def note(*file: object) -> None:
        seen.append(file)  # type: ignore[arg-type]

    first = index_folder(folder, on_file=note)
    assert counts(first) == (2, 0, 0, 0)
    assert seen == [("depot/handbook.md", 1, 2), ("staff/travel-expenses.md", 2, 2)]
    assert counts(index_folder(folder, on_file=note)) == (0, 0, 0, 2)
    write(folder, "staff/travel-expenses.md", "# Travel\nBy train only.")
    write(folder, "new.txt", "A new one.")
    assert counts(index_folder(folder, on_file=note)) == (1, 1, 0, 1)
    (folder / "new.txt").unlink()
    assert counts(index_folder(folder, on_file=note)) == (0, 0, 1, 2)
    assert [name for name, _, _ in seen[2:]] == ["new.txt", "staff/travel-expenses.md"]
    tools = document_tools(folder)
    assert "By train only" in search(tools, "travel")
    assert "mileage" not in search(tools, "travel mileage").lower()


def test_a_touched_file_is_not_read_again(folder: Path) -> None:
    index_folder(folder)
    age(folder / "depot/handbook.md")
    seen: list[str] = []
    for _ in range(2):
        report = index_folder(folder, on_file=lambda name, *_: seen.append(name))
        assert (counts(report), seen) == ((0, 0, 0, 2), [])


def test_a_change_is_found_by_the_next_search(folder: Path) -> None:
    path = write(folder, "code.txt", "the code is 1111")
    tools = document_tools(folder)
    assert "1111" in search(tools, "code")
    status = path.stat()
    write(folder, "code.txt", "the code is 2222")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the same size, within one tick of the clock
    assert until(lambda: "2222" in search(tools, "code"))
    path.unlink()
    assert until(lambda: "No passage" in search(tools, "code"))


def until(condition: object) -> bool:
    """Whether a condition comes true: looking for changes pauses for a moment after each look."""
    assert callable(condition)
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_an_unreadable_file_is_named_and_stops_nothing(folder: Path) -> None:
    write(folder, "a/broken.pdf", b"%PDF-1.4 nothing more")
    write(folder, "b/empty.txt", b"")
    write(folder, "c/noise.md", bytes(range(256)) * 9)
    write(folder, "picture.png", b"not looked at")
    for expected in ((2, 0, 0, 0), (0, 0, 0, 2)):
        report = index_folder(folder)
        assert counts(report) == expected
        assert [name for name, _ in report.failed] == ["a/broken.pdf", "b/empty.txt", "c/noise.md"]
        assert dict(report.failed)["b/empty.txt"] == "empty"
    write(folder, "b/empty.txt", "no longer")
    assert counts(index_folder(folder)) == (1, 0, 0, 2)
    write(folder, "depot/handbook.md", b"")
    report = index_folder(folder)
    assert (counts(report), len(report.failed)) == ((0, 0, 0, 2), 3)
    assert "21 days" not in search(document_tools(folder), "parcel days")


def test_a_file_that_needs_a_library_is_read_once_it_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docx = pytest.importorskip("docx", reason="needs taograph[docs]")
    made = docx.Document()
    made.add_paragraph("The cellar key hangs behind the door.")
    made.save(str(folder / "keys.docx"))
    age(folder / "keys.docx")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "docx", None)
        report = index_folder(folder)
        assert dict(report.failed)["keys.docx"] == ".docx files need docx: pip install taograph[docs]"
    assert (counts(index_folder(folder)), index_folder(folder).failed) == ((1, 0, 0, 2), ())


def test_hidden_files_links_out_and_pipes_are_left_alone(folder: Path, tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/secret.txt", "the zebra password")
    write(folder, ".hidden.txt", "zebra")
    write(folder, ".git/notes.txt", "zebra")
    (folder / "link.txt").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "circle.txt").symlink_to(folder / "circle.txt")
    (folder / "again.md").symlink_to(folder / "depot/handbook.md")
    (folder / "dead.txt").symlink_to(tmp_path / "nowhere.txt")
    os.mkfifo(folder / "pipe.txt")
    report = index_folder(folder)
    assert counts(report) == (2, 0, 0, 0)
    assert report.failed == (
        ("link.txt", "a link that leads out of the folder: not followed"),
        ("linked", "a link that leads out of the folder: not followed"),
    )
    assert "No passage" in search(document_tools(folder), "zebra")


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert counts(index_folder(tmp_path / "link")) == (2, 0, 0, 0)
    assert counts(index_folder(folder)) == (0, 0, 0, 2)


def test_names_of_any_characters(folder: Path) -> None:
    write(folder, 'a "b" ü.txt', "zebra one")
    (Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt"))).write_text("zebra two", encoding="utf-8")
    assert counts(index_folder(folder)) == (4, 0, 0, 0)
    assert counts(index_folder(folder)) == (0, 0, 0, 4)
    _, open_document = document_tools(folder)
    assert "zebra one" in open_document.invoke({"document": 'a "b" ü.txt'})
    assert "zebra two" in open_document.invoke({"document": "caf\ufffd.txt"})


def test_a_folder_that_goes_away_keeps_its_index(folder: Path, tmp_path: Path) -> None:
    tools = document_tools(folder)
    assert "21 days" in search(tools, "parcel days")
    folder.rename(tmp_path / "moved")
    with pytest.raises(IndexUnavailable, match="isn't there"):
        index_folder(folder)
    time.sleep(2.1)
    with pytest.raises(ToolError, match=r"can't be read now.*`tao index`"):
        search(tools, "parcel days")
    (tmp_path / "moved").rename(folder)
    assert counts(index_folder(folder)) == (0, 0, 0, 2)


def test_a_folder_inside_that_may_not_be_entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_folder(folder)
    enter = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "depot":
            raise PermissionError(13, "Permission denied")
        return enter(path)

    monkeypatch.setattr(os, "scandir", refuse)
    report = index_folder(folder)
    assert counts(report) == (0, 0, 0, 1)
    assert report.failed == (("depot", "no permission to look into this folder"),)
    monkeypatch.undo()


def test_no_such_folder(tmp_path: Path, folder: Path) -> None:
    for path in (tmp_path / "none", folder / "depot/handbook.md"):
        with pytest.raises(ValueError, match="is not a folder"):
            document_tools(path)
        with pytest.raises(IndexUnavailable, match="give one that exists"):
            index_folder(path)


def database(cache: Path) -> Path:
    (path,) = (cache / "documents").glob("*.sqlite")
    return path


def test_it_is_kept_in_the_cache_for_its_owner_only(folder: Path, cache: Path) -> None:
    index_folder(folder)
    assert re.fullmatch(r"docs-[0-9a-f]{16}\.sqlite", database(cache).name)
    assert (cache / "documents").stat().st_mode & 0o077 == 0
    assert [path.name for path in folder.iterdir()] == ["depot", "staff"] or len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", ["all", "middle", "half", "header"])
def test_a_damaged_database_is_made_anew(folder: Path, cache: Path, damage: str) -> None:
    for number in range(30):
        write(folder, f"{number}.txt", f"parcel {number} " * 300)
    tools = document_tools(folder)
    assert "21 days" in search(tools, "parcel days")
    path = database(cache)
    data = bytearray(path.read_bytes())
    if damage == "all":
        data = bytearray(b"not a database" * 100)
    elif damage == "middle":
        data[4096:-4096] = os.urandom(len(data) - 8192)
    elif damage == "half":
        data = data[: len(data) // 2]
    else:
        data[:100] = b"\xff" * 100
    path.write_bytes(data)
    assert "21 days" in search(tools, "parcel days")
    assert "21 days" in search(document_tools(folder), "parcel days")
    assert path.with_name(path.name + ".damaged").exists()
    assert index_folder(folder).unchanged == 32


def test_a_database_of_an_older_version_is_made_anew(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(document_store, "_SCHEMA", document_store._SCHEMA - 1)
        index_folder(folder)
    assert counts(index_folder(folder)) == (2, 0, 0, 0)
    monkeypatch.setattr("taograph.tools.engines.document_folder._READING", "another:")
    assert counts(index_folder(folder)) == (0, 2, 0, 0)
    assert counts(index_folder(folder)) == (0, 0, 0, 2)


def test_a_database_of_something_else_is_never_touched(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (value TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="a database of something else"):
        DocumentIndex.open(folder, path).update()
    assert path.read_bytes() == before


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "file", "in the way")
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "file"))
    with pytest.raises(IndexUnavailable, match="set TAOGRAPH_CACHE to a folder that can be written"):
        index_folder(folder)
    with pytest.raises(ToolError, match="can't be read now"):
        search(document_tools(folder), "parcel")


INDEXING = """
import sys
from taograph.tools.engines.document_index import index_folder
report = index_folder(sys.argv[1])
assert not report.failed, report
print(report.added + report.updated + report.unchanged)
"""


def test_processes_may_index_and_search_at_once(folder: Path, cache: Path) -> None:
    for number in range(120):
        write(folder, f"{number}.txt", f"Note {number}: parcel of the day. " * 20)
    command = [sys.executable, "-c", INDEXING, str(folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    tools = document_tools(folder)
    answers = [search(tools, "parcel nobody collects") for _ in range(5)]
    for process in running:
        out, err = process.communicate(timeout=100)
        assert (process.returncode, out.strip()) == (0, b"122"), err.decode()
    assert all("21 days" in answer for answer in answers)
    with sqlite3.connect(database(cache)) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (122,)
        assert connection.execute("SELECT count(*) FROM passages WHERE text LIKE '%21 days%'").fetchone() == (1,)
        connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    connection.close()


def test_threads_share_one_first_indexing(folder: Path) -> None:
    for number in range(40):
        write(folder, f"{number}.txt", f"Note {number}: parcel of the day. " * 20)
    tools = document_tools(folder)
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(search(tools, "parcel nobody collects"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert len(answers) == 8
    assert all("21 days" in answer for answer in answers)


def test_what_was_indexed_before_a_stop_is_kept(folder: Path) -> None:
    for number in range(100):
        write(folder, f"n{number:03}.txt", f"Note {number}.")

    def stop(name: str, number: int, total: int) -> None:
        if number == 90:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_folder(folder, on_file=stop)
    read: list[str] = []
    report = index_folder(folder, on_file=lambda name, *_: read.append(name))
    assert report.added + report.updated + report.unchanged == 102
    assert len(read) < 102
