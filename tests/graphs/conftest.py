"""Makes the helpers beside the test folders importable; the two ways to stream; servers over real HTTP."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from http_support import serve  # noqa: F401 - a fixture
from stream_support import Streams, acollect, collect

from taograph import checkpoints
from taograph.graphs.loop import session


@pytest.fixture(params=[collect, acollect], ids=["stream", "astream"])
def steps(request: pytest.FixtureRequest) -> Streams:
    streams: Streams = request.param
    return streams


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Any]:
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as opened:
        yield opened


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is made again is made at once."""
    monkeypatch.setattr(session, "_FIRST_PAUSE", 0.0)
