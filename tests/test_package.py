"""What is installed is what the tree holds, and nothing else: packaging, imports, public names."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import taograph
from taograph.graphs import STRATEGIES

ROOT = Path(__file__).parents[1]
# Where a package's folder stands in the tree.
HOMES = {"taograph": ROOT / "src" / "taograph", "taograph/graphs": ROOT / "graphs", "taograph/tools": ROOT / "tools"}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Longer than about 400 lines, and why that is one idea.
ABOUT_400 = 440
LONG_FILES: dict[str, str] = {
    "tests/graphs/test_rivals.py": "one table, row by row",
    "tests/graphs/test_structured.py": "every form of answer through the same few helpers",
    "tests/graphs/test_approval.py": "every form of answer to a question, through the same few helpers",
    "tests/graphs/test_effects.py": "every way in which a call is left, through the same few helpers",
    "tests/graphs/test_dag.py": "when each call of a plan begins, through the same few helpers",
    "tests/graphs/test_one_writer_databases.py": "the same scenes on two databases and in several processes",
    "tests/graphs/test_text_prompts.py": "every shape of tool in every language",
    "tests/trace/test_stores.py": "the same scenes on three stores",
    "tests/graphs/test_window.py": "long runs, through the same scripted model",
}


def files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            yield path


def sources() -> list[Path]:
    return [path for home in HOMES.values() for path in files_below(home) if path.suffix == ".py"]


def python(code: str, *, path: Path | None = None, cwd: Path) -> str:
    """What a fresh interpreter prints, with one folder before all others on its path."""
    env = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=cwd, env=env)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


# The wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of the tree, built by the backend that pip calls."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    no_caches = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
    for name in ("graphs", "tools", "src"):
        shutil.copytree(ROOT / name, copy / name, ignore=no_caches)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    command = [sys.executable, "-c", build]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, cwd=copy)
    assert made.returncode == 0, made.stderr
    (file,) = out.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def site(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel as it is installed."""
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    return folder


def test_the_wheel_holds_the_tree(wheel: zipfile.ZipFile) -> None:
    expected = {f"{place}/{path.relative_to(home)}" for place, home in HOMES.items() for path in files_below(home)}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_nothing_else_lands_in_site_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops == {"taograph", f"taograph-{taograph.__version__}.dist-info"}


def test_what_the_wheel_says_of_itself(wheel: zipfile.ZipFile) -> None:
    info = f"taograph-{taograph.__version__}.dist-info"
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {PROJECT['version']}\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "tao = taograph.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    names = wheel.namelist()
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= set(names)
    assert {f"{place}/py.typed" for place in HOMES} <= set(names)


def test_the_wheel_works_without_the_tree(site: Path, tmp_path: Path) -> None:
    code = """
import importlib.util
import taograph
from taograph import create_react_graph
from taograph.models import ScriptedModel
graph = create_react_graph(ScriptedModel(replies=["From the wheel."]))
print(graph.invoke({"messages": [("user", "Who speaks?")]})["answer"])
print(taograph.__file__)
print(importlib.util.find_spec("graphs"), importlib.util.find_spec("tools"))
"""
    said, file, clashes = python(code, path=site, cwd=tmp_path).splitlines()
    assert said == "From the wheel."
    assert Path(file).is_relative_to(site)
    assert clashes == "None None"


# Imports


@cache
def imports_of(path: Path) -> tuple[tuple[str, ast.stmt, bool], ...]:
    """Each imported module of a file, and whether it is imported at the top."""
    tree = ast.parse(path.read_text("utf-8"))
    top = set(map(id, tree.body))
    return tuple((name, node, id(node) in top) for name, node in imports(tree))


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Each imported module; "." before the name for a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), node


def test_imports_are_absolute_and_name_the_package() -> None:
    """``import tools`` works in the tree, where its folder is on the path, and fails from a wheel."""
    looked_at = [*sources(), *files_below(ROOT / "tests"), *files_below(ROOT / "bench")]
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in looked_at
        if path.suffix == ".py"
        for name, node, _ in imports_of(path)
        if name.startswith(".") or name.partition(".")[0] in ("graphs", "tools", "src")
    ]
    assert not wrong


def needed(*extras: str) -> set[str]:
    """Distributions that a user has who installs the package with these extras."""
    listed = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return {canonicalize_name(Requirement(line).name) for line in listed}


def undeclared(paths: Iterable[Path], at_once: set[str], later: set[str]) -> list[str]:
    """Imports of what is not declared, at the top of a module and within functions."""
    brought_by = packages_distributions()
    found = []
    for path in paths:
        for name, node, at_top in imports_of(path):
            top = name.partition(".")[0]
            owners = {canonicalize_name(owner) for owner in brought_by.get(top, [top])}
            if top not in sys.stdlib_module_names and not owners & (at_once if at_top else later):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    return found


def test_what_is_imported_is_declared() -> None:
    """A module that another package happens to bring may be gone with that one's next version."""
    core = needed() | {"taograph"}
    # Other providers' models come through LangChain, where the user has it; the message says so where not.
    optional = needed(*(extra for extra in PROJECT["optional-dependencies"] if extra != "dev")) | {"langchain"}
    named = HOMES["taograph"] / "trace" / "stores" / "postgres.py"  # by its URL; what is missing is said there
    loaded_by_name = [path for path in sources() if path == named or path.is_relative_to(HOMES["taograph/tools"])]
    others = [path for path in sources() if path not in loaded_by_name]
    assert undeclared(loaded_by_name, core | optional, core | optional) == []
    assert undeclared(others, core, core | optional) == []


