"""The document tools over a folder, as a model uses them: searching and reading."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import handbook
import pytest
from handbook import search, write
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.tools import BaseTool

from taograph.tools.documents import document_tools
from taograph.tools.engines.document_index import DocumentIndex
from taograph.tools.policy import ToolError, policy_of


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


def test_first_calls_that_come_at_once_share_one_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[DocumentIndex] = []
    opening, asked = threading.Event(), threading.Event()
    plain = DocumentIndex.open

    def slow(*given: Any) -> DocumentIndex:
        made.append(plain(*given))
        opening.set()
        assert asked.wait(30)
        return made[-1]

    monkeypatch.setattr(DocumentIndex, "open", slow)
    tools = document_tools(folder)
    assert not made, "nothing is opened before it is needed"
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(search, tools, "parcel")
        assert opening.wait(30)
        second = pool.submit(search, tools, "parcel")
        asked.set()
        assert first.result() == second.result()
    assert len(made) == 1


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


@settings(max_examples=150, deadline=None)
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
        _fuzzed.extend(document_tools(handbook.fill(factory.mktemp("fuzzed"))))
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
