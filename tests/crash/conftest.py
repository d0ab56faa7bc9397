"""A process that forks workers, and a database for all threads of the session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import Story, Worker, started
from postgres_server import PostgresServer, Unavailable, running

_numbers = count(1)
NewStory = Callable[..., Story]


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    if not hasattr(sys.modules["os"], "fork"):
        pytest.skip("needs fork")
    with started() as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg_pool", reason="needs taograph[postgres]")
    pytest.importorskip("langgraph.checkpoint.postgres", reason="needs taograph[postgres]")
    try:
        with running() as made:
            yield made
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


WHERE = [
    "sqlite-sync",
    "postgres-async",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("sqlite-async", "postgres-sync")),
]


@pytest.fixture(params=WHERE)
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A database that all threads share, and how the graph is run."""
    kind, _, way = request.param.partition("-")
    if kind == "postgres":
        return {"url": request.getfixturevalue("server").url(), "way": way}
    return {"url": f"sqlite:///{tmp_path_factory.getbasetemp()}/runs.db", "way": way}


@pytest.fixture
def new_story(worker: Worker, where: dict[str, Any], tmp_path: Path) -> NewStory:
    """Makes a thread of its own."""

    def make(**more: Any) -> Story:
        number = next(_numbers)
        job = {**where, "thread": f"{where['way']}-{number}", **more}
        return Story(worker, job, tmp_path / f"log-{number}")

    return make


@pytest.fixture(scope="session")
def undisturbed(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of the run when nobody kills it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    story = Story(worker, {"url": f"sqlite:///{folder}/runs.db", "way": "sync", "thread": "t"}, folder / "log")
    result = story.end()
    assert result["stop"]["reason"] == "step_limit", result
    assert result["answer"].count("receipt") == 7, result
    story.check(result, result)
    return result