def test_what_the_tests_import_is_declared() -> None:
    tests = [path for folder in ("tests", "bench") for path in files_below(ROOT / folder) if path.suffix == ".py"]
    have = needed(*PROJECT["optional-dependencies"]) | {canonicalize_name(path.stem) for path in tests}
    # Benchmarks make environments of their own; and a test of names asks whether the user has Presidio.
    have |= {"atheris", "langchain-classic", "llama-index", "crewai", "spacy", "presidio-analyzer"}
    assert undeclared(tests, have, have) == []


@pytest.mark.parametrize("statement", ["import taograph", "import taograph.models", "from taograph import __version__"])
def test_importing_the_package_is_light(statement: str, tmp_path: Path) -> None:
    loaded = set(python(f"{statement}\nimport sys\nprint(*sys.modules)", cwd=tmp_path).split())
    assert "taograph" in loaded
    heavy = {"langchain", "langchain_core", "langchain_openai", "langgraph", "langsmith", "pydantic", "openai", "httpx"}
    assert not loaded & heavy


# Names


def modules() -> list[str]:
    """Every module of the tree, as it is imported."""
    dotted = {
        ".".join(Path(place, path.relative_to(home)).with_suffix("").parts).removesuffix(".__init__")
        for place, home in HOMES.items()
        for path in files_below(home)
        if path.suffix == ".py" and path.stem != "__main__"  # which runs when it is imported
    }
    return sorted(dotted)


def test_every_module_imports() -> None:
    assert {"taograph", "taograph.graphs.react", "taograph.tools.policy", "taograph.models.local"} <= set(modules())
    for name in modules():
        importlib.import_module(name)


def test_public_names_resolve() -> None:
    for name in modules():
        module = importlib.import_module(name)
        public = getattr(module, "__all__", [])
        assert len(public) == len(set(public)), name
        for each in public:
            assert getattr(module, each) is not None, f"{name}.{each}"


def test_names_loaded_when_used_are_those_a_type_checker_sees() -> None:
    for name, file in {"taograph": "__init__.py", "taograph.models": "models/__init__.py"}.items():
        module = importlib.import_module(name)
        tree = ast.parse((HOMES["taograph"] / file).read_text("utf-8"))
        (checking,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
        seen = {alias.name for n in checking.body if isinstance(n, ast.ImportFrom) for alias in n.names}
        assert set(module._HOMES) == seen
        assert set(module.__all__) == seen | ({"__version__"} if name == "taograph" else set())
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = module.no_such_name


def test_the_version_is_one() -> None:
    assert taograph.__version__ == PROJECT["version"]
    assert f"## {PROJECT['version']} " in (ROOT / "CHANGELOG.md").read_text("utf-8")


# The tree


def test_the_server_finds_every_strategy() -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text("utf-8"))["graphs"]
    assert set(graphs) == set(STRATEGIES)
    for name, spec in graphs.items():
        file, _, variable = spec["path"].partition(":")
        assert spec["description"].strip()
        # As the server imports it: a file by itself, in no package.
        found = importlib.util.spec_from_file_location(f"served_{name}", ROOT / file)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        graph = getattr(module, variable)
        assert graph.name == name
        assert graph.checkpointer is None, "the server brings its own"
        assert graph.store is None


def test_editors_and_the_type_checker_see_the_whole_package() -> None:
    """``.ide/taograph`` puts the parts of the package together as an installation does."""
    links = {path.name: path for path in (ROOT / ".ide" / "taograph").iterdir()}
    parts = [path for path in HOMES["taograph"].iterdir() if path.name != "__pycache__"]
    expected = {path.name: path for path in [*parts, HOMES["taograph/graphs"], HOMES["taograph/tools"]]}
    assert set(links) == set(expected)
    for name, link in links.items():
        assert link.is_symlink(), link
        assert not Path(os.readlink(link)).is_absolute(), link
        assert link.resolve() == expected[name].resolve(), link


def test_every_folder_of_modules_is_a_package() -> None:
    for path in sources():
        assert (path.parent / "__init__.py").is_file(), f"{path.parent} has no __init__.py, so no wheel would hold it"


def test_files_are_short() -> None:
    looked_at = [*sources(), *files_below(ROOT / "tests"), *files_below(ROOT / "bench"), ROOT / "setup.py"]
    lines = {str(p.relative_to(ROOT)): p.read_text("utf-8").count("\n") for p in looked_at if p.suffix == ".py"}
    assert {name: count for name, count in lines.items() if count > ABOUT_400 and name not in LONG_FILES} == {}
    assert set(LONG_FILES) <= {name for name, count in lines.items() if count > ABOUT_400}, "no longer long: drop it"


def test_nothing_of_one_machine_is_in_the_tree() -> None:
    looked_at = [*sources(), ROOT / "pyproject.toml", ROOT / "requirements.lock", ROOT / "langgraph.json"]
    home = re.compile(r"(?<![\w.~])/(?:home|root|Users|work)/")
    for path in looked_at:
        assert not home.search(path.read_text("utf-8")), path
