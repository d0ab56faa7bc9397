"""Every example of docs/examples, run as its README says and held to what that shows."""

from __future__ import annotations

import ast
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_openai_server import FakeOpenAI, Reply

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
README = (EXAMPLES / "README.md").read_text("utf-8")
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "example")
ARGUMENTS = {"support_triage": ["--word", "yes"]}
each_example = pytest.mark.parametrize("name", NAMES)


class Runner:
    """Runs an example in the test's process; ``text`` is what it printed."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys

    def __call__(self, name: str, *arguments: str) -> str:
        self._patch.setattr(sys, "argv", [f"docs/examples/{name}.py", *arguments])
        self._capsys.readouterr()
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return self._capsys.readouterr().out

    def fails(self, name: str, *arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as ended:
            self(name, *arguments)
        return ended.value.code, self._capsys.readouterr().err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    for name in [name for name in os.environ if re.match("TAOGRAPH_|OPENAI_|SEARXNG_", name)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody is there
    for folder in (EXAMPLES, ROOT / "tests" / "tools"):
        monkeypatch.syspath_prepend(str(folder))
    return Runner(monkeypatch, capsys)


def plain(text: str) -> str:
    """What is printed, without what changes from run to run: the port of the example's own server."""
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text).strip()


def shown(name: str) -> str:
    """What the README shows of an example."""
    section = README.partition(f"\n## {name}.py\n")[2].partition("\n## ")[0]
    found = re.search(r"```text\n(.*?)```", section, re.DOTALL)
    assert found, f"docs/examples/README.md shows no output of {name}.py"
    return plain(found[1])


# As they are


@each_example
def test_it_prints_what_the_readme_shows(name: str, run: Runner) -> None:
    printed = run(name, *ARGUMENTS.get(name, []))
    assert plain(printed) == shown(name)
    assert "Model: scripted" in printed
    assert "Answer (scripted): " in printed
    assert "Stop: final at step " in printed


@each_example
def test_it_is_small_and_says_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert len(text.splitlines()) <= (135 if name == "pipeline" else 90)  # three strategies, and a state of its own
    assert f".venv/bin/python docs/examples/{name}.py" in (ast.get_docstring(ast.parse(text)) or "")
    assert f"[{name}.py]({name}.py)" in README, "the README lists it"


def test_company_research_takes_three_steps(run: Runner) -> None:
    printed = run("company_research")
    assert re.findall(r"^Action \d: (\w+)", printed, re.MULTILINE) == ["web_search", "open_page"]
    assert "Stop: final at step 3" in printed
    assert "4,312 employees, as of 30 June 2026" in printed.partition("Answer")[2]


def test_as_a_command_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "docs/examples/embed.py"],
        cwd=ROOT,
        env={**os.environ, "TAOGRAPH_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, plain(done.stdout)) == (0, shown("embed")), done.stderr


# The person of support_triage


def test_what_the_person_refuses_is_not_written(run: Runner) -> None:
    printed = run("support_triage", "--word", "No, it is not urgent.")
    assert "Observation 3: Not written. The person said: No, it is not urgent." in printed
    assert printed.endswith("Written: nothing\n")


def test_the_person_is_asked_in_the_terminal(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(" Yes \n"))
    assert "Written: Ticket 1042 for the team Exports, priority high: " in run("support_triage")


def test_nothing_goes_on_where_nobody_answers(run: Runner) -> None:
    code, _ = run.fails("support_triage")
    assert code == "Nobody is there to answer."


# Other models


def test_another_model_is_named_and_its_answer_is_its_own(run: Runner) -> None:
    replies = [Reply(calls=[("calculator", {"expression": "2+2"})]), "It is 4."]
    with FakeOpenAI(replies) as server:
        printed = run("embed", "--model", f"{server.url}#my-model", "What is 2 + 2?")
    assert "[work_out] Model: my-model\n" in printed
    assert "[work_out] Observation 1: 4\n" in printed
    assert printed.endswith(
        "[work_out] Answer (my-model): It is 4.\nLetter: Dear Ms. Sample, about your discount: It is 4.\n"
    )
    assert "scripted" not in printed


def test_an_end_without_an_answer_is_told_as_it_is(run: Runner) -> None:
    again = [Reply(calls=[("calculator", {"expression": f"{number}+1"})]) for number in range(5)]
    with FakeOpenAI([*again, "I got no further than 5."]) as server:
        printed = run("embed", "--model", f"{server.url}#my-model")
    assert "[work_out] Stop: step_limit at step 5 (5 of 5 steps used)" in printed
    assert "to be checked by a person" in printed


@pytest.mark.parametrize("name", ["company_research", "own_database", "support_triage", "two_hop"])
def test_worked_examples_stand_before_the_question(name: str, run: Runner) -> None:
    """As a run would show them; what the question asks for is not in them."""
    with FakeOpenAI(["I do not know."] * 3) as server:
        run(name, "--model", f"{server.url}#my-model")
    messages = server.requests[0]["messages"]
    asked = next(number for number, message in enumerate(messages) if message["content"] == question_of(name))
    before = [message for message in messages[:asked] if message["role"] == "tool"]
    assert len(before) >= 4
    texts = [message["content"] for message in before]
    assert all(text.startswith(("[Data from the tool ", "Written", "Not written")) for text in texts)
    for word in ("Example Corp", "4,312", "teapot", "cup", "1042", "Exports", "Mira", "Specimen"):
        assert not any(word.lower() in text.lower() for text in texts)


def question_of(name: str) -> str:
    found = re.search("^Question: (.*)$", shown(name), re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("embed", "What is 2 + 2?"),
        ("two_hop", "--live"),
        ("company_research", "--live"),
        ("own_database", "--url", "sqlite:///my.db"),
    ],
)
def test_the_script_answers_nothing_but_its_own_question(arguments: tuple[str, ...], run: Runner) -> None:
    code, said = run.fails(*arguments)
    assert code == 2
    assert "name a model with --model" in said


