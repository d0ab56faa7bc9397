"""The local encyclopedia: making the file, and the figures that are known of a larger one."""

import gzip
import html
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import encyclopedia
import pytest

from taograph.tools.engines import wiki_corpus
from taograph.tools.engines.folding import folded
from taograph.tools.engines.wiki_corpus import Corpus, CorpusError, build_corpus
from taograph.tools.engines.wiki_text import Missing, Page, sentences
from taograph.tools.policy import ToolError
from taograph.tools.wikipedia import wikipedia_tools

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "wikipedia"


def title(found: Page | Missing) -> str | None:
    return found.title if isinstance(found, Page) else None


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_lines_becomes_a_database_once(
    tmp_path: Path, cache: Path, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encyclopedia.write(tmp_path / "small.jsonl")
    if packed:
        path = tmp_path / "small.jsonl.gz"
        path.write_bytes(gzip.compress((tmp_path / "small.jsonl").read_bytes()))
    corpus = Corpus(path)
    assert corpus.key == "corpus:small"
    assert not cache.exists()
    assert title(corpus.search("Titicaca")) == "Lake Titicaca"
    (made,) = cache.iterdir()
    monkeypatch.setattr(wiki_corpus, "build_corpus", lambda *_: pytest.fail("made again"))
    assert title(Corpus(path).search("Lake Poopo")) == "Lake Poopó"
    assert list(cache.iterdir()) == [made]


def test_a_changed_file_is_read_anew(tmp_path: Path, cache: Path) -> None:
    path = encyclopedia.write(tmp_path / "small.jsonl")
    corpus = Corpus(path)
    assert title(corpus.search("Lake Tana")) is None
    with path.open("a", encoding="utf-8") as lines:
        lines.write('\n{"title": "Lake Tana", "extract": "Lake Tana is in Ethiopia."}\n')
    assert title(corpus.search("Lake Tana")) == "Lake Tana"
    assert len(list(cache.iterdir())) == 1


def test_a_damaged_database_of_ours_is_made_again(tmp_path: Path, cache: Path) -> None:
    path = encyclopedia.write(tmp_path / "small.jsonl")
    Corpus(path).search("x")
    (made,) = cache.iterdir()
    made.write_bytes(b"not a database" * 100)
    assert title(Corpus(path).search("Tokyo")) == "Tokyo"


def test_several_may_make_it_at_once(tmp_path: Path, cache: Path) -> None:
    path, found = encyclopedia.write(tmp_path / "small.jsonl"), []
    threads = [threading.Thread(target=lambda: found.append(title(Corpus(path).search("Titicaca")))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["Lake Titicaca"] * 6
    assert len(list(cache.iterdir())) == 1


def test_a_database_can_be_given_itself(tmp_path: Path, cache: Path) -> None:
    database = tmp_path / "below" / "own.sqlite"
    pages = [{"title": " A  b ", "text": "First. Second."}, {"title": "A b", "text": "A later one of that title."}]
    assert build_corpus(pages, database) == 1
    database.chmod(0o444)
    assert wikipedia_tools(corpus=database)[0].invoke({"entity": "A b"}) == "First. Second."
    assert list(database.parent.iterdir()) == [database]
    assert not cache.exists()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('{"title": "A", "text": "x"}\n{"title": ', "line 2 is not JSON"),
        ("[1]\n", "page 1 is no object"),
        ('{"text": "x"}\n', "page 1 has no title"),
        ('\n{"title": "A"}\n', r"page 2 \('A'\) has no text"),
        ('{"title": "A", "text": "x", "aliases": "B"}\n', "aliases must be a list of titles"),
        ("", "there is no page in it"),
        ("[" * 100_000, r"bad\.jsonl: line 1 is nested too deeply"),
        ('{"title": "A", "text": "\\ud800"}\n', r"page 1 \('A'\) has half of a character"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, lines: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(CorpusError, match=says):
        build_corpus(path, tmp_path / "bad.sqlite")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ToolError, match=rf"^Wikipedia can't be read now: .*{says}") as caught:
        wikipedia_tools(corpus=path)[0].invoke({"entity": "A"})
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "content", [gzip.compress(b'{"title": "A", "text": "x"}\n' * 99, mtime=0)[:40], b"no gzip", b"\x1f\x8b"]
)
def test_a_broken_archive_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=r"bad\.jsonl\.gz can't be read after line"):
        Corpus(path).search("A")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        wikipedia_tools(corpus=tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="there is no such file"):
        wikipedia_tools(corpus=tmp_path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(ValueError, match="was not made by build_corpus"):
        wikipedia_tools(corpus=other)


def test_damage_that_shows_only_when_it_is_read_is_told(tmp_path: Path) -> None:
    database = tmp_path / "own.sqlite"
    build_corpus([{"title": f"Page {number}", "text": "words " * 200} for number in range(50)], database)
    content = bytearray(database.read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 200] = b"\xff" * 200
    database.write_bytes(content)
    (search, _) = wikipedia_tools(corpus=database)
    with pytest.raises(ToolError, match=r"the corpus own\.sqlite can't be read \(DatabaseError\)"):
        search.invoke({"entity": "Page 7"})


@pytest.mark.skipif(os.name == "nt", reason="files in use can't be removed there")
def test_a_file_that_goes_away_is_told(tmp_path: Path) -> None:
    path = encyclopedia.write(tmp_path / "small.jsonl")
    (search, _) = wikipedia_tools(corpus=path)
    path.unlink()
    with pytest.raises(ToolError, match=r"the corpus small\.jsonl can't be read"):
        search.invoke({"entity": "A"})


@pytest.mark.parametrize("entity", ['"', "AND OR NOT", "title:", "a*", "(", "';--", "\x00", "😀", "-", "near(a, b)"])
def test_no_name_breaks_the_query(tmp_path: Path, entity: str) -> None:
    assert isinstance(Corpus(encyclopedia.write(tmp_path / "small.jsonl")).search(entity), Missing)


def test_a_misspelt_name_finds_what_begins_like_it(tmp_path: Path) -> None:
    found = Corpus(encyclopedia.write(tmp_path / "small.jsonl")).search("Titicacca")
    assert found == Missing(("Lake Titicaca",))


def test_folding() -> None:
    assert folded("Gesellschaft  mit_beschränkter “Haftung” – É") == 'gesellschaft mit beschrankter "haftung" - e'


def test_sentences() -> None:
    assert sentences("It is in the U.S. state . . It ends!\n\nOne\n") == [
        "It is in the U.S.",
        "state.",
        "It ends!",
        "One",
    ]


# The figures that are known of 17,152 pages: those of 100 HotpotQA questions among two other sets.


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    path = DATA / "hotpotqa_distractor_100.json.gz"
    if not path.is_file():
        pytest.skip(f"the data for the figures is not here ({path.name} in ../shared/data)")
    return json.loads(gzip.decompress(path.read_bytes()))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def pages(questions: list[dict[str, Any]]) -> list[dict[str, str]]:
    def read(name: str) -> str:
        return gzip.decompress((DATA / name).read_bytes()).decode()

    def own() -> Iterator[dict[str, str]]:
        for question in questions:
            for name, parts in zip(question["context"]["title"], question["context"]["sentences"], strict=True):
                yield {"title": html.unescape(name), "text": html.unescape("".join(parts))}

    vital = [json.loads(line) for line in read("wiki_vital4_en.jsonl.gz").splitlines()]
    return [*own(), *vital, *json.loads(read("2wikimultihopqa_corpus_6119.json.gz"))]


def gold(question: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(html.unescape(name) for name in question["supporting_facts"]["title"]))


def test_the_known_figures_hold(questions: list[dict[str, Any]], pages: list[dict[str, str]], tmp_path: Path) -> None:
    assert len(pages) == 17_152
    build_corpus(pages, tmp_path / "hotpot.sqlite")
    corpus = Corpus(tmp_path / "hotpot.sqlite")
    search, _ = wikipedia_tools(corpus=tmp_path / "hotpot.sqlite")
    asked = opened = seen = held = first = 0
    for question in questions:
        names = gold(question)
        found = [corpus.search(name) for name in names]
        texts = [page.text for page in found if isinstance(page, Page)]
        shown = " ".join(search.invoke({"entity": name}) for name in names).lower()
        answer = question["answer"].lower()
        asked += len(names)
        opened += sum(title(page) == name for page, name in zip(found, names, strict=True))
        seen += answer in ("yes", "no") or answer in shown
        held += answer in ("yes", "no") or answer in " ".join(texts).lower()
        with wiki_corpus._reading(tmp_path / "hotpot.sqlite") as connection:
            first += wiki_corpus._similar(connection, question["question"])[0] in names
        connection.close()
    assert (asked, opened, seen, held, first) == (200, 200, 98, 100, 84)


def plain(parts: list[str]) -> list[str]:
    bare = ("".join(part.split()).strip(".") for part in parts)
    return [part for part in bare if part]


def test_sentences_are_parted_as_in_the_paper(pages: list[dict[str, str]]) -> None:
    """``wikienv.py`` ends every sentence with a full stop, also where one is there already; that alone is left out."""
    for page in pages:
        text = page.get("text", page.get("extract", ""))
        theirs: list[str] = []
        for paragraph in text.split("\n"):
            theirs += paragraph.strip().split(". ") if paragraph.strip() else []
        if not any(stop in text for stop in "。！？।۔።"):
            assert plain(sentences(text)) == plain(theirs), page["title"]
