"""The document tools over a folder: finding, reading, and keeping up with what changes."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import handbook
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool

from taograph.tools import document_store
from taograph.tools.document_index import DocumentIndex, IndexReport, IndexUnavailable
from taograph.tools.documents import document_tools, index_folder
from taograph.tools.policy import ToolError, policy_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return handbook.write(tmp_path / "docs")


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def age(*paths: Path) -> None:
    """Make files look unchanged for an hour, so that their times alone say so."""
    for path in paths:
        os.utime(path, (time.time() - 3600,) * 2)


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.added, report.updated, report.removed, report.unchanged


def search(tools: list[BaseTool], query: str, **more: object) -> str:
    answer = tools[0].invoke({"query": query, **more})
    assert isinstance(answer, str)
    return answer


# --- What a model sees


def test_the_answer_comes_first_with_where_it_stands(folder: Path) -> None:
    found = search(document_tools(folder), "how long is an uncollected parcel kept?")
    assert found.startswith("1. Depot handbook — Storing parcels: A parcel that nobody collects is kept for 21 days")
    assert '[document "depot/handbook.md", page 1]' in found


def test_its_examples_are_what_the_tools_return(folder: Path) -> None:
    tools = document_tools(folder)
    assert [len(policy_of(tool).examples) for tool in tools] == [2, 1]
    for tool in tools:
        for shown in policy_of(tool).examples:
            assert tool.invoke(dict(shown.args)) == shown.observation


def test_they_read_only_and_are_somebody_elses_words(folder: Path) -> None:
    for tool in document_tools(folder):
        policy = policy_of(tool)
        assert (policy.effects, policy.trusted, policy.max_chars) == ("none", False, None)
        for name, argument in tool.tool_call_schema.model_json_schema()["properties"].items():
            assert argument["description"], name
    search_tool, open_tool = document_tools(folder)
    assert search_tool.description.startswith("Search the user's own documents. Example: search_documents(query=")
    assert (search_tool.name, open_tool.name) == ("search_documents", "open_document")


def test_what_comes_back_is_bounded(folder: Path) -> None:
    for number in range(12):
        write(folder, f"{number}.txt", f"A note on zebras, number {number}. " * 400)
    tools = document_tools(folder)
    assert 900 < len(search(tools, "zebras note")) <= 1500
    assert search(tools, "zebras", limit=1).count("[document") == 1
    assert search(tools, "zebras", limit=0).count("[document") == 1
    many = search(tools, "zebras", limit=1000)
    assert 4 <= many.count("[document") <= 10
    assert len(many) <= 4000
    assert len(tools[1].invoke({"document": "1.txt"})) < 3400


def test_a_long_passage_is_shown_around_the_words(folder: Path) -> None:
    filler = "and so it went on for quite a while "
    write(folder, "a.txt", filler * 8 + "zebra crossing opened in May " + filler * 8)
    write(folder, "b.txt", filler * 8 + "zebra crossing " + filler * 8)
    write(folder, "c.txt", "zebra crossing")
    found = search(document_tools(folder), "zebra crossing")
    assert found.count("[document") == 3
    for part in found.split("\n\n"):
        assert "zebra crossing" in part
    assert "…" in found


def test_words_need_not_be_the_same_or_all_there(folder: Path) -> None:
    tools = document_tools(folder)
    assert "form D4" in search(tools, "photographing damages")
    assert "form D4" in search(tools, "PARCEL damaged spaceship")
    assert "0.34" in search(tools, "what's paid for the kilometres?")
    write(folder, "cafe.txt", "Le café ouvre à huit heures; 東京都の天気予報 ; Donaudampfschifffahrt")
    tools = document_tools(folder)
    assert "huit heures" in search(tools, "cafe ouvre")
    assert "東京都" in search(tools, "天気")
    assert "Donau" in search(tools, "dampfschiff")
    assert search(tools, "spaceship") == "No passage has these words. Search again with other or fewer words."


def test_an_empty_question_and_an_empty_folder(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ToolError, match="query is empty"):
        search(document_tools(folder), "  ")
    assert search(document_tools(folder), "?!").startswith("No passage")
    (tmp_path / "empty").mkdir()
    assert search(document_tools(tmp_path / "empty"), "parcel") == "There are no documents to search."


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example('"')
@example("parcel AND")
@example("NEAR(parcel, 3)")
@example("text : parcel*")
@example("^parcel + -parcel")
@example("parcel' OR 1=1; DROP TABLE passages; --")
@example("\x00parcel\x02\x03")
@example("{title heading}: parcel")
@example("a " * 5000 + "parcel " * 5000)
@example("x" * 100_000)
@given(
    st.text(min_size=1, max_size=80)
    | st.text(alphabet='"*^:+-(){}AND OR NOT NEAR,.parcel\x00', min_size=1, max_size=60)
)
def test_no_query_fails(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    tools = fuzzed(tmp_path_factory)
    if query.strip():
        assert len(search(tools, query)) <= 1500
        assert tools[1].invoke({"document": "depot/handbook.md", "find": query})


_fuzzed: list[BaseTool] = []


def fuzzed(factory: pytest.TempPathFactory) -> list[BaseTool]:
    if not _fuzzed:
        _fuzzed.extend(document_tools(handbook.write(factory.mktemp("fuzzed"))))
    return _fuzzed


def test_a_document_is_read_page_by_page(folder: Path) -> None:
    text = "# Log\n" + "\n\n".join(f"## Day {day}\n" + f"Entry {day} of the log. " * 30 for day in range(1, 21))
    write(folder, "log.md", text)
    _, open_document = document_tools(folder)
    first = open_document.invoke({"document": "log.md"})
    (pages,) = re.findall(r'^Log \(document "log.md"\), page 1 of (\d+)\n', first)
    assert first.endswith('\n\nGo on: open_document(document="log.md", page=2)')
    read = [open_document.invoke({"document": "log.md", "page": page}) for page in range(1, int(pages) + 1)]
    assert max(map(len, read)) <= 3200
    whole = "\n".join(read)
    assert [day for day in range(1, 21) if f"## Day {day}\n" not in whole] == []
    assert sum(whole.count(f"Entry {day} of the log.") for day in range(1, 21)) == 600
    assert "Go on" not in read[-1]
    for page in (0, -1, int(pages) + 1):
        with pytest.raises(ToolError, match=rf"has {pages} pages, 1 to {pages}: there is no page {page}"):
            open_document.invoke({"document": "log.md", "page": page})


def test_words_are_found_within_a_document(folder: Path) -> None:
    _, open_document = document_tools(folder)
    found = open_document.invoke({"document": "depot/handbook.md", "find": "Saturday opening"})
    assert found.startswith(
        'Depot handbook (document "depot/handbook.md"), what fits best first\n\nPage 1, Opening hours:'
    )
    assert "bicycle" not in open_document.invoke({"document": "depot/handbook.md", "find": "parcel bicycle"})
    assert open_document.invoke({"document": "depot/handbook.md", "find": "bicycle"}) == (
        'Nothing in "depot/handbook.md" has these words. It has 1 page(s) to read.'
    )


def test_a_name_that_no_document_has(folder: Path) -> None:
    write(folder, "other/handbook.md", "# Depot handbook\nAn older one.")
    _, open_document = document_tools(folder)
    with pytest.raises(ToolError, match=r'closest are: "staff/travel-expenses.md"'):
        open_document.invoke({"document": "travel expenses policy"})
    with pytest.raises(ToolError, match=r'closest are: "depot/handbook.md", "other/handbook.md"'):
        open_document.invoke({"document": "Depot Handbook"})
    with pytest.raises(ToolError, match="Use search_documents to find its name"):
        open_document.invoke({"document": "../../etc/passwd"})
    assert "receipts" in open_document.invoke({"document": "Travel expenses"})
    assert "receipts" in open_document.invoke({"document": " STAFF/travel-expenses.md "})


async def test_it_works_from_an_event_loop(folder: Path) -> None:
    tools = document_tools(folder)
    found = await asyncio.gather(*(tools[0].ainvoke({"query": "parcel days"}) for _ in range(8)))
    assert all("21 days" in each for each in found)


# --- Keeping up with the folder


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


# --- The database


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
    monkeypatch.setattr("taograph.tools.document_folder._READING", "another:")
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
from taograph.tools.document_index import index_folder
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