def test_a_model_that_cannot_be_had_is_an_error_of_usage(run: Runner) -> None:
    code, said = run.fails("embed", "--model", "openai:gpt-5-mini")
    assert code == 2
    assert "needs OPENAI_API_KEY" in said


# Other data


def test_a_database_of_ones_own(run: Runner, tmp_path: Path) -> None:
    import sqlite3

    with FakeOpenAI([Reply(calls=[("sql_query", {"query": "SELECT n FROM t"})]), "It is 42."]) as server:
        url, model = f"sqlite:///{tmp_path / 'own.db'}", f"{server.url}#my-model"
        code, said = run.fails("own_database", "--url", url, "--model", model)
        assert (code, "there is no database file" in said) == (2, True)
        connection = sqlite3.connect(tmp_path / "own.db")
        connection.executescript("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (42);")
        connection.close()
        printed = run("own_database", "--url", url, "--model", model, "What is n?")
    assert "    n\n    42\n" in printed
    assert "Answer (my-model): It is 42." in printed


@pytest.mark.parametrize(("high", "answer"), [(12.3, "No: tomorrow, Sunday, the high"), (30.0, "Yes: tomorrow")])
def test_live_weather_comes_from_the_service(
    run: Runner, monkeypatch: pytest.MonkeyPatch, high: float, answer: str
) -> None:
    from fake_service import Service

    def meteo(asked: dict[str, str]) -> dict[str, Any]:
        if "name" in asked:
            return {"results": [{"name": "Athens", "latitude": 38.0, "longitude": 23.7}]}
        daily: dict[str, list[Any]] = {name: [None, None] for name in asked["daily"].split(",")}
        daily |= {"time": ["2026-07-04", "2026-07-05"], "temperature_2m_max": [20.0, high]}
        return {"timezone": "Europe/Athens", "current": {"time": "2026-07-04T09:15"}, "daily": daily}

    with Service(meteo) as service:
        monkeypatch.setenv("TAOGRAPH_GEOCODING_URL", f"{service.url}/search")
        monkeypatch.setenv("TAOGRAPH_FORECAST_URL", f"{service.url}/forecast")
        printed = run("hot_tomorrow", "--live")
    assert len(service.asked) == 2
    assert "made up" not in printed
    assert f"Answer (scripted): {answer}" in printed


def test_live_research_searches_with_what_is_set_and_opens_public_pages_only(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fake_service import Service

    with Service(lambda _: {"results": [{"title": "A", "url": "http://pages.example/a", "content": "b"}]}) as service:
        monkeypatch.setenv("SEARXNG_URL", service.url)
        replies = [
            Reply(calls=[("web_search", {"query": "Some Ltd"})]),
            Reply(calls=[("open_page", {"url": f"{service.url}/page"})]),
            "It could not be read.",
        ]
        with FakeOpenAI(replies) as server:
            printed = run("company_research", "--live", "--model", f"{server.url}#my-model", "How large is Some Ltd?")
    assert [asked["q"] for asked in service.asked] == ["Some Ltd"]
    assert "http://pages.example/a" in printed
    assert "Answer (my-model): It could not be read." in printed


# The local model, as the README tells of it


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "name", "answer"),
    [
        ("qwen2.5-coder-0.5b", "embed", "397.8"),
        ("qwen2.5-coder-0.5b", "own_database", "108"),
        ("qwen2.5-coder-1.5b", "hot_tomorrow", "38"),
        ("qwen2.5-coder-1.5b", "company_research", "4,312"),
        ("qwen2.5-coder-1.5b", "own_database", "108"),
    ],
)
def test_what_the_local_models_can_do(model: str, name: str, answer: str) -> None:
    from taograph.models.pull import pulled

    if model not in pulled():
        pytest.skip(f"{model} is not here: tao model pull {model}")
    done = subprocess.run(
        [sys.executable, f"docs/examples/{name}.py", "--model", f"local:{model}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Stop: final at step " in done.stdout
    assert answer in done.stdout.partition(f"Answer ({model}): ")[2], done.stdout
