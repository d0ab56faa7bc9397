"""The commands around `tao run`: tools, graphs, doctor, index, model."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI

from taograph.cli import checks
from taograph.cli.errors import CommandError
from taograph.cli.model import resolved
from taograph.graphs import STRATEGIES
from taograph.models import catalog as models
from taograph.models.pull import Progress, PullError
from taograph.models.scripted import ScriptedModel

SECRET = "key-4711-very-secret"


def found(done: Any) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(done.out)["checks"]}


def test_tools_and_graphs_are_listed(tao: Any) -> None:
    listed = tao("tools")
    assert listed.code == 0
    for name in ("calculator", "search_documents", "open_document", "current_time", "ask_person"):
        assert f"\n{name} " in listed.out
    strategies = tao("graphs")
    assert strategies.code == 0
    for name in STRATEGIES:
        assert f"\n{name} " in strategies.out
    assert "The ReAct loop" in strategies.out
    assert "\x1b" not in listed.out + strategies.out


def test_doctor_says_what_is_missing_and_fails(tao: Any) -> None:
    done = tao("doctor", "--json")
    assert done.code == 1
    assert json.loads(done.out)["works"] is False
    assert found(done)["model"]["status"] == "fail"
    assert "tao model pull" in found(done)["model"]["fix"]
    assert found(done)["packages"]["status"] == "ok"
    shown = tao("doctor")
    assert shown.code == 1
    assert "✗ model" in shown.out
    assert "→ tao model pull" in shown.out
    assert "tao run can't work yet" in shown.out


def test_doctor_reaches_the_endpoint_and_never_shows_the_key(tao: Any) -> None:
    with FakeOpenAI() as server:
        env = {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": server.url}
        for arguments in (["doctor", "--json"], ["doctor"]):
            done = tao(*arguments, env=env)
            assert done.code == 0
            assert "OPENAI_API_KEY" in done.out
            assert SECRET not in done.out + done.err
            assert "endpoint" in done.out
            assert "answers" in done.out
    down = tao("doctor", "--json", env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert down.code == 1
    assert "can't be reached" in found(down)["endpoint"]["detail"]
    assert SECRET not in down.out + down.err


@pytest.mark.parametrize(
    ("env", "name", "said"),
    [
        ({"TAOGRAPH_MODEL": "local:smollm2-135m"}, "model", "its file is not here"),
        ({"TAOGRAPH_MODEL": f"http://me:{SECRET}@127.0.0.1:9/v1#m"}, "model", "no password in the address"),
        ({"TAOGRAPH_MODEL": "http://127.0.0.1:9/v1"}, "model", "write the address"),
        ({"TAOGRAPH_DOCS": "/no/such/folder"}, "documents", "is not a folder"),
    ],
)
def test_doctor_finds_wrong_settings(tao: Any, env: dict[str, str], name: str, said: str) -> None:
    done = tao("doctor", "--json", env=env)
    assert done.code == 1
    assert found(done)[name]["status"] == "fail"
    assert said in found(done)[name]["detail"]
    assert SECRET not in done.out


def test_doctor_finds_folders_that_cannot_be_written(tao: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    checked = found(tao("doctor", "--json"))
    assert checked["cache"]["status"] == "fail"
    assert "Permission denied" in checked["cache"]["detail"]
    assert "TAOGRAPH_CACHE" in checked["cache"]["fix"]
    assert checked["threads"]["status"] == "note"
    assert "TAOGRAPH_DATA" in checked["threads"]["fix"]


def test_doctor_without_full_text_search_or_extras(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoSearch:
        def execute(self, _: str) -> None:
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self) -> None:
            pass

    monkeypatch.setattr("sqlite3.connect", lambda _: NoSearch())
    whole = checks._version
    monkeypatch.setattr(
        checks, "_version", lambda name: None if name in ("xllamacpp", "pypdf", "httpx") else whole(name)
    )
    checked = found(tao("doctor", "--json"))
    assert checked["full-text search"]["status"] == "note"
    assert checked["extra local"]["fix"] == 'pip install "taograph[local]"'
    assert "pypdf" in checked["extra docs"]["detail"]
    assert checked["packages"]["status"] == "fail"
    assert "httpx" in checked["packages"]["detail"]


def test_a_check_that_breaks_is_a_finding(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", SECRET)
    monkeypatch.setattr("platform.platform", lambda **_: 1 / 0)
    monkeypatch.setattr("taograph.models.pull.pulled", lambda: (_ for _ in ()).throw(OSError(SECRET)))
    done = tao("doctor", "--json")
    assert "could not be checked: ZeroDivisionError" in found(done)["python"]["detail"]
    assert found(done)["local models"]["status"] == "fail"
    assert SECRET not in done.out


def test_index_reports_and_names_what_could_not_be_read(tao: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nOne.\n")
    (folder / "b.txt").write_text("Two.\n")
    (folder / "c.docx").write_bytes(b"broken")
    done = tao("index", str(folder))
    assert done.code == 0
    assert "2 documents in the index: 2 new, 0 changed, 0 unchanged." in done.out
    assert "1 file could not be read:\n  c.docx: " in done.out
    (folder / "a.md").unlink()
    again = tao("index", str(folder))
    assert "1 document in the index: 0 new, 0 changed, 1 unchanged, 1 gone." in again.out
    (folder / "b.txt").unlink()
    nothing = tao("index", str(folder))
    assert nothing.code == 1
    assert "nothing to search" in nothing.err


def test_model_list_says_what_there_is(tao: Any, tmp_path: Path) -> None:
    done = tao("model", "list")
    assert done.code == 0
    for model in models.MODELS:
        assert f"\n{model.name} " in done.out
    assert "Apache-2.0" in done.out
    assert "None is here yet" in done.out


def test_pull_shows_the_license_and_prints_the_path(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name: str, *, progress: Any) -> Path:
        progress(Progress(0, 100, "hub"))
        progress(Progress(50, 100, "hub", "hub: no route, trying the index"))
        return Path("/models") / name

    monkeypatch.setattr("taograph.models.pull.pull", pull)
    done = tao("model", "pull", "smollm2-135m")
    assert done.code == 0
    assert done.out == "/models/smollm2-135m\n"
    assert "license: Apache-2.0, https://www.apache.org/" in done.err
    assert "trying the index" in done.err
    assert "0% of" in done.err


@pytest.mark.parametrize(
    ("trouble", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "`tao model pull smollm2-135m` goes on from there"),
        (PullError(models.MODELS[-1], {"hub": "no route", "index": "gone"}), 1, "hub: no route; index: gone"),
    ],
)
def test_an_interrupted_or_failed_pull_says_how_to_go_on(
    tao: Any, monkeypatch: pytest.MonkeyPatch, trouble: BaseException, code: int, said: str
) -> None:
    def pull(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr("taograph.models.pull.pull", pull)
    done = tao("model", "pull", "smollm2-135m")
    assert said in done.err
    assert "goes on from there" in done.err
    assert done.code == code
    assert done.out == ""


def test_yes_pulls_what_is_missing(tao: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tao("--version")  # sets the environment up
    fetched: list[str] = []

    def pull(name: str, *, progress: Any) -> Path:
        fetched.append(name)
        return Path(name)

    def resolve(spec: str) -> Any:
        return ScriptedModel(replies=["hi"])

    monkeypatch.setattr("taograph.models.pull.pull", pull)
    monkeypatch.setattr("taograph.models.resolving.resolve", resolve)
    assert isinstance(resolved(None, yes=True), ScriptedModel)
    assert fetched == [models.DEFAULT.name]
    with pytest.raises(CommandError, match="no model to ask"):
        resolved(None, yes=False)
    assert len(fetched) == 1
