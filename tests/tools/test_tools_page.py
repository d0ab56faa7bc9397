"""docs/tools.md says of every tool what the tool itself says."""

from __future__ import annotations

import json
import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from taograph.tools import catalog
from taograph.tools.engines.mcp_config import ServerSpec, read_config
from taograph.tools.policy import policy_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tools.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = spec_from_file_location("tools_table", DOCS / "tools_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_up_to_date(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ddgs", reason="needs taograph[web]")
    pytest.importorskip("sqlglot", reason="needs taograph[sql]")
    before = dict(os.environ)
    assert table.page(PAGE) == PAGE, "python docs/tools_table.py"
    assert dict(os.environ) == before
    monkeypatch.setattr("sys.argv", ["tools_table.py", "--check"])
    assert table.main() == 0
    monkeypatch.setattr(table, "PAGE", _changed(Path(os.environ["TAOGRAPH_CACHE"])))
    assert table.main() == 1
    assert "python docs/tools_table.py" in capsys.readouterr().err


def _changed(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "tools.md"
    path.write_text(PAGE.replace("| 10 |", "| 11 |"), encoding="utf-8")
    return path


def test_every_tool_stands_in_it() -> None:
    rows = {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)`.*$", PAGE, re.MULTILINE)}
    for name, info in catalog.available().items():
        if info.source == "taograph":
            assert f"`{name}`" in PAGE, name
    assert "| 10 | its own | nothing |" in rows["calculator"]
    (calculator,) = catalog.load("calculator")
    assert policy_of(calculator).timeout == 10


def test_its_examples_are_of_the_forms_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "a-token")
    monkeypatch.setenv("SHOP_TOKEN", "another-token")
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    found: dict[str, Any] = read_config(json.loads(example))
    assert all(isinstance(spec, ServerSpec) for spec in found.values())
    assert found["shop"].only == ("search", "order")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "@tool" in block]
    names: dict[str, Any] = {}
    exec(code, names)
    cancel = names["cancel_order"]
    assert (policy_of(cancel).effects, policy_of(cancel).timeout) == ("once", 20.0)
    assert cancel.args["number"]["description"] == "The order number, such as A-1042."
