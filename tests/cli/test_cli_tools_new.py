"""`tao tools new`, and tools that an installed package brings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_support import PATIENCE, environment
from fake_openai_server import FakeOpenAI, Reply

ROOT = Path(__file__).parents[2]


def outcome(*command: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**environment(cwd), **more}
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_what_is_written_works_as_it_is(tao: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a folder" / "tools"
    done = tao("tools", "new", "word_count", "--dir", str(folder))
    assert (done.code, done.err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["test_word_count.py", "word_count.py"]
    assert f"--tools '{folder}/word_count.py':word_count" in done.out
    assert f"python -m pytest '{folder}/test_word_count.py'" in done.out
    assert "{{" not in (folder / "word_count.py").read_text() + (folder / "test_word_count.py").read_text()

    python = (sys.executable, "-m")
    tested = outcome(*python, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", ".", cwd=folder)
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    # Whatever a user's own settings are, those of the linters' makers and ours are met.
    for check in (("check",), ("format", "--check")):
        for settings, what in (("--isolated", "."), (f"--config={ROOT / 'pyproject.toml'}", "word_count.py")):
            linted = outcome(*python, "ruff", *check, "--no-cache", settings, what, cwd=folder)
            assert linted.returncode == 0, linted.stdout
    # With our settings (strict) and their cache: to read all libraries anew takes half a minute.
    cached = (f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}")
    typed = outcome(*python, "mypy", *cached, ".", cwd=folder, MYPYPATH=str(ROOT / ".ide"))
    assert typed.returncode == 0, typed.stdout


def test_a_run_takes_it(tao: Any, tmp_path: Path) -> None:
    assert tao("tools", "new", "word_count", "--dir", str(tmp_path)).code == 0
    counts = Reply(calls=[("word_count", {"text": "to be or not to be"})])
    with FakeOpenAI([counts, "There are 6 words."]) as server:
        asked = ("How many words are in: to be or not to be?", "--model", f"{server.url}#fake")
        done = tao("run", *asked, "--tools", f"{tmp_path}/word_count.py:word_count")
    assert done.code == 0
    assert "Observation: 6 words, 4 different ones." in done.out
    assert "Answer: There are 6 words." in done.out


def test_it_is_written_where_one_stands(tmp_path: Path) -> None:
    done = outcome(sys.executable, "-m", "taograph.cli", "tools", "new", "orders", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--tools orders.py:orders" in done.stdout
    assert (tmp_path / "orders.py").exists()


@pytest.mark.parametrize("there", ["orders.py", "test_orders.py"])
def test_nothing_is_overwritten(tao: Any, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    done = tao("tools", "new", "orders", "--dir", str(tmp_path))
    assert done.code == 1
    assert f"tao: {tmp_path / there} exists, and nothing was written" in done.err
    assert [path.read_text() for path in tmp_path.glob("*.py")] == ["mine"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("word-count", "is no name for a function: use letters, digits and _"),
        ("2words", "is no name for a function"),
        ("wörter", "is no name for a function"),
        ("a/b", "is no name for a function"),
        ("lambda", "is no name for a function"),
        ("", "is no name for a function"),
        ("x" * 65, "is no name for a function"),
        ("test_words", "would be taken for a test"),
        ("_words", "would be taken for a test, or for something private"),
        ("calculator", "there is a tool called 'calculator'"),
        ("json", "a module of Python is called 'json'"),
        ("langgraph", "a module langgraph exists"),
    ],
)
def test_names_that_cannot_be(tao: Any, tmp_path: Path, name: str, says: str) -> None:
    done = tao("tools", "new", name, "--dir", str(tmp_path))
    assert done.code == 2
    assert says in done.err
    assert list(tmp_path.glob("*.py")) == []


def test_a_folder_that_cannot_be_written(tao: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = tao("tools", "new", "orders", "--dir", str(tmp_path / "file"))
    assert done.code == 1
    assert "can't be written: File exists" in done.err


def test_help_names_it(tao: Any) -> None:
    assert "tao tools new word_count" in tao("tools", "--help").out
    assert "NAME" in tao("tools", "new", "--help").out


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed a package that brings a tool."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "taograph-shout"\nversion = "1.0"\n'
        '[project.entry-points."taograph.tools"]\nshout = "shouting:shout"\nbroken = "no_such_module:tool"\n'
        '[tool.setuptools]\npy-modules = ["shouting"]\n'
    )
    (source / "shouting.py").write_text(
        "from taograph.tools import tool\n\n\n"
        '@tool(effects="none")\ndef shout(text: str) -> str:\n'
        '    """Say it louder.\n\n    Args:\n        text: What to say.\n    """\n    return text.upper() + "!"\n'
    )
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(target))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, str(source))
    done = subprocess.run(pip, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert (target / "shouting.py").exists()
    shutil.rmtree(source)
    return target


def test_a_tool_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    tao = (sys.executable, "-W", "error", "-m", "taograph.cli")
    path = {"PYTHONPATH": os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH", ""))))}
    listed = outcome(*tao, "tools", cwd=tmp_path, **path)
    assert listed.returncode == 0, listed.stderr
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("shout ")]
    assert "Brought by the package taograph-shout." in line
    assert "\nbroken " in listed.stdout  # it is not imported to be listed
    with FakeOpenAI([Reply(calls=[("shout", {"text": "hear"})]), "HEAR!"]) as server:
        run = ("run", "Say hear.", "--model", f"{server.url}#fake", "--tools", "shout")
        done = outcome(*tao, *run, cwd=tmp_path, **path)
    assert done.returncode == 0, done.stderr
    assert "Observation: HEAR!" in done.stdout
    failed = outcome(*tao, "run", "x", "--model", "http://127.0.0.1:9/v1#x", "--tools", "broken", cwd=tmp_path, **path)
    assert failed.returncode == 2
    assert "broken: there is no module 'no_such_module' to import" in failed.stderr
