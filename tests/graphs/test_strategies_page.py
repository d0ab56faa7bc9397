"""docs/strategies.md says of every strategy what the code says, and draws it as it is."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from taograph.graphs import STRATEGIES
from taograph.graphs.loop.options import Options

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "strategies.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawer() -> ModuleType:
    spec = spec_from_file_location("strategies_page", DOCS / "strategies_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_pictures_are_up_to_date(
    drawer: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert drawer.page(PAGE) == PAGE, "python docs/strategies_page.py"
    monkeypatch.setattr("sys.argv", ["strategies_page.py", "--check"])
    assert drawer.main() == 0
    old = tmp_path / "strategies.md"
    old.write_text(PAGE.replace("reason(reason)", "reason(thinks)"), encoding="utf-8")
    monkeypatch.setattr(drawer, "PAGE", old)
    assert drawer.main() == 1
    assert "python docs/strategies_page.py" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["strategies_page.py"])
    assert drawer.main() == 0
    assert old.read_text(encoding="utf-8") == PAGE


def test_a_strategy_without_a_place_is_said(drawer: ModuleType) -> None:
    with pytest.raises(ValueError, match="no place for rewoo"):
        drawer.page(PAGE.replace("<!-- end of rewoo -->\n", ""))


def test_every_strategy_has_its_row_its_part_and_its_figures() -> None:
    rows = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted((name, name) for name in STRATEGIES)
    assert sorted(set(re.findall(r"^## (\w+)$", PAGE, re.MULTILINE))) == sorted(STRATEGIES)
    measured = PAGE.partition("<!-- strategies: begin -->")[2].partition("| Of 21 samples")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", measured, re.MULTILINE)) == sorted(STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_options_it_names_are_there(name: str) -> None:
    part = PAGE.partition(f"\n## {name}\n")[2].partition("<!--")[0]
    options = set(signature(STRATEGIES[name]).parameters) | set(Options.__annotations__)
    assert set(re.findall(r"`(\w+)=", part)) <= options
